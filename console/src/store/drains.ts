import { type ApiError, asApiError, request } from "../api/client";
import { RowsSubscription } from "../api/documents";
import { DrainsQuery, DrainsSubscription } from "../drains/documents";
import { LogQuery } from "../events/documents";
import type { DrainLineFragment, RowsSubscription as RowsData } from "../gql/graphql";
import type { Fleet } from "./fleet";

export type DrainLine = DrainLineFragment;

/** The drains as the page shows them. Live changes never move a line: one that ended stays where it is until the board is read anew. */
export type Drains = {
	/** Those that ran when they were read, or began since: past their deadline first, then the longest. */
	running: readonly DrainLine[];
	/** Those that had ended when they were read, the newest first. */
	ended: readonly DrainLine[];
	moreRunning: boolean;
	moreEnded: boolean;
	loading: boolean;
	error: ApiError | null;
};

const pageSize = 100;
const endedSize = 20;
/** The most whose nodes are followed: what one stream takes. */
const followed = 500;
/** How often the place to resume from is moved on, while there was anything to hear. */
const renewal = 60_000;

/**
 * The drains of a tenant: read page by page, and followed. A drain's stream has no cursors of its own, so now and then the board is read again
 * quietly: what is known then is the place from which the stream goes on after a cut.
 */
export class DrainBoard {
	#fleet: Fleet;
	#view: Drains = { running: [], ended: [], moreRunning: false, moreEnded: false, loading: true, error: null };
	#cursors: { running: string | null; ended: string | null } = { running: null, ended: null };
	#after = "";
	#rowsAfter = "";
	#heard = 0;
	#off: (() => void) | null = null;
	#rows: (() => void) | null = null;
	#rowIds = "";
	#again: ReturnType<typeof setTimeout> | null = null;
	#timer: ReturnType<typeof setInterval> | null = null;
	#reading: AbortController | null = null;
	#closed = false;
	#listeners = new Set<() => void>();

	constructor(fleet: Fleet) {
		this.#fleet = fleet;
	}

	get view(): Drains {
		return this.#view;
	}

	subscribe = (listener: () => void): (() => void) => {
		this.#listeners.add(listener);
		return () => this.#listeners.delete(listener);
	};

