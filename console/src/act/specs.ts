import type { LabelSource } from "../gql/graphql";
import { type Control, controlNames, reasonSign } from "../nodes/words";
import type { NodeRow } from "../store/nodes";
import { full } from "../ui/time";

export type Label = { key: string; value: string; source: LabelSource };

/** What somebody has entered in a dialog: each control reads its own part of it. */
export type Draft = {
	reason: string;
	/** When a cordon is meant to end, or by when a drain should be over: RFC 3339, empty when that is not said. */
	end: string;
	/** Lift the cordon only while it is its present holder's. */
	ifHolders: boolean;
	/** fresh is what stands in the box for another one. */
	taints: { add: string[]; remove: string[]; fresh: string };
	labels: { set: Record<string, string>; remove: string[]; fresh: { key: string; value: string } };
	/** The name that is typed before a node is deleted. */
	typed: string;
};

export const emptyDraft: Draft = {
	reason: "",
	end: "",
	ifHolders: false,
	taints: { add: [], remove: [], fresh: "" },
	labels: { set: {}, remove: [], fresh: { key: "", value: "" } },
	typed: "",
};

/** The draft with what still stands in a box for another one: who sends it has meant it. */
export function settled(d: Draft): Draft {
	const { add, fresh } = d.taints;
	const { set, fresh: label } = d.labels;
	const key = label.key.trim();
	return {
		...d,
		taints: { ...d.taints, add: fresh.trim() && !add.includes(fresh.trim()) ? [...add, fresh.trim()] : add, fresh: "" },
		labels: { ...d.labels, set: key ? { ...set, [key]: label.value.trim() } : set, fresh: { key: "", value: "" } },
	};
}

/** What an input holds besides tenant, node, version, reason and request id. */
export type Extra = {
	until?: string;
	updateReason?: true;
	ifCordonedBy?: string;
	deadline?: string;
	add?: string[];
	set?: { key: string; value: string }[];
	remove?: string[];
};

/** The verb on the command line, and the mutation. */
const verbs: Record<Control, { command: string; field: string }> = {
	cordon: { command: "cordon", field: "nodeCordon" },
	recordon: { command: "cordon", field: "nodeCordon" },
	uncordon: { command: "uncordon", field: "nodeUncordon" },
	drain: { command: "drain", field: "nodeDrain" },
	taint: { command: "taint", field: "nodeTaint" },
	label: { command: "label", field: "nodeLabel" },
	adopt: { command: "adopt", field: "nodeAdopt" },
	delete: { command: "delete", field: "nodeDelete" },
};

/** What a dialog is called, its button, and what is said when it is done. */
export const titles: Record<Control, { title: string; button: string; done: string }> = {
	cordon: { title: "Cordon", button: "Cordon", done: "is cordoned" },
	recordon: { title: "Change the cordon of", button: "Change", done: "has another reason for its cordon" },
	uncordon: { title: "Uncordon", button: "Uncordon", done: "is no longer cordoned" },
	drain: { title: "Drain", button: "Drain", done: "drains" },
	taint: { title: "Taints of", button: "Change the taints", done: "has other taints" },
	label: { title: "Labels of", button: "Change the labels", done: "has other labels" },
	adopt: { title: "Adopt again", button: "Adopt again", done: "runs its acceptance again" },
	delete: { title: "Delete", button: "Delete for good", done: "is deleted" },
};

/** What a control takes besides its reason, from what was entered. */
export function extra(control: Control, d: Draft, n: NodeRow): Extra {
	switch (control) {
		case "cordon":
			return d.end ? { until: d.end } : {};
		case "recordon":
			return { updateReason: true, ...(d.end ? { until: d.end } : {}) };
		case "uncordon":
			return d.ifHolders && n.cordon ? { ifCordonedBy: n.cordon.by } : {};
		case "drain":
			return d.end ? { deadline: d.end } : {};
		case "taint":
			return { ...some("add", d.taints.add), ...some("remove", d.taints.remove) };
		case "label": {
			const set = Object.entries(d.labels.set).map(([key, value]) => ({ key, value }));
			return { ...(set.length ? { set } : {}), ...some("remove", d.labels.remove) };
		}
		default:
			return {};
	}
}

