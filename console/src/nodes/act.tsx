import { Dialog } from "radix-ui";
import { type FormEvent, useId, useRef, useState } from "react";
import { type ApiError, asApiError, request } from "../api/client";
import { CordonMutation, DrainMutation, NodesQuery, UncordonMutation } from "../api/documents";
import type { NodeCordonInput } from "../gql/graphql";
import type { NodeRow } from "../store/nodes";
import { Button, Command, Failure, Spinner } from "../ui/parts";
import { clock, full } from "../ui/time";
import { useToast } from "../ui/toasts";
import { useConnection, useFleet, useNode } from "./hooks";
import { type Control, characters, commandLine, differences, effects, mutationText, refusal } from "./words";

const verbs: Record<Control, { title: string; button: string; done: string }> = {
	cordon: { title: "Cordon", button: "Cordon", done: "is cordoned" },
	uncordon: { title: "Uncordon", button: "Uncordon", done: "is no longer cordoned" },
	drain: { title: "Drain", button: "Drain", done: "drains" },
};
const send: Record<Control, (input: NodeCordonInput) => Promise<{ node: NodeRow; changed: boolean } | null | undefined>> = {
	cordon: async (input) => (await request(CordonMutation, { input })).nodeCordon,
	uncordon: async (input) => (await request(UncordonMutation, { input })).nodeUncordon,
	drain: async (input) => (await request(DrainMutation, { input })).nodeDrain,
};
const maxReason = 256;

type Props = { viewer: string; nodeId: string; control: Control; onClose: () => void };

/** The one dialog of the three controls: what will change, what stays, the reason, and the same act for scripts. */
export default function Act(props: Props) {
	const fleet = useFleet();
	const held = useNode(fleet, props.nodeId);
	return (
		<Dialog.Root open onOpenChange={(open) => !open && props.onClose()}>
			<Dialog.Portal>
				<Dialog.Overlay className="fixed inset-0 z-30 bg-shade" />
				<Dialog.Content
					aria-describedby={undefined}
					className="fixed top-1/2 left-1/2 z-30 flex max-h-[calc(100vh-2rem)] w-[36rem] max-w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 flex-col overflow-auto rounded-lg border border-line bg-bg shadow-2xl outline-none"
				>
					{held ? (
						<Form {...props} node={held.node} />
					) : (
						<Dialog.Title className="p-4">This node is no longer visible to {fleet.tenantId}.</Dialog.Title>
					)}
				</Dialog.Content>
			</Dialog.Portal>
		</Dialog.Root>
	);
}

