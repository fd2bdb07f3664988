import type { Condition } from "./specs";

/** What has to hold before a control is offered, each met or not, and what would make it so. */
export function Conditions({ list }: { list: Condition[] }) {
	return (
		<ul aria-label="Preconditions" className="flex flex-col gap-0.5">
			{list.map((c) => (
				<li key={c.text} className="flex items-baseline gap-1.5">
					<span aria-hidden="true" className={`inline-block w-3 shrink-0 text-center ${c.met ? "text-ok" : "text-warn"}`}>
						{c.met ? "✓" : "✕"}
					</span>
					<span className="wrap-anywhere min-w-0">
						<span className="sr-only">{c.met ? "met: " : "not met: "}</span>
						{c.text}.{!c.met && c.next && <span className="text-warn"> {c.next}</span>}
					</span>
				</li>
			))}
		</ul>
	);
}
