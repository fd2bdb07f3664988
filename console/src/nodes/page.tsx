import { useNavigate, useSearch } from "@tanstack/react-router";
import { type KeyboardEvent, useCallback, useEffect, useRef, useState } from "react";
import { request } from "../api/client";
import { PoolsQuery } from "../api/documents";
import { filtered, parseSearch, type Search } from "../store/filter";
import type { Live } from "../store/live";
import { Button, Failure, Spinner } from "../ui/parts";
import { clock, freezeTime } from "../ui/time";
import { Act } from "./act";
import { Grid } from "./grid";
import { useConnection, useList } from "./hooks";
import { Keys, useShortcuts } from "./keys";
import { Panel } from "./panel";
import { type Control, eventWords, refusal } from "./words";

const chips = [
	["away", "Not connected"],
	["cordoned", "Cordoned"],
	["draining", "Draining"],
	["maintenance", "Maintenance"],
	["busy", "Has allocations"],
] as const;

/** The nodes of a tenant. The address holds the filters and the open node, so that a copied link shows the same. */
export function NodesPage({ live, viewer, openId }: { live: Live; viewer: string; openId: string | null }) {
	const search = parseSearch(useSearch({ strict: false }) as Record<string, unknown>);
	const navigate = useNavigate();
	const list = useList(live);
	const connection = useConnection(live);
	const [activeId, setActiveId] = useState<string | null>(openId);
	const [acting, setActing] = useState<{ id: string; control: Control } | null>(null);
	const [help, setHelp] = useState(false);
	const [shortcuts, setShortcuts] = useShortcuts();
	const [announcement, setAnnouncement] = useState("");
	const filterBox = useRef<HTMLInputElement>(null);
	const [pools, setPools] = useState<readonly { id: string; name: string }[]>([]);

	const key = JSON.stringify({ ...search, tenant: undefined });
	useEffect(() => {
		void live.show(parseSearch(JSON.parse(key)));
	}, [live, key]);

	useEffect(() => {
		const stop = new AbortController();
		request(PoolsQuery, { tenantId: live.tenantId }, stop.signal)
			.then((data) => setPools(data.pools))
			.catch(() => undefined);
		return () => stop.abort();
	}, [live]);

	const openName = openId ? live.nodes.get(openId)?.node.hostname : undefined;
	useEffect(() => {
		document.title = `${openName ?? "Nodes"} · ${live.tenantId} · better-compute`;
	}, [openName, live.tenantId]);

	// For those who listen: others' changes, at most one sentence in five seconds.
	useEffect(() => {
		let waiting: string[] = [];
		let timer: ReturnType<typeof setTimeout> | null = null;
		const speak = () => {
			timer = null;
			if (waiting.length === 0) return;
			setAnnouncement(waiting.length === 1 ? (waiting[0] ?? "") : `${waiting.length} changes, the last: ${waiting.at(-1)}`);
			waiting = [];
			timer = setTimeout(speak, 5_000);
		};
		const off = live.onEvent((e) => {
			if (!e.node || e.actor === viewer) return;
			waiting.push(`${e.node.hostname}: ${eventWords(e.type)} by ${e.actor}`);
			timer ??= setTimeout(speak, 0);
		});
		return () => {
			off();
			if (timer) clearTimeout(timer);
		};
	}, [live, viewer]);

	const setSearch = useCallback(
		(change: Partial<Search>) =>
			void navigate({ to: ".", search: (old: Record<string, unknown>) => ({ ...old, ...change }), replace: true }),
		[navigate],
	);
	const open = useCallback(
		(id: string, replace = false) => {
			setActiveId(id);
			void navigate({ to: "/nodes/$nodeId", params: { nodeId: id }, search: (old: Record<string, unknown>) => old, replace });
		},
		[navigate],
	);
	// The open panel goes along with the active row, without a step in the history for each.
	const opened = openId !== null;
	const activate = useCallback((id: string) => (opened ? open(id, true) : setActiveId(id)), [open, opened]);
	const close = useCallback(() => {
		void navigate({ to: "/nodes", search: (old: Record<string, unknown>) => old });
		document.getElementById("nodes")?.focus();
	}, [navigate]);
	const act = useCallback((id: string, control: Control) => {
		setActiveId(id);
		setActing({ id, control });
	}, []);
	const done = useCallback(() => {
		setActing(null);
		document.getElementById("nodes")?.focus();
	}, []);

	function move(by: number | "first" | "last") {
		if (list.ids.length === 0) return;
		const at = activeId ? list.ids.indexOf(activeId) : -1;
		const to = by === "first" ? 0 : by === "last" ? list.ids.length - 1 : at < 0 ? 0 : at + by;
		const id = list.ids[Math.max(0, Math.min(list.ids.length - 1, to))];
		if (id) activate(id);
	}

	function command(pressed: string): boolean {
		const node = activeId ? live.nodes.get(activeId)?.node : undefined;
		const control = ({ c: "cordon", u: "uncordon", d: "drain" } as const)[pressed];
		if (control) {
			if (!node) return false;
			if (refusal(node, control)) setAnnouncement(`Not offered: ${refusal(node, control)}`);
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
			case "/":
				filterBox.current?.focus();
				filterBox.current?.select();
				return true;
			case "?":
				setHelp(true);
				return true;
		}
		return false;
	}

	// Single keys work wherever nothing is typed and no dialog is open, and only while the reader wants them.
	const onKey = useRef<(e: globalThis.KeyboardEvent) => void>(() => undefined);
	onKey.current = (e) => {
		if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || acting || help) return;
		const target = e.target as HTMLElement;
		if (target.closest("input, textarea, select, [contenteditable], [role=dialog]")) return;
		if (e.key === "Escape" && openId) {
			e.preventDefault();
			return close();
		}
		if (shortcuts && command(e.key)) e.preventDefault();
	};
	useEffect(() => {
		const listener = (e: globalThis.KeyboardEvent) => onKey.current(e);
		window.addEventListener("keydown", listener);
		return () => window.removeEventListener("keydown", listener);
	}, []);

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

	const stale = connection.state === "reconnecting" || connection.state === "offline";
	const frozenAt = stale ? connection.dataAt : null;
	useEffect(() => {
		freezeTime(frozenAt);
		return () => freezeTime(null);
	}, [frozenAt]);
	return (
		<div className="flex min-h-0 flex-1">
			<div className="flex min-w-0 flex-1 flex-col">
				<div role="search" className="flex flex-wrap items-center gap-2 border-line border-b px-4 py-2">
					<h1 className="sr-only">Nodes of {live.tenantId}</h1>
					<FilterText box={filterBox} value={search.q ?? ""} onChange={(q) => setSearch({ q: q || undefined })} />
					<label className="flex items-center gap-1.5 text-muted">
						Pool
						<select
							value={search.pool ?? ""}
							onChange={(e) => setSearch({ pool: e.target.value || undefined })}
							className="h-7 rounded border border-strong bg-bg px-1.5 text-text"
						>
							<option value="">all</option>
							{pools.map((p) => (
								<option key={p.id} value={p.id}>
									{p.name}
								</option>
							))}
						</select>
					</label>
					{chips.map(([name, title]) => (
						<button
							key={name}
							type="button"
							aria-pressed={search[name] === true}
							onClick={() => setSearch({ [name]: search[name] ? undefined : true })}
							className={`h-7 rounded-full border px-2.5 ${search[name] ? "border-accent bg-active text-text" : "border-line text-muted hover:bg-hover hover:text-text"}`}
						>
							{title}
						</button>
					))}
					<span className="ml-auto flex items-center gap-2 text-muted">
						{list.outdated > 0 && (
							<button
								type="button"
								onClick={() => void live.refresh()}
								className="h-7 rounded-full border border-warn/50 bg-warn-bg px-2.5 text-warn"
							>
								{list.outdated === 1 ? "1 row" : `${list.outdated} rows`} no longer match · refresh
							</button>
						)}
						{list.loading && <Spinner />}
						<span>
							{list.hasMore ? `${list.ids.length} of ${list.total.toLocaleString("en")}` : list.ids.length.toLocaleString("en")}{" "}
							{list.ids.length === 1 && !list.hasMore ? "node" : "nodes"}
						</span>
					</span>
				</div>
				{list.gap && (
					<p role="status" className="flex items-center gap-3 border-line border-b bg-warn-bg px-4 py-1.5 text-warn">
						The log no longer held what came in between: the list was read anew.
						<Button look="quiet" onClick={() => live.dismissGap()}>
							Dismiss
						</Button>
					</p>
				)}
				{list.error && (
					<div className="border-line border-b p-3">
						<Failure error={list.error} action={<Button onClick={() => void live.refresh()}>Retry</Button>} />
					</div>
				)}
				{list.ids.length > 0 ? (
					<Grid
						live={live}
						list={list}
						activeId={activeId}
						openId={openId}
						stale={stale}
						onActivate={activate}
						onOpen={open}
						onAct={act}
						onKeyDown={onGridKey}
					/>
				) : (
					<Empty live={live} search={search} loading={list.loading !== null} failed={list.error !== null} onClear={setSearch} />
				)}
				<footer className="flex gap-4 border-line border-t bg-raised px-4 py-1 text-muted text-xs">
					{shortcuts ? (
						<span className="max-sm:hidden">j k move · Enter open · c cordon · u uncordon · d drain · / filter</span>
					) : (
						<span>Single-key shortcuts are off.</span>
					)}
					<button type="button" onClick={() => setHelp(true)} className="ml-auto rounded px-1 hover:bg-hover hover:text-text">
						Keys (?)
					</button>
				</footer>
			</div>
			{openId && <Panel live={live} nodeId={openId} onAct={act} onClose={close} />}
			{acting && <Act live={live} viewer={viewer} nodeId={acting.id} control={acting.control} onClose={done} />}
			{help && <Keys shortcuts={shortcuts} onShortcuts={setShortcuts} onClose={() => setHelp(false)} />}
			<p aria-live="polite" className="sr-only">
				{announcement}
			</p>
			{stale && connection.dataAt !== null && <p className="sr-only">Data from {clock(connection.dataAt)}.</p>}
		</div>
	);
}

