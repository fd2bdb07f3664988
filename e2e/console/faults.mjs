// What can go wrong between a page and its server: a cut, a sleep, a restart, a log that no longer holds what the page has seen, a session that ends.
import { nodeId, plain } from "./fleet.mjs";
import { Checks, live, must, openBrowser, Plane, row, rowText, until } from "./rig.mjs";

const plane = await Plane.start();
await plain(plane, 400);
const { browser, context } = await openBrowser();
const checks = new Checks("faults");
checks.pages = () => context.pages();
const at = (path) => `${plane.base}${path}${path.includes("?") ? "&" : "?"}tenant=${plane.tenant}`;
const [a, b, c] = [nodeId(1), nodeId(2), nodeId(3)];
const open = async (path, page) => {
	page ??= await context.newPage();
	checks.watch(page);
	await page.goto(at(path));
	await live(page).waitFor();
	return page;
};
const says = (page, id, words) => until(`the row says ${words}`, async () => (await rowText(page, id)).includes(words), 20_000);
/** What a page of events shows, newest first, and what the log holds. */
const shown = (page) => page.locator("[data-event]").evaluateAll((rows) => rows.map((r) => [r.getAttribute("aria-rowindex"), r.dataset.event]).sort((x, y) => x[0] - y[0]).map((r) => r[1]));
const logged = async (first) => (await plane.api("query ($n: Int!) { events(tenantId: \"default\", first: $n) { nodes { id } } }", { n: first })).events.nodes.map((e) => e.id);
const agree = (page) =>
	until("the feed holds what the log holds, each once and in order", async () => {
		const on = await shown(page);
		return on.length > 0 && on.join() === (await logged(on.length)).join();
	}, 20_000);
/** Each check begins with pages closed and nodes in service, whatever became of the one before. */
const check = (name, run) =>
	checks.check(name, async () => {
		for (const page of context.pages()) await page.close();
		for (const id of [a, b, c]) await plane.uncordon(id);
		await run();
	});

{
	const page = await context.newPage();
	await page.goto(await plane.signInLink());
	await page.getByRole("grid").waitFor({ timeout: 15_000 });
	await page.close();
}
for (let i = 0; i < 20; i++) {
	await plane.cordon(a, `early ${i}`);
	await plane.uncordon(a);
}

await check("nothing jumps under the pointer while others change, join and leave", async () => {
	const page = await open("/nodes?cordoned=true");
	await plane.cordon(a, "first");
	await plane.cordon(c, "third");
	await row(page, c).waitFor();
	await row(page, c).hover();
	const before = await row(page, c).boundingBox();
	await plane.uncordon(a);
	await plane.cordon(b, "between the two by name");
	await row(page, b).waitFor();
	await page.getByText("1 row no longer matches").waitFor();
	const after = await row(page, c).boundingBox();
	must(before.y === after.y && before.x === after.x, "the row moved");
	must(await row(page, c).evaluate((r) => r.matches(":hover")), "the pointer is over something else");
	await page.getByRole("button", { name: /refresh/ }).click();
	await row(page, a).waitFor({ state: "detached" });
	for (const id of [b, c]) await plane.uncordon(id);
	await page.close();
});

await check("a long list is read page by page, never whole, and stays live where it is looked at", async () => {
	const page = await context.newPage();
	let bytes = 0;
	const asked = [];
	page.on("request", (r) => r.url().endsWith("/graphql") && r.postData()?.includes("query Nodes(") && asked.push(JSON.parse(r.postData()).variables.first));
	page.on("response", async (r) => r.url().endsWith("/graphql") && (bytes += (await r.body().catch(() => "")).length));
	await open("/nodes", page);
	await page.getByText("60 of 400 nodes").waitFor();
	must(asked.length === 1 && asked[0] === 60, `asked for ${asked.join()}`);
	const grid = page.getByRole("grid");
	must((await grid.getAttribute("aria-rowcount")) === "401", "a screen reader is told another count");
	await grid.evaluate((g) => g.scrollTo(0, 40 * 28));
	await page.getByText("260 of 400 nodes").waitFor();
	await grid.evaluate((g) => g.scrollTo(0, 180 * 28));
	await row(page, nodeId(185)).waitFor();
	await until("the rows in view are followed", async () => {
		await plane.cordon(nodeId(185), "far below");
		await new Promise((done) => setTimeout(done, 300));
		const said = (await rowText(page, nodeId(185))).includes("far below");
		await plane.uncordon(nodeId(185));
		return said;
	}, 10_000);
	await plane.cordon(nodeId(4), "while it rested");
	await grid.evaluate((g) => g.scrollTo(0, 0));
	await says(page, nodeId(4), "while it rested");
	await plane.uncordon(nodeId(4));
	await page.close();
});

