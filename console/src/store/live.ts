import { ApiError, asApiError, request } from "../api/client";
import { NodeEventsSubscription, NodesQuery, ViewerQuery } from "../api/documents";
import { type Connection, follow, type Transport, websocketTransport } from "../api/stream";
import type { NodeEventsSubscription as Delivery } from "../gql/graphql";
import { matches, type Search, toFilter } from "./filter";
import { NodeStore } from "./nodes";

export type LiveEvent = Delivery["nodeEvents"];

/** The list as the page shows it: the ids in the order in which they were read. Live changes never move a row. */
export type List = {
	ids: readonly string[];
	total: number;
	hasMore: boolean;
	loading: "first" | "more" | null;
	error: ApiError | null;
	/** Rows that no longer match the filter, and nodes that might match it now but came later than the list. */
	outdated: number;
	/** The list was read anew because the log no longer held what came between. */
	gap: boolean;
};

const pageSize = 100;
const remembered = 4096;

/** Everything one tenant's page knows and hears: the snapshot, the stream after it, and the connection that carries it. */
export class Live {
	readonly nodes: NodeStore;
	readonly tenantId: string;
	#search: Search = {};
	#list: List = { ids: [], total: 0, hasMore: false, loading: "first", error: null, outdated: 0, gap: false };
	#listed: ReadonlySet<string> = new Set();
	#outdated = new Set<string>();
	#endCursor: string | null = null;
	#connection: Connection = { state: "connecting", dataAt: null };
	#listeners = new Set<() => void>();
	#events = new Set<(e: LiveEvent) => void>();
	#seen = new Set<string>();
	#mine = new Set<string>();
	#stop = new AbortController();
	#reading: AbortController | null = null;
	#following = false;
	#transport: Transport<LiveEvent>;

