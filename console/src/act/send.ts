import { request } from "../api/client";
import { NodesQuery } from "../api/documents";
import type { Control } from "../nodes/words";
import type { Fleet } from "../store/fleet";
import type { NodeRow } from "../store/nodes";
import {
	AdoptMutation,
	CordonMutation,
	DeleteMutation,
	DrainMutation,
	LabelMutation,
	TaintMutation,
	UncordonMutation,
} from "./documents";
import type { Extra } from "./specs";

type Input = Extra & { tenantId: string; nodeId: string; version: number; reason: string | null; requestId: string };
export type Done = { node?: NodeRow; changed: boolean; warnings: readonly string[] };

/** Does each control, by the API. */
export const send: Record<Control, (input: Input) => Promise<Done | null | undefined>> = {
	cordon: async (input) => (await request(CordonMutation, { input })).nodeCordon,
	recordon: async (input) => (await request(CordonMutation, { input })).nodeCordon,
	uncordon: async (input) => (await request(UncordonMutation, { input })).nodeUncordon,
	drain: async (input) => (await request(DrainMutation, { input })).nodeDrain,
	taint: async (input) => (await request(TaintMutation, { input })).nodeTaint,
	label: async (input) => (await request(LabelMutation, { input })).nodeLabel,
	adopt: async (input) => (await request(AdoptMutation, { input })).nodeAdopt,
	delete: async (input) => {
		const done = (await request(DeleteMutation, { input })).nodeDelete;
		return done && { changed: done.deleted, warnings: done.warnings };
	},
};

/** Reads the node once more, where an answer said that it is not as it is shown. */
export async function readAnew(fleet: Fleet, nodeId: string): Promise<void> {
	const mark = fleet.nodes.mark();
	const fresh = await request(NodesQuery, {
		tenantId: fleet.tenantId,
		filter: { nodeIds: [nodeId] },
		orderBy: "HOSTNAME_ASC",
		first: 1,
	}).catch(() => null);
	for (const n of fresh?.nodes.nodes ?? []) fleet.nodes.merge(n, mark);
}

/** An id for one act, however often it is sent. */
export function randomId(): string {
	return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
