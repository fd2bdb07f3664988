import { type KeyboardEvent, useId } from "react";
import type { NodeRow } from "../store/nodes";
import { Button } from "../ui/parts";
import { settings } from "../ui/settings";
import { Ago, zone } from "../ui/time";
import { type Draft, type Label, labelFault, lockedBecause, taintFault } from "./specs";

const box = "rounded border border-strong bg-bg px-2 py-1";

type Part = { n: NodeRow; draft: Draft; onChange: (d: Draft) => void };

const hours: [string, number][] = [
	["2 h", 2],
	["8 h", 8],
	["1 day", 24],
	["3 days", 72],
];

/** A moment that lies ahead, or none: in the zone in which the page shows its times. */
export function End({
	label,
	note,
	end,
	onChange: set,
}: {
	label: string;
	note: string;
	end: string;
	onChange: (end: string) => void;
}) {
	const id = useId();
	return (
		<div>
			<div className="mb-1 flex items-baseline justify-between gap-3">
				<label htmlFor={id} className="font-medium">
					{label} <span className="font-normal text-muted">(optional)</span>
				</label>
				<span className="text-muted text-xs">times in {zone(Date.now())}</span>
			</div>
			<div className="flex flex-wrap items-center gap-1.5">
				<input
					id={id}
					type="datetime-local"
					aria-describedby={`${id}-note`}
					value={toBox(end)}
					onChange={(e) => set(fromBox(e.target.value))}
					className={`${box} h-7`}
				/>
				{hours.map(([word, h]) => (
					<Button
						key={word}
						aria-label={`${label}: in ${word}`}
						onClick={() => set(fromBox(toBox(new Date(Date.now() + h * 3_600_000).toISOString())))}
					>
						in {word}
					</Button>
				))}
				{end && (
					<Button look="quiet" aria-label={`${label}: clear`} onClick={() => set("")}>
						clear
					</Button>
				)}
			</div>
			<p id={`${id}-note`} className="mt-1 text-muted text-xs">
				{note}
			</p>
		</div>
	);
}

/** The box holds a moment without a zone, to the minute. */
export function toBox(end: string): string {
	if (!end) return "";
	const at = new Date(end);
	const shift = settings().zone === "utc" ? 0 : at.getTimezoneOffset() * 60_000;
	return new Date(at.getTime() - shift).toISOString().slice(0, 16);
}

export function fromBox(text: string): string {
	const at = new Date(settings().zone === "utc" ? `${text}Z` : text);
	return text && !Number.isNaN(at.getTime()) ? at.toISOString().replace(".000Z", "Z") : "";
}

/** Enter in a box for another entry adds the entry; it does not send the form. */
const onEnter = (add: () => void) => (e: KeyboardEvent) => {
	if (e.key !== "Enter" || e.ctrlKey || e.metaKey) return;
	e.preventDefault();
	add();
};