await check("a cut connection is said, the data looks stale, and what happened meanwhile arrives when it is back", async () => {
	const page = await context.newPage();
	let down = false;
	let cut = () => undefined;
	let sockets = 0;
	await page.routeWebSocket(/graphql/, (ws) => {
		if (down) return ws.close({ code: 1012, reason: "down" });
		sockets++;
		const server = ws.connectToServer();
		cut = () => {
			server.close();
			ws.close({ code: 1012, reason: "cut" });
		};
	});
	await open("/nodes", page);
	must(sockets === 1, `the page has ${sockets} sockets`);
	down = true;
	cut();
	await page.getByText(/data from \d\d:\d\d:\d\d/).first().waitFor();
	await plane.cordon(a, "while you were away");
	await page.getByText("The connection to the server is lost").waitFor();
	await until("the data looks stale", async () => (await page.locator("#nodes.stale").count()) === 1);
	must(!(await rowText(page, a)).includes("while you were away"), "the page must not know it yet");
	down = false;
	await live(page).waitFor({ timeout: 40_000 });
	await says(page, a, "while you were away");
	await until("the data looks fresh again", async () => (await page.locator("#nodes.stale").count()) === 0);
	must(sockets === 2, `the page made ${sockets} sockets`);
	await page.close();
	await plane.uncordon(a);
});

await check("G6 after ten minutes asleep the page finds that its socket is dead, resumes, and misses nothing", async () => {
	const page = await context.newPage();
	await page.clock.install();
	let asleep = false;
	await page.routeWebSocket(/graphql/, (ws) => {
		let mine = true;
		const server = ws.connectToServer();
		// A machine that sleeps hears nothing and says nothing; its peer is gone without a word when it wakes.
		ws.onMessage((m) => mine && server.send(m));
		server.onMessage((m) => {
			if (asleep) mine = false;
			if (mine) ws.send(m);
		});
		server.onClose(() => undefined);
	});
	await open("/nodes", page);
	const feed = await context.newPage();
	asleep = true;
	await plane.cordon(a, "during the night");
	await plane.cordon(b, "during the night too");
	await until("the peer has sent it", async () => true);
	await new Promise((done) => setTimeout(done, 500));
	asleep = false;
	await page.clock.fastForward("10:00");
	await says(page, a, "during the night");
	await says(page, b, "during the night too");
	await live(page).waitFor({ timeout: 20_000 });
	await feed.close();
	await page.close();
	for (const id of [a, b]) await plane.uncordon(id);
});

await check("G2 a frozen tab that took nothing for a while shows the newest state, and each event once", async () => {
	const grid = await open("/nodes");
	const feed = await open("/events");
	await agree(feed);
	const sessions = await Promise.all([grid, feed].map((p) => context.newCDPSession(p)));
	for (const s of sessions) await s.send("Page.setWebLifecycleState", { state: "frozen" });
	for (let i = 0; i < 60; i++) {
		await plane.cordon(a, `frozen ${i}`);
		await plane.uncordon(a);
	}
	await plane.cordon(a, "the last word");
	for (const s of sessions) await s.send("Page.setWebLifecycleState", { state: "active" });
	await says(grid, a, "the last word");
	await agree(feed);
	await grid.close();
	await feed.close();
	await plane.uncordon(a);
});

await check("G1 a server that is killed and started again under open pages: the same rows, every event once, no reload", async () => {
	const grid = await open("/nodes");
	const feed = await open("/events");
	const one = await open(`/nodes/${a}`);
	for (const p of [grid, feed, one]) await p.evaluate(() => void (window.sameDocument = true));
	await agree(feed);
	const changing = (async () => {
		for (let i = 0; i < 10; i++) await plane.cordon(b, `before ${i}`).then(() => plane.uncordon(b)).catch(() => undefined);
	})();
	await new Promise((done) => setTimeout(done, 50));
	await plane.halt("SIGKILL");
	await changing;
	await grid.getByText("The connection to the server is lost").waitFor();
	await plane.serve();
	await plane.cordon(a, "after the restart");
	await says(grid, a, "after the restart");
	await one.getByText(/Cordoned by admin .*after the restart/).waitFor({ timeout: 40_000 });
	for (const p of [grid, feed, one]) await live(p).waitFor({ timeout: 40_000 });
	await agree(feed);
	for (const p of [grid, feed, one]) must(await p.evaluate(() => window.sameDocument), "a page was loaded again");
	for (const p of [grid, feed, one]) await p.close();
	await plane.uncordon(a);
});

await check("G1 cursors older than what the log keeps: the page says so, reads anew, and shows what is true", async () => {
	const grid = await open("/nodes");
	const feed = await open("/events");
	await agree(feed);
	await plane.halt();
	await plane.sql("update event_clock set oldest = position + 11, position = position + 10");
	await plane.sql(`update nodes set cordoned = true, cordon_by = 'sam', cordon_reason = 'nobody saw it', cordon_at = now(), version = version + 1 where id = '${a}'`);
	await plane.serve();
	await says(grid, a, "nobody saw it");
	await grid.getByText("the list was read anew").waitFor();
	await live(grid).waitFor({ timeout: 40_000 });
	await live(feed).waitFor({ timeout: 40_000 });
	await plane.uncordon(a);
	await until("the feed goes on", async () => (await feed.locator("[data-event]").first().innerText()).includes("uncordoned"), 20_000);
	await until("the row too", async () => !(await rowText(grid, a)).includes("nobody saw it"));
	await grid.close();
	await feed.close();
});