/** The text goes into the address when the typing rests. */
function FilterText({
	box,
	value,
	onChange,
}: {
	box: React.RefObject<HTMLInputElement | null>;
	value: string;
	onChange: (q: string) => void;
}) {
	const [text, setText] = useState(value);
	const sent = useRef(value);
	useEffect(() => {
		if (value !== sent.current) {
			sent.current = value;
			setText(value);
		}
	}, [value]);
	useEffect(() => {
		if (text === sent.current) return;
		const timer = setTimeout(() => {
			sent.current = text;
			onChange(text);
		}, 150);
		return () => clearTimeout(timer);
	}, [text, onChange]);
	return (
		<input
			ref={box}
			type="search"
			aria-label="Filter by name, id or label value"
			placeholder="Filter by name, id or label value  ( / )"
			value={text}
			onChange={(e) => setText(e.target.value)}
			onKeyDown={(e) => {
				if (e.key === "Escape" || e.key === "Enter") {
					e.preventDefault();
					if (e.key === "Escape") setText("");
					document.getElementById("nodes")?.focus();
				}
			}}
			className="h-7 w-72 rounded border border-strong bg-bg px-2 placeholder:text-muted"
		/>
	);
}

function Empty({
	live,
	search,
	loading,
	failed,
	onClear,
}: {
	live: Live;
	search: Search;
	loading: boolean;
	failed: boolean;
	onClear: (change: Partial<Search>) => void;
}) {
	if (loading)
		return (
			<p className="flex flex-1 items-center justify-center gap-2 text-muted">
				<Spinner /> Reading the nodes…
			</p>
		);
	if (failed) return <div className="flex-1" />;
	if (filtered(search))
		return (
			<div className="flex flex-1 flex-col items-center justify-center gap-3">
				<p>No node of {live.tenantId} matches these filters.</p>
				<Button
					onClick={() =>
						onClear({
							q: undefined,
							pool: undefined,
							away: undefined,
							cordoned: undefined,
							draining: undefined,
							maintenance: undefined,
							busy: undefined,
						})
					}
				>
					Remove the filters
				</Button>
			</div>
		);
	return (
		<div className="flex flex-1 flex-col items-center justify-center gap-2 px-4 text-center">
			<p className="font-medium text-base">No nodes yet</p>
			<p className="text-muted">A machine that joins shows up here by itself. Make a token for it on the server’s host:</p>
			<code className="rounded border border-line bg-raised px-2 py-1 font-mono text-xs">
				better-compute join-tokens create --tenant {live.tenantId}
			</code>
		</div>
	);
}
