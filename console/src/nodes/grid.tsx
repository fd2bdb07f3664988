import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import type { List, NodeList } from "../store/list";
import type { NodeRow } from "../store/nodes";
import { Button } from "../ui/parts";
import { ago, full, useNow } from "../ui/time";
import { useFleet, useNode } from "./hooks";
import { Said } from "./said";
import {
	type Control,
	connectivity,
	controlNames,
	cordonWords,
	drainWords,
	provision,
	refusal,
	seenWords,
	service,
	showsAge,
} from "./words";

const rowHeight = 28;

const columns = [
	["tick", "Select"],
	["name", "Name"],
	["id", "Id"],
	["pool", "Pool"],
	["connectivity", "Connectivity"],
	["service", "In service"],
	["state", "Provisioning"],
	["cordon", "Cordon"],
	["drain", "Drain"],
	["live", "Allocs"],
	["seen", "Last seen"],
	["actions", "Actions"],
] as const;

type Props = {
	nodes: NodeList;
	list: List;
	activeId: string | null;
	peekId: string | null;
	/** The rows that are ticked; all: those that match, whether they are read yet or not. */
	ticked: ReadonlySet<string> | "all";
	onTick: (id: string | "all", range: boolean) => void;
	stale: boolean;
	onActivate: (id: string) => void;
	onOpen: (id: string) => void;
	onAct: (id: string, control: Control) => void;
	onKeyDown: (e: KeyboardEvent) => void;
	href: (id: string) => string;
};

/** The fleet, one row a node. Rows far from view are not drawn, so the focus stays on the grid, which names its active row. */
export function Grid({
	nodes,
	list,
	activeId,
	peekId,
	ticked,
	onTick,
	stale,
	onActivate,
	onOpen,
	onAct,
	onKeyDown,
	href,
}: Props) {
	const scroll = useRef<HTMLDivElement>(null);
	const rows = useVirtualizer({
		count: list.ids.length,
		getScrollElement: () => scroll.current,
		estimateSize: () => rowHeight,
		getItemKey: (i) => list.ids[i] ?? i,
		overscan: 12,
		initialOffset: nodes.left.offset,
		scrollPaddingStart: rowHeight,
		scrollPaddingEnd: rowHeight,
	});

	const items = rows.getVirtualItems();
	const first = items[0]?.index ?? 0;
	const last = items.at(-1)?.index ?? 0;
	useEffect(() => {
		if (list.hasMore && last > list.ids.length - Math.min(60, list.ids.length / 5)) void nodes.more();
	}, [nodes, list.hasMore, list.ids.length, last]);
	// A wheel passes many rows: those that it stops at are followed.
	useEffect(() => {
		const timer = setTimeout(() => nodes.watch(first, last), 120);
		return () => clearTimeout(timer);
	}, [nodes, first, last]);
	useEffect(() => () => nodes.watch(0, -1), [nodes]);

	useLayoutEffect(() => {
		const box = scroll.current;
		if (!box) return;
		box.scrollTop = nodes.left.offset;
		const keep = () => {
			nodes.left.offset = box.scrollTop;
		};
		box.addEventListener("scroll", keep, { passive: true });
		return () => box.removeEventListener("scroll", keep);
	}, [nodes]);

	// The row is brought into view when somebody moves to it, and at no other time: what moves by itself is nobody's wish.
	const moved = useRef(activeId);
	const activeIndex = activeId ? list.ids.indexOf(activeId) : -1;
	useEffect(() => {
		if (moved.current === activeId) return;
		moved.current = activeId;
		if (activeIndex >= 0) rows.scrollToIndex(activeIndex, { align: "auto" });
	}, [activeId, activeIndex, rows]);

	const drawn = activeIndex >= 0 && items.some((item) => item.index === activeIndex);
	const shown = columns.filter(([id]) => id !== "id" || list.repeats);
	return (
		<div
			ref={scroll}
			id="nodes"
			role="grid"
			aria-label="Nodes"
			aria-rowcount={list.hasMore ? Math.max(list.total, list.ids.length) + 1 : list.ids.length + 1}
			aria-colcount={shown.length}
			aria-busy={list.loading !== null}
			aria-activedescendant={drawn ? `row-${activeId}` : undefined}
			tabIndex={0}
			onKeyDown={onKeyDown}
			className={`nodes-grid min-h-0 flex-1 overflow-auto ${list.repeats ? "with-id" : ""} ${stale ? "stale" : ""}`}
		>
			<div role="rowgroup" className="sticky top-0 z-10 border-line border-b bg-raised">
				<div
					role="row"
					aria-rowindex={1}
					className="nodes-row items-center text-left font-medium text-muted text-xs"
					style={{ height: rowHeight }}
				>
					{shown.map(([id, title], i) => (
						<span
							role="columnheader"
							key={id}
							aria-colindex={i + 1}
							className={`col-${id} truncate px-2 first:pl-4 ${id === "live" ? "text-right" : ""} ${id === "actions" ? "sr-only" : ""}`}
							title={id === "live" ? "Live allocations: neither released nor past their end" : undefined}
						>
							{id === "tick" ? (
								<Tick
									label="Select all that match"
									on={ticked === "all"}
									off={nodes.withDeleted ? "Deleted nodes are in the list: nothing can be done to them" : undefined}
									onTick={() => onTick("all", false)}
								/>
							) : (
								title
							)}
						</span>
					))}
				</div>
			</div>
			<div role="rowgroup" className="relative" style={{ height: rows.getTotalSize() }}>
				{items.map((item) => {
					const id = list.ids[item.index];
					return id ? (
						<Row
							key={id}
							id={id}
							index={item.index}
							top={item.start}
							active={id === activeId}
							peeked={id === peekId}
							ticked={ticked === "all" || ticked.has(id)}
							onTick={onTick}
							outdated={list.outdated.has(id)}
							withId={list.repeats}
							onActivate={onActivate}
							onOpen={onOpen}
							onAct={onAct}
							href={href}
						/>
					) : null;
				})}
			</div>
		</div>
	);
}

