import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { backoff } from "../src/api/backoff";
import { ApiError } from "../src/api/client";
import { type Connection, Socket, type SocketOptions, type Stream } from "../src/api/socket";
import { Wire } from "./wire";

type Item = { cursor: string };

function setup(opts: Partial<SocketOptions> = {}) {
	const wire = new Wire();
	const socket = new Socket({ dial: wire.dial, mayRetry: async () => true, random: () => 1, ...opts });
	const states: Connection[] = [];
	socket.subscribe(() => states.push(socket.connection));
	const follow = (name: string, more: Partial<Stream<Item>> = {}) => {
		const heard: string[] = [];
		const ends: string[] = [];
		let after = `${name}0`;
		const stop = socket.add<Item>({
			query: name,
			field: "f",
			variables: () => ({ after }),
			onItem: (i) => {
				after = i.cursor;
				heard.push(i.cursor);
			},
			onEnd: (e) => ends.push(e.code),
			...more,
		});
		return { heard, ends, stop, move: (to: string) => (after = to) };
	};
	const say = (name: string, cursor: string) => wire.stream(name).sink.next({ f: { cursor } });
	const resumed = (name: string) => wire.stream(name).variables.after;
	return { wire, socket, states, follow, say, resumed };
}
const lost = () => new ApiError("NETWORK", "the connection closed (1006)");
const tick = (ms: number) => vi.advanceTimersByTimeAsync(ms);

beforeEach(() => {
	vi.useFakeTimers();
});
afterEach(() => {
	vi.useRealTimers();
});