await check("G1 a database restored from a backup: versions count anew, and nothing of the old log stays", async () => {
	await plane.cordon(a, "after the backup");
	const grid = await open("/nodes");
	const feed = await open("/events");
	await says(grid, a, "after the backup");
	await plane.halt();
	await plane.sql(`update nodes set cordoned = false, cordon_by = null, cordon_reason = null, cordon_at = null, version = 1 where id = '${a}'`);
	await plane.sql("delete from events where position > (select position - 1 from event_clock)");
	await plane.sql("update event_clock set epoch = epoch + 1, position = position - 1");
	await plane.serve();
	await until("the row is as it was", async () => !(await rowText(grid, a)).includes("after the backup"), 40_000);
	await live(feed).waitFor({ timeout: 40_000 });
	await until("the feed forgot it", async () => !(await feed.getByRole("table").innerText()).includes("after the backup"), 20_000);
	await plane.cordon(a, "a new life");
	await says(grid, a, "a new life");
	await until("the feed goes on", async () => (await feed.locator("[data-event]").first().innerText()).includes("a new life"), 20_000);
	await grid.close();
	await feed.close();
	await plane.uncordon(a);
});

/** Written as another process would, and told to nobody: no NOTIFY goes out. */
const silently = (id, by) => plane.sql(`
	with moved as (update nodes set cordoned = true, cordon_by = '${by}', cordon_reason = 'nobody was told', cordon_at = now(), version = version + 1 where id = '${id}' returning id),
	clock as (update event_clock set position = position + 1, at = greatest(clock_timestamp(), at) returning position, at)
	insert into events (position, at, id, type, tenant_id, node_id, actor, reason, data, full_for, reduced_for)
	select c.position, c.at, 'evt_' || substr(md5(m.id || c.position), 1, 26), 'node.cordoned', 'default', m.id, '${by}', 'nobody was told', '{}', '{default}', '{}' from moved m, clock c`);

await check("G5 a NOTIFY that is lost, and a killed LISTEN connection: grid and feed catch up by themselves within seconds, on the connection they have", async () => {
	const grid = await open("/nodes");
	const feed = await open("/events");
	await agree(feed);
	let cuts = 0;
	for (const p of [grid, feed]) p.on("websocket", () => cuts++);
	const newest = () => feed.locator("[data-event]").first().innerText();
	const within = async (what, ask) => {
		const began = Date.now();
		await until(what, ask, 5_000);
		return Date.now() - began;
	};
	await silently(a, "lost");
	await within("the row after a lost NOTIFY", async () => (await rowText(grid, a)).includes("lost · "));
	await within("the feed after a lost NOTIFY", async () => (await newest()).includes("lost"));
	const killed = await plane.sql("select pg_terminate_backend(pid) from pg_stat_activity where (application_name like '% log listen' or query ilike 'listen%') and pid <> pg_backend_pid()");
	must(killed.length > 0, "nobody listened");
	await silently(b, "killed");
	await plane.sql("notify events");
	await within("the row after the LISTEN connection was killed", async () => (await rowText(grid, b)).includes("killed · "));
	await within("the feed after the LISTEN connection was killed", async () => (await newest()).includes("killed"));
	await plane.cordon(c, "told again");
	await says(grid, c, "told again");
	await agree(feed);
	must(cuts === 0, "a page connected anew");
});

await check("G4 a session that ends hides the page; signed in again in another tab it goes on as it was left", async () => {
	const page = await open("/nodes?q=gpu-0000");
	const other = await open("/nodes");
	await page.getByRole("grid").focus();
	await page.keyboard.press("j");
	const chosen = await page.locator('[aria-selected="true"]').getAttribute("data-node");
	await other.evaluate(() => fetch("/session/end", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" }));
	await page.getByText("Your session has ended").waitFor({ timeout: 30_000 });
	must(!(await page.getByRole("grid").isVisible().catch(() => false)), "its data can still be seen");
	await other.close();
	const again = await context.newPage();
	await again.goto(await plane.signInLink());
	await again.getByRole("grid").waitFor();
	await plane.cordon(a, "meanwhile");
	await page.getByRole("button", { name: "Go on" }).click();
	await live(page).waitFor({ timeout: 20_000 });
	await says(page, a, "meanwhile");
	must((await page.locator('[aria-selected="true"]').getAttribute("data-node")) === chosen, "the active row was lost");
	await again.close();
	await page.close();
	await plane.uncordon(a);
});

await check("no error was thrown or logged", async () => must(checks.problems.length === 0, checks.problems.join("\n")));

await browser.close();
await plane.stop(checks.failed > 0);
checks.end();
