import { describe, expect, it } from "vitest";
import { backoff } from "../src/api/backoff";
import { ApiError } from "../src/api/client";
import { type Connection, follow, type Transport } from "../src/api/stream";

type Item = { cursor: string };

/** Runs follow over the given connections, one after another, and then ends it. */
async function run(
	scripts: ((o: Parameters<Transport<Item>>[0]) => void)[],
	opts: { onExpired?: () => Promise<string | null>; mayRetry?: (e: ApiError | null) => Promise<boolean> } = {},
) {
	const stop = new AbortController();
	const seen = {
		after: [] as (string | null)[],
		items: [] as string[],
		states: [] as Connection[],
		waits: [] as number[],
		errors: [] as (string | null)[],
	};
	let at = 0;
	await follow<Item>({
		transport: async (o) => {
			seen.after.push(o.after);
			const script = scripts[at++];
			if (!script) return stop.abort();
			script(o);
		},
		after: "c0",
		cursorOf: (i) => i.cursor,
		onItem: (i) => seen.items.push(i.cursor),
		onConnection: (c) => seen.states.push(c),
		onExpired: opts.onExpired ?? (async () => "unexpected"),
		mayRetry: async (e) => {
			seen.errors.push(e?.code ?? null);
			return opts.mayRetry ? opts.mayRetry(e) : true;
		},
		wait: async (ms) => void seen.waits.push(ms),
		random: () => 1,
		now: () => 42,
		signal: stop.signal,
	});
	return seen;
}

const lost = () => {
	throw new ApiError("NETWORK", "the connection closed (1006)");
};

describe("follow", () => {
	it("goes on after the last cursor that it saw, however the connection ended", async () => {
		const seen = await run([
			(o) => {
				o.onOpen();
				o.onItem({ cursor: "c1" });
				o.onItem({ cursor: "c2" });
				lost();
			},
			(o) => {
				o.onOpen();
				o.onItem({ cursor: "c3" });
			},
		]);
		expect(seen.after).toEqual(["c0", "c2", "c3"]);
		expect(seen.items).toEqual(["c1", "c2", "c3"]);
	});

	it("tries for ever, waits longer each time up to a cap, and begins anew once a connection stood", async () => {
		const seen = await run([
			...Array.from({ length: 8 }, () => lost),
			(o) => {
				o.onOpen();
				lost();
			},
		]);
		expect(seen.waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 1_000]);
		expect(seen.states.map((s) => s.state)).toContain("offline");
		expect(seen.after.every((a) => a === "c0")).toBe(true);
	});

	it("comes back no earlier than a busy server asked for", async () => {
		const seen = await run([
			() => {
				throw new ApiError("RESOURCE_EXHAUSTED", "too many streams", { retryAfterMs: 12_345 });
			},
		]);
		expect(seen.waits).toEqual([12_345]);
	});

	it("jitters the first retry too", () => {
		expect(backoff(0, () => 0)).toBe(0);
		expect(backoff(0, () => 0.5)).toBe(500);
		expect(backoff(40, () => 1)).toBe(30_000);
	});

	it("keeps the moment of the data while it is not live", async () => {
		const seen = await run([
			(o) => {
				o.onOpen();
				lost();
			},
		]);
		expect(seen.states.at(-1)).toMatchObject({ state: "reconnecting", dataAt: 42, retryAt: 1_042 });
	});

	it("takes a new snapshot when the log no longer holds its cursor, and goes on from there at once", async () => {
		const seen = await run(
			[
				() => {
					throw new ApiError("CURSOR_EXPIRED", "older than the oldest kept event");
				},
				(o) => o.onOpen(),
			],
			{ onExpired: async () => "c900" },
		);
		expect(seen.after.slice(0, 2)).toEqual(["c0", "c900"]);
		expect(seen.waits.length).toBe(1);
	});

	it("when the snapshot fails as well, it waits and asks for one again", async () => {
		let asked = 0;
		const seen = await run(
			[
				() => {
					throw new ApiError("CURSOR_EXPIRED", "gone");
				},
				() => {
					throw new ApiError("CURSOR_EXPIRED", "gone");
				},
			],
			{
				onExpired: async () => {
					asked++;
					if (asked === 1) throw new ApiError("NETWORK", "the server cannot be reached");
					return "c5";
				},
			},
		);
		expect(asked).toBe(2);
		expect(seen.errors[0]).toBe("NETWORK");
		expect(seen.after.at(-1)).toBe("c5");
	});

	it("ends when nobody is signed in any more", async () => {
		const seen = await run([lost, lost, lost], { mayRetry: async () => false });
		expect(seen.after.length).toBe(1);
	});
});
