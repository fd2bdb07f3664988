// Every control of a node in the console: labels, taints, the cordon's words, drains and what they wait for, adopt and delete, each beside a second client.
import { nodeId, plain } from "./fleet.mjs";
import { Checks, live, must, openBrowser, Plane, row, until } from "./rig.mjs";

const plane = await Plane.start();
await plain(plane, 8);
const { browser, context } = await openBrowser();
const checks = new Checks("controls");
const page = await context.newPage();
checks.watch(page);
checks.pages = () => [page];
const at = (path) => `${plane.base}${path}${path.includes("?") ? "&" : "?"}tenant=${plane.tenant}`;
const main = page.getByRole("main");
const dialog = page.getByRole("dialog");
const section = (name) => main.getByRole("region", { name, exact: true });
const text = async (locator) => (await locator.innerText()).replaceAll("\n", " ");
const open = async (id) => {
	await page.goto(at(`/nodes/${id}`));
	await section("Labels").waitFor();
	await live(page).waitFor();
};
const send = async (button) => {
	await dialog.getByRole("button", { name: button, exact: true }).click();
	await dialog.waitFor({ state: "detached" });
};
const off = async (button) => (await button.getAttribute("aria-disabled")) === "true";
const state = async (id) =>
	(await plane.api('query ($n: ID!) { node(tenantId: "default", nodeId: $n) { version cordon { by reason until } noScheduleReasons labels { key value source } provisionState deletedAt } }', { n: id })).node;
const label = (id, more) => plane.control("Label", id, more);
/** Each check begins on a node of its own, so that none waits for another's. */
const [labelled, tainted, held, drained, busy, removed, guest] = [0, 1, 2, 3, 4, 5, 6].map(nodeId);
const { check } = checks;

await page.goto(await plane.signInLink());
await page.getByRole("grid").waitFor({ timeout: 15_000 });
await plane.sql(`insert into node_labels (node_id, key, value, source) values ('${labelled}', 'rack', 'b7', 'OPERATOR'), ('${labelled}', 'burn-in', 'yes', 'OPERATOR'),
	('${labelled}', 'cpu.arch', 'amd64', 'INVENTORY'), ('${labelled}', 'bc.dev/nvidia', '580', 'SYSTEM')`);

await check("ON-5.13 labels say whose each is and why it is locked; one dialog changes, adds and removes the operator's", async () => {
	await open(labelled);
	const shown = await text(section("Labels"));
	for (const words of ["cpu.arch amd64 inventory, locked", "bc.dev/nvidia 580 system, locked", "rack b7 operator", "come and go with what the daemon measures", "set by the control plane"])
		must(shown.includes(words), `${words}: ${shown}`);
	await section("Labels").getByRole("button", { name: "Change labels" }).click();
	must(await off(dialog.getByRole("button", { name: "Change the labels" })), "it can be sent without a change");
	await dialog.getByLabel("Value of rack").fill("b8");
	await dialog.getByRole("button", { name: "Remove burn-in" }).click();
	await dialog.getByLabel("Another label").fill("fabric/rail");
	await dialog.getByLabel("Value", { exact: true }).fill("3");
	await page.keyboard.press("Enter");
	for (const words of ["Sets rack = b8", "Sets fabric/rail = 3", "Removes burn-in"]) await dialog.getByText(words).waitFor();
	await dialog.getByText("The same from a script").click();
	const script = await dialog.innerText();
	must(script.includes(`nodes label ${labelled} --tenant default --set rack=b8,fabric/rail=3 --remove burn-in --if-version 1`), script);
	must(script.includes('set: [{ key: "rack", value: "b8" }, { key: "fabric/rail", value: "3" }]'), script);
	await send("Change the labels");
	await until("the page shows them", async () => /fabric\/rail 3 operator.*rack b8 operator/.test(await text(section("Labels"))));
	must(!(await text(section("Labels"))).includes("burn-in"), "burn-in is still there");
	const { labels } = await state(labelled);
	must(labels.filter((l) => l.source === "OPERATOR").map((l) => `${l.key}=${l.value}`).join() === "fabric/rail=3,rack=b8", JSON.stringify(labels));
	await until("the history tells of it", async () => (await text(section("Events"))).includes("set fabric/rail=3, rack=b8"));
});

