import type { Connectivity, NodeFilter, NodeOrder } from "../gql/graphql";

/** What the address says about the list. Absent means: no such condition, and by name. */
export type Search = {
	tenant?: string | undefined;
	q?: string | undefined;
	pool?: string | undefined;
	cordoned?: true | undefined;
	draining?: true | undefined;
	maintenance?: true | undefined;
	busy?: true | undefined;
	away?: true | undefined;
	/** The deleted ones too. */
	deleted?: true | undefined;
	order?: Order | undefined;
	/** Not draining. No address says so: the board of drains does. */
	idle?: true | undefined;
	/** The node beside the list. */
	peek?: string | undefined;
	/** The operation on many nodes that is looked at. */
	op?: string | undefined;
};

export type Order = "newest" | "silent" | "out";

const orders: Record<Order, NodeOrder> = { newest: "CREATED_DESC", silent: "LAST_SEEN_ASC", out: "OUT_SINCE_ASC" };
const away: Connectivity[] = ["PENDING", "DISCONNECTED", "UNREACHABLE", "LOST"];

/** The conditions by their names in the address; all absent: the whole fleet. */
export const noConditions = {
	q: undefined,
	pool: undefined,
	cordoned: undefined,
	draining: undefined,
	maintenance: undefined,
	busy: undefined,
	away: undefined,
	deleted: undefined,
} satisfies Partial<Search>;

/** Reads the address; whatever it cannot use is left out rather than refused, for people edit addresses. */
export function parseSearch(raw: Record<string, unknown>): Search {
	const text = (v: unknown) => (typeof v === "string" && v !== "" ? v : typeof v === "number" ? String(v) : undefined);
	const flag = (v: unknown) => (v === true || v === "true" ? (true as const) : undefined);
	const order = text(raw.order);
	return {
		tenant: text(raw.tenant),
		q: text(raw.q),
		pool: text(raw.pool),
		cordoned: flag(raw.cordoned),
		draining: flag(raw.draining),
		maintenance: flag(raw.maintenance),
		busy: flag(raw.busy),
		away: flag(raw.away),
		deleted: flag(raw.deleted),
		order: order && order in orders ? (order as Order) : undefined,
		peek: text(raw.peek),
		op: text(raw.op),
	};
}

/** The conditions for the server. */
export function toFilter(s: Search): NodeFilter {
	const f: NodeFilter = {};
	if (s.q) f.text = s.q;
	if (s.pool) f.poolId = s.pool;
	if (s.cordoned) f.cordoned = true;
	if (s.draining) f.draining = true;
	if (s.idle) f.draining = false;
	if (s.maintenance) f.maintenance = true;
	if (s.busy) f.liveAllocations = true;
	if (s.away) f.connectivity = away;
	if (s.deleted) f.includeDeleted = true;
	return f;
}

export const toOrder = (s: Search): NodeOrder => (s.order ? orders[s.order] : "HOSTNAME_ASC");

/** Whether there is any condition. */
export const filtered = (s: Search) => Object.keys(toFilter(s)).length > 0;