/** The taints that the node has, and those that come. */
export function Taints({ n, draft, onChange }: Part) {
	const id = useId();
	const { add, remove, fresh } = draft.taints;
	const set = (change: Partial<Draft["taints"]>) => onChange({ ...draft, taints: { ...draft.taints, ...change } });
	const has = n.holds.filter((h) => h.reason.startsWith("taint:"));
	const key = fresh.trim();
	const fault = key === "" ? null : add.includes(key) ? `${key} is in the list` : taintFault(key, n);
	const push = () => key && !fault && set({ add: [...add, key], fresh: "" });
	return (
		<div className="flex flex-col gap-2">
			{has.length + add.length > 0 ? (
				<ul aria-label="Taints" className="flex flex-col divide-y divide-line rounded border border-line">
					{has.map((h) => {
						const name = h.reason.slice("taint:".length);
						const goes = remove.includes(name);
						return (
							<li key={name} className="flex items-baseline gap-2 px-2 py-1">
								<span className={`wrap-anywhere font-mono ${goes ? "text-muted line-through" : ""}`}>{name}</span>
								<span className="text-muted">
									{h.by} {h.since && <Ago at={h.since} />}
								</span>
								<Button
									look="quiet"
									className="ml-auto h-6!"
									aria-label={goes ? `Keep ${name}` : `Remove ${name}`}
									onClick={() => set({ remove: goes ? remove.filter((k) => k !== name) : [...remove, name] })}
								>
									{goes ? "Keep" : "Remove"}
								</Button>
							</li>
						);
					})}
					{add.map((name) => (
						<li key={name} className="flex items-baseline gap-2 px-2 py-1">
							<span className="wrap-anywhere font-mono">{name}</span>
							<span className="text-info">comes</span>
							<Button
								look="quiet"
								className="ml-auto h-6!"
								aria-label={`Do not add ${name}`}
								onClick={() => set({ add: add.filter((k) => k !== name) })}
							>
								Undo
							</Button>
						</li>
					))}
				</ul>
			) : (
				<p className="text-muted">It has no taint.</p>
			)}
			<div>
				<label htmlFor={id} className="mb-1 block font-medium">
					Another taint
				</label>
				<div className="flex gap-1.5">
					<input
						id={id}
						value={fresh}
						onChange={(e) => set({ fresh: e.target.value })}
						onKeyDown={onEnter(push)}
						aria-invalid={fault !== null || undefined}
						aria-describedby={`${id}-note`}
						autoComplete="off"
						spellCheck={false}
						placeholder="rma-pending, or dedicated=tenant"
						className={`${box} h-7 min-w-0 flex-1 font-mono placeholder:text-muted`}
					/>
					<Button onClick={push} because={key === "" ? "Type a key first" : fault}>
						Add
					</Button>
				</div>
				<p id={`${id}-note`} className={`mt-1 min-h-[1.45em] text-xs ${fault ? "text-bad" : "text-muted"}`}>
					{fault ?? "A taint keeps new work off until somebody removes it. dedicated=TENANT keeps every tenant off but that one."}
				</p>
			</div>
		</div>
	);
}

