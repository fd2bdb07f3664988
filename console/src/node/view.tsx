import type { ReactNode } from "react";
import { Said } from "../nodes/said";
import { type Control, connectivity, controlNames, provision, refusal, seenWords, service } from "../nodes/words";
import type { NodeRow } from "../store/nodes";
import { Button, Failure, Spinner } from "../ui/parts";
import { Ago, full, useNow } from "../ui/time";
import { Allocations } from "./allocations";
import type { NodeState } from "./detail";
import { DrainPart } from "./drain";
import { Identity } from "./identity";
import { Devices, Labels, Machine } from "./machine";
import { Section } from "./section";
import { Timeline } from "./timeline";

const controls: Control[] = ["cordon", "uncordon", "drain"];

/** All that the page says of one node. In a wide place it has two columns, in a narrow one it reads downwards. */
export function NodeView({
	state,
	tenantId,
	onAct,
}: {
	state: NodeState;
	tenantId: string;
	onAct: (id: string, control: Control) => void;
}) {
	const { node: n, detail, error, reload } = state;
	if (!n)
		return error ? (
			<Missing error={error} tenantId={tenantId} onRetry={reload} />
		) : (
			<p className="flex items-center gap-2 p-4 text-muted">
				<Spinner /> Reading…
			</p>
		);
	return (
		<div className="@container">
			{error && (
				<div className="p-4 pb-0">
					<Failure error={error} action={<Button onClick={reload}>Retry</Button>} />
				</div>
			)}
			<div className="flex @3xl:flex-row flex-col items-start justify-between gap-3 px-4 pt-3 pb-3">
				<Status n={n} />
				<div className="flex shrink-0 gap-1.5">
					{controls.map((control) => (
						<Button key={control} because={refusal(n, control)} onClick={() => onAct(n.id, control)}>
							{controlNames[control]}
						</Button>
					))}
				</div>
			</div>
			<Axes n={n} />
			<div className="node-areas border-line border-t">
				<div className="node-main">
					<DrainPart n={n} detail={detail} />
					<Holds n={n} />
					{detail && (
						<>
							<Allocations n={n} detail={detail} />
							<Devices detail={detail} />
						</>
					)}
				</div>
				<div className="node-side">
					{detail ? (
						<>
							<Labels detail={detail} />
							<Machine detail={detail} />
							<Identity detail={detail} />
						</>
					) : (
						<p className="flex items-center gap-2 p-4 text-muted">
							<Spinner /> Reading…
						</p>
					)}
				</div>
				<div className="node-events">
					<Timeline nodeId={n.id} />
				</div>
			</div>
		</div>
	);
}

function Status({ n }: { n: NodeRow }) {
	const inService = n.outSince == null && n.holds.length === 0;
	return (
		<div className="min-w-0">
			<p className="wrap-anywhere flex items-baseline gap-2 text-[15px]">
				<span aria-hidden="true" className={inService ? "text-ok" : "text-warn"}>
					{inService ? "●" : "⊘"}
				</span>
				<span>{sentence(n.statusSentence)}</span>
			</p>
			{n.outSince && (
				<p className="pl-5 text-muted">
					Out of service since {full(n.outSince)} · <Ago at={n.outSince} />
				</p>
			)}
		</div>
	);
}

/** Each axis by itself: every control moves exactly one of them. */
function Axes({ n }: { n: NodeRow }) {
	const now = useNow();
	const s = service(n);
	return (
		<dl className="-mb-px grid grid-cols-[repeat(auto-fit,minmax(9rem,1fr))] border-line border-t">
			<Axis name="Connectivity" more={n.connectivitySince ? <Ago at={n.connectivitySince} /> : null}>
				<Said sign={connectivity(n.connectivity)} />
			</Axis>
			<Axis name="Takes new work" more={s.more > 0 ? `and ${s.more} more` : null}>
				<Said sign={s} />
			</Axis>
			<Axis name="Cordon" more={n.cordon ? <Ago at={n.cordon.at} /> : null}>
				{n.cordon ? <Said sign={{ glyph: "⊘", word: `by ${n.cordon.by}`, tone: "warn" }} /> : <Dim>none</Dim>}
			</Axis>
			<Axis name="Maintenance">
				{n.maintenance ? <Said sign={{ glyph: "⚑", word: "needs an operator", tone: "bad" }} /> : <Dim>none</Dim>}
			</Axis>
			<Axis name="Provisioning">
				<Said sign={provision(n)} />
			</Axis>
			<Axis name="Last seen">
				<span title={n.lastSeen ? full(n.lastSeen) : undefined}>{seenWords(n, now)}</span>
			</Axis>
			<Axis name="Pool">{n.pool.name}</Axis>
			<Axis name="Version">{n.version}</Axis>
		</dl>
	);
}

function Axis({ name, more, children }: { name: string; more?: ReactNode; children: ReactNode }) {
	return (
		<div className="min-w-0 border-line border-b px-4 py-1.5">
			<dt className="text-muted text-xs">{name}</dt>
			<dd className="flex flex-wrap items-baseline gap-x-1.5">
				<span className="max-w-full truncate">{children}</span>
				{more && <span className="text-muted text-xs">{more}</span>}
			</dd>
		</div>
	);
}

const Dim = ({ children }: { children: ReactNode }) => <span className="text-muted">{children}</span>;

function Holds({ n }: { n: NodeRow }) {
	return (
		<Section title="What keeps new work off" count={n.holds.length}>
			{n.failure && (
				<p className="text-bad">
					{sentence(n.failure.phase.toLowerCase())} failed <Ago at={n.failure.at} />: {n.failure.message}
				</p>
			)}
			{n.holds.length === 0 ? (
				<p className="text-muted">Nothing.</p>
			) : (
				<ul className="flex flex-col divide-y divide-line">
					{n.holds.map((h) => (
						<li key={`${h.reason} ${h.owner}`} className="py-1 first:pt-0 last:pb-0">
							<p className="flex flex-wrap items-baseline gap-x-2">
								<span className="font-medium font-mono">{h.reason}</span>
								<span className="text-muted">
									{h.owner}
									{h.by && h.by !== h.owner ? `, ${h.by}` : ""}
								</span>
								{h.since && (
									<span className="ml-auto text-muted">
										<Ago at={h.since} />
									</span>
								)}
							</p>
							{h.message && <p className="wrap-anywhere">{h.message}</p>}
						</li>
					))}
				</ul>
			)}
		</Section>
	);
}

function Missing({ error, tenantId, onRetry }: { error: NodeState["error"] & object; tenantId: string; onRetry: () => void }) {
	if (error.code === "NOT_FOUND" || error.code === "INVALID_INPUT")
		return (
			<div className="flex flex-col gap-2 p-6">
				<h2 className="font-semibold text-base">No such node</h2>
				<p>
					It does not exist, it was deleted, or it is not visible to <b>{tenantId}</b>. The server does not say which.
				</p>
			</div>
		);
	if (error.code === "FORBIDDEN")
		return (
			<div className="flex flex-col gap-2 p-6">
				<h2 className="font-semibold text-base">You may not see this node</h2>
				<p>{error.message}</p>
			</div>
		);
	return (
		<div className="p-4">
			<Failure error={error} action={<Button onClick={onRetry}>Retry</Button>} />
		</div>
	);
}

const sentence = (s: string) => s.charAt(0).toUpperCase() + s.slice(1);
