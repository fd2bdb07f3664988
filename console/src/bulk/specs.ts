import { keyFault, type Label, labelFault, literal, quote } from "../act/specs";
import type { NodeFilter, NodesControl } from "../gql/graphql";

/** Which nodes: those that were ticked, or all that match, as many as the reader was told there are. */
export type Target = { nodeIds: string[] } | { filter: NodeFilter; expectCount: number };

/** What somebody has entered for many nodes: each control reads its own part of it. */
export type Draft = {
	control: NodesControl;
	reason: string;
	/** When the cordons are meant to end, or by when the drains should be over. */
	end: string;
	anyone: boolean;
	maxPerPool: string;
	/** Keys, or KEY=VALUE pairs of labels, separated by commas or spaces. */
	put: string;
	remove: string;
};

export const controls: [NodesControl, string, string][] = [
	["CORDON", "Cordon", "nodesCordon"],
	["UNCORDON", "Uncordon", "nodesUncordon"],
	["DRAIN", "Drain", "nodesDrain"],
	["TAINT", "Change taints", "nodesTaint"],
	["LABEL", "Change labels", "nodesLabel"],
	["ADOPT", "Adopt again", "nodesAdopt"],
];

export const nameOf = (control: NodesControl) => controls.find(([c]) => c === control)?.[1] ?? control.toLowerCase();

export const emptyDraft: Draft = { control: "CORDON", reason: "", end: "", anyone: false, maxPerPool: "", put: "", remove: "" };

const words = (text: string) => text.split(/[\s,]+/).filter((w) => w !== "");

/** What an operation takes besides tenant, nodes, reason and request id. */
export type Extra = {
	until?: string;
	deadline?: string;
	anyone?: true;
	maxPerPool?: number;
	add?: string[];
	set?: { key: string; value: string }[];
	remove?: string[];
};

export function extra(d: Draft): Extra {
	const remove = words(d.remove);
	switch (d.control) {
		case "CORDON":
			return d.end ? { until: d.end } : {};
		case "UNCORDON":
			return d.anyone ? { anyone: true } : {};
		case "DRAIN":
			return { ...(d.end ? { deadline: d.end } : {}), ...(d.maxPerPool.trim() ? { maxPerPool: Number(d.maxPerPool) } : {}) };
		case "TAINT": {
			const add = words(d.put);
			return { ...(add.length ? { add } : {}), ...(remove.length ? { remove } : {}) };
		}
		case "LABEL": {
			const set = words(d.put).map((pair) => {
				const [key = "", ...value] = pair.split("=");
				return { key, value: value.join("=") };
			});
			return { ...(set.length ? { set } : {}), ...(remove.length ? { remove } : {}) };
		}
		default:
			return {};
	}
}

const none: readonly Label[] = [];

/** Why what was entered cannot be sent yet; null when it can. */
export function missing(d: Draft, now: number): string | null {
	const x = extra(d);
	if ((x.until ?? x.deadline) && Date.parse((x.until ?? x.deadline) as string) <= now) return "The moment has to lie ahead";
	if (
		d.control === "DRAIN" &&
		x.maxPerPool !== undefined &&
		!(Number.isInteger(x.maxPerPool) && x.maxPerPool >= 1 && x.maxPerPool <= 20_000)
	)
		return "The limit is a whole number from 1 to 20,000";
	if (d.control !== "TAINT" && d.control !== "LABEL") return null;
	if (!x.add && !x.set && !x.remove) return "Nothing would change yet";
	const both = x.remove?.find((key) => x.add?.includes(key) || x.set?.some((l) => l.key === key));
	if (both) return `${both} stands in both lists`;
	if (d.control === "TAINT") return [...(x.add ?? []), ...(x.remove ?? [])].map(keyFault).find((f) => f !== null) ?? null;
	if (words(d.put).some((pair) => !pair.includes("="))) return "A label is KEY=VALUE";
	const labels = [...(x.set ?? []), ...(x.remove ?? []).map((key) => ({ key, value: "" }))];
	return labels.map((l) => labelFault(l.key, l.value, none)).find((f) => f !== null) ?? null;
}

