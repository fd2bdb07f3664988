import { type ApiError, asApiError, request } from "../api/client";
import { EventsSubscription, HistoryQuery, LogQuery } from "../events/documents";
import type { EventLineFragment } from "../gql/graphql";
import type { Fleet } from "./fleet";

export type EventLine = EventLineFragment;
export type EventFilter = {
	nodeId?: string | undefined;
	types?: string[] | undefined;
	actor?: string | undefined;
	/** Nothing more can come: the node is deleted, and has a history alone. */
	over?: boolean;
};

export type Feed = {
	/** Newest first, without a hole but where a gap is said. */
	events: readonly EventLine[];
	hasOlder: boolean;
	loading: "first" | "older" | null;
	error: ApiError | null;
	/** How many came while the feed is held. */
	waiting: number;
	held: boolean;
	/** Between this event and the one after it in the list some are no longer kept. */
	gapAfter: string | null;
};

const pageSize = 50;
/** The most that is kept: what is older is read again by its cursor. */
const most = 2_000;

/**
 * The events of a tenant or of one node: the history backwards, page by page, and what comes, live. Each event is in it once, in the log's
 * order. While it is held nothing moves, and nothing is lost.
 */
export class EventFeed {
	#fleet: Fleet;
	#filter: EventFilter;
	#size: number;
	#view: Feed = { events: [], hasOlder: false, loading: "first", error: null, waiting: 0, held: false, gapAfter: null };
	#seen = new Set<string>();
	/** What came and is not in the list yet, oldest first. */
	#news: EventLine[] = [];
	#overflown = false;
	#endCursor: string | null = null;
	#cursor = "";
	#off: (() => void) | null = null;
	#reading: AbortController | null = null;
	#again: ReturnType<typeof setTimeout> | null = null;
	#frame = false;
	#closed = false;
	#listeners = new Set<() => void>();

	constructor(fleet: Fleet, filter: EventFilter, size = pageSize) {
		this.#fleet = fleet;
		this.#filter = filter;
		this.#size = size;
	}

	get view(): Feed {
		return this.#view;
	}

	subscribe = (listener: () => void): (() => void) => {
		this.#listeners.add(listener);
		return () => this.#listeners.delete(listener);
	};

	/** Reads the newest page and follows the log from there. */
	open = async (): Promise<void> => {
		await this.#read(null).catch(() => undefined);
	};

