import type { NodeRow } from "../src/store/nodes";

/** A node in service, with what a test changes of it. */
export function aNode(change: Partial<NodeRow> = {}): NodeRow {
	return {
		id: "node_01k5w0000000000000000000a1",
		hostname: "gpu-1",
		version: 1,
		pool: { id: "pool_01k5w0000000000000000000p1", name: "default" },
		provisionState: "ADOPTED",
		failure: null,
		cordoned: false,
		cordon: null,
		noScheduleReasons: [],
		maintenance: false,
		connectivity: "CONNECTED",
		connectivitySince: "2026-11-29T10:00:00.000000Z",
		deletedAt: null,
		lastSeen: "2026-11-29T12:00:00.000000Z",
		placeableFor: "ALL",
		statusSentence: "in service",
		outSince: null,
		liveAllocationCount: 0,
		holds: [],
		drain: null,
		controls: [
			{ control: "cordon", action: "compute:nodes:cordon", enabled: true, because: null },
			{ control: "uncordon", action: "compute:nodes:cordon", enabled: false, because: "it is not cordoned" },
			{ control: "drain", action: "compute:nodes:drain", enabled: true, because: null },
		],
		...change,
	};
}

export function cordonedBy(by: string, reason: string | null, version: number): Partial<NodeRow> {
	const at = "2026-11-29T12:00:00.000000Z";
	return {
		version,
		cordoned: true,
		cordon: { by, reason, at, until: null, overdue: false },
		holds: [{ reason: "cordon", owner: "operator", by, message: reason, since: at }],
		placeableFor: "NONE",
		outSince: at,
	};
}
