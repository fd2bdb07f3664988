import { request } from "./api/client";
import { NodesQuery, ViewerQuery } from "./api/documents";
import type { NodesQuery as NodesData, NodesQueryVariables, ViewerQuery as ViewerData } from "./gql/graphql";
import { parseSearch, toFilter, toOrder } from "./store/filter";

/** How many rows a list reads first: somewhat more than a screen. */
export const firstPage = 60;

let viewer: Promise<ViewerData> | null = null;
let nodes: { key: string; answer: Promise<NodesData> } | null = null;

/** Asks who is signed in, and for the list that the address names, before anything is drawn: the answers are on their way meanwhile. */
export function askEarly(location: Location): void {
	viewer = request(ViewerQuery, {});
	viewer.catch(() => undefined);
	const search = parseSearch(Object.fromEntries(new URLSearchParams(location.search)));
	if (location.pathname !== "/nodes" || !search.tenant) return;
	const variables = {
		tenantId: search.tenant,
		filter: toFilter(search),
		orderBy: toOrder(search),
		first: firstPage,
		after: null,
	};
	nodes = { key: JSON.stringify(variables), answer: request(NodesQuery, variables) };
	nodes.answer.catch(() => undefined);
}

/** The answer that was asked for early, once; after that a new one. */
export function takeViewer(): Promise<ViewerData> {
	const answer = viewer ?? request(ViewerQuery, {});
	viewer = null;
	return answer;
}

/** The list that was asked for early, if it was this one; once. */
export function takeNodes(variables: NodesQueryVariables): Promise<NodesData> | null {
	const early = nodes;
	nodes = null;
	return early?.key === JSON.stringify(variables) ? early.answer : null;
}