await check("H1 a key that others own, or no key, is not sent and says why; what the server refuses comes with code and sentence", async () => {
	await open(labelled);
	await page.keyboard.press("l");
	const button = dialog.getByRole("button", { name: "Change the labels" });
	const key = dialog.getByLabel("Another label");
	for (const [typed, because] of [["cpu.arch", "daemon measures"], ["bc.dev/mine", "belong to the system"], ["-x", "letter or digit first and last"], ["k".repeat(129), "1 to 128"]]) {
		await key.fill(typed);
		await dialog.getByText(because).first().waitFor();
		must(await off(button), `${typed} can be sent`);
	}
	await key.fill("os.release");
	await dialog.getByLabel("Value", { exact: true }).fill("12");
	await plane.sql(`insert into node_labels (node_id, key, value, source) values ('${labelled}', 'os.release', '24.04', 'INVENTORY')`);
	await button.click();
	await dialog.getByText("INVALID_INPUT").waitFor();
	await dialog.getByText("belongs to inventory").waitFor();
	must((await key.inputValue()) === "os.release", "what was typed is lost");
	await page.keyboard.press("Escape");
	await dialog.waitFor({ state: "detached" });
});

await check("a second person's change of the labels under the open dialog is told, and what was typed is kept", async () => {
	await open(labelled);
	await section("Labels").getByRole("button", { name: "Change labels" }).click();
	await dialog.getByLabel("Another label").fill("row");
	await dialog.getByLabel("Value", { exact: true }).fill("7");
	await label(labelled, { set: [{ key: "rack", value: "c1" }] });
	await dialog.getByText("Changed since you opened this").waitFor();
	await dialog.getByText("label rack: b8 → c1").waitFor();
	must(await off(dialog.getByRole("button", { name: "Change the labels" })), "it can be sent on what is no longer so");
	await dialog.getByRole("button", { name: /Go on with version/ }).click();
	await until("the new value stands there", async () => (await dialog.getByLabel("Value of rack").inputValue()) === "c1");
	await send("Change the labels");
	const { labels } = await state(labelled);
	must(labels.some((l) => l.key === "rack" && l.value === "c1") && labels.some((l) => l.key === "row" && l.value === "7"), JSON.stringify(labels));
});

await check("ON-5.13 taints by the keyboard alone: t, a key, Enter, and Control and Enter in the reason sends it", async () => {
	await open(tainted);
	await page.keyboard.press("t");
	await dialog.waitFor();
	await dialog.getByLabel("Another taint").focus();
	await page.keyboard.type("rma-pending");
	await page.keyboard.press("Enter");
	await dialog.getByText("Adds rma-pending").waitFor();
	must((await dialog.getByLabel("Another taint").inputValue()) === "", "the box is not empty");
	await dialog.getByLabel("Reason").focus();
	await page.keyboard.type("fan 3");
	await page.keyboard.press("Control+Enter");
	await dialog.waitFor({ state: "detached" });
	await until("the page shows it", async () => (await text(section("Taints"))).includes("rma-pending"));
	await until("it keeps new work off", async () => (await text(section("What keeps new work off"))).includes("taint:rma-pending operator, admin"));
	must((await state(tainted)).noScheduleReasons.join() === "taint:rma-pending", "the server has another");
	await page.keyboard.press("t");
	await dialog.getByLabel("Another taint").fill("rma-pending");
	await dialog.getByText("It has rma-pending already").waitFor();
	await page.keyboard.press("Escape");
	await dialog.waitFor({ state: "detached" });
});

await check("a dedication to a tenant that is not there is done, and the dialog stays to say so", async () => {
	await open(tainted);
	await section("Taints").getByRole("button", { name: "Change taints" }).click();
	await dialog.getByLabel("Another taint").fill("dedicated=nobody");
	await dialog.getByText("Only nobody can use the node then").waitFor();
	await dialog.getByRole("button", { name: "Change the taints" }).click();
	await dialog.getByText("there is no tenant nobody").waitFor();
	await dialog.getByRole("button", { name: "Close" }).click();
	await section("What keeps new work off").getByRole("button", { name: "Remove taint:rma-pending" }).click();
	await dialog.getByText("Removes rma-pending").waitFor();
	await dialog.getByRole("button", { name: "Remove dedicated=nobody" }).click();
	await dialog.getByText("Nothing keeps new work off the node then.").waitFor();
	await send("Change the taints");
	await until("none is left", async () => (await text(section("Taints"))).includes("None."));
	must((await state(tainted)).noScheduleReasons.length === 0, "the server still has one");
});

