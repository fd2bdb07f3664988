import { lazy, Suspense, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { useFleet, useList, useStale, useSummary } from "../nodes/hooks";
import type { Control } from "../nodes/words";
import { DrainBoard } from "../store/drains";
import type { NodeList } from "../store/list";
import { Go } from "../ui/go";
import { Command } from "../ui/parts";
import { Board } from "./board";
import { Cordoned, Ended, type OnAct, Running } from "./rows";

const Act = lazy(() => import("../act/dialog"));

/** What is being emptied and what it waits for, what was cordoned and perhaps forgotten, and what became of the drains before. */
export default function DrainsPage({ viewer }: { viewer: string }) {
	const fleet = useFleet();
	const stale = useStale(fleet);
	const drains = useMemo(() => new DrainBoard(fleet), [fleet]);
	const cordoned = useMemo(() => fleet.list("cordoned", { cordoned: true, idle: true, order: "out" }), [fleet]);
	const [acting, setActing] = useState<{ id: string; control: Control } | null>(null);
	useEffect(() => {
		document.title = `Drains · ${fleet.tenantId} · better-compute`;
	}, [fleet]);
	useEffect(() => {
		void drains.open();
		return () => drains.close();
	}, [drains]);
	const act: OnAct = (id, control) => setActing({ id, control });
	return (
		<div className={`min-h-0 flex-1 overflow-auto ${stale ? "stale" : ""}`}>
			<h1 className="sr-only">Drains of {fleet.tenantId}</h1>
			<div className="mx-auto flex max-w-[90rem] flex-col gap-5 px-4 py-4">
				<RunningBoard drains={drains} tenant={fleet.tenantId} onAct={act} />
				<CordonedBoard nodes={cordoned} onAct={act} />
				<EndedBoard drains={drains} />
			</div>
			{acting && (
				<Suspense>
					<Act viewer={viewer} nodeId={acting.id} control={acting.control} onClose={() => setActing(null)} />
				</Suspense>
			)}
		</div>
	);
}

const useDrains = (drains: DrainBoard) => useSyncExternalStore(drains.subscribe, () => drains.view);

function RunningBoard({ drains, tenant, onAct }: { drains: DrainBoard; tenant: string; onAct: OnAct }) {
	const v = useDrains(drains);
	const summary = useSummary(useFleet());
	const left = v.running.filter((d) => d.state !== "DRAINING").length;
	const known = v.running.length - left;
	return (
		<Board
			title="Draining"
			count={v.moreRunning ? (summary?.draining ?? known).toLocaleString("en") : known.toLocaleString("en")}
			left={left}
			loading={v.loading}
			error={v.error}
			onRefresh={() => void drains.open()}
			more={v.moreRunning ? { word: `More (${v.running.length} are shown)`, read: () => void drains.more("running") } : null}
			empty={<Nothing tenant={tenant} />}
			head={["Node", "Waits for", "Expected to be empty", "Begun", "Reason"]}
		>
			{v.running.map((d) => (
				<Running key={d.id} d={d} onAct={onAct} />
			))}
		</Board>
	);
}

function CordonedBoard({ nodes, onAct }: { nodes: NodeList; onAct: OnAct }) {
	const list = useList(nodes);
	useEffect(() => {
		nodes.watch(0, list.ids.length);
		return () => nodes.watch(0, -1);
	}, [nodes, list.ids.length]);
	const more = `More (${list.ids.length} of ${list.total.toLocaleString("en")})`;
	return (
		<Board
			title="Cordoned, not draining"
			count={list.total.toLocaleString("en")}
			left={list.outdated.size}
			loading={list.loading !== null}
			error={list.error}
			onRefresh={() => void nodes.refresh()}
			more={list.hasMore ? { word: more, read: () => void nodes.more() } : null}
			empty={<p className="py-1 text-muted">No node is held back by a cordon alone.</p>}
			head={["Node", "Drained", "Held for", "By", "Reason"]}
		>
			{list.ids.map((id) => (
				<Cordoned key={id} id={id} onAct={onAct} />
			))}
		</Board>
	);
}

function EndedBoard({ drains }: { drains: DrainBoard }) {
	const v = useDrains(drains);
	return (
		<Board
			title="Ended"
			count="the newest first"
			loading={v.loading}
			error={null}
			onRefresh={() => void drains.open()}
			more={v.moreEnded ? { word: "Older", read: () => void drains.more("ended") } : null}
			empty={<p className="py-1 text-muted">No drain has ended yet.</p>}
			head={["Node", "How", "Ended", "Took", "Reason"]}
		>
			{v.ended.map((d) => (
				<Ended key={d.id} d={d} />
			))}
		</Board>
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
