import { useVirtualizer } from "@tanstack/react-virtual";
import { Dialog } from "radix-ui";
import { useEffect, useMemo, useRef, useState } from "react";
import { type ApiError, asApiError, request } from "../api/client";
import type { FollowOperationSubscription, OperationFragment, ResultFragment } from "../gql/graphql";
import { useFleet } from "../nodes/hooks";
import { Said } from "../nodes/said";
import type { Sign } from "../nodes/words";
import { GoNode } from "../ui/go";
import { Button, Failure, Spinner } from "../ui/parts";
import { Ago, full, short } from "../ui/time";
import { Frame } from "./dialog";
import { OperationSubscription, StopMutation } from "./documents";
import { nameOf } from "./specs";

const signs: Record<string, Sign> = {
	DONE: { glyph: "✓", word: "done", tone: "ok" },
	UNCHANGED: { glyph: "=", word: "unchanged", tone: "muted" },
	REFUSED: { glyph: "✕", word: "refused", tone: "bad" },
};
/** An operation on many nodes as it goes: how many are through, the result for each node, and its stop. Closing the dialog leaves it running. */
export default function Progress({ operationId, onClose }: { operationId: string; onClose: () => void }) {
	const fleet = useFleet();
	const [op, setOp] = useState<OperationFragment | null>(null);
	const [results, setResults] = useState<ResultFragment[]>([]);
	const [error, setError] = useState<ApiError | null>(null);
	const [stopping, setStopping] = useState(false);
	const [only, setOnly] = useState<string | null>(null);

	useEffect(() => {
		let after: string | null = null;
		setResults([]);
		const seen = new Set<string>();
		const off = fleet.socket.add<FollowOperationSubscription["nodesOperation"]>({
			query: OperationSubscription.toString(),
			field: "nodesOperation",
			variables: () => ({ tenantId: fleet.tenantId, operationId, after }),
			onItem: (item) => {
				after = item.cursor ?? after;
				setOp(item);
				const news = item.newResults.filter((r) => !seen.has(r.nodeId) && seen.add(r.nodeId));
				if (news.length) setResults((old) => [...old, ...news]);
				// It ends by itself once all is told, and would be begun again.
				if (item.state !== "RUNNING" && seen.size >= item.done + item.unchanged + item.refused) off();
			},
			onEnd: setError,
		});
		return off;
	}, [fleet, operationId]);

	async function stop() {
		setStopping(true);
		try {
			const { nodesOperationStop } = await request(StopMutation, { input: { tenantId: fleet.tenantId, operationId } });
			if (nodesOperationStop) setOp(nodesOperationStop.operation);
		} catch (e) {
			setError(asApiError(e));
		} finally {
			setStopping(false);
		}
	}

	const through = op ? op.done + op.unchanged + op.refused : 0;
	const shown = useMemo(() => {
		if (only) return results.filter((r) => r.outcome === only);
		// What was refused comes first: somebody has to look at it.
		return [...results.filter((r) => r.outcome === "REFUSED"), ...results.filter((r) => r.outcome !== "REFUSED")];
	}, [results, only]);
	return (
		<Frame onClose={onClose}>
			<header className="border-line border-b px-4 py-3">
				<Dialog.Title className="font-semibold text-base">
					{op ? `${nameOf(op.control)} ${op.count.toLocaleString("en")} ${op.count === 1 ? "node" : "nodes"}` : "An operation"}
				</Dialog.Title>
				<p className="text-muted text-xs">
					<span className="font-mono">{operationId}</span>
					{op && (
						<>
							{" "}
							· by {op.by}, <Ago at={op.createdAt} />
							{op.reason && ` · “${op.reason}”`}
						</>
					)}
				</p>
			</header>
			<div className="flex flex-col gap-3 px-4 py-3">
				{!op && !error && (
					<p className="flex items-center gap-2 text-muted">
						<Spinner /> Reading…
					</p>
				)}
				{op && (
					<>
						<div>
							<p role="status" className="mb-1 flex flex-wrap items-baseline justify-between gap-x-4">
								<span>{state(op)}</span>
								<span className="text-muted">
									{through.toLocaleString("en")} of {op.count.toLocaleString("en")} · {op.left.toLocaleString("en")} left
								</span>
							</p>
							<div
								role="progressbar"
								aria-label="Nodes that have a result"
								aria-valuemin={0}
								aria-valuemax={op.count}
								aria-valuenow={through}
								className="flex h-1.5 overflow-hidden rounded-full bg-active"
							>
								<div className="h-full bg-info" style={{ width: `${share(op.done + op.unchanged, op.count)}%` }} />
								<div className="h-full bg-bad" style={{ width: `${share(op.refused, op.count)}%` }} />
							</div>
							{op.maxPerPool != null && (
								<p className="mt-1 min-h-[1.45em] text-warn">{op.state === "RUNNING" ? op.waiting : ""}</p>
							)}
						</div>
						<div className="flex flex-wrap gap-1.5">
							{(["DONE", "UNCHANGED", "REFUSED"] as const).map((o) => (
								<Button
									key={o}
									aria-pressed={only === o}
									className={only === o ? "border-accent! bg-active!" : ""}
									onClick={() => setOnly(only === o ? null : o)}
								>
									<Said sign={signs[o] as Sign} /> {count(op, o).toLocaleString("en")}
								</Button>
							))}
						</div>
					</>
				)}
				{error && <Failure error={error} />}
				<Results key={only} list={shown} />
			</div>
			<footer className="sticky bottom-0 flex items-center justify-end gap-2 border-line border-t bg-bg px-4 py-3">
				<span className="mr-auto text-muted text-xs">{op?.state === "RUNNING" && "Closing this leaves it running."}</span>
				<Button because={op?.state === "RUNNING" ? null : "It has ended"} onClick={() => void stop()}>
					{stopping && <Spinner />} Stop
				</Button>
				<Button look="primary" onClick={onClose}>
					Close
				</Button>
			</footer>
		</Frame>
	);
}