await check("a version that went stale on its way is CONFLICT, says what the other did, and is sent again on the new one", async () => {
	const deaf = await context.newPage();
	await deaf.routeWebSocket(/graphql/, () => undefined);
	await deaf.goto(at(`/nodes/${tainted}`));
	await deaf.getByRole("button", { name: "Change taints" }).click();
	const d = deaf.getByRole("dialog");
	await d.getByLabel("Another taint").fill("mine");
	await plane.control("Taint", tainted, { add: ["theirs"] });
	await d.getByRole("button", { name: "Change the taints" }).click();
	await d.getByText("CONFLICT").waitFor();
	await d.getByText("kept out by: taint:theirs").waitFor();
	await d.getByRole("button", { name: /Go on with version/ }).click();
	await d.getByRole("button", { name: "Change the taints" }).click();
	await d.waitFor({ state: "detached" });
	await deaf.close();
	must((await state(tainted)).noScheduleReasons.join() === "taint:mine,taint:theirs", "not both are there");
});

await check("a cordon says until when it is meant; its words are changed as an act of their own, and it stays its holder's", async () => {
	await open(held);
	await page.getByRole("button", { name: "Cordon", exact: true }).click();
	await dialog.getByRole("button", { name: "Meant to end: in 8 h" }).click();
	await dialog.getByText(/You mean it to end at/).waitFor();
	await dialog.getByLabel("Reason").fill("BIOS");
	await send("Cordon");
	await until("the page says until when", async () => /Meant to end at .*in (7 h 59 min|8 h)/.test(await text(section("What keeps new work off"))));
	await plane.sql(`update nodes set cordon_by = 'sam' where id = '${held}'`);
	await open(held);
	await page.getByRole("button", { name: "Cordon", exact: true }).hover();
	await until("who holds it, since when and why is said", async () => /cordoned already; sam holds it since .*“BIOS”/.test(await page.getByRole("tooltip").innerText().catch(() => "")));
	await page.mouse.move(0, 0);
	await page.keyboard.press("c");
	await page.getByText(/Not offered: .*sam holds it since/).first().waitFor();
	await section("What keeps new work off").getByRole("button", { name: "Change reason or end" }).click();
	must((await dialog.getByLabel("Reason").inputValue()) === "BIOS", "the reason that holds does not stand there");
	must(await off(dialog.getByRole("button", { name: "Change", exact: true })), "it can be sent without a change");
	await dialog.getByText(/It stays sam’s/).waitFor();
	await dialog.getByLabel("Reason").fill("BIOS, then PSU");
	await dialog.getByRole("button", { name: "Meant to end: clear" }).click();
	await dialog.getByText("The same from a script").click();
	must((await dialog.innerText()).includes("--update-reason --reason 'BIOS, then PSU'"), await dialog.innerText());
	await send("Change");
	const { cordon } = await state(held);
	must(cordon.by === "sam" && cordon.reason === "BIOS, then PSU" && cordon.until === null, JSON.stringify(cordon));
	await until("the history tells of it", async () => (await text(section("Events"))).includes("cordon’s reason changed"));
});

await check("somebody else's cordon is lifted with open eyes, and with ifCordonedBy only while it is theirs", async () => {
	await open(held);
	await page.getByRole("button", { name: "Uncordon", exact: true }).click();
	await dialog.getByText(/Cordoned by sam, not by you, at .*BIOS, then PSU/).waitFor();
	await dialog.getByLabel(/Only while the cordon is sam’s/).check();
	await dialog.getByText("The same from a script").click();
	must((await dialog.innerText()).includes("--if-cordoned-by sam"), await dialog.innerText());
	await plane.sql(`update nodes set cordon_by = 'kim' where id = '${held}'`);
	await dialog.getByRole("button", { name: "Uncordon", exact: true }).click();
	await dialog.getByText("CONFLICT").waitFor();
	must((await state(held)).cordon?.by === "kim", "kim's cordon was lifted");
	await page.keyboard.press("Escape");
	await dialog.waitFor({ state: "detached" });
	await open(held);
	await page.getByRole("button", { name: "Uncordon", exact: true }).click();
	await dialog.getByText(/Cordoned by kim/).waitFor();
	await send("Uncordon");
	must((await state(held)).cordon === null, "it is still cordoned");
});

