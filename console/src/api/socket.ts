import { backoff } from "./backoff";
import { ApiError, asApiError } from "./client";
import type { Dial, Line } from "./line";

/** Where the page stands with the server. Whatever is not live shows data of the moment dataAt. */
export type Connection =
	| { state: "connecting"; dataAt: null }
	| { state: "live"; dataAt: number }
	| { state: "reconnecting"; dataAt: number | null; retryAt: number | null }
	| { state: "offline"; dataAt: number | null; retryAt: number | null };

/** One stream that the page keeps, over however many connections. */
export type Stream<Item> = {
	query: string;
	field: string;
	/** Asked each time that it begins: the cursor in it is the newest that was taken in. */
	variables: () => Record<string, unknown>;
	onItem: (item: Item) => void;
	/** The log no longer holds what came after the cursor: take a new snapshot; the stream then begins anew. It is tried again when it throws. */
	onExpired?: (error: ApiError) => Promise<void>;
	/** It was refused for good, and is over. */
	onEnd: (error: ApiError) => void;
};

type Entry = {
	stream: Stream<unknown>;
	/** Counts its beginnings, so that a late word of an earlier one is not taken for this one's. */
	turn: number;
	stop: (() => void) | null;
	retry: ReturnType<typeof setTimeout> | null;
	retryAt: number | null;
	attempt: number;
	troubled: boolean;
};

export type SocketOptions = {
	dial: Dial;
	/** Asked after each lost connection, for a refused websocket says nothing of why: on false it waits until it is told to resume. */
	mayRetry: (error: ApiError) => Promise<boolean>;
	random?: () => number;
	now?: () => number;
};

/** How often the clock is looked at, how far it may have jumped, and how long a peer that is asked may be silent. */
const look = 5_000;
const jump = 20_000;
const silence = 25_000;
const patience = 4_000;
/** A connection that stood that long makes the next wait short again. */
const stood = 5_000;

const refused = new Set(["FORBIDDEN", "NOT_FOUND", "INVALID_INPUT", "INVALID_STATE", "CONFLICT"]);

/**
 * The page's one connection, which carries all of its streams. A lost one is dialled again without end, and each stream goes on after the
 * last cursor that it took in: catch-up and live are the same. A stream that fails alone is begun again alone.
 */
export class Socket {
	#o: SocketOptions;
	#now: () => number;
	#entries = new Set<Entry>();
	#line: Line | null = null;
	#pending: { cut: () => void } | null = null;
	#connection: Connection = { state: "connecting", dataAt: null };
	#listeners = new Set<() => void>();
	#dataAt: number | null = null;
	#attempt = 0;
	#waiting: ReturnType<typeof setTimeout> | null = null;
	#watch: ReturnType<typeof setInterval> | null = null;
	#lastLook = 0;
	#asked: ReturnType<typeof setTimeout> | null = null;
	#resting = false;
	#over = false;

	constructor(o: SocketOptions) {
		this.#o = o;
		this.#now = o.now ?? Date.now;
	}

	get connection(): Connection {
		return this.#connection;
	}

	subscribe = (listener: () => void): (() => void) => {
		this.#listeners.add(listener);
		return () => this.#listeners.delete(listener);
	};

