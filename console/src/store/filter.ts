import type { Connectivity, NodeFilter } from "../gql/graphql";
import type { NodeRow } from "./nodes";

/** What the address says about the list. Absent means: no such condition. */
export type Search = {
	tenant?: string | undefined;
	q?: string | undefined;
	pool?: string | undefined;
	cordoned?: true | undefined;
	draining?: true | undefined;
	maintenance?: true | undefined;
	busy?: true | undefined;
	away?: true | undefined;
};

const away: Connectivity[] = ["PENDING", "DISCONNECTED", "UNREACHABLE", "LOST"];

/** Reads the address; whatever it cannot use is left out rather than refused, for people edit addresses. */
export function parseSearch(raw: Record<string, unknown>): Search {
	const text = (v: unknown) => (typeof v === "string" && v !== "" ? v : typeof v === "number" ? String(v) : undefined);
	const flag = (v: unknown) => (v === true || v === "true" ? (true as const) : undefined);
	return {
		tenant: text(raw.tenant),
		q: text(raw.q),
		pool: text(raw.pool),
		cordoned: flag(raw.cordoned),
		draining: flag(raw.draining),
		maintenance: flag(raw.maintenance),
		busy: flag(raw.busy),
		away: flag(raw.away),
	};
}

/** The conditions for the server. */
export function toFilter(s: Search): NodeFilter {
	const f: NodeFilter = {};
	if (s.q) f.text = s.q;
	if (s.pool) f.poolId = s.pool;
	if (s.cordoned) f.cordoned = true;
	if (s.draining) f.draining = true;
	if (s.maintenance) f.maintenance = true;
	if (s.busy) f.liveAllocations = true;
	if (s.away) f.connectivity = away;
	return f;
}

/** Whether there is any condition. */
export const filtered = (s: Search) => Object.keys(toFilter(s)).length > 0;

/**
 * Whether a node, as it is now, belongs in the list. The text also searches label values, which a row does not hold: with a text a
 * row that once matched is not judged by it again (judged null), and a new node is only said to be possible.
 */
export function matches(s: Search, n: NodeRow): boolean | null {
	if (s.pool && n.pool.id !== s.pool) return false;
	if (s.cordoned && !n.cordoned) return false;
	if (s.draining && n.drain?.state !== "DRAINING") return false;
	if (s.maintenance && !n.maintenance) return false;
	if (s.busy && n.liveAllocationCount === 0) return false;
	if (s.away && n.connectivity === "CONNECTED") return false;
	if (!s.q) return true;
	const q = s.q.toLowerCase();
	return n.hostname.toLowerCase().includes(q) || n.id.includes(q) ? true : null;
}
