import { Dialog } from "radix-ui";
import { type FormEvent, useEffect, useId, useRef, useState } from "react";
import { type ApiError, asApiError, request } from "../api/client";
import { NodesQuery } from "../api/documents";
import { useConnection, useFleet, useNode } from "../nodes/hooks";
import { type Control, characters, differences, holder, refusal } from "../nodes/words";
import type { Fleet } from "../store/fleet";
import type { NodeRow } from "../store/nodes";
import { Button, Command, Failure, Spinner } from "../ui/parts";
import { clock, full, useNow } from "../ui/time";
import { useToast } from "../ui/toasts";
import { Conditions } from "./conditions";
import {
	AdoptMutation,
	CordonMutation,
	DeleteMutation,
	DrainMutation,
	LabelMutation,
	LabelsQuery,
	TaintMutation,
	UncordonMutation,
} from "./documents";
import { End, Holder, Labels, Taints, Typed } from "./fields";
import { Plan } from "./plan";
import {
	commandLine,
	conditions,
	type Draft,
	type Extra,
	effects,
	emptyDraft,
	extra,
	type Label,
	missing,
	mutationText,
	settled,
	titles,
} from "./specs";

type Input = Extra & { tenantId: string; nodeId: string; version: number; reason: string | null; requestId: string };
type Done = { node?: NodeRow; changed: boolean; warnings: readonly string[] };

const send: Record<Control, (input: Input) => Promise<Done | null | undefined>> = {
	cordon: async (input) => (await request(CordonMutation, { input })).nodeCordon,
	recordon: async (input) => (await request(CordonMutation, { input })).nodeCordon,
	uncordon: async (input) => (await request(UncordonMutation, { input })).nodeUncordon,
	drain: async (input) => (await request(DrainMutation, { input })).nodeDrain,
	taint: async (input) => (await request(TaintMutation, { input })).nodeTaint,
	label: async (input) => (await request(LabelMutation, { input })).nodeLabel,
	adopt: async (input) => (await request(AdoptMutation, { input })).nodeAdopt,
	delete: async (input) => {
		const done = (await request(DeleteMutation, { input })).nodeDelete;
		return done && { changed: done.deleted, warnings: done.warnings };
	},
};
const maxReason = 256;

/** What a dialog begins with, where a button already says a part of it. */
export type Begin = { taint?: string };

type Props = { viewer: string; nodeId: string; control: Control; begin?: Begin | undefined; onClose: () => void };

/** The one dialog of all controls: what will change, what stays, what the control takes, the reason, and the same act for scripts. */
export default function Act(props: Props) {
	const fleet = useFleet();
	const held = useNode(fleet, props.nodeId);
	// A node that is deleted here and now stays in its dialog, for what has to be said about it.
	const last = useRef(held?.node);
	if (held) last.current = held.node;
	return (
		<Dialog.Root open onOpenChange={(open) => !open && props.onClose()}>
			<Dialog.Portal>
				<Dialog.Overlay className="fixed inset-0 z-30 bg-shade" />
				<Dialog.Content
					aria-describedby={undefined}
					className="fixed top-1/2 left-1/2 z-30 flex max-h-[calc(100vh-2rem)] w-[36rem] max-w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 flex-col overflow-auto rounded-lg border border-line bg-bg shadow-2xl outline-none"
				>
					{last.current ? (
						<Form {...props} node={last.current} />
					) : (
						<Dialog.Title className="p-4">This node is no longer visible to {fleet.tenantId}.</Dialog.Title>
					)}
				</Dialog.Content>
			</Dialog.Portal>
		</Dialog.Root>
	);
}

function begun(control: Control, node: NodeRow, begin: Begin | undefined): Draft {
	if (control === "recordon") return { ...emptyDraft, reason: node.cordon?.reason ?? "", end: node.cordon?.until ?? "" };
	if (begin?.taint) return { ...emptyDraft, taints: { ...emptyDraft.taints, remove: [begin.taint] } };
	return emptyDraft;
}

