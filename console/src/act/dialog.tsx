import { Dialog } from "radix-ui";
import { type FormEvent, useRef, useState } from "react";
import { type ApiError, asApiError } from "../api/client";
import { useFleet, useNode } from "../nodes/hooks";
import { type Control, characters, holder, refusal } from "../nodes/words";
import type { NodeRow } from "../store/nodes";
import { Button, Command, Failure, Spinner } from "../ui/parts";
import { useNow } from "../ui/time";
import { useToast } from "../ui/toasts";
import { moved, useLabels } from "./labels";
import { Changed, Effects, OldData, Warned } from "./notices";
import { maxReason, Reason } from "./reason";
import { type Done, randomId, readAnew, send } from "./send";
import { commandLine, type Draft, effects, emptyDraft, extra, type Label, missing, mutationText, settled, titles } from "./specs";
import { Fields } from "./takes";

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