await check("the drain's dialog and the board show what it waits for, with future bookings marked; progress counts all that ended", async () => {
	const oldest = await plane.book(drained, { reason: "oldest", durationSeconds: 7_200 });
	for (let i = 0; i < 60; i++) await plane.release(await plane.book(drained, { reason: `past ${i}`, durationSeconds: 600 }));
	await plane.book(drained, { startsAt: new Date(Date.now() + 3_600_000).toISOString(), durationSeconds: 10_800, reason: "tomorrow's" });
	await open(drained);
	await page.keyboard.press("d");
	const plan = dialog.getByRole("region", { name: "What it would wait for" });
	await plan.getByText(/Empty at .*One begins only later, and is waited for too/).waitFor();
	must((await plan.getByRole("row").count()) === 3, "not both bookings are named");
	await dialog.getByRole("button", { name: "Wanted by: in 1 day" }).click();
	await dialog.getByText("The same from a script").click();
	must((await dialog.innerText()).includes("--deadline "), await dialog.innerText());
	await send("Drain");
	await until("nothing has ended yet", async () => /Draining for .*2 left/.test(await text(section("Drain"))));
	await plane.release(oldest);
	await until("the oldest of more than a page counts", async () => (await text(section("Drain"))).includes("1 of 2 allocations ended"));
	await page.goto(at("/drains"));
	const board = main.getByRole("region", { name: "Draining", exact: true });
	const line = board.locator(`[data-node="${drained}"]`);
	await until("the board says the same", async () => /1 allocation.*1 ended/.test(await text(line)));
	await line.getByRole("button", { name: /1 allocation/ }).click();
	await board.getByText(/Empty at .*One begins only later/).waitFor();
	await board.getByText(/Wanted by/).waitFor();
	await checks.axe(page, "the board with a plan unfolded");
});

await check("a drain that ends leaves its line in place, and stands among those that ended once the board is cleared", async () => {
	const board = main.getByRole("region", { name: "Draining", exact: true });
	const ended = main.getByRole("region", { name: "Ended", exact: true });
	const line = board.locator(`[data-node="${drained}"]`);
	const before = await line.boundingBox();
	await plane.control("Uncordon", drained, { reason: "not today" });
	await until("it says that it ended, and by whom", async () => /ended before it was empty.*by admin/.test(await text(line)));
	const after = await line.boundingBox();
	must(before.y === after.y, "the line moved");
	await board.getByRole("button", { name: "Clear 1 that left" }).click();
	await line.waitFor({ state: "detached" });
	await until("it stands below", async () => /gpu-00003.*ended before it was empty/.test(await text(ended)));
});

await check("G5 the board hears of a drain that begins elsewhere, and of what it waits for, by itself", async () => {
	const booked = await plane.book(busy, { reason: "run", durationSeconds: 3_600 });
	await plane.drain(busy, "from elsewhere");
	const line = main.getByRole("region", { name: "Draining", exact: true }).locator(`[data-node="${busy}"]`);
	await until("it is there", async () => (await text(line)).includes("1 allocation"));
	await plane.release(booked);
	await until("it is drained", async () => (await text(line)).includes("drained just now") || (await text(line)).includes("drained "));
});

await check("a tenant that sees a node without owning it is told for each control why it is off", async () => {
	await plane.api('mutation { tenantCreate(input: { tenantId: "acme" }) { changed } }');
	await plane.sql(`insert into node_projection (tenant_id, node_id, relation) values ('acme', '${guest}', 'SHARED')`);
	await page.goto(`${plane.base}/nodes/${guest}?tenant=acme`);
	await section("Labels").waitFor();
	for (const name of ["Cordon", "Drain", "Change labels", "Change taints", "Adopt again", "Delete…"]) must(await off(main.getByRole("button", { name, exact: true })), `${name} is offered`);
	await section("Labels").getByRole("button", { name: "Change labels" }).hover();
	await until("it says why", async () => (await page.getByRole("tooltip").innerText().catch(() => "")).includes("compute:nodes:update and the tenant that owns the node"));
	await until("the preconditions say it too", async () => /not met: You may: compute:nodes:delete/.test(await section("Delete").textContent()));
	await page.mouse.move(0, 0);
});

