import { request } from "./api/client";
import { ViewerQuery } from "./api/documents";
import type { ViewerQuery as ViewerData } from "./gql/graphql";

let early: Promise<ViewerData> | null = null;

/** Asks who is signed in before anything is drawn: the answer is on its way while the page sets itself up. */
export function askViewer(): void {
	early = request(ViewerQuery, {});
	early.catch(() => undefined);
}

/** The answer that was asked for early, once; after that a new one. */
export function takeViewer(): Promise<ViewerData> {
	const answer = early ?? request(ViewerQuery, {});
	early = null;
	return answer;
}
