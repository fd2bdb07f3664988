import { useEffect, useState } from "react";
import { request } from "../api/client";
import { PoolsQuery } from "../api/documents";
import { filtered, type Search } from "../store/filter";
import type { List } from "../store/list";
import { Button, Command, Spinner } from "../ui/parts";
import { useFleet } from "./hooks";

/** What stands where the rows would: that they are being read, that none matches, or how a first machine joins. */
export function Empty({ search, list, onClear }: { search: Search; list: List; onClear: () => void }) {
	const fleet = useFleet();
	if (list.loading === "first") return <Reading />;
	if (list.error) return <div className="flex-1" />;
	if (filtered(search))
		return (
			<div className="flex flex-1 flex-col items-center justify-center gap-3 p-4 text-center">
				<p>No node of {fleet.tenantId} matches these filters.</p>
				<Button onClick={onClear}>Remove the filters</Button>
			</div>
		);
	return <FirstMachine />;
}

function Reading() {
	const [slow, setSlow] = useState(false);
	useEffect(() => {
		const timer = setTimeout(() => setSlow(true), 5_000);
		return () => clearTimeout(timer);
	}, []);
	return (
		<p className="flex flex-1 items-center justify-center gap-2 text-muted">
			<Spinner /> {slow ? "Still reading the nodes: the server takes its time." : "Reading the nodes…"}
		</p>
	);
}

/** A tenant without nodes: what to type, on which machine, in which order. */
function FirstMachine() {
	const fleet = useFleet();
	const [pools, setPools] = useState<readonly { name: string }[] | null>(null);
	useEffect(() => {
		const stop = new AbortController();
		request(PoolsQuery, { tenantId: fleet.tenantId }, stop.signal)
			.then((data) => setPools(data.pools))
			.catch(() => undefined);
		return () => stop.abort();
	}, [fleet]);
	const pool = pools?.find((p) => p.name === "default")?.name ?? pools?.[0]?.name ?? "default";
	const tenant = fleet.tenantId;
	return (
		<div className="flex min-h-0 flex-1 justify-center overflow-auto px-4 py-12">
			<div className="flex w-[44rem] max-w-full flex-col gap-5">
				<div>
					<h2 className="font-semibold text-base">No nodes yet</h2>
					<p className="text-muted">A machine that joins shows up here by itself. Leave this page open.</p>
				</div>
				<ol className="flex list-decimal flex-col gap-4 pl-5 marker:text-muted">
					{pools?.length === 0 && (
						<Step title="Make a pool" text={`${tenant} has none, and every machine belongs to one.`}>
							<Command
								text={`better-compute pools create default --tenant ${tenant}`}
								label="Copy the command that makes a pool"
							/>
						</Step>
					)}
					<Step title="Make a join token" text="It lets one machine join, within 30 minutes. Its secret is shown once.">
						<Command
							text={`better-compute join-tokens create --tenant ${tenant} --pool ${pool}`}
							label="Copy the command that makes a token"
						/>
					</Step>
					<Step
						title="Join, on the machine"
						text="Type the line that the command before printed, as root. It holds the gateway’s address, the fingerprint that the machine pins, and the token on standard input."
					>
						<pre className="wrap-anywhere whitespace-pre-wrap rounded border border-line bg-raised px-3 py-1.5 font-mono text-muted text-xs">
							{"bcd join --server HOST:PORT --ca-fingerprint … --token-file - <<<'bcj_…'"}
						</pre>
					</Step>
					<Step title="Run the daemon" text="It reports what the machine has. Once its checks pass it is in service.">
						<Command text="bcd run" label="Copy the command that runs the daemon" />
					</Step>
				</ol>
			</div>
		</div>
	);
}

function Step({ title, text, children }: { title: string; text: string; children: React.ReactNode }) {
	return (
		<li className="pl-1.5">
			<div className="flex flex-col gap-1.5">
				<h3 className="font-medium">{title}</h3>
				<p className="text-muted">{text}</p>
				{children}
			</div>
		</li>
	);
}