await check("F3 F4 a delete shows its preconditions as they are met, takes the typed name and no Enter, and leaves the history", async () => {
	const booked = await plane.book(removed, { reason: "run", durationSeconds: 3_600 });
	await open(removed);
	const shown = section("Delete");
	await until("two are not met", async () => /not met: It is cordoned; it is not.*not met: It holds nothing; it holds 1 live allocation/.test((await shown.textContent()).replaceAll("\n", " ")));
	must(await off(shown.getByRole("button", { name: "Delete…" })), "it is offered");
	await plane.cordon(removed, "gone for good");
	await until("the cordon is met by itself", async () => (await shown.textContent()).includes("met: It is cordoned."));
	await plane.release(booked);
	await until("it is offered", async () => !(await off(shown.getByRole("button", { name: "Delete…" }))));
	await shown.getByRole("button", { name: "Delete…" }).click();
	await checks.axe(page, "the dialog of a delete");
	const button = dialog.getByRole("button", { name: "Delete for good" });
	must(await off(button), "it can be sent without the name");
	await dialog.getByText("The same from a script").click();
	must((await dialog.innerText()).includes(`nodes delete ${removed} --tenant default --if-version`) && (await dialog.innerText()).includes("--yes"), await dialog.innerText());
	await dialog.getByLabel(/Type gpu-00005 to delete it/).fill("gpu-00005");
	await page.keyboard.press("Enter");
	must(await dialog.isVisible(), "Enter sent it");
	const list = await context.newPage();
	await list.goto(at("/nodes"));
	await row(list, removed).waitFor();
	await live(list).waitFor();
	await dialog.getByLabel("Reason").fill("board is dead");
	await button.click();
	await dialog.getByText(/the node held a session/).waitFor();
	await dialog.getByRole("button", { name: "Close" }).click();
	await main.getByText("Its history stays here.").waitFor();
	await until("the history tells who and why", async () => /deleted · admin · “board is dead”/.test(await text(section("Events"))));
	for (const name of ["Cordon", "Drain", "Change labels"]) must(await off(main.getByRole("button", { name, exact: true })), `${name} is offered on a deleted node`);
	await until("the other page's list says that it is gone", async () => /No longer visible/.test(await row(list, removed).innerText()));
	await list.close();
	await checks.axe(page, "a deleted node");
});

await check("F3 deleted nodes are listed when the address asks for them, look deleted, take no control, and open", async () => {
	const [gone, going] = [removed, held];
	await page.goto(at("/nodes"));
	await row(page, held).waitFor();
	must((await row(page, gone).count()) === 0, "a deleted node is listed unasked");
	await page.getByRole("button", { name: "Deleted too" }).click();
	await row(page, gone).waitFor();
	must(new URL(page.url()).searchParams.get("deleted") === "true", page.url());
	must(/gpu-00005.*deleted/.test(await text(row(page, gone))), await text(row(page, gone)));
	must((await row(page, gone).getByRole("button").count()) + (await row(page, gone).getByRole("checkbox").count()) === 0, "it has controls");
	must(/line-through/.test(await row(page, gone).getByRole("link").evaluate((a) => getComputedStyle(a).textDecorationLine)), "it does not look deleted");
	must(await page.getByLabel("Select all that match").isDisabled(), "all can be ticked, deleted ones too");
	await live(page).waitFor();
	await checks.axe(page, "a list with deleted nodes");
	await checks.shot(page, "nodes-deleted-wide-light");
	// One that is deleted meanwhile stays, and one that is cordoned meanwhile says so.
	await plane.cordon(going).catch(() => undefined);
	await until("the stream runs", async () => /admin|sam/.test(await text(row(page, going))));
	await plane.control("Delete", going, { reason: "fan is dead" });
	await until("it is shown as deleted", async () => /gpu-00002.*deleted/.test(await text(row(page, going))));
	must((await row(page, going).getByRole("button").count()) === 0, "it has controls");
	await page.reload();
	await row(page, gone).waitFor();
	await row(page, gone).getByRole("link").click();
	await main.getByText("Its history stays here.").waitFor();
	await page.goBack();
	await row(page, gone).waitFor();
	await page.getByRole("button", { name: "Deleted too" }).click();
	await row(page, gone).waitFor({ state: "detached" });
});

await check("a machine that is adopted again shows its checks as they pass, and comes back into service by itself", async () => {
	await plane.join();
	const first = await until("it is there", async () => (await plane.api('{ nodes(tenantId: "default", orderBy: CREATED_DESC, first: 1) { nodes { id provisionState } } }')).nodes.nodes.find((n) => n.provisionState === "ADOPTED"), 30_000);
	await open(first.id);
	const acceptance = section("Acceptance");
	await until("its checks have passed", async () => /session.*passed.*inventory.*passed/.test(await text(acceptance)), 15_000);
	must((await acceptance.textContent()).includes("met: It is adopting or adopted; it is adopted"), "the precondition is not shown");
	const before = (await state(first.id)).version;
	await acceptance.getByRole("button", { name: "Adopt again" }).click();
	await dialog.getByText("The node goes back to adopting and takes no new work until the checks pass.").waitFor();
	await send("Adopt again");
	await until("it is back in service", async () => {
		const n = await state(first.id);
		return n.provisionState === "ADOPTED" && n.version >= before + 2;
	}, 30_000);
	await main.getByText("In service").waitFor({ timeout: 15_000 });
	await until("the history tells of the run", async () => /adopted .*adopting/.test(await text(section("Events"))));
});

await check("no error was thrown or logged", async () => must(checks.problems.length === 0, checks.problems.join("\n")));

await browser.close();
await plane.stop(checks.failed > 0);
checks.end();
