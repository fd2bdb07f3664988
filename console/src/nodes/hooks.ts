import { createContext, useCallback, useContext, useSyncExternalStore } from "react";
import type { Connection } from "../api/socket";
import type { Fleet, Summary } from "../store/fleet";
import type { List, NodeList } from "../store/list";
import type { Held } from "../store/nodes";

export const FleetContext = createContext<Fleet | null>(null);

/** What the page knows of the tenant's nodes. */
export function useFleet(): Fleet {
	const fleet = useContext(FleetContext);
	if (!fleet) throw new Error("this part of the page stands outside of a tenant");
	return fleet;
}

/** One node, told of by itself: a change elsewhere in the fleet does not render it. */
export function useNode(fleet: Fleet, id: string): Held | undefined {
	return useSyncExternalStore(
		useCallback((listener) => fleet.nodes.subscribe(id, listener), [fleet, id]),
		() => fleet.nodes.get(id),
	);
}

export const useList = (list: NodeList): List => useSyncExternalStore(list.subscribe, () => list.view);
export const useConnection = (fleet: Fleet): Connection =>
	useSyncExternalStore(fleet.socket.subscribe, () => fleet.socket.connection);
export const useSummary = (fleet: Fleet): Summary | null => useSyncExternalStore(fleet.subscribe, () => fleet.summary);
/** How many drain: a summary that counts the same does not render who asks for this alone. */
export const useDraining = (fleet: Fleet): number => useSyncExternalStore(fleet.subscribe, () => fleet.summary?.draining ?? 0);

/** Whether what is shown may be out of date. */
export function useStale(fleet: Fleet): boolean {
	const { state } = useConnection(fleet);
	return state === "reconnecting" || state === "offline";
}