function Form({ viewer, control, begin, onClose, node }: Props & { node: NodeRow }) {
	const fleet = useFleet();
	// The state on which the reader decides. It moves only when they say so, and its version goes with the act.
	const [base, setBase] = useState(node);
	const [draft, setDraft] = useState(() => begun(control, node, begin));
	const labels = useLabels(fleet, control === "label" ? node : null);
	const [baseLabels, setBaseLabels] = useState<readonly Label[] | null>(null);
	if (labels.list && !baseLabels) setBaseLabels(labels.list);
	const [error, setError] = useState<ApiError | null>(null);
	const [warnings, setWarnings] = useState<readonly string[] | null>(null);
	const [sending, setSending] = useState(false);
	const attempt = useRef<{ body: string; id: string } | null>(null);
	const now = useNow();
	const toast = useToast();

	const d = settled(draft);
	const reason = d.reason.trim();
	const tooLong = characters(d.reason) > maxReason;
	const changed = !sending && !warnings && node.version !== base.version;
	const refused = warnings ? null : refusal(node, control);
	const lacks = missing(control, d, base, baseLabels, now);
	const more = extra(control, d, base);
	const off = tooLong
		? "The reason is too long"
		: changed
			? "The node changed: go on with its new version first"
			: (refused ?? lacks);

	function finish(done: Done | null | undefined) {
		if (done?.node) fleet.nodes.merge(done.node);
		else if (done) fleet.nodes.remove(node.id);
		const kept = control === "cordon" && done?.node?.cordon ? `: ${holder(done.node.cordon)}` : "";
		if (done) toast(`${node.hostname} ${done.changed ? titles[control].done : `was so already, nothing changed${kept}`}`);
		if (done?.warnings.length) {
			setWarnings(done.warnings);
			setSending(false);
		} else onClose();
	}

	async function submit(e: FormEvent) {
		e.preventDefault();
		if (sending || off) return;
		setSending(true);
		setError(null);
		const input = {
			tenantId: fleet.tenantId,
			nodeId: node.id,
			version: base.version,
			reason: reason === "" ? null : reason,
			...more,
		};
		// A repeat of the very same act after a lost answer carries the same id, and so happens once.
		const body = JSON.stringify(input);
		if (attempt.current?.body !== body) attempt.current = { body, id: randomId() };
		fleet.expectMine(node.id);
		try {
			finish(await send[control]({ ...input, requestId: attempt.current.id }));
		} catch (cause) {
			const failure = asApiError(cause);
			setSending(false);
			setError(failure);
			if (failure.code === "CONFLICT") await readAnew(fleet, node.id);
		} finally {
			fleet.forgetMine(node.id);
		}
	}

	const entered = (
		<Fields
			key="fields"
			viewer={viewer}
			control={control}
			n={base}
			labels={baseLabels}
			error={labels.error}
			draft={draft}
			onChange={setDraft}
		/>
	);
	// What stands in a box and is not right yet is not said to come.
	const said = <Effects key="effects" {...effects(base, control, lacks ? draft : d)} />;
	// Where a list is edited, what will change is read off what was entered.
	const editing = control === "taint" || control === "label";
	if (warnings) return <Warned node={node} control={control} warnings={warnings} onClose={onClose} />;
	return (
		<form onSubmit={submit}>
			<header className="border-line border-b px-4 py-3">
				<Dialog.Title className="font-semibold text-base">
					{titles[control].title} {node.hostname}
				</Dialog.Title>
				<p className="font-mono text-muted text-xs">
					{node.id} · version {base.version}
				</p>
			</header>
			<div className="flex flex-col gap-3 px-4 py-3">
				<OldData fleet={fleet} />
				{editing ? [entered, said] : [said, entered]}
				<Reason draft={draft} onChange={setDraft} />
				{changed && (
					<Changed
						base={base}
						node={node}
						more={moved(baseLabels, labels.version === node.version ? labels.list : null)}
						ready={control !== "label" || labels.version === node.version}
						onGoOn={() => {
							setBase(node);
							setBaseLabels(labels.list);
							setError(null);
						}}
					/>
				)}
				{refused && !sending && <p className="text-warn">Not offered now: {refused}.</p>}
				{error && <Failure error={error} />}
				<details>
					<summary className="w-fit rounded text-muted hover:text-text">The same from a script</summary>
					<div className="mt-2 flex flex-col gap-1.5">
						<Command text={commandLine(control, fleet.tenantId, node, base.version, reason, more)} label="Copy the command" />
						<Command text={mutationText(control, fleet.tenantId, node, base.version, reason, more)} label="Copy the mutation" />
					</div>
				</details>
			</div>
			<footer className="sticky bottom-0 flex justify-end gap-2 border-line border-t bg-bg px-4 py-3">
				<Button onClick={onClose}>Cancel</Button>
				<Button type="submit" look={control === "delete" ? "danger" : "primary"} because={off}>
					{sending && <Spinner />}
					{titles[control].button}
				</Button>
			</footer>
		</form>
	);
}

