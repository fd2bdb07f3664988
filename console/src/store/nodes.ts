import type { NodeRowFragment } from "../gql/graphql";

export type NodeRow = NodeRowFragment;

/** A row as the page holds it, with the moment of the last change that somebody else made. */
export type Held = { node: NodeRow; changedAt: number };

type Entry = Held & { read: number; log: number };

/** The moment at which a reading began. */
export type Mark = { readonly tick: number; readonly log: number };

/**
 * The nodes that the page knows, each once. An answer is merged only if it is newer than what is held: a lower version is dropped
 * always; the same version (connectivity, allocations and beats move no version) only when the answer's reading began before the
 * held state came in. Versions compare only within one log: after a restore from a backup they count anew. Rows are told one by one,
 * once a frame.
 */
export class NodeStore {
	#entries = new Map<string, Entry>();
	#listeners = new Map<string, Set<() => void>>();
	#all = new Set<(ids: readonly string[]) => void>();
	#dirty = new Set<string>();
	#scheduled = false;
	#tick = 0;
	#log = 0;
	#now: () => number;
	#frame: (run: () => void) => void;

	constructor(opts: { now?: () => number; frame?: (run: () => void) => void } = {}) {
		this.#now = opts.now ?? Date.now;
		// A hidden page draws no frames, and must still hold what is true when it is looked at again.
		this.#frame =
			opts.frame ?? ((run) => (document.visibilityState === "hidden" ? setTimeout(run, 100) : requestAnimationFrame(run)));
	}

	/** Take one before a query is sent and give it to merge with the answer: it says how old the reading can be. */
	mark(): Mark {
		return { tick: this.#tick, log: this.#log };
	}

	/** From now on another log is read: what is held gives way to whatever is read of it, and never comes back. */
	anew(): void {
		this.#log++;
	}

	/** Takes a node in, and says whether it was news. Stream items are read as they are delivered: they need no mark. */
	merge(node: NodeRow, mark: Mark = this.mark(), flash = false): boolean {
		const held = this.#entries.get(node.id);
		if (held && held.log > mark.log) return false;
		if (held && held.log === mark.log) {
			if (node.version < held.node.version || (node.version === held.node.version && mark.tick < held.read)) return false;
		}
		this.#tick++;
		const changed = !held || !same(held.node, node);
		const changedAt = changed && held && flash ? this.#now() : (held?.changedAt ?? 0);
		this.#entries.set(node.id, { node: changed ? node : held.node, changedAt, read: this.#tick, log: mark.log });
		if (changed) this.#touch(node.id);
		return changed;
	}

	/** Drops a node that the tenant no longer sees. */
	remove(id: string): void {
		if (this.#entries.delete(id)) this.#touch(id);
	}

	/** Forgets everything: another tenant's nodes must not stay on the page. */
	clear(): void {
		const ids = [...this.#entries.keys()];
		this.#entries.clear();
		for (const id of ids) this.#touch(id);
	}

	get(id: string): Held | undefined {
		return this.#entries.get(id);
	}

	/** How many it holds. */
	get size(): number {
		return this.#entries.size;
	}

	subscribe(id: string, listener: () => void): () => void {
		let set = this.#listeners.get(id);
		if (!set) {
			set = new Set();
			this.#listeners.set(id, set);
		}
		set.add(listener);
		return () => {
			set.delete(listener);
			if (set.size === 0) this.#listeners.delete(id);
		};
	}

	/** Called once for each round of notices, with the nodes that changed in it. */
	subscribeAll(listener: (ids: readonly string[]) => void): () => void {
		this.#all.add(listener);
		return () => this.#all.delete(listener);
	}

	#touch(id: string): void {
		this.#dirty.add(id);
		if (this.#scheduled) return;
		this.#scheduled = true;
		this.#frame(() => this.#flush());
	}

	#flush(): void {
		this.#scheduled = false;
		const ids = [...this.#dirty];
		this.#dirty.clear();
		for (const id of ids) for (const tell of this.#listeners.get(id) ?? []) tell();
		for (const tell of this.#all) tell(ids);
	}
}

function same(a: unknown, b: unknown): boolean {
	if (Object.is(a, b)) return true;
	if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
	if (Array.isArray(a) !== Array.isArray(b)) return false;
	const left = a as Record<string, unknown>;
	const right = b as Record<string, unknown>;
	const keys = Object.keys(left);
	return keys.length === Object.keys(right).length && keys.every((key) => same(left[key], right[key]));
}
