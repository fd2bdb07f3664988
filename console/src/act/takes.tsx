import type { ApiError } from "../api/client";
import type { Control } from "../nodes/words";
import type { NodeRow } from "../store/nodes";
import { Failure, Spinner } from "../ui/parts";
import { full } from "../ui/time";
import { Conditions } from "./conditions";
import { End, Holder, Labels, Taints, Typed } from "./fields";
import { Plan } from "./plan";
import { conditions, type Draft, type Label } from "./specs";

/** What a control takes besides its reason. */
export function Fields({
	viewer,
	control,
	n,
	labels,
	error,
	...rest
}: {
	viewer: string;
	control: Control;
	n: NodeRow;
	labels: readonly Label[] | null;
	error: ApiError | null;
	draft: Draft;
	onChange: (d: Draft) => void;
}) {
	const end = { end: rest.draft.end, onChange: (end: string) => rest.onChange({ ...rest.draft, end }) };
	switch (control) {
		case "cordon":
		case "recordon":
			return (
				<End
					label="Meant to end"
					note="Nothing is lifted by itself: past it the cordon is overdue, and an event says so once a day."
					{...end}
				/>
			);
		case "drain":
			return (
				<>
					<section aria-label="What it would wait for">
						<Plan n={n} />
					</section>
					<End
						label="Wanted by"
						note="Nothing is ended by itself: past it the drain is overdue, and an event says so once."
						{...end}
					/>
				</>
			);
		case "uncordon":
			return n.cordon && n.cordon.by !== viewer ? (
				<div className="flex flex-col gap-1.5 rounded border border-warn/40 bg-warn-bg px-3 py-2">
					<p className="text-warn">
						Cordoned by {n.cordon.by}, not by you, at {full(n.cordon.at)}
						{n.cordon.reason ? `: “${n.cordon.reason}”` : ", without a reason"}.
					</p>
					<Holder n={n} {...rest} />
				</div>
			) : null;
		case "taint":
			return <Taints n={n} {...rest} />;
		case "label":
			if (error) return <Failure error={error} />;
			return labels ? (
				<Labels labels={labels} {...rest} />
			) : (
				<p className="flex items-center gap-2 text-muted">
					<Spinner /> Reading the labels…
				</p>
			);
		case "adopt":
			return <Conditions list={conditions(n, "adopt")} />;
		case "delete":
			return (
				<>
					<Conditions list={conditions(n, "delete")} />
					<Typed n={n} {...rest} />
				</>
			);
	}
}
