import { type Client, createClient } from "graphql-ws";
import { backoff } from "./backoff";
import { ApiError, asApiError, fromWire } from "./client";

/** Where the page stands with the server. Whatever is not live shows data of the moment dataAt. */
export type Connection =
	| { state: "connecting"; dataAt: null }
	| { state: "live"; dataAt: number }
	| { state: "reconnecting"; dataAt: number | null; retryAt: number | null }
	| { state: "offline"; dataAt: number | null; retryAt: number | null };

/** One connection's life: it answers what it receives and ends, for whatever reason, by returning or throwing. */
export type Transport<Item> = (opts: {
	after: string | null;
	signal: AbortSignal;
	onOpen: () => void;
	onAlive: () => void;
	onItem: (item: Item) => void;
}) => Promise<void>;

export type FollowOptions<Item> = {
	transport: Transport<Item>;
	/** Resume after it; null begins with what comes now. */
	after: string | null;
	cursorOf: (item: Item) => string;
	onItem: (item: Item) => void;
	onConnection: (connection: Connection) => void;
	/** The log no longer holds what came after the cursor: take a new snapshot; its position is where to go on. */
	onExpired: () => Promise<string | null>;
	/** Asked after each failure, for a refused websocket says nothing of why: false ends the stream. */
	mayRetry: (error: ApiError | null) => Promise<boolean>;
	wait?: (ms: number, signal: AbortSignal) => Promise<void>;
	random?: () => number;
	now?: () => number;
	signal: AbortSignal;
};

/** Waits, but no longer than until the browser says that the network is back or the page is looked at again. */
export function waitOrWake(ms: number, signal: AbortSignal): Promise<void> {
	return new Promise((resolve) => {
		const done = () => {
			clearTimeout(timer);
			window.removeEventListener("online", done);
			document.removeEventListener("visibilitychange", seen);
			signal.removeEventListener("abort", done);
			resolve();
		};
		const seen = () => document.visibilityState === "visible" && done();
		const timer = setTimeout(done, ms);
		window.addEventListener("online", done);
		document.addEventListener("visibilitychange", seen);
		signal.addEventListener("abort", done);
		if (signal.aborted) done();
	});
}

/**
 * Follows the log for ever: catch-up and live are one loop that always goes on after the last cursor it has seen. A lost connection is
 * tried again without end; only the end of the session or of the page ends it.
 */
export async function follow<Item>(o: FollowOptions<Item>): Promise<void> {
	const now = o.now ?? Date.now;
	const wait = o.wait ?? waitOrWake;
	let after = o.after;
	let dataAt: number | null = null;
	let attempt = 0;
	o.onConnection({ state: "connecting", dataAt: null });
	while (!o.signal.aborted) {
		let error: ApiError | null = null;
		try {
			await o.transport({
				after,
				signal: o.signal,
				onOpen: () => {
					attempt = 0;
					dataAt = now();
					o.onConnection({ state: "live", dataAt });
				},
				onAlive: () => {
					dataAt = now();
				},
				onItem: (item) => {
					dataAt = now();
					o.onItem(item);
					after = o.cursorOf(item);
				},
			});
		} catch (e) {
			error = asApiError(e);
		}
		if (o.signal.aborted) return;
		if (error?.code === "CURSOR_EXPIRED") {
			try {
				after = await o.onExpired();
				continue;
			} catch (e) {
				error = asApiError(e);
			}
		}
		// A busy server says when to come back at the earliest.
		const ms = Math.max(backoff(attempt, o.random), Number(error?.details.retryAfterMs) || 0);
		attempt++;
		o.onConnection({ state: attempt > 3 ? "offline" : "reconnecting", dataAt, retryAt: now() + ms });
		if (!(await o.mayRetry(error))) return;
		await wait(ms, o.signal);
	}
}

/** Silence after which a socket that looks open is asked for a sign of life: a sleeping laptop or a vanished peer closes nothing. */
const silence = 25_000;

/** graphql-transport-ws, one socket an attempt: the loop above, not the client, decides when to try again and after which cursor. */
export function websocketTransport<Item>(
	url: string,
	query: string,
	variables: Record<string, unknown>,
	field: string,
): Transport<Item> {
	return ({ after, signal, onOpen, onAlive, onItem }) =>
		new Promise<void>((resolve, reject) => {
			let socket: WebSocket | null = null;
			let heard = Date.now();
			let client: Client | null = null;
			// A hidden page's timers rest, so silence alone proves nothing: only a ping that stays unanswered until the next look does.
			let asked = false;
			const watch = setInterval(() => {
				if (document.visibilityState === "hidden" || Date.now() - heard < silence) return;
				if (asked) return socket?.close(4408, "silent");
				asked = true;
				if (socket?.readyState === WebSocket.OPEN) socket.send('{"type":"ping"}');
			}, 5_000);
			const finish = (end: () => void) => {
				clearInterval(watch);
				signal.removeEventListener("abort", abort);
				void client?.dispose();
				end();
			};
			const abort = () => finish(resolve);
			signal.addEventListener("abort", abort);
			client = createClient({
				url,
				lazy: true,
				retryAttempts: 0,
				keepAlive: 10_000,
				connectionAckWaitTimeout: 10_000,
				on: {
					opened: (s) => {
						socket = s as WebSocket;
						heard = Date.now();
					},
					message: () => {
						heard = Date.now();
						asked = false;
						onAlive();
					},
					connected: () => onOpen(),
				},
			});
			client.subscribe<Record<string, Item>>(
				{ query, variables: { ...variables, after } },
				{
					next: (result) => {
						if (result.errors?.length) return finish(() => reject(fromWire(result.errors ?? [])));
						const item = result.data?.[field];
						if (item) onItem(item);
					},
					error: (e) =>
						finish(() => {
							if (Array.isArray(e)) return reject(fromWire(e));
							if (e instanceof CloseEvent)
								return reject(
									new ApiError(
										e.code === 4401 || e.code === 4403 ? "UNAUTHENTICATED" : "NETWORK",
										e.reason || `the connection closed (${e.code})`,
									),
								);
							reject(new ApiError("NETWORK", e instanceof Error ? e.message : "the connection failed"));
						}),
					complete: () => finish(resolve),
				},
			);
		});
}