	constructor(tenantId: string, opts: { nodes?: NodeStore; transport?: Transport<LiveEvent> } = {}) {
		this.tenantId = tenantId;
		this.nodes = opts.nodes ?? new NodeStore();
		this.#transport =
			opts.transport ??
			websocketTransport<LiveEvent>(
				`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/graphql`,
				NodeEventsSubscription.toString(),
				{ tenantId },
				"nodeEvents",
			);
		this.nodes.subscribeAll((ids) => this.#judge(ids));
	}

	get list(): List {
		return this.#list;
	}

	get connection(): Connection {
		return this.#connection;
	}

	subscribe = (listener: () => void): (() => void) => {
		this.#listeners.add(listener);
		return () => this.#listeners.delete(listener);
	};

	/** Each event once, in the log's order. */
	onEvent(listener: (e: LiveEvent) => void): () => void {
		this.#events.add(listener);
		return () => this.#events.delete(listener);
	}

	/** Marks a node as changed by this page, so that its own act is not shown as somebody else's. */
	expectMine(nodeId: string): void {
		this.#mine.add(nodeId);
	}

	isMine(nodeId: string): boolean {
		return this.#mine.has(nodeId);
	}

	forgetMine(nodeId: string): void {
		this.#mine.delete(nodeId);
	}

	/** Reads the list for these conditions, and begins to follow the log from its position the first time. */
	async show(search: Search): Promise<void> {
		this.#search = search;
		await this.#read(false).catch(() => undefined);
	}

	/** Reads the list again in its order, with whatever matches now. */
	refresh = async (): Promise<void> => {
		await this.#read(false).catch(() => undefined);
	};

	dismissGap(): void {
		this.#set({ gap: false });
	}

	/** Reads the next page; at the end of the list, or while a page is on its way, it does nothing. */
	async more(): Promise<void> {
		if (!this.#list.hasMore || this.#list.loading) return;
		this.#set({ loading: "more" });
		const reading = this.#reading;
		const mark = this.nodes.mark();
		try {
			const { nodes: page } = await request(
				NodesQuery,
				{ tenantId: this.tenantId, filter: toFilter(this.#search), first: pageSize, after: this.#endCursor },
				reading?.signal,
			);
			if (reading !== this.#reading) return;
			const known = this.#listed;
			for (const node of page.nodes) this.nodes.merge(node, mark);
			this.#endCursor = page.pageInfo.endCursor ?? null;
			this.#set({
				ids: [...this.#list.ids, ...page.nodes.map((n) => n.id).filter((id) => !known.has(id))],
				total: page.totalCount,
				hasMore: page.pageInfo.hasNextPage,
				loading: null,
				error: null,
			});
		} catch (e) {
			if (reading === this.#reading && !reading?.signal.aborted) this.#set({ loading: null, error: asApiError(e) });
		}
	}

	/** Ends the stream and every reading. */
	close(): void {
		this.#stop.abort();
		this.#reading?.abort();
	}

	async #read(gap: boolean): Promise<string> {
		this.#reading?.abort();
		const reading = new AbortController();
		this.#reading = reading;
		this.#set({ loading: "first", error: null });
		const mark = this.nodes.mark();
		const search = this.#search;
		try {
			const { nodes: page } = await request(
				NodesQuery,
				{ tenantId: this.tenantId, filter: toFilter(search), first: pageSize },
				reading.signal,
			);
			for (const node of page.nodes) this.nodes.merge(node, mark);
			this.#endCursor = page.pageInfo.endCursor ?? null;
			this.#outdated.clear();
			const ids = page.nodes.map((n) => n.id);
			// What the stream brought while the list was being read may be too new for it.
			if (!page.pageInfo.hasNextPage) {
				const known = new Set(ids);
				for (const { node } of this.nodes.since(mark))
					if (!known.has(node.id) && matches(search, node) === true) ids.push(node.id);
			}
			this.#set({
				ids,
				total: Math.max(page.totalCount, ids.length),
				hasMore: page.pageInfo.hasNextPage,
				loading: null,
				error: null,
				outdated: 0,
				gap,
			});
			this.#follow(page.asOf);
			return page.asOf;
		} catch (e) {
			if (reading.signal.aborted) throw e;
			const error = asApiError(e);
			this.#set({ loading: null, error });
			// A server that is down when the page opens must not leave it lying there: the loop tries until there is a first snapshot.
			if (!["UNAUTHENTICATED", "FORBIDDEN", "NOT_FOUND", "INVALID_INPUT"].includes(error.code)) this.#follow(null);
			throw error;
		}
	}

	#follow(asOf: string | null): void {
		if (this.#following || this.#stop.signal.aborted) return;
		this.#following = true;
		let snapshot = asOf !== null;
		void follow<LiveEvent>({
			// Without a snapshot there is no position to go on from: ask for one exactly as if the log no longer held it.
			transport: (o) =>
				snapshot ? this.#transport(o) : Promise.reject(new ApiError("CURSOR_EXPIRED", "there is no snapshot yet")),
			after: asOf,
			cursorOf: (e) => e.cursor,
			onItem: (e) => this.#take(e),
			onConnection: (connection) => {
				this.#connection = connection;
				this.#tell();
			},
			onExpired: async () => {
				const first = !snapshot;
				const position = await this.#read(!first);
				snapshot = true;
				return position;
			},
			mayRetry: async (error) => {
				if (error?.code === "FORBIDDEN" || error?.code === "NOT_FOUND" || error?.code === "INVALID_INPUT") {
					this.#set({ error });
					return false;
				}
				try {
					await request(ViewerQuery, {}, this.#stop.signal);
				} catch (e) {
					if (asApiError(e).code === "UNAUTHENTICATED") return false;
				}
				return true;
			},
			signal: this.#stop.signal,
		});
	}

	#take(e: LiveEvent): void {
		if (this.#seen.has(e.id)) return;
		this.#seen.add(e.id);
		if (this.#seen.size > remembered) for (const oldest of this.#seen) if (this.#seen.delete(oldest)) break;
		if (e.node) {
			this.nodes.merge(e.node, undefined, !this.#mine.has(e.node.id));
			this.#welcome(e.node.id);
		} else if (e.nodeId) {
			this.nodes.remove(e.nodeId);
			if (this.#listed.has(e.nodeId))
				this.#set({ ids: this.#list.ids.filter((id) => id !== e.nodeId), total: Math.max(0, this.#list.total - 1) });
		}
		for (const tell of this.#events) tell(e);
	}

	// A node that belongs in the list only now goes to its end, where it moves nobody; while more pages wait below, one of them brings it.
	#welcome(id: string): void {
		const held = this.nodes.get(id);
		if (!held || this.#list.loading === "first" || this.#listed.has(id)) return;
		if (!this.#list.hasMore && matches(this.#search, held.node) === true)
			this.#set({ ids: [...this.#list.ids, id], total: this.#list.total + 1 });
	}

	// Counts what a new reading of the list would change: only what just changed is looked at.
	#judge(ids: readonly string[]): void {
		for (const id of ids) {
			const held = this.nodes.get(id);
			const m = held ? matches(this.#search, held.node) : null;
			if (held && (this.#listed.has(id) ? m === false : m === true && !this.#list.hasMore)) this.#outdated.add(id);
			else this.#outdated.delete(id);
		}
		if (this.#outdated.size !== this.#list.outdated) this.#set({ outdated: this.#outdated.size });
	}

	#set(change: Partial<List>): void {
		if (change.ids) this.#listed = new Set(change.ids);
		this.#list = { ...this.#list, ...change };
		this.#tell();
	}

	#tell(): void {
		for (const tell of this.#listeners) tell();
	}
}
