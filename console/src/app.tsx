import {
	createRootRouteWithContext,
	createRoute,
	createRouter,
	Outlet,
	RouterProvider,
	redirect,
	useNavigate,
	useSearch,
} from "@tanstack/react-router";
import { Tooltip } from "radix-ui";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { type ApiError, asApiError, onSignedIn, onSignedOut, tellSignedIn } from "./api/client";
import { claim, end } from "./api/session";
import { firstTenant } from "./api/tenant";
import { takeViewer } from "./boot";
import { FleetContext, useConnection, useFleet } from "./nodes/hooks";
import { NodesPage } from "./nodes/page";
import { useKeys } from "./nodes/shortcuts";
import { Fleet, openSocket } from "./store/fleet";
import { Bar, Stale } from "./ui/bar";
import { Go } from "./ui/go";
import { Button, Failure, Spinner } from "./ui/parts";
import { useSettings } from "./ui/settings";
import { freezeTime } from "./ui/time";
import { Toasts } from "./ui/toasts";

export type Viewer = { name: string; tenants: readonly { id: string }[] };
type Context = { viewer: Viewer; signOut: () => void };

const NodePage = lazy(() => import("./node/page"));
const DrainsPage = lazy(() => import("./drains/page"));
const EventsPage = lazy(() => import("./events/page"));
const Keys = lazy(() => import("./ui/keys").then((m) => ({ default: m.Keys })));

const root = createRootRouteWithContext<Context>()({ component: Shell, notFoundComponent: NoPage });
const index = createRoute({
	getParentRoute: () => root,
	path: "/",
	beforeLoad: ({ search }) => {
		throw redirect({ to: "/nodes", search: search as Record<string, unknown>, replace: true });
	},
});
const nodes = createRoute({ getParentRoute: () => root, path: "/nodes", component: () => <NodesPage viewer={useWho()} /> });
const node = createRoute({ getParentRoute: () => root, path: "/nodes/$nodeId", component: () => <NodePage viewer={useWho()} /> });
const drains = createRoute({ getParentRoute: () => root, path: "/drains", component: () => <DrainsPage viewer={useWho()} /> });
const events = createRoute({ getParentRoute: () => root, path: "/events", component: () => <EventsPage /> });
const router = createRouter({
	routeTree: root.addChildren([index, nodes, node, drains, events]),
	context: { viewer: { name: "", tenants: [] }, signOut: () => undefined },
});

declare module "@tanstack/react-router" {
	interface Register {
		router: typeof router;
	}
}

const useWho = () => root.useRouteContext().viewer.name;

function Shell() {
	const { viewer, signOut } = root.useRouteContext();
	const search = useSearch({ strict: false }) as { tenant?: unknown };
	const tenant = typeof search.tenant === "string" && search.tenant !== "" ? search.tenant : undefined;
	return <Tenant key={tenant} viewer={viewer} signOut={signOut} tenant={tenant} />;
}

function Tenant({ viewer, signOut, tenant }: Context & { tenant: string | undefined }) {
	const navigate = useNavigate();
	const first = firstTenant(viewer.tenants);
	useEffect(() => {
		if (!tenant && first)
			void navigate({ to: ".", search: (old: Record<string, unknown>) => ({ ...old, tenant: first }), replace: true });
	}, [tenant, first, navigate]);
	const fleet = useMemo(() => (tenant ? new Fleet(tenant, openSocket()) : null), [tenant]);
	useEffect(() => {
		// The rows come first: how the fleet stands is counted when they are there, or are late.
		const soon = setTimeout(() => fleet?.open(), 1_000);
		const first = fleet?.onRead(() => fleet.open());
		const off = onSignedIn(() => fleet?.socket.resume());
		return () => {
			off();
			first?.();
			clearTimeout(soon);
			fleet?.close();
			fleet?.socket.close();
		};
	}, [fleet]);
	if (!first)
		return (
			<main className="flex h-full items-center justify-center p-6">
				<div className="flex max-w-lg flex-col gap-3">
					<h1 className="font-semibold text-lg">Nothing to see yet</h1>
					<p>{viewer.name} holds no grant in any tenant. Somebody who does can give one.</p>
					<Button className="self-start" onClick={signOut}>
						Sign out
					</Button>
				</div>
			</main>
		);
	if (!fleet || !tenant) return null;
	return (
		<FleetContext value={fleet}>
			<Frame viewer={viewer} signOut={signOut} tenant={tenant} />
		</FleetContext>
	);
}

