import { useState } from "react";
import { Plan } from "../act/plan";
import { useFleet, useNode } from "../nodes/hooks";
import { Said } from "../nodes/said";
import type { Control } from "../nodes/words";
import type { DrainLine } from "../store/drains";
import { Ago, clock, duration, full, until, useNow } from "../ui/time";
import { Action, Gone, NameCell, Td, Unfold, Wide } from "./board";

export type OnAct = (id: string, control: Control) => void;

const body = "[&>tr:first-child:hover]:bg-hover";
const line = "border-line border-b";

/** A drain that runs, or ran when the board was read. */
export function Running({ d, onAct }: { d: DrainLine; onAct: OnAct }) {
	const held = useNode(useFleet(), d.node.id);
	const now = useNow();
	const [open, setOpen] = useState(false);
	if (!held)
		return (
			<tbody>
				<Gone />
			</tbody>
		);
	const n = held.node;
	const running = d.state === "DRAINING";
	const left = n.liveAllocationCount;
	const gone = d.endedAllocationCount;
	return (
		<tbody className={body}>
			<tr data-node={n.id} data-drain={d.id} className={line}>
				<NameCell n={n} over={!running} />
				<Td>
					{!running ? (
						<How d={d} at={now} />
					) : left === 0 ? (
						<span className="text-muted">nothing</span>
					) : (
						<>
							<Unfold open={open} onToggle={() => setOpen(!open)} of={`that the drain of ${n.hostname} waits for`}>
								{left} {left === 1 ? "allocation" : "allocations"}
							</Unfold>
							{gone > 0 && <span className="text-muted"> · {gone} ended</span>}
						</>
					)}
				</Td>
				<Td title={running && d.expectedAt ? full(d.expectedAt) : undefined}>
					{running && d.overdue && <span className="mr-1.5 text-warn">overdue ·</span>}
					{!running ? (
						<span className="text-muted">–</span>
					) : left === 0 ? (
						<span className="text-muted">now</span>
					) : d.expectedAt ? (
						<>
							{clock(d.expectedAt)} <span className="text-muted">· {until(d.expectedAt, now)}</span>
						</>
					) : (
						<Said sign={{ glyph: "!", word: "no end is in sight", tone: "warn" }} />
					)}
				</Td>
				<Td title={full(d.startedAt)}>
					<Ago at={d.startedAt} /> <span className="text-muted">· {d.by}</span>
				</Td>
				<Td clip title={d.reason ?? undefined}>
					{d.reason ?? <span className="text-muted">–</span>}
				</Td>
				<Action n={n} onAct={onAct} />
			</tr>
			{open && running && (
				<Wide>
					{d.deadline && (
						<p className={`mb-1 ${d.overdue ? "text-warn" : "text-muted"}`}>
							Wanted by {full(d.deadline)}, {until(d.deadline, now)}
							{d.overdue && ": overdue. Nothing is ended by itself."}
						</p>
					)}
					<Plan n={n} />
				</Wide>
			)}
		</tbody>
	);
}

/** How a drain ended, and when where nothing beside says it. */
function How({ d, at }: { d: DrainLine; at?: number }) {
	if (d.state === "DRAINED")
		return (
			<>
				<Said sign={{ glyph: "✓", word: d.endedAt && at ? `drained ${until(d.endedAt, at)}` : "drained", tone: "ok" }} />
				{d.confirmedByNode === false && <span className="text-warn">, not confirmed by the node</span>}
			</>
		);
	return (
		<span className="text-muted">
			ended before it was empty
			{d.cause ? `: ${d.cause}` : ""}
			{d.endedBy ? `, by ${d.endedBy}` : ""}
		</span>
	);
}

/** A drain that is over. */
export function Ended({ d }: { d: DrainLine }) {
	const held = useNode(useFleet(), d.node.id);
	const now = useNow();
	const took = d.endedAt ? Date.parse(d.endedAt) - Date.parse(d.startedAt) : 0;
	return (
		<tbody className={body}>
			<tr data-drain={d.id} className={line}>
				<NameCell n={held?.node ?? d.node} over={false} />
				<Td>
					<How d={d} />
				</Td>
				<Td title={d.endedAt ? full(d.endedAt) : undefined}>
					{d.endedAt && (
						<>
							{clock(d.endedAt)} <span className="text-muted">· {until(d.endedAt, now)}</span>
						</>
					)}
				</Td>
				<Td title={`Begun at ${full(d.startedAt)}`}>
					{duration(took)} <span className="text-muted">· {d.by}</span>
				</Td>
				<Td clip title={d.reason ?? undefined}>
					{d.reason ?? <span className="text-muted">–</span>}
				</Td>
				<td />
			</tr>
		</tbody>
	);
}

/** A node that a cordon holds and that does not drain. */
export function Cordoned({ id, onAct }: { id: string; onAct: OnAct }) {
	const held = useNode(useFleet(), id);
	const now = useNow();
	const [open, setOpen] = useState(false);
	if (!held)
		return (
			<tbody>
				<Gone />
			</tbody>
		);
	const n = held.node;
	const d = n.drain?.state === "DRAINED" ? n.drain : null;
	const left = n.liveAllocationCount;
	return (
		<tbody className={body}>
			<tr data-node={id} className={line}>
				<NameCell n={n} over={!n.cordoned || n.drain?.state === "DRAINING"} />
				<Td title={d?.endedAt ? full(d.endedAt) : undefined}>
					{d ? (
						<Said
							sign={{
								glyph: "✓",
								word: d.confirmedByNode ? "yes, empty" : "yes, not confirmed",
								tone: d.confirmedByNode ? "ok" : "warn",
							}}
						/>
					) : left > 0 ? (
						<>
							<span className="text-muted">no, holds </span>
							<Unfold open={open} onToggle={() => setOpen(!open)} of={`that a drain of ${n.hostname} would wait for`}>
								{left}
							</Unfold>
						</>
					) : (
						<span className="text-muted">no, holds nothing</span>
					)}
				</Td>
				<Td title={n.cordon ? full(n.cordon.at) : undefined}>
					{n.cordon ? (
						<>
							{duration(now - Date.parse(n.cordon.at))}
							{n.cordon.overdue && <span className="ml-1.5 text-warn">overdue</span>}
							{d?.endedAt && <span className="text-muted"> · empty for {duration(now - Date.parse(d.endedAt))}</span>}
						</>
					) : (
						<span className="text-muted">no longer</span>
					)}
				</Td>
				<Td>{n.cordon?.by ?? <span className="text-muted">–</span>}</Td>
				<Td clip title={n.cordon?.reason ?? undefined}>
					{n.cordon?.reason ?? <span className="text-muted">–</span>}
				</Td>
				<Action n={n} onAct={onAct} />
			</tr>
			{open && left > 0 && (
				<Wide>
					<Plan n={n} />
				</Wide>
			)}
		</tbody>
	);
}
