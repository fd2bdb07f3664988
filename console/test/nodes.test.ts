import { describe, expect, it } from "vitest";
import { NodeStore } from "../src/store/nodes";
import { aNode, cordonedBy } from "./node";

/** A store whose frames are drawn by hand. */
function setup() {
	const frames: (() => void)[] = [];
	const store = new NodeStore({ now: () => 1_000, frame: (run) => frames.push(run) });
	return { store, draw: () => frames.splice(0).forEach((run) => void run()), frames };
}

describe("NodeStore", () => {
	it("drops a lower version, whenever it comes", () => {
		const { store } = setup();
		const mark = store.mark();
		store.merge(aNode(cordonedBy("alex", "BIOS", 8)));
		expect(store.merge(aNode({ version: 7 }))).toBe(false);
		expect(store.merge(aNode({ version: 7 }), mark)).toBe(false);
		expect(store.get(aNode().id)?.node.cordon?.by).toBe("alex");
	});

	it("takes the same version with another connectivity: beats and sessions move no version", () => {
		const { store } = setup();
		store.merge(aNode());
		expect(store.merge(aNode({ connectivity: "DISCONNECTED" }))).toBe(true);
		expect(store.get(aNode().id)?.node.connectivity).toBe("DISCONNECTED");
	});

	it("drops a list of the same version that was asked for before the held state came in", () => {
		const { store } = setup();
		store.merge(aNode());
		const mark = store.mark();
		store.merge(aNode({ connectivity: "DISCONNECTED" }));
		expect(store.merge(aNode({ connectivity: "CONNECTED" }), mark)).toBe(false);
		expect(store.get(aNode().id)?.node.connectivity).toBe("DISCONNECTED");
		expect(store.merge(aNode({ connectivity: "CONNECTED" }), store.mark())).toBe(true);
	});

	it("of another log a lower version counts, and what was asked of the old one never comes back", () => {
		const { store } = setup();
		const before = store.mark();
		store.merge(aNode({ version: 9 }));
		store.anew();
		expect(store.merge(aNode({ version: 3 }))).toBe(true);
		expect(store.merge(aNode({ version: 10 }), before)).toBe(false);
		expect(store.merge(aNode({ version: 2 }))).toBe(false);
		expect(store.get(aNode().id)?.node.version).toBe(3);
	});

	it("takes a higher version even from an older question", () => {
		const { store } = setup();
		const mark = store.mark();
		store.merge(aNode());
		expect(store.merge(aNode(cordonedBy("sam", null, 2)), mark)).toBe(true);
	});

	it("says nothing when a repeat brings nothing new, and keeps the very object", () => {
		const { store, draw } = setup();
		store.merge(aNode());
		draw();
		const before = store.get(aNode().id)?.node;
		let told = 0;
		store.subscribe(aNode().id, () => told++);
		expect(store.merge(aNode())).toBe(false);
		draw();
		expect(told).toBe(0);
		expect(store.get(aNode().id)?.node).toBe(before);
	});

	it("tells only the rows that changed, once a frame", () => {
		const { store, draw, frames } = setup();
		const other = "node_01k5w0000000000000000000b2";
		let first = 0;
		let second = 0;
		let rounds = 0;
		store.subscribe(aNode().id, () => first++);
		store.subscribe(other, () => second++);
		store.subscribeAll(() => rounds++);
		store.merge(aNode());
		store.merge(aNode({ version: 2 }));
		store.merge(aNode({ version: 3 }));
		expect(first).toBe(0);
		expect(frames.length).toBe(1);
		draw();
		expect([first, second, rounds]).toEqual([1, 0, 1]);
	});

	it("flashes only what somebody else changed, never what came first", () => {
		const { store } = setup();
		store.merge(aNode(), undefined, true);
		expect(store.get(aNode().id)?.changedAt).toBe(0);
		store.merge(aNode({ version: 2 }), undefined, false);
		expect(store.get(aNode().id)?.changedAt).toBe(0);
		store.merge(aNode({ version: 3 }), undefined, true);
		expect(store.get(aNode().id)?.changedAt).toBe(1_000);
	});
});
