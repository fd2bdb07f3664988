import { Conditions } from "../act/conditions";
import { conditions } from "../act/specs";
import { Said } from "../nodes/said";
import { type Control, controlNames, refusal, type Sign } from "../nodes/words";
import type { NodeRow } from "../store/nodes";
import { Button } from "../ui/parts";
import { Ago } from "../ui/time";
import type { Detail } from "./detail";
import { Section } from "./section";

type OnAct = (control: Control) => void;

const signs: Record<string, Sign> = {
	PASSED: { glyph: "✓", word: "passed", tone: "ok" },
	FAILED: { glyph: "✕", word: "failed", tone: "bad" },
	PENDING: { glyph: "…", word: "pending", tone: "info" },
	WAITING: { glyph: "◷", word: "waits until the node is empty", tone: "info" },
};

/** What the node has to show before it takes work: each check with what it found, and the way to run them again. */
export function Acceptance({ n, detail, onAct }: { n: NodeRow; detail: Detail; onAct: OnAct }) {
	return (
		<Section
			title="Acceptance"
			aside={
				<Button className="h-6!" because={refusal(n, "adopt")} onClick={() => onAct("adopt")}>
					{controlNames.adopt}
				</Button>
			}
		>
			{detail.checks.length === 0 ? (
				<p className="text-muted">No check has run yet.</p>
			) : (
				<ul aria-label="Acceptance checks" className="flex flex-col divide-y divide-line">
					{detail.checks.map((c) => (
						<li key={c.name} className="py-1 first:pt-0 last:pb-0">
							<p className="flex flex-wrap items-baseline gap-x-2">
								<span className="font-mono">{c.name}</span>
								<Said sign={signs[c.status] ?? { glyph: "?", word: c.status.toLowerCase(), tone: "muted" }} />
								<span className="ml-auto text-muted">
									{c.durationMs !== null && c.durationMs !== undefined && `${took(c.durationMs)} · `}
									<Ago at={c.endedAt ?? c.startedAt} />
								</span>
							</p>
							<p className="wrap-anywhere">{c.message}</p>
							{c.evidence.length > 0 && <p className="wrap-anywhere font-mono text-muted text-xs">{c.evidence.join(" · ")}</p>}
						</li>
					))}
				</ul>
			)}
			<Conditions list={conditions(n, "adopt")} />
		</Section>
	);
}

const took = (ms: number) => (ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`);

/** What a delete needs, each met or not, and the delete. */
export function Removal({ n, onAct }: { n: NodeRow; onAct: OnAct }) {
	if (n.deletedAt) return null;
	return (
		<Section
			title="Delete"
			aside={
				<Button
					className="h-6!"
					because={refusal(n, "delete")}
					onClick={() => onAct("delete")}
				>{`${controlNames.delete}…`}</Button>
			}
		>
			<Conditions list={conditions(n, "delete")} />
		</Section>
	);
}
