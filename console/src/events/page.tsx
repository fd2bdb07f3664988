import { useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { Choice } from "../nodes/filters";
import { useFleet, useStale } from "../nodes/hooks";
import { useKeys } from "../nodes/shortcuts";
import { EventFeed, type EventFilter, type EventLine } from "../store/feed";
import { GoNode } from "../ui/go";
import { Button, Copy, Failure, Spinner } from "../ui/parts";
import { day, full, short, zone } from "../ui/time";
import { EventText } from "./text";

const kinds: [string, string, string[]][] = [
	["", "all", []],
	["cordons", "cordons", ["node.cordoned", "node.uncordoned"]],
	["drains", "drains", ["node.draining", "node.drained"]],
	["sessions", "sessions", ["node.connected", "node.disconnected", "node.reconnected", "node.unreachable", "node.lost"]],
	["joins", "joins and adoption", ["node.joined", "node.rejoined", "node.adopting", "node.adopted", "node.adoption-failed"]],
	["bookings", "bookings", ["reservation.", "allocation."]],
	["security", "security", ["security."]],
];

type EventSearch = {
	tenant?: string | undefined;
	type?: string | undefined;
	actor?: string | undefined;
	node?: string | undefined;
};

function parse(raw: Record<string, unknown>): EventSearch {
	const text = (v: unknown) => (typeof v === "string" && v !== "" ? v : undefined);
	return { tenant: text(raw.tenant), type: text(raw.type), actor: text(raw.actor), node: text(raw.node) };
}

function toFilter(s: EventSearch): EventFilter {
	const known = kinds.find(([name]) => name === s.type);
	return { types: known ? known[2] : s.type ? [s.type] : [], actor: s.actor, nodeId: s.node };
}

const rowHeight = 28;

/** The log of a tenant as it is written, and backwards as far as it is kept. */
export default function EventsPage() {
	const fleet = useFleet();
	const search = parse(useSearch({ strict: false }) as Record<string, unknown>);
	const navigate = useNavigate();
	const stale = useStale(fleet);
	const key = JSON.stringify([search.type, search.actor, search.node]);
	const feed = useMemo(() => {
		const [type, actor, node] = JSON.parse(key) as (string | null)[];
		return new EventFeed(fleet, toFilter({ type: type ?? undefined, actor: actor ?? undefined, node: node ?? undefined }), 60);
	}, [fleet, key]);
	useEffect(() => {
		void feed.open();
		return () => feed.close();
	}, [feed]);
	const v = useSyncExternalStore(feed.subscribe, () => feed.view);
	const [paused, setPaused] = useState(false);
	const [away, setAway] = useState(false);
	const box = useRef<HTMLDivElement>(null);

	// Who pauses, or reads further down, is left in peace; what comes is counted and shown when they are back.
	useEffect(() => {
		if (paused || away) feed.hold();
		else feed.release();
	}, [feed, paused, away]);

	useEffect(() => {
		document.title = `Events · ${fleet.tenantId} · better-compute`;
	}, [fleet]);

	const setSearch = useCallback(
		(change: Partial<EventSearch>) =>
			void navigate({ to: "/events", search: (old: Record<string, unknown>) => ({ ...old, ...change }), replace: true }),
		[navigate],
	);
	useKeys((pressed, e) => {
		if (pressed !== " " || (e.target as HTMLElement).closest("button, a, summary")) return false;
		setPaused((p) => !p);
		return true;
	});

	const rows = useVirtualizer({
		count: v.events.length,
		getScrollElement: () => box.current,
		estimateSize: () => rowHeight,
		getItemKey: (i) => v.events[i]?.id ?? i,
		overscan: 15,
	});
	const items = rows.getVirtualItems();
	const last = items.at(-1)?.index ?? 0;
	useEffect(() => {
		if (v.hasOlder && v.loading === null && last > v.events.length - 30) void feed.older();
	}, [feed, v.hasOlder, v.loading, v.events.length, last]);

	const toTop = () => {
		if (box.current) box.current.scrollTop = 0;
		setPaused(false);
		setAway(false);
	};
	const first = v.events[0];
	return (
		<div className="flex min-h-0 flex-1 flex-col">
			<div
				role="search"
				aria-label="Events"
				className="flex flex-wrap items-center gap-x-3 gap-y-1.5 border-line border-b px-4 py-1.5"
			>
				<h1 className="sr-only">Events of {fleet.tenantId}</h1>
				<Choice label="Kind" value={search.type ?? ""} onChange={(type) => setSearch({ type: type || undefined })}>
					{search.type && !kinds.some(([name]) => name === search.type) && <option value={search.type}>{search.type}</option>}
					{kinds.map(([name, title]) => (
						<option key={name} value={name}>
							{title}
						</option>
					))}
				</Choice>
				<Field label="By" value={search.actor ?? ""} onChange={(actor) => setSearch({ actor: actor || undefined })} />
				<Field label="Node" wide value={search.node ?? ""} onChange={(node) => setSearch({ node: node || undefined })} />
				{(search.type || search.actor || search.node) && (
					<Button look="quiet" onClick={() => setSearch({ type: undefined, actor: undefined, node: undefined })}>
						Remove the filters
					</Button>
				)}
				<span className="ml-auto flex items-center gap-2">
					{v.loading && v.events.length > 0 && <Spinner />}
					{v.waiting > 0 && (
						<button type="button" onClick={toTop} className="h-7 rounded border border-info/50 px-2 text-info hover:bg-hover">
							{v.waiting.toLocaleString("en")} new
						</button>
					)}
					<Button aria-pressed={paused} onClick={() => setPaused(!paused)} className={paused ? "border-accent! bg-active!" : ""}>
						{paused ? "Go on" : "Pause"}
					</Button>
				</span>
			</div>
			{v.error && (
				<div className="border-line border-b p-3">
					<Failure error={v.error} action={<Button onClick={() => void feed.open()}>Retry</Button>} />
				</div>
			)}
			{v.events.length === 0 ? (
				<p className="flex flex-1 items-center justify-center gap-2 p-4 text-muted">
					{v.loading ? (
						<>
							<Spinner /> Reading the log…
						</>
					) : v.error ? null : (
						"No such event is kept. What happens from now on shows up here."
					)}
				</p>
			) : (
				<div
					ref={box}
					role="table"
					aria-label="Events, newest first"
					aria-rowcount={v.hasOlder ? -1 : v.events.length + 1}
					// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
					tabIndex={0}
					onScroll={(e) => setAway(e.currentTarget.scrollTop > rowHeight / 2)}
					className={`min-h-0 flex-1 overflow-auto ${stale ? "stale" : ""}`}
				>
					<div role="rowgroup" className="sticky top-0 z-10 border-line border-b bg-raised">
						<div role="row" aria-rowindex={1} className="event-row items-center text-muted text-xs" style={{ height: rowHeight }}>
							<span role="columnheader" className="px-2 pl-4 font-medium">
								Time{first ? ` (${zone(first.at)})` : ""}
							</span>
							<span role="columnheader" className="px-2 font-medium">
								Node
							</span>
							<span role="columnheader" className="px-2 font-medium">
								What happened
							</span>
							<span role="columnheader" className="col-type px-2 font-medium">
								Type
							</span>
						</div>
					</div>
					<div role="rowgroup" className="relative" style={{ height: rows.getTotalSize() }}>
						{items.map((item) => {
							const e = v.events[item.index];
							return e ? (
								<Row
									key={e.id}
									e={e}
									index={item.index}
									top={item.start}
									gap={v.gapAfter === e.id}
									newDay={item.index > 0 && day(v.events[item.index - 1]?.at ?? e.at) !== day(e.at)}
								/>
							) : null;
						})}
					</div>
				</div>
			)}
		</div>
	);
}

function Row({ e, index, top, gap, newDay }: { e: EventLine; index: number; top: number; gap: boolean; newDay: boolean }) {
	return (
		<div
			role="row"
			aria-rowindex={index + 2}
			data-event={e.id}
			className={`event-row group absolute inset-x-0 items-center hover:bg-hover ${gap ? "border-bad border-b-2" : "border-line border-b"} ${newDay ? "border-t border-t-strong" : ""}`}
			style={{ height: rowHeight, transform: `translateY(${top}px)` }}
			title={gap ? "Some events between this one and the next are no longer kept" : undefined}
		>
			<span role="cell" className="truncate px-2 pl-4 text-muted">
				<time dateTime={e.at} title={full(e.at)}>
					{newDay || index === 0
						? `${day(e.at)
								.replace(/^\w+, /, "")
								.replace(/ \d{4}$/, "")} `
						: ""}
					{short(e.at)}
				</time>
			</span>
			<span role="cell" className="truncate px-2 font-mono">
				{e.nodeId ? (
					e.node ? (
						<GoNode id={e.nodeId} className="rounded hover:text-accent hover:underline">
							{e.node.hostname}
						</GoNode>
					) : (
						<span className="text-muted" title={e.nodeId}>
							…{e.nodeId.slice(-8)}
						</span>
					)
				) : (
					<span className="text-muted">–</span>
				)}
			</span>
			<span role="cell" className="min-w-0 px-2">
				<EventText e={e} oneLine />
			</span>
			<span role="cell" className="col-type flex min-w-0 items-center justify-between gap-1 px-2">
				<span className="truncate font-mono text-muted text-xs" title={e.type}>
					{e.type}
				</span>
				<span className="opacity-0 focus-within:opacity-100 group-hover:opacity-100">
					<Copy text={e.id} label="Copy the event’s id" word="Id" />
				</span>
			</span>
		</div>
	);
}

/** A text that goes into the address on Enter, or when it is left. */
function Field({
	label,
	value,
	wide = false,
	onChange,
}: {
	label: string;
	value: string;
	wide?: boolean;
	onChange: (value: string) => void;
}) {
	const [text, setText] = useState(value);
	useEffect(() => setText(value), [value]);
	return (
		<label className="flex items-center gap-1.5 text-muted">
			{label}
			<input
				value={text}
				onChange={(e) => setText(e.target.value)}
				onBlur={() => text.trim() !== value && onChange(text.trim())}
				onKeyDown={(e) => e.key === "Enter" && onChange(text.trim())}
				placeholder={wide ? "node_…" : "anybody"}
				className={`h-7 rounded border border-line bg-bg px-2 text-text placeholder:text-muted ${wide ? "w-64 font-mono text-xs" : "w-28"}`}
			/>
		</label>
	);
}
