import { useState } from "react";
import { type ApiError, asApiError, request } from "../api/client";
import type { AllocationLineFragment as Line } from "../gql/graphql";
import { useFleet } from "../nodes/hooks";
import type { NodeRow } from "../store/nodes";
import { Button, Copy, Failure, Spinner } from "../ui/parts";
import { full, until, useNow } from "../ui/time";
import type { Detail } from "./detail";
import { AllocationsQuery } from "./documents";
import { Section, Table, Td } from "./section";

/** What is booked on the node: that which lives first, and the past on demand. */
export function Allocations({ n, detail }: { n: NodeRow; detail: Detail }) {
	const fleet = useFleet();
	const [past, setPast] = useState(false);
	const [older, setOlder] = useState<{ list: Line[]; cursor: string | null; more: boolean } | null>(null);
	const [reading, setReading] = useState(false);
	const [error, setError] = useState<ApiError | null>(null);

	const first = detail.allocations;
	const cursor = older ? older.cursor : (first.pageInfo.endCursor ?? null);
	const more = older ? older.more : first.pageInfo.hasNextPage;
	const all = unique([...first.nodes, ...(older?.list ?? [])]);
	// The count comes with the row itself, the list a moment later: an empty node never shows what it held.
	const live = n.liveAllocationCount === 0 ? [] : all.filter((a) => a.live);
	const ended = all.filter((a) => !a.live);

	async function read() {
		setReading(true);
		try {
			const { node } = await request(AllocationsQuery, { tenantId: fleet.tenantId, nodeId: n.id, after: cursor });
			const page = node?.allocations;
			if (page)
				setOlder({
					list: [...(older?.list ?? []), ...page.nodes],
					cursor: page.pageInfo.endCursor ?? cursor,
					more: page.pageInfo.hasNextPage,
				});
			setError(null);
		} catch (e) {
			setError(asApiError(e));
		} finally {
			setReading(false);
		}
	}

	return (
		<Section
			title="Allocations"
			count={n.liveAllocationCount}
			aside={
				ended.length > 0 && (
					<button
						type="button"
						aria-expanded={past}
						onClick={() => setPast(!past)}
						className="rounded text-muted hover:text-text hover:underline"
					>
						{past ? "Hide the past" : `Past (${ended.length}${more ? "+" : ""})`}
					</button>
				)
			}
		>
			{live.length === 0 && !past ? (
				<p className="text-muted">None is live.</p>
			) : (
				<AllocationRows label="Allocations" list={past ? [...live, ...ended] : live} devices={detail.devices} />
			)}
			{n.liveAllocationCount > live.length && (
				<p className="text-muted">
					{live.length} of {n.liveAllocationCount} that are live.
				</p>
			)}
			{error && <Failure error={error} />}
			{more && (past || live.length < n.liveAllocationCount) && (
				<Button className="self-start" onClick={() => void read()}>
					{reading && <Spinner />} Older
				</Button>
			)}
		</Section>
	);
}

/** Allocations, one a line. Another tenant's tells its end alone. */
export function AllocationRows({
	list,
	label,
	devices = [],
}: {
	list: readonly Line[];
	label: string;
	/** The node's, to say which slots an allocation holds; without them: how many devices. */
	devices?: Detail["devices"];
}) {
	const now = useNow();
	const holds = (a: Line) => {
		const slots = a.devices.map((uuid) => devices.find((d) => d.uuid === uuid)?.slot).filter((slot) => slot !== undefined);
		return slots.length
			? `gpu ${slots.sort((x, y) => x - y).join(", ")}`
			: a.devices.length
				? `${a.devices.length} ${a.devices.length === 1 ? "device" : "devices"}`
				: "a share";
	};
	return (
		<Table label={label} head={[["Tenant"], ["Holds"], ["Reservation"], ["Begins", "@max-md:hidden"], ["Ends", "text-right"]]}>
			{list.map((a, i) => (
				<tr key={a.id ?? `${i} ${a.endsAt}`} className="border-line border-b last:border-b-0">
					<Td>{a.tenantId ?? <span className="text-muted">another tenant</span>}</Td>
					<Td className="whitespace-nowrap" title={a.devices.length ? a.devices.join(", ") : "It excludes nobody"}>
						{holds(a)}
					</Td>
					<Td className="font-mono text-xs">
						{a.reservationId ? (
							<span className="inline-flex items-center whitespace-nowrap" title={a.reservationId}>
								…{a.reservationId.slice(-8)}
								<Copy text={a.reservationId} label={`Copy the reservation’s id ${a.reservationId}`} />
							</span>
						) : (
							<span className="text-muted">–</span>
						)}
					</Td>
					<Td className="whitespace-nowrap text-muted @max-md:hidden" title={a.startsAt ? full(a.startsAt) : undefined}>
						{a.startsAt ? until(a.startsAt, now) : "–"}
						{a.future && <span className="ml-1.5 text-info">later</span>}
					</Td>
					<Td className="whitespace-nowrap text-right" title={end(a) ? full(end(a) ?? "") : undefined}>
						{a.releasedAt ? (
							<span className="text-muted">released {until(a.releasedAt, now)}</span>
						) : a.endedAt ? (
							<span className="text-muted">ended {until(a.endedAt, now)}</span>
						) : a.endsAt ? (
							until(a.endsAt, now)
						) : (
							<span className="text-warn">no end</span>
						)}
					</Td>
				</tr>
			))}
		</Table>
	);
}

const end = (a: Line) => a.releasedAt ?? a.endedAt ?? a.endsAt ?? null;

function unique(list: Line[]): Line[] {
	const seen = new Set<string>();
	return list.filter((a) => a.id == null || (!seen.has(a.id) && seen.add(a.id)));
}
