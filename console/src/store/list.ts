import { type ApiError, asApiError, request } from "../api/client";
import { CountSubscription, MembersSubscription, NodesQuery, RowsSubscription } from "../api/documents";
import { firstPage, takeNodes } from "../boot";
import type { NodeFilter, NodeOrder, NodesQuery as NodesData } from "../gql/graphql";
import type { Fleet } from "./fleet";
import type { NodeRow } from "./nodes";

/** The list as the page shows it: the ids in the order in which they were read. Live changes never move a row. */
export type List = {
	ids: readonly string[];
	/** How many match on the server, loaded or not. */
	total: number;
	hasMore: boolean;
	loading: "first" | "more" | null;
	error: ApiError | null;
	/** Rows that no longer match, or are no longer seen: they stay where they are until the list is read anew. */
	outdated: ReadonlySet<string>;
	/** Host names that stand in more than one row: there the id tells them apart. */
	repeats: boolean;
	/** The list was read anew because the log no longer held what came between. */
	gap: boolean;
};

/** A part of the list with the place in the log up to which it is known. On the screen it has a stream; away from it, it rests. */
type Page = { ids: string[]; asOf: string; off: (() => void) | null };

type Change = { changed: { id: string }[]; removed: string[]; asOf: string };

const laterPage = 200;
/** Rows on both sides of the screen that are kept live. */
const margin = 30;
const few = 100;

/** Ids of rows that came into the list, told together. */
const together = 60;

