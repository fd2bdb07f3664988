import type { TypedDocumentString } from "../gql/graphql";

/** The closed list of codes, and NETWORK for a request that got no answer that the API wrote. */
export type Code =
	| "UNAUTHENTICATED"
	| "FORBIDDEN"
	| "NOT_FOUND"
	| "CONFLICT"
	| "INVALID_INPUT"
	| "INVALID_STATE"
	| "CURSOR_EXPIRED"
	| "RESOURCE_EXHAUSTED"
	| "UNAVAILABLE"
	| "INTERNAL"
	| "NETWORK";

export type Details = Record<string, unknown>;

/** What the API answered instead of data: its code, its sentence, and the id under which its log has more. */
export class ApiError extends Error {
	readonly code: Code;
	readonly details: Details;
	readonly requestId: string | null;

	constructor(code: Code, message: string, details: Details = {}, requestId: string | null = null) {
		super(message);
		this.name = "ApiError";
		this.code = code;
		this.details = details;
		this.requestId = requestId;
	}
}

type WireError = { message?: unknown; extensions?: { code?: unknown; details?: unknown; requestId?: unknown } };

/** Reads the first of the errors that GraphQL puts beside the data. */
export function fromWire(errors: readonly unknown[]): ApiError {
	const e = (errors[0] ?? {}) as WireError;
	const ext = e.extensions ?? {};
	return new ApiError(
		(typeof ext.code === "string" ? ext.code : "INTERNAL") as Code,
		typeof e.message === "string" ? e.message : "the server answered an error without a sentence",
		(ext.details ?? {}) as Details,
		typeof ext.requestId === "string" ? ext.requestId : null,
	);
}

/** Makes an ApiError of whatever was thrown, so that every place that shows one shows code, sentence and request id. */
export function asApiError(e: unknown): ApiError {
	return e instanceof ApiError ? e : new ApiError("INTERNAL", e instanceof Error ? e.message : String(e));
}

const signedOut = new Set<() => void>();

/** Calls back each time that the API says that nobody is signed in. */
export function onSignedOut(callback: () => void): () => void {
	signedOut.add(callback);
	return () => signedOut.delete(callback);
}

const signedIn = new Set<() => void>();

/** Calls back when somebody is signed in again on a page whose session had ended. */
export function onSignedIn(callback: () => void): () => void {
	signedIn.add(callback);
	return () => signedIn.delete(callback);
}

/** Says that a session stands again. */
export function tellSignedIn(): void {
	for (const tell of signedIn) tell();
}

/** Longer than the server's own bound: an answer that is not there by then does not come. */
const patience = 40_000;

/** One query or mutation by POST. The session's cookie goes along by itself; no token is ever held by the page. */
export async function request<Data, Variables>(
	document: TypedDocumentString<Data, Variables>,
	variables: Variables,
	signal?: AbortSignal,
): Promise<Data> {
	let response: Response;
	const late = AbortSignal.timeout(patience);
	try {
		response = await fetch("/graphql", {
			method: "POST",
			headers: { "content-type": "application/json", accept: "application/graphql-response+json, application/json" },
			credentials: "same-origin",
			body: JSON.stringify({ query: document.toString(), variables }),
			signal: signal ? AbortSignal.any([signal, late]) : late,
		});
	} catch (e) {
		if (signal?.aborted) throw e;
		throw new ApiError("NETWORK", late.aborted ? "the server did not answer in time" : "the server cannot be reached");
	}
	const requestId = response.headers.get("x-request-id");
	let body: { data?: Data | null; errors?: unknown[] };
	try {
		body = (await response.json()) as typeof body;
	} catch {
		body = {};
	}
	if (body.errors?.length) {
		const e = fromWire(body.errors);
		if (e.code === "UNAUTHENTICATED") for (const tell of signedOut) tell();
		throw e;
	}
	if (response.status === 401) {
		for (const tell of signedOut) tell();
		throw new ApiError("UNAUTHENTICATED", "nobody is signed in", {}, requestId);
	}
	if (!body.data) throw new ApiError("NETWORK", `the server answered ${response.status} without data`, {}, requestId);
	return body.data;
}
