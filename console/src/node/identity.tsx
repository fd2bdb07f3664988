import type { CertificateState } from "../gql/graphql";
import { Said } from "../nodes/said";
import type { Sign } from "../nodes/words";
import { Copy } from "../ui/parts";
import { Ago, full, until, useNow } from "../ui/time";
import type { Detail } from "./detail";
import { Fact, Facts, Section } from "./section";

const signs: Record<CertificateState, Sign> = {
	ACTIVE: { glyph: "●", word: "active", tone: "ok" },
	PENDING: { glyph: "○", word: "not used yet", tone: "info" },
	SUPERSEDED: { glyph: "▪", word: "superseded", tone: "muted" },
	REVOKED: { glyph: "✕", word: "revoked", tone: "bad" },
};

/** Who the machine is, by its key, and with which certificates it may say so. */
export function Identity({ detail }: { detail: Detail }) {
	const now = useNow();
	const list = detail.certificates.nodes;
	return (
		<Section title="Identity">
			<Facts>
				<Fact name="Key">
					<span className="flex items-baseline gap-1">
						<span className="font-mono text-xs" title={detail.key}>
							{detail.key.slice(0, 8)}…{detail.key.slice(-8)}
						</span>
						<Copy text={detail.key} label="Copy the fingerprint" />
					</span>
				</Fact>
				<Fact name="Generation">{detail.identityGeneration}</Fact>
				<Fact name="Owner">{detail.tenantId}</Fact>
				<Fact name="Joined">
					{full(detail.createdAt)} · <Ago at={detail.createdAt} />
				</Fact>
			</Facts>
			{list.length > 0 && (
				<>
					<h3 className="mt-1.5 text-muted text-xs">Certificates, newest first</h3>
					<ul className="flex flex-col divide-y divide-line">
						{list.map((c) => (
							<li key={c.serial} className="py-1 first:pt-0 last:pb-0">
								<p className="flex flex-wrap items-baseline gap-x-2">
									<Said sign={signs[c.state]} />
									<span className="ml-auto text-muted" title={full(c.endedAt ?? c.notAfter)}>
										{c.endedAt
											? until(c.endedAt, now)
											: Date.parse(c.notAfter) < now
												? `ran out ${until(c.notAfter, now)}`
												: `good for ${until(c.notAfter, now).replace(/^in /, "")}`}
									</span>
								</p>
								<p className="wrap-anywhere text-muted text-xs">
									<span className="font-mono" title={c.serial}>
										{c.serial.length > 20 ? `${c.serial.slice(0, 8)}…${c.serial.slice(-8)}` : c.serial}
									</span>{" "}
									· generation {c.generation}
									{c.reason && ` · ${c.reason}`}
									{c.endedBy && ` · by ${c.endedBy}`}
								</p>
							</li>
						))}
					</ul>
					{detail.certificates.pageInfo.hasNextPage && <p className="text-muted">The newest {list.length} are shown.</p>}
				</>
			)}
		</Section>
	);
}
