import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "../src/api/client";
import { Socket } from "../src/api/socket";
import type { Search } from "../src/store/filter";
import { Fleet } from "../src/store/fleet";
import { type NodeRow, NodeStore } from "../src/store/nodes";
import { aNode, cordonedBy } from "./node";
import { Wire } from "./wire";

const id = (n: number) => `node_01k5w${String(n).padStart(21, "0")}`;
const row = (n: number, change: Partial<NodeRow> = {}) => aNode({ id: id(n), hostname: `gpu-${n}`, ...change });

type Page = { nodes: NodeRow[]; asOf: string; more?: boolean; total?: number };
type Asked = { filter: { nodeIds?: string[] }; first: number; after: string | null };

/** A page over a server whose lists are `pages`, one after another, and whose streams are spoken by hand. */
async function setup(pages: (Page | "down")[], search: Search = {}) {
	const asked: Asked[] = [];
	const answers = [...pages];
	const gates: (() => void)[] = [];
	let gated = false;
	vi.stubGlobal("fetch", async (_: string, init: { body: string }) => {
		const { query, variables } = JSON.parse(init.body);
		if (query.includes("query Viewer")) return Response.json({ data: { viewer: { name: "admin", tenants: [] } } });
		asked.push(variables);
		if (gated) await new Promise<void>((open) => gates.push(open));
		const page = answers.shift();
		if (!page || page === "down") throw new TypeError("down");
		return Response.json({
			data: {
				nodes: {
					nodes: page.nodes,
					pageInfo: { hasNextPage: page.more ?? false, endCursor: page.more ? "next" : null },
					totalCount: page.total ?? page.nodes.length,
					asOf: page.asOf,
				},
			},
		});
	});
	const wire = new Wire();
	const socket = new Socket({ dial: wire.dial, mayRetry: async () => true, random: () => 0 });
	const fleet = new Fleet("default", socket, new NodeStore({ frame: (run) => run() }));
	const list = fleet.list("nodes", search);
	await vi.waitFor(() => expect(list.view.loading).toBeNull());
	const rows = (i = 0) => {
		const s = wire.streams("subscription Rows")[i];
		if (!s) throw new Error(`no stream of page ${i}`);
		return s;
	};
	const change = (changed: unknown[], removed: string[], asOf: string) => ({ nodeChanges: { changed, removed, asOf } });
	return {
		wire,
		fleet,
		list,
		asked,
		rows,
		/** The stream of a page's rows says that a node is now so. */
		tell: (node: NodeRow, asOf = "c11", page = 0) => rows(page).sink.next(change([node], [], asOf)),
		lose: (ids: string[], asOf = "c11", page = 0) => rows(page).sink.next(change([], ids, asOf)),
		/** The stream of the list's members says which changed, and which are no longer in it. */
		members: (changed: string[], removed: string[], asOf = "c11") =>
			wire.stream("subscription Members").sink.next(
				change(
					changed.map((i) => ({ id: i })),
					removed,
					asOf,
				),
			),
		gate: (on: boolean) => {
			gated = on;
			if (!on) for (const open of gates.splice(0)) open();
		},
		end: () => {
			fleet.close();
			socket.close();
		},
	};
}

beforeEach(() => {
	vi.spyOn(Math, "random").mockReturnValue(0);
});
afterEach(() => {
	vi.unstubAllGlobals();
	vi.restoreAllMocks();
});

