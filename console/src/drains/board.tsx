import { type ReactNode, useSyncExternalStore } from "react";
import type { ApiError } from "../api/client";
import { Said } from "../nodes/said";
import { type Control, connectivity, controlNames, refusal } from "../nodes/words";
import type { NodeRow } from "../store/nodes";
import { GoNode } from "../ui/go";
import { Button, Failure, Spinner } from "../ui/parts";

/** One of the page's tables. What left it stays, struck out, until the reader is done with it: it goes when the table is read anew. */
export function Board({
	title,
	count,
	left = 0,
	loading,
	error,
	onRefresh,
	more,
	empty,
	head,
	children,
}: {
	title: string;
	count: string;
	left?: number;
	loading: boolean;
	error: ApiError | null;
	onRefresh: () => void;
	/** Reads more, with the word on the button; null when there is no more. */
	more: { word: string; read: () => void } | null;
	empty: ReactNode;
	head: string[];
	children: ReactNode[];
}) {
	return (
		<section aria-label={title} className="rounded border border-line">
			<header className="flex h-8.5 items-center gap-2 border-line border-b bg-raised px-3">
				<h2 className="font-semibold">{title}</h2>
				<span className="text-muted">{count}</span>
				{loading && <Spinner />}
				{left > 0 && (
					<button
						type="button"
						onClick={onRefresh}
						className="ml-auto rounded border border-line px-2 text-muted hover:bg-hover hover:text-text"
					>
						Clear {left === 1 ? "1 that left" : `${left} that left`}
					</button>
				)}
			</header>
			{error && (
				<div className="p-3">
					<Failure error={error} action={<Button onClick={onRefresh}>Retry</Button>} />
				</div>
			)}
			{children.length === 0 ? (
				<div className="px-3 py-2">{loading ? <p className="py-1 text-muted">Reading…</p> : empty}</div>
			) : (
				// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
				<div className="overflow-x-auto" tabIndex={0} role="group" aria-label={`${title}, as a table`}>
					<table className="board w-full min-w-[30rem] table-fixed border-collapse text-left">
						<colgroup>
							<col className="w-[20%]" />
							<col className="w-[18%]" />
							<col className="w-[22%]" />
							<col className="w-[15%]" />
							<col />
							<col className="w-28" />
						</colgroup>
						<thead>
							<tr className="border-line border-b text-muted text-xs">
								{head.map((h) => (
									<th key={h} scope="col" className="px-3 py-1 font-medium">
										{h}
									</th>
								))}
								<th scope="col">
									<span className="sr-only">Actions</span>
								</th>
							</tr>
						</thead>
						{children}
					</table>
				</div>
			)}
			{more && (
				<div className="border-line border-t px-3 py-2">
					<Button onClick={more.read}>
						{loading && <Spinner />} {more.word}
					</Button>
				</div>
			)}
		</section>
	);
}

export function NameCell({ n, over }: { n: NodeRow; over: boolean }) {
	const c = connectivity(n.connectivity);
	return (
		<th scope="row" className="px-3 py-1 text-left align-baseline font-normal">
			<span className="flex flex-wrap items-baseline gap-x-2">
				<GoNode
					id={n.id}
					className={`wrap-anywhere rounded font-medium font-mono hover:text-accent hover:underline ${over ? "text-muted line-through" : ""}`}
				>
					{n.hostname}
				</GoNode>
				{n.connectivity !== "CONNECTED" && (
					<span className="whitespace-nowrap">
						<Said sign={c} />
					</span>
				)}
			</span>
		</th>
	);
}

export function Action({ n, onAct }: { n: NodeRow; onAct: (id: string, control: Control) => void }) {
	const control: Control = n.cordoned ? "uncordon" : "drain";
	return (
		<td className="px-3 py-0.5 text-right align-baseline">
			<Button
				className="h-6!"
				aria-label={`${controlNames[control]} ${n.hostname}`}
				because={refusal(n, control)}
				onClick={() => onAct(n.id, control)}
			>
				{controlNames[control]}
			</Button>
		</td>
	);
}

/** Opens below a row what its drain waits for, or would: the words, and for those who listen what of. */
export function Unfold({
	open,
	onToggle,
	of,
	children,
}: {
	open: boolean;
	onToggle: () => void;
	of: string;
	children: ReactNode;
}) {
	return (
		<button
			type="button"
			aria-expanded={open}
			onClick={onToggle}
			className="rounded py-0.5 text-left underline decoration-dotted underline-offset-2 hover:text-accent"
		>
			{children}
			<span className="sr-only"> {of}</span>
			<span aria-hidden="true" className="ml-1 inline-block w-2 text-muted">
				{open ? "▾" : "▸"}
			</span>
		</button>
	);
}

/** How many columns there are: a narrow board drops two, and a cell that reached over them would bring them back. */
const narrow = window.matchMedia("(width < 900px)");
function useColumns(): number {
	return useSyncExternalStore(
		(listener) => {
			narrow.addEventListener("change", listener);
			return () => narrow.removeEventListener("change", listener);
		},
		() => (narrow.matches ? 4 : 6),
	);
}

/** A row that is one cell. */
export function Wide({ className = "bg-raised py-2", children }: { className?: string; children: ReactNode }) {
	return (
		<tr className="border-line border-b">
			<td colSpan={useColumns()} className={`px-3 ${className}`}>
				{children}
			</td>
		</tr>
	);
}

export const Gone = () => <Wide className="py-1 text-muted italic">No longer visible</Wide>;

/** A cell wraps rather than cut what it says; only what people wrote is bounded. */
export function Td({ title, clip = false, children }: { title?: string | undefined; clip?: boolean; children: ReactNode }) {
	return (
		<td title={title} className={`px-3 py-1 align-baseline ${clip ? "wrap-anywhere" : ""}`}>
			{clip ? <span className="line-clamp-2">{children}</span> : children}
		</td>
	);
}
