import { type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import { request } from "../api/client";
import { PoolsQuery } from "../api/documents";
import type { Order, Search } from "../store/filter";
import type { Summary } from "../store/fleet";
import { useFleet, useSummary } from "./hooks";

const chips: [
	keyof Search & ("away" | "cordoned" | "draining" | "maintenance" | "busy" | "deleted"),
	string,
	(s: Summary) => number | null,
][] = [
	["away", "Not connected", (s) => s.total - (s.connectivity.find((c) => c.connectivity === "CONNECTED")?.count ?? 0)],
	["cordoned", "Cordoned", (s) => s.cordoned],
	["draining", "Draining", (s) => s.draining],
	["maintenance", "Maintenance", (s) => s.maintenance],
	["busy", "Has allocations", () => null],
	["deleted", "Deleted too", () => null],
];

const orders: [Order | "", string][] = [
	["", "name"],
	["newest", "newest first"],
	["silent", "silent longest"],
	["out", "out longest"],
];

/** What the list is about. Each condition is in the address; the server does the filtering and the counting. */
export function Filters({
	search,
	onChange,
	box,
}: {
	search: Search;
	onChange: (change: Partial<Search>) => void;
	box: RefObject<HTMLInputElement | null>;
}) {
	const fleet = useFleet();
	const [pools, setPools] = useState<readonly { id: string; name: string }[]>([]);
	useEffect(() => {
		const stop = new AbortController();
		request(PoolsQuery, { tenantId: fleet.tenantId }, stop.signal)
			.then((data) => setPools(data.pools))
			.catch(() => undefined);
		return () => stop.abort();
	}, [fleet]);
	return (
		<div
			role="search"
			aria-label="Nodes"
			className="flex flex-wrap items-center gap-x-2 gap-y-1.5 border-line border-b px-4 py-1.5"
		>
			<h1 className="sr-only">Nodes of {fleet.tenantId}</h1>
			<FilterText box={box} value={search.q ?? ""} onChange={(q) => onChange({ q: q || undefined })} />
			<Choice label="Pool" value={search.pool ?? ""} onChange={(pool) => onChange({ pool: pool || undefined })}>
				<option value="">all</option>
				{search.pool && !pools.some((p) => p.id === search.pool) && <option value={search.pool}>{search.pool}</option>}
				{pools.map((p) => (
					<option key={p.id} value={p.id}>
						{p.name}
					</option>
				))}
			</Choice>
			<Chips search={search} onChange={onChange} />
			<Choice
				label="Order"
				value={search.order ?? ""}
				onChange={(order) => onChange({ order: (order || undefined) as Order | undefined })}
			>
				{orders.map(([value, title]) => (
					<option key={value} value={value}>
						{title}
					</option>
				))}
			</Choice>
		</div>
	);
}

/** The conditions that are on or off, with how many nodes meet each: a busy fleet counts anew each second, and draws these alone. */
function Chips({ search, onChange }: { search: Search; onChange: (change: Partial<Search>) => void }) {
	const summary = useSummary(useFleet());
	return chips.map(([name, title, count]) => {
		const n = summary ? count(summary) : null;
		const on = search[name] === true;
		return (
			<button
				key={name}
				type="button"
				aria-pressed={on}
				onClick={() => onChange({ [name]: on ? undefined : true })}
				className={`flex h-7 items-center gap-1.5 whitespace-nowrap rounded border px-2 ${on ? "border-accent bg-active text-text" : "border-line text-muted hover:bg-hover hover:text-text"}`}
			>
				{title}
				{n !== null && <span className={n === 0 ? "text-muted" : "font-medium text-text"}>{n.toLocaleString("en")}</span>}
			</button>
		);
	});
}

/** A select with its name before it. */
export function Choice({
	label,
	value,
	onChange,
	children,
}: {
	label: string;
	value: string;
	onChange: (value: string) => void;
	children: ReactNode;
}) {
	return (
		<label className="flex items-center gap-1.5 text-muted">
			{label}
			<select
				value={value}
				onChange={(e) => onChange(e.target.value)}
				className="h-7 max-w-44 rounded border border-line bg-bg px-1.5 text-text hover:bg-hover"
			>
				{children}
			</select>
		</label>
	);
}

/** The text goes into the address when the typing rests. */
function FilterText({
	box,
	value,
	onChange,
}: {
	box: RefObject<HTMLInputElement | null>;
	value: string;
	onChange: (q: string) => void;
}) {
	const [text, setText] = useState(value);
	const sent = useRef(value);
	useEffect(() => {
		if (value !== sent.current) {
			sent.current = value;
			setText(value);
		}
	}, [value]);
	useEffect(() => {
		if (text === sent.current) return;
		const timer = setTimeout(() => {
			sent.current = text;
			onChange(text);
		}, 150);
		return () => clearTimeout(timer);
	}, [text, onChange]);
	return (
		<input
			ref={box}
			type="search"
			aria-label="Filter by name, id or label value"
			placeholder="Name, id or label value  ( / )"
			value={text}
			onChange={(e) => setText(e.target.value)}
			onKeyDown={(e) => {
				if (e.key === "Escape" || e.key === "Enter") {
					e.preventDefault();
					if (e.key === "Escape") setText("");
					document.getElementById("nodes")?.focus();
				}
			}}
			className="h-7 w-60 rounded border border-strong bg-bg px-2 placeholder:text-muted max-sm:w-full"
		/>
	);
}
