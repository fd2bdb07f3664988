import { afterEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "../src/api/client";
import { Socket } from "../src/api/socket";
import { EventFeed, type EventFilter, type EventLine } from "../src/store/feed";
import { Fleet } from "../src/store/fleet";
import { Wire } from "./wire";

const event = (n: number, change: Partial<EventLine> = {}) =>
	({
		__typename: "GenericEvent",
		id: `evt_${n}`,
		cursor: `c${n}`,
		type: "node.changed",
		at: "2026-11-29T12:00:00.000000Z",
		nodeId: "node_1",
		actor: "sam",
		reason: null,
		node: null,
		data: {},
		...change,
	}) as EventLine;
/** Events from and down to, newest first. */
const page = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, i) => event(from - i));

/** A feed over a log whose pages come one after another, and whose stream is spoken by hand. */
async function setup(pages: { events: EventLine[]; head?: string; more?: boolean }[], filter: EventFilter = {}) {
	const asked: { after: string | null }[] = [];
	const answers = [...pages];
	let head = "";
	vi.stubGlobal("requestAnimationFrame", (run: () => void) => run());
	vi.stubGlobal("fetch", async (_: string, init: { body: string }) => {
		const { query, variables } = JSON.parse(init.body);
		if (query.includes("query Log")) {
			head = answers[0]?.head ?? answers[0]?.events[0]?.cursor ?? "c0";
			return Response.json({ data: { log: { head } } });
		}
		asked.push(variables);
		const answer = answers.shift();
		if (!answer) throw new TypeError("down");
		const endCursor = answer.events.at(-1)?.cursor ?? null;
		return Response.json({
			data: { events: { nodes: answer.events, pageInfo: { hasNextPage: answer.more ?? false, endCursor } } },
		});
	});
	const wire = new Wire();
	const socket = new Socket({ dial: wire.dial, mayRetry: async () => true, random: () => 0 });
	const feed = new EventFeed(new Fleet("default", socket), filter);
	await feed.open();
	const ids = () => feed.view.events.map((e) => Number(e.id.slice(4)));
	const tell = (e: EventLine) => wire.stream("subscription Events").sink.next({ nodeEvents: e });
	const end = () => {
		feed.close();
		socket.close();
	};
	return { feed, wire, ids, tell, asked, end };
}

afterEach(() => {
	vi.unstubAllGlobals();
});

describe("EventFeed", () => {
	it("G1 shows each event once, in the log's order, history and stream together", async () => {
		const t = await setup([{ events: page(5, 3), head: "c4", more: true }, { events: page(2, 1) }]);
		expect(t.wire.stream("subscription Events").variables.after).toBe("c4");
		// The place to follow from was read before the page: the stream repeats what the page held already.
		t.tell(event(5));
		t.tell(event(6));
		t.tell(event(7));
		await t.feed.older();
		expect(t.ids()).toEqual([7, 6, 5, 4, 3, 2, 1]);
		expect(t.feed.view.hasOlder).toBe(false);
		t.end();
	});

	it("G1 resumes after its last event when the line was cut", async () => {
		const t = await setup([{ events: page(2, 1) }]);
		t.tell(event(3));
		t.wire.lose(new ApiError("NETWORK", "cut"));
		await vi.waitFor(() => expect(t.wire.lines.length).toBe(2));
		expect(t.wire.stream("subscription Events").variables.after).toBe("c3");
		t.tell(event(3));
		t.tell(event(4));
		expect(t.ids()).toEqual([4, 3, 2, 1]);
		t.end();
	});

	it("held, nothing moves and what comes is counted; released, all of it is there", async () => {
		const t = await setup([{ events: page(2, 1) }]);
		t.feed.hold();
		t.tell(event(3));
		t.tell(event(4));
		expect(t.ids()).toEqual([2, 1]);
		expect(t.feed.view.waiting).toBe(2);
		t.feed.release();
		expect(t.ids()).toEqual([4, 3, 2, 1]);
		expect(t.feed.view.waiting).toBe(0);
		t.end();
	});

	it("G2 held for long it keeps a bounded number, and reads the newest anew when it is released", async () => {
		const t = await setup([{ events: page(2, 1) }, { events: page(3_000, 2_951), more: true }]);
		t.feed.hold();
		for (let n = 3; n <= 3_000; n++) t.tell(event(n));
		expect(t.feed.view.waiting).toBe(2_000);
		t.feed.release();
		await vi.waitFor(() => expect(t.ids()[0]).toBe(3_000));
		expect(t.ids()).toEqual(page(3_000, 2_951).map((e) => Number(e.id.slice(4))));
		expect(t.feed.view.hasOlder).toBe(true);
		t.end();
	});

	it("G2 a long stream keeps a bounded list, whose end is read again by the cursor of its last event", async () => {
		const t = await setup([{ events: page(2, 1) }, { events: page(1_000, 901), more: true }]);
		for (let n = 3; n <= 3_000; n++) t.tell(event(n));
		expect(t.ids().length).toBe(2_000);
		expect(t.ids().at(-1)).toBe(1_001);
		await t.feed.older();
		expect(t.asked.at(-1)?.after).toBe("c1001");
		expect(t.ids().slice(-100)[0]).toBe(1_000);
		t.end();
	});

	it("when the log no longer holds what came between, it says where, and keeps what it had below", async () => {
		const t = await setup([{ events: page(3, 1) }, { events: page(90, 88), more: true }]);
		t.wire.stream("subscription Events").sink.error(new ApiError("CURSOR_EXPIRED", "gone", { cause: "retention" }));
		await vi.waitFor(() => expect(t.ids()).toEqual([90, 89, 88, 3, 2, 1]));
		expect(t.feed.view.gapAfter).toBe("evt_88");
		expect(t.wire.stream("subscription Events").variables.after).toBe("c90");
		t.end();
	});

	it("of another log than before nothing old is kept", async () => {
		const t = await setup([{ events: page(3, 1) }, { events: page(2, 1) }]);
		t.wire.stream("subscription Events").sink.error(new ApiError("CURSOR_EXPIRED", "another log", { cause: "epoch" }));
		await vi.waitFor(() => expect(t.ids()).toEqual([2, 1]));
		expect(t.feed.view.gapAfter).toBeNull();
		t.end();
	});

	it("the stream is filtered by the actor too, which the server does for the history alone", async () => {
		const t = await setup([{ events: [] }], { actor: "alex" });
		t.tell(event(1));
		t.tell(event(2, { actor: "alex" }));
		expect(t.ids()).toEqual([2]);
		t.end();
	});
});