describe("Socket", () => {
	it("carries all streams on one line", () => {
		const { wire, follow, say, socket } = setup();
		const a = follow("a");
		const b = follow("b");
		say("a", "a1");
		say("b", "b1");
		expect(wire.lines.length).toBe(1);
		expect([a.heard, b.heard]).toEqual([["a1"], ["b1"]]);
		socket.close();
	});

	it("G1 after a loss each stream goes on after the last cursor that it took in, without gap or repeat", async () => {
		const { wire, follow, say, resumed, socket } = setup();
		const a = follow("a");
		follow("b");
		say("a", "a1");
		say("a", "a2");
		const old = wire.stream("a");
		wire.lose(lost());
		// A late word of the lost line is nobody's.
		old.sink.next({ f: { cursor: "a3" } });
		await tick(1_000);
		expect(wire.lines.length).toBe(2);
		expect([resumed("a"), resumed("b")]).toEqual(["a2", "b0"]);
		say("a", "a3");
		expect(a.heard).toEqual(["a1", "a2", "a3"]);
		expect(socket.connection.state).toBe("live");
		socket.close();
	});

	it("G7 tries for ever, waits longer each time up to a cap, and begins anew once a line stood", async () => {
		const { wire, follow, socket, states } = setup();
		follow("a");
		wire.up = false;
		for (const wait of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
			wire.lose(lost());
			await tick(wait - 1);
			const before = wire.lines.length;
			await tick(1);
			expect(wire.lines.length).toBe(before + 1);
		}
		expect(states.map((s) => s.state)).toContain("offline");
		wire.up = true;
		wire.lose(lost());
		await tick(30_000);
		expect(socket.connection.state).toBe("live");
		await tick(6_000);
		wire.lose(lost());
		const before = wire.lines.length;
		await tick(1_000);
		expect(wire.lines.length).toBe(before + 1);
		socket.close();
	});

	it("G7 comes back no earlier than a busy server asked for, and jitters the first try too", async () => {
		const { wire, follow, socket } = setup({ random: () => 0.5 });
		follow("a");
		wire.lose(new ApiError("RESOURCE_EXHAUSTED", "too many", { retryAfterMs: 12_345 }));
		await tick(12_345 + 499); // what it asked for, and a share of the first span
		expect(wire.lines.length).toBe(1);
		await tick(1);
		expect(wire.lines.length).toBe(2);
		expect([backoff(0, () => 0), backoff(0, () => 0.5), backoff(40, () => 1)]).toEqual([0, 500, 30_000]);
		socket.close();
	});

	it("keeps the moment of the data while it is not live", async () => {
		const { wire, follow, socket } = setup();
		vi.setSystemTime(42_000);
		follow("a");
		await tick(3_000);
		wire.line.ears.heard();
		await tick(2_000);
		wire.lose(lost());
		expect(socket.connection).toMatchObject({ state: "reconnecting", dataAt: 45_000, retryAt: 48_000 });
		socket.close();
	});

	it("takes a new snapshot when the log no longer holds a cursor, and begins that stream from there", async () => {
		const { wire, follow, resumed, socket } = setup();
		const a: ReturnType<typeof follow> = follow("a", {
			onExpired: async () => {
				a.move("a900");
			},
		});
		follow("b");
		wire.stream("a").sink.error(new ApiError("CURSOR_EXPIRED", "gone"));
		await tick(0);
		expect(resumed("a")).toBe("a900");
		expect(wire.streams("b").length).toBe(1);
		expect(wire.lines.length).toBe(1);
		socket.close();
	});

	it("when the snapshot fails as well, it waits and asks for one again", async () => {
		let asked = 0;
		const { wire, follow, socket } = setup();
		follow("a", {
			onExpired: async () => {
				if (++asked === 1) throw new ApiError("NETWORK", "the server cannot be reached");
			},
		});
		wire.stream("a").sink.error(new ApiError("CURSOR_EXPIRED", "gone"));
		await tick(0);
		expect([asked, wire.streams("a").length, socket.connection.state]).toEqual([1, 0, "reconnecting"]);
		await tick(1_000);
		wire.stream("a").sink.error(new ApiError("CURSOR_EXPIRED", "gone"));
		await tick(0);
		expect([asked, wire.streams("a").length]).toEqual([2, 1]);
		socket.close();
	});

	it("a stream that fails alone is begun again alone; the chip says so until it speaks", async () => {
		const { wire, follow, say, socket } = setup();
		follow("a");
		follow("b");
		wire.stream("a").sink.error(new ApiError("UNAVAILABLE", "the database does not answer"));
		expect(socket.connection.state).toBe("reconnecting");
		say("b", "b1");
		await tick(1_000);
		expect([wire.lines.length, wire.streams("a").length]).toEqual([1, 1]);
		say("a", "a1");
		expect(socket.connection.state).toBe("live");
		socket.close();
	});

	it("a stream that is refused ends, and the others go on", () => {
		const { wire, follow, socket } = setup();
		const a = follow("a");
		follow("b");
		wire.stream("a").sink.error(new ApiError("FORBIDDEN", "no"));
		expect(a.ends).toEqual(["FORBIDDEN"]);
		expect([wire.streams("a").length, wire.streams("b").length]).toEqual([0, 1]);
		socket.close();
	});

	it("G4 when the session has ended it waits, and dials again when somebody is signed in", async () => {
		const { wire, follow, resumed, say, socket } = setup({ mayRetry: async () => false });
		follow("a");
		say("a", "a1");
		wire.stream("a").sink.error(new ApiError("UNAUTHENTICATED", "the token has ended"));
		await tick(60_000);
		expect(wire.lines.length).toBe(1);
		socket.resume();
		expect(wire.lines.length).toBe(2);
		expect(resumed("a")).toBe("a1");
		socket.close();
	});

	it("G6 a peer that vanished without a word is asked, and cut off when it stays silent", async () => {
		const { wire, follow, socket } = setup();
		follow("a");
		await tick(30_000);
		expect(wire.line.pings).toBe(1);
		await tick(4_000);
		expect(wire.lines[0]?.cut).toBe(true);
		await tick(1_000);
		expect(wire.lines.length).toBe(2);
		socket.close();
	});

	it("a peer that answers is not cut off", async () => {
		const { wire, follow, socket } = setup();
		follow("a");
		await tick(30_000);
		wire.line.ears.heard();
		await tick(20_000);
		expect(wire.lines.length).toBe(1);
		socket.close();
	});

	it("a machine that slept for ten minutes asks at once, though the socket looks open", async () => {
		const { wire, follow, socket } = setup();
		follow("a");
		await tick(5_000);
		wire.line.ears.heard();
		vi.setSystemTime(Date.now() + 600_000);
		await tick(5_000);
		expect(wire.line.pings).toBe(1);
		await tick(5_000);
		expect(wire.lines.length).toBe(2);
		socket.close();
	});
});
