import { useNavigate, useParams } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import type { Begin } from "../act/dialog";
import { useFleet, useStale } from "../nodes/hooks";
import { useKeys } from "../nodes/shortcuts";
import { type Control, controlKeys, refusal } from "../nodes/words";
import { Go } from "../ui/go";
import { Copy } from "../ui/parts";
import { useToast } from "../ui/toasts";
import { useNodeDetail } from "./detail";
import { NodeView } from "./view";

const Act = lazy(() => import("../act/dialog"));

/** One node, by itself. */
export default function NodePage({ viewer }: { viewer: string }) {
	const fleet = useFleet();
	const { nodeId = "" } = useParams({ strict: false });
	const state = useNodeDetail(nodeId);
	const stale = useStale(fleet);
	const navigate = useNavigate();
	const [acting, setActing] = useState<{ control: Control; begin?: Begin | undefined } | null>(null);
	const toast = useToast();
	const name = state.node?.hostname;

	useEffect(() => {
		document.title = `${name ?? "Node"} · ${fleet.tenantId} · better-compute`;
	}, [name, fleet]);

	useKeys((pressed) => {
		const control = controlKeys[pressed];
		if (control && state.node) {
			const because = refusal(state.node, control);
			if (because) toast(`Not offered: ${because}`);
			else setActing({ control });
			return true;
		}
		if (pressed === "y") {
			void navigator.clipboard.writeText(nodeId).then(
				() => toast("The id is copied"),
				() => toast("The browser does not allow to copy"),
			);
			return true;
		}
		if (pressed === "Escape") {
			void navigate({ to: "/nodes", search: (old: Record<string, unknown>) => old });
			return true;
		}
		return false;
	}, acting === null);

	return (
		<div className={`min-h-0 flex-1 overflow-auto ${stale ? "stale" : ""}`}>
			<div className="mx-auto max-w-[90rem]">
				<header className="flex flex-wrap items-baseline gap-x-3 gap-y-1 px-4 pt-3">
					<nav aria-label="Breadcrumb" className="flex items-baseline gap-2 text-muted">
						<Go to="/nodes" className="hover:text-text hover:underline">
							Nodes
						</Go>
						<span aria-hidden="true">/</span>
					</nav>
					<h1 className="wrap-anywhere font-mono font-semibold text-lg leading-tight">{name ?? "Node"}</h1>
					<span className="flex items-center gap-1 text-muted text-xs">
						<span className="wrap-anywhere font-mono">{nodeId}</span>
						<Copy text={nodeId} label="Copy the id" />
					</span>
				</header>
				<NodeView state={state} tenantId={fleet.tenantId} onAct={(_, control, begin) => setActing({ control, begin })} />
			</div>
			{acting && (
				<Suspense>
					<Act viewer={viewer} nodeId={nodeId} control={acting.control} begin={acting.begin} onClose={() => setActing(null)} />
				</Suspense>
			)}
		</div>
	);
}
