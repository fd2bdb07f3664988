import { lazy, Suspense, useEffect, useMemo, useState } from "react";
import { useFleet, useList, useNode, useStale } from "../nodes/hooks";
import { Said } from "../nodes/said";
import { type Control, connectivity, refusal } from "../nodes/words";
import type { NodeList } from "../store/list";
import type { NodeRow } from "../store/nodes";
import { Go, GoNode } from "../ui/go";
import { Button, Command, Failure, Spinner } from "../ui/parts";
import { Ago, clock, duration, full, until, useNow } from "../ui/time";

const Act = lazy(() => import("../nodes/act"));

/** What is being emptied, what is empty and waits for somebody, and what was cordoned and perhaps forgotten: the longest first. */
export default function DrainsPage({ viewer }: { viewer: string }) {
	const fleet = useFleet();
	const stale = useStale(fleet);
	const draining = useMemo(() => fleet.list("draining", { draining: true, order: "out" }), [fleet]);
	const cordoned = useMemo(() => fleet.list("cordoned", { cordoned: true, idle: true, order: "out" }), [fleet]);
	const [acting, setActing] = useState<{ id: string; control: Control } | null>(null);
	useEffect(() => {
		document.title = `Drains · ${fleet.tenantId} · better-compute`;
	}, [fleet]);
	const act = (id: string, control: Control) => setActing({ id, control });
	return (
		<div className={`min-h-0 flex-1 overflow-auto ${stale ? "stale" : ""}`}>
			<h1 className="sr-only">Drains of {fleet.tenantId}</h1>
			<div className="mx-auto flex max-w-[90rem] flex-col gap-5 px-4 py-4">
				<Board
					title="Draining"
					list={draining}
					empty={<Nothing tenant={fleet.tenantId} />}
					head={["Node", "Waits for", "Expected to be empty", "Begun", "Reason"]}
					row={(id) => <DrainingRow key={id} id={id} onAct={act} />}
				/>
				<Board
					title="Cordoned, not draining"
					list={cordoned}
					empty={<p className="py-1 text-muted">No node is held back by a cordon alone.</p>}
					head={["Node", "Drained", "Held for", "By", "Reason"]}
					row={(id) => <CordonedRow key={id} id={id} onAct={act} />}
				/>
			</div>
			{acting && (
				<Suspense>
					<Act viewer={viewer} nodeId={acting.id} control={acting.control} onClose={() => setActing(null)} />
				</Suspense>
			)}
		</div>
	);
}

function Board({
	title,
	list: nodes,
	head,
	empty,
	row,
}: {
	title: string;
	list: NodeList;
	head: string[];
	empty: React.ReactNode;
	row: (id: string) => React.ReactNode;
}) {
	const list = useList(nodes);
	useEffect(() => {
		nodes.watch(0, list.ids.length);
		return () => nodes.watch(0, -1);
	}, [nodes, list.ids.length]);
	// A row that left the board stays, struck out, until the reader is done with it: it goes when the board is read anew.
	const gone = list.outdated.size;
	return (
		<section aria-label={title} className="rounded border border-line">
			<header className="flex items-baseline gap-2 border-line border-b bg-raised px-3 py-1.5">
				<h2 className="font-semibold">{title}</h2>
				<span className="text-muted">{list.total.toLocaleString("en")}</span>
				{list.loading && <Spinner />}
				{gone > 0 && (
					<button
						type="button"
						onClick={() => void nodes.refresh()}
						className="ml-auto rounded border border-line px-2 text-muted hover:bg-hover hover:text-text"
					>
						Clear {gone === 1 ? "1 that left" : `${gone} that left`}
					</button>
				)}
			</header>
			{list.error && (
				<div className="p-3">
					<Failure error={list.error} action={<Button onClick={() => void nodes.refresh()}>Retry</Button>} />
				</div>
			)}
			{list.ids.length === 0 ? (
				<div className="px-3 py-2">{list.loading ? <p className="py-1 text-muted">Reading…</p> : empty}</div>
			) : (
				// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
				<div className="overflow-x-auto" tabIndex={0} role="group" aria-label={`${title}, as a table`}>
					<table className="board w-full min-w-[34rem] table-fixed border-collapse text-left">
						<colgroup>
							<col className="w-[22%]" />
							<col className="w-[16%]" />
							<col className="w-[22%]" />
							<col className="w-[14%]" />
							<col />
							<col className="w-28" />
						</colgroup>
						<thead>
							<tr className="border-line border-b text-muted text-xs">
								{head.map((h) => (
									<th key={h} scope="col" className="px-3 py-1 font-medium">
										{h}
									</th>
								))}
								<th scope="col">
									<span className="sr-only">Actions</span>
								</th>
							</tr>
						</thead>
						<tbody>{list.ids.map(row)}</tbody>
					</table>
				</div>
			)}
			{list.hasMore && (
				<div className="border-line border-t px-3 py-2">
					<Button onClick={() => void nodes.more()}>
						{list.loading === "more" && <Spinner />} More ({list.ids.length} of {list.total.toLocaleString("en")})
					</Button>
				</div>
			)}
		</section>
	);
}

type RowProps = { id: string; onAct: (id: string, control: Control) => void };

