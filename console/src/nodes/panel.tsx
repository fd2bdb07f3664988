import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { type ApiError, asApiError, request } from "../api/client";
import { NodeDetailQuery, NodeHistoryQuery } from "../api/documents";
import type { NodeDetailQuery as DetailData, EventLineFragment } from "../gql/graphql";
import type { Live } from "../store/live";
import type { NodeRow } from "../store/nodes";
import { Button, Copy, Failure, Spinner } from "../ui/parts";
import { Ago, clock, day, duration, full, until, useNow } from "../ui/time";
import { Said } from "./grid";
import { useNode } from "./hooks";
import { bytes, type Control, connectivity, eventWords, provision, refusal } from "./words";

type Detail = NonNullable<DetailData["node"]>;

/** One node beside the list: why it is in or out, what a drain waits for, and its history, all of it live. */
export function Panel({
	live,
	nodeId,
	onAct,
	onClose,
}: {
	live: Live;
	nodeId: string;
	onAct: (id: string, control: Control) => void;
	onClose: () => void;
}) {
	const held = useNode(live, nodeId);
	const [detail, setDetail] = useState<Detail | null>(null);
	const [error, setError] = useState<ApiError | null>(null);
	const heading = useRef<HTMLHeadingElement>(null);

	const load = useCallback(
		async (signal: AbortSignal) => {
			const mark = live.nodes.mark();
			try {
				const { node } = await request(NodeDetailQuery, { tenantId: live.tenantId, nodeId }, signal);
				if (!node || signal.aborted) return;
				live.nodes.merge(node, mark);
				setDetail(node);
				setError(null);
			} catch (e) {
				if (!signal.aborted) setError(asApiError(e));
			}
		},
		[live, nodeId],
	);

	// What a row doesn't hold is read again after each event of the node; a burst of events reads once. Once a minute it is read
	// anyhow, for the sentence speaks of ages.
	useEffect(() => {
		const stop = new AbortController();
		let timer: ReturnType<typeof setTimeout> | undefined;
		setDetail(null);
		setError(null);
		void load(stop.signal);
		const minute = setInterval(() => document.visibilityState === "visible" && void load(stop.signal), 60_000);
		const off = live.onEvent((e) => {
			if (e.nodeId !== nodeId) return;
			clearTimeout(timer);
			timer = setTimeout(() => void load(stop.signal), 150);
		});
		return () => {
			off();
			clearTimeout(timer);
			clearInterval(minute);
			stop.abort();
		};
	}, [live, nodeId, load]);

	const n = held?.node;
	return (
		<aside
			aria-label="Node"
			className="flex w-[27rem] max-w-[92vw] shrink-0 flex-col overflow-auto border-line border-l bg-bg max-md:fixed max-md:inset-y-0 max-md:right-0 max-md:z-20 max-md:shadow-2xl"
		>
			<header className="sticky top-0 z-10 flex items-start gap-2 border-line border-b bg-raised px-4 py-2.5">
				<div className="min-w-0 flex-1">
					<h2 ref={heading} className="truncate font-mono font-semibold text-base">
						{n?.hostname ?? "Node"}
					</h2>
					<p className="flex items-center gap-1 text-muted text-xs">
						<span className="truncate font-mono">{nodeId}</span>
						<Copy text={nodeId} label="Copy the id" />
					</p>
				</div>
				<Button look="quiet" aria-label="Close" onClick={onClose} className="px-2!">
					✕
				</Button>
			</header>
			{error && (
				<div className="p-4">
					{error.code === "NOT_FOUND" ? (
						<p>
							Not found, or not visible to <b>{live.tenantId}</b>.
						</p>
					) : (
						<Failure error={error} action={<Button onClick={() => void load(new AbortController().signal)}>Retry</Button>} />
					)}
				</div>
			)}
			{!n && !error && (
				<p className="flex items-center gap-2 p-4 text-muted">
					<Spinner /> Reading…
				</p>
			)}
			{n && <Body live={live} n={n} detail={detail} onAct={onAct} />}
		</aside>
	);
}

