import { ApiError, type Code } from "./client";

/** Takes the one-time secret out of the address, so that neither history nor a copied link keeps it. */
export function takeSecret(location: Location, history: History): string | null {
	const secret = new URLSearchParams(location.hash.replace(/^#/, "")).get("sign-in");
	if (secret === null) return null;
	history.replaceState(history.state, "", location.pathname + location.search);
	return secret;
}

async function post(path: string, body: unknown): Promise<void> {
	let response: Response;
	try {
		response = await fetch(path, {
			method: "POST",
			headers: { "content-type": "application/json", accept: "application/json" },
			credentials: "same-origin",
			body: JSON.stringify(body),
		});
	} catch {
		throw new ApiError("NETWORK", "the server cannot be reached");
	}
	if (response.ok) return;
	const answer = (await response.json().catch(() => ({}))) as {
		code?: Code;
		message?: string;
		requestId?: string;
		errors?: { message?: string; extensions?: { code?: Code; requestId?: string } }[];
	};
	const first = answer.errors?.[0];
	throw new ApiError(
		answer.code ?? first?.extensions?.code ?? (response.status === 401 ? "UNAUTHENTICATED" : "UNAVAILABLE"),
		answer.message ?? first?.message ?? `the server answered ${response.status}`,
		{},
		answer.requestId ?? first?.extensions?.requestId ?? null,
	);
}

/** Changes the link's secret into the session's cookie, which the page itself cannot read. */
export const claim = (secret: string) => post("/session/claim", { secret });

/** Ends the session on the server, and its cookie with it. */
export const end = () => post("/session/end", {});
