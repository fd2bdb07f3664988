import { useEffect, useState } from "react";
import { type ApiError, asApiError, request } from "../api/client";
import type { Fleet } from "../store/fleet";
import type { NodeRow } from "../store/nodes";
import { LabelsQuery } from "./documents";
import type { Label } from "./specs";

type Labelled = { version: number; list: readonly Label[] | null; error: ApiError | null };

/** A node's labels with the version that they are of, read anew when the node changes; of no node: nothing. */
export function useLabels(fleet: Fleet, node: NodeRow | null): Labelled {
	const [read, setRead] = useState<Labelled>({ version: 0, list: null, error: null });
	const id = node?.id;
	const version = node?.version;
	// biome-ignore lint/correctness/useExhaustiveDependencies: a version says that the labels may be others
	useEffect(() => {
		if (!id) return;
		const stop = new AbortController();
		request(LabelsQuery, { tenantId: fleet.tenantId, nodeId: id }, stop.signal)
			.then(({ node }) => node && setRead({ version: node.version, list: node.labels, error: null }))
			.catch((e: unknown) => !stop.signal.aborted && setRead((old) => ({ ...old, error: asApiError(e) })));
		return () => stop.abort();
	}, [fleet, id, version]);
	return read;
}

/** What became of the labels between two readings, in words. */
export function moved(before: readonly Label[] | null, now: readonly Label[] | null): string[] {
	if (!before || !now) return [];
	const out: string[] = [];
	for (const l of now) {
		const was = before.find((b) => b.key === l.key);
		if (!was) out.push(`label ${l.key} = ${l.value} came`);
		else if (was.value !== l.value) out.push(`label ${l.key}: ${was.value} → ${l.value}`);
	}
	for (const b of before) if (!now.some((l) => l.key === b.key)) out.push(`label ${b.key} went`);
	return out;
}
