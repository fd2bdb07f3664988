// One person with a browser and a second client with a bearer token, on a control plane that a real machine joins while the page is open.
import { Checks, live, must, openBrowser, Plane, row, rowText, until } from "./rig.mjs";

const plane = await Plane.start();
const { browser, context } = await openBrowser();
const checks = new Checks("flows");
const { check } = checks;
const page = await context.newPage();
checks.watch(page);
checks.pages = () => [page];
const at = (path) => `${plane.base}${path}${path.includes("?") ? "&" : "?"}tenant=${plane.tenant}`;
const grid = page.getByRole("grid", { name: "Nodes" });
const mark = () => page.evaluate(() => void (window.sameDocument = true));
const same = async () => must(await page.evaluate(() => window.sameDocument), "the page was loaded again");

await check("signed out, the page says how to sign in", async () => {
	await page.goto(`${plane.base}/`);
	await page.getByText("better-compute sign-in").waitFor();
});

await check("the link signs in, its secret leaves the address, and no script can read the session", async () => {
	await page.goto(await plane.signInLink());
	await page.getByText("No nodes yet").waitFor({ timeout: 15_000 });
	must(!page.url().includes("sign-in"), `the address still holds the secret: ${page.url()}`);
	must(new URL(page.url()).searchParams.get("tenant"), "the address does not name the tenant");
	must((await page.evaluate(() => document.cookie)) === "", "a script can read a cookie");
	const session = (await context.cookies()).find((c) => c.name === "bc_session");
	must(session?.httpOnly && session.sameSite === "Strict", "bc_session is not HttpOnly and SameSite=Strict");
});

await check("an empty tenant without a pool says how to make one", async () => {
	await plane.api('mutation { tenantCreate(input: { tenantId: "bare" }) { changed } }');
	await page.goto(`${plane.base}/nodes?tenant=bare`);
	await page.getByText("better-compute pools create default --tenant bare").waitFor();
	await page.goto(at("/nodes"));
});

let node;
await check("a machine that joins while the page is open appears, and comes into service, by itself", async () => {
	await page.getByText("No nodes yet").waitFor();
	await page.getByText("better-compute join-tokens create --tenant default --pool default").waitFor();
	await live(page).waitFor();
	await mark();
	await plane.join();
	const first = page.locator("[data-node]").first();
	await first.waitFor();
	await until("it is in service", async () => /connected.*yes/.test((await first.innerText()).replaceAll("\n", " ")), 30_000);
	await same();
	node = { id: await first.getAttribute("data-node") };
	node.hostname = (await first.getByRole("link").innerText()).trim();
});

const button = (verb) => row(page, node.id).getByRole("button", { name: `${verb} ${node.hostname}` });
const text = () => rowText(page, node.id);

await check("cordon through the dialog changes the row without a reload; the dialog says what stays, and the same for a script", async () => {
	await button("Cordon").click();
	const dialog = page.getByRole("dialog");
	await dialog.getByText("Stops new work from landing on the node.").waitFor();
	await dialog.getByText("Commands still flow, and the node stays connected.").waitFor();
	await dialog.getByLabel("Reason").fill("BIOS update window");
	await dialog.getByText("The same from a script").click();
	const script = await dialog.innerText();
	must(script.includes(`better-compute nodes cordon ${node.id} --tenant default --reason 'BIOS update window' --if-version`), script);
	must(script.includes("nodeCordon(input: {"), script);
	await dialog.getByRole("button", { name: "Copy the command" }).click();
	must((await page.evaluate(() => navigator.clipboard.readText())).startsWith("better-compute nodes cordon"), "the command was not copied");
	await dialog.getByRole("button", { name: "Cordon", exact: true }).click();
	await dialog.waitFor({ state: "detached" });
	await until("the row says who cordoned it and why", async () => (await text()).includes("BIOS update window"));
	await same();
});

await check("H1 a reason of 257 characters is counted and not sent", async () => {
	await grid.focus();
	await row(page, node.id).click({ position: { x: 300, y: 8 } });
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
	await plane.uncordon(node.id);
	await button("Cordon").waitFor();
	await plane.cordon(node.id, "rack move");
	await until("the row shows the other client's reason", async () => (await text()).includes("rack move"));
	await plane.uncordon(node.id);
	await until("and that it was lifted", async () => !(await text()).includes("rack move"));
	await same();
});

await check("a node that changed under the open dialog is shown as changed, and the form is kept", async () => {
	await button("Drain").click();
	const dialog = page.getByRole("dialog");
	await dialog.getByLabel("Reason").fill("replace PSU");
	await plane.cordon(node.id, "mine first");
	await dialog.getByText("Changed since you opened this").waitFor();
	await dialog.getByText("mine first").first().waitFor();
	must((await dialog.getByLabel("Reason").inputValue()) === "replace PSU", "the reason was lost");
	await page.keyboard.press("Escape");
	await plane.uncordon(node.id);
	await button("Cordon").waitFor();
});

