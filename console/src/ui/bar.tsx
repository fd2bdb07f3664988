import { useNavigate, useRouterState } from "@tanstack/react-router";
import { DropdownMenu } from "radix-ui";
import { useEffect, useState } from "react";
import type { Viewer } from "../app";
import { useConnection, useDraining, useFleet } from "../nodes/hooks";
import { Go } from "./go";
import { Button } from "./parts";
import { choose, type Settings, useSettings } from "./settings";
import { clock } from "./time";

const pages = [
	["/nodes", "Nodes"],
	["/drains", "Drains"],
	["/events", "Events"],
] as const;

/** The top bar: whose nodes these are, the pages, how fresh what they show is, and who looks at it. */
export function Bar({
	viewer,
	tenant,
	onSignOut,
	onKeys,
}: {
	viewer: Viewer;
	tenant: string;
	onSignOut: () => void;
	onKeys: () => void;
}) {
	const navigate = useNavigate();
	const path = useRouterState({ select: (s) => s.location.pathname });
	const draining = useDraining(useFleet());
	const known = viewer.tenants.some((t) => t.id === tenant);
	return (
		<header className="flex h-10 shrink-0 items-center gap-4 border-line border-b bg-raised px-4 max-sm:gap-2 max-sm:px-2">
			<span className="flex items-center gap-2 font-semibold">
				<img src="/icon.svg" alt="" className="size-4 shrink-0" />
				<span className="max-md:sr-only">better-compute</span>
			</span>
			<label className="flex items-center gap-1.5 text-muted">
				<span className="max-lg:sr-only">Tenant</span>
				<select
					value={tenant}
					onChange={(e) => void navigate({ to: "/nodes", search: { tenant: e.target.value } })}
					className="h-7 max-w-40 rounded border border-line bg-bg px-1.5 text-text hover:bg-hover max-sm:max-w-24"
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
				{pages.map(([to, title]) => {
					const here = path === to || path.startsWith(`${to}/`);
					return (
						<Go
							key={to}
							to={to}
							current={here}
							className={`flex items-center gap-1.5 border-y-2 border-t-transparent px-2.5 max-sm:px-1.5 ${here ? "border-b-accent font-medium" : "border-b-transparent text-muted hover:text-text"}`}
						>
							{title}
							{to === "/drains" && draining > 0 && (
								<span className="rounded-full bg-active px-1.5 text-xs" title={`${draining} draining`}>
									{draining}
								</span>
							)}
						</Go>
					);
				})}
			</nav>
			<span className="ml-auto" />
			<Chip />
			<Menu viewer={viewer} onSignOut={onSignOut} onKeys={onKeys} />
		</header>
	);
}

function Chip() {
	const c = useConnection(useFleet());
	const [now, setNow] = useState(Date.now);
	const counting = c.state === "reconnecting" || c.state === "offline";
	useEffect(() => {
		if (!counting) return;
		setNow(Date.now());
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
			<span>{sign[1]}</span>
			{counting && c.dataAt !== null && <span className="text-muted max-lg:hidden">· data from {clock(c.dataAt)}</span>}
		</span>
	);
}

const item =
	"flex cursor-pointer select-none items-center gap-2 rounded px-2 py-1 outline-none data-highlighted:bg-hover data-disabled:text-muted";

/** Whether this process has the pages about jobs, and shows them to whoever looks: asked once, when the menu is opened. */
function useJobs(open: boolean): boolean {
	const [there, setThere] = useState(false);
	useEffect(() => {
		if (!open || there) return;
		const stop = new AbortController();
		fetch("/jobs/api/features", { headers: { accept: "application/json" }, credentials: "same-origin", signal: stop.signal })
			.then((r) => setThere(r.ok))
			.catch(() => undefined);
		return () => stop.abort();
	}, [open, there]);
	return there;
}

function Menu({ viewer, onSignOut, onKeys }: { viewer: Viewer; onSignOut: () => void; onKeys: () => void }) {
	const s = useSettings();
	const [open, setOpen] = useState(false);
	const jobs = useJobs(open);
	return (
		<DropdownMenu.Root modal={false} open={open} onOpenChange={setOpen}>
			<DropdownMenu.Trigger asChild>
				<Button look="quiet" aria-label={`Menu of ${viewer.name}`} className="max-w-40">
					<span className="truncate">{viewer.name}</span>
					<span aria-hidden="true" className="text-xs">
						▾
					</span>
				</Button>
			</DropdownMenu.Trigger>
			<DropdownMenu.Content
				align="end"
				sideOffset={4}
				collisionPadding={8}
				className="z-40 min-w-52 rounded border border-line bg-bg p-1 shadow-lg"
			>
				<DropdownMenu.Item asChild className={item}>
					<a href="/playground">GraphQL playground</a>
				</DropdownMenu.Item>
				{jobs && (
					<DropdownMenu.Item asChild className={item}>
						<a href="/jobs/">Jobs</a>
					</DropdownMenu.Item>
				)}
				<DropdownMenu.Item className={item} onSelect={onKeys}>
					Keys<span className="ml-auto text-muted">?</span>
				</DropdownMenu.Item>
				<DropdownMenu.Separator className="my-1 h-px bg-line" />
				<Radio
					title="Appearance"
					value={s.theme}
					options={[
						["system", "As the system"],
						["light", "Light"],
						["dark", "Dark"],
					]}
					onChange={(v) => choose("theme", v as Settings["theme"])}
				/>
				<DropdownMenu.Separator className="my-1 h-px bg-line" />
				<Radio
					title="Times"
					value={s.zone}
					options={[
						["local", "Local"],
						["utc", "UTC"],
					]}
					onChange={(v) => choose("zone", v as Settings["zone"])}
				/>
				<DropdownMenu.Separator className="my-1 h-px bg-line" />
				<DropdownMenu.Item className={item} onSelect={onSignOut}>
					Sign out
				</DropdownMenu.Item>
			</DropdownMenu.Content>
		</DropdownMenu.Root>
	);
}

function Radio({
	title,
	value,
	options,
	onChange,
}: {
	title: string;
	value: string;
	options: [string, string][];
	onChange: (value: string) => void;
}) {
	return (
		<DropdownMenu.RadioGroup value={value} onValueChange={onChange} aria-label={title}>
			<DropdownMenu.Label className="px-2 py-0.5 text-muted text-xs">{title}</DropdownMenu.Label>
			{options.map(([v, text]) => (
				<DropdownMenu.RadioItem key={v} value={v} className={item} onSelect={(e) => e.preventDefault()}>
					<span className="w-3">
						<DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>
					</span>
					{text}
				</DropdownMenu.RadioItem>
			))}
		</DropdownMenu.RadioGroup>
	);
}

/** After two seconds without the stream a notice says of when the data is, over the page and without moving it: a short break is not worth a word. */
export function Stale() {
	const c = useConnection(useFleet());
	const counting = c.state === "reconnecting" || c.state === "offline";
	const [shown, setShown] = useState(false);
	useEffect(() => {
		if (!counting) return setShown(false);
		const timer = setTimeout(() => setShown(true), 2_000);
		return () => clearTimeout(timer);
	}, [counting]);
	if (!shown || c.dataAt === null) return null;
	return (
		<p
			role="status"
			className="pointer-events-none fixed inset-x-0 bottom-7 z-20 mx-auto w-fit max-w-[calc(100vw-2rem)] rounded border border-warn/50 bg-warn-bg px-3 py-1 text-warn shadow-lg"
		>
			The connection to the server is lost. What you see is of {clock(c.dataAt)}; the page goes on by itself when the server
			answers.
		</p>
	);
}
