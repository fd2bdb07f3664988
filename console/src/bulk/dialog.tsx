import { Dialog } from "radix-ui";
import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { End } from "../act/fields";
import { type ApiError, asApiError, request } from "../api/client";
import type { NodesControl, PreviewQuery as PreviewData } from "../gql/graphql";
import { useFleet } from "../nodes/hooks";
import { characters } from "../nodes/words";
import { Button, Command, Failure, Spinner } from "../ui/parts";
import { useNow } from "../ui/time";
import {
	NodesAdoptMutation,
	NodesCordonMutation,
	NodesDrainMutation,
	NodesLabelMutation,
	NodesTaintMutation,
	NodesUncordonMutation,
	PreviewQuery,
	SelectMutation,
} from "./documents";
import {
	commandLine,
	controls,
	type Draft,
	type Extra,
	effects,
	emptyDraft,
	extra,
	missing,
	mutationText,
	nameOf,
	type Target,
} from "./specs";

type Input = Extra & { tenantId: string; selectionId: string; reason: string | null; requestId: string };
type Begun = { operation: { id: string }; warnings: readonly string[] } | null | undefined;

const begin: Record<NodesControl, (input: Input) => Promise<Begun>> = {
	CORDON: async (input) => (await request(NodesCordonMutation, { input })).nodesCordon,
	UNCORDON: async (input) => (await request(NodesUncordonMutation, { input })).nodesUncordon,
	DRAIN: async (input) => (await request(NodesDrainMutation, { input })).nodesDrain,
	TAINT: async (input) => (await request(NodesTaintMutation, { input })).nodesTaint,
	LABEL: async (input) => (await request(NodesLabelMutation, { input })).nodesLabel,
	ADOPT: async (input) => (await request(NodesAdoptMutation, { input })).nodesAdopt,
};

export function Frame({ onClose, children }: { onClose: () => void; children: ReactNode }) {
	return (
		<Dialog.Root open onOpenChange={(open) => !open && onClose()}>
			<Dialog.Portal>
				<Dialog.Overlay className="fixed inset-0 z-30 bg-shade" />
				<Dialog.Content
					aria-describedby={undefined}
					className="fixed top-1/2 left-1/2 z-30 flex max-h-[calc(100vh-2rem)] w-[44rem] max-w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 flex-col overflow-auto rounded-lg border border-line bg-bg shadow-2xl outline-none"
				>
					{children}
				</Dialog.Content>
			</Dialog.Portal>
		</Dialog.Root>
	);
}