const guess = 29;

/** One row a node, of which those in view are drawn: an operation can be on all of a large fleet. */
function Results({ list }: { list: readonly ResultFragment[] }) {
	const box = useRef<HTMLDivElement>(null);
	const rows = useVirtualizer({
		count: list.length,
		getScrollElement: () => box.current,
		estimateSize: () => guess,
		getItemKey: (i) => list[i]?.nodeId ?? i,
		overscan: 8,
		scrollPaddingStart: guess,
	});
	const items = rows.getVirtualItems();
	const above = items[0]?.start ?? 0;
	const below = rows.getTotalSize() - (items.at(-1)?.end ?? 0);
	return (
		<div
			ref={box}
			className="h-72 overflow-auto rounded border border-line"
			// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
			tabIndex={0}
			role="group"
			aria-label="Results, as a table"
		>
			<table aria-rowcount={list.length + 1} className="w-full table-fixed border-separate border-spacing-0 text-left">
				<colgroup>
					<col className="w-[24%]" />
					<col className="w-28" />
					<col />
					<col className="w-24 max-sm:w-20" />
				</colgroup>
				<thead className="sticky top-0 z-10 bg-raised text-muted text-xs">
					<tr aria-rowindex={1}>
						{["Node", "Result", "What was said", "At"].map((h) => (
							<th key={h} scope="col" className="border-line border-b px-3 py-1 font-medium">
								{h}
							</th>
						))}
					</tr>
				</thead>
				<tbody>
					<Room height={above} />
					{items.map((item) => {
						const r = list[item.index];
						return r ? <Result key={r.nodeId} r={r} index={item.index} measure={rows.measureElement} /> : null;
					})}
					<Room height={below} />
				</tbody>
			</table>
		</div>
	);
}

/** The place of rows that are not drawn. */
const Room = ({ height }: { height: number }) =>
	height > 0 && (
		// biome-ignore lint/a11y/noAriaHiddenOnFocusable: it is not focusable, and no row to count
		<tr aria-hidden="true">
			<td colSpan={4} className="p-0" style={{ height }} />
		</tr>
	);

function Result({ r, index, measure }: { r: ResultFragment; index: number; measure: (row: Element | null) => void }) {
	return (
		<tr
			ref={measure}
			data-index={index}
			data-result={r.nodeId}
			aria-rowindex={index + 2}
			className="align-baseline *:border-line *:border-b"
		>
			<td className="truncate px-3 font-mono" title={r.node?.hostname ?? r.nodeId}>
				{r.node ? (
					<GoNode id={r.nodeId} className="inline-block rounded py-1 hover:text-accent hover:underline">
						{r.node.hostname}
					</GoNode>
				) : (
					`…${r.nodeId.slice(-8)}`
				)}
			</td>
			<td className="whitespace-nowrap px-3 py-0.5">
				<Said sign={signs[r.outcome] ?? { glyph: "?", word: r.outcome.toLowerCase(), tone: "muted" }} />
			</td>
			<td className="wrap-anywhere px-3 py-0.5">
				{r.code && <span className="mr-1.5 font-mono text-bad text-xs">{r.code}</span>}
				{r.message}
			</td>
			<td className="whitespace-nowrap px-3 py-0.5 text-muted" title={full(r.at)}>
				{short(r.at)}
			</td>
		</tr>
	);
}

const share = (n: number, of: number) => (of ? Math.round((1000 * n) / of) / 10 : 0);

function count(op: OperationFragment | null, outcome: string): number {
	if (!op) return 0;
	return outcome === "DONE" ? op.done : outcome === "UNCHANGED" ? op.unchanged : op.refused;
}

function state(op: OperationFragment): string {
	switch (op.state) {
		case "DONE":
			return op.refused ? `Through: ${op.refused.toLocaleString("en")} refused` : "Through";
		case "STOPPED":
			return `Stopped${op.endedBy ? ` by ${op.endedBy}` : ""}: ${op.left.toLocaleString("en")} left alone`;
		default:
			return "Goes on…";
	}
}
