// Opens River's pages about jobs in Chromium under the server's session, origin and content policy, and walks through them.
//
//   BASE_URL       where the server is, like http://127.0.0.1:8080
//   SIGN_IN_LINK   a one-time link that `better-compute sign-in` printed for who holds a grant in every tenant
//   SHOTS          a folder for screenshots; absent: none are made
//   CHROMIUM       the browser (/usr/bin/chromium)

import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const { chromium } = createRequire(new URL("../console/package.json", import.meta.url))("playwright-core");
const base = process.env.BASE_URL.replace(/\/$/, "");
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
	}
}
const must = (condition, sentence) => {
	if (!condition) throw new Error(sentence);
};

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const page = await context.newPage();
const wrong = [];
const elsewhere = [];
// The page's own check whether it may compile code at run time is refused by the policy, and it goes on without: that one refusal is awaited, and
// what the browser says of it on the console is left to the policy's own reports.
await page.exposeFunction("refusedByPolicy", (what) => wrong.push(what));
await page.addInitScript(() =>
	document.addEventListener("securitypolicyviolation", (e) => e.blockedURI !== "eval" && window.refusedByPolicy(`${e.violatedDirective}: ${e.blockedURI}`)),
);
page.on("console", (m) => m.type() === "error" && !m.text().includes("script-src") && wrong.push(m.text()));
page.on("pageerror", (e) => wrong.push(String(e)));
page.on("request", (r) => r.url().startsWith(base) || r.url().startsWith("data:") || elsewhere.push(r.url()));
const shot = (name) => (shots ? page.screenshot({ path: join(shots, `${name}.png`) }) : undefined);

await check("without a session /jobs/ sends to where one signs in", async () => {
	await page.goto(`${base}/jobs/`);
	must(new URL(page.url()).pathname === "/", page.url());
});
await check("with the admin's session /jobs/ shows the jobs", async () => {
	const secret = new URL(process.env.SIGN_IN_LINK).hash.replace("#sign-in=", "");
	const status = await page.evaluate(
		async (secret) =>
			(await fetch("/session/claim", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ secret }) })).status,
		secret,
	);
	must(status === 204, `the sign-in answered ${status}`);
	wrong.length = 0; // what the console said before there was a session
	await page.goto(`${base}/jobs/`);
	await page.getByRole("link", { name: /completed/i }).first().click();
	await page.getByText("interval_sweep").first().waitFor({ timeout: 15_000 });
	await shot("jobs");
});
await check("a job's own page opens", async () => {
	await page.goto(`${base}/jobs/jobs?state=completed`);
	await page.getByText("interval_sweep").first().click();
	await page.waitForURL(/\/jobs\/jobs\/\d+/, { timeout: 15_000 });
	await page.getByText("Attempt").first().waitFor({ timeout: 15_000 });
	await shot("jobs-one");
});
await check("an act of the page goes through: a queue is paused and resumed", async () => {
	await page.goto(`${base}/jobs/queues/maintenance`);
	const pause = page.getByRole("button", { name: "Pause", exact: true });
	const resume = page.getByRole("button", { name: "Resume", exact: true });
	await pause.click();
	await resume.waitFor({ timeout: 15_000 });
	await resume.click();
	await pause.waitFor({ timeout: 15_000 });
	await shot("jobs-queue");
});
await check("nothing was refused by the content policy, went wrong in the page, or was asked of another server", async () => {
	must(wrong.length === 0, wrong.join("\n"));
	must(elsewhere.length === 0, elsewhere.join("\n"));
});
await browser.close();
console.log(`jobs: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