/** One control on many nodes: the set is frozen when the dialog opens, what would become of it is shown by state, and it begins only then. */
export default function Many({
	target,
	onBegun,
	onClose,
}: {
	target: Target;
	onBegun: (operationId: string) => void;
	onClose: () => void;
}) {
	const fleet = useFleet();
	const [frozen, setFrozen] = useState<{ id: string; count: number } | null>(null);
	const [draft, setDraft] = useState<Draft>(emptyDraft);
	const [expect, setExpect] = useState("expectCount" in target ? target.expectCount : 0);
	const [error, setError] = useState<ApiError | null>(null);
	const [sending, setSending] = useState(false);
	const attempt = useRef<{ body: string; id: string } | null>(null);
	const now = useNow();
	const ids = { control: useId(), put: useId(), remove: useId(), max: useId() };

	useEffect(() => {
		const stop = new AbortController();
		const which = "nodeIds" in target ? { nodeIds: target.nodeIds } : { filter: target.filter, expectCount: expect };
		request(SelectMutation, { input: { tenantId: fleet.tenantId, ...which } }, stop.signal)
			.then(({ nodeSelectionCreate }) => {
				setFrozen(nodeSelectionCreate?.selection ?? null);
				setError(null);
			})
			.catch((e: unknown) => !stop.signal.aborted && setError(asApiError(e)));
		return () => stop.abort();
	}, [fleet, target, expect]);

	const lacks = characters(draft.reason) > 256 ? "The reason is too long" : missing(draft, now);
	const preview = usePreview(frozen?.id ?? null, draft, lacks === null);
	const say = effects(draft);
	const edit = (change: Partial<Draft>) => setDraft({ ...draft, ...change });
	const more = "actual" in (error?.details ?? {}) && error?.code === "CONFLICT" ? Number(error.details.actual) : null;
	const off = !frozen ? "The nodes are being selected" : (lacks ?? (preview.data?.done === 0 ? "No node would change" : null));

	async function submit(e: FormEvent) {
		e.preventDefault();
		if (!frozen || off || sending) return;
		setSending(true);
		const reason = draft.reason.trim();
		const input = { tenantId: fleet.tenantId, selectionId: frozen.id, reason: reason === "" ? null : reason, ...extra(draft) };
		const body = JSON.stringify([draft.control, input]);
		if (attempt.current?.body !== body) attempt.current = { body, id: crypto.randomUUID() };
		try {
			const done = await begin[draft.control]({ ...input, requestId: attempt.current.id });
			if (done) onBegun(done.operation.id);
		} catch (cause) {
			setError(asApiError(cause));
			setSending(false);
		}
	}

	const line = commandLine(draft, fleet.tenantId, "nodeIds" in target ? target : { ...target, expectCount: expect });
	const count = frozen ? frozen.count.toLocaleString("en") : "…";
	return (
		<Frame onClose={onClose}>
			<form onSubmit={submit}>
				<header className="border-line border-b px-4 py-3">
					<Dialog.Title className="font-semibold text-base">
						Act on {count} {frozen?.count === 1 ? "node" : "nodes"}
					</Dialog.Title>
					<p className="text-muted text-xs">
						The set is frozen: what joins or leaves the list meanwhile is not in it. A node about which somebody decides otherwise
						is refused.
					</p>
				</header>
				<div className="flex flex-col gap-3 px-4 py-3">
					<label className="flex items-center gap-2 font-medium" htmlFor={ids.control}>
						What
						<select
							id={ids.control}
							value={draft.control}
							onChange={(e) => setDraft({ ...emptyDraft, reason: draft.reason, control: e.target.value as NodesControl })}
							className="h-7 rounded border border-line bg-bg px-1.5 font-normal hover:bg-hover"
						>
							{controls.map(([control, name]) => (
								<option key={control} value={control}>
									{name}
								</option>
							))}
						</select>
					</label>
					<dl className="grid grid-cols-[6.5rem_1fr] gap-x-3 gap-y-1">
						<dt className="text-muted">Will change</dt>
						<dd>{say.changes}</dd>
						<dt className="text-muted">Leaves alone</dt>
						<dd>{say.leaves}</dd>
					</dl>
					{draft.control === "CORDON" && (
						<End label="Meant to end" note="Nothing is lifted by itself." end={draft.end} onChange={(end) => edit({ end })} />
					)}
					{draft.control === "DRAIN" && (
						<>
							<End label="Wanted by" note="Nothing is ended by itself." end={draft.end} onChange={(end) => edit({ end })} />
							<Line
								id={ids.max}
								label="Drains at one time in a pool"
								note="(empty: all at once)"
								value={draft.maxPerPool}
								onChange={(maxPerPool) => edit({ maxPerPool })}
							/>
						</>
					)}
					{draft.control === "UNCORDON" && (
						<label className="flex items-baseline gap-2">
							<input type="checkbox" checked={draft.anyone} onChange={(e) => edit({ anyone: e.target.checked })} />
							Others’ cordons too
						</label>
					)}
					{(draft.control === "TAINT" || draft.control === "LABEL") && (
						<>
							<Line
								id={ids.put}
								label={draft.control === "TAINT" ? "Taints to add" : "Labels to set"}
								note={draft.control === "TAINT" ? "(rma-pending, dedicated=tenant)" : "(rack=b7, fabric/rail=3)"}
								value={draft.put}
								onChange={(put) => edit({ put })}
							/>
							<Line
								id={ids.remove}
								label={draft.control === "TAINT" ? "Taints to remove" : "Labels to remove"}
								note="(keys)"
								value={draft.remove}
								onChange={(remove) => edit({ remove })}
							/>
						</>
					)}
					<Line
						id={`${ids.put}-reason`}
						label="Reason"
						note="(optional, kept in the events)"
						value={draft.reason}
						onChange={(reason) => edit({ reason })}
					/>
					<Preview {...preview} waits={lacks} />
					{error && (
						<Failure
							error={error}
							action={
								more !== null && (
									<Button onClick={() => setExpect(more)}>Select the {more.toLocaleString("en")} that match now</Button>
								)
							}
						/>
					)}
					{frozen && (
						<details>
							<summary className="w-fit rounded text-muted hover:text-text">The same from a script</summary>
							<div className="mt-2 flex flex-col gap-1.5">
								{line ? (
									<Command text={line} label="Copy the command" />
								) : (
									<p className="text-muted">The command’s --filter has no word for one of these conditions: give it the ids.</p>
								)}
								<Command text={mutationText(draft, fleet.tenantId, frozen.id)} label="Copy the mutation" />
							</div>
						</details>
					)}
				</div>
				<footer className="sticky bottom-0 flex justify-end gap-2 border-line border-t bg-bg px-4 py-3">
					<Button onClick={onClose}>Cancel</Button>
					<Button type="submit" look="primary" because={off}>
						{sending && <Spinner />}
						{nameOf(draft.control)} {preview.data && !lacks ? preview.data.done.toLocaleString("en") : ""}
					</Button>
				</footer>
			</form>
		</Frame>
	);
}

