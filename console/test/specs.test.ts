import { describe, expect, it } from "vitest";
import { fromBox, toBox } from "../src/act/fields";
import {
	commandLine,
	conditions,
	type Draft,
	effects,
	emptyDraft,
	extra,
	type Label,
	labelFault,
	missing,
	mutationText,
	settled,
	taintFault,
} from "../src/act/specs";
import * as many from "../src/bulk/specs";
import { nextStep, refusal } from "../src/nodes/words";
import { choose } from "../src/ui/settings";
import { aNode, cordonedBy } from "./node";

const now = Date.parse("2026-11-29T12:00:00Z");
const draft = (d: Partial<Draft>): Draft => ({ ...emptyDraft, ...d });
const labels: Label[] = [
	{ key: "rack", value: "b7", source: "OPERATOR" },
	{ key: "cpu.arch", value: "amd64", source: "INVENTORY" },
	{ key: "bc.dev/nvidia", value: "1", source: "SYSTEM" },
];

describe("acts", () => {
	it("the command and the mutation say all that is sent, in the command line's own flags", () => {
		const d = draft({ labels: { set: { rack: "b8", "fabric/rail": "" }, remove: ["burn-in"], fresh: { key: "", value: "" } } });
		const more = extra("label", d, aNode());
		expect(commandLine("label", "acme", { id: "node_1" }, 7, "", more)).toBe(
			"better-compute nodes label node_1 --tenant acme --set rack=b8,fabric/rail= --remove burn-in --if-version 7",
		);
		expect(mutationText("label", "acme", { id: "node_1" }, 7, "", more)).toContain(
			'nodeLabel(input: { tenantId: "acme", nodeId: "node_1", version: 7, set: [{ key: "rack", value: "b8" }, { key: "fabric/rail", value: "" }], remove: ["burn-in"] })',
		);
		const taints = extra("taint", draft({ taints: { add: ["rma", "dedicated=acme"], remove: ["burn-in"], fresh: "" } }), aNode());
		expect(commandLine("taint", "acme", { id: "node_1" }, null, "", taints)).toBe(
			"better-compute nodes taint node_1 --tenant acme --add rma,dedicated=acme --remove burn-in",
		);
		expect(commandLine("delete", "acme", { id: "node_1" }, 7, "gone")).toContain("--yes");
		const cordon = extra("recordon", draft({ end: "2026-11-30T06:00:00Z" }), aNode(cordonedBy("sam", null, 2)));
		expect(commandLine("recordon", "acme", { id: "node_1" }, 2, "parts", cordon)).toBe(
			"better-compute nodes cordon node_1 --tenant acme --update-reason --until 2026-11-30T06:00:00Z --reason parts --if-version 2",
		);
		expect(mutationText("recordon", "acme", { id: "node_1" }, 2, "parts", cordon)).toContain("updateReason: true");
	});

	it("the command for many nodes names them, takes their ids as input, or says the filter and how many it expects", () => {
		const d = (change: Partial<many.Draft>): many.Draft => ({ ...many.emptyDraft, ...change });
		expect(many.commandLine(d({ reason: " it's old " }), "acme", { nodeIds: ["node_1", "node_2"] })).toBe(
			"better-compute nodes cordon node_1 node_2 --tenant acme --reason 'it'\\''s old'",
		);
		expect(many.commandLine(d({ control: "UNCORDON", anyone: true }), "acme", { nodeIds: ["node_1"] })).toBe(
			"better-compute nodes uncordon - --tenant acme --anyone <<'END'\nnode_1\nEND",
		);
		const filter = {
			poolId: "pool_1",
			text: "gpu 1",
			cordoned: true,
			draining: false,
			connectivity: ["LOST", "PENDING"] as const,
		};
		expect(
			many.commandLine(d({ control: "DRAIN", maxPerPool: "2" }), "acme", {
				filter: { ...filter, connectivity: [...filter.connectivity] },
				expectCount: 16,
			}),
		).toBe(
			"better-compute nodes drain --filter 'pool=pool_1,text=gpu 1,cordoned,draining=false,connectivity=lost,connectivity=pending' --expect-count 16 --tenant acme --max-per-pool 2",
		);
		expect(many.filterTerms({})).toBe("all");
		expect(many.filterTerms({ liveAllocations: true })).toBeNull();
		expect(many.filterTerms({ text: "a,b" })).toBeNull();
	});

	it("ifCordonedBy names whoever held the cordon that was looked at, and only when it was asked for", () => {
		const n = aNode(cordonedBy("sam", null, 2));
		expect(extra("uncordon", draft({ ifHolders: true }), n)).toEqual({ ifCordonedBy: "sam" });
		expect(extra("uncordon", draft({}), n)).toEqual({});
	});

	it("what still stands in the box for another one is sent too", () => {
		const d = settled(
			draft({
				taints: { add: ["a"], remove: [], fresh: " b " },
				labels: { set: {}, remove: [], fresh: { key: "k", value: " v " } },
			}),
		);
		expect(extra("taint", d, aNode())).toEqual({ add: ["a", "b"] });
		expect(extra("label", d, aNode())).toEqual({ set: [{ key: "k", value: "v" }] });
	});

	it("H1 keys and values at their edges, and what another owns", () => {
		expect(taintFault("a".repeat(128), aNode())).toBeNull();
		expect(taintFault("a".repeat(129), aNode())).not.toBeNull();
		for (const key of ["", "-a", "a-", "a b", "ä"]) expect(taintFault(key, aNode()), key).not.toBeNull();
		expect(taintFault("rma", aNode({ noScheduleReasons: ["taint:rma"] }))).toContain("already");
		expect(labelFault("fabric/rail", "3", labels)).toBeNull();
		expect(labelFault("rack", "", labels)).toBeNull();
		expect(labelFault("rack", "v".repeat(256), labels)).toBeNull();
		expect(labelFault("rack", "v".repeat(257), labels)).not.toBeNull();
		expect(labelFault("cpu.arch", "arm64", labels)).toContain("daemon measures");
		expect(labelFault("bc.dev/new", "1", labels)).toContain("system");
	});

	it("nothing is sent that changes nothing, names nothing, or ends in the past", () => {
		expect(missing("taint", draft({}), aNode(), null, now)).toContain("Nothing");
		expect(missing("label", draft({}), aNode(), labels, now)).toContain("Nothing");
		const many = Array.from({ length: 33 }, (_, i) => `k${i}`);
		expect(missing("taint", draft({ taints: { add: many, remove: [], fresh: "" } }), aNode(), null, now)).toContain("32");
		expect(missing("delete", draft({ typed: "gpu-2" }), aNode(), null, now)).not.toBeNull();
		expect(missing("delete", draft({ typed: "gpu-1" }), aNode(), null, now)).toBeNull();
		expect(missing("cordon", draft({ end: "2026-11-29T11:59:00Z" }), aNode(), null, now)).toContain("ahead");
		const held = aNode(cordonedBy("sam", "PSU", 2));
		expect(missing("recordon", draft({ reason: "PSU" }), held, null, now)).toContain("already");
		expect(missing("recordon", draft({ reason: "parts" }), held, null, now)).toBeNull();
	});

	it("a taint that dedicates the node says for whom, and the last one that goes opens it", () => {
		const add = effects(aNode(), "taint", draft({ taints: { add: ["dedicated=acme"], remove: [], fresh: "" } })).changes.join(
			" ",
		);
		expect(add).toContain("Only acme can use the node");
		const tainted = aNode({
			noScheduleReasons: ["taint:rma"],
			holds: [{ reason: "taint:rma", owner: "operator", by: "sam", message: null, since: null }],
		});
		const gone = effects(tainted, "taint", draft({ taints: { add: [], remove: ["rma"], fresh: "" } })).changes.join(" ");
		expect(gone).toContain("Nothing keeps new work off");
	});

	it("F4 a delete shows each precondition as met or not, with what would make it so", () => {
		const met = (n: Parameters<typeof conditions>[0]) => conditions(n, "delete").map((c) => c.met);
		const may = { control: "delete", action: "compute:nodes:delete", enabled: false, because: "Cordon the adopted node first" };
		expect(met(aNode({ liveAllocationCount: 2, controls: [may] }))).toEqual([true, false, false, true]);
		expect(met(aNode({ ...cordonedBy("sam", null, 2), controls: [{ ...may, enabled: true, because: null }] }))).toEqual([
			true,
			true,
			true,
			true,
		]);
		expect(met(aNode({ provisionState: "RETIRING", controls: [may] }))[0]).toBe(false);
		const failure = (phase: string) => ({ phase, message: "", at: "2026-11-29T12:00:00Z" });
		expect(met(aNode({ provisionState: "FAILED", failure: failure("ENROLLMENT"), controls: [may] }))[0]).toBe(true);
		expect(met(aNode({ provisionState: "FAILED", failure: failure("ACCEPTANCE"), controls: [may] }))[0]).toBe(false);
		const refused = conditions(
			aNode({ controls: [{ ...may, because: "it needs compute:nodes:delete and the tenant that owns the node" }] }),
			"delete",
		);
		expect(refused.at(-1)?.met).toBe(false);
	});

	it("a cordon that is there is not offered again, and its holder is named", () => {
		const controls = [
			{ control: "cordon", action: "compute:nodes:cordon", enabled: false, because: "the node is cordoned already" },
			{ control: "uncordon", action: "compute:nodes:cordon", enabled: true, because: null },
		];
		const n = aNode({ ...cordonedBy("sam", "PSU", 2), controls });
		expect(refusal(n, "cordon")).toMatch(/cordoned already; sam holds it since .*“PSU”/);
		expect(refusal(n, "recordon")).toBeNull();
		expect(refusal(aNode(), "recordon")).toBe("it is not cordoned");
	});

	it("a moment goes through its box unchanged, in the zone of the page", () => {
		for (const zone of ["utc", "local"] as const) {
			choose("zone", zone);
			expect(fromBox(toBox("2026-11-30T06:05:00Z"))).toBe("2026-11-30T06:05:00Z");
		}
		choose("zone", "utc");
		expect(toBox("2026-11-30T06:05:00.000000Z")).toBe("2026-11-30T06:05");
		expect(fromBox("")).toBe("");
		choose("zone", "local");
	});

	it("what is to be done next is said for what is most urgent", () => {
		expect(nextStep(aNode())).toBe("");
		expect(nextStep(aNode(cordonedBy("sam", null, 2)))).toContain("uncordon");
		expect(nextStep(aNode({ ...cordonedBy("sam", null, 2), connectivity: "UNREACHABLE" }))).toContain("power");
	});
});
