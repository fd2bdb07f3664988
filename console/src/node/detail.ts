import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError, asApiError, request } from "../api/client";
import { RowsSubscription } from "../api/documents";
import type { NodeDetailQuery as DetailData, RowsSubscription as RowsData } from "../gql/graphql";
import { useFleet, useNode } from "../nodes/hooks";
import type { NodeRow } from "../store/nodes";
import { NodeDetailQuery } from "./documents";

export type Detail = NonNullable<DetailData["node"]>;

export type NodeState = {
	/** The row, live; undefined while nothing is known of it. */
	node: NodeRow | undefined;
	detail: Detail | null;
	error: ApiError | null;
	reload: () => void;
};

/** One node, followed: its row comes by the stream, and what the row does not hold is read again after each change. A burst reads once. */
export function useNodeDetail(nodeId: string): NodeState {
	const fleet = useFleet();
	const held = useNode(fleet, nodeId);
	const [detail, setDetail] = useState<Detail | null>(null);
	const [error, setError] = useState<ApiError | null>(null);
	const soon = useRef<(ms: number) => void>(() => undefined);

	useEffect(() => {
		const stop = new AbortController();
		let timer: ReturnType<typeof setTimeout> | undefined;
		let off: (() => void) | null = null;
		let asOf = "";
		setDetail(null);
		setError(null);

		const read = async (): Promise<void> => {
			const mark = fleet.nodes.mark();
			const { nodes, node } = await request(NodeDetailQuery, { tenantId: fleet.tenantId, nodeId }, stop.signal);
			if (stop.signal.aborted) return;
			const row = nodes.nodes[0];
			if (!row || !node) throw new ApiError("NOT_FOUND", "the node is not visible");
			fleet.nodes.merge(row, mark);
			setDetail(node);
			setError(null);
			if (!off) {
				asOf = nodes.asOf;
				off = follow();
			}
			// The two were read side by side: one can be a moment older than the other.
			if (row.version !== node.version || row.liveAllocationCount !== node.liveAllocationCount) again(150);
		};
		const load = () =>
			read().catch((e: unknown) => {
				if (stop.signal.aborted) return;
				const failed = asApiError(e);
				setError(failed);
				if (failed.code === "NOT_FOUND") {
					fleet.nodes.remove(nodeId);
					setDetail(null);
				}
				if (["NETWORK", "UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED"].includes(failed.code))
					again(2_000 + Math.random() * 2_000);
			});
		const again = (ms: number) => {
			clearTimeout(timer);
			timer = setTimeout(() => void load(), ms);
		};
		const follow = () =>
			fleet.socket.add<RowsData["nodeChanges"]>({
				query: RowsSubscription.toString(),
				field: "nodeChanges",
				variables: () => ({ tenantId: fleet.tenantId, after: asOf, nodeIds: [nodeId] }),
				onItem: (batch) => {
					asOf = batch.asOf;
					for (const node of batch.changed) fleet.take(node);
					// Out of sight, or deleted: its owner still reads a deleted one.
					again(batch.removed.length ? 0 : 100);
				},
				onExpired: async (e) => {
					fleet.expired(e);
					const mark = fleet.nodes.mark();
					const { nodes, node } = await request(NodeDetailQuery, { tenantId: fleet.tenantId, nodeId }, stop.signal);
					asOf = nodes.asOf;
					for (const row of nodes.nodes) fleet.nodes.merge(row, mark);
					if (node) setDetail(node);
				},
				onEnd: setError,
			});
		soon.current = again;
		void load();
		// Once a minute it is read anyhow, for the sentence speaks of ages.
		const minute = setInterval(() => document.visibilityState === "visible" && void load(), 60_000);
		return () => {
			stop.abort();
			clearTimeout(timer);
			clearInterval(minute);
			off?.();
		};
	}, [fleet, nodeId]);

	const reload = useCallback(() => soon.current(0), []);
	return { node: held?.node, detail: detail?.id === nodeId ? detail : null, error, reload };
}
