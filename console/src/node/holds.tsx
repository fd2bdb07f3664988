import type { Begin } from "../act/dialog";
import { type Control, controlNames, refusal } from "../nodes/words";
import type { NodeRow } from "../store/nodes";
import { Button } from "../ui/parts";
import { Ago, full, until, useNow } from "../ui/time";
import { Section } from "./section";

type OnAct = (control: Control, begin?: Begin) => void;

/** Who takes away what keeps a node out, where no button does. */
const lifts: Record<string, string> = {
	draining: "The drain controller takes it away once nothing is left.",
	unreachable: "It goes by itself when the node is heard of again.",
	provisioning: "It goes when the acceptance checks have passed.",
	credential: "It goes when the machine has joined anew.",
};

/** Everything that keeps new work off the node: whose it is, since when, why, and what takes it away. */
export function Holds({ n, onAct }: { n: NodeRow; onAct: OnAct }) {
	return (
		<Section title="What keeps new work off" count={n.holds.length}>
			{n.holds.length === 0 ? (
				<p className="text-muted">Nothing.</p>
			) : (
				<ul className="flex flex-col divide-y divide-line">
					{n.holds.map((h) => (
						<li key={`${h.reason} ${h.owner}`} className="py-1 first:pt-0 last:pb-0">
							<p className="flex flex-wrap items-baseline gap-x-2">
								<span className="wrap-anywhere font-medium font-mono">{h.reason}</span>
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
							{h.message && (
								<p className={`wrap-anywhere ${h.reason === "provisioning" && n.failure ? "text-bad" : ""}`}>{h.message}</p>
							)}
							{h.reason === "cordon" ? (
								<Cordon n={n} onAct={onAct} />
							) : h.reason.startsWith("taint:") ? (
								<p className="flex justify-end">
									<Act
										n={n}
										control="taint"
										label={`Remove ${h.reason}`}
										onAct={(c) => onAct(c, { taint: h.reason.slice("taint:".length) })}
									>
										Remove
									</Act>
								</p>
							) : (
								lifts[h.reason] && <p className="text-muted">{lifts[h.reason]}</p>
							)}
						</li>
					))}
				</ul>
			)}
		</Section>
	);
}

function Cordon({ n, onAct }: { n: NodeRow; onAct: OnAct }) {
	const now = useNow();
	const c = n.cordon;
	if (!c) return null;
	return (
		<p className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
			<span className={c.overdue ? "text-warn" : "text-muted"}>
				{c.until ? (
					<>
						Meant to end at {full(c.until)}, {until(c.until, now)}
						{c.overdue && ": overdue. Nothing is lifted by itself."}
					</>
				) : (
					"Without an end."
				)}
			</span>
			<span className="ml-auto flex gap-1.5">
				<Act n={n} control="recordon" onAct={onAct}>
					Change reason or end
				</Act>
				<Act n={n} control="uncordon" label="Uncordon: lift this cordon" onAct={onAct}>
					{controlNames.uncordon}
				</Act>
			</span>
		</p>
	);
}

function Act({
	n,
	control,
	label,
	onAct,
	children,
}: {
	n: NodeRow;
	control: Control;
	label?: string;
	onAct: OnAct;
	children: string;
}) {
	return (
		<Button className="h-6!" aria-label={label} because={refusal(n, control)} onClick={() => onAct(control)}>
			{children}
		</Button>
	);
}
