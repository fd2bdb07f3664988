import { useNavigate, useSearch } from "@tanstack/react-router";
import { type KeyboardEvent, lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Begin } from "../act/dialog";
import type { Target } from "../bulk/specs";
import { noConditions, parseSearch, type Search, toFilter } from "../store/filter";
import type { List, NodeList } from "../store/list";
import { Button, Failure, Spinner } from "../ui/parts";
import { useSettings } from "../ui/settings";
import { useToast } from "../ui/toasts";
import { Empty } from "./empty";
import { Filters } from "./filters";
import { Grid } from "./grid";
import { useFleet, useList, useStale } from "./hooks";
import { useKeys } from "./shortcuts";
import { Operations, Ticked, type Ticks, useTicks } from "./ticks";
import { type Control, controlKeys, differences, refusal } from "./words";

const Act = lazy(() => import("../act/dialog"));
const Many = lazy(() => import("../bulk/dialog"));
const Progress = lazy(() => import("../bulk/progress"));
const Peek = lazy(() => import("../node/peek"));

/** The nodes of a tenant. The address holds the filters, the order and the node beside the list, so that a copied link shows the same. */
export function NodesPage({ viewer }: { viewer: string }) {
	const fleet = useFleet();
	const search = parseSearch(useSearch({ strict: false }) as Record<string, unknown>);
	const navigate = useNavigate();
	const key = JSON.stringify({ ...search, tenant: undefined, peek: undefined, op: undefined });
	const nodes = useMemo(() => fleet.list("nodes", parseSearch(JSON.parse(key))), [fleet, key]);
	const list = useList(nodes);
	const stale = useStale(fleet);
	const peekId = search.peek ?? null;
	const [activeId, setActive] = useState<string | null>(peekId ?? nodes.left.activeId);
	const [acting, setActing] = useState<{ id: string; control: Control; begin?: Begin | undefined } | null>(null);
	const [many, setMany] = useState<Target | null>(null);
	const ticks = useTicks(nodes, list.ids, key);
	const announcement = useAnnouncements();
	const filterBox = useRef<HTMLInputElement>(null);
	const toast = useToast();

	useEffect(() => {
		document.title = `Nodes · ${fleet.tenantId} · better-compute`;
	}, [fleet]);

	const setSearch = useCallback(
		(change: Partial<Search>) =>
			void navigate({ to: "/nodes", search: (old: Record<string, unknown>) => ({ ...old, ...change }), replace: true }),
		[navigate],
	);
	const setActiveId = useCallback(
		(id: string | null) => {
			nodes.left.activeId = id;
			setActive(id);
		},
		[nodes],
	);
	const open = useCallback(
		(id: string) => {
			setActiveId(id);
			void navigate({
				to: "/nodes/$nodeId",
				params: { nodeId: id },
				search: (old: Record<string, unknown>) => ({ ...old, peek: undefined }),
			});
		},
		[navigate, setActiveId],
	);
	const tenant = search.tenant;
	const href = useCallback((id: string) => `/nodes/${id}${tenant ? `?tenant=${encodeURIComponent(tenant)}` : ""}`, [tenant]);
	// What stands beside goes along with the active row, without a step in the history for each.
	const peeking = peekId !== null;
	const activate = useCallback(
		(id: string) => {
			setActiveId(id);
			if (peeking) setSearch({ peek: id });
		},
		[peeking, setActiveId, setSearch],
	);
	const closePeek = useCallback(() => {
		setSearch({ peek: undefined });
		focusGrid();
	}, [setSearch]);
	const act = useCallback(
		(id: string, control: Control, begin?: Begin) => {
			setActiveId(id);
			setActing({ id, control, begin });
		},
		[setActiveId],
	);
	const done = useCallback(() => {
		setActing(null);
		focusGrid();
	}, []);

	function move(by: number | "first" | "last") {
		if (list.ids.length === 0) return;
		const at = activeId ? list.ids.indexOf(activeId) : -1;
		const to = by === "first" ? 0 : by === "last" ? list.ids.length - 1 : at < 0 ? 0 : at + by;
		const id = list.ids[Math.max(0, Math.min(list.ids.length - 1, to))];
		if (id) activate(id);
	}

	useKeys(
		(pressed) => {
			const node = activeId ? fleet.nodes.get(activeId)?.node : undefined;
			const control = controlKeys[pressed];
			if (control) {
				if (!node) return false;
				const because = refusal(node, control);
				if (because) toast(`Not offered: ${because}`);
				else act(node.id, control);
				return true;
			}
			switch (pressed) {
				case "j":
					move(1);
					return true;
				case "k":
					move(-1);
					return true;
				case "x":
					if (activeId) ticks.tick(activeId, false);
					return activeId !== null;
				case "o":
					if (activeId) setSearch({ peek: peekId === activeId ? undefined : activeId });
					return activeId !== null;
				case "y":
					if (node)
						void navigator.clipboard.writeText(node.id).then(
							() => toast(`The id of ${node.hostname} is copied`),
							() => toast("The browser does not allow to copy"),
						);
					return node !== undefined;
				case "/":
					filterBox.current?.focus();
					filterBox.current?.select();
					return true;
				case "Escape":
					if (peekId) closePeek();
					else if (ticks.some) ticks.clear();
					else return false;
					return true;
			}
			return false;
		},
		acting === null && many === null && !search.op,
	);

	function onGridKey(e: KeyboardEvent) {
		if (e.ctrlKey || e.metaKey || e.altKey) return;
		const page = 20;
		const moves: Record<string, number | "first" | "last"> = {
			ArrowDown: 1,
			ArrowUp: -1,
			PageDown: page,
			PageUp: -page,
			Home: "first",
			End: "last",
		};
		const by = moves[e.key];
		if (by !== undefined) {
			e.preventDefault();
			move(by);
		} else if (e.key === "Enter" && activeId && e.target === e.currentTarget) {
			e.preventDefault();
			open(activeId);
		}
	}

	return (
		<div className="flex min-h-0 flex-1">
			<div className="flex min-w-0 flex-1 flex-col">
				<Filters search={search} onChange={setSearch} box={filterBox} />
				{list.error && (
					<div className="border-line border-b p-3">
						<Failure error={list.error} action={<Button onClick={() => void nodes.refresh()}>Retry</Button>} />
					</div>
				)}
				{list.ids.length > 0 ? (
					<Grid
						nodes={nodes}
						list={list}
						activeId={activeId}
						peekId={peekId}
						ticked={ticks.ticked}
						onTick={ticks.tick}
						stale={stale}
						onActivate={activate}
						onOpen={open}
						onAct={act}
						onKeyDown={onGridKey}
						href={href}
					/>
				) : (
					<Empty search={search} list={list} onClear={() => setSearch(noConditions)} />
				)}
				<Foot
					nodes={nodes}
					list={list}
					ticks={ticks}
					onMany={() =>
						setMany(
							ticks.ticked === "all" ? { filter: toFilter(search), expectCount: list.total } : { nodeIds: [...ticks.ticked] },
						)
					}
					onOperation={(op) => setSearch({ op })}
				/>
			</div>
			{peekId && (
				<Suspense>
					<Peek nodeId={peekId} onAct={act} onOpen={open} onClose={closePeek} />
				</Suspense>
			)}
			{acting && (
				<Suspense>
					<Act viewer={viewer} nodeId={acting.id} control={acting.control} begin={acting.begin} onClose={done} />
				</Suspense>
			)}
			{many && (
				<Suspense>
					<Many
						target={many}
						onClose={() => setMany(null)}
						onBegun={(op) => {
							setMany(null);
							ticks.clear();
							setSearch({ op });
						}}
					/>
				</Suspense>
			)}
			{search.op && (
				<Suspense>
					<Progress
						operationId={search.op}
						onClose={() => {
							setSearch({ op: undefined });
							focusGrid();
						}}
					/>
				</Suspense>
			)}
			<p aria-live="polite" className="sr-only">
				{announcement}
			</p>
		</div>
	);
}

