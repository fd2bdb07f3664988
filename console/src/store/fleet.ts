import { type ApiError, asApiError, request } from "../api/client";
import { FleetSubscription, ViewerQuery } from "../api/documents";
import { dialWebsocket } from "../api/line";
import { Socket } from "../api/socket";
import type { FleetSubscription as FleetData } from "../gql/graphql";
import { type Search, toFilter, toOrder } from "./filter";
import { NodeList } from "./list";
import { type NodeRow, NodeStore } from "./nodes";

export type Summary = FleetData["fleetSummary"];

/** The page's one socket. A refused websocket says nothing of why, so after each loss it is asked whether the session still stands. */
export function openSocket(): Socket {
	return new Socket({
		dial: dialWebsocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/graphql`),
		mayRetry: async () => {
			try {
				await request(ViewerQuery, {}, AbortSignal.timeout(3_000));
				return true;
			} catch (e) {
				return asApiError(e).code !== "UNAUTHENTICATED";
			}
		},
	});
}

/** Everything that the page knows of one tenant's nodes, whichever part of the page looks at them. */
export class Fleet {
	readonly nodes: NodeStore;
	readonly socket: Socket;
	readonly tenantId: string;
	#summary: Summary | null = null;
	#summaries: (() => void) | null = null;
	#listeners = new Set<() => void>();
	#changes = new Set<(before: NodeRow, after: NodeRow) => void>();
	#reads = new Set<() => void>();
	#mine = new Set<string>();
	#lists = new Map<string, NodeList>();

	constructor(tenantId: string, socket: Socket, nodes: NodeStore = new NodeStore()) {
		this.tenantId = tenantId;
		this.socket = socket;
		this.nodes = nodes;
	}

	/** How many nodes stand how; null until it was told. */
	get summary(): Summary | null {
		return this.#summary;
	}

	/** Begins to hear how the fleet stands. */
	open(): void {
		this.#summaries ??= this.socket.add<Summary>({
			query: FleetSubscription.toString(),
			field: "fleetSummary",
			variables: () => ({ tenantId: this.tenantId }),
			onItem: (summary) => {
				this.#summary = summary;
				for (const tell of this.#listeners) tell();
			},
			onEnd: () => undefined,
		});
	}

	subscribe = (listener: () => void): (() => void) => {
		this.#listeners.add(listener);
		return () => this.#listeners.delete(listener);
	};

	/** The list for these conditions. `place` is where it is shown: each place keeps its last list, so that who comes back finds it as it was. */
	list(place: string, search: Search): NodeList {
		const key = JSON.stringify([toFilter(search), toOrder(search)]);
		const held = this.#lists.get(`${place} ${key}`);
		if (held) return held;
		for (const [other, list] of this.#lists)
			if (other.startsWith(`${place} `)) {
				list.close();
				this.#lists.delete(other);
			}
		const list = new NodeList(this, toFilter(search), toOrder(search));
		this.#lists.set(`${place} ${key}`, list);
		void list.refresh();
		return list;
	}

	/** Told when a list has been read. */
	onRead(listener: () => void): () => void {
		this.#reads.add(listener);
		return () => this.#reads.delete(listener);
	}

	tellRead(): void {
		for (const tell of this.#reads) tell();
	}

	/** Takes in what a stream told of a node, and says what another hand changed of it. */
	take(node: NodeRow): void {
		const before = this.nodes.get(node.id)?.node;
		const mine = this.#mine.has(node.id);
		if (this.nodes.merge(node, undefined, !mine) && before && !mine) for (const tell of this.#changes) tell(before, node);
	}

	/** Told what others changed of the nodes that are looked at. */
	onChange(listener: (before: NodeRow, after: NodeRow) => void): () => void {
		this.#changes.add(listener);
		return () => this.#changes.delete(listener);
	}

	/** Marks a node as changed by this page, so that its own act is not shown as somebody else's. */
	expectMine(nodeId: string): void {
		this.#mine.add(nodeId);
	}

	forgetMine(nodeId: string): void {
		this.#mine.delete(nodeId);
	}

	/** A cursor of another log than this one: versions that were read of the old one say nothing any more. */
	expired(e: ApiError): void {
		if (e.details.cause !== "retention") this.nodes.anew();
	}

	close(): void {
		this.#summaries?.();
		this.#summaries = null;
		for (const list of this.#lists.values()) list.close();
		this.#lists.clear();
	}
}
