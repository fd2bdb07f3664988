import { createClient } from "graphql-ws";
import { ApiError, fromWire } from "./client";

/** What one operation on a line is told. A line that closes tells none of them: it says so itself. */
export type Sink = { next: (data: Record<string, unknown>) => void; error: (e: ApiError) => void; complete: () => void };

/** One open connection that carries any number of operations. */
export type Line = {
	subscribe: (query: string, variables: Record<string, unknown>, sink: Sink) => () => void;
	/** Asks the peer for a sign of life. */
	ping: () => void;
	/** Ends it here and now, without waiting for a peer that may be gone. */
	cut: () => void;
};

/** What a line tells of itself. `heard` is called for every message, `closed` exactly once. */
export type Ears = { opened: (line: Line) => void; heard: () => void; closed: (why: ApiError) => void };

export type Dial = (ears: Ears) => { cut: () => void };

/** graphql-transport-ws on one websocket. Whoever dials decides when to dial again and from where each operation goes on; the client never does. */
export function dialWebsocket(url: string): Dial {
	return (ears) => {
		let socket: WebSocket | null = null;
		let over = false;
		const end = (why: ApiError) => {
			if (over) return;
			over = true;
			// Before the client's own listeners hear of it: a disposed client tries nothing again.
			// It rejects when the connection had never stood.
			Promise.resolve(client.dispose()).catch(() => undefined);
			ears.closed(why);
		};
		const client = createClient({
			url,
			lazy: false,
			retryAttempts: 0,
			keepAlive: 10_000,
			connectionAckWaitTimeout: 10_000,
			onNonLazyError: () => undefined,
			on: {
				opened: (s) => {
					socket = s as WebSocket;
				},
				message: () => ears.heard(),
				connected: () => !over && ears.opened(line),
				error: () => end(new ApiError("NETWORK", "the connection failed")),
				closed: (e) => end(closing(e)),
			},
		});
		const cut = () => {
			client.terminate();
			end(new ApiError("NETWORK", "the connection was cut"));
		};
		const line: Line = {
			subscribe(query, variables, sink) {
				return client.subscribe<Record<string, unknown>>(
					{ query, variables },
					{
						next: (result) => {
							if (result.errors?.length) return sink.error(fromWire(result.errors));
							if (result.data) sink.next(result.data);
						},
						error: (e) => {
							if (Array.isArray(e)) sink.error(fromWire(e));
						},
						complete: () => !over && sink.complete(),
					},
				);
			},
			ping() {
				if (socket?.readyState === WebSocket.OPEN) socket.send('{"type":"ping"}');
			},
			cut,
		};
		return { cut };
	};
}

function closing(e: unknown): ApiError {
	if (!(e instanceof CloseEvent)) return new ApiError("NETWORK", "the connection closed");
	const code = e.code === 4401 || e.code === 4403 ? "UNAUTHENTICATED" : "NETWORK";
	return new ApiError(code, e.reason || `the connection closed (${e.code})`);
}