const focusGrid = () => document.getElementById("nodes")?.focus({ preventScroll: true });

/** What is said of the list stands below it and always has its place: a word that comes or goes moves no row. */
function Foot({
	nodes,
	list,
	ticks,
	onMany,
	onOperation,
}: {
	nodes: NodeList;
	list: List;
	ticks: Ticks;
	onMany: () => void;
	onOperation: (id: string) => void;
}) {
	const { shortcuts } = useSettings();
	const total = list.total.toLocaleString("en");
	const outdated = list.outdated.size;
	return (
		<footer className="flex h-7 shrink-0 items-center gap-3 overflow-hidden border-line border-t bg-raised px-4 text-muted text-xs">
			{(list.loading !== "first" || list.ids.length > 0) && (
				<span className="whitespace-nowrap">
					{list.hasMore
						? `${list.ids.length.toLocaleString("en")} of ${total} nodes`
						: `${total} ${list.total === 1 ? "node" : "nodes"}`}
				</span>
			)}
			{list.loading && list.ids.length > 0 && <Spinner />}
			{ticks.some && <Ticked list={list} ticks={ticks} onMany={onMany} />}
			<Operations onOpen={onOperation} />
			{outdated > 0 && (
				<button
					type="button"
					onClick={() => void nodes.refresh()}
					className="whitespace-nowrap rounded border border-warn/50 bg-warn-bg px-1.5 text-warn"
				>
					{outdated === 1 ? "1 row no longer matches" : `${outdated} rows no longer match`} · refresh
				</button>
			)}
			{list.gap && (
				<span role="status" className="flex items-center gap-1 whitespace-nowrap text-warn">
					The log no longer held what came in between: the list was read anew.
					<button type="button" onClick={() => nodes.dismissGap()} className="rounded border border-warn/50 px-1.5">
						Dismiss
					</button>
				</span>
			)}
			<span className="ml-auto truncate max-md:hidden">
				{shortcuts === "on"
					? "j k move · Enter open · o beside · x select · c u d t l act · / filter · ? keys"
					: "Single-key shortcuts are off"}
			</span>
		</footer>
	);
}

/** For those who listen: what others changed, at most one sentence in five seconds. */
function useAnnouncements(): string {
	const fleet = useFleet();
	const [said, setSaid] = useState("");
	useEffect(() => {
		let waiting: string[] = [];
		let timer: ReturnType<typeof setTimeout> | null = null;
		const speak = () => {
			timer = null;
			if (waiting.length === 0) return;
			setSaid(waiting.length === 1 ? (waiting[0] ?? "") : `${waiting.length} changes, the last: ${waiting.at(-1)}`);
			waiting = [];
			timer = setTimeout(speak, 5_000);
		};
		const off = fleet.onChange((before, after) => {
			const [first] = differences(before, after);
			if (!first) return;
			waiting.push(`${after.hostname}: ${first}`);
			timer ??= setTimeout(speak, 0);
		});
		return () => {
			off();
			if (timer) clearTimeout(timer);
		};
	}, [fleet]);
	return said;
}
