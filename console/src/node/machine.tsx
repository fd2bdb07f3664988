import { Said } from "../nodes/said";
import { bytes } from "../nodes/words";
import { Ago, duration } from "../ui/time";
import type { Detail } from "./detail";
import { Absent, Fact, Facts, Section, Table, Td } from "./section";

/** The accelerators that can be booked by themselves; those that the machine no longer shows too, for bookings may still name them. */
export function Devices({ detail }: { detail: Detail }) {
	const list = detail.devices;
	return (
		<Section title="Devices" count={list.length}>
			{list.length === 0 ? (
				<p className="text-muted">{detail.inventory?.gpuNote ?? "None."}</p>
			) : (
				<Table
					label="Devices"
					head={[
						["Slot"],
						["Model"],
						["Memory", "text-right"],
						["Booking"],
						["Processes"],
						["PCI", "@max-2xl:hidden"],
						["Uuid", "@max-2xl:hidden"],
					]}
				>
					{list.map((d) => (
						<tr key={d.uuid} className="border-line border-b last:border-b-0">
							<Td>{d.slot}</Td>
							<Td className="whitespace-nowrap">
								{d.model}
								{d.missingSince && (
									<span className="ml-2 text-bad">
										▲ gone <Ago at={d.missingSince} />
									</span>
								)}
							</Td>
							<Td className="whitespace-nowrap text-right">{bytes(d.memoryBytes)}</Td>
							<Td>
								{d.held ? <Said sign={{ glyph: "■", word: "held", tone: "info" }} /> : <span className="text-muted">free</span>}
							</Td>
							<Td title={d.inUse === null ? "The daemon cannot tell, or has no session" : undefined}>
								{d.inUse === null ? (
									<span className="text-muted">?</span>
								) : d.inUse ? (
									"running"
								) : (
									<span className="text-muted">none</span>
								)}
							</Td>
							<Td className="font-mono text-muted text-xs @max-2xl:hidden">{d.pciAddress ?? "–"}</Td>
							<Td className="max-w-40 truncate font-mono @max-2xl:hidden text-muted text-xs" title={d.uuid}>
								{d.uuid}
							</Td>
						</tr>
					))}
				</Table>
			)}
		</Section>
	);
}

/** What the daemon measured, and the session over which it speaks. A fact that the machine does not give is said to be absent. */
export function Machine({ detail }: { detail: Detail }) {
	const v = detail.inventory;
	const s = detail.session;
	const amount = (name: string) => detail.scalarResources.find((r) => r.name === name)?.amount;
	return (
		<Section
			title="Machine"
			aside={
				v && (
					<span className={v.stale ? "text-warn" : "text-muted"} title={v.stale ? "It is not of the present session" : undefined}>
						measured <Ago at={v.reportedAt} />
						{v.stale && ", before the present session"}
					</span>
				)
			}
		>
			<Facts>
				{v ? (
					<>
						<Fact name="Hardware">{[v.vendor, v.model].filter(Boolean).join(" ") || <Absent />}</Fact>
						{v.serial && <Fact name="Serial">{v.serial}</Fact>}
						<Fact name="Processor">
							{[v.cpuModel, v.cpuArch, v.cpuCores && `${v.cpuCores} cores`, v.cpuThreads && `${v.cpuThreads} threads`]
								.filter(Boolean)
								.join(" · ") || <Absent />}
						</Fact>
						<Fact name="Memory">{bytes(v.memoryBytes ?? amount("memory")) || <Absent />}</Fact>
						<Fact name="System">{[v.os, v.kernel].filter(Boolean).join(" · ") || <Absent />}</Fact>
					</>
				) : (
					<Fact name="Inventory">
						<span className="text-muted">not reported yet</span>
					</Fact>
				)}
				<Fact name="Storage">
					{detail.storageRoots.length ? (
						detail.storageRoots.map((r) => (
							<p key={`${r.path} ${r.uuid}`} className="flex flex-wrap gap-x-2">
								<span className="font-mono">{r.path}</span>
								<span className="text-muted">{[r.fsType, bytes(r.sizeBytes), r.device].filter(Boolean).join(" · ")}</span>
								{r.missingSince && (
									<span className="text-bad">
										▲ gone <Ago at={r.missingSince} />
									</span>
								)}
							</p>
						))
					) : (
						<Absent />
					)}
				</Fact>
				{s && (
					<>
						<Fact name="Session">
							{s.endedAt ? "ended" : "since"} <Ago at={s.endedAt ?? s.since} />
							<span className="text-muted"> · gateway {s.gateway}</span>
						</Fact>
						<Fact name="Daemon">
							bcd {s.agentVersion}
							{Math.abs(s.clockSkewMs) >= 1000 && (
								<span className="text-warn"> · its clock is off by {duration(Math.abs(s.clockSkewMs))}</span>
							)}
						</Fact>
					</>
				)}
			</Facts>
		</Section>
	);
}