const some = (name: "add" | "remove", keys: string[]) => (keys.length ? { [name]: keys } : {});

const taintRule = /^[A-Za-z0-9]([A-Za-z0-9._/=:-]{0,126}[A-Za-z0-9])?$/;
const keyRule = /^[A-Za-z0-9]([A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?$/;
const valueRule = /^[A-Za-z0-9._:/@+=-]{0,256}$/;

/** What is wrong with a taint that is to come; null when nothing is. The server judges by the same rule. */
export function taintFault(key: string, n: NodeRow): string | null {
	return n.noScheduleReasons.includes(`taint:${key}`) ? `It has ${key} already` : keyFault(key);
}

/** What is wrong with a taint's key by itself. */
export function keyFault(key: string): string | null {
	return taintRule.test(key) ? null : "A key is 1 to 128 letters, digits and . _ / = : -, a letter or digit first and last";
}

/** What is wrong with a label; null when nothing is. */
export function labelFault(key: string, value: string, all: readonly Label[]): string | null {
	if (!keyRule.test(key)) return "A key is 1 to 128 letters, digits and . _ / -, a letter or digit first and last";
	if (key.startsWith("bc.dev/")) return "Keys that begin with bc.dev/ belong to the system";
	const other = all.find((l) => l.key === key && l.source !== "OPERATOR");
	if (other) return lockedBecause(other);
	return valueRule.test(value) ? null : "A value is up to 256 letters, digits and . _ : / @ + = -";
}

/** Why an operator cannot move a label; null when they can. */
export function lockedBecause(l: Label): string | null {
	if (l.source === "INVENTORY") return "inventory’s labels come and go with what the daemon measures";
	if (l.source === "SYSTEM" || l.key.startsWith("bc.dev/")) return "the system’s labels are set by the control plane";
	return null;
}

/** Most keys that one call adds or removes. */
const most = { taint: 32, label: 64 };

/** Why what was entered cannot be sent yet; null when it can. labels are the node's, null while they are read. */
export function missing(control: Control, d: Draft, n: NodeRow, labels: readonly Label[] | null, now: number): string | null {
	if (d.end && (control === "cordon" || control === "recordon" || control === "drain") && Date.parse(d.end) <= now)
		return "The moment has to lie ahead";
	switch (control) {
		case "recordon":
			return n.cordon && d.reason.trim() === (n.cordon.reason ?? "") && same(d.end, n.cordon.until)
				? "It has this reason and this end already"
				: null;
		case "taint":
			return (
				many(d.taints.add.length, d.taints.remove.length, most.taint) ??
				d.taints.add.map((key) => taintFault(key, n)).find((f) => f !== null) ??
				null
			);
		case "label": {
			if (!labels) return "The labels are being read";
			const set = Object.entries(d.labels.set);
			return (
				many(set.length, d.labels.remove.length, most.label) ??
				set.map(([k, v]) => labelFault(k, v, labels)).find((f) => f !== null) ??
				null
			);
		}
		case "delete":
			return d.typed.trim() === n.hostname ? null : "Type the node’s name first";
		default:
			return null;
	}
}

const same = (a: string, b: string | null | undefined) => (a === "" ? b == null : b != null && Date.parse(a) === Date.parse(b));

function many(put: number, taken: number, most: number): string | null {
	if (put + taken === 0) return "Nothing would change yet";
	return put > most || taken > most ? `One call takes ${most} keys of a kind at most: do it in several` : null;
}

const allocations = (n: number) => (n === 1 ? "1 live allocation" : `${n} live allocations`);

/** What a control changes and what it leaves alone, for this very node and what was entered. */
export function effects(n: NodeRow, control: Control, d: Draft = emptyDraft): { changes: string[]; leaves: string[] } {
	const live = n.liveAllocationCount;
	switch (control) {
		case "cordon":
			return {
				changes: [
					"Stops new work from landing on the node.",
					...(d.end ? [`You mean it to end at ${full(d.end)}: past that it is called overdue, and it holds on.`] : []),
				],
				leaves: [
					live
						? `Its ${allocations(live)} ${live === 1 ? "keeps" : "keep"} running.`
						: "Existing allocations keep running; it holds none now.",
					"Commands still flow, and the node stays connected.",
				],
			};
		case "recordon":
			return {
				changes: ["Gives the cordon that holds this reason and this end, as an event of its own."],
				leaves: n.cordon
					? [`It stays ${n.cordon.by}’s, since ${full(n.cordon.at)}. New work stays off.`]
					: ["New work stays off the node."],
			};
		case "uncordon":
			return uncordonEffects(n);
		case "drain":
			return {
				changes: [
					n.cordon
						? `The node is cordoned already; ${n.cordon.by} and the reason given stay on record.`
						: "Cordons the node: no new work lands on it.",
					live
						? `Waits until its ${allocations(live)} ${live === 1 ? "is" : "are"} released or past the end.`
						: "It holds no live allocation, so it is drained at once.",
					...(d.end ? [`You want it over by ${full(d.end)}: past that it is called overdue, and it goes on.`] : []),
				],
				leaves: ["Evicts nothing: what runs keeps running.", "The node stays cordoned afterwards, until somebody uncordons it."],
			};
		case "taint":
			return taintEffects(n, d);
		case "label":
			return {
				changes: [
					...Object.entries(d.labels.set).map(([key, value]) => `Sets ${key} = ${value || "(empty)"}`),
					...d.labels.remove.map((key) => `Removes ${key}`),
				],
				leaves: ["Inventory’s and the system’s labels, and all that runs: labels only describe the node for placement."],
			};
		case "adopt":
			return {
				changes: [
					n.provisionState === "ADOPTED"
						? "The node goes back to adopting and takes no new work until the checks pass."
						: "A new run of the checks begins; results of the one before are ignored.",
				],
				leaves: [
					live
						? `Its ${allocations(live)} ${live === 1 ? "keeps" : "keep"} running; a check that would disturb ${live === 1 ? "it" : "them"} waits.`
						: "It holds no live allocation that a check could disturb.",
					"Cordon, taints and labels stay as they are.",
				],
			};
		case "delete":
			return deleteEffects(n);
	}
}

function uncordonEffects(n: NodeRow) {
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

function taintEffects(n: NodeRow, d: Draft) {
	const { add, remove } = d.taints;
	const after = n.holds.filter((h) => !remove.some((key) => h.reason === `taint:${key}`)).length + add.length;
	const changes = [...add.map((key) => `Adds ${key}`), ...remove.map((key) => `Removes ${key}`)];
	for (const key of add)
		if (key.startsWith("dedicated="))
			changes.push(`Only ${key.slice("dedicated=".length)} can use the node then, and sees it from then on.`);
	if (add.length && !n.holds.length && !add.every((key) => key.startsWith("dedicated=")))
		changes.push("New work no longer lands on the node.");
	if (remove.length && after === 0) changes.push("Nothing keeps new work off the node then.");
	return {
		changes,
		leaves: ["What runs keeps running. Conditions, unreachable and draining belong to their controllers and stay."],
	};
}

function deleteEffects(n: NodeRow) {
	const changes = [
		"Removes the node for good: its devices can’t be booked and its certificates are revoked. There is no way back.",
	];
	if (n.drain?.state === "DRAINING") changes.push("Ends its drain.");
	if (n.connectivity === "CONNECTED") changes.push("It is connected: its daemon is told, and what runs on the machine goes on.");
	return {
		changes,
		leaves: [
			"Its history stays readable to you.",
			"The files on the machine. It can join again as a new node: bcd join --reset --yes, with a new token.",
		],
	};
}

/** Quotes for a POSIX shell. */
export function quote(s: string): string {
	return /^[A-Za-z0-9_./:@%+=,-]+$/.test(s) ? s : `'${s.replaceAll("'", "'\\''")}'`;
}

/** The same act on the command line. */
export function commandLine(
	control: Control,
	tenant: string,
	n: { id: string },
	version: number | null,
	reason: string,
	more: Extra = {},
): string {
	const parts = ["better-compute", "nodes", verbs[control].command, n.id, "--tenant", quote(tenant)];
	const flag = (name: string, value?: string) => parts.push(`--${name}`, ...(value === undefined ? [] : [quote(value)]));
	if (more.set) flag("set", more.set.map((l) => `${l.key}=${l.value}`).join(","));
	if (more.add) flag("add", more.add.join(","));
	if (more.remove) flag("remove", more.remove.join(","));
	if (more.updateReason) flag("update-reason");
	if (more.until) flag("until", more.until);
	if (more.deadline) flag("deadline", more.deadline);
	if (more.ifCordonedBy) flag("if-cordoned-by", more.ifCordonedBy);
	if (reason) flag("reason", reason);
	if (version !== null) flag("if-version", String(version));
	if (control === "delete") flag("yes");
	return parts.join(" ");
}

/** A value as GraphQL spells it. */
export function literal(v: unknown): string {
	if (Array.isArray(v)) return `[${v.map(literal).join(", ")}]`;
	if (typeof v === "object" && v !== null) return `{ ${fields(v)} }`;
	return JSON.stringify(v);
}

const fields = (v: object) =>
	Object.entries(v)
		.map(([name, value]) => `${name}: ${literal(value)}`)
		.join(", ");

/** The same act as a GraphQL mutation. */
export function mutationText(
	control: Control,
	tenant: string,
	n: { id: string },
	version: number | null,
	reason: string,
	more: Extra = {},
): string {
	const input = {
		tenantId: tenant,
		nodeId: n.id,
		...(version !== null ? { version } : {}),
		...(reason ? { reason } : {}),
		...more,
	};
	const answer =
		control === "delete" ? "deleted\n    cursor" : "changed\n    cursor\n    node { id version cordoned noScheduleReasons }";
	return `mutation {\n  ${verbs[control].field}(input: { ${fields(input)} }) {\n    ${answer}\n  }\n}`;
}

/** One thing that has to hold before a control is offered. */
export type Condition = { met: boolean; text: string; next?: string };

/** What an adopt or a delete needs, each with whether it holds and what would make it hold. The server's own word stands in the node's controls. */
export function conditions(n: NodeRow, control: "adopt" | "delete"): Condition[] {
	const state = n.provisionState.toLowerCase();
	const c = n.controls.find((c) => c.control === control);
	const may: Condition = {
		met: !!c && (c.enabled || !c.because?.includes(c.action)),
		text: `You may: ${c?.action ?? control}, in the tenant that owns the node`,
	};
	if (control === "adopt")
		return [
			{
				met: n.provisionState === "ADOPTING" || n.provisionState === "ADOPTED",
				text: `It is adopting or adopted; it is ${state}`,
			},
			may,
		];
	const early = n.provisionState === "ADOPTING" || n.provisionState === "ENROLLING";
	const deletable =
		early ||
		n.provisionState === "ADOPTED" ||
		n.provisionState === "RETIRED" ||
		(n.provisionState === "FAILED" && n.failure?.phase === "ENROLLMENT");
	return [
		{ met: deletable, text: `It is retired, adopted, or not adopted yet; it is ${state}` },
		...(n.provisionState === "ADOPTED"
			? [
					{
						met: n.cordoned,
						text: n.cordoned ? "It is cordoned" : "It is cordoned; it is not",
						next: `${controlNames.cordon} it first.`,
					},
				]
			: []),
		{
			met: n.liveAllocationCount === 0,
			text: n.liveAllocationCount === 0 ? "It holds nothing" : `It holds nothing; it holds ${allocations(n.liveAllocationCount)}`,
			next: "Drain it to wait for them, or release their reservations.",
		},
		may,
	];
}