/** What many nodes are changed by it, and what it leaves alone. */
export function effects(d: Draft): { changes: string; leaves: string } {
	switch (d.control) {
		case "CORDON":
			return {
				changes: "Stops new work from landing on them.",
				leaves: "What runs keeps running; cordons that hold stay their holders’.",
			};
		case "UNCORDON":
			return {
				changes: d.anyone
					? "Lifts their cordons, whoever holds them, and ends their drains."
					: "Lifts your own cordons, and ends their drains.",
				leaves: d.anyone
					? "Taints, maintenance and other reasons stay."
					: "Others’ cordons are refused and stay, as do taints and other reasons.",
			};
		case "DRAIN":
			return {
				changes: d.maxPerPool.trim()
					? `Cordons and drains them, while fewer than ${d.maxPerPool.trim()} drains run in a pool; the others wait their turn.`
					: "Cordons and drains them, all at once.",
				leaves: "Evicts nothing. Each stays cordoned until somebody uncordons it.",
			};
		case "TAINT":
			return { changes: "Adds and removes these taints.", leaves: "What runs keeps running; reasons of controllers stay." };
		case "LABEL":
			return {
				changes: "Sets and removes these labels.",
				leaves: "Inventory’s and the system’s labels; a node that has one of them by that key is refused.",
			};
		case "ADOPT":
			return {
				changes: "Runs their acceptance again: they take no new work until the checks pass.",
				leaves: "What runs keeps running.",
			};
	}
}

/** The same operation as a GraphQL mutation. */
export function mutationText(d: Draft, tenant: string, selectionId: string): string {
	const field = controls.find(([c]) => c === d.control)?.[2];
	const reason = d.reason.trim();
	const input = { tenantId: tenant, selectionId, ...(reason ? { reason } : {}), ...extra(d) };
	return `mutation {\n  ${field}(input: ${literal(input)}) {\n    operation { id state count }\n  }\n}`;
}

/** So many ids stand on the command line itself; more come from standard input, and so does a single one, for which the command would be another. */
const onLine = [2, 5] as const;

/** The filter in the command line's terms; null when it has a condition for which there is none. */
export function filterTerms(filter: NodeFilter): string | null {
	const terms: string[] = [];
	for (const [name, value] of Object.entries(filter)) {
		if (value == null) continue;
		if (name === "text" && !String(value).includes(",") && String(value).trim() === value) terms.push(`text=${value}`);
		else if (name === "poolId") terms.push(`pool=${value}`);
		else if (name === "cordoned" || name === "draining" || name === "maintenance") terms.push(value ? name : `${name}=false`);
		else if (name === "connectivity") for (const c of value as string[]) terms.push(`connectivity=${c.toLowerCase()}`);
		else return null;
	}
	return terms.length ? terms.join(",") : "all";
}

/** The same operation on the command line; null when its filter cannot say which nodes these are. */
export function commandLine(d: Draft, tenant: string, target: Target): string | null {
	const parts = ["better-compute", "nodes", d.control.toLowerCase()];
	let input = "";
	if ("nodeIds" in target) {
		if (target.nodeIds.length >= onLine[0] && target.nodeIds.length <= onLine[1]) parts.push(...target.nodeIds);
		else {
			parts.push("-");
			input = ` <<'END'\n${target.nodeIds.join("\n")}\nEND`;
		}
	} else {
		const terms = filterTerms(target.filter);
		if (terms === null) return null;
		parts.push("--filter", quote(terms), "--expect-count", String(target.expectCount));
	}
	parts.push("--tenant", quote(tenant));
	const flag = (name: string, value?: string) => parts.push(`--${name}`, ...(value === undefined ? [] : [quote(value)]));
	const x = extra(d);
	if (x.set) flag("set", x.set.map((l) => `${l.key}=${l.value}`).join(","));
	if (x.add) flag("add", x.add.join(","));
	if (x.remove) flag("remove", x.remove.join(","));
	if (x.until) flag("until", x.until);
	if (x.deadline) flag("deadline", x.deadline);
	if (x.anyone) flag("anyone");
	if (x.maxPerPool) flag("max-per-pool", String(x.maxPerPool));
	const reason = d.reason.trim();
	if (reason) flag("reason", reason);
	return parts.join(" ") + input;
}