function Body({
	live,
	n,
	detail,
	onAct,
}: {
	live: Live;
	n: NodeRow;
	detail: Detail | null;
	onAct: (id: string, control: Control) => void;
}) {
	const inService = n.outSince == null && n.holds.length === 0;
	const actions: Control[] = ["cordon", "uncordon", "drain"];
	return (
		<div className="flex flex-col pb-6">
			<div className="flex flex-col gap-3 px-4 pt-3">
				<div>
					<p className={`text-[15px] ${inService ? "text-ok" : "text-text"}`}>{sentenceCase(n.statusSentence)}</p>
					{n.outSince && (
						<p className="text-muted">
							out of service since {full(n.outSince)}, <Ago at={n.outSince} />
						</p>
					)}
				</div>
				<div className="flex gap-1.5">
					{actions.map((control) => (
						<Button key={control} because={refusal(n, control)} onClick={() => onAct(n.id, control)}>
							{{ cordon: "Cordon", uncordon: "Uncordon", drain: "Drain" }[control]}
						</Button>
					))}
				</div>
			</div>

			<Section title="Axes">
				<Facts>
					<Fact name="Connectivity">
						<Said sign={connectivity(n.connectivity)} />
						{n.connectivitySince && (
							<span className="text-muted">
								{" "}
								· <Ago at={n.connectivitySince} />
							</span>
						)}
					</Fact>
					<Fact name="Provisioning">
						<Said sign={provision(n)} />
						{n.failure && <p className="text-bad">{`${n.failure.phase.toLowerCase()}: ${n.failure.message}`}</p>}
					</Fact>
					<Fact name="Cordon">
						{n.cordon ? (
							<>
								<Said sign={{ glyph: "⊘", word: `by ${n.cordon.by}`, tone: "warn" }} />
								<span className="text-muted">
									{" "}
									· <Ago at={n.cordon.at} />
								</span>
								{n.cordon.reason && <p className="break-words">“{n.cordon.reason}”</p>}
							</>
						) : (
							<span className="text-muted">none</span>
						)}
					</Fact>
					<Fact name="Maintenance">
						{n.maintenance ? (
							<Said sign={{ glyph: "⚑", word: "needs an operator", tone: "bad" }} />
						) : (
							<span className="text-muted">none</span>
						)}
					</Fact>
					<Fact name="Pool">{n.pool.name}</Fact>
					<Fact name="Version">{n.version}</Fact>
				</Facts>
			</Section>

			<DrainPart n={n} detail={detail} />

			<Section title="What keeps it out">
				{n.holds.length === 0 ? (
					<p className="text-muted">Nothing.</p>
				) : (
					<ul className="flex flex-col gap-1.5">
						{n.holds.map((h) => (
							<li key={`${h.reason} ${h.owner}`}>
								<span className="font-mono">{h.reason}</span>
								<span className="text-muted">
									{" "}
									· {h.owner}
									{h.by ? ` · ${h.by}` : ""}
									{h.since && (
										<>
											{" "}
											· <Ago at={h.since} />
										</>
									)}
								</span>
								{h.message && <p className="break-words">{h.message}</p>}
							</li>
						))}
					</ul>
				)}
			</Section>

			{detail && detail.id === n.id && (
				<>
					<Section title={`Allocations (${n.liveAllocationCount} live)`}>
						{/* The count comes with the event itself, the list a moment later: an empty node never shows what it held. */}
						<Allocations list={n.liveAllocationCount === 0 ? [] : detail.allocations.nodes} />
						{detail.allocations.pageInfo.hasNextPage && <p className="text-muted">The newest 50 are shown.</p>}
					</Section>
					<Section title="Labels">
						{detail.labels.length === 0 ? (
							<p className="text-muted">None.</p>
						) : (
							<ul className="grid grid-cols-[auto_1fr_auto] gap-x-3 gap-y-1">
								{detail.labels.map((l) => (
									<li key={l.key} className="contents">
										<span className="break-all font-mono">{l.key}</span>
										<span className="break-all font-mono">{l.value || <span className="text-muted">(empty)</span>}</span>
										<span className="text-muted text-xs">{l.source.toLowerCase()}</span>
									</li>
								))}
							</ul>
						)}
					</Section>
					<InventoryPart detail={detail} />
				</>
			)}
			<Timeline live={live} nodeId={n.id} />
		</div>
	);
}

