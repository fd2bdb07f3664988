import { useEffect, useMemo, useSyncExternalStore } from "react";
import { EventText } from "../events/text";
import { useFleet } from "../nodes/hooks";
import { EventFeed } from "../store/feed";
import { Button, Failure, Spinner } from "../ui/parts";
import { day, full, short, zone } from "../ui/time";
import { Section } from "./section";

/** A node's events, newest first, as far back as they are kept. While the pointer is on them, what comes waits. */
export function Timeline({ nodeId, over }: { nodeId: string; over: boolean }) {
	const fleet = useFleet();
	const feed = useMemo(() => new EventFeed(fleet, { nodeId, over }, 25), [fleet, nodeId, over]);
	useEffect(() => {
		void feed.open();
		return () => feed.close();
	}, [feed]);
	const v = useSyncExternalStore(feed.subscribe, () => feed.view);
	let lastDay = "";
	return (
		<Section
			title="Events"
			aside={
				v.waiting > 0 ? (
					<button
						type="button"
						onClick={() => feed.release()}
						className="rounded border border-info/50 px-2 text-info hover:bg-hover"
					>
						{v.waiting} new
					</button>
				) : (
					v.events[0] && <span className="text-muted text-xs">times in {zone(v.events[0].at)}</span>
				)
			}
		>
			{v.events.length === 0 && v.loading === null && !v.error && <p className="text-muted">None are kept.</p>}
			{v.events.length > 0 && (
				<ol
					aria-label="Events, newest first"
					onPointerEnter={() => feed.hold()}
					onPointerLeave={() => feed.release()}
					className="flex flex-col"
				>
					{v.events.map((e) => {
						const today = day(e.at);
						const heading = today !== lastDay ? today : null;
						lastDay = today;
						return (
							<li key={e.id} className="py-0.5">
								{heading && <h3 className="mt-1 mb-0.5 text-muted text-xs">{heading}</h3>}
								<div className="grid grid-cols-[4.5rem_minmax(0,1fr)] gap-x-3">
									<time dateTime={e.at} title={full(e.at)} className="text-muted">
										{short(e.at)}
									</time>
									<EventText e={e} />
								</div>
								{v.gapAfter === e.id && (
									<p className="my-1 border-bad border-y py-0.5 text-bad text-xs">Some events in between are no longer kept.</p>
								)}
							</li>
						);
					})}
				</ol>
			)}
			{v.error && <Failure error={v.error} action={<Button onClick={() => void feed.open()}>Retry</Button>} />}
			{v.loading && (
				<p className="flex items-center gap-2 text-muted">
					<Spinner /> Reading…
				</p>
			)}
			{v.hasOlder && !v.loading && (
				<Button className="mt-1 self-start" onClick={() => void feed.older()}>
					Older
				</Button>
			)}
		</Section>
	);
}