function Form({ viewer, control, onClose, node }: Props & { node: NodeRow }) {
	const fleet = useFleet();
	// The state on which the reader decides. It moves only when they say so, and its version goes with the act.
	const [base, setBase] = useState(node);
	const [reason, setReason] = useState("");
	const [error, setError] = useState<ApiError | null>(null);
	const [sending, setSending] = useState(false);
	const attempt = useRef<{ body: string; id: string } | null>(null);
	const connection = useConnection(fleet);
	const toast = useToast();
	const ids = { reason: useId(), count: useId() };

	const length = characters(reason);
	const tooLong = length > maxReason;
	const changed = !sending && node.version !== base.version;
	const refused = refusal(node, control);
	const { changes, leaves } = effects(node, control);
	const someoneElses = control === "uncordon" && node.cordon && node.cordon.by !== viewer ? node.cordon : null;
	const text = reason.trim();
	const command = commandLine(control, fleet.tenantId, node, base.version, text);
	const mutation = mutationText(control, fleet.tenantId, node, base.version, text);

	async function submit(e: FormEvent) {
		e.preventDefault();
		if (sending || tooLong || changed || refused) return;
		setSending(true);
		setError(null);
		const input = { tenantId: fleet.tenantId, nodeId: node.id, version: base.version, reason: text === "" ? null : text };
		// A repeat of the very same act after a lost answer carries the same id, and so happens once.
		const body = JSON.stringify(input);
		if (attempt.current?.body !== body) attempt.current = { body, id: randomId() };
		fleet.expectMine(node.id);
		try {
			const payload = await send[control]({ ...input, requestId: attempt.current.id });
			if (payload) {
				fleet.nodes.merge(payload.node);
				toast(`${payload.node.hostname} ${payload.changed ? verbs[control].done : "was so already: nothing changed"}`);
			}
			onClose();
		} catch (cause) {
			const failure = asApiError(cause);
			setSending(false);
			setError(failure);
			if (failure.code === "CONFLICT") {
				const mark = fleet.nodes.mark();
				const fresh = await request(NodesQuery, {
					tenantId: fleet.tenantId,
					filter: { nodeIds: [node.id] },
					orderBy: "HOSTNAME_ASC",
					first: 1,
				}).catch(() => null);
				for (const n of fresh?.nodes.nodes ?? []) fleet.nodes.merge(n, mark);
			}
		} finally {
			fleet.forgetMine(node.id);
		}
	}

	return (
		<form onSubmit={submit}>
			<header className="border-line border-b px-4 py-3">
				<Dialog.Title className="font-semibold text-base">
					{verbs[control].title} {node.hostname}
				</Dialog.Title>
				<p className="font-mono text-muted text-xs">
					{node.id} · version {base.version}
				</p>
			</header>
			<div className="flex flex-col gap-3 px-4 py-3">
				{connection.state !== "live" && connection.dataAt !== null && (
					<p className="rounded border border-warn/40 bg-warn-bg px-3 py-2 text-warn">
						You are looking at data from {clock(connection.dataAt)}.
					</p>
				)}
				<dl className="grid grid-cols-[6.5rem_1fr] gap-x-3 gap-y-2">
					<dt className="text-muted">Will change</dt>
					<dd>
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
				{someoneElses && (
					<p className="rounded border border-warn/40 bg-warn-bg px-3 py-2 text-warn">
						Cordoned by {someoneElses.by}, not by you, at {full(someoneElses.at)}
						{someoneElses.reason ? `: “${someoneElses.reason}”` : ", without a reason"}.
					</p>
				)}
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
						value={reason}
						onChange={(e) => setReason(e.target.value)}
						onKeyDown={(e) => {
							if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) e.currentTarget.form?.requestSubmit();
						}}
						className="block w-full resize-y rounded border border-strong bg-bg px-2 py-1.5"
					/>
				</div>
				{changed && (
					<div role="alert" className="rounded border border-warn/40 bg-warn-bg px-3 py-2">
						<p className="font-medium text-warn">
							Changed since you opened this (version {base.version} → {node.version})
						</p>
						<ul className="list-disc pl-5">
							{(differences(base, node).length ? differences(base, node) : ["something that this page does not show"]).map(
								(line) => (
									<li key={line}>{line}</li>
								),
							)}
						</ul>
						<Button
							className="mt-2"
							onClick={() => {
								setBase(node);
								setError(null);
							}}
						>
							Go on with version {node.version}
						</Button>
					</div>
				)}
				{refused && !sending && <p className="text-warn">Not offered now: {refused}.</p>}
				{error && <Failure error={error} />}
				<details>
					<summary className="w-fit rounded text-muted hover:text-text">The same from a script</summary>
					<div className="mt-2 flex flex-col gap-1.5">
						<Command text={command} label="Copy the command" />
						<Command text={mutation} label="Copy the mutation" />
					</div>
				</details>
			</div>
			<footer className="flex justify-end gap-2 border-line border-t px-4 py-3">
				<Button onClick={onClose}>Cancel</Button>
				<Button
					type="submit"
					look="primary"
					because={tooLong ? "The reason is too long" : changed ? "The node changed: go on with its new version first" : refused}
				>
					{sending && <Spinner />}
					{verbs[control].button}
				</Button>
			</footer>
		</form>
	);
}

function randomId(): string {
	return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
