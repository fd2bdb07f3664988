import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import type { Viewer } from "../app";
import { useConnection } from "../nodes/hooks";
import type { Live } from "../store/live";
import { Button } from "./parts";
import { clock } from "./time";

/** The top bar: the product, whose nodes these are, how fresh they are, and who looks at them. */
export function Bar({ live, viewer, tenant, onSignOut }: { live: Live; viewer: Viewer; tenant: string; onSignOut: () => void }) {
	const navigate = useNavigate();
	const known = viewer.tenants.some((t) => t.id === tenant);
	return (
		<header className="flex h-10 shrink-0 items-center gap-4 border-line border-b bg-raised px-4">
			<span className="flex items-center gap-2 font-semibold">
				<img src="/icon.svg" alt="" className="size-4" />
				better-compute
			</span>
			<label className="flex items-center gap-1.5 text-muted">
				Tenant
				<select
					value={tenant}
					onChange={(e) => void navigate({ to: "/nodes", search: { tenant: e.target.value } })}
					className="h-7 rounded border border-strong bg-bg px-1.5 text-text"
				>
					{!known && <option value={tenant}>{tenant}</option>}
					{viewer.tenants.map((t) => (
						<option key={t.id} value={t.id}>
							{t.id}
						</option>
					))}
				</select>
			</label>
			<nav aria-label="Pages" className="flex h-full">
				<a
					href="/nodes"
					aria-current="page"
					onClick={(e) => {
						e.preventDefault();
						void navigate({ to: "/nodes", search: { tenant } });
					}}
					className="flex items-center border-accent border-b-2 px-2 font-medium"
				>
					Nodes
				</a>
			</nav>
			<span className="ml-auto" />
			<Chip live={live} />
			<span className="text-muted max-sm:hidden">{viewer.name}</span>
			<Button look="quiet" onClick={onSignOut}>
				Sign out
			</Button>
		</header>
	);
}

function Chip({ live }: { live: Live }) {
	const c = useConnection(live);
	const [now, setNow] = useState(Date.now);
	const counting = c.state === "reconnecting" || c.state === "offline";
	useEffect(() => {
		if (!counting) return;
		const timer = setInterval(() => setNow(Date.now()), 500);
		return () => clearInterval(timer);
	}, [counting]);
	const wait = counting && c.retryAt ? Math.ceil((c.retryAt - now) / 1000) : 0;
	const sign = {
		connecting: ["◌", "connecting…", "text-muted"],
		live: ["●", "live", "text-ok"],
		reconnecting: ["◐", `reconnecting${wait > 0 ? ` (${wait} s)` : ""}…`, "text-warn"],
		offline: ["✕", `offline${wait > 0 ? `, next try in ${wait} s` : ""}`, "text-bad"],
	}[c.state];
	return (
		<span data-connection={c.state} className={`flex items-center gap-1.5 whitespace-nowrap ${sign[2]}`}>
			<span aria-hidden="true">{sign[0]}</span>
			{sign[1]}
			{counting && c.dataAt !== null && <span className="text-muted">· data from {clock(c.dataAt)}</span>}
		</span>
	);
}

/** After two seconds without the stream a banner says of when the data is: a short break is not worth a word. */
export function Stale({ live }: { live: Live }) {
	const c = useConnection(live);
	const counting = c.state === "reconnecting" || c.state === "offline";
	const [shown, setShown] = useState(false);
	useEffect(() => {
		if (!counting) return setShown(false);
		const timer = setTimeout(() => setShown(true), 2_000);
		return () => clearTimeout(timer);
	}, [counting]);
	if (!shown || c.dataAt === null) return null;
	return (
		<p role="status" className="border-line border-b bg-warn-bg px-4 py-1.5 text-warn">
			The connection to the server is lost. What you see is of {clock(c.dataAt)}; the page goes on by itself when the server
			answers.
		</p>
	);
}
