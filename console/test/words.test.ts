import { describe, expect, it } from "vitest";
import { commandLine, effects, mutationText } from "../src/act/specs";
import { takeSecret } from "../src/api/session";
import { characters, cordonWords, differences, drainWords, refusal, seenWords, service, showsAge } from "../src/nodes/words";
import { parseSearch, toFilter, toOrder } from "../src/store/filter";
import { aNode, cordonedBy } from "./node";

const now = Date.parse("2026-11-29T12:00:00Z");

describe("words", () => {
	it("quotes the reason for a shell", () => {
		expect(commandLine("cordon", "acme", { id: "node_1" }, 7, "it's $HOME")).toBe(
			"better-compute nodes cordon node_1 --tenant acme --reason 'it'\\''s $HOME' --if-version 7",
		);
		expect(commandLine("drain", "acme", { id: "node_1" }, null, "")).toBe("better-compute nodes drain node_1 --tenant acme");
	});

	it("escapes the reason for GraphQL", () => {
		expect(mutationText("drain", "acme", { id: "node_1" }, 7, 'a "b"\n')).toContain('reason: "a \\"b\\"\\n"');
	});

	it("H1 counts characters as the API does", () => {
		expect(characters("é".repeat(256))).toBe(256);
		expect(characters("😀".repeat(256))).toBe(256);
	});

	it("says first what needs an operator, then what an operator did", () => {
		const n = aNode({
			...cordonedBy("sam", null, 2),
			holds: [
				{ reason: "cordon", owner: "operator", by: "sam", message: null, since: null },
				{ reason: "unreachable", owner: "liveness", by: null, message: null, since: null },
			],
		});
		expect(service(n)).toMatchObject({ word: "unreachable", more: 1 });
		expect(service(aNode())).toMatchObject({ word: "yes", more: 0 });
	});

	it("a row that shows no age says the same at any time", () => {
		const said = (n: ReturnType<typeof aNode>, at: number) => [drainWords(n, at), cordonWords(n, at), seenWords(n, at)];
		const n = aNode({ lastSeen: "2026-11-29T11:00:00Z" });
		expect(showsAge(n)).toBe(false);
		expect(said(n, 0)).toEqual(said(n, now));
		for (const aged of [
			aNode({ ...n, connectivity: "LOST" }),
			aNode(cordonedBy("sam", null, 2)),
			aNode({ deletedAt: n.lastSeen }),
		])
			expect(showsAge(aged)).toBe(true);
	});

	it("a disabled control says why, and one that the server does not know is not offered", () => {
		expect(refusal(aNode(), "uncordon")).toBe("it is not cordoned");
		expect(refusal(aNode(), "drain")).toBeNull();
		expect(refusal(aNode({ controls: [] }), "drain")).not.toBeNull();
	});

	it("a drain says how many are left, and that an open-ended one has no end", () => {
		const drain = {
			id: "drn_1",
			state: "DRAINING" as const,
			reason: null,
			by: "alex",
			startedAt: "2026-11-29T11:30:00Z",
			endedAt: null,
			deadline: null,
			overdue: false,
			confirmedByNode: null,
		};
		const one = { liveAllocationCount: 1 };
		expect(drainWords(aNode({ ...one, drain: { ...drain, expectedAt: "2026-11-29T12:47:00Z" } }), now)?.word).toBe(
			"1 left · in 47 min",
		);
		expect(drainWords(aNode({ ...one, drain: { ...drain, expectedAt: null } }), now)?.word).toBe("1 left · no end");
	});

	it("uncordon says that it ends a drain; drain says whose cordon stays on record", () => {
		const drain = {
			id: "drn_1",
			state: "DRAINING" as const,
			reason: null,
			by: "alex",
			startedAt: "2026-11-29T11:30:00Z",
			endedAt: null,
			deadline: null,
			overdue: false,
			expectedAt: null,
			confirmedByNode: null,
		};
		expect(effects(aNode({ ...cordonedBy("sam", null, 2), drain }), "uncordon").changes.join(" ")).toContain(
			"Ends the drain that alex began",
		);
		expect(effects(aNode(cordonedBy("sam", null, 2)), "drain").changes.join(" ")).toContain("sam");
	});

	it("tells what moved between two versions", () => {
		expect(differences(aNode(), aNode(cordonedBy("sam", "PSU", 2)))).toEqual(["cordoned by sam: “PSU”"]);
		expect(differences(aNode(), aNode({ noScheduleReasons: ["taint:rma"] }))).toEqual(["kept out by: taint:rma"]);
	});
});

describe("filter", () => {
	it("reads an address that people edited, and leaves out what it cannot use", () => {
		expect(parseSearch({ tenant: "acme", cordoned: "true", draining: "yes", q: 7, busy: false })).toEqual({
			tenant: "acme",
			cordoned: true,
			q: "7",
		});
		expect(toFilter({ away: true, busy: true })).toEqual({
			connectivity: ["PENDING", "DISCONNECTED", "UNREACHABLE", "LOST"],
			liveAllocations: true,
		});
	});

	it("the order is the server's, and an unknown one is by name", () => {
		expect(toOrder(parseSearch({ order: "out" }))).toBe("OUT_SINCE_ASC");
		expect(toOrder(parseSearch({ order: "price" }))).toBe("HOSTNAME_ASC");
	});
});

describe("sign-in", () => {
	it("takes the secret out of the address and keeps the rest", () => {
		const to: string[] = [];
		const history = { state: null, replaceState: (_: unknown, __: string, url: string) => to.push(url) } as unknown as History;
		expect(takeSecret({ hash: "#sign-in=s3cret", pathname: "/nodes", search: "?tenant=a" } as Location, history)).toBe("s3cret");
		expect(to).toEqual(["/nodes?tenant=a"]);
		expect(takeSecret({ hash: "", pathname: "/", search: "" } as Location, history)).toBeNull();
		expect(to.length).toBe(1);
	});
});