/** One list of nodes: pages read as far as somebody scrolled, each followed from its own place in the log while it is looked at. */
export class NodeList {
	#fleet: Fleet;
	#filter: NodeFilter;
	/** The filter as the streams take it: they tell of nodes that are there. */
	#live: NodeFilter;
	#order: NodeOrder;
	#view: List = {
		ids: [],
		total: 0,
		hasMore: false,
		loading: "first",
		error: null,
		outdated: new Set(),
		repeats: false,
		gap: false,
	};
	#pages: Page[] = [];
	#listed = new Map<string, Page>();
	#names = new Map<string, number>();
	#endCursor: string | null = null;
	#memberAsOf: string | null = null;
	#members: (() => void) | null = null;
	#count: (() => void) | null = null;
	#screen: [number, number] = [0, firstPage];
	#reading: AbortController | null = null;
	#meanwhile: Change[] | null = null;
	#renewal: Promise<void> | null = null;
	#arrived = new Set<string>();
	#arriving: ReturnType<typeof setTimeout> | null = null;
	#again: ReturnType<typeof setTimeout> | null = null;
	#listeners = new Set<() => void>();
	#closed = false;

	constructor(fleet: Fleet, filter: NodeFilter, order: NodeOrder) {
		this.#fleet = fleet;
		const { includeDeleted, ...live } = filter;
		this.#filter = filter;
		this.#live = live;
		this.#order = order;
	}

	/** Where somebody left it: the row that was active and how far it was scrolled. */
	left: { activeId: string | null; offset: number } = { activeId: null, offset: 0 };

	get #all(): boolean {
		return Object.keys(this.#live).length === 0;
	}

	/** Deleted nodes are in it too: then one that is deleted stays, and what the streams count is not the whole of it. */
	get withDeleted(): boolean {
		return this.#filter.includeDeleted === true;
	}

	get view(): List {
		return this.#view;
	}

	subscribe = (listener: () => void): (() => void) => {
		this.#listeners.add(listener);
		return () => this.#listeners.delete(listener);
	};

	/** Reads the list in its order, with whatever matches now. */
	refresh = async (): Promise<void> => {
		await this.#read(false).catch(() => undefined);
	};

	/** Says which rows are on the screen; first > last: none. */
	watch(first: number, last: number): void {
		this.#screen = [first, last];
		this.#attend();
	}

	dismissGap(): void {
		this.#set({ gap: false });
	}

	/** Reads the next page; at the end of the list, or while a page is on its way, it does nothing. */
	async more(): Promise<void> {
		if (!this.#view.hasMore || this.#view.loading) return;
		this.#set({ loading: "more" });
		const reading = this.#reading;
		try {
			const page = await this.#ask(laterPage, this.#endCursor, reading?.signal);
			if (reading !== this.#reading) return;
			this.#endCursor = page.pageInfo.endCursor ?? null;
			const ids = page.nodes.map((n) => n.id).filter((id) => !this.#listed.has(id));
			if (ids.length) this.#put({ ids, asOf: page.asOf, off: null });
			this.#set({ total: page.totalCount, hasMore: page.pageInfo.hasNextPage, loading: null, error: null });
			this.#attend();
		} catch (e) {
			if (reading === this.#reading && !reading?.signal.aborted) this.#set({ loading: null, error: asApiError(e) });
		}
	}

	/** Ends its streams and readings. */
	close(): void {
		this.#closed = true;
		this.#reading?.abort();
		for (const page of this.#pages) this.#rest(page);
		this.#members?.();
		this.#count?.();
		if (this.#arriving) clearTimeout(this.#arriving);
		if (this.#again) clearTimeout(this.#again);
	}

	async #ask(first: number, after: string | null, signal?: AbortSignal): Promise<NodesData["nodes"]> {
		const mark = this.#fleet.nodes.mark();
		const variables = { tenantId: this.#fleet.tenantId, filter: this.#filter, orderBy: this.#order, first, after };
		const { nodes: page } = await ((after === null && takeNodes(variables)) || request(NodesQuery, variables, signal));
		for (const node of page.nodes) this.#fleet.nodes.merge(node, mark);
		return page;
	}

	async #read(gap: boolean): Promise<void> {
		this.#reading?.abort();
		if (this.#again) clearTimeout(this.#again);
		const reading = new AbortController();
		this.#reading = reading;
		this.#meanwhile = [];
		this.#set({ loading: "first", error: null });
		try {
			const page = await this.#ask(firstPage, null, reading.signal);
			for (const old of this.#pages) this.#rest(old);
			this.#pages = [];
			this.#listed.clear();
			this.#names.clear();
			this.#arrived.clear();
			this.#endCursor = page.pageInfo.endCursor ?? null;
			this.#view = { ...this.#view, ids: [], outdated: new Set() };
			this.#put({ ids: page.nodes.map((n) => n.id), asOf: page.asOf, off: null });
			this.#set({ total: page.totalCount, hasMore: page.pageInfo.hasNextPage, loading: null, error: null, gap });
			if (gap || this.#memberAsOf === null) this.#memberAsOf = page.asOf;
			// What the stream told while the list was being read can be newer than the list.
			const meanwhile = this.#meanwhile ?? [];
			this.#meanwhile = null;
			for (const change of meanwhile) this.#judge(change);
			this.#follow();
			this.#attend();
			this.#fleet.tellRead();
		} catch (e) {
			if (reading.signal.aborted) throw e;
			this.#meanwhile = null;
			const error = asApiError(e);
			this.#set({ loading: null, error });
			// A server that is down when the page opens must not leave it lying there: it is asked again until there is a list.
			if (["NETWORK", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL"].includes(error.code) && !this.#closed)
				this.#again = setTimeout(() => void this.refresh(), 1_000 + Math.random() * 2_000);
			throw error;
		}
	}

	#put(page: Page): void {
		this.#pages.push(page);
		for (const id of page.ids) this.#listed.set(id, page);
		this.#set({ ids: [...this.#view.ids, ...page.ids], repeats: this.#name(page.ids) });
	}

	#name(ids: readonly string[]): boolean {
		let repeats = this.#view.repeats && this.#names.size > 0;
		for (const id of ids) {
			const name = this.#fleet.nodes.get(id)?.node.hostname ?? id;
			const n = (this.#names.get(name) ?? 0) + 1;
			this.#names.set(name, n);
			if (n > 1) repeats = true;
		}
		return repeats;
	}

	// The pages that are looked at have a stream each; the others rest, and go on from where they were when somebody comes back to them.
	#attend(): void {
		if (this.#closed) return;
		const [first, last] = this.#screen;
		let from = 0;
		for (const page of this.#pages) {
			const to = from + page.ids.length;
			const seen = first <= last && to > first - margin && from <= last + margin;
			if (!seen) this.#rest(page);
			else if (!page.off && page.ids.length) this.#wake(page);
			from = to;
		}
	}

	#rest(page: Page): void {
		page.off?.();
		page.off = null;
	}

	#wake(page: Page): void {
		page.off = this.#fleet.socket.add<Change & { changed: NodesData["nodes"]["nodes"] }>({
			query: RowsSubscription.toString(),
			field: "nodeChanges",
			variables: () => ({ tenantId: this.#fleet.tenantId, after: page.asOf, nodeIds: page.ids }),
			onItem: (batch) => {
				page.asOf = batch.asOf;
				// With a filter only the members' stream knows whether a row belongs; without one, a row that is seen does.
				const back = this.#all ? batch.changed.filter((n) => !this.#fleet.nodes.get(n.id)).map((n) => n.id) : [];
				for (const node of batch.changed) this.#fleet.take(node);
				if (batch.removed.length) void this.#part(batch.removed, (gone) => this.#vanish(gone));
				this.#restore(back);
			},
			onExpired: (e) => this.#renew(e),
			onEnd: (error) => this.#set({ error }),
		});
	}

	#follow(): void {
		if (this.#closed) return;
		this.#members ??= this.#fleet.socket.add<Change>({
			query: MembersSubscription.toString(),
			field: "nodeChanges",
			variables: () => ({ tenantId: this.#fleet.tenantId, after: this.#memberAsOf, filter: this.#live }),
			onItem: (change) => {
				this.#memberAsOf = change.asOf;
				if (this.#meanwhile) this.#meanwhile.push(change);
				else this.#judge(change);
			},
			onExpired: (e) => this.#renew(e),
			onEnd: (error) => this.#set({ error }),
		});
		if (this.withDeleted) return;
		this.#count ??= this.#fleet.socket.add<{ total: number }>({
			query: CountSubscription.toString(),
			field: "fleetSummary",
			variables: () => ({ tenantId: this.#fleet.tenantId, filter: this.#filter }),
			onItem: ({ total }) => total !== this.#view.total && this.#set({ total }),
			onEnd: (error) => this.#set({ error }),
		});
	}

	// However many streams say so, one new reading answers them all.
	#renew(e: ApiError): Promise<void> {
		this.#renewal ??= (async () => {
			this.#fleet.expired(e);
			await this.#read(true);
		})().finally(() => {
			this.#renewal = null;
		});
		return this.#renewal;
	}

	// What came into the list goes to its end, where it moves nobody; while more pages wait below, one of them brings it.
	#judge(change: Change): void {
		const back: string[] = [];
		for (const { id } of change.changed) {
			if (this.#listed.has(id)) back.push(id);
			else if (!this.#view.hasMore) this.#arrived.add(id);
		}
		this.#restore(back.filter((id) => this.#fleet.nodes.get(id)));
		for (const id of change.removed) this.#arrived.delete(id);
		const gone = change.removed.filter((id) => this.#listed.has(id));
		if (gone.length)
			void this.#part(gone, (gone) => {
				if (this.#all) this.#vanish(gone);
				else this.#set({ outdated: new Set([...this.#view.outdated, ...gone]) });
			});
		if (this.#arrived.size && !this.#arriving) this.#arriving = setTimeout(() => void this.#welcome(), together);
	}

	async #welcome(): Promise<void> {
		this.#arriving = null;
		if (this.#closed || this.#meanwhile) return;
		const ids = [...this.#arrived].slice(0, 200);
		for (const id of ids) this.#arrived.delete(id);
		const reading = this.#reading;
		const mark = this.#fleet.nodes.mark();
		try {
			const { nodes: page } = await request(NodesQuery, {
				tenantId: this.#fleet.tenantId,
				filter: { nodeIds: ids, or: [this.#live] },
				orderBy: this.#order,
				first: ids.length,
			});
			if (reading !== this.#reading || this.#closed) return;
			for (const node of page.nodes) this.#fleet.nodes.merge(node, mark);
			const news = page.nodes.map((n) => n.id).filter((id) => !this.#listed.has(id));
			if (news.length) this.#append(news, page.asOf);
		} catch {
			if (reading !== this.#reading || this.#closed) return;
			for (const id of ids) this.#arrived.add(id);
			this.#arriving ??= setTimeout(() => void this.#welcome(), 1_000);
			return;
		}
		if (this.#arrived.size && !this.#arriving) this.#arriving = setTimeout(() => void this.#welcome(), together);
	}

	// A few newcomers share the last page, which is then followed from its older place: to hear something twice does no harm.
	#append(ids: string[], asOf: string): void {
		const last = this.#pages.at(-1);
		if (last && last.ids.length + ids.length <= few) {
			this.#rest(last);
			last.ids.push(...ids);
			for (const id of ids) this.#listed.set(id, last);
			this.#set({ ids: [...this.#view.ids, ...ids], repeats: this.#name(ids) });
		} else this.#put({ ids, asOf, off: null });
		this.#set({ total: Math.max(this.#view.total, this.#view.ids.length - this.#view.outdated.size) });
		this.#attend();
	}

	// A stream says of a deleted node only that it left. Where deleted ones are listed too they are read, and stay; the others part.
	async #part(ids: readonly string[], part: (ids: readonly string[]) => void): Promise<void> {
		if (!this.withDeleted) return part(ids);
		const reading = this.#reading;
		const mark = this.#fleet.nodes.mark();
		let stay: readonly NodeRow[] = [];
		try {
			const { nodes } = await request(NodesQuery, {
				tenantId: this.#fleet.tenantId,
				filter: { ...this.#filter, nodeIds: [...ids] },
				orderBy: this.#order,
				first: ids.length,
			});
			stay = nodes.nodes;
		} catch {
			// Whether they are deleted is not known then: they are not shown as if they were there.
		}
		if (reading !== this.#reading || this.#closed) return;
		for (const node of stay) this.#fleet.nodes.merge(node, mark);
		const staying = new Set(stay.map((n) => n.id));
		const gone = ids.filter((id) => !staying.has(id));
		if (gone.length) part(gone);
	}

	#vanish(ids: readonly string[]): void {
		for (const id of ids) this.#fleet.nodes.remove(id);
		const listed = ids.filter((id) => this.#listed.has(id));
		if (listed.length) this.#set({ outdated: new Set([...this.#view.outdated, ...listed]) });
	}

	#restore(ids: readonly string[]): void {
		const back = ids.filter((id) => this.#view.outdated.has(id));
		if (back.length === 0) return;
		const outdated = new Set(this.#view.outdated);
		for (const id of back) outdated.delete(id);
		this.#set({ outdated });
	}

	#set(change: Partial<List>): void {
		this.#view = { ...this.#view, ...change };
		for (const tell of this.#listeners) tell();
	}
}
