import { Said } from "../nodes/said";
import type { NodeRow } from "../store/nodes";
import { Command } from "../ui/parts";
import { Ago, clock, duration, full, until, useNow } from "../ui/time";
import { AllocationRows } from "./allocations";
import type { Detail } from "./detail";
import { Section } from "./section";

/** How far a drain is: what it waits for, when it will be through if nothing changes, and what would make it shorter. */
export function DrainPart({ n, detail }: { n: NodeRow; detail: Detail | null }) {
	const d = n.drain;
	if (!d) return <Last detail={detail} />;
	return (
		<Section title="Drain">
			{d.state === "DRAINED" ? <Drained d={d} /> : <Draining n={n} d={d} detail={detail} />}
			<p className="text-muted">
				Begun by {d.by} at <time dateTime={d.startedAt}>{full(d.startedAt)}</time>
				{d.reason && <span className="wrap-anywhere">: “{d.reason}”</span>}
			</p>
		</Section>
	);
}

type Drain = NonNullable<NodeRow["drain"]>;

function Drained({ d }: { d: Drain }) {
	return (
		<>
			<p>
				<Said sign={{ glyph: "✓", word: "Drained", tone: "ok" }} />{" "}
				{d.endedAt && (
					<>
						at {clock(d.endedAt)}, <Ago at={d.endedAt} />,{" "}
					</>
				)}
				still cordoned.
			</p>
			{d.confirmedByNode !== null && (
				<p className={d.confirmedByNode ? "text-muted" : "text-warn"}>
					{d.confirmedByNode
						? "The node itself reported that nothing runs."
						: "The node did not confirm that nothing runs: look before you pull a plug."}
				</p>
			)}
		</>
	);
}

function Draining({ n, d, detail }: { n: NodeRow; d: Drain; detail: Detail | null }) {
	const now = useNow();
	const left = n.liveAllocationCount;
	const mine = detail?.drain?.id === d.id ? detail.drain : null;
	const gone = mine?.endedAllocationCount ?? 0;
	const all = left + gone;
	const blockers = mine?.blockers ?? [];
	const open = blockers.filter((b) => !b.endsAt);
	return (
		<>
			<div className="flex flex-wrap items-baseline justify-between gap-x-4">
				<p>
					<Said sign={{ glyph: "⇣", word: `Draining for ${duration(now - Date.parse(d.startedAt))}`, tone: "info" }} />
					<span className="ml-2 text-muted">
						{left === 0 ? "nothing is left" : gone > 0 ? `${gone} of ${all} allocations ended` : `${left} left`}
					</span>
				</p>
				<p className={left > 0 && !d.expectedAt ? "text-warn" : ""}>
					{left === 0
						? "It is looked at once more."
						: d.expectedAt
							? `Expected to be empty at ${clock(d.expectedAt)}, ${until(d.expectedAt, now)}`
							: "No end is in sight"}
				</p>
			</div>
			<div
				role="progressbar"
				aria-label="Allocations that ended since the drain began"
				aria-valuemin={0}
				aria-valuemax={all}
				aria-valuenow={gone}
				className="h-1.5 overflow-hidden rounded-full bg-active"
			>
				<div className="h-full rounded-full bg-info" style={{ width: `${all ? Math.round((100 * gone) / all) : 100}%` }} />
			</div>
			{detail && left > 0 && blockers.length > 0 && (
				<>
					<h3 className="mt-1 text-muted text-xs">Waits for</h3>
					<AllocationRows label="What the drain waits for" list={blockers} devices={detail.devices} />
				</>
			)}
			{open.length > 0 && (
				<p className="text-warn">
					{open.length === 1 ? "One of them has no end" : `${open.length} of them have no end`}: the drain waits until somebody
					releases {open.length === 1 ? "it" : "them"}.
				</p>
			)}
			{d.deadline && (
				<p className={d.overdue ? "text-warn" : "text-muted"}>
					Wanted by {full(d.deadline)}, {until(d.deadline, now)}
					{d.overdue && ": overdue. Nothing is ended by itself."}
				</p>
			)}
			{d.expectedAt && <p className="text-muted">If nothing is extended. A booking that is released earlier shortens it.</p>}
			{open.length === 1 && open[0]?.reservationId && (
				<Command
					text={`better-compute reservations release ${open[0].reservationId} --tenant ${open[0].tenantId ?? ""}`}
					label="Copy the command that releases it"
				/>
			)}
		</>
	);
}

function Last({ detail }: { detail: Detail | null }) {
	const last = detail?.lastDrain;
	if (!last) return null;
	return (
		<Section title="Drain">
			<p className="text-muted">
				None runs. The last one, by {last.by}, was {last.state.toLowerCase()}
				{last.endedAt && (
					<>
						{" "}
						<Ago at={last.endedAt} />
					</>
				)}
				{last.cause ? `: ${last.cause}` : ""}
				{last.state === "CANCELLED" && last.endedBy ? `, by ${last.endedBy}` : ""}
				{last.endedAllocationCount > 0 &&
					`; ${last.endedAllocationCount} ${last.endedAllocationCount === 1 ? "allocation" : "allocations"} ended meanwhile`}
				.
			</p>
		</Section>
	);
}