	/** Reads the page before the oldest event that is held. */
	older = async (): Promise<void> => {
		if (!this.#view.hasOlder || this.#view.loading) return;
		this.#set({ loading: "older" });
		const reading = this.#reading;
		try {
			const page = await this.#ask(this.#endCursor, reading?.signal);
			if (reading !== this.#reading) return;
			this.#endCursor = page.pageInfo.endCursor ?? this.#endCursor;
			const events = page.nodes.filter((e) => !this.#seen.has(e.id));
			for (const e of events) this.#seen.add(e.id);
			this.#set({
				events: [...this.#view.events, ...events],
				hasOlder: page.pageInfo.hasNextPage,
				loading: null,
				error: null,
			});
		} catch (e) {
			if (reading !== this.#reading || reading?.signal.aborted) return;
			const error = asApiError(e);
			// The cursor is older than what is kept: there is nothing before it any more.
			if (error.code === "CURSOR_EXPIRED") this.#set({ loading: null, hasOlder: false });
			else this.#set({ loading: null, error });
		}
	};

	/** Holds what comes back, so that nothing moves under whoever reads. */
	hold(): void {
		if (!this.#view.held) this.#set({ held: true });
	}

	/** Shows what came meanwhile, and goes on. */
	release(): void {
		if (!this.#view.held) return;
		this.#set({ held: false });
		if (this.#overflown) void this.open();
		else this.#show();
	}

	close(): void {
		this.#closed = true;
		this.#reading?.abort();
		if (this.#again) clearTimeout(this.#again);
		this.#off?.();
	}

	async #ask(after: string | null, signal?: AbortSignal) {
		const { nodeId, types, actor } = this.#filter;
		const variables = {
			tenantId: this.#fleet.tenantId,
			nodeId: nodeId ?? null,
			types: types?.length ? types : null,
			actor: actor ?? null,
			first: after ? Math.max(this.#size, 100) : this.#size,
			after,
		};
		return (await request(HistoryQuery, variables, signal)).events;
	}

	async #read(expired: ApiError | null): Promise<void> {
		this.#reading?.abort();
		if (this.#again) clearTimeout(this.#again);
		const reading = new AbortController();
		this.#reading = reading;
		this.#set({ loading: "first", error: null });
		try {
			// The place to follow from is read first: what happens between the two comes twice, and is dropped by its id.
			const { log } = await request(LogQuery, { tenantId: this.#fleet.tenantId }, reading.signal);
			const page = await this.#ask(null, reading.signal);
			this.#replace(page.nodes, page.pageInfo.hasNextPage, page.pageInfo.endCursor ?? null, expired);
			this.#cursor = log.head;
			if (!expired) {
				this.#off?.();
				this.#off = this.#closed || this.#filter.over ? null : this.#follow();
			}
		} catch (e) {
			if (reading.signal.aborted) throw e;
			const error = asApiError(e);
			this.#set({ loading: null, error });
			if (["NETWORK", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL"].includes(error.code) && !expired && !this.#closed)
				this.#again = setTimeout(() => void this.open(), 1_000 + Math.random() * 2_000);
			throw error;
		}
	}

	// After a gap the older events stay below a line that says so, unless they are of another log.
	#replace(page: readonly EventLine[], more: boolean, end: string | null, expired: ApiError | null): void {
		const known = page.findIndex((e) => this.#seen.has(e.id));
		const keep = expired?.details.cause === "retention" ? this.#view.events : [];
		const fresh = known >= 0 && keep.length ? page.slice(0, known) : page;
		const events = [...fresh, ...keep];
		this.#news = [];
		this.#overflown = false;
		this.#seen = new Set(events.map((e) => e.id));
		if (!keep.length) this.#endCursor = end;
		this.#set({
			events,
			hasOlder: keep.length ? this.#view.hasOlder : more,
			loading: null,
			error: null,
			waiting: 0,
			gapAfter: keep.length && known < 0 ? (page.at(-1)?.id ?? null) : this.#view.gapAfter,
		});
	}

	#follow(): () => void {
		const { nodeId, types, actor } = this.#filter;
		return this.#fleet.socket.add<EventLine>({
			query: EventsSubscription.toString(),
			field: "nodeEvents",
			variables: () => ({
				tenantId: this.#fleet.tenantId,
				nodeId: nodeId ?? null,
				types: types?.length ? types : null,
				after: this.#cursor,
			}),
			onItem: (e) => {
				this.#cursor = e.cursor;
				if (this.#seen.has(e.id) || (actor && e.actor !== actor)) return;
				this.#seen.add(e.id);
				this.#news.push(e);
				if (this.#news.length > most) {
					this.#news.shift();
					this.#overflown = true;
				}
				this.#soon();
			},
			onExpired: (e) => this.#read(e),
			onEnd: (error) => this.#set({ error }),
		});
	}

	// A burst is shown once a frame; a hidden page draws none, and holds what is true all the same.
	#soon(): void {
		if (this.#frame) return;
		this.#frame = true;
		const run = () => {
			this.#frame = false;
			if (this.#closed || this.#view.loading === "first") return;
			if (this.#view.held) this.#set({ waiting: this.#news.length });
			else this.#show();
		};
		if (document.visibilityState === "hidden") setTimeout(run, 100);
		else requestAnimationFrame(run);
	}

	#show(): void {
		if (this.#news.length === 0) return;
		let events = [...this.#news.reverse(), ...this.#view.events];
		this.#news = [];
		let { hasOlder } = this.#view;
		if (events.length > most) {
			for (const e of events.slice(most)) this.#seen.delete(e.id);
			events = events.slice(0, most);
			this.#endCursor = events.at(-1)?.cursor ?? this.#endCursor;
			hasOlder = true;
		}
		this.#set({ events, hasOlder, waiting: 0 });
	}

	#set(change: Partial<Feed>): void {
		this.#view = { ...this.#view, ...change };
		for (const tell of this.#listeners) tell();
	}
}