await check("a version that went stale on its way is answered by CONFLICT with code and request id", async () => {
	// The stream is held back here, so that the page cannot know what the other client did.
	const deaf = await context.newPage();
	await deaf.routeWebSocket(/graphql/, () => undefined);
	await deaf.goto(at("/nodes"));
	await row(deaf, node.id).getByRole("button", { name: `Drain ${node.hostname}` }).click();
	await plane.cordon(node.id, "unseen");
	const dialog = deaf.getByRole("dialog");
	await dialog.getByRole("button", { name: "Drain", exact: true }).click();
	await dialog.getByText("CONFLICT").waitFor();
	await dialog.getByText("request ").first().waitFor();
	await dialog.getByText("unseen").first().waitFor();
	await deaf.close();
	await plane.uncordon(node.id);
	await button("Cordon").waitFor();
});

await check("a node is found by its name, opened, and its page says what the machine is", async () => {
	await page.keyboard.press("/");
	await page.keyboard.type(node.hostname);
	await until("the address holds the filter", () => new URL(page.url()).searchParams.get("q")?.includes(node.hostname));
	await row(page, node.id).waitFor();
	await page.keyboard.press("Enter");
	await page.keyboard.press("j");
	await page.keyboard.press("Enter");
	await page.getByRole("heading", { name: node.hostname, level: 1 }).waitFor();
	must(new URL(page.url()).pathname === `/nodes/${node.id}`, page.url());
	const main = page.getByRole("main");
	await main.getByText("In service").waitFor();
	await main.getByText("Certificates, newest first").waitFor();
	await until("the certificate is active", async () => (await main.getByRole("region", { name: "Identity" }).innerText()).includes("active"));
	const machine = await main.getByRole("region", { name: "Machine" }).innerText();
	must(/Memory\s+[\d.]+ (Gi|Ti)B/.test(machine) && /bcd \S+/.test(machine), machine);
	const history = main.getByRole("list", { name: "Events, newest first" });
	await until("its history begins with the join", async () => /joined/.test(await history.innerText()));
	await page.keyboard.press("Escape");
	await row(page, node.id).waitFor();
	must(new URL(page.url()).searchParams.get("q") === node.hostname, "the filter was lost on the way back");
	await page.goto(at("/nodes"));
	await mark();
});

let reservation = "";
await check("B2 a drain of a booked node waits and names its blocker, then is drained when the booking is released", async () => {
	reservation = await plane.book(node.id, { durationSeconds: 3600, reason: "a training run" });
	await until("the row counts the allocation", async () => (await row(page, node.id).locator(".col-live").innerText()) === "1");
	await grid.focus();
	await row(page, node.id).click({ position: { x: 300, y: 8 } });
	await page.keyboard.press("d");
	const dialog = page.getByRole("dialog");
	await dialog.getByText("Waits until its 1 live allocation").waitFor();
	await dialog.getByLabel("Reason").fill("replace PSU");
	await dialog.getByRole("button", { name: "Drain", exact: true }).click();
	await dialog.waitFor({ state: "detached" });
	await until("no drain is offered while one runs", async () => (await button("Drain").getAttribute("aria-disabled")) === "true");
	await button("Drain").hover();
	must(/drain/.test(await page.getByRole("tooltip").innerText()), "it does not say why it is not offered");
	await until("the row names what is left", async () => /1 left · in (59 min|1 h)/.test(await text()));
	await page.mouse.move(0, 0);
	await grid.focus();
	await page.keyboard.press("o");
	const peek = page.getByRole("complementary", { name: "Node" });
	await peek.getByText("Expected to be empty at").waitFor();
	await peek.getByRole("heading", { name: "Waits for" }).waitFor();
	await peek.getByTitle(reservation).first().waitFor();
	must(new URL(page.url()).searchParams.get("peek") === node.id, "the address does not say what stands beside");
	await plane.release(reservation);
	reservation = "";
	await until("the row says drained", async () => /drained just now/.test(await text()));
	await peek.getByText("still cordoned").waitFor();
	await until("the history tells of it", async () => (await peek.getByRole("list", { name: "Events, newest first" }).innerText()).includes("drained"));
	must((await text()).includes("cordoned"), "the node must stay cordoned");
	await same();
});

