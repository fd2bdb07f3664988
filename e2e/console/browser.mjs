// Drives the console in Chromium against a running server, as one person with a browser and a second client with a bearer token.
//
//   BASE_URL       where the server is, like http://127.0.0.1:8080
//   SIGN_IN_LINK   a one-time link that `better-compute sign-in` printed
//   API_TOKEN      a bearer token that may operate nodes and book them
//   TENANT         whose nodes (default)
//   JOIN_COMMAND   joins a machine and starts its daemon; run while the page shows that there is no node yet
//   SHOTS          a folder for screenshots; absent: none are made
//   CHROMIUM       the browser (/usr/bin/chromium)
//
// It needs one node that is in service and holds nothing, or JOIN_COMMAND to make one, and leaves it so.

import { execFile } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";

const require = createRequire(new URL("../../console/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const need = (name) => {
	const value = process.env[name];
	if (!value) {
		console.error(`browser: ${name} is not set`);
		process.exit(2);
	}
	return value;
};
const base = need("BASE_URL").replace(/\/$/, "");
const link = need("SIGN_IN_LINK");
const token = need("API_TOKEN");
const tenant = process.env.TENANT ?? "default";
const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

let passed = 0;
let failed = 0;
async function check(name, run) {
	try {
		await run();
		passed++;
		console.log(`ok    ${name}`);
	} catch (e) {
		failed++;
		console.log(`FAIL  ${name}\n      ${String(e?.message ?? e).replaceAll("\n", "\n      ")}`);
		await shot(`failed-${failed}`).catch(() => undefined);
	}
}
function must(condition, sentence) {
	if (!condition) throw new Error(sentence);
}
/** Asks again until the answer is good: the page says when it is ready, no pause decides it. */
async function until(what, ask, ms = 5_000) {
	const end = Date.now() + ms;
	for (;;) {
		const answer = await ask();
		if (answer) return answer;
		if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
		await new Promise((next) => setTimeout(next, 25));
	}
}
async function api(query, variables) {
	const response = await fetch(`${base}/graphql`, {
		method: "POST",
		headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
		body: JSON.stringify({ query, variables }),
	});
	const body = await response.json();
	if (body.errors?.length) throw new Error(`${body.errors[0].extensions?.code}: ${body.errors[0].message}`);
	return body.data;
}
const cordon = (nodeId, reason) =>
	api("mutation ($i: NodeCordonInput!) { nodeCordon(input: $i) { changed node { version } } }", { i: { tenantId: tenant, nodeId, reason } });
const uncordon = (nodeId) =>
	api("mutation ($i: NodeUncordonInput!) { nodeUncordon(input: $i) { changed } }", { i: { tenantId: tenant, nodeId } });

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	headless: true,
	args: [
		"--no-sandbox",
		"--disable-gpu",
		"--disable-quic",
		"--no-first-run",
		"--disable-background-networking",
		"--disable-component-update",
		"--disable-sync",
	],
});
const context = await browser.newContext({ viewport: { width: 1440, height: 860 }, colorScheme: "light", timezoneId: "Europe/Berlin" });
const page = await context.newPage();
const hosts = new Set();
const problems = [];
function watch(page) {
	page.on("request", (r) => r.url().startsWith("http") && hosts.add(new URL(r.url()).host));
	page.on("websocket", (ws) => hosts.add(new URL(ws.url()).host));
	page.on("pageerror", (e) => problems.push(String(e)));
	page.on("console", (m) => m.type() === "error" && !/status of 401/.test(m.text()) && problems.push(m.text()));
}
watch(page);