function DrainPart({ n, detail }: { n: NodeRow; detail: Detail | null }) {
	const now = useNow();
	const d = n.drain;
	if (!d) {
		const last = detail?.id === n.id ? detail.lastDrain : null;
		return (
			<Section title="Drain">
				{last ? (
					<p className="text-muted">
						None. The last one, by {last.by}, was {last.state.toLowerCase()} {last.endedAt && <Ago at={last.endedAt} />}
						{last.cause ? `: ${last.cause}` : ""}.
					</p>
				) : (
					<p className="text-muted">None.</p>
				)}
			</Section>
		);
	}
	return (
		<Section title="Drain">
			<p>
				{d.state === "DRAINED" ? (
					<Said sign={{ glyph: "✓", word: `Drained ${d.endedAt ? clock(d.endedAt) : ""}, still cordoned.`, tone: "ok" }} />
				) : (
					<Said sign={{ glyph: "⇣", word: `Draining for ${duration(now - Date.parse(d.startedAt))}`, tone: "info" }} />
				)}
			</p>
			<p className="text-muted">
				Begun by {d.by} at {clock(d.startedAt)}
				{d.reason && <>: “{d.reason}”</>}
			</p>
			{d.state === "DRAINED" && d.confirmedByNode !== null && (
				<p className="text-muted">
					{d.confirmedByNode
						? "The node itself reported that nothing runs."
						: "The node did not confirm that nothing runs: look before you pull a plug."}
				</p>
			)}
			{d.state === "DRAINING" && (
				<>
					<p>
						{d.blockers.length === 0
							? "Nothing is left; the controller looks at once."
							: d.expectedAt
								? `Empty ${until(d.expectedAt, now)} (${clock(d.expectedAt)}), if nothing is extended.`
								: "No end in sight: at least one allocation is open-ended."}
					</p>
					<Allocations list={d.blockers} />
				</>
			)}
		</Section>
	);
}

type AllocationLine = {
	id?: string | null;
	reservationId?: string | null;
	tenantId?: string | null;
	startsAt?: string | null;
	endsAt?: string | null;
	future: boolean;
};

function Allocations({ list }: { list: readonly AllocationLine[] }) {
	const now = useNow();
	if (list.length === 0) return <p className="text-muted">None.</p>;
	return (
		<ul className="flex flex-col divide-y divide-line rounded border border-line">
			{list.map((a, i) => (
				<li key={a.id ?? `${i} ${a.endsAt}`} className="px-2.5 py-1.5">
					<p className="flex justify-between gap-3">
						<span>{a.tenantId ?? "another tenant"}</span>
						{a.endsAt ? (
							<time dateTime={a.endsAt} title={full(a.endsAt)}>
								ends {until(a.endsAt, now)}
							</time>
						) : (
							<span className="text-warn">no end</span>
						)}
					</p>
					{a.reservationId && (
						<p className="flex items-center gap-1 text-muted text-xs">
							<span className="truncate font-mono">{a.reservationId}</span>
							<Copy
								text={`better-compute reservations release ${a.reservationId} --tenant ${a.tenantId ?? ""}`}
								label={`Copy release command of ${a.reservationId}`}
								word="Copy release command"
							/>
							{a.future && a.startsAt && <span>starts {until(a.startsAt, now)}</span>}
						</p>
					)}
				</li>
			))}
		</ul>
	);
}

function InventoryPart({ detail }: { detail: Detail }) {
	const v = detail.inventory;
	const s = detail.session;
	return (
		<Section title="Machine">
			<Facts>
				{v ? (
					<>
						<Fact name="Hardware">{[v.vendor, v.model, v.serial].filter(Boolean).join(" · ") || <Absent />}</Fact>
						<Fact name="Processor">
							{[v.cpuModel, v.cpuArch, v.cpuCores && `${v.cpuCores} cores`, v.cpuThreads && `${v.cpuThreads} threads`]
								.filter(Boolean)
								.join(" · ") || <Absent />}
						</Fact>
						<Fact name="Memory">{bytes(v.memoryBytes) || <Absent />}</Fact>
						<Fact name="Accelerators">
							{v.gpus.length ? grouped(v.gpus) : <span className="text-muted">{v.gpuNote ?? "none"}</span>}
						</Fact>
						<Fact name="Storage">
							{v.storageRoots.length ? (
								v.storageRoots.map((r) => (
									<p key={r.path}>
										<span className="font-mono">{r.path}</span>{" "}
										<span className="text-muted">{`${r.fsType} · ${bytes(r.sizeBytes)}`}</span>
									</p>
								))
							) : (
								<Absent />
							)}
						</Fact>
						<Fact name="System">{[v.os, v.kernel].filter(Boolean).join(" · ") || <Absent />}</Fact>
						<Fact name="Measured">
							<Ago at={v.reportedAt} />
							{v.stale && <span className="text-warn"> · not of the present session</span>}
						</Fact>
					</>
				) : (
					<Fact name="Inventory">
						<span className="text-muted">not reported yet</span>
					</Fact>
				)}
				{s && (
					<Fact name="Session">
						{s.endedAt ? "ended" : "since"} <Ago at={s.endedAt ?? s.since} />
						<span className="text-muted">
							{" "}
							· {s.gateway} · bcd {s.agentVersion}
							{Math.abs(s.clockSkewMs) >= 1000 && ` · its clock is off by ${duration(Math.abs(s.clockSkewMs))}`}
						</span>
					</Fact>
				)}
				<Fact name="Identity">
					<span className="flex items-center gap-1">
						<span className="truncate font-mono" title={detail.key}>
							{detail.key.slice(0, 16)}…
						</span>
						<Copy text={detail.key} label="Copy the fingerprint" />
						<span className="text-muted">generation {detail.identityGeneration}</span>
					</span>
				</Fact>
				<Fact name="Joined">
					<Ago at={detail.createdAt} />
				</Fact>
			</Facts>
		</Section>
	);
}