await check("the board shows the node as drained and still held, and uncordon there takes it off", async () => {
	await page.keyboard.press("Escape");
	await page.getByRole("complementary", { name: "Node" }).waitFor({ state: "detached" });
	await page.keyboard.press("g");
	await page.keyboard.press("d");
	const board = page.getByRole("region", { name: "Cordoned, not draining" });
	const held = board.locator(`[data-node="${node.id}"]`);
	await until("the row says that it is empty", async () => (await held.innerText()).includes("yes"));
	await held.getByRole("button", { name: `Uncordon ${node.hostname}` }).click();
	await page.getByRole("dialog").getByRole("button", { name: "Uncordon", exact: true }).click();
	await page.getByRole("dialog").waitFor({ state: "detached" });
	await until("it is held no longer", async () => (await held.innerText()).includes("no longer"));
	await board.getByRole("button", { name: "Clear 1 that left" }).click();
	await board.getByText("No node is held back by a cordon alone.").waitFor();
	await same();
});

await check("a drain that another begins shows up on the board, and leaves it when it is cancelled", async () => {
	reservation = await plane.book(node.id, { reason: "no end" });
	await plane.drain(node.id, "begun elsewhere");
	const board = page.getByRole("region", { name: "Draining", exact: true });
	const there = board.locator(`[data-node="${node.id}"]`);
	await until("it says that no end is in sight", async () => (await there.innerText()).includes("no end is in sight"));
	await plane.uncordon(node.id);
	await until("it says that it ended", async () => (await there.innerText()).includes("ended before it was empty"));
	await plane.release(reservation);
	reservation = "";
	await same();
});

await check("the feed tells what happens, paused it counts and loses nothing, and filters are in the address", async () => {
	await page.keyboard.press("g");
	await page.keyboard.press("e");
	const lines = page.locator("[data-event]");
	await lines.first().waitFor();
	await page.getByLabel("Kind").selectOption("cordons");
	await until("the address holds the kind", () => new URL(page.url()).searchParams.get("type") === "cordons");
	await until("only cordons are left", async () => {
		const texts = await lines.allInnerTexts();
		return texts.length > 0 && texts.every((t) => t.includes("cordoned"));
	});
	const before = await lines.count();
	await page.getByRole("main").click({ position: { x: 700, y: 500 } });
	await page.keyboard.press("Space");
	await page.getByRole("button", { name: "Go on" }).waitFor();
	await plane.cordon(node.id, "seen while paused");
	await plane.uncordon(node.id);
	await page.getByRole("button", { name: "2 new" }).waitFor();
	must((await lines.count()) === before, "the list moved while it was paused");
	await page.keyboard.press("Space");
	await until("both are there", async () => (await lines.count()) === before + 2);
	must((await lines.nth(1).innerText()).includes("seen while paused"), await lines.nth(1).innerText());
	await same();
});

await check("uncordon by key puts it back into service", async () => {
	await plane.cordon(node.id, "for the key");
	await page.goto(at("/nodes"));
	await row(page, node.id).waitFor();
	await grid.focus();
	await page.keyboard.press("Home");
	must((await page.locator('[aria-selected="true"]').getAttribute("data-node")) === node.id, "Home did not reach the node");
	await page.keyboard.press("u");
	const dialog = page.getByRole("dialog");
	await dialog.getByRole("button", { name: "Uncordon", exact: true }).click();
	await dialog.waitFor({ state: "detached" });
	await until("the row is in service", async () => (await text()).includes("yes"));
});

await check("the address alone shows the same: filter, order, and that nothing matches", async () => {
	await page.goto(at(`/nodes?q=${node.hostname}&cordoned=true&order=out`));
	await page.getByText("matches these filters").waitFor();
	await page.reload();
	await page.getByText("matches these filters").waitFor();
	must((await page.getByLabel("Order").inputValue()) === "out", "the order was lost");
	await page.getByRole("button", { name: "Remove the filters" }).click();
	await row(page, node.id).waitFor();
});

await check("single keys can be turned off, and stay off", async () => {
	await page.keyboard.press("?");
	await page.getByRole("dialog").getByLabel("Single-key shortcuts").uncheck();
	await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
	await page.getByRole("dialog").waitFor({ state: "detached" });
	await page.reload();
	await row(page, node.id).waitFor();
	await grid.focus();
	await page.keyboard.press("Home");
	await page.keyboard.press("d");
	await page.keyboard.press("ArrowDown");
	must((await page.getByRole("dialog").count()) === 0, "the key still acts");
	await page.getByRole("button", { name: /Menu of/ }).click();
	await page.getByRole("menuitem", { name: /Keys/ }).click();
	await page.getByRole("dialog").getByLabel("Single-key shortcuts").check();
	await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
});

await check("the reader's choice of dark and of UTC holds against the system's, and stays", async () => {
	const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
	const bright = await background();
	await page.getByRole("button", { name: /Menu of/ }).click();
	await page.getByRole("menuitemradio", { name: "Dark" }).click();
	await page.getByRole("menuitemradio", { name: "UTC" }).click();
	await page.keyboard.press("Escape");
	must((await background()) !== bright, "it is not dark");
	await page.goto(at(`/nodes/${node.id}`));
	await page.getByText("times in UTC").waitFor();
	must((await background()) !== bright, "the choice was lost");
	await page.evaluate(() => localStorage.clear());
});