describe("NodeList", () => {
	it("F3 with deleted nodes one that is deleted stays as such; its streams ask for those that are there, and one that is not seen any more parts", async () => {
		const t = await setup(
			[
				{ nodes: [row(1), row(2), row(3, { deletedAt: "2026-11-28T12:00:00Z" })], asOf: "c10" },
				{ nodes: [row(1, { version: 2, deletedAt: "2026-11-29T12:00:00Z" })], asOf: "c11" },
			],
			{ deleted: true, q: "gpu" },
		);
		expect(t.asked[0]?.filter).toEqual({ text: "gpu", includeDeleted: true });
		expect(t.wire.stream("subscription Members").variables.filter).toEqual({ text: "gpu" });
		expect(t.wire.streams("subscription Count").length).toBe(0);
		t.members([], [id(1), id(2)]);
		await vi.waitFor(() => expect([...t.list.view.outdated]).toEqual([id(2)]));
		expect(t.asked[1]?.filter).toEqual({ text: "gpu", includeDeleted: true, nodeIds: [id(1), id(2)] });
		expect(t.fleet.nodes.get(id(1))?.node.deletedAt).toBe("2026-11-29T12:00:00Z");
		t.end();
	});

	it("follows its rows and its members from the very position of its snapshot, on one line", async () => {
		const t = await setup([{ nodes: [row(1)], asOf: "c10" }]);
		expect(t.rows().variables).toMatchObject({ after: "c10", nodeIds: [id(1)] });
		expect(t.wire.stream("subscription Members").variables).toMatchObject({ after: "c10" });
		expect(t.wire.lines.length).toBe(1);
		t.end();
	});

	it("G1 after a cut it resumes after its last batch, reads no list again, and an old batch moves nothing back", async () => {
		const t = await setup([{ nodes: [row(1)], asOf: "c10" }]);
		t.tell(row(1, cordonedBy("sam", "BIOS", 2)), "c12");
		t.wire.lose(new ApiError("NETWORK", "cut"));
		await vi.waitFor(() => expect(t.wire.lines.length).toBe(2));
		expect(t.rows().variables.after).toBe("c12");
		t.tell(row(1, { version: 1 }), "c12");
		expect(t.fleet.nodes.get(id(1))?.node.cordon?.by).toBe("sam");
		expect(t.asked.length).toBe(1);
		t.end();
	});

	it("G1 when its cursors expired it reads one new list, says so, and drops who is gone", async () => {
		const t = await setup([
			{ nodes: [row(1), row(2)], asOf: "c10" },
			{ nodes: [row(2)], asOf: "c500" },
		]);
		const gone = new ApiError("CURSOR_EXPIRED", "gone", { cause: "retention" });
		t.wire.stream("subscription Members").sink.error(gone);
		t.rows().sink.error(gone);
		await vi.waitFor(() => expect(t.list.view.gap).toBe(true));
		expect(t.list.view.ids).toEqual([id(2)]);
		await vi.waitFor(() => expect(t.rows().variables.after).toBe("c500"));
		expect(t.wire.stream("subscription Members").variables.after).toBe("c500");
		expect(t.asked.length).toBe(2);
		t.end();
	});

	it("G1 after a restore from a backup lower versions count again", async () => {
		const t = await setup([
			{ nodes: [row(1, cordonedBy("sam", null, 9))], asOf: "old" },
			{ nodes: [row(1, { version: 3 })], asOf: "new" },
		]);
		t.rows().sink.error(new ApiError("CURSOR_EXPIRED", "another log", { cause: "epoch" }));
		await vi.waitFor(() => expect(t.fleet.nodes.get(id(1))?.node.version).toBe(3));
		expect(t.fleet.nodes.get(id(1))?.node.cordon).toBeNull();
		t.end();
	});

	it("a server that is down when the page opens is asked again until there is a list", async () => {
		vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
		const opening = setup(["down", { nodes: [row(1)], asOf: "c7" }]);
		await vi.advanceTimersByTimeAsync(100);
		const t = await opening;
		expect(t.list.view.error?.code).toBe("NETWORK");
		await vi.advanceTimersByTimeAsync(1_100);
		vi.useRealTimers();
		await vi.waitFor(() => expect(t.list.view).toMatchObject({ ids: [id(1)], error: null, gap: false }));
		t.end();
	});

	it("a node that joins goes to the end and moves nobody, and is followed from then on", async () => {
		const t = await setup([
			{ nodes: [row(2), row(3)], asOf: "c10" },
			{ nodes: [row(1)], asOf: "c11" },
		]);
		t.members([id(1)], []);
		await vi.waitFor(() => expect(t.list.view.ids).toEqual([id(2), id(3), id(1)]));
		expect(t.asked[1]?.filter.nodeIds).toEqual([id(1)]);
		expect(t.rows().variables).toMatchObject({ after: "c10", nodeIds: [id(2), id(3), id(1)] });
		t.end();
	});

	it("while more pages wait below, a node that joins is brought by one of them", async () => {
		const t = await setup([{ nodes: [row(2)], asOf: "c10", more: true, total: 20_000 }]);
		t.members([id(1)], []);
		await new Promise((done) => setTimeout(done, 100));
		expect(t.list.view.ids).toEqual([id(2)]);
		expect(t.asked.length).toBe(1);
		t.end();
	});

	it("a row that no longer matches stays where it is, live, and is counted until the list is read anew", async () => {
		const t = await setup(
			[
				{ nodes: [row(1, cordonedBy("sam", null, 2)), row(2, cordonedBy("sam", null, 2))], asOf: "c10" },
				{ nodes: [row(2, cordonedBy("sam", null, 2))], asOf: "c20" },
			],
			{ cordoned: true },
		);
		t.members([], [id(1)]);
		t.tell(row(1, { version: 3 }));
		expect(t.list.view.ids).toEqual([id(1), id(2)]);
		expect([...t.list.view.outdated]).toEqual([id(1)]);
		expect(t.fleet.nodes.get(id(1))?.node.cordoned).toBe(false);
		await t.list.refresh();
		expect(t.list.view.ids).toEqual([id(2)]);
		expect(t.list.view.outdated.size).toBe(0);
		t.end();
	});

	it("a row that matches again is no longer counted", async () => {
		const t = await setup([{ nodes: [row(1, cordonedBy("sam", null, 2))], asOf: "c10" }], { cordoned: true });
		t.members([], [id(1)]);
		t.members([id(1)], [], "c12");
		expect(t.list.view.outdated.size).toBe(0);
		t.end();
	});

	it("G3 of a node that the tenant no longer sees nothing stays on the page but its place", async () => {
		const t = await setup([{ nodes: [row(1), row(2)], asOf: "c10" }]);
		t.lose([id(1)]);
		expect(t.fleet.nodes.get(id(1))).toBeUndefined();
		expect(t.list.view.ids).toEqual([id(1), id(2)]);
		expect([...t.list.view.outdated]).toEqual([id(1)]);
		t.end();
	});

	it("a list read while the streams spoke never puts back what they already moved, nor loses who joined", async () => {
		const t = await setup([
			{ nodes: [row(1)], asOf: "c10" },
			{ nodes: [row(1)], asOf: "c10" },
			{ nodes: [row(2)], asOf: "c12" },
		]);
		t.gate(true);
		const reading = t.list.refresh();
		t.tell(row(1, { connectivity: "UNREACHABLE" }));
		t.members([id(2)], [], "c12");
		t.gate(false);
		await reading;
		expect(t.fleet.nodes.get(id(1))?.node.connectivity).toBe("UNREACHABLE");
		await vi.waitFor(() => expect(t.list.view.ids).toEqual([id(1), id(2)]));
		t.end();
	});

	it("only pages that are looked at are followed, and one that is looked at again goes on from where it was", async () => {
		const page = (from: number, n: number) => Array.from({ length: n }, (_, i) => row(from + i));
		const t = await setup([
			{ nodes: page(0, 60), asOf: "c10", more: true, total: 20_000 },
			{ nodes: page(60, 200), asOf: "c20", more: true, total: 20_000 },
		]);
		await t.list.more();
		t.tell(row(5, { version: 2 }), "c15");
		t.list.watch(200, 230);
		expect(t.wire.streams("subscription Rows").map((s) => s.variables.after)).toEqual(["c20"]);
		t.list.watch(0, 30);
		expect(
			t.wire
				.streams("subscription Rows")
				.map((s) => s.variables.after)
				.sort(),
		).toEqual(["c15", "c20"]);
		t.list.watch(0, -1);
		expect(t.wire.streams("subscription Rows")).toEqual([]);
		t.end();
	});

	it("the total is the server's, as it counts it now", async () => {
		const t = await setup([{ nodes: [row(1)], asOf: "c10", more: true, total: 20_000 }]);
		t.wire.stream("subscription Count").sink.next({ fleetSummary: { total: 20_001 } });
		expect(t.list.view.total).toBe(20_001);
		t.end();
	});

	it("says when host names repeat", async () => {
		const t = await setup([{ nodes: [row(1), row(2)], asOf: "c10" }]);
		expect(t.list.view.repeats).toBe(false);
		t.end();
		const u = await setup([{ nodes: [row(1), row(2, { hostname: "gpu-1" })], asOf: "c10" }]);
		expect(u.list.view.repeats).toBe(true);
		u.end();
	});

	it("who comes back to a place finds the list as it was left", async () => {
		const t = await setup([{ nodes: [row(1)], asOf: "c10" }]);
		expect(t.fleet.list("nodes", {})).toBe(t.list);
		expect(t.asked.length).toBe(1);
		t.end();
	});

	it("tells what others changed, and not what this page did itself", async () => {
		const t = await setup([{ nodes: [row(1)], asOf: "c10" }]);
		const told: number[] = [];
		t.fleet.onChange((_, after) => told.push(after.version));
		t.tell(row(1, { version: 2 }));
		t.fleet.expectMine(id(1));
		t.tell(row(1, { version: 3 }), "c12");
		expect(told).toEqual([2]);
		t.end();
	});
});