/** The operator's labels to change, and below them those that belong to others. */
export function Labels({ labels, draft, onChange }: { labels: readonly Label[] } & Omit<Part, "n">) {
	const id = useId();
	const { set, remove, fresh } = draft.labels;
	const put = (change: Partial<Draft["labels"]>) => onChange({ ...draft, labels: { ...draft.labels, ...change } });
	const mine = labels.filter((l) => !lockedBecause(l));
	const locked = labels.filter((l) => lockedBecause(l));
	const added = Object.keys(set).filter((key) => !mine.some((l) => l.key === key));
	const change = (key: string, value: string | null) => {
		const { [key]: _, ...rest } = set;
		const was = mine.find((l) => l.key === key)?.value;
		put({ set: value === null || value === was ? rest : { ...rest, [key]: value }, remove: remove.filter((k) => k !== key) });
	};
	const key = fresh.key.trim();
	const fault = key === "" ? (fresh.value ? "Type a key first" : null) : labelFault(key, fresh.value.trim(), labels);
	const push = () => {
		if (!key || fault) return;
		const was = mine.find((l) => l.key === key)?.value;
		const { [key]: _, ...rest } = set;
		put({
			set: was === fresh.value.trim() ? rest : { ...rest, [key]: fresh.value.trim() },
			remove: remove.filter((k) => k !== key),
			fresh: { key: "", value: "" },
		});
	};
	return (
		<div className="flex flex-col gap-2">
			{mine.length + added.length > 0 ? (
				<ul
					aria-label="Operator’s labels"
					className="flex max-h-60 flex-col divide-y divide-line overflow-auto rounded border border-line"
				>
					{mine.map((l) => {
						const goes = remove.includes(l.key);
						const value = set[l.key] ?? l.value;
						const wrong = labelFault(l.key, value, labels);
						return (
							<li key={l.key} className="grid grid-cols-[minmax(0,1fr)_minmax(0,1fr)_4.5rem] items-center gap-2 px-2 py-1">
								<span className={`wrap-anywhere font-mono ${goes ? "text-muted line-through" : ""}`}>{l.key}</span>
								<input
									aria-label={`Value of ${l.key}`}
									value={value}
									disabled={goes}
									title={wrong ?? undefined}
									aria-invalid={wrong !== null || undefined}
									onChange={(e) => change(l.key, e.target.value)}
									autoComplete="off"
									spellCheck={false}
									className={`${box} h-7 w-full font-mono ${goes ? "text-muted line-through" : value !== l.value ? "border-info" : ""}`}
								/>
								<Button
									look="quiet"
									className="h-6!"
									aria-label={goes ? `Keep ${l.key}` : `Remove ${l.key}`}
									onClick={() => {
										const { [l.key]: _, ...rest } = set;
										put({ set: rest, remove: goes ? remove.filter((k) => k !== l.key) : [...remove, l.key] });
									}}
								>
									{goes ? "Keep" : "Remove"}
								</Button>
							</li>
						);
					})}
					{added.map((k) => (
						<li key={k} className="grid grid-cols-[minmax(0,1fr)_minmax(0,1fr)_4.5rem] items-center gap-2 px-2 py-1">
							<span className="wrap-anywhere font-mono">
								{k} <span className="font-sans text-info">comes</span>
							</span>
							<span className="wrap-anywhere font-mono">{set[k] || <span className="text-muted">(empty)</span>}</span>
							<Button look="quiet" className="h-6!" aria-label={`Do not set ${k}`} onClick={() => change(k, null)}>
								Undo
							</Button>
						</li>
					))}
				</ul>
			) : (
				<p className="text-muted">It has no label of an operator.</p>
			)}
			<div>
				<div className="grid grid-cols-[minmax(0,1fr)_minmax(0,1fr)_auto] gap-1.5">
					<label htmlFor={id} className="font-medium">
						Another label
					</label>
					<label htmlFor={`${id}-value`} className="font-medium">
						Value
					</label>
					<span />
					<input
						id={id}
						value={fresh.key}
						onChange={(e) => put({ fresh: { ...fresh, key: e.target.value } })}
						onKeyDown={onEnter(push)}
						aria-invalid={fault !== null || undefined}
						aria-describedby={`${id}-note`}
						autoComplete="off"
						spellCheck={false}
						placeholder="rack"
						className={`${box} h-7 min-w-0 font-mono placeholder:text-muted`}
					/>
					<input
						id={`${id}-value`}
						value={fresh.value}
						onChange={(e) => put({ fresh: { ...fresh, value: e.target.value } })}
						onKeyDown={onEnter(push)}
						aria-describedby={`${id}-note`}
						autoComplete="off"
						spellCheck={false}
						placeholder="b7"
						className={`${box} h-7 min-w-0 font-mono placeholder:text-muted`}
					/>
					<Button onClick={push} because={key === "" ? "Type a key first" : fault}>
						Add
					</Button>
				</div>
				<p id={`${id}-note`} className={`mt-1 min-h-[1.45em] text-xs ${fault ? "text-bad" : "text-muted"}`}>
					{fault ?? "A key that is there gets the new value. A value can be empty."}
				</p>
			</div>
			{locked.length > 0 && (
				<details>
					<summary className="w-fit rounded text-muted hover:text-text">
						{locked.length === 1 ? "1 label belongs to others" : `${locked.length} labels belong to others`} and can’t be set
					</summary>
					<ul className="mt-1 flex flex-col gap-0.5 text-xs">
						{locked.map((l) => (
							<li key={l.key} className="wrap-anywhere">
								<span className="font-mono">
									{l.key} = {l.value || "(empty)"}
								</span>
								<span className="text-muted"> · {lockedBecause(l)}</span>
							</li>
						))}
					</ul>
				</details>
			)}
		</div>
	);
}

/** Somebody else's cordon is lifted with open eyes, and only while it is still theirs if the reader wants that. */
export function Holder({ n, draft, onChange }: Part) {
	if (!n.cordon) return null;
	return (
		<label className="flex items-baseline gap-2">
			<input type="checkbox" checked={draft.ifHolders} onChange={(e) => onChange({ ...draft, ifHolders: e.target.checked })} />
			<span>
				Only while the cordon is {n.cordon.by}’s <span className="text-muted">(ifCordonedBy: another’s stays)</span>
			</span>
		</label>
	);
}

/** A node is deleted only by who types its name. */
export function Typed({ n, draft, onChange }: Part) {
	const id = useId();
	return (
		<div>
			<label htmlFor={id} className="mb-1 block font-medium">
				Type <span className="select-all font-mono">{n.hostname}</span> to delete it
			</label>
			<input
				id={id}
				value={draft.typed}
				onChange={(e) => onChange({ ...draft, typed: e.target.value })}
				onKeyDown={onEnter(() => undefined)}
				autoComplete="off"
				spellCheck={false}
				className={`${box} h-7 w-full font-mono`}
			/>
		</div>
	);
}