	/** Reads the board and follows it. Called again it is read anew, without what has ended. */
	open = async (): Promise<void> => {
		await this.#read().catch(() => undefined);
		if (!this.#closed) this.#timer ??= setInterval(() => void this.#renew(), renewal);
	};

	/** Reads the next page of those that run, or of those that have ended. */
	async more(which: "running" | "ended"): Promise<void> {
		if (this.#view.loading) return;
		this.#set({ loading: true });
		const reading = this.#reading;
		try {
			const page = await this.#ask(which === "running", this.#cursors[which], reading?.signal);
			if (reading !== this.#reading) return;
			const known = new Set(this.#view[which].map((d) => d.id));
			const list = [...this.#view[which], ...page.nodes.filter((d) => !known.has(d.id))];
			this.#cursors[which] = page.pageInfo.endCursor ?? null;
			const { hasNextPage } = page.pageInfo;
			this.#set(which === "running" ? { running: list, moreRunning: hasNextPage } : { ended: list, moreEnded: hasNextPage });
			this.#set({ loading: false, error: null });
			this.#follow();
		} catch (e) {
			if (reading === this.#reading && !reading?.signal.aborted) this.#set({ loading: false, error: asApiError(e) });
		}
	}

	close(): void {
		this.#closed = true;
		this.#reading?.abort();
		if (this.#again) clearTimeout(this.#again);
		if (this.#timer) clearInterval(this.#timer);
		this.#off?.();
		this.#rows?.();
	}

	async #ask(active: boolean, after: string | null, signal?: AbortSignal) {
		const mark = this.#fleet.nodes.mark();
		const first = active ? pageSize : endedSize;
		const { drains } = await request(DrainsQuery, { tenantId: this.#fleet.tenantId, active, first, after }, signal);
		for (const d of drains.nodes) this.#fleet.nodes.merge(d.node, mark);
		return drains;
	}

	async #read(): Promise<void> {
		this.#reading?.abort();
		if (this.#again) clearTimeout(this.#again);
		const reading = new AbortController();
		this.#reading = reading;
		this.#set({ loading: true, error: null });
		try {
			// The place to follow from is read first: what happens between the two is told again, and changes nothing.
			const { log } = await request(LogQuery, { tenantId: this.#fleet.tenantId }, reading.signal);
			const [running, ended] = await Promise.all([this.#ask(true, null, reading.signal), this.#ask(false, null, reading.signal)]);
			this.#after = this.#rowsAfter = log.head;
			this.#heard = 0;
			this.#cursors = { running: running.pageInfo.endCursor ?? null, ended: ended.pageInfo.endCursor ?? null };
			this.#set({
				running: [...running.nodes].sort(urgent),
				ended: ended.nodes,
				moreRunning: running.pageInfo.hasNextPage,
				moreEnded: ended.pageInfo.hasNextPage,
				loading: false,
			});
			this.#rows?.();
			this.#rows = null;
			this.#rowIds = "";
			this.#follow();
		} catch (e) {
			if (reading.signal.aborted) throw e;
			const error = asApiError(e);
			this.#set({ loading: false, error });
			if (["NETWORK", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL"].includes(error.code) && !this.#closed)
				this.#again = setTimeout(() => void this.open(), 1_000 + Math.random() * 2_000);
			throw error;
		}
	}

	// Lines keep their places: only what they say is taken in.
	async #renew(): Promise<void> {
		if (this.#heard === 0 || this.#view.loading || this.#view.moreRunning || document.visibilityState === "hidden") return;
		const reading = this.#reading;
		try {
			const { log } = await request(LogQuery, { tenantId: this.#fleet.tenantId }, reading?.signal);
			const page = await this.#ask(true, null, reading?.signal);
			if (reading !== this.#reading || this.#closed) return;
			for (const d of page.nodes) this.#take(d);
			// More run than a page holds: what is beyond it was not looked at, and the place stays.
			if (page.pageInfo.hasNextPage) return;
			this.#after = log.head;
			this.#heard = 0;
		} catch {
			// The next time, then: the stream itself says when the server is away.
		}
	}

	#follow(): void {
		if (this.#closed) return;
		this.#off ??= this.#fleet.socket.add<DrainLine>({
			query: DrainsSubscription.toString(),
			field: "drainChanges",
			variables: () => ({ tenantId: this.#fleet.tenantId, after: this.#after }),
			onItem: (d) => {
				this.#heard++;
				this.#fleet.take(d.node);
				this.#take(d);
				this.#follow();
			},
			onExpired: async (e) => {
				this.#fleet.expired(e);
				await this.#read();
			},
			onEnd: (error) => this.#set({ error }),
		});
		this.#followRows();
	}

	// What a line says of its node, its connectivity too, comes by the nodes' own stream.
	#followRows(): void {
		const ids = [...new Set(this.#view.running.map((d) => d.node.id))].slice(0, followed);
		if (ids.join() === this.#rowIds) return;
		this.#rows?.();
		this.#rowIds = ids.join();
		this.#rows = ids.length
			? this.#fleet.socket.add<RowsData["nodeChanges"]>({
					query: RowsSubscription.toString(),
					field: "nodeChanges",
					variables: () => ({ tenantId: this.#fleet.tenantId, after: this.#rowsAfter, nodeIds: ids }),
					onItem: (batch) => {
						this.#rowsAfter = batch.asOf;
						for (const node of batch.changed) this.#fleet.take(node);
						for (const id of batch.removed) this.#fleet.nodes.remove(id);
					},
					onExpired: async (e) => {
						this.#fleet.expired(e);
						await this.#read();
					},
					onEnd: (error) => this.#set({ error }),
				})
			: null;
	}

	#take(d: DrainLine): void {
		const at = this.#view.running.findIndex((other) => other.id === d.id);
		if (at >= 0) {
			const held = this.#view.running[at];
			// A drain that has ended never runs again: an older word that comes late changes nothing.
			if (held && held.state !== "DRAINING" && d.state === "DRAINING") return;
			const running = [...this.#view.running];
			running[at] = d;
			this.#set({ running });
		} else if (d.state === "DRAINING" && !this.#view.ended.some((other) => other.id === d.id))
			this.#set({ running: [...this.#view.running, d] });
	}

	#set(change: Partial<Drains>): void {
		this.#view = { ...this.#view, ...change };
		for (const tell of this.#listeners) tell();
	}
}

/** Past its deadline first, then the longest. */
function urgent(a: DrainLine, b: DrainLine): number {
	return Number(b.overdue) - Number(a.overdue) || Date.parse(a.startedAt) - Date.parse(b.startedAt);
}
