import { useId } from "react";
import { characters } from "../nodes/words";
import type { Draft } from "./specs";

/** The most characters that a reason has. */
export const maxReason = 256;

/** Why it is done, in words for whoever reads the event. */
export function Reason({ draft, onChange }: { draft: Draft; onChange: (d: Draft) => void }) {
	const ids = { reason: useId(), count: useId() };
	const length = characters(draft.reason);
	const tooLong = length > maxReason;
	return (
		<div>
			<div className="mb-1 flex items-baseline justify-between">
				<label htmlFor={ids.reason} className="font-medium">
					Reason <span className="font-normal text-muted">(optional, kept in the event)</span>
				</label>
				<span id={ids.count} className={`text-xs ${tooLong ? "font-semibold text-bad" : "text-muted"}`}>
					{length} of {maxReason}
					{tooLong && ": too long"}
				</span>
			</div>
			<textarea
				id={ids.reason}
				aria-describedby={ids.count}
				aria-invalid={tooLong || undefined}
				rows={2}
				value={draft.reason}
				onChange={(e) => onChange({ ...draft, reason: e.target.value })}
				onKeyDown={(e) => {
					if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) e.currentTarget.form?.requestSubmit();
				}}
				className="block w-full resize-y rounded border border-strong bg-bg px-2 py-1.5"
			/>
		</div>
	);
}