type RowProps = Pick<Props, "onActivate" | "onOpen" | "onAct" | "onTick" | "href"> & {
	id: string;
	index: number;
	top: number;
	active: boolean;
	peeked: boolean;
	ticked: boolean;
	outdated: boolean;
	withId: boolean;
};

const Row = memo(function Row({
	id,
	index,
	top,
	active,
	peeked,
	ticked,
	outdated,
	withId,
	onActivate,
	onOpen,
	onAct,
	onTick,
	href,
}: RowProps) {
	const held = useNode(useFleet(), id);
	const now = useNow(held !== undefined && showsAge(held.node));
	const frame = {
		id: `row-${id}`,
		"aria-rowindex": index + 2,
		"aria-selected": active,
		"data-node": id,
		style: { height: rowHeight, transform: `translateY(${top}px)` },
	};
	if (!held)
		return (
			<div role="row" {...frame} className="absolute inset-x-0 flex items-center border-line border-b px-4 text-muted italic">
				<span role="gridcell" aria-colindex={1}>
					No longer visible
				</span>
			</div>
		);
	const n = held.node;
	const at = withId ? 2 : 1;
	const gone = n.deletedAt != null;
	const flashing = held.changedAt > 0 && Date.now() - held.changedAt < 1_200;
	return (
		<div
			role="row"
			{...frame}
			className={`nodes-row group absolute inset-x-0 items-center border-line border-b ${gone ? "text-muted" : ""} ${active ? "bg-active" : peeked ? "bg-hover" : "hover:bg-hover"}`}
			onPointerDown={() => onActivate(id)}
			onDoubleClick={() => onOpen(id)}
		>
			<div role="gridcell" aria-colindex={1} className="col-tick px-2 pl-4">
				{!gone && (
					<Tick label={`Select ${n.hostname}`} on={ticked} tabIndex={active ? 0 : -1} onTick={(range) => onTick(id, range)} />
				)}
			</div>
			<Cell column="name" index={2} className={outdated ? "text-muted" : ""}>
				{flashing && (
					<span
						key={held.changedAt}
						aria-hidden="true"
						className="-z-1 pointer-events-none absolute inset-0 animate-flash bg-flash motion-reduce:hidden"
					/>
				)}
				<a
					href={href(id)}
					tabIndex={active ? 0 : -1}
					draggable={false}
					onClick={(e) => {
						if (e.metaKey || e.ctrlKey || e.shiftKey) return;
						e.preventDefault();
						onOpen(id);
					}}
					title={`${n.hostname} · ${outdated ? "no longer matches" : gone ? "deleted" : n.id}`}
					className={`rounded font-medium font-mono hover:text-accent hover:underline ${outdated || gone ? "text-muted line-through" : "text-text"}`}
				>
					{n.hostname}
				</a>
			</Cell>
			{withId && (
				<Cell column="id" index={3} title={n.id} className="font-mono text-muted text-xs">
					…{n.id.slice(-8)}
				</Cell>
			)}
			<Cell column="pool" index={2 + at} title={n.pool.name}>
				{n.pool.name}
			</Cell>
			{gone ? <Gone n={n} at={at} now={now} /> : <Axes n={n} at={at} now={now} active={active} onAct={onAct} />}
		</div>
	);
});

