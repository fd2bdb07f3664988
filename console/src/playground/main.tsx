import { firstTenant } from "../api/tenant";
import "./workers";
import "graphiql/style.css";
import "./playground.css";
import { GraphiQL, type GraphiQLProps } from "graphiql";
import { getOperationAST, parse } from "graphql";
import { createClient } from "graphql-ws";
import { createRoot } from "react-dom/client";
import { examples } from "./examples";

// The session's cookie goes along by itself, on the socket too; the page never holds a token.
const socket = createClient({ url: `${location.origin.replace(/^http/, "ws")}/graphql`, retryAttempts: 0 });

type Answer = { data?: unknown; errors?: readonly unknown[] };

async function post(body: {
	query: string;
	operationName?: string | null;
	variables?: Record<string, unknown>;
}): Promise<Answer> {
	const response = await fetch("/graphql", {
		method: "POST",
		headers: { "content-type": "application/json", accept: "application/graphql-response+json, application/json" },
		credentials: "same-origin",
		body: JSON.stringify(body),
	});
	return response.json();
}

const fetcher: GraphiQLProps["fetcher"] = ({ query, operationName, variables }) => {
	// The name follows the text after a moment: until then it can be that of an operation which is gone.
	const document = parse(query);
	const named = operationName ? getOperationAST(document, operationName) : null;
	const operation = named ?? getOperationAST(document);
	const body = { query, operationName: named ? operationName : undefined, variables: variables ?? undefined };
	return (operation?.operation === "subscription" ? socket.iterate(body) : post(body)) as never;
};

type Start = { viewer: { name: string; tenants: { id: string }[] } };

/** Asks who is signed in, and for a tenant and a node that the examples can name. */
async function start() {
	const who = await post({ query: "{ viewer { name tenants { id } } }" }).catch((): Answer => ({}));
	const viewer = (who.data as Start | null | undefined)?.viewer;
	const tenantId = firstTenant(viewer?.tenants ?? []) ?? "default";
	let nodeId = "node_00000000000000000000000000";
	if (viewer) {
		const query = "query ($t: ID!) { nodes(tenantId: $t, first: 1) { nodes { id } } }";
		const list = await post({ query, variables: { t: tenantId } }).catch((): Answer => ({}));
		const nodes = (list.data as { nodes?: { nodes: { id: string }[] } } | null | undefined)?.nodes?.nodes;
		nodeId = nodes?.[0]?.id ?? nodeId;
	}
	return { signedIn: viewer !== undefined, tabs: examples(tenantId, nodeId) };
}

// GraphiQL fills the first tab's variables from this alone, and takes it for a tab of its own where it remembers tabs of an earlier visit.
const remembered = localStorage.getItem("graphiql:tabState") !== null;

function Playground({ signedIn, tabs }: Awaited<ReturnType<typeof start>>) {
	return (
		<>
			{!signedIn && (
				<p className="signed-out" role="status">
					Nobody is signed in. Run <code>better-compute sign-in</code>, open the link that it prints, then load this page again.
				</p>
			)}
			<main className="editor" aria-label="GraphQL playground">
				<GraphiQL
					fetcher={fetcher}
					defaultTabs={tabs}
					initialVariables={remembered ? undefined : tabs[0]?.variables}
					isHeadersEditorEnabled={false}
					defaultEditorToolsVisibility="variables"
				>
					<GraphiQL.Logo>better-compute</GraphiQL.Logo>
				</GraphiQL>
			</main>
		</>
	);
}

const place = document.getElementById("root");
if (place) start().then((first) => createRoot(place).render(<Playground {...first} />));
