// Every page and state of the console, light and dark, wide and narrow, each looked over by axe. With SHOTS=folder each is kept as a picture.
import { nodeId, varied } from "./fleet.mjs";
import { Checks, live, must, openBrowser, Plane, row } from "./rig.mjs";

const plane = await Plane.start();
const { browser, context } = await openBrowser();
const checks = new Checks("screens");
const { check } = checks;
const page = await context.newPage();
checks.watch(page);
checks.pages = () => [page];
const sizes = { wide: { width: 1440, height: 900 }, narrow: { width: 640, height: 900 } };

/** One state in four pictures, each looked over by axe. */
async function four(name, { axe = true, sizesOnly = ["wide", "narrow"] } = {}) {
	for (const size of sizesOnly)
		for (const theme of ["light", "dark"]) {
			await page.setViewportSize(sizes[size]);
			await page.emulateMedia({ colorScheme: theme });
			await page.waitForTimeout(150);
			await checks.shot(page, `${name}-${size}-${theme}`);
			if (axe) await checks.axe(page, `${name}, ${size}, ${theme}`);
		}
	await page.setViewportSize(sizes.wide);
	await page.emulateMedia({ colorScheme: "light" });
}
const at = (path) => `${plane.base}${path}${path.includes("?") ? "&" : "?"}tenant=default`;
const grid = page.getByRole("grid", { name: "Nodes" });

await check("signed out", async () => {
	await page.goto(plane.base);
	await page.getByText("You are signed out").waitFor();
	await four("signed-out");
});
await check("no nodes", async () => {
	await page.goto(await plane.signInLink());
	await page.getByText("No nodes yet").waitFor();
	await live(page).waitFor();
	await four("no-nodes");
});
if (checks.only) await page.goto(await plane.signInLink());
const ids = await varied(plane);
await check("the grid", async () => {
	await page.goto(at("/nodes"));
	await grid.waitFor();
	await live(page).waitFor();
	await grid.focus();
	await page.keyboard.press("j");
	await page.keyboard.press("j");
	await four("nodes");
});
const sideways = async (what) => {
	for (const width of [1920, 1440, 1299, 1280, 1184, 1024, 969, 900, 789, 700, 640, 604, 480]) {
		await page.setViewportSize({ width, height: 800 });
		const [need, have] = await grid.evaluate((g) => [g.scrollWidth, g.clientWidth]);
		must(need <= have, `${what}, ${width} px wide: the grid needs ${need} px of ${have}`);
		await checks.shot(page, `${what}-${width}`);
	}
	await page.setViewportSize(sizes.wide);
};
await check("the grid is scrolled sideways at no width", async () => {
	await page.goto(at("/nodes"));
	await grid.waitFor();
	await live(page).waitFor();
	await sideways("nodes-width");
	await plane.sql(`update nodes set hostname = 'gpu-00001' where id = '${nodeId(2)}'`);
	await page.goto(at("/nodes"));
	await grid.getByText("…", { exact: false }).first().waitFor();
	await sideways("nodes-repeated-width");
	await plane.sql(`update nodes set hostname = 'gpu-00002' where id = '${nodeId(2)}'`);
});
await check("the grid where names repeat", async () => {
	await plane.sql(`update nodes set hostname = 'gpu-00001' where id = '${nodeId(2)}'`);
	await page.goto(at("/nodes"));
	await grid.getByText("…", { exact: false }).first().waitFor();
	await four("nodes-repeated-names", { sizesOnly: ["wide"] });
	await plane.sql(`update nodes set hostname = 'gpu-00002' where id = '${nodeId(2)}'`);
});
await check("a filtered grid", async () => {
	await page.goto(at("/nodes?away=true&order=out"));
	await grid.waitFor();
	await four("nodes-filtered");
});
await check("a filter that nothing matches", async () => {
	await page.goto(at("/nodes?q=nothing-like-it"));
	await page.getByText("matches these filters").waitFor();
	await four("nodes-none-match", { sizesOnly: ["wide"] });
});
await check("a node beside the list", async () => {
	await page.goto(at(`/nodes?peek=${ids.draining}`));
	await page.getByRole("heading", { name: "Waits for" }).waitFor();
	await four("peek");
});
for (const [name, id, text] of [
	["draining", ids.draining, "Waits for"],
	["endless", ids.endless, "No end is in sight"],
	["drained", ids.drained, "still cordoned"],
	["cordoned", ids.cordoned, "Certificates"],
	["overdue", ids.overdue, "overdue"],
	["tainted", ids.tainted, "rma-pending"],
	["failed", ids.failed, "uncorrectable"],
	["unreachable", ids.unreachable, "Certificates"],
	["free", ids.free, "Certificates"],
])
	await check(`the page of a node that is ${name}`, async () => {
		await page.goto(at(`/nodes/${id}`));
		await page.getByText(text).first().waitFor();
		await page.getByText("Certificates").first().waitFor();
		await page.getByRole("list", { name: "Events, newest first" }).or(page.getByText("None are kept.")).waitFor();
		await four(`node-${name}`, { sizesOnly: ["draining", "free"].includes(name) ? ["wide", "narrow"] : ["wide"] });
	});
