// Takes away my own cordon from a node once it has been adopted: for machines that are cordoned while they are installed. It follows the log with
// graphql-ws and keeps its place in a file: killed and started again it goes on where it was. A second uncordon of the same node changes nothing,
// so an event that comes twice does no harm.
//
//   node uncordon-after-adopt.mjs SERVER TOKEN_FILE TENANT STATE_FILE
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { createClient } from "graphql-ws";
import WebSocket from "ws";

const [server, tokenFile, tenantId, stateFile] = process.argv.slice(2);
if (!server || !tokenFile || !tenantId || !stateFile) {
	console.error("usage: uncordon-after-adopt SERVER TOKEN_FILE TENANT STATE_FILE");
	process.exit(2);
}
const token = readFileSync(tokenFile, "utf8").trim();

interface Adopted {
	id: string;
	cursor: string;
	node: { id: string; version: number; cordon: { by: string } | null } | null;
}

async function ask<T>(query: string, variables: Record<string, unknown>): Promise<T> {
	const response = await fetch(`${server}/graphql`, {
		method: "POST",
		headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
		body: JSON.stringify({ query, variables }),
		signal: AbortSignal.timeout(20_000),
	});
	const answer = (await response.json()) as { data?: T; errors?: { message: string; extensions: { code: string } }[] };
	const failed = answer.errors?.[0];
	if (failed || !answer.data) throw new Error(`${failed?.extensions.code ?? response.status}: ${failed?.message ?? "no data"}`);
	return answer.data;
}

function place(): string | undefined {
	try {
		return readFileSync(stateFile as string, "utf8").trim() || undefined;
	} catch {
		return undefined; // the first start begins now
	}
}

/** Writes the place beside the old one and puts it in its stead, so that a kill leaves one of the two. */
function keep(cursor: string): void {
	writeFileSync(`${stateFile}.next`, `${cursor}\n`, { mode: 0o600 });
	renameSync(`${stateFile}.next`, stateFile as string);
}

const me = (await ask<{ viewer: { name: string } }>("{ viewer { name } }", {})).viewer.name;
if (!place()) {
	// The head is written down before anything is waited for: a kill before the first event loses nothing.
	keep((await ask<{ log: { head: string } }>("query ($t: ID!) { log(tenantId: $t) { head } }", { t: tenantId })).log.head);
}

async function handle(event: Adopted): Promise<void> {
	const node = event.node;
	if (node?.cordon?.by === me) {
		// The event's id as the request id makes a repeat the same act; the version makes it miss when somebody changed the node since.
		const input = { tenantId, nodeId: node.id, version: node.version, requestId: event.id, reason: "adopted" };
		await ask("mutation ($i: NodeUncordonInput!) { nodeUncordon(input: $i) { changed } }", { i: input });
		console.log(`${node.id} uncordoned`);
	}
	keep(event.cursor);
}

// graphql-ws comes back by itself; each connection begins after the place as it is then.
for (;;) {
	const client = createClient({
		url: `${server.replace(/^http/, "ws")}/graphql`,
		webSocketImpl: WebSocket,
		connectionParams: { Authorization: `Bearer ${token}` },
		retryAttempts: 0,
		keepAlive: 15_000,
	});
	try {
		const events = client.iterate<{ nodeEvents: Adopted }>({
			query: `subscription ($t: ID!, $after: Cursor) {
				nodeEvents(tenantId: $t, types: ["node.adopted"], after: $after) { id cursor node { id version cordon { by } } }
			}`,
			variables: { t: tenantId, after: place() },
		});
		for await (const { data, errors } of events) {
			if (errors?.length) throw errors[0];
			if (data) await handle(data.nodeEvents);
		}
	} catch (reason) {
		const text = reason instanceof Error ? reason.message : JSON.stringify(reason);
		console.error(`connection lost: ${text}`);
		if (/UNAUTHENTICATED|FORBIDDEN|CURSOR_EXPIRED/.test(text) || (reason as { code?: number }).code === 4403) process.exit(1);
	} finally {
		await client.dispose();
	}
	await new Promise((resolve) => setTimeout(resolve, 500 + Math.random() * 2000));
}