await check("who asks for less motion sees none", async () => {
	await page.emulateMedia({ reducedMotion: "reduce" });
	await page.goto(at("/nodes"));
	await row(page, node.id).waitFor();
	await live(page).waitFor();
	await plane.cordon(node.id, "without a flash");
	await until("the change is there", async () => (await text()).includes("without a flash"));
	must((await page.evaluate(() => document.getAnimations().filter((a) => a.playState === "running").length)) === 0, "something moves");
	await page.emulateMedia({ reducedMotion: "no-preference" });
	await plane.uncordon(node.id);
});

await check("the playground runs a query, completes by the schema, and follows events, signed in by the session alone", async () => {
	const play = await context.newPage();
	checks.watch(play);
	const workers = new Set();
	play.on("worker", (w) => workers.add(new URL(w.url()).pathname.replace(/.*\/|-.*/g, "")));
	await page.getByRole("button", { name: /Menu of/ }).click();
	must((await page.getByRole("menuitem", { name: "GraphQL playground" }).getAttribute("href")) === "/playground", "no link to it");
	must((await page.getByRole("menuitem", { name: "Jobs" }).getAttribute("href")) === "/jobs/", "the admin has no link to the jobs");
	await page.keyboard.press("Escape");
	await play.goto(`${plane.base}/playground`);
	await play.getByRole("tab", { name: "ListNodes" }).waitFor({ timeout: 30_000 });
	const titles = await play.getByRole("tab").allInnerTexts();
	for (const name of ["ListNodes", "Cordon", "Drain", "FollowEvents"]) must(titles.some((t) => t.includes(name)), `tabs: ${titles.join(", ")}`);
	const answer = async () => (await play.locator(".graphiql-response .view-lines").innerText()).replaceAll("\u00a0", " ");
	const editor = play.locator(".graphiql-query-editor .view-lines").first();
	const query = async () => (await editor.innerText()).replaceAll("\u00a0", " ").trim();
	await until("the first tab's query stands there", async () => (await query()).includes("query ListNodes"), 15_000);
	await until("and its variables", async () => /"tenantId"/.test(await play.locator(".graphiql-editor-tool .view-lines").first().innerText()), 15_000);
	await play.getByRole("button", { name: /Execute query/ }).click();
	await until("the first tab lists the node", async () => (await answer()).includes(node.id), 15_000);
	await play.getByRole("button", { name: /New tab/ }).click();
	await until("the new tab is empty", async () => (await query()) === "");
	await editor.click();
	await play.keyboard.press("Control+A");
	await play.keyboard.insertText("{ viewer { name } }");
	await until("the query stands there", async () => (await query()) === "{ viewer { name } }");
	await play.keyboard.press("Control+Enter");
	await until("the answer names who is signed in", async () => /"name": "admin"/.test(await answer()), 15_000);
	await until("the editor's workers run", () => workers.has("graphql.worker") && workers.has("json.worker"), 15_000);
	await play.getByRole("tab", { name: "FollowEvents" }).click();
	await play.getByRole("button", { name: /Execute query/ }).click();
	await play.getByRole("button", { name: /Stop query/ }).waitFor();
	let times = 0;
	await until("an event arrives", async () => {
		if (times++ % 40 === 0) await plane.cordon(node.id, "seen in the playground").then(() => plane.uncordon(node.id));
		return (await answer()).includes("node.uncordoned");
	}, 15_000);
	await play.close();
});

await check("nothing asked another host, and no error was thrown or logged", async () => {
	const own = new URL(plane.base).host;
	must([...checks.hosts].every((h) => h === own), `asked: ${[...checks.hosts].join(", ")}`);
	must(checks.problems.length === 0, checks.problems.join("\n"));
});

await check("signing out ends the session on the server, for every page of it", async () => {
	const other = await context.newPage();
	await other.goto(at("/nodes"));
	await live(other).waitFor();
	await page.getByRole("button", { name: /Menu of/ }).click();
	await page.getByRole("menuitem", { name: "Sign out" }).click();
	await page.getByText("You are signed out").waitFor();
	await other.getByText("Your session has ended").waitFor({ timeout: 30_000 });
	must((await other.getByRole("grid").count()) === 0 || !(await other.getByRole("grid").isVisible()), "its data can still be seen");
	await page.goto(`${plane.base}/nodes`);
	await page.getByText("You are signed out").waitFor();
});

await browser.close();
await plane.stop(checks.failed > 0);
checks.end();
