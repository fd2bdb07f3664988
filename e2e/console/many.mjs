// A control on many nodes: ticked by hand or all that match, what would become of them before, the result of each as it goes, and the stop.
import { nodeId, plain } from "./fleet.mjs";
import { Checks, live, must, openBrowser, Plane, row, rowText, until } from "./rig.mjs";

const plane = await Plane.start();
await plain(plane, 120);
const { browser, context } = await openBrowser();
const checks = new Checks("many");
const page = await context.newPage();
checks.watch(page);
checks.pages = () => [page];
const { check } = checks;
const at = (path) => `${plane.base}${path}${path.includes("?") ? "&" : "?"}tenant=${plane.tenant}`;
const dialog = page.getByRole("dialog");
const grid = page.getByRole("grid", { name: "Nodes" });
const preview = () => dialog.getByRole("region", { name: "What would become of them" });
const begin = (name) => dialog.getByRole("button", { name });
const count = async (filter) => (await plane.api('query ($f: NodeFilter) { nodes(tenantId: "default", filter: $f) { totalCount } }', { f: filter })).nodes.totalCount;
const open = async (path = "/nodes") => {
	await page.goto(at(path));
	await row(page, nodeId(0)).waitFor();
	await live(page).waitFor();
};
const command = () => dialog.getByRole("button", { name: "Copy the command" }).locator("xpath=preceding-sibling::pre").innerText();
const says = (words, ms) => until(`it says ${words}`, async () => words.test((await dialog.innerText()).replaceAll("\n", " ")), ms);

await page.goto(await plane.signInLink());
await page.getByRole("grid").waitFor({ timeout: 15_000 });

