import { useEffect, useRef, useState } from "react";
import { request } from "../api/client";
import { RunningQuery } from "../bulk/documents";
import type { RunningOperationsQuery } from "../gql/graphql";
import type { List, NodeList } from "../store/list";
import { useFleet } from "./hooks";

export type Ticks = {
	ticked: ReadonlySet<string> | "all";
	some: boolean;
	/** Whether all that match can be taken at once: not while deleted ones are among them, to which nothing can be done. */
	all: boolean;
	/** Ticks a row, or takes its tick away; with range from the one before on. */
	tick: (id: string | "all", range: boolean) => void;
	clear: () => void;
};

const none: ReadonlySet<string> = new Set();

/** Which rows of a list are ticked. Another list begins without any. */
export function useTicks(list: NodeList, ids: readonly string[], key: string): Ticks {
	const fleet = useFleet();
	const [ticked, setTicked] = useState<ReadonlySet<string> | "all">(none);
	const last = useRef<string | null>(null);
	// biome-ignore lint/correctness/useExhaustiveDependencies: the key says which list it is
	useEffect(() => {
		setTicked(none);
		last.current = null;
	}, [key]);
	const all = !list.withDeleted;
	const can = (id: string) => !fleet.nodes.get(id)?.node.deletedAt;
	const current = useRef({ ids, ticked, all, can });
	current.current = { ids, ticked, all, can };
	const [stable] = useState(() => ({
		tick(id: string | "all", range: boolean) {
			const { ids, ticked, all, can } = current.current;
			if (id === "all") return all && setTicked(ticked === "all" ? none : "all");
			const next = new Set(ticked === "all" ? ids : ticked);
			const on = !next.has(id);
			const from = range && last.current ? ids.indexOf(last.current) : -1;
			const to = ids.indexOf(id);
			const list = from >= 0 && to >= 0 ? ids.slice(Math.min(from, to), Math.max(from, to) + 1) : [id];
			for (const one of list.filter(can)) on ? next.add(one) : next.delete(one);
			last.current = id;
			setTicked(next);
		},
		clear() {
			setTicked(none);
			last.current = null;
		},
	}));
	return { ticked, some: ticked === "all" || ticked.size > 0, all, ...stable };
}

const small = "whitespace-nowrap rounded border border-line bg-bg px-1.5 text-text hover:bg-hover";

/** How many rows are ticked, and what can be done with them. */
export function Ticked({ list, ticks, onMany }: { list: List; ticks: Ticks; onMany: () => void }) {
	const n = ticks.ticked === "all" ? list.total : ticks.ticked.size;
	return (
		<span className="flex items-center gap-2 whitespace-nowrap">
			<b className="text-text">{n.toLocaleString("en")} selected</b>
			<button type="button" className={small} onClick={onMany}>
				Act on {n === 1 ? "it" : "them"}…
			</button>
			{ticks.all && ticks.ticked !== "all" && list.total > n && (
				<button type="button" className={small} onClick={() => ticks.tick("all", false)}>
					Select all {list.total.toLocaleString("en")} that match
				</button>
			)}
			<button type="button" className={small} onClick={ticks.clear}>
				Clear
			</button>
		</span>
	);
}

/** Operations on many nodes that run, whoever began them: so that who comes back finds them. */
export function Operations({ onOpen }: { onOpen: (id: string) => void }) {
	const fleet = useFleet();
	const [list, setList] = useState<RunningOperationsQuery["nodesOperations"]["nodes"]>([]);
	useEffect(() => {
		const stop = new AbortController();
		const read = () =>
			document.visibilityState === "visible" &&
			request(RunningQuery, { tenantId: fleet.tenantId }, stop.signal)
				.then((data) => setList(data.nodesOperations.nodes))
				.catch(() => undefined);
		// The rows come first.
		const off = fleet.onRead(() => void read());
		const timer = setInterval(read, 15_000);
		return () => {
			stop.abort();
			off();
			clearInterval(timer);
		};
	}, [fleet]);
	const first = list[0];
	if (!first) return null;
	return (
		<button type="button" className={small} onClick={() => onOpen(first.id)}>
			{list.length === 1 ? "1 operation runs" : `${list.length} operations run`}
		</button>
	);
}
