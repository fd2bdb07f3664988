import { useFleet, useStale } from "../nodes/hooks";
import { Button, Copy } from "../ui/parts";
import { useNodeDetail } from "./detail";
import { NodeView, type OnAct } from "./view";

/** A node beside the list, so that one after another can be looked at. */
export default function Peek({
	nodeId,
	onAct,
	onOpen,
	onClose,
}: {
	nodeId: string;
	onAct: OnAct;
	onOpen: (id: string) => void;
	onClose: () => void;
}) {
	const fleet = useFleet();
	const state = useNodeDetail(nodeId);
	const stale = useStale(fleet);
	return (
		<aside
			aria-label="Node"
			className="flex w-[27rem] max-w-[92vw] shrink-0 flex-col overflow-auto border-line border-l bg-bg max-lg:fixed max-lg:inset-y-0 max-lg:right-0 max-lg:z-20 max-lg:shadow-2xl"
		>
			<header className="sticky top-0 z-10 flex items-center gap-2 border-line border-b bg-raised py-1.5 pr-2 pl-4">
				<div className="min-w-0 flex-1">
					<h2 className="truncate font-mono font-semibold">{state.node?.hostname ?? "Node"}</h2>
					<p className="flex items-center gap-1 text-muted text-xs">
						<span className="truncate font-mono">{nodeId}</span>
						<Copy text={nodeId} label="Copy the id" />
					</p>
				</div>
				<Button onClick={() => onOpen(nodeId)}>Open</Button>
				<Button look="quiet" aria-label="Close" onClick={onClose} className="px-2!">
					✕
				</Button>
			</header>
			<div className={stale ? "stale" : ""}>
				<NodeView state={state} tenantId={fleet.tenantId} onAct={onAct} />
			</div>
		</aside>
	);
}