await check("rows are ticked by key, by pointer and by Shift, and a control on them shows its result for each", async () => {
	await open();
	await grid.focus();
	await page.keyboard.press("j");
	await page.keyboard.press("x");
	await page.getByText("1 selected").waitFor();
	await page.getByLabel("Select gpu-00002").click();
	await page.getByLabel("Select gpu-00005").click({ modifiers: ["Shift"] });
	await page.getByText("5 selected").waitFor();
	await page.keyboard.press("x");
	await page.keyboard.press("x");
	await plane.cordon(nodeId(3), "before");
	await page.getByRole("button", { name: "Act on them" }).click();
	await dialog.getByText("Act on 5 nodes").waitFor();
	await until("four would change and one is so", async () => /4 would change · 1 already so · 0 would be refused/.test(await preview().innerText()));
	await checks.axe(page, "the dialog for many nodes");
	await dialog.getByLabel(/^Reason/).fill("switch firmware");
	await dialog.getByText("The same from a script").click();
	must(/nodesCordon\(input: \{ tenantId: "default", selectionId: "sel_\w+", reason: "switch firmware" \}/.test(await dialog.innerText()), await dialog.innerText());
	const typed = await command();
	must(typed === `better-compute nodes cordon ${[0, 2, 3, 4, 5].map(nodeId).join(" ")} --tenant default --reason 'switch firmware'`, typed);
	await begin("Cordon 4").click();
	await says(/Through.*5 of 5 · 0 left/, 15_000);
	await until("each node has its result", async () => (await dialog.locator("[data-result]").count()) === 5);
	must(/gpu-00003.*unchanged/.test((await dialog.locator(`[data-result="${nodeId(3)}"]`).innerText()).replaceAll("\n", " ")), "the cordoned one is not unchanged");
	await checks.axe(page, "the results");
	const again = await plane.shell(typed);
	must(again.code === 0 && again.said.match(/Unchanged/g)?.length === 5, `the command: exit ${again.code}: ${again.said}`);
	await live(page).waitFor();
	await checks.shot(page, "many-results-wide-light");
	await dialog.getByRole("button", { name: "Close" }).click();
	await until("the row says why", async () => (await rowText(page, nodeId(2))).includes("switch firmware"));
	await until("nothing is ticked any more", async () => (await page.getByText("selected").count()) === 0);
});

await check("all that match are taken, also those that are not read yet; what is cordoned by others is refused unless it is said otherwise", async () => {
	await plane.sql(`update nodes set cordon_by = 'sam' where id = '${nodeId(3)}'`);
	await open();
	await page.getByLabel("Select all that match").check();
	await page.getByText("120 selected").waitFor();
	await page.getByRole("button", { name: "Act on them" }).click();
	await dialog.getByText("Act on 120 nodes").waitFor();
	await dialog.getByRole("combobox").selectOption("UNCORDON");
	await until("four are mine, one is sam's", async () => /4 would change · 115 already so · 1 would be refused/.test(await preview().innerText()));
	must(/CONFLICT/.test(await preview().innerText()), await preview().innerText());
	await dialog.getByText("The same from a script").click();
	must((await command()) === "better-compute nodes uncordon --filter all --expect-count 120 --tenant default", await command());
	await dialog.getByLabel("Others’ cordons too").check();
	await until("with others' too", async () => /5 would change/.test(await preview().innerText()));
	must(/ --anyone$/.test(await command()), await command());
	await dialog.getByLabel("Others’ cordons too").uncheck();
	await until("without them", async () => /4 would change/.test(await preview().innerText()));
	await begin("Uncordon 4").click();
	await says(/Through: 1 refused.*120 of 120/, 20_000);
	const refused = dialog.locator(`[data-result="${nodeId(3)}"]`);
	await until("the refused one says why", async () => /refused.*CONFLICT.*sam/.test((await refused.innerText()).replaceAll("\n", " ")));
	must((await count({ cordoned: true })) === 1, "not sam's alone is left");
	const again = await plane.shell("better-compute nodes uncordon --filter all --expect-count 120 --tenant default");
	must(again.code === 11 && /1 refused/.test(again.said), `the command: exit ${again.code}: ${again.said}`);
	await dialog.getByRole("button", { name: "Close" }).click();
});

await check("a list that is another by now is not acted on: it says how many match, and takes them when it is told to", async () => {
	const deaf = await context.newPage();
	await deaf.routeWebSocket(/graphql/, () => undefined);
	await deaf.goto(at("/nodes?cordoned=true"));
	await row(deaf, nodeId(3)).waitFor();
	await deaf.getByLabel("Select all that match").check();
	await plane.cordon(nodeId(9), "one more");
	await deaf.getByRole("button", { name: /^Act on/ }).click();
	const d = deaf.getByRole("dialog");
	await d.getByText("CONFLICT").waitFor();
	await d.getByRole("button", { name: "Select the 2 that match now" }).click();
	await d.getByText("Act on 2 nodes").waitFor();
	await deaf.close();
	await plane.uncordon(nodeId(9));
});

await check("drains with a limit in a pool wait their turn; a page that is loaded again finds the operation, and stops it", async () => {
	for (const i of [20, 21, 22]) await plane.book(nodeId(i), { reason: "run", durationSeconds: 3_600 });
	await page.goto(at("/nodes?busy=true"));
	await row(page, nodeId(20)).waitFor();
	await page.getByLabel("Select all that match").check();
	await page.getByText("3 selected").waitFor();
	await page.getByRole("button", { name: "Act on them" }).click();
	await dialog.getByRole("combobox").selectOption("DRAIN");
	await dialog.getByLabel(/Drains at one time/).fill("1");
	await begin("Drain 3").click();
	await says(/1 of 3 · 2 left.*1 drains? run/, 15_000);
	await page.reload();
	await says(/Goes on.*1 of 3 · 2 left/, 15_000);
	await dialog.getByRole("button", { name: "Close" }).click();
	await page.getByRole("button", { name: "1 operation runs" }).click();
	await dialog.getByRole("button", { name: "Stop" }).click();
	await says(/Stopped by admin: 2 left alone/, 10_000);
	must((await count({ draining: true })) === 1, "more than one drains");
	await dialog.getByRole("button", { name: "Close" }).click();
});

await check("taints and labels for many are judged before they are sent", async () => {
	await open();
	await page.getByLabel("Select gpu-00000").check();
	await page.getByRole("button", { name: "Act on it" }).click();
	await dialog.getByRole("combobox").selectOption("LABEL");
	await dialog.getByLabel(/Labels to set/).fill("rack=b9 bc.dev/x=1");
	await dialog.getByText("belong to the system").waitFor();
	await dialog.getByLabel(/Labels to set/).fill("rack=b9, fabric/rail=3");
	await begin("Change labels 1").click();
	await says(/Through.*1 of 1/, 10_000);
	await dialog.getByRole("button", { name: "Close" }).click();
	const { node } = await plane.api('query ($n: ID!) { node(tenantId: "default", nodeId: $n) { labels { key value } } }', { n: nodeId(0) });
	must(node.labels.map((l) => `${l.key}=${l.value}`).join() === "fabric/rail=3,rack=b9", JSON.stringify(node.labels));
});

await check("the command for more nodes takes the ids from its input, and a filter that it has no words for is said", async () => {
	await open();
	await page.getByLabel("Select gpu-00010").click();
	await page.getByLabel("Select gpu-00016").click({ modifiers: ["Shift"] });
	await page.getByRole("button", { name: "Act on them" }).click();
	await dialog.getByRole("combobox").selectOption("LABEL");
	await dialog.getByLabel(/Labels to set/).fill("row=c");
	await dialog.getByText("The same from a script").click();
	const typed = await command();
	must(typed.startsWith("better-compute nodes label - --tenant default --set row=c <<'END'\n") && typed.match(/node_\w+/g).length === 7, typed);
	const done = await plane.shell(typed);
	must(done.code === 0, `exit ${done.code}: ${done.said}`);
	must((await count({ labels: [{ key: "row", values: ["c"] }] })) === 7, "they are not labelled");
	await dialog.getByRole("button", { name: "Cancel" }).click();
	await page.goto(at("/nodes?cordoned=true&q=gpu"));
	await row(page, nodeId(3)).waitFor();
	await page.getByLabel("Select all that match").check();
	await page.getByRole("button", { name: /^Act on/ }).click();
	await dialog.getByText("The same from a script").click();
	must(/ --filter text=gpu,cordoned --expect-count \d+ /.test(await command()), await command());
	await page.goto(at("/nodes?busy=true"));
	await row(page, nodeId(20)).waitFor();
	await page.getByLabel("Select all that match").check();
	await page.getByRole("button", { name: /^Act on/ }).click();
	await dialog.getByText("The same from a script").click();
	await dialog.getByText("has no word for one of these conditions").waitFor();
	await dialog.getByRole("button", { name: "Cancel" }).click();
});

await check("of many results each can be reached, the refused ones first, and few are drawn", async () => {
	await plain(plane, 1_080, { from: 120 });
	await plane.cordon(nodeId(1_150));
	await plane.sql(`update nodes set cordon_by = 'sam' where id = '${nodeId(1_150)}'`);
	await open();
	await page.getByLabel("Select all that match").check();
	await page.getByText("1,200 selected").waitFor();
	await page.getByRole("button", { name: "Act on them" }).click();
	await dialog.getByRole("combobox").selectOption("LABEL");
	await dialog.getByLabel(/Labels to set/).fill("hall=2");
	await begin("Change labels 1,200").click();
	await says(/Through.*1,200 of 1,200/, 60_000);
	const box = dialog.getByRole("group", { name: "Results, as a table" });
	// The counts come before the last results.
	await until("the table says how many rows it has", async () => (await box.getByRole("table").getAttribute("aria-rowcount")) === "1201");
	const seen = new Set();
	await box.focus();
	for (let last = -1; ; ) {
		for (const id of await box.locator("[data-result]").evaluateAll((rows) => rows.map((r) => r.dataset.result))) seen.add(id);
		must((await box.locator("[data-result]").count()) < 60, "all are drawn");
		const top = await box.evaluate((b) => {
			b.scrollTop += 240;
			return b.scrollTop;
		});
		await until("the rows of that place are drawn", () =>
			box.evaluate((b) => {
				const { bottom } = b.getBoundingClientRect();
				return [...b.querySelectorAll("[data-result]")].some((r) => r.getBoundingClientRect().bottom >= bottom - 2);
			}),
		);
		if (top === last) break;
		last = top;
	}
	must(seen.size === 1_200, `${seen.size} of 1,200 results can be reached`);
	await checks.axe(page, "many results");
	await checks.shot(page, "many-results-end-light");
	await dialog.getByRole("button", { name: "Close" }).click();
	await page.getByLabel("Select all that match").check();
	await page.getByRole("button", { name: "Act on them" }).click();
	await dialog.getByRole("combobox").selectOption("UNCORDON");
	await begin(/^Uncordon/).click();
	await says(/refused.*1,200 of 1,200/, 60_000);
	const first = async () => (await box.locator("[data-result]").allInnerTexts()).slice(0, 2);
	await until("the refused ones stand first", async () => (await first()).length === 2 && (await first()).every((t) => t.includes("refused")));
	await dialog.getByRole("button", { name: /refused/ }).click();
	await until("the one far down is among them", async () => (await box.locator(`[data-result="${nodeId(1_150)}"]`).count()) === 1);
	must((await box.locator("[data-result]").allInnerTexts()).every((t) => t.includes("refused")), "not the refused ones alone");
	await dialog.getByRole("button", { name: "Close" }).click();
});

await check("no error was thrown or logged", async () => must(checks.problems.length === 0, checks.problems.join("\n")));

await browser.close();
await plane.stop(checks.failed > 0);
checks.end();