	/** Keeps a stream until the returned function is called. The first one dials. */
	add<Item>(stream: Stream<Item>): () => void {
		const entry: Entry = {
			stream: stream as Stream<unknown>,
			turn: 0,
			stop: null,
			retry: null,
			retryAt: null,
			attempt: 0,
			troubled: false,
		};
		this.#entries.add(entry);
		if (this.#line) this.#begin(entry);
		else this.#start();
		return () => this.#drop(entry);
	}

	/** Dials again after the session had ended. */
	resume(): void {
		if (!this.#resting || this.#over) return;
		this.#resting = false;
		this.#attempt = 0;
		this.#dial();
	}

	/** Ends it for good, with all streams. */
	close(): void {
		this.#over = true;
		for (const entry of [...this.#entries]) this.#drop(entry);
		if (this.#watch) clearInterval(this.#watch);
		if (this.#waiting) clearTimeout(this.#waiting);
		if (this.#asked) clearTimeout(this.#asked);
		window.removeEventListener("online", this.#wake);
		document.removeEventListener("visibilitychange", this.#wake);
		this.#pending?.cut();
	}

	#start(): void {
		if (this.#over || this.#watch) return;
		this.#lastLook = this.#now();
		this.#watch = setInterval(this.#tick, look);
		window.addEventListener("online", this.#wake);
		document.addEventListener("visibilitychange", this.#wake);
		this.#dial();
	}

	#dial(): void {
		if (this.#over) return;
		this.#waiting = null;
		let openedAt = 0;
		let me: { cut: () => void } | null = null;
		me = this.#o.dial({
			opened: (line) => {
				openedAt = this.#now();
				this.#line = line;
				this.#dataAt = openedAt;
				for (const entry of this.#entries) {
					entry.troubled = false;
					this.#begin(entry);
				}
				this.#say();
			},
			heard: () => {
				this.#dataAt = this.#now();
				if (this.#asked) clearTimeout(this.#asked);
				this.#asked = null;
			},
			closed: (why) => {
				if (this.#pending === me) this.#pending = null;
				if (this.#over) return;
				if (openedAt && this.#now() - openedAt >= stood) this.#attempt = 0;
				void this.#lost(why);
			},
		});
		this.#pending = me;
	}

	async #lost(why: ApiError): Promise<void> {
		this.#line = null;
		if (this.#asked) clearTimeout(this.#asked);
		this.#asked = null;
		for (const entry of this.#entries) this.#rest(entry);
		const ms = (Number(why.details.retryAfterMs) || 0) + backoff(this.#attempt, this.#o.random);
		this.#attempt++;
		this.#set({
			state: this.#attempt > 3 ? "offline" : "reconnecting",
			dataAt: this.#dataAt,
			retryAt: this.#now() + ms,
		});
		const may = await this.#o.mayRetry(why);
		if (this.#over) return;
		if (!may) {
			this.#resting = true;
			return;
		}
		if (this.#waiting) clearTimeout(this.#waiting);
		this.#waiting = setTimeout(() => this.#dial(), ms);
	}

	#begin(entry: Entry): void {
		const line = this.#line;
		if (!line || !this.#entries.has(entry)) return;
		this.#rest(entry);
		const turn = entry.turn;
		const mine = () => entry.turn === turn && this.#entries.has(entry);
		entry.stop = line.subscribe(entry.stream.query, entry.stream.variables(), {
			next: (data) => {
				if (!mine()) return;
				entry.attempt = 0;
				if (entry.troubled) {
					entry.troubled = false;
					this.#say();
				}
				const item = data[entry.stream.field];
				if (item != null) entry.stream.onItem(item);
			},
			error: (e) => mine() && void this.#failed(entry, e),
			complete: () => mine() && void this.#failed(entry, new ApiError("UNAVAILABLE", "the stream ended")),
		});
	}

	async #failed(entry: Entry, error: ApiError): Promise<void> {
		this.#rest(entry);
		let e = error;
		if (e.code === "CURSOR_EXPIRED" && entry.stream.onExpired) {
			const turn = entry.turn;
			try {
				await entry.stream.onExpired(e);
				if (entry.turn === turn) this.#begin(entry);
				return;
			} catch (cause) {
				e = asApiError(cause);
				if (entry.turn !== turn || !this.#entries.has(entry)) return;
			}
		}
		if (e.code === "UNAUTHENTICATED") {
			// It is the session that ended, not this stream alone.
			this.#line?.cut();
			return;
		}
		if (refused.has(e.code)) {
			this.#drop(entry);
			entry.stream.onEnd(e);
			return;
		}
		// A busy server says when to come back at the earliest.
		const ms = (Number(e.details.retryAfterMs) || 0) + backoff(entry.attempt++, this.#o.random);
		entry.troubled = true;
		entry.retryAt = this.#now() + ms;
		entry.retry = setTimeout(() => this.#begin(entry), ms);
		this.#say();
	}

	#rest(entry: Entry): void {
		entry.turn++;
		entry.stop?.();
		entry.stop = null;
		if (entry.retry) clearTimeout(entry.retry);
		entry.retry = null;
		entry.retryAt = null;
	}

	#drop(entry: Entry): void {
		if (!this.#entries.delete(entry)) return;
		const troubled = entry.troubled;
		this.#rest(entry);
		if (troubled) this.#say();
	}

	// What is said while there is a line: live, unless a stream waits to be begun again.
	#say(): void {
		if (!this.#line) return;
		const troubled = [...this.#entries].filter((e) => e.troubled);
		if (troubled.length === 0) {
			this.#set({ state: "live", dataAt: this.#dataAt ?? this.#now() });
			return;
		}
		const at = troubled.map((e) => e.retryAt).filter((t) => t !== null);
		const dataAt = this.#connection.state === "live" ? this.#dataAt : this.#connection.dataAt;
		this.#set({ state: "reconnecting", dataAt, retryAt: at.length ? Math.min(...at) : null });
	}

	// A laptop that slept has a socket that looks open, and so has one whose peer vanished without a word: only an answer proves it.
	#tick = (): void => {
		const now = this.#now();
		const jumped = now - this.#lastLook > jump;
		this.#lastLook = now;
		if (jumped) this.#wake();
		else if (this.#line && this.#dataAt !== null && now - this.#dataAt > silence) this.#ask();
	};

	#wake = (): void => {
		if (document.visibilityState === "hidden" || this.#over) return;
		if (this.#line) this.#ask();
		else if (this.#waiting) {
			clearTimeout(this.#waiting);
			this.#dial();
		}
	};

	#ask(): void {
		if (this.#asked || !this.#line) return;
		this.#line.ping();
		this.#asked = setTimeout(() => {
			this.#asked = null;
			this.#line?.cut();
		}, patience);
	}

	#set(connection: Connection): void {
		this.#connection = connection;
		for (const tell of this.#listeners) tell();
	}
}