function grouped(gpus: readonly { model: string; memoryBytes: string }[]): string {
	const counts = new Map<string, number>();
	for (const g of gpus) {
		const key = `${g.model}, ${bytes(g.memoryBytes)}`;
		counts.set(key, (counts.get(key) ?? 0) + 1);
	}
	return [...counts].map(([what, n]) => `${n} × ${what}`).join("; ");
}

function Timeline({ live, nodeId }: { live: Live; nodeId: string }) {
	const [events, setEvents] = useState<EventLineFragment[]>([]);
	const [end, setEnd] = useState<{ cursor: string | null; more: boolean } | null>(null);
	const [error, setError] = useState<ApiError | null>(null);
	const [loading, setLoading] = useState(true);

	const load = useCallback(
		async (after: string | null, signal?: AbortSignal) => {
			setLoading(true);
			try {
				const { events: page } = await request(NodeHistoryQuery, { tenantId: live.tenantId, nodeId, after }, signal);
				setEvents((old) => unique([...old, ...page.nodes]));
				setEnd({ cursor: page.pageInfo.endCursor ?? null, more: page.pageInfo.hasNextPage });
				setError(null);
			} catch (e) {
				if (!signal?.aborted) setError(asApiError(e));
			} finally {
				if (!signal?.aborted) setLoading(false);
			}
		},
		[live, nodeId],
	);

	useEffect(() => {
		const stop = new AbortController();
		setEvents([]);
		setEnd(null);
		const off = live.onEvent((e) => e.nodeId === nodeId && setEvents((old) => unique([e, ...old])));
		void load(null, stop.signal);
		return () => {
			off();
			stop.abort();
		};
	}, [live, nodeId, load]);

	let lastDay = "";
	return (
		<Section title="Events">
			{events.length === 0 && !loading && !error && <p className="text-muted">None are kept.</p>}
			<ol aria-label="Events, newest first" className="flex flex-col gap-1.5">
				{events.map((e) => {
					const today = day(e.at);
					const heading = today !== lastDay ? today : null;
					lastDay = today;
					return (
						<li key={e.id}>
							{heading && <p className="pt-1 text-muted text-xs">{heading}</p>}
							<div className="grid grid-cols-[6.5rem_1fr] gap-x-2">
								<time dateTime={e.at} title={full(e.at)} className="text-muted">
									{clock(e.at)}
								</time>
								<div className="min-w-0">
									<span title={e.type}>{eventWords(e.type)}</span>
									<span className="text-muted"> · {e.actor}</span>
									{e.reason && <p className="break-words">“{e.reason}”</p>}
									{"cancelledDrainId" in e && e.cancelledDrainId && (
										<p className="text-warn">ended a drain before the node was empty</p>
									)}
									{"confirmedByNode" in e && !e.confirmedByNode && <p className="text-muted">not confirmed by the node</p>}
								</div>
							</div>
						</li>
					);
				})}
			</ol>
			{error && <Failure error={error} action={<Button onClick={() => void load(end?.cursor ?? null)}>Retry</Button>} />}
			{loading && (
				<p className="flex items-center gap-2 text-muted">
					<Spinner /> Reading…
				</p>
			)}
			{end?.more && !loading && (
				<Button className="self-start" onClick={() => void load(end.cursor)}>
					Older
				</Button>
			)}
		</Section>
	);
}

function unique(list: EventLineFragment[]): EventLineFragment[] {
	const seen = new Set<string>();
	return list.filter((e) => !seen.has(e.id) && seen.add(e.id));
}

const sentenceCase = (s: string) => s.charAt(0).toUpperCase() + s.slice(1);
const Absent = () => <span className="text-muted">not given</span>;

function Section({ title, children }: { title: string; children: ReactNode }) {
	return (
		<section className="mt-4 flex flex-col gap-1.5 border-line border-t px-4 pt-3">
			<h3 className="font-semibold text-muted text-xs uppercase tracking-wide">{title}</h3>
			{children}
		</section>
	);
}

function Facts({ children }: { children: ReactNode }) {
	return <dl className="grid grid-cols-[6.5rem_minmax(0,1fr)] gap-x-2 gap-y-1">{children}</dl>;
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
	return (
		<>
			<dt className="text-muted">{name}</dt>
			<dd className="min-w-0 break-words">{children}</dd>
		</>
	);
}
