import { useCallback, useSyncExternalStore } from "react";
import type { Connection } from "../api/stream";
import type { List, Live } from "../store/live";
import type { Held } from "../store/nodes";

/** One node, told of by itself: a change elsewhere in the fleet does not render it. */
export function useNode(live: Live, id: string): Held | undefined {
	return useSyncExternalStore(
		useCallback((listener) => live.nodes.subscribe(id, listener), [live, id]),
		() => live.nodes.get(id),
	);
}

export const useList = (live: Live): List => useSyncExternalStore(live.subscribe, () => live.list);
export const useConnection = (live: Live): Connection => useSyncExternalStore(live.subscribe, () => live.connection);
