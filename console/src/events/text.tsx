import { eventTone, eventWords, refusalWords, toneClass } from "../nodes/words";
import type { EventLine } from "../store/feed";
import { full } from "../ui/time";

/** What happened, who did it, and what more the event says, in a line or two. */
export function EventText({ e, oneLine = false }: { e: EventLine; oneLine?: boolean }) {
	const tone = eventTone(e.type);
	const more = details(e);
	return (
		<div className={oneLine ? "truncate" : "wrap-anywhere min-w-0"}>
			<span title={e.type} className={tone === "muted" ? "" : toneClass[tone]}>
				{eventWords(e.type)}
			</span>
			<span className="text-muted"> · {e.actor}</span>
			{e.reason && <span> · “{e.reason}”</span>}
			{more.map((m) => (
				<span key={m.text} className={m.warn ? "text-warn" : "text-muted"}>
					{" "}
					· {m.text}
				</span>
			))}
		</div>
	);
}

type Said = { text: string; warn: boolean };

/** What an event says besides its type, author and reason. */
function details(e: EventLine): Said[] {
	const out: Said[] = [];
	const say = (text: string | number | null | undefined | false, warn = false) =>
		typeof text === "string" && text !== "" && out.push({ text, warn });
	switch (e.__typename) {
		case "NodeCordonEvent":
			say(e.until && `until ${full(e.until)}`);
			say(e.cancelledDrainId && "ended a drain before the node was empty", true);
			break;
		case "NodeDraining":
			say(e.deadline && `by ${full(e.deadline)}`);
			break;
		case "NodeDrained":
			say(!e.confirmedByNode && "not confirmed by the node", true);
			break;
		case "NodeTaintEvent":
			say(e.taintsAdded?.length && `added ${e.taintsAdded.join(", ")}`);
			say(e.taintsRemoved?.length && `removed ${e.taintsRemoved.join(", ")}`);
			break;
		case "NodeLabelEvent":
			say(e.labelsSet?.length && `set ${e.labelsSet.map((l) => `${l.key}=${l.value}`).join(", ")}`);
			say(e.labelsDisplaced?.length && `took ${e.labelsDisplaced.map((l) => l.key).join(", ")} from the operator`, true);
			say(e.labelsRemoved?.length && `removed ${e.labelsRemoved.map((l) => l.key).join(", ")}`);
			break;
		case "NodeJoinEvent":
			say(e.generation && e.generation > 1 && `generation ${e.generation}`);
			break;
		case "NodeAdoptionEvent":
			say(e.checks?.length && `${e.type === "node.adopted" ? "passed" : "checks"} ${e.checks.join(", ")}`);
			break;
		case "NodeConditionEvent":
			say(e.condition);
			say(e.message);
			break;
		case "NodeSessionEvent":
			say(e.cause);
			say(e.gateway && `gateway ${e.gateway}`);
			say(e.lastSeen && `last seen ${full(e.lastSeen)}`);
			break;
		case "ReservationEvent":
			say(e.deviceUuids?.length && `${e.deviceUuids.length} ${e.deviceUuids.length === 1 ? "device" : "devices"}`);
			// That it begins now says nothing.
			say(e.startsAt && Math.abs(Date.parse(e.startsAt) - Date.parse(e.at)) > 5_000 && `from ${full(e.startsAt)}`);
			say(e.endsAt && `until ${full(e.endsAt)}`);
			break;
		case "CertificateSecurityEvent":
			say(e.claimedNodeId && `called itself …${e.claimedNodeId.slice(-8)}`, true);
			break;
		case "JoinTokenSecurityEvent":
			say(e.refusal && refusalWords(e.refusal), true);
			say(e.hostname && `by ${e.hostname}`, true);
			say(e.joinTokenId && `token …${e.joinTokenId.slice(-8)}`);
			break;
		case "GenericEvent":
			return facts(e.data, e.at);
	}
	return out;
}

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/;
const typed = /^[a-z]+_[0-9a-z]{26}$/;

/** The plain fields of an event without a type of its own, a few of them: moments in the reader's zone, ids by their ends. */
function facts(data: unknown, at: string): { text: string; warn: boolean }[] {
	if (typeof data !== "object" || data === null) return [];
	const out: { text: string; warn: boolean }[] = [];
	for (const [key, value] of Object.entries(data)) {
		if (out.length === 3) break;
		if (value === "" || !["string", "number", "boolean"].includes(typeof value)) continue;
		let text = String(value);
		if (instant.test(text)) {
			// That something begins now says nothing.
			if (Math.abs(Date.parse(text) - Date.parse(at)) < 5_000) continue;
			text = full(text);
		} else if (typed.test(text)) text = `…${text.slice(-8)}`;
		if (text.length <= 80) out.push({ text: `${words(key)} ${text}`, warn: false });
	}
	return out;
}

const words = (key: string) =>
	key
		.replace(/(At|Id)$/, "")
		.replaceAll(/([a-z])([A-Z])/g, "$1 $2")
		.toLowerCase();
