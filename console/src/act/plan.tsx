import { useEffect, useState } from "react";
import { type ApiError, asApiError, request } from "../api/client";
import type { DrainPlanQuery as PlanData } from "../gql/graphql";
import { AllocationRows } from "../node/allocations";
import { useFleet } from "../nodes/hooks";
import type { NodeRow } from "../store/nodes";
import { Button, Failure, Spinner } from "../ui/parts";
import { clock, until, useNow } from "../ui/time";
import { DrainPlanQuery } from "./documents";

type PlanOf = PlanData["drainPlan"];

/** What a drain of the node waits for, or would: by what the drain controller itself looks at. It changes nothing. */
export function Plan({ n }: { n: NodeRow }) {
	const fleet = useFleet();
	const now = useNow();
	const [plan, setPlan] = useState<PlanOf | null>(null);
	const [error, setError] = useState<ApiError | null>(null);
	const [again, setAgain] = useState(0);
	// biome-ignore lint/correctness/useExhaustiveDependencies: it is read anew when what the node holds has changed, and on demand
	useEffect(() => {
		const stop = new AbortController();
		request(DrainPlanQuery, { tenantId: fleet.tenantId, nodeId: n.id }, stop.signal)
			.then((data) => {
				setPlan(data.drainPlan);
				setError(null);
			})
			.catch((e: unknown) => !stop.signal.aborted && setError(asApiError(e)));
		return () => stop.abort();
	}, [fleet, n.id, n.version, n.liveAllocationCount, again]);

	if (error) return <Failure error={error} action={<Button onClick={() => setAgain(again + 1)}>Retry</Button>} />;
	if (!plan)
		return (
			<p className="flex items-center gap-2 text-muted">
				<Spinner /> Reading what it waits for…
			</p>
		);
	if (plan.empty) return <p>It holds nothing: there is nothing to wait for.</p>;
	const open = plan.blockers.filter((b) => !b.endsAt).length;
	const later = plan.blockers.filter((b) => b.future).length;
	return (
		<div className="@container flex flex-col gap-1.5">
			<p className={plan.expectedAt ? "" : "text-warn"}>
				{plan.expectedAt
					? `Empty at ${clock(plan.expectedAt)}, ${until(plan.expectedAt, now)}, if nothing is extended.`
					: `No end is in sight: ${open === 1 ? "one of them has no end" : `${open} of them have no end`}. Release ${open === 1 ? "it" : "them"} to let the drain finish.`}
				{later > 0 &&
					` ${later === 1 ? "One begins" : `${later} begin`} only later, and ${later === 1 ? "is" : "are"} waited for too.`}
			</p>
			<div className="max-h-48 overflow-auto">
				<AllocationRows label="What the drain waits for" list={plan.blockers} />
			</div>
			{plan.liveAllocationCount > plan.blockers.length && (
				<p className="text-muted">
					The last {plan.blockers.length} of {plan.liveAllocationCount.toLocaleString("en")} are shown.
				</p>
			)}
		</div>
	);
}
