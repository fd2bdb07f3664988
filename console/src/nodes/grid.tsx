import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type ReactNode, useEffect, useRef } from "react";
import type { List, Live } from "../store/live";
import { Button } from "../ui/parts";
import { full, useNow } from "../ui/time";
import { useNode } from "./hooks";
import {
	type Control,
	connectivity,
	cordonWords,
	drainWords,
	provision,
	refusal,
	type Sign,
	seenWords,
	service,
	toneClass,
} from "./words";

const rowHeight = 32;

const columns = [
	["name", "Name"],
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
	live: Live;
	list: List;
	activeId: string | null;
	openId: string | null;
	stale: boolean;
	onActivate: (id: string) => void;
	onOpen: (id: string) => void;
	onAct: (id: string, control: Control) => void;
	onKeyDown: (e: KeyboardEvent) => void;
};

/** The fleet, one row a node. Rows far from view are not drawn, so the focus stays on the grid, which names its active row. */
export function Grid({ live, list, activeId, openId, stale, onActivate, onOpen, onAct, onKeyDown }: Props) {
	const scroll = useRef<HTMLDivElement>(null);
	const rows = useVirtualizer({
		count: list.ids.length,
		getScrollElement: () => scroll.current,
		estimateSize: () => rowHeight,
		getItemKey: (i) => list.ids[i] ?? i,
		overscan: 12,
		scrollPaddingStart: rowHeight,
		scrollPaddingEnd: rowHeight,
	});

	const items = rows.getVirtualItems();
	const last = items.at(-1)?.index ?? 0;
	useEffect(() => {
		if (list.hasMore && last > list.ids.length - 40) void live.more();
	}, [live, list.hasMore, list.ids.length, last]);

	const activeIndex = activeId ? list.ids.indexOf(activeId) : -1;
	useEffect(() => {
		if (activeIndex >= 0) rows.scrollToIndex(activeIndex, { align: "auto" });
	}, [activeIndex, rows]);

	const drawn = activeIndex >= 0 && items.some((item) => item.index === activeIndex);
	return (
		<div
			ref={scroll}
			id="nodes"
			role="grid"
			aria-label="Nodes"
			aria-rowcount={list.hasMore ? Math.max(list.total, list.ids.length) + 1 : list.ids.length + 1}
			aria-colcount={columns.length}
			aria-busy={list.loading !== null}
			aria-activedescendant={drawn ? `row-${activeId}` : undefined}
			tabIndex={0}
			onKeyDown={onKeyDown}
			className={`nodes-grid min-h-0 flex-1 overflow-auto ${stale ? "opacity-70 grayscale" : ""}`}
		>
			<div role="rowgroup" className="sticky top-0 z-10 border-line border-b bg-raised">
				<div
					role="row"
					aria-rowindex={1}
					className="nodes-row items-center text-left font-medium text-muted"
					style={{ height: rowHeight }}
				>
					{columns.map(([id, title], i) => (
						<span
							role="columnheader"
							key={id}
							aria-colindex={i + 1}
							className={`col-${id} truncate px-2 first:pl-4 ${id === "live" ? "text-right" : ""} ${id === "actions" ? "sr-only" : ""}`}
							title={id === "live" ? "Live allocations: neither released nor past their end" : undefined}
						>
							{title}
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
							live={live}
							id={id}
							index={item.index}
							top={item.start}
							active={id === activeId}
							open={id === openId}
							onActivate={onActivate}
							onOpen={onOpen}
							onAct={onAct}
						/>
					) : null;
				})}
			</div>
		</div>
	);
}

type RowProps = Pick<Props, "live" | "onActivate" | "onOpen" | "onAct"> & {
	id: string;
	index: number;
	top: number;
	active: boolean;
	open: boolean;
};

