import type { ReactNode } from "react";
import type { Begin } from "../act/dialog";
import { Said } from "../nodes/said";
import { type Control, connectivity, controlNames, nextStep, provision, refusal, seenWords, service } from "../nodes/words";
import type { NodeRow } from "../store/nodes";
import { Button, Failure, Spinner } from "../ui/parts";
import { Ago, full, useNow } from "../ui/time";
import { Acceptance, Removal } from "./acceptance";
import { Allocations } from "./allocations";
import type { NodeState } from "./detail";
import { DrainPart } from "./drain";
import { Holds } from "./holds";
import { Identity } from "./identity";
import { Labels, Taints } from "./labels";
import { Devices, Machine } from "./machine";
import { Timeline } from "./timeline";

const controls: Control[] = ["cordon", "uncordon", "drain"];

/** Opens the dialog of a control on a node. */
export type OnAct = (id: string, control: Control, begin?: Begin) => void;

/** All that the page says of one node. In a wide place it has two columns, in a narrow one it reads downwards. */
export function NodeView({ state, tenantId, onAct }: { state: NodeState; tenantId: string; onAct: OnAct }) {
	const { node: n, detail, error, reload } = state;
	if (!n)
		return error ? (
			<Missing error={error} tenantId={tenantId} onRetry={reload} />
		) : (
			<p className="flex items-center gap-2 p-4 text-muted">
				<Spinner /> Reading…
			</p>
		);
	const act = (control: Control, begin?: Begin) => onAct(n.id, control, begin);
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
						<Button key={control} because={refusal(n, control)} onClick={() => act(control)}>
							{controlNames[control]}
						</Button>
					))}
				</div>
			</div>
			{!n.deletedAt && <Axes n={n} />}
			<div className="node-areas border-line border-t">
				<div className="node-main">
					<DrainPart n={n} detail={detail} />
					{!n.deletedAt && <Holds n={n} onAct={act} />}
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
							<Labels n={n} detail={detail} onAct={act} />
							<Taints n={n} onAct={act} />
							{!n.deletedAt && <Acceptance n={n} detail={detail} onAct={act} />}
							<Machine detail={detail} />
							<Identity detail={detail} />
							<Removal n={n} onAct={act} />
						</>
					) : (
						<p className="flex items-center gap-2 p-4 text-muted">
							<Spinner /> Reading…
						</p>
					)}
				</div>
				<div className="node-events">
					<Timeline nodeId={n.id} over={n.deletedAt != null} />
				</div>
			</div>
		</div>
	);
}

function Status({ n }: { n: NodeRow }) {
	const inService = n.outSince == null && n.holds.length === 0 && !n.deletedAt;
	return (
		<div className="min-w-0">
			<p className="wrap-anywhere flex items-baseline gap-2 text-[15px]">
				<span aria-hidden="true" className={inService ? "text-ok" : "text-warn"}>
					{inService ? "●" : "⊘"}
				</span>
				<span>{n.deletedAt ? "Deleted" : sentence(n.statusSentence)}</span>
			</p>
			{/* Both lines keep their place, so that a state that comes or goes moves nothing below. */}
			<p className="min-h-[1.45em] pl-5 text-muted">
				{n.deletedAt ? (
					<>
						Deleted at {full(n.deletedAt)} · <Ago at={n.deletedAt} />
					</>
				) : (
					n.outSince && (
						<>
							Out of service since {full(n.outSince)} · <Ago at={n.outSince} />
						</>
					)
				)}
			</p>
			<p className="min-h-[1.45em] pl-5">{nextStep(n)}</p>
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