await check("no such node", async () => {
	await page.goto(at(`/nodes/${nodeId(999_999)}`));
	await page.getByText("No such node").waitFor();
	await four("node-missing", { sizesOnly: ["wide"] });
});
await check("no such page", async () => {
	await page.goto(at("/nowhere"));
	await page.getByText("There is no such page").waitFor();
	await four("no-page", { sizesOnly: ["wide"] });
});
await check("drains", async () => {
	await page.goto(at("/drains"));
	await row(page, ids.draining).waitFor();
	await row(page, ids.cordoned).waitFor();
	await four("drains");
	await row(page, ids.draining).getByRole("button", { name: /allocations/ }).click();
	await page.getByText(/Empty at/).waitFor();
	await four("drains-plan");
});
await check("events", async () => {
	await page.goto(at("/events"));
	await page.locator("[data-event]").first().waitFor();
	await four("events");
	await page.goto(at("/events?type=drains"));
	await page.locator("[data-event]").first().waitFor();
	await page.getByRole("button", { name: "Pause" }).click();
	await plane.drain(nodeId(60), "seen while paused");
	await page.getByText("2 new").waitFor();
	await four("events-paused", { sizesOnly: ["wide"] });
	await plane.uncordon(nodeId(60));
});
for (const [control, id] of [
	["cordon", ids.busy],
	["drain", ids.busy],
	["uncordon", ids.draining],
])
	await check(`the dialog to ${control}`, async () => {
		await page.goto(at(`/nodes/${id}`));
		await page.getByRole("button", { name: control[0].toUpperCase() + control.slice(1), exact: true }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByText("The same from a script").click();
		await dialog.getByLabel("Reason").fill("replace PSU");
		await four(`dialog-${control}`, { sizesOnly: control === "drain" ? ["wide", "narrow"] : ["wide"] });
	});
for (const [control, id, button, fill] of [
	["label", ids.free, "Change labels", async (d) => {
		await d.getByLabel("Value of rack").fill("b8");
		await d.getByRole("button", { name: "Remove fabric/rail" }).click();
		await d.getByLabel("Another label").fill("cpu.arch");
		await d.getByText("belong to others").click();
	}],
	["taint", ids.tainted, "Change taints", async (d) => {
		await d.getByRole("button", { name: "Remove rma-pending" }).click();
		await d.getByLabel("Another taint").fill("dedicated=acme");
	}],
	["recordon", ids.cordoned, "Change reason or end", async (d) => d.getByRole("button", { name: "Meant to end: in 8 h" }).click()],
	["adopt", ids.busy, "Adopt again", async () => undefined],
	["delete", ids.drained, "Delete…", async (d) => d.getByLabel(/Type/).fill("gpu-0003")],
])
	await check(`the dialog to ${control}`, async () => {
		await page.goto(at(`/nodes/${id}`));
		await page.getByRole("button", { name: button, exact: true }).click();
		await page.getByRole("dialog").waitFor();
		await fill(page.getByRole("dialog"));
		await four(`dialog-${control}`, { sizesOnly: ["label", "delete"].includes(control) ? ["wide", "narrow"] : ["wide"] });
	});
await check("many nodes: what would become of them, and what became of them", async () => {
	await page.goto(at("/nodes"));
	await grid.waitFor();
	await live(page).waitFor();
	await page.getByLabel("Select gpu-00000").click();
	await page.getByLabel("Select gpu-00019").click({ modifiers: ["Shift"] });
	await page.getByText("20 selected").waitFor();
	await four("nodes-ticked");
	await page.getByLabel("Select all that match").check();
	await page.getByRole("button", { name: "Act on them" }).click();
	const dialog = page.getByRole("dialog");
	await dialog.getByText(/would change ·/).waitFor();
	await four("many-cordon");
	await dialog.getByRole("combobox").selectOption("UNCORDON");
	await dialog.getByLabel("Reason").fill("BIOS update window is over");
	await dialog.getByText("The same from a script").click();
	await dialog.getByRole("button", { name: /^Uncordon \d/ }).waitFor();
	await four("many-uncordon-script");
	await dialog.getByRole("button", { name: /^Uncordon \d/ }).click();
	await dialog.getByText(/Through: \d+ refused/).waitFor({ timeout: 30_000 });
	await four("many-results");
	await dialog.getByRole("button", { name: "Close" }).click();
});
await check("many nodes named by their ids, and drains that wait their turn", async () => {
	await page.goto(at("/nodes"));
	await grid.waitFor();
	await live(page).waitFor();
	await page.getByLabel("Select gpu-00000").click();
	await page.getByLabel("Select gpu-00019").click({ modifiers: ["Shift"] });
	await page.getByRole("button", { name: "Act on them" }).click();
	const dialog = page.getByRole("dialog");
	await dialog.getByRole("combobox").selectOption("DRAIN");
	await dialog.getByLabel(/Drains at one time/).fill("2");
	await dialog.getByText("The same from a script").click();
	await dialog.getByRole("button", { name: /^Drain \d/ }).waitFor();
	await four("many-drain-script");
	await dialog.getByRole("button", { name: /^Drain \d/ }).click();
	await dialog.getByText(/drains? run/).waitFor({ timeout: 30_000 });
	await four("many-running");
	await dialog.getByRole("button", { name: "Stop" }).click();
	await dialog.getByText(/^Stopped by/).waitFor();
	await dialog.getByRole("button", { name: "Close" }).click();
});
await check("a deleted node", async () => {
	await plane.control("Cordon", nodeId(258), { reason: "decommission" });
	await plane.control("Delete", nodeId(258), { reason: "board is dead" });
	await page.goto(at(`/nodes/${nodeId(258)}`));
	await page.getByText("Its history stays here.").waitFor();
	await page.getByRole("list", { name: "Events, newest first" }).waitFor();
	await four("node-deleted", { sizesOnly: ["wide"] });
	await page.goto(at("/nodes?deleted=true&q=gpu-0025"));
	await row(page, nodeId(258)).waitFor();
	await four("nodes-deleted");
});
await check("a node that changed under the dialog", async () => {
	await page.goto(at(`/nodes/${ids.free}`));
	await page.getByRole("button", { name: "Drain", exact: true }).click();
	await live(page).waitFor();
	await page.getByRole("dialog").getByLabel("Reason").fill("replace PSU");
	await plane.cordon(ids.free, "mine first");
	await page.getByText("Changed since you opened this").waitFor();
	await four("dialog-changed", { sizesOnly: ["wide"] });
	await plane.uncordon(ids.free);
});
await check("the menu, the keys, and why a control is off", async () => {
	await page.goto(at("/nodes"));
	await grid.waitFor();
	await page.getByRole("button", { name: /Menu of/ }).click();
	await page.getByRole("menuitem", { name: /playground/ }).waitFor();
	await four("menu");
	await page.keyboard.press("Escape");
	await page.keyboard.press("?");
	await page.getByRole("dialog").waitFor();
	await four("keys");
	await page.keyboard.press("Escape");
	await page.goto(at(`/nodes/${ids.free}`));
	await page.getByRole("button", { name: "Uncordon", exact: true }).hover();
	await page.getByRole("tooltip").waitFor();
	await checks.shot(page, "control-off-wide-light");
});
await check("the connection is lost", async () => {
	await page.goto(at("/nodes"));
	await grid.waitFor();
	await live(page).waitFor();
	await plane.halt();
	await page.getByText("The connection to the server is lost").waitFor({ timeout: 10_000 });
	await four("stale");
	await plane.serve();
	await live(page).waitFor({ timeout: 40_000 });
	await page.goto(at(`/nodes/${ids.draining}`));
	await page.getByRole("heading", { name: "Waits for" }).waitFor();
	await plane.halt();
	await page.getByText("The connection to the server is lost").waitFor({ timeout: 10_000 });
	await four("stale-node", { sizesOnly: ["wide"] });
	await plane.serve();
	await live(page).waitFor({ timeout: 40_000 });
});
await check("the session has ended", async () => {
	await page.goto(at("/nodes"));
	await grid.waitFor();
	const other = await context.newPage();
	await other.goto(at("/nodes"));
	await other.getByRole("button", { name: /Menu of/ }).click();
	await other.getByRole("menuitem", { name: "Sign out" }).click();
	await other.getByText("You are signed out").waitFor();
	await page.getByText("Your session has ended").waitFor({ timeout: 30_000 });
	await four("session-ended", { sizesOnly: ["wide"] });
	await other.close();
});
await browser.close();
await plane.stop();
checks.end();
