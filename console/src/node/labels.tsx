import type { Begin } from "../act/dialog";
import { lockedBecause } from "../act/specs";
import { type Control, controlNames, refusal } from "../nodes/words";
import type { NodeRow } from "../store/nodes";
import { Button } from "../ui/parts";
import { Ago } from "../ui/time";
import type { Detail } from "./detail";
import { Section } from "./section";

type OnAct = (control: Control, begin?: Begin) => void;

/** The node's labels by key, with whose each is; what operators do not own is locked and says why. */
export function Labels({ n, detail, onAct }: { n: NodeRow; detail: Detail; onAct: OnAct }) {
	const list = detail.labels;
	const locks = [...new Set(list.map(lockedBecause).filter((because) => because !== null))];
	return (
		<Section title="Labels" count={list.length} aside={<Change n={n} control="label" onAct={onAct} />}>
			{list.length === 0 ? (
				<p className="text-muted">None.</p>
			) : (
				<dl className="grid grid-cols-[minmax(0,auto)_minmax(0,1fr)] gap-x-3 gap-y-0.5 text-xs">
					{list.map((l) => (
						<div key={l.key} className="contents">
							<dt className="wrap-anywhere font-mono text-muted">{l.key}</dt>
							<dd className="flex items-baseline justify-between gap-3">
								<span className="wrap-anywhere font-mono">{l.value || <span className="text-muted">(empty)</span>}</span>
								<span className="whitespace-nowrap text-muted" title={lockedBecause(l) ?? undefined}>
									{l.source.toLowerCase()}
									{lockedBecause(l) && ", locked"}
								</span>
							</dd>
						</div>
					))}
				</dl>
			)}
			{locks.map((because) => (
				<p key={because} className="text-muted text-xs">
					Locked: {because}.
				</p>
			))}
		</Section>
	);
}

/** The reasons that operators put on the node by name. */
export function Taints({ n, onAct }: { n: NodeRow; onAct: OnAct }) {
	const list = n.holds.filter((h) => h.reason.startsWith("taint:"));
	return (
		<Section title="Taints" count={list.length} aside={<Change n={n} control="taint" onAct={onAct} />}>
			{list.length === 0 ? (
				<p className="text-muted">None.</p>
			) : (
				<ul className="flex flex-col gap-0.5 text-xs">
					{list.map((h) => (
						<li key={h.reason} className="flex flex-wrap items-baseline justify-between gap-x-3">
							<span className="wrap-anywhere font-mono">{h.reason.slice("taint:".length)}</span>
							<span className="text-muted">
								{h.by} {h.since && <Ago at={h.since} />}
							</span>
						</li>
					))}
				</ul>
			)}
		</Section>
	);
}

function Change({ n, control, onAct }: { n: NodeRow; control: Control; onAct: OnAct }) {
	return (
		<Button className="h-6!" because={refusal(n, control)} onClick={() => onAct(control)}>
			{controlNames[control]}
		</Button>
	);
}