/** What a control takes besides its reason. */
function Fields({
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

function Effects({ changes, leaves }: { changes: string[]; leaves: string[] }) {
	return (
		<dl className="grid grid-cols-[6.5rem_1fr] gap-x-3 gap-y-2">
			<dt className="text-muted">Will change</dt>
			<dd className="wrap-anywhere min-w-0">
				{changes.length === 0 && <p className="text-muted">Nothing yet.</p>}
				{changes.map((line) => (
					<p key={line}>{line}</p>
				))}
			</dd>
			<dt className="text-muted">Leaves alone</dt>
			<dd>
				{leaves.map((line) => (
					<p key={line}>{line}</p>
				))}
			</dd>
		</dl>
	);
}

function Reason({ draft, onChange }: { draft: Draft; onChange: (d: Draft) => void }) {
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

/** Somebody else moved the node meanwhile: what they did, and the way on. */
function Changed({
	base,
	node,
	more,
	ready,
	onGoOn,
}: {
	base: NodeRow;
	node: NodeRow;
	more: string[];
	ready: boolean;
	onGoOn: () => void;
}) {
	const list = [...differences(base, node), ...more];
	return (
		<div role="alert" className="rounded border border-warn/40 bg-warn-bg px-3 py-2">
			<p className="font-medium text-warn">
				Changed since you opened this (version {base.version} → {node.version})
			</p>
			<ul className="list-disc pl-5">
				{(list.length ? list : ["something that this page does not show"]).map((line) => (
					<li key={line}>{line}</li>
				))}
			</ul>
			<Button className="mt-2" because={ready ? null : "The labels are being read"} onClick={onGoOn}>
				Go on with version {node.version}
			</Button>
		</div>
	);
}

/** It was done, and there is something to know about it all the same. */
function Warned({
	node,
	control,
	warnings,
	onClose,
}: {
	node: NodeRow;
	control: Control;
	warnings: readonly string[];
	onClose: () => void;
}) {
	return (
		<>
			<Dialog.Title className="border-line border-b px-4 py-3 font-semibold text-base">
				{node.hostname} {titles[control].done}
			</Dialog.Title>
			<div role="alert" className="mx-4 my-3 rounded border border-warn/40 bg-warn-bg px-3 py-2 text-warn">
				{warnings.map((w) => (
					<p key={w}>{w}.</p>
				))}
			</div>
			<footer className="flex justify-end border-line border-t px-4 py-3">
				<Button look="primary" onClick={onClose} autoFocus>
					Close
				</Button>
			</footer>
		</>
	);
}

function OldData({ fleet }: { fleet: Fleet }) {
	const connection = useConnection(fleet);
	if (connection.state === "live" || connection.dataAt === null) return null;
	return (
		<p className="rounded border border-warn/40 bg-warn-bg px-3 py-2 text-warn">
			You are looking at data from {clock(connection.dataAt)}.
		</p>
	);
}

type Labelled = { version: number; list: readonly Label[] | null; error: ApiError | null };

/** A node's labels with the version that they are of, read anew when the node changes; of no node: nothing. */
function useLabels(fleet: Fleet, node: NodeRow | null): Labelled {
	const [read, setRead] = useState<Labelled>({ version: 0, list: null, error: null });
	const id = node?.id;
	const version = node?.version;
	// biome-ignore lint/correctness/useExhaustiveDependencies: a version says that the labels may be others
	useEffect(() => {
		if (!id) return;
		const stop = new AbortController();
		request(LabelsQuery, { tenantId: fleet.tenantId, nodeId: id }, stop.signal)
			.then(({ node }) => node && setRead({ version: node.version, list: node.labels, error: null }))
			.catch((e: unknown) => !stop.signal.aborted && setRead((old) => ({ ...old, error: asApiError(e) })));
		return () => stop.abort();
	}, [fleet, id, version]);
	return read;
}

/** What became of the labels between two readings, in words. */
function moved(before: readonly Label[] | null, now: readonly Label[] | null): string[] {
	if (!before || !now) return [];
	const out: string[] = [];
	for (const l of now) {
		const was = before.find((b) => b.key === l.key);
		if (!was) out.push(`label ${l.key} = ${l.value} came`);
		else if (was.value !== l.value) out.push(`label ${l.key}: ${was.value} → ${l.value}`);
	}
	for (const b of before) if (!now.some((l) => l.key === b.key)) out.push(`label ${b.key} went`);
	return out;
}

async function readAnew(fleet: Fleet, nodeId: string): Promise<void> {
	const mark = fleet.nodes.mark();
	const fresh = await request(NodesQuery, {
		tenantId: fleet.tenantId,
		filter: { nodeIds: [nodeId] },
		orderBy: "HOSTNAME_ASC",
		first: 1,
	}).catch(() => null);
	for (const n of fresh?.nodes.nodes ?? []) fleet.nodes.merge(n, mark);
}

function randomId(): string {
	return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
