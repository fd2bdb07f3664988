import {
	createRootRouteWithContext,
	createRoute,
	createRouter,
	RouterProvider,
	redirect,
	useNavigate,
	useParams,
	useSearch,
} from "@tanstack/react-router";
import { Tooltip } from "radix-ui";
import { useCallback, useEffect, useMemo, useState } from "react";
import { type ApiError, asApiError, onSignedOut, request } from "./api/client";
import { ViewerQuery } from "./api/documents";
import { claim, end } from "./api/session";
import { firstTenant } from "./api/tenant";
import { NodesPage } from "./nodes/page";
import { parseSearch } from "./store/filter";
import { Live } from "./store/live";
import { Bar, Stale } from "./ui/bar";
import { Button, Failure, Spinner } from "./ui/parts";
import { Toasts } from "./ui/toasts";

export type Viewer = { name: string; tenants: readonly { id: string }[] };
type Context = { viewer: Viewer; signOut: () => void };

const root = createRootRouteWithContext<Context>()({
	validateSearch: parseSearch,
	notFoundComponent: () => <p className="p-6">There is no such page.</p>,
});
const index = createRoute({
	getParentRoute: () => root,
	path: "/",
	beforeLoad: ({ search }) => {
		throw redirect({ to: "/nodes", search, replace: true });
	},
});
const nodes = createRoute({ getParentRoute: () => root, path: "/nodes", component: Shell });
const node = createRoute({ getParentRoute: () => nodes, path: "$nodeId" });
const router = createRouter({
	routeTree: root.addChildren([index, nodes.addChildren([node])]),
	context: { viewer: { name: "", tenants: [] }, signOut: () => undefined },
});

declare module "@tanstack/react-router" {
	interface Register {
		router: typeof router;
	}
}

function Shell() {
	const { viewer, signOut } = nodes.useRouteContext();
	const search = useSearch({ strict: false });
	const { nodeId } = useParams({ strict: false });
	return <Tenant key={search.tenant} viewer={viewer} signOut={signOut} tenant={search.tenant} nodeId={nodeId ?? null} />;
}

function Tenant({ viewer, signOut, tenant, nodeId }: Context & { tenant: string | undefined; nodeId: string | null }) {
	const navigate = useNavigate();
	const first = firstTenant(viewer.tenants);
	useEffect(() => {
		if (!tenant && first) void navigate({ to: ".", search: (old) => ({ ...old, tenant: first }), replace: true });
	}, [tenant, first, navigate]);
	const live = useMemo(() => (tenant ? new Live(tenant) : null), [tenant]);
	useEffect(() => () => live?.close(), [live]);
	if (!first)
		return (
			<main className="p-6">
				<p>{viewer.name} holds no grant in any tenant.</p>
			</main>
		);
	if (!live || !tenant) return null;
	return (
		<div className="flex h-full flex-col">
			<Bar live={live} viewer={viewer} tenant={tenant} onSignOut={signOut} />
			<Stale live={live} />
			<main className="flex min-h-0 flex-1 flex-col">
				<NodesPage live={live} viewer={viewer.name} openId={nodeId} />
			</main>
		</div>
	);
}

type Session =
	| { state: "checking" }
	| { state: "out"; error: ApiError | null }
	| { state: "failed"; error: ApiError }
	| { state: "in"; viewer: Viewer };

/** Signs in by the link's secret, or by the cookie of before; without either it says how to. */
export function App({ secret }: { secret: string | null }) {
	const [session, setSession] = useState<Session>({ state: "checking" });

	const check = useCallback(async (claiming: string | null) => {
		setSession({ state: "checking" });
		let refused: ApiError | null = null;
		if (claiming) await claim(claiming).catch((e: unknown) => (refused = asApiError(e)));
		try {
			const { viewer } = await request(ViewerQuery, {});
			setSession({ state: "in", viewer });
		} catch (e) {
			const error = asApiError(e);
			setSession(error.code === "UNAUTHENTICATED" ? { state: "out", error: refused } : { state: "failed", error });
		}
	}, []);

	useEffect(() => void check(secret), [check, secret]);
	useEffect(() => onSignedOut(() => setSession((s) => (s.state === "in" ? { state: "out", error: null } : s))), []);

	const signOut = useCallback(() => void end().finally(() => setSession({ state: "out", error: null })), []);
	const again = useCallback(() => void check(null), [check]);

	return (
		<Tooltip.Provider>
			<Toasts>
				{session.state === "in" ? (
					<RouterProvider router={router} context={{ viewer: session.viewer, signOut }} />
				) : (
					<Door session={session} onRetry={again} />
				)}
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
					<h1 className="font-semibold text-lg">better-compute</h1>
					{session.state === "failed" ? (
						<Failure error={session.error} />
					) : (
						<>
							<p>You are signed out. On the server’s host, run</p>
							<code className="rounded border border-line bg-bg px-3 py-2 font-mono">better-compute sign-in</code>
							<p>and open the link that it prints. A link works once, for ten minutes.</p>
							{session.error && <Failure error={session.error} />}
						</>
					)}
					<Button className="self-start" onClick={onRetry}>
						Try again
					</Button>
				</div>
			)}
		</main>
	);
}