/** How a node stands, axis by axis, and what can be done to it. */
function Axes({ n, at, now, active, onAct }: { n: NodeRow; at: number; now: number; active: boolean; onAct: Props["onAct"] }) {
	const inService = service(n);
	const drain = drainWords(n, now);
	const cordon = cordonWords(n, now);
	return (
		<>
			<Cell column="connectivity" index={3 + at} title={n.connectivitySince ? `since ${full(n.connectivitySince)}` : undefined}>
				<Said sign={connectivity(n.connectivity)} />
			</Cell>
			<Cell column="service" index={4 + at} title={n.statusSentence}>
				<Said sign={inService} />
				{inService.more > 0 && <span className="ml-1.5 text-muted">+{inService.more}</span>}
			</Cell>
			<Cell
				column="state"
				index={5 + at}
				title={n.failure ? `${n.failure.phase.toLowerCase()}: ${n.failure.message}` : undefined}
			>
				<Said sign={provision(n)} />
			</Cell>
			<Cell column="cordon" index={6 + at} title={n.cordon ? `${cordon} · ${full(n.cordon.at)}` : undefined}>
				{n.cordon ? cordon : <None />}
			</Cell>
			<Cell
				column="drain"
				index={7 + at}
				title={n.drain ? `${drain?.word}; begun by ${n.drain.by} at ${full(n.drain.startedAt)}` : undefined}
			>
				{drain ? <Said sign={drain} /> : <None />}
			</Cell>
			<Cell column="live" index={8 + at} className="text-right">
				{n.liveAllocationCount === 0 ? <span className="text-muted">0</span> : n.liveAllocationCount}
			</Cell>
			<Cell column="seen" index={9 + at} title={n.lastSeen ? full(n.lastSeen) : undefined}>
				<span className="text-muted">{seenWords(n, now)}</span>
			</Cell>
			<div role="gridcell" aria-colindex={10 + at} className="col-actions flex justify-end gap-1 pr-3">
				<RowAction n={n} control={n.cordoned ? "uncordon" : "cordon"} active={active} onAct={onAct} />
				<RowAction n={n} control="drain" active={active} onAct={onAct} />
			</div>
		</>
	);
}

/** A deleted node stands nowhere any more; only when it went is left to say. */
function Gone({ n, at, now }: { n: NodeRow; at: number; now: number }) {
	const blank = [
		["state", 5],
		["cordon", 6],
		["drain", 7],
		["live", 8],
		["seen", 9],
		["actions", 10],
	] as const;
	return (
		<>
			<Cell column="connectivity" index={3 + at} title={`deleted at ${full(n.deletedAt ?? "")}`}>
				<Said sign={{ glyph: "▪", word: "deleted", tone: "muted" }} />
			</Cell>
			<Cell column="service" index={4 + at}>
				{ago(n.deletedAt ?? "", now)}
			</Cell>
			{blank.map(([column, index]) => (
				<Cell key={column} column={column} index={index + at} className={column === "live" ? "text-right" : ""}>
					{column === "actions" ? null : <None />}
				</Cell>
			))}
		</>
	);
}

function RowAction({
	n,
	control,
	active,
	onAct,
}: {
	n: NodeRow;
	control: Control;
	active: boolean;
	onAct: (id: string, control: Control) => void;
}) {
	const title = controlNames[control];
	return (
		<Button
			look="row"
			className="h-5.5! px-1.5! text-xs"
			tabIndex={active ? 0 : -1}
			aria-label={`${title} ${n.hostname}`}
			because={refusal(n, control)}
			onClick={() => onAct(n.id, control)}
		>
			{title}
		</Button>
	);
}

/** A box to tick a row by; with Shift it reaches from the one before. */
function Tick({
	label,
	on,
	off,
	tabIndex = 0,
	onTick,
}: {
	label: string;
	on: boolean;
	/** Why it cannot be ticked. */
	off?: string | undefined;
	tabIndex?: number;
	onTick: (range: boolean) => void;
}) {
	return (
		<input
			type="checkbox"
			aria-label={label}
			checked={on}
			disabled={off !== undefined}
			title={off}
			tabIndex={tabIndex}
			onChange={(e) => onTick((e.nativeEvent as MouseEvent).shiftKey === true)}
			className="size-3.5 align-middle"
		/>
	);
}

function Cell({
	column,
	index,
	title,
	className = "",
	children,
}: {
	column: string;
	index: number;
	title?: string | undefined;
	className?: string;
	children: ReactNode;
}) {
	return (
		<div role="gridcell" aria-colindex={index} title={title} className={`col-${column} truncate px-2 ${className}`}>
			{children}
		</div>
	);
}

const None = () => (
	<span className="text-muted" aria-hidden="true">
		–
	</span>
);
