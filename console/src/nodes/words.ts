import type { Connectivity } from "../gql/graphql";
import type { NodeRow } from "../store/nodes";
import { ago, duration, until } from "../ui/time";

export type Tone = "ok" | "warn" | "bad" | "info" | "muted";

/** A state never speaks by colour alone: glyph and word say the same. */
export type Sign = { glyph: string; word: string; tone: Tone };

export const toneClass: Record<Tone, string> = {
	ok: "text-ok",
	warn: "text-warn",
	bad: "text-bad",
	info: "text-info",
	muted: "text-muted",
};

export function connectivity(c: Connectivity): Sign {
	switch (c) {
		case "CONNECTED":
			return { glyph: "●", word: "connected", tone: "ok" };
		case "DISCONNECTED":
			return { glyph: "◐", word: "disconnected", tone: "warn" };
		case "UNREACHABLE":
			return { glyph: "▲", word: "unreachable", tone: "bad" };
		case "LOST":
			return { glyph: "✕", word: "lost", tone: "bad" };
		case "PENDING":
			return { glyph: "○", word: "pending", tone: "muted" };
		default:
			return { glyph: "?", word: String(c).toLowerCase(), tone: "muted" };
	}
}

/** The list of states can grow: one that this page doesn't know is shown as it is and taken for not ready. */
export function provision(n: NodeRow): Sign {
	const word = n.provisionState.toLowerCase();
	switch (n.provisionState) {
		case "ADOPTED":
			return { glyph: "✓", word, tone: "muted" };
		case "FAILED":
			return { glyph: "✕", word, tone: "bad" };
		case "RETIRING":
		case "RETIRED":
			return { glyph: "▪", word, tone: "muted" };
		default:
			return { glyph: "…", word, tone: "info" };
	}
}

function reasonSign(reason: string): Sign {
	if (reason === "cordon") return { glyph: "⊘", word: "cordoned", tone: "warn" };
	if (reason === "draining") return { glyph: "⇣", word: "draining", tone: "info" };
	if (reason === "maintenance") return { glyph: "⚑", word: "maintenance", tone: "bad" };
	if (reason === "credential") return { glyph: "✕", word: "no trusted credential", tone: "bad" };
	if (reason === "unreachable") return { glyph: "▲", word: "unreachable", tone: "bad" };
	if (reason === "provisioning") return { glyph: "…", word: "not adopted", tone: "info" };
	if (reason.startsWith("taint:")) return { glyph: "◆", word: reason.slice("taint:".length), tone: "warn" };
	if (reason.startsWith("condition:")) return { glyph: "!", word: reason.slice("condition:".length), tone: "bad" };
	return { glyph: "!", word: reason, tone: "warn" };
}

/** In service, or the first thing that keeps it out and how many more do. */
export function service(n: NodeRow): Sign & { more: number } {
	if (n.outSince == null && n.holds.length === 0 && n.placeableFor !== "NONE")
		return { glyph: "●", word: n.placeableFor === "ONE_TENANT" ? "for one tenant" : "yes", tone: "ok", more: 0 };
	// What needs an operator comes before what an operator did.
	const weight = (r: string) => (r === "cordon" ? 2 : r === "draining" ? 1 : 0);
	const [first, ...rest] = [...n.holds].sort((a, b) => weight(a.reason) - weight(b.reason));
	if (!first) return { glyph: "!", word: "no", tone: "warn", more: 0 };
	return { ...reasonSign(first.reason), more: rest.length };
}

/** How far a drain is, in a few words. */
export function drainWords(n: NodeRow, now: number): Sign | null {
	const d = n.drain;
	if (!d) return null;
	if (d.state === "DRAINED") return { glyph: "✓", word: d.endedAt ? `drained ${ago(d.endedAt, now)}` : "drained", tone: "ok" };
	if (d.state === "CANCELLED") return { glyph: "▪", word: "cancelled", tone: "muted" };
	const left = n.liveAllocationCount;
	if (left === 0) return { glyph: "⇣", word: "draining", tone: "info" };
	return d.expectedAt
		? { glyph: "⇣", word: `${left} left · ${until(d.expectedAt, now)}`, tone: "info" }
		: { glyph: "⇣", word: `${left} left · no end`, tone: "warn" };
}