const Row = memo(function Row({ live, id, index, top, active, open, onActivate, onOpen, onAct }: RowProps) {
	const held = useNode(live, id);
	const now = useNow();
	if (!held) return null;
	const n = held.node;
	const inService = service(n);
	const drain = drainWords(n, now);
	const cordon = cordonWords(n, now);
	const flashing = held.changedAt > 0 && Date.now() - held.changedAt < 1_200;
	return (
		<div
			role="row"
			id={`row-${id}`}
			aria-rowindex={index + 2}
			aria-selected={active}
			data-node={id}
			className={`nodes-row group absolute inset-x-0 items-center border-line border-b ${active ? "bg-active" : open ? "bg-hover" : "hover:bg-hover"}`}
			style={{ height: rowHeight, transform: `translateY(${top}px)` }}
			onPointerDown={() => onActivate(id)}
			onDoubleClick={() => onOpen(id)}
		>
			<Cell column="name" index={1}>
				{flashing && (
					<span
						key={held.changedAt}
						aria-hidden="true"
						className="-z-1 pointer-events-none absolute inset-0 animate-flash motion-reduce:hidden"
					/>
				)}
				<button
					type="button"
					tabIndex={active ? 0 : -1}
					onClick={() => onOpen(id)}
					title={`${n.hostname} · ${n.id}`}
					className="max-w-full truncate rounded font-medium font-mono text-text hover:text-accent hover:underline"
				>
					{n.hostname}
				</button>
			</Cell>
			<Cell column="pool" index={2} title={n.pool.name}>
				{n.pool.name}
			</Cell>
			<Cell column="connectivity" index={3} title={n.connectivitySince ? `since ${full(n.connectivitySince)}` : undefined}>
				<Said sign={connectivity(n.connectivity)} />
			</Cell>
			<Cell column="service" index={4} title={n.statusSentence}>
				<Said sign={inService} />
				{inService.more > 0 && <span className="ml-1.5 text-muted">+{inService.more}</span>}
			</Cell>
			<Cell column="state" index={5} title={n.failure ? `${n.failure.phase.toLowerCase()}: ${n.failure.message}` : undefined}>
				<Said sign={provision(n)} />
			</Cell>
			<Cell column="cordon" index={6} title={n.cordon ? `${cordon} · ${full(n.cordon.at)}` : undefined}>
				{n.cordon ? <Said sign={{ glyph: "⊘", word: cordon, tone: "warn" }} plain /> : <None />}
			</Cell>
			<Cell
				column="drain"
				index={7}
				title={n.drain ? `${drain?.word}; begun by ${n.drain.by} at ${full(n.drain.startedAt)}` : undefined}
			>
				{drain ? <Said sign={drain} /> : <None />}
			</Cell>
			<Cell column="live" index={8} className="text-right">
				{n.liveAllocationCount === 0 ? <span className="text-muted">0</span> : n.liveAllocationCount}
			</Cell>
			<Cell column="seen" index={9} title={n.lastSeen ? full(n.lastSeen) : undefined}>
				<span className="text-muted">{seenWords(n, now)}</span>
			</Cell>
			<div role="gridcell" aria-colindex={10} className="col-actions flex justify-end gap-1 pr-3">
				<RowAction n={n} control={n.cordoned ? "uncordon" : "cordon"} active={active} onAct={onAct} />
				<RowAction n={n} control="drain" active={active} onAct={onAct} />
			</div>
		</div>
	);
});

function RowAction({
	n,
	control,
	active,
	onAct,
}: {
	n: Parameters<typeof refusal>[0];
	control: Control;
	active: boolean;
	onAct: (id: string, control: Control) => void;
}) {
	const title = { cordon: "Cordon", uncordon: "Uncordon", drain: "Drain" }[control];
	return (
		<Button
			look="row"
			className="h-6 px-1.5! text-xs"
			tabIndex={active ? 0 : -1}
			aria-label={`${title} ${n.hostname}`}
			because={refusal(n, control)}
			onClick={() => onAct(n.id, control)}
		>
			{title}
		</Button>
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
		<div
			role="gridcell"
			aria-colindex={index}
			title={title}
			className={`col-${column} truncate px-2 ${index === 1 ? "pl-4" : ""} ${className}`}
		>
			{children}
		</div>
	);
}

/** Glyph and word of a state. */
export function Said({ sign, plain = false }: { sign: Sign; plain?: boolean }) {
	return (
		<>
			<span aria-hidden="true" className={`mr-1.5 inline-block w-3 text-center ${toneClass[sign.tone]}`}>
				{sign.glyph}
			</span>
			<span className={plain || sign.tone === "muted" ? "" : toneClass[sign.tone]}>{sign.word}</span>
		</>
	);
}

const None = () => (
	<span className="text-muted" aria-hidden="true">
		–
	</span>
);