function DrainingRow({ id, onAct }: RowProps) {
	const held = useNode(useFleet(), id);
	const now = useNow();
	if (!held) return <GoneRow />;
	const n = held.node;
	const d = n.drain;
	const running = d?.state === "DRAINING";
	const left = n.liveAllocationCount;
	return (
		<tr data-node={id} className="border-line border-b last:border-b-0 hover:bg-hover">
			<NameCell n={n} over={!running} />
			<Td>
				{running ? (
					left === 0 ? (
						<span className="text-muted">nothing</span>
					) : (
						`${left} ${left === 1 ? "allocation" : "allocations"}`
					)
				) : d?.state === "DRAINED" ? (
					<Said sign={{ glyph: "✓", word: d.endedAt ? `drained ${until(d.endedAt, now)}` : "drained", tone: "ok" }} />
				) : (
					<span className="text-muted">ended before it was empty</span>
				)}
			</Td>
			<Td title={running && d?.expectedAt ? full(d.expectedAt) : undefined}>
				{running && d?.overdue && <span className="mr-1.5 text-warn">overdue ·</span>}
				{!running ? (
					<span className="text-muted">–</span>
				) : left === 0 ? (
					<span className="text-muted">now</span>
				) : d?.expectedAt ? (
					<>
						{clock(d.expectedAt)} <span className="text-muted">· {until(d.expectedAt, now)}</span>
					</>
				) : (
					<Said sign={{ glyph: "!", word: "no end is in sight", tone: "warn" }} />
				)}
			</Td>
			<Td title={d ? full(d.startedAt) : undefined}>
				{d && (
					<>
						<Ago at={d.startedAt} /> <span className="text-muted">· {d.by}</span>
					</>
				)}
			</Td>
			<Td title={d?.reason ?? undefined}>{d?.reason ?? <span className="text-muted">–</span>}</Td>
			<td className="px-3 text-right">
				<Action n={n} onAct={onAct} />
			</td>
		</tr>
	);
}

function CordonedRow({ id, onAct }: RowProps) {
	const held = useNode(useFleet(), id);
	const now = useNow();
	if (!held) return <GoneRow />;
	const n = held.node;
	const d = n.drain?.state === "DRAINED" ? n.drain : null;
	return (
		<tr data-node={id} className="border-line border-b last:border-b-0 hover:bg-hover">
			<NameCell n={n} over={!n.cordoned || n.drain?.state === "DRAINING"} />
			<Td title={d?.endedAt ? full(d.endedAt) : undefined}>
				{d ? (
					<Said
						sign={{
							glyph: "✓",
							word: d.confirmedByNode ? "yes, empty" : "yes, not confirmed",
							tone: d.confirmedByNode ? "ok" : "warn",
						}}
					/>
				) : (
					<span className="text-muted">no{n.liveAllocationCount ? `, holds ${n.liveAllocationCount}` : ", holds nothing"}</span>
				)}
			</Td>
			<Td title={n.cordon ? full(n.cordon.at) : undefined}>
				{n.cordon ? (
					<>
						{duration(now - Date.parse(n.cordon.at))}
						{n.cordon.overdue && <span className="ml-1.5 text-warn">overdue</span>}
						{d?.endedAt && <span className="text-muted"> · empty for {duration(now - Date.parse(d.endedAt))}</span>}
					</>
				) : (
					<span className="text-muted">no longer</span>
				)}
			</Td>
			<Td>{n.cordon?.by ?? <span className="text-muted">–</span>}</Td>
			<Td title={n.cordon?.reason ?? undefined}>{n.cordon?.reason ?? <span className="text-muted">–</span>}</Td>
			<td className="px-3 text-right">
				<Action n={n} onAct={onAct} />
			</td>
		</tr>
	);
}

function NameCell({ n, over }: { n: NodeRow; over: boolean }) {
	const c = connectivity(n.connectivity);
	return (
		<th scope="row" className="px-3 py-1 text-left font-normal">
			<span className="flex items-baseline gap-2">
				<GoNode
					id={n.id}
					className={`truncate rounded font-medium font-mono hover:text-accent hover:underline ${over ? "text-muted line-through" : ""}`}
				>
					{n.hostname}
				</GoNode>
				{n.connectivity !== "CONNECTED" && (
					<span className="whitespace-nowrap">
						<Said sign={c} />
					</span>
				)}
			</span>
		</th>
	);
}

function Action({ n, onAct }: { n: NodeRow; onAct: RowProps["onAct"] }) {
	const control: Control = n.cordoned ? "uncordon" : "drain";
	const title = { uncordon: "Uncordon", drain: "Drain", cordon: "Cordon" }[control];
	return (
		<Button
			className="h-6!"
			aria-label={`${title} ${n.hostname}`}
			because={refusal(n, control)}
			onClick={() => onAct(n.id, control)}
		>
			{title}
		</Button>
	);
}

const GoneRow = () => (
	<tr className="border-line border-b last:border-b-0">
		<td colSpan={6} className="px-3 py-1 text-muted italic">
			No longer visible
		</td>
	</tr>
);

function Td({ title, children }: { title?: string | undefined; children: React.ReactNode }) {
	return (
		<td title={title} className="truncate px-3 py-1">
			{children}
		</td>
	);
}

function Nothing({ tenant }: { tenant: string }) {
	return (
		<div className="flex flex-col items-start gap-2 py-1">
			<p>Nothing is draining.</p>
			<p className="text-muted">
				A drain cordons a node and waits until it is empty; it evicts nothing. Begin one on a node’s page, with d in the{" "}
				<Go to="/nodes" className="text-accent underline">
					list
				</Go>
				, or from a shell, where --wait follows it to its end:
			</p>
			<Command
				text={`better-compute nodes drain NODE --tenant ${tenant} --reason 'replace PSU' --wait`}
				label="Copy the command"
			/>
		</div>
	);
}