/** Cordoned by whom, since when and why, in one line. */
export function cordonWords(n: NodeRow, now: number): string {
	if (!n.cordon) return "";
	return [n.cordon.by, ago(n.cordon.at, now), n.cordon.reason].filter(Boolean).join(" · ");
}

/** When it was last heard of. A connected node beats every ten seconds: the seconds in between are noise. */
export function seenWords(n: NodeRow, now: number): string {
	if (n.connectivity === "CONNECTED") return "now";
	if (!n.lastSeen) return "never";
	const ms = now - Date.parse(n.lastSeen);
	return ms < 60_000 ? "just now" : `${duration(ms)} ago`;
}

export type Control = "cordon" | "uncordon" | "drain";

export const controlKeys: Record<string, Control> = { c: "cordon", u: "uncordon", d: "drain" };
export const controlNames: Record<Control, string> = { cordon: "Cordon", uncordon: "Uncordon", drain: "Drain" };

/** Why a control is not offered, by the server's own rule; null when it is. */
export function refusal(n: NodeRow, control: Control): string | null {
	const c = n.controls.find((c) => c.control === control);
	if (!c) return "this server does not offer it";
	return c.enabled ? null : (c.because ?? `it needs ${c.action}`);
}

/** What a control changes and what it leaves alone, for this very node. */
export function effects(n: NodeRow, control: Control): { changes: string[]; leaves: string[] } {
	const live = n.liveAllocationCount;
	const running = live === 1 ? "1 live allocation" : `${live} live allocations`;
	switch (control) {
		case "cordon":
			return {
				changes: ["Stops new work from landing on the node."],
				leaves: [
					live
						? `Its ${running} ${live === 1 ? "keeps" : "keep"} running.`
						: "Existing allocations keep running; it holds none now.",
					"Commands still flow, and the node stays connected.",
				],
			};
		case "uncordon": {
			const stays = n.holds.filter((h) => h.reason !== "cordon" && h.reason !== "draining").map((h) => reasonSign(h.reason).word);
			const changes = [
				stays.length ? "Lifts the cordon; other reasons still keep new work off." : "Lets new work land on the node again.",
			];
			if (n.drain?.state === "DRAINING") changes.push(`Ends the drain that ${n.drain.by} began, before the node is empty.`);
			return {
				changes,
				leaves: [
					stays.length ? `Stays as it is: ${stays.join(", ")}.` : "Taints, maintenance and other reasons stay; it has none now.",
				],
			};
		}
		case "drain":
			return {
				changes: [
					n.cordon
						? `The node is cordoned already; ${n.cordon.by} and the reason given stay on record.`
						: "Cordons the node: no new work lands on it.",
					live
						? `Waits until its ${running} ${live === 1 ? "is" : "are"} released or past the end.`
						: "It holds no live allocation, so it is drained at once.",
				],
				leaves: ["Evicts nothing: what runs keeps running.", "The node stays cordoned afterwards, until somebody uncordons it."],
			};
	}
}

/** Quotes for a POSIX shell. */
export function quote(s: string): string {
	return /^[A-Za-z0-9_./:@%+=,-]+$/.test(s) ? s : `'${s.replaceAll("'", "'\\''")}'`;
}

/** The same act on the command line. */
export function commandLine(control: Control, tenant: string, n: { id: string }, version: number | null, reason: string): string {
	const parts = ["better-compute", "nodes", control, n.id, "--tenant", quote(tenant)];
	if (reason) parts.push("--reason", quote(reason));
	if (version !== null) parts.push("--if-version", String(version));
	return parts.join(" ");
}

/** The same act as a GraphQL mutation. */
export function mutationText(
	control: Control,
	tenant: string,
	n: { id: string },
	version: number | null,
	reason: string,
): string {
	const field = { cordon: "nodeCordon", uncordon: "nodeUncordon", drain: "nodeDrain" }[control];
	const input = [`tenantId: ${JSON.stringify(tenant)}`, `nodeId: ${JSON.stringify(n.id)}`];
	if (version !== null) input.push(`version: ${version}`);
	if (reason) input.push(`reason: ${JSON.stringify(reason)}`);
	return `mutation {\n  ${field}(input: { ${input.join(", ")} }) {\n    changed\n    cursor\n    node { id version cordoned noScheduleReasons }\n  }\n}`;
}