function Frame({ viewer, signOut, tenant }: Context & { tenant: string }) {
	const fleet = useFleet();
	const { zone } = useSettings();
	const [keys, setKeys] = useState(false);
	const navigate = useNavigate();
	const chord = useRef(0);
	useKeys((pressed) => {
		if (pressed === "?") {
			setKeys(true);
			return true;
		}
		const begun = Date.now() - chord.current < 1_000;
		chord.current = pressed === "g" ? Date.now() : 0;
		const to = begun ? ({ n: "/nodes", d: "/drains", e: "/events" } as const)[pressed] : undefined;
		if (to) void navigate({ to, search: { tenant } as Record<string, unknown> });
		return pressed === "g" || to !== undefined;
	}, !keys);

	// Ages stand still while nothing is heard: "now" would be a lie.
	const connection = useConnection(fleet);
	const frozenAt = connection.state === "reconnecting" || connection.state === "offline" ? connection.dataAt : null;
	useEffect(() => {
		freezeTime(frozenAt);
		return () => freezeTime(null);
	}, [frozenAt]);
	return (
		<div className="flex h-full flex-col">
			<Bar viewer={viewer} tenant={tenant} onSignOut={signOut} onKeys={() => setKeys(true)} />
			<Stale />
			<main key={zone} className="flex min-h-0 flex-1 flex-col">
				<Suspense fallback={<Loading />}>
					<Outlet />
				</Suspense>
			</main>
			{keys && (
				<Suspense>
					<Keys onClose={() => setKeys(false)} />
				</Suspense>
			)}
		</div>
	);
}

const Loading = () => (
	<p className="flex flex-1 items-center justify-center gap-2 text-muted">
		<Spinner /> Loading…
	</p>
);

function NoPage() {
	return (
		<div className="flex flex-1 flex-col items-center justify-center gap-3 p-6">
			<h1 className="font-semibold text-lg">There is no such page</h1>
			<Go to="/nodes" className="text-accent underline">
				Go to the nodes
			</Go>
		</div>
	);
}

type Session =
	| { state: "checking" }
	| { state: "out"; error: ApiError | null }
	| { state: "failed"; error: ApiError }
	| { state: "in"; viewer: Viewer }
	/** The session ended by itself: the page stays as it is, out of sight, and goes on when the same person is back. */
	| { state: "ended"; viewer: Viewer; error: ApiError | null };

/** Signs in by the link's secret, or by the cookie of before; without either it says how to. */
export function App({ secret }: { secret: string | null }) {
	const [session, setSession] = useState<Session>({ state: "checking" });

	const check = useCallback(async (claiming: string | null) => {
		setSession((s) => (s.state === "ended" ? s : { state: "checking" }));
		let refused: ApiError | null = null;
		if (claiming) await claim(claiming).catch((e: unknown) => (refused = asApiError(e)));
		try {
			const { viewer } = await takeViewer();
			setSession({ state: "in", viewer });
			tellSignedIn();
		} catch (e) {
			const error = asApiError(e);
			setSession((s) => {
				if (s.state === "ended") return { ...s, error: error.code === "UNAUTHENTICATED" ? null : error };
				return error.code === "UNAUTHENTICATED" ? { state: "out", error: refused } : { state: "failed", error };
			});
		}
	}, []);

	useEffect(() => void check(secret), [check, secret]);
	useEffect(
		() => onSignedOut(() => setSession((s) => (s.state === "in" ? { state: "ended", viewer: s.viewer, error: null } : s))),
		[],
	);

	const signOut = useCallback(() => void end().finally(() => setSession({ state: "out", error: null })), []);
	const again = useCallback(() => void check(null), [check]);
	const viewer = session.state === "in" || session.state === "ended" ? session.viewer : null;

	return (
		<Tooltip.Provider>
			<Toasts>
				{viewer && (
					<div className="h-full" hidden={session.state !== "in"}>
						<RouterProvider key={viewer.name} router={router} context={{ viewer, signOut }} />
					</div>
				)}
				{session.state !== "in" && <Door session={session} onRetry={again} />}
			</Toasts>
		</Tooltip.Provider>
	);
}

function Door({ session, onRetry }: { session: Exclude<Session, { state: "in" }>; onRetry: () => void }) {
	return (
		<main className="flex h-full items-center justify-center p-4">
			{session.state === "checking" ? (
				<p className="flex items-center gap-2 text-muted">
					<Spinner /> Signing in…
				</p>
			) : (
				<div className="flex w-[30rem] max-w-full flex-col gap-3 rounded-lg border border-line bg-raised p-6">
					<h1 className="flex items-center gap-2 font-semibold text-lg">
						<img src="/icon.svg" alt="" className="size-5" />
						better-compute
					</h1>
					{session.state === "failed" ? (
						<Failure error={session.error} />
					) : (
						<>
							<p>
								{session.state === "ended"
									? "Your session has ended. The page is kept as you left it. On the server’s host, run"
									: "You are signed out. On the server’s host, run"}
							</p>
							<code className="rounded border border-line bg-bg px-3 py-2 font-mono">better-compute sign-in</code>
							<p>
								and open the link that it prints{session.state === "ended" ? " in another tab, then go on here" : ""}. A link
								works once, for ten minutes.
							</p>
							{session.error && <Failure error={session.error} />}
						</>
					)}
					<Button className="self-start" onClick={onRetry}>
						{session.state === "ended" ? "Go on" : "Try again"}
					</Button>
				</div>
			)}
		</main>
	);
}