async function shot(name) {
	if (shots) await page.screenshot({ path: join(shots, `${name}.png`) });
}
async function axe(what) {
	await page.evaluate(axeSource);
	const found = await page.evaluate(async () => {
		const { violations } = await window.axe.run(document, {
			runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
		});
		return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html.slice(0, 160)).join(" | ")}`);
	});
	must(found.length === 0, `axe on ${what}:\n${found.join("\n")}`);
}
const row = (id) => page.locator(`[data-node="${id}"]`);
const rowText = async (id) => (await row(id).innerText()).replaceAll("\n", " ");
const live = (p = page) => p.locator('[data-connection="live"]');

await check("signed out, the page says how to sign in", async () => {
	await page.goto(`${base}/`);
	await page.getByText("better-compute sign-in").waitFor();
	await shot("signed-out");
	await axe("the signed-out page");
});

await check("the link signs in, its secret leaves the address, and no script can read the session", async () => {
	await page.goto(link);
	await page.getByRole("grid", { name: "Nodes" }).or(page.getByText("No nodes yet")).waitFor({ timeout: 15_000 });
	must(!page.url().includes("sign-in"), `the address still holds the secret: ${page.url()}`);
	must(new URL(page.url()).searchParams.get("tenant"), "the address does not name the tenant");
	must((await page.evaluate(() => document.cookie)) === "", "a script can read a cookie");
	const session = (await context.cookies()).find((c) => c.name === "bc_session");
	must(session?.httpOnly && session.sameSite === "Strict", "bc_session is not HttpOnly and SameSite=Strict");
});
if (new URL(page.url()).searchParams.get("tenant") !== tenant) await page.goto(`${base}/nodes?tenant=${tenant}`);

if (process.env.JOIN_COMMAND) {
	await check("a machine that joins while the page is open appears, and comes into service, by itself", async () => {
		await page.getByText("No nodes yet").waitFor();
		await live().waitFor();
		await shot("no-nodes-light");
		await page.evaluate(() => {
			window.sameDocument = true;
		});
		await promisify(execFile)("bash", ["-c", process.env.JOIN_COMMAND]);
		const first = page.locator("[data-node]").first();
		await first.waitFor();
		await until("it is in service", async () => /connected.*yes/.test((await first.innerText()).replaceAll("\n", " ")), 30_000);
		must(await page.evaluate(() => window.sameDocument), "the page was loaded again");
	});
}

const list = () =>
	api(
		"query ($t: ID!) { nodes(tenantId: $t, first: 200) { nodes { id hostname cordoned connectivity placeableFor liveAllocationCount } } }",
		{ t: tenant },
	);
const free = (n) => n.placeableFor === "ALL" && n.liveAllocationCount === 0 && n.connectivity === "CONNECTED";
const node = (await list()).nodes.nodes.find(free);
if (!node) {
	console.error("browser: no node is in service and empty");
	process.exit(2);
}

await check("the page shows the node and is live", async () => {
	await row(node.id).waitFor();
	const text = await rowText(node.id);
	must(text.includes(node.hostname) && text.includes("connected") && text.includes("yes"), text);
	await live().waitFor();
	await page.evaluate(() => {
		window.sameDocument = true;
	});
	await shot("nodes-light");
});

await check("cordon through the dialog changes the row without a reload", async () => {
	await row(node.id).getByRole("button", { name: `Cordon ${node.hostname}` }).click();
	const dialog = page.getByRole("dialog");
	await dialog.getByText("Stops new work from landing on the node.").waitFor();
	await dialog.getByLabel("Reason").fill("BIOS update window");
	await dialog.getByText("The same from a script").click();
	const script = await dialog.innerText();
	must(script.includes(`better-compute nodes cordon ${node.id} --tenant ${tenant} --reason 'BIOS update window' --if-version`), script);
	await shot("dialog-light");
	await axe("the dialog");
	await dialog.getByRole("button", { name: "Cordon", exact: true }).click();
	await dialog.waitFor({ state: "detached" });
	await until("the row says who cordoned it and why", async () => (await rowText(node.id)).includes("BIOS update window"));
	must((await rowText(node.id)).includes("cordoned"), await rowText(node.id));
	must(await page.evaluate(() => window.sameDocument), "the page was loaded again");
});

await check("a reason of 257 characters is counted and not sent", async () => {
	await page.getByRole("grid").focus();
	await row(node.id).click({ position: { x: 300, y: 8 } });
	await page.keyboard.press("u");
	const dialog = page.getByRole("dialog");
	must((await dialog.getByLabel("Reason").inputValue()) === "", "the key that opened the dialog was typed into it");
	await dialog.getByLabel("Reason").fill("é".repeat(257));
	await dialog.getByText("257 of 256: too long").waitFor();
	must((await dialog.getByRole("button", { name: "Uncordon", exact: true }).getAttribute("aria-disabled")) === "true", "it can be sent");
	await page.keyboard.press("Escape");
	await dialog.waitFor({ state: "detached" });
});

await check("another client's change appears by itself", async () => {
	await uncordon(node.id);
	await until("the row is in service again", async () => (await row(node.id).getByRole("button", { name: `Cordon ${node.hostname}` }).count()) === 1);
	await cordon(node.id, "rack move");
	await until("the row shows the other client's reason", async () => (await rowText(node.id)).includes("rack move"));
	await uncordon(node.id);
	await until("and that it was lifted", async () => !(await rowText(node.id)).includes("rack move"));
	must(await page.evaluate(() => window.sameDocument), "the page was loaded again");
});

await check("a node that changed under the open dialog is shown as changed, and the form is kept", async () => {
	await row(node.id).getByRole("button", { name: `Drain ${node.hostname}` }).click();
	const dialog = page.getByRole("dialog");
	await dialog.getByLabel("Reason").fill("replace PSU");
	await cordon(node.id, "mine first");
	await dialog.getByText("Changed since you opened this").waitFor();
	await dialog.getByText("mine first").first().waitFor();
	await shot("conflict-light");
	must((await dialog.getByLabel("Reason").inputValue()) === "replace PSU", "the reason was lost");
	await page.keyboard.press("Escape");
	await uncordon(node.id);
	await until("the node is in service", async () => (await row(node.id).getByRole("button", { name: `Cordon ${node.hostname}` }).count()) === 1);
});

await check("a version that went stale on its way is answered by CONFLICT with code and request id", async () => {
	// The stream is held back here, so that the page cannot know what the other client did.
	const deaf = await context.newPage();
	await deaf.routeWebSocket(/graphql/, () => undefined);
	await deaf.goto(`${base}/nodes?tenant=${tenant}`);
	const there = deaf.locator(`[data-node="${node.id}"]`);
	await there.getByRole("button", { name: `Drain ${node.hostname}` }).click();
	await cordon(node.id, "unseen");
	const dialog = deaf.getByRole("dialog");
	await dialog.getByRole("button", { name: "Drain", exact: true }).click();
	await dialog.getByText("CONFLICT").waitFor();
	await dialog.getByText("request ").first().waitFor();
	await dialog.getByText("unseen").first().waitFor();
	if (shots) await deaf.screenshot({ path: join(shots, "conflict-answer-light.png") });
	await deaf.close();
	await uncordon(node.id);
});

let reservationId = "";
await check("a drain of a booked node waits and names its blocker, then is drained when the booking is released", async () => {
	const booked = await api(
		"mutation ($i: ReservationCreateInput!) { reservationCreate(input: $i) { reservation { id } } }",
		{ i: { tenantId: tenant, nodeId: node.id, durationSeconds: 3600, reason: "a training run" } },
	);
	reservationId = booked.reservationCreate.reservation.id;
	await until("the row counts the allocation", async () => (await row(node.id).locator(".col-live").innerText()) === "1");
	await page.getByRole("grid").focus();
	await row(node.id).click({ position: { x: 300, y: 8 } });
	await page.keyboard.press("d");
	const dialog = page.getByRole("dialog");
	await dialog.getByLabel("Reason").fill("replace PSU");
	await dialog.getByRole("button", { name: "Drain", exact: true }).click();
	await dialog.waitFor({ state: "detached" });
	const again = row(node.id).getByRole("button", { name: `Drain ${node.hostname}` });
	await until("no drain is offered while one runs", async () => (await again.getAttribute("aria-disabled")) === "true");
	await again.hover();
	must(/drain/.test(await page.getByRole("tooltip").innerText()), "it does not say why it is not offered");
	await until("the row names what is left", async () => /1 left, empty in (59 min|1 h)/.test(await rowText(node.id)));
	await row(node.id).click({ position: { x: 300, y: 8 } });
	await page.keyboard.press("Enter");
	const panel = page.getByRole("complementary", { name: "Node" });
	await panel.getByText("Draining for").waitFor();
	await until("the panel names the blocker", async () => (await panel.innerText()).includes(reservationId));
	await shot("draining-light");
	await axe("the grid and the panel");
	await api("mutation ($i: ReservationReleaseInput!) { reservationRelease(input: $i) { changed } }", {
		i: { tenantId: tenant, reservationId },
	});
	reservationId = "";
	await until("the row says drained", async () => /drained just now/.test(await rowText(node.id)));
	await panel.getByText(/^Drained .*still cordoned/).waitFor();
	const events = panel.getByRole("list", { name: "Events, newest first" });
	await until("the history tells of it", async () => (await events.innerText()).includes("drained"));
	must((await rowText(node.id)).includes("cordoned"), "the node must stay cordoned");
	must(await page.evaluate(() => window.sameDocument), "the page was loaded again");
	await shot("drained-light");
});

await check("uncordon by key puts it back into service", async () => {
	await page.keyboard.press("Escape");
	await page.getByRole("complementary", { name: "Node" }).waitFor({ state: "detached" });
	await page.keyboard.press("Home");
	const names = async () => page.locator('[aria-selected="true"]').getAttribute("data-node");
	for (let i = 0; i < 200 && (await names()) !== node.id; i++) await page.keyboard.press("j");
	must((await names()) === node.id, "j did not reach the node");
	await page.keyboard.press("u");
	const dialog = page.getByRole("dialog");
	await dialog.getByRole("button", { name: "Uncordon", exact: true }).click();
	await dialog.waitFor({ state: "detached" });
	await until("the row is in service", async () => (await rowText(node.id)).includes("yes"));
});

await check("the filter is in the address, and the address alone shows the same", async () => {
	await page.keyboard.press("/");
	await page.keyboard.type(node.hostname);
	await until("the address holds the filter", () => new URL(page.url()).searchParams.get("q")?.includes(node.hostname));
	await row(node.id).waitFor();
	await page.getByRole("button", { name: "Cordoned" }).click();
	await page.getByText("matches these filters").waitFor();
	await page.reload();
	await page.getByText("matches these filters").waitFor();
	await page.getByRole("button", { name: "Remove the filters" }).click();
	await row(node.id).waitFor();
	await live().waitFor();
});

await check("a cut connection is said, and what happened meanwhile arrives when it is back", async () => {
	const other = await context.newPage();
	let down = false;
	let cut = () => undefined;
	await other.routeWebSocket(/graphql/, (ws) => {
		if (down) return ws.close({ code: 1012, reason: "down" });
		const server = ws.connectToServer();
		cut = () => {
			server.close();
			ws.close({ code: 1012, reason: "cut" });
		};
	});
	await other.goto(`${base}/nodes?tenant=${tenant}`);
	const there = other.locator(`[data-node="${node.id}"]`);
	await there.waitFor();
	await live(other).waitFor();
	down = true;
	cut();
	await other.getByText(/data from \d\d:\d\d:\d\d/).first().waitFor();
	await cordon(node.id, "while you were away");
	await other.getByText("The connection to the server is lost").waitFor({ timeout: 10_000 });
	if (shots) await other.screenshot({ path: join(shots, "stale-light.png") });
	must(!(await there.innerText()).includes("while you were away"), "the page must not know it yet");
	down = false;
	await live(other).waitFor({ timeout: 40_000 });
	await until("the missed event arrived", async () => (await there.innerText()).includes("while you were away"));
	await other.close();
	await uncordon(node.id);
});

await check("dark, with nothing for axe to find", async () => {
	await page.emulateMedia({ colorScheme: "dark" });
	await page.getByRole("grid").focus();
	await page.keyboard.press("Home");
	await axe("the grid in the dark");
	await shot("nodes-dark");
	await page.keyboard.press("Enter");
	await page.getByRole("complementary", { name: "Node" }).getByText("Events").waitFor();
	await axe("the panel in the dark");
	await shot("panel-dark");
	await page.keyboard.press("?");
	await page.getByRole("dialog").getByText("Single-key shortcuts").waitFor();
	await axe("the keys in the dark");
	await page.keyboard.press("Escape");
	await row(node.id).getByRole("button", { name: `Drain ${node.hostname}` }).click();
	await page.getByRole("dialog").waitFor();
	await axe("the dialog in the dark");
	await shot("dialog-dark");
	await page.keyboard.press("Escape");
});

await check("narrow, it still works", async () => {
	await page.emulateMedia({ colorScheme: "light" });
	await page.goto(`${base}/nodes?tenant=${tenant}`);
	await page.setViewportSize({ width: 640, height: 800 });
	await row(node.id).getByRole("button", { name: `Cordon ${node.hostname}` }).waitFor();
	await axe("the narrow page");
	await shot("narrow-light");
});

await check("the playground runs a query, completes by the schema, and follows events, signed in by the session alone", async () => {
	const play = await context.newPage();
	watch(play);
	const workers = new Set();
	play.on("worker", (w) => workers.add(new URL(w.url()).pathname.replace(/.*\/|-.*/g, "")));
	await play.goto(`${base}/playground`);
	await play.getByRole("tab", { name: "ListNodes" }).waitFor({ timeout: 30_000 });
	const titles = await play.getByRole("tab").allInnerTexts();
	for (const name of ["ListNodes", "Cordon", "Drain", "FollowEvents"]) must(titles.some((t) => t.includes(name)), `tabs: ${titles.join(", ")}`);
	const answer = async () => (await play.locator(".graphiql-response .view-lines").innerText()).replaceAll("\u00a0", " ");
	const editor = play.locator(".graphiql-query-editor .view-lines").first();
	const text = async () => (await editor.innerText()).replaceAll("\u00a0", " ").trim();
	await until("the first tab's query stands there", async () => (await text()).includes("query ListNodes"), 15_000);
	await until("and its variables", async () => /"tenantId"/.test(await play.locator(".graphiql-editor-tool .view-lines").first().innerText()), 15_000);
	await play.getByRole("button", { name: /Execute query/ }).click();
	await until("the first tab lists the node", async () => (await answer()).includes(node.id), 15_000);
	await play.getByRole("button", { name: /New tab/ }).click();
	await until("the new tab is empty", async () => (await text()) === "");
	await editor.click();
	await play.keyboard.press("Control+A");
	await play.keyboard.insertText("{ viewer { name } }");
	await until("the query stands there", async () => (await text()) === "{ viewer { name } }");
	await play.keyboard.press("Control+Enter");
	await until("the answer names who is signed in", async () => /"name": "admin"/.test(await answer()), 15_000);
	await until("the editor's workers run", () => workers.has("graphql.worker") && workers.has("json.worker"), 15_000);
	if (shots) await play.screenshot({ path: join(shots, "playground.png") });
	await play.getByRole("tab", { name: "FollowEvents" }).click();
	await play.getByRole("button", { name: /Execute query/ }).click();
	await play.getByRole("button", { name: /Stop query/ }).waitFor();
	let times = 0;
	await until("an event arrives", async () => {
		if (times++ % 40 === 0) await cordon(node.id, "seen in the playground").then(() => uncordon(node.id));
		return (await answer()).includes("node.uncordoned");
	}, 15_000);
	await play.close();
});

await check("nothing asked another host, and no error was thrown or logged", async () => {
	const own = new URL(base).host;
	must([...hosts].every((h) => h === own), `asked: ${[...hosts].join(", ")}`);
	must(problems.length === 0, problems.join("\n"));
});

await check("signing out ends the session on the server, for every page of it", async () => {
	await page.setViewportSize({ width: 1440, height: 860 });
	const other = await context.newPage();
	await other.goto(`${base}/nodes?tenant=${tenant}`);
	await live(other).waitFor();
	await page.getByRole("button", { name: "Sign out" }).click();
	await page.getByText("You are signed out").waitFor();
	await other.getByText("You are signed out").waitFor({ timeout: 30_000 });
	await page.goto(`${base}/nodes`);
	await page.getByText("You are signed out").waitFor();
});

if (reservationId)
	await api("mutation ($i: ReservationReleaseInput!) { reservationRelease(input: $i) { changed } }", {
		i: { tenantId: tenant, reservationId },
	}).catch(() => undefined);
await browser.close();
console.log(`browser: ${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