/** What the API counts for a text's length: characters, not the halves of them. */
export const characters = (s: string) => [...s].length;

const yesNo = (b: boolean) => (b ? "yes" : "no");

/** What moved a node's version between two readings, in words; empty when a page cannot see it. */
export function differences(a: NodeRow, b: NodeRow): string[] {
	const out: string[] = [];
	if (a.connectivity !== b.connectivity) out.push(`${b.connectivity.toLowerCase()} (was ${a.connectivity.toLowerCase()})`);
	if (a.provisionState !== b.provisionState)
		out.push(`state: ${a.provisionState.toLowerCase()} → ${b.provisionState.toLowerCase()}`);
	if (a.cordoned !== b.cordoned)
		out.push(
			b.cordon
				? `cordoned by ${b.cordon.by}${b.cordon.reason ? `: “${b.cordon.reason}”` : ""}`
				: `uncordoned (it was cordoned by ${a.cordon?.by ?? "somebody"})`,
		);
	else if (a.cordon && b.cordon && (a.cordon.by !== b.cordon.by || a.cordon.reason !== b.cordon.reason))
		out.push(`cordon: ${a.cordon.by} → ${b.cordon.by}${b.cordon.reason ? `: “${b.cordon.reason}”` : ""}`);
	if (a.drain?.id !== b.drain?.id || a.drain?.state !== b.drain?.state)
		out.push(b.drain ? `drain: ${b.drain.state.toLowerCase()} (begun by ${b.drain.by})` : "drain: ended");
	const added = b.noScheduleReasons.filter((r) => !a.noScheduleReasons.includes(r) && r !== "draining");
	const gone = a.noScheduleReasons.filter((r) => !b.noScheduleReasons.includes(r) && r !== "draining");
	if (added.length) out.push(`kept out by: ${added.join(", ")}`);
	if (gone.length) out.push(`no longer kept out by: ${gone.join(", ")}`);
	if (a.maintenance !== b.maintenance) out.push(`maintenance: ${yesNo(a.maintenance)} → ${yesNo(b.maintenance)}`);
	return out;
}

const events: Record<string, [string, Tone]> = {
	"node.cordoned": ["cordoned", "warn"],
	"node.uncordoned": ["uncordoned", "ok"],
	"node.draining": ["drain began", "info"],
	"node.drained": ["drained", "ok"],
	"node.joined": ["joined", "info"],
	"node.rejoined": ["joined anew", "info"],
	"node.connected": ["connected", "ok"],
	"node.reconnected": ["connected again", "ok"],
	"node.disconnected": ["disconnected", "warn"],
	"node.unreachable": ["unreachable", "bad"],
	"node.lost": ["lost", "bad"],
	"node.adopting": ["adopting", "info"],
	"node.adopted": ["adopted", "ok"],
	"node.adoption-failed": ["adoption failed", "bad"],
	"node.inventory": ["inventory changed", "muted"],
	"node.deleted": ["deleted", "bad"],
	"node.tainted": ["taints changed", "warn"],
	"node.labeled": ["labels changed", "muted"],
	"reservation.created": ["booked", "info"],
	"reservation.released": ["booking released", "info"],
	"reservation.ended": ["booking ended", "info"],
};

/** An event's type as a sentence's beginning. */
export function eventWords(type: string): string {
	return events[type]?.[0] ?? type.replace(/^node\./, "").replaceAll(/[._-]/g, " ");
}

/** How an event's words are toned: security always stands out. */
export function eventTone(type: string): Tone {
	return events[type]?.[1] ?? (type.startsWith("security.") ? "bad" : "muted");
}

/** 80 GB from a count of bytes that came as text. */
export function bytes(text: string | null | undefined): string {
	if (!text) return "";
	const n = Number(text);
	if (!Number.isFinite(n)) return text;
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
	let i = 0;
	let v = n;
	while (v >= 1024 && i < units.length - 1) {
		v /= 1024;
		i++;
	}
	return `${v >= 100 || i === 0 ? Math.round(v) : v.toFixed(1)} ${units[i]}`;
}