function Line({
	id,
	label,
	note,
	value,
	onChange,
}: {
	id: string;
	label: string;
	note: string;
	value: string;
	onChange: (text: string) => void;
}) {
	return (
		<div>
			<label htmlFor={id} className="mb-1 block font-medium">
				{label} <span className="font-normal text-muted">{note}</span>
			</label>
			<input
				id={id}
				value={value}
				onChange={(e) => onChange(e.target.value)}
				autoComplete="off"
				spellCheck={false}
				className="h-7 w-full rounded border border-strong bg-bg px-2"
			/>
		</div>
	);
}

type PreviewOf = PreviewData["nodeSelection"]["preview"];
type Seen = { data: PreviewOf | null; error: ApiError | null };

/** What would become of the selection, read when the typing rests. */
function usePreview(selectionId: string | null, draft: Draft, ready: boolean): Seen {
	const fleet = useFleet();
	const [seen, setSeen] = useState<Seen>({ data: null, error: null });
	const { add = null, remove = null, set = null, anyone = false } = extra(draft);
	const key = JSON.stringify([draft.control, add, remove, set, anyone]);
	useEffect(() => {
		if (!selectionId || !ready) return;
		const stop = new AbortController();
		const [control, add, remove, set, anyone] = JSON.parse(key);
		const timer = setTimeout(() => {
			request(PreviewQuery, { tenantId: fleet.tenantId, selectionId, control, anyone, add, remove, set }, stop.signal)
				.then((data) => setSeen({ data: data.nodeSelection.preview, error: null }))
				.catch((e: unknown) => !stop.signal.aborted && setSeen({ data: null, error: asApiError(e) }));
		}, 200);
		return () => {
			stop.abort();
			clearTimeout(timer);
		};
	}, [fleet, selectionId, ready, key]);
	return seen;
}

const outcomes = { DONE: "would change", UNCHANGED: "already so", REFUSED: "would be refused" } as const;

/** How many would change, already are so, and would be refused, by how they stand. */
function Preview({ data, error, waits }: Seen & { waits: string | null }) {
	if (error) return <Failure error={error} />;
	return (
		<section aria-label="What would become of them" className="min-h-24">
			<h3 className="mb-1 font-medium">What would become of them</h3>
			{waits ? (
				<p className="text-muted">{waits}.</p>
			) : !data ? (
				<p className="flex items-center gap-2 text-muted">
					<Spinner /> Reading…
				</p>
			) : (
				<>
					<p>
						<b>{data.done.toLocaleString("en")}</b> would change · <b>{data.unchanged.toLocaleString("en")}</b> already so ·{" "}
						<b className={data.refused ? "text-warn" : ""}>{data.refused.toLocaleString("en")}</b> would be refused
					</p>
					<ul className="mt-1 flex max-h-40 flex-col divide-y divide-line overflow-auto">
						{data.groups.map((g) => (
							<li
								key={`${g.outcome} ${g.code} ${g.because} ${g.provisionState} ${g.cordoned} ${g.draining}`}
								className="flex gap-3 py-0.5"
							>
								<span className="w-14 text-right font-medium">{g.count.toLocaleString("en")}</span>
								<span className={g.outcome === "REFUSED" ? "w-32 text-warn" : "w-32"}>{outcomes[g.outcome]}</span>
								<span className="min-w-0 flex-1 text-muted">
									{[g.provisionState?.toLowerCase() ?? "gone", g.draining ? "draining" : g.cordoned ? "cordoned" : ""]
										.filter(Boolean)
										.join(", ")}
									{g.because && ` · ${g.code ? `${g.code}: ` : ""}${g.because}`}
								</span>
							</li>
						))}
					</ul>
				</>
			)}
		</section>
	);
}
