import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "../src/api/client";
import type { Transport } from "../src/api/stream";
import { Live, type LiveEvent } from "../src/store/live";
import { type NodeRow, NodeStore } from "../src/store/nodes";
import { aNode, cordonedBy } from "./node";

const ids = ["a1", "b2", "c3"].map((s) => `node_01k5w0000000000000000000${s}`);

function event(n: number, node: NodeRow | null, nodeId = node?.id): LiveEvent {
	return {
		__typename: "GenericEvent",
		id: `evt_${n}`,
		cursor: `c${n}`,
		type: "node.changed",
		at: "2026-11-29T12:00:00.000000Z",
		nodeId,
		actor: "sam",
		reason: null,
		data: {},
		node,
	} as LiveEvent;
}

/** A page over a server whose lists are `pages` and whose stream is spoken by hand. */
function setup(pages: { nodes: NodeRow[]; asOf: string; more?: boolean }[]) {
	const asked: unknown[] = [];
	const answers = [...pages];
	vi.stubGlobal("fetch", async (_: string, init: { body: string }) => {
		const { query, variables } = JSON.parse(init.body);
		if (query.includes("query Viewer"))
			return Response.json({ data: { viewer: { name: "admin", tenants: [{ id: "default" }] } } });
		asked.push(variables);
		const page = answers.shift();
		if (!page) throw new TypeError("down");
		return Response.json({
			data: {
				nodes: {
					nodes: page.nodes,
					pageInfo: { hasNextPage: page.more ?? false, endCursor: page.more ? "next" : null },
					totalCount: page.nodes.length,
					asOf: page.asOf,
				},
			},
		});
	});
	const after: (string | null)[] = [];
	let speak: (e: LiveEvent) => void = () => undefined;
	let drop: (e: ApiError) => void = () => undefined;
	const transport: Transport<LiveEvent> = (o) =>
		new Promise((resolve, reject) => {
			after.push(o.after);
			o.onOpen();
			speak = o.onItem;
			drop = reject;
			o.signal.addEventListener("abort", () => resolve());
		});
	const live = new Live("default", { nodes: new NodeStore({ frame: (run) => run() }), transport });
	return { live, asked, after, speak: (e: LiveEvent) => speak(e), drop: (e: ApiError) => drop(e) };
}

beforeEach(() => {
	vi.spyOn(Math, "random").mockReturnValue(0);
});
afterEach(() => {
	vi.unstubAllGlobals();
	vi.restoreAllMocks();
});

const row = (id: string | undefined, change: Partial<NodeRow> = {}) =>
	aNode({ id: id ?? "", hostname: id?.slice(-2) ?? "", ...change });

describe("Live", () => {
	it("follows the log from the very position of its snapshot", async () => {
		const { live, after } = setup([{ nodes: [row(ids[0])], asOf: "c10" }]);
		await live.show({});
		expect(after).toEqual(["c10"]);
		expect(live.list.ids).toEqual([ids[0]]);
		live.close();
	});

	it("gives each event once, though the stream repeats some after a reconnect", async () => {
		const { live, speak } = setup([{ nodes: [row(ids[0])], asOf: "c10" }]);
		const heard: string[] = [];
		live.onEvent((e) => heard.push(e.id));
		await live.show({});
		speak(event(11, row(ids[0], cordonedBy("sam", "BIOS", 2))));
		speak(event(11, row(ids[0], { version: 1 })));
		speak(event(12, row(ids[0], { version: 1 })));
		expect(heard).toEqual(["evt_11", "evt_12"]);
		expect(live.nodes.get(ids[0] ?? "")?.node.cordon?.by).toBe("sam");
		live.close();
	});

	it("after a cut it resumes by its last cursor and reads no list again", async () => {
		const { live, speak, drop, after, asked } = setup([{ nodes: [row(ids[0])], asOf: "c10" }]);
		await live.show({});
		speak(event(11, row(ids[0], { version: 2 })));
		drop(new ApiError("NETWORK", "cut"));
		await vi.waitFor(() => expect(after).toEqual(["c10", "c11"]));
		expect(asked.length).toBe(1);
		expect(live.connection.state).toBe("live");
		live.close();
	});

	it("reads a new snapshot when its cursor expired, says so, and drops who is gone", async () => {
		const { live, drop, after } = setup([
			{ nodes: [row(ids[0]), row(ids[1])], asOf: "c10" },
			{ nodes: [row(ids[1])], asOf: "c500" },
		]);
		await live.show({});
		drop(new ApiError("CURSOR_EXPIRED", "gone"));
		await vi.waitFor(() => expect(after).toEqual(["c10", "c500"]));
		expect(live.list.gap).toBe(true);
		expect(live.list.ids).toEqual([ids[1]]);
		live.close();
	});

	it("a server that is down when the page opens is tried again until there is a first snapshot", async () => {
		const { live, after } = setup([]);
		let down = true;
		const page = { nodes: [row(ids[0])], pageInfo: { hasNextPage: false, endCursor: null }, totalCount: 1, asOf: "c7" };
		vi.stubGlobal("fetch", async () => {
			if (down) throw new TypeError("down");
			return Response.json({ data: { nodes: page, viewer: { name: "admin", tenants: [] } } });
		});
		await live.show({});
		expect(live.list.error?.code).toBe("NETWORK");
		down = false;
		await vi.waitFor(() => expect(after).toEqual(["c7"]));
		expect(live.list).toMatchObject({ ids: [ids[0]], error: null, gap: false });
		live.close();
	});

	it("a node that joins later goes to the end and moves nobody", async () => {
		const { live, speak } = setup([{ nodes: [row(ids[1]), row(ids[2])], asOf: "c10" }]);
		await live.show({});
		speak(event(11, row(ids[0])));
		expect(live.list.ids).toEqual([ids[1], ids[2], ids[0]]);
		live.close();
	});

	it("a row that no longer matches stays where it is and is counted", async () => {
		const { live, speak } = setup([
			{ nodes: [row(ids[0], cordonedBy("sam", null, 2)), row(ids[1], cordonedBy("sam", null, 2))], asOf: "c10" },
		]);
		await live.show({ cordoned: true });
		speak(event(11, row(ids[0], { version: 3 })));
		expect(live.list.ids).toEqual([ids[0], ids[1]]);
		expect(live.list.outdated).toBe(1);
		live.close();
	});

	it("a node that the tenant no longer sees leaves the page", async () => {
		const { live, speak } = setup([{ nodes: [row(ids[0]), row(ids[1])], asOf: "c10" }]);
		await live.show({});
		speak(event(11, null, ids[0]));
		expect(live.list.ids).toEqual([ids[1]]);
		expect(live.nodes.get(ids[0] ?? "")).toBeUndefined();
		live.close();
	});

	it("a list read while the stream spoke never puts back what the stream already moved", async () => {
		const { live, speak } = setup([
			{ nodes: [row(ids[0])], asOf: "c10" },
			{ nodes: [row(ids[0])], asOf: "c10" },
		]);
		await live.show({});
		const reading = live.refresh();
		speak(event(11, row(ids[0], { connectivity: "UNREACHABLE" })));
		speak(event(12, row(ids[1])));
		await reading;
		expect(live.nodes.get(ids[0] ?? "")?.node.connectivity).toBe("UNREACHABLE");
		expect(live.list.ids).toEqual([ids[0], ids[1]]);
		live.close();
	});
});
