import type { Connectivity, JoinTokenRefusal } from "../gql/graphql";
import type { NodeRow } from "../store/nodes";
import { ago, duration, full, until } from "../ui/time";

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

/** What keeps a node out, by its name. */
export function reasonSign(reason: string): Sign {
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
	const sign = first.reason === "provisioning" ? provision(n) : reasonSign(first.reason);
	return { ...sign, more: rest.length };
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

/** What somebody who looks after the node does next; empty when nothing is to be done. What is most urgent comes first. */
export function nextStep(n: NodeRow): string {
	const d = n.drain;
	if (n.deletedAt) return "Its history stays here. The machine can join again as a new node.";
	if (n.provisionState === "FAILED" && (n.failure?.phase === "ACCEPTANCE" || n.failure?.phase === "ENROLLMENT"))
		return "Next: mend what the failed check names and reboot the machine; its checks run again with the new boot.";
	if (n.connectivity === "UNREACHABLE" || n.connectivity === "LOST")
		return "Next: look at its power and network. What it holds stays booked; it is back by itself once it is heard of.";
	if (d?.state === "DRAINING") {
		if (n.liveAllocationCount === 0) return "It is looked at once more, and is drained then.";
		if (!d.expectedAt) return "Next: release what has no end, for the drain waits for it.";
		return d.overdue
			? "Next: release what it waits for, or leave it: the drain goes on past its deadline."
			: "Nothing to do but wait, or release what it waits for.";
	}
	if (d?.state === "DRAINED")
		return d.confirmedByNode
			? "Next: it is empty, so do the work; then uncordon it."
			: "Next: the node did not confirm that nothing runs, so look before you pull a plug; then do the work, and uncordon it.";
	if (n.provisionState === "ADOPTING" || n.provisionState === "ENROLLING")
		return "Its checks have to pass: what they wait for stands under Acceptance.";
	if (n.cordon?.overdue) return "Next: its cordon is past its end, so uncordon it, or give the cordon another end.";
	if (n.maintenance) return "It needs an operator: nothing is scheduled on it until somebody has seen to it.";
	if (n.cordon) return "Next: uncordon it when the work is done.";
	if (n.noScheduleReasons.some((r) => r.startsWith("taint:") && !r.startsWith("taint:dedicated=")))
		return "Next: remove the taint once its reason is gone.";
	return "";
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

/** Whether a row of the grid says of anything how long ago it was, or how soon it will be. */
export const showsAge = (n: NodeRow): boolean =>
	n.connectivity !== "CONNECTED" || n.cordon != null || n.drain != null || n.deletedAt != null;

/** What an operator can do to a node. The words of a cordon that holds are changed by an act of their own. */
export type Control = "cordon" | "uncordon" | "recordon" | "drain" | "taint" | "label" | "adopt" | "delete";

export const controlKeys: Record<string, Control> = { c: "cordon", u: "uncordon", d: "drain", t: "taint", l: "label" };
export const controlNames: Record<Control, string> = {
	cordon: "Cordon",
	uncordon: "Uncordon",
	recordon: "Change the reason",
	drain: "Drain",
	taint: "Change taints",
	label: "Change labels",
	adopt: "Adopt again",
	delete: "Delete",
};

/** Who holds a cordon, since when and why, as a sentence goes on. */
export function holder(c: NonNullable<NodeRow["cordon"]>): string {
	return `${c.by} holds it since ${full(c.at)}${c.until ? ` until ${full(c.until)}` : ""}${c.reason ? `: “${c.reason}”` : ", without a reason"}`;
}

/** The server's own word on a control. Whoever may lift a cordon that holds may change its words. */
export const offer = (n: NodeRow, control: Control) =>
	n.controls.find((c) => c.control === (control === "recordon" ? "uncordon" : control));

/** Why a control is not offered, by the server's own rule; null when it is. */
export function refusal(n: NodeRow, control: Control): string | null {
	const c = offer(n, control);
	if (!c) return "this server does not offer it";
	if (c.enabled) return null;
	const because = c.because ?? `it needs ${c.action}`;
	return control === "cordon" && n.cordon ? `${because}; ${holder(n.cordon)}` : because;
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
	else if (a.cordon && b.cordon) {
		if (a.cordon.by !== b.cordon.by || a.cordon.reason !== b.cordon.reason)
			out.push(`cordon: ${a.cordon.by} → ${b.cordon.by}${b.cordon.reason ? `: “${b.cordon.reason}”` : ", without a reason"}`);
		if (a.cordon.until !== b.cordon.until)
			out.push(b.cordon.until ? `the cordon is meant to end at ${full(b.cordon.until)}` : "the cordon has no end any more");
	}
	if (a.drain?.id !== b.drain?.id || a.drain?.state !== b.drain?.state)
		out.push(b.drain ? `drain: ${b.drain.state.toLowerCase()} (begun by ${b.drain.by})` : "drain: ended");
	const added = b.noScheduleReasons.filter((r) => !a.noScheduleReasons.includes(r) && r !== "draining");
	const gone = a.noScheduleReasons.filter((r) => !b.noScheduleReasons.includes(r) && r !== "draining");
	if (added.length) out.push(`kept out by: ${added.join(", ")}`);
	if (gone.length) out.push(`no longer kept out by: ${gone.join(", ")}`);
	if (!a.deletedAt && b.deletedAt) out.push("deleted");
	if (a.maintenance !== b.maintenance) out.push(`maintenance: ${yesNo(a.maintenance)} → ${yesNo(b.maintenance)}`);
	return out;
}

const events: Record<string, [string, Tone]> = {
	"node.cordoned": ["cordoned", "warn"],
	"node.uncordoned": ["uncordoned", "ok"],
	"node.cordon-updated": ["cordon’s reason changed", "muted"],
	"node.cordon-overdue": ["cordon is overdue", "warn"],
	"node.draining": ["drain began", "info"],
	"node.drain-overdue": ["drain is overdue", "warn"],
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
	"security.join-token.refused": ["join token refused", "bad"],
	"security.join-token.reused": ["used join token shown again", "bad"],
	"security.node.identity-mismatch": ["identity mismatch", "bad"],
	"security.node.superseded-certificate-used": ["replaced certificate used", "bad"],
};

const refusals: Record<JoinTokenRefusal, string> = {
	WRONG_SECRET: "wrong secret",
	EXPIRED: "it has expired",
	REVOKED: "it is revoked",
	OTHER_POOL: "the machine is a node of another pool",
	OTHER_NODE: "it is for another node",
	OUTDATED: "older than the revocation of the machine’s certificate",
};

/** Why a join token was refused, which the machine itself is not told. */
export function refusalWords(refusal: JoinTokenRefusal): string {
	return refusals[refusal] ?? refusal.toLowerCase().replaceAll("_", " ");
}

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
