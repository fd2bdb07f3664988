// A control plane of its own in a scratch directory: PostgreSQL, `better-compute serve` that can be stopped and started under an open page, Chromium,
// and a second client with a bearer token. Needs bin/ (just build) and bin/test/console-database.
//
//   CHROMIUM   the browser (/usr/bin/chromium)
//   SHOTS      a folder for screenshots; absent: none are made

import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(new URL("../../console/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const root = resolve(new URL("../..", import.meta.url).pathname);

/** Asks again until the answer is good: the page says when it is ready, no pause decides it. The deadline is for what never comes, on a busy machine too. */
export async function until(what, ask, ms = 30_000) {
	const end = Date.now() + ms;
	let last;
	for (;;) {
		last = await ask();
		if (last) return last;
		if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
		await new Promise((next) => setTimeout(next, 25));
	}
}

export function must(condition, sentence) {
	if (!condition) throw new Error(sentence);
}

const freePort = () =>
	new Promise((done) => {
		const s = createServer().listen(0, "127.0.0.1", () => {
			const { port } = s.address();
			s.close(() => done(port));
		});
	});

const ended = (child) => new Promise((done) => (child.exitCode !== null || child.signalCode ? done() : child.once("exit", done)));

/** The control plane. */
export class Plane {
	static async start() {
		const p = new Plane();
		// As root the database runs as another user, who must reach its directory.
		p.dir = mkdtempSync("/var/tmp/better-compute-console.");
		chmodSync(p.dir, 0o711);
		p.data = join(p.dir, "data");
		p.children = [];
		// However this process ends, nothing it started outlives it.
		process.on("exit", () => {
			for (const child of [...p.children, p.server]) child?.kill("SIGTERM");
		});
		p.listen = `127.0.0.1:${await freePort()}`;
		p.gateway = `127.0.0.1:${await freePort()}`;
		p.base = `http://${p.listen}`;
		p.tenant = "default";
		await p.#database();
		await p.serve();
		return p;
	}

	async #database() {
		this.db = spawn(join(root, "bin/test/console-database"), [join(this.dir, "db")], { cwd: root, stdio: ["pipe", "pipe", "inherit"] });
		const lines = createInterface({ input: this.db.stdout });
		const waiting = [];
		lines.on("line", (line) => waiting.shift()?.(JSON.parse(line)));
		this.db.once("exit", () => {
			for (const done of waiting.splice(0)) done({ error: "the database ended" });
		});
		const next = () => new Promise((done) => waiting.push(done));
		this.databaseUrl = await next();
		if (this.databaseUrl.error) throw new Error(this.databaseUrl.error);
		this.sql = async (text) => {
			const answer = next();
			this.db.stdin.write(`${JSON.stringify(text)}\n`);
			const { rows, error } = await answer;
			if (error) throw new Error(error);
			return rows;
		};
	}

	/** Starts the server, on the same address each time. */
	async serve() {
		const log = openSync(join(this.dir, "serve.log"), "a");
		const args = ["serve", "--data-dir", this.data, "--database-url", this.databaseUrl, "--listen", this.listen, "--gateway-listen", this.gateway];
		this.server = spawn(join(root, "bin/better-compute"), args, { cwd: root, stdio: ["ignore", log, log] });
		await until(
			"the server is ready",
			async () => {
				if (this.server.exitCode !== null) throw new Error(`the server ended: ${readFileSync(join(this.dir, "serve.log"), "utf8").slice(-2_000)}`);
				return (await fetch(`${this.base}/readyz`).catch(() => null))?.ok;
			},
			60_000,
		);
		this.token = readFileSync(join(this.data, "admin.token"), "utf8").trim();
	}

	async halt(signal = "SIGTERM") {
		this.server.kill(signal);
		await ended(this.server);
	}

	async stop(keep = false) {
		for (const child of this.children.reverse()) {
			child.kill("SIGTERM");
			await ended(child);
		}
		await this.halt();
		this.db.stdin.end();
		await ended(this.db);
		if (keep) console.error(`browser: kept ${this.dir}`);
		else rmSync(this.dir, { recursive: true, force: true });
	}

	async api(query, variables = {}) {
		const response = await fetch(`${this.base}/graphql`, {
			method: "POST",
			headers: { "content-type": "application/json", authorization: `Bearer ${this.token}` },
			body: JSON.stringify({ query, variables }),
		});
		const body = await response.json();
		if (body.errors?.length) throw new Error(`${body.errors[0].extensions?.code}: ${body.errors[0].message}`);
		return body.data;
	}

	/** Runs a control on a node; more goes into its input. */
	async control(verb, nodeId, more = {}) {
		const field = `node${verb}`;
		const answer = await this.api(`mutation ($i: ${field[0].toUpperCase()}${field.slice(1)}Input!) { ${field}(input: $i) { ${verb === "Delete" ? "deleted" : "changed node { id version }"} } }`, {
			i: { tenantId: this.tenant, nodeId, ...more },
		});
		return answer[field];
	}
	cordon = (nodeId, reason) => this.control("Cordon", nodeId, { reason });
	uncordon = (nodeId) => this.control("Uncordon", nodeId);
	drain = (nodeId, reason) => this.control("Drain", nodeId, { reason });

	async book(nodeId, more = {}) {
		const { reservationCreate } = await this.api("mutation ($i: ReservationCreateInput!) { reservationCreate(input: $i) { reservation { id } } }", {
			i: { tenantId: this.tenant, nodeId, ...more },
		});
		return reservationCreate.reservation.id;
	}
	release = (reservationId) =>
		this.api("mutation ($i: ReservationReleaseInput!) { reservationRelease(input: $i) { changed } }", { i: { tenantId: this.tenant, reservationId } });

	run(program, args, input) {
		return new Promise((done, failed) => {
			const child = spawn(join(root, "bin", program), args, { cwd: root, stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"] });
			let out = "";
			let err = "";
			child.stdout.on("data", (d) => (out += d));
			child.stderr.on("data", (d) => (err += d));
			child.once("exit", (code) => (code === 0 ? done(out.trim()) : failed(new Error(`${program} ${args[0]}: exit ${code}: ${err}`))));
			if (input !== undefined) child.stdin.end(input);
		});
	}
	cli = (...args) => this.run("better-compute", [...args, "--server", this.base, "--token-file", join(this.data, "admin.token")]);

	/** Runs what the console says to type, as a person would, and gives its exit and what it said. */
	shell(line) {
		return new Promise((done) => {
			const env = { ...process.env, PATH: `${join(root, "bin")}:${process.env.PATH}`, BETTER_COMPUTE_SERVER: this.base, BETTER_COMPUTE_TOKEN_FILE: join(this.data, "admin.token") };
			const child = spawn("bash", ["-c", line], { env, stdio: ["ignore", "pipe", "pipe"] });
			let said = "";
			for (const stream of [child.stdout, child.stderr]) stream.on("data", (d) => (said += d));
			child.once("close", (code) => done({ code, said }));
		});
	}
	signInLink = () => this.cli("sign-in", "-o", "name");

	/** Joins this very machine with a real bcd, and starts its daemon. The secret passes by standard input alone. */
	async join() {
		const token = JSON.parse(await this.cli("join-tokens", "create", "--tenant", this.tenant, "--pool", "default", "-o", "json"));
		const dir = join(this.dir, "bcd");
		mkdirSync(dir, { mode: 0o700 });
		const config = join(dir, "config.toml");
		writeFileSync(
			config,
			`server = "${this.gateway}"\nca_fingerprint = "${token.caFingerprint}"\nstate_dir = "${dir}/state"\n\n[join]\nattestor = "token"\ntoken_file = "-"\n`,
		);
		await this.run("bcd", ["join", "--config", config], token.secret);
		const log = openSync(join(this.dir, "bcd.log"), "a");
		this.children.push(spawn(join(root, "bin/bcd"), ["run", "--config", config], { cwd: root, stdio: ["ignore", log, log] }));
	}
}

/** The browser, signed in by a link as a person is. */
export async function openBrowser(options = {}) {
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
			...(options.args ?? []),
		],
	});
	const context = await browser.newContext({
		viewport: { width: 1440, height: 860 },
		colorScheme: "light",
		timezoneId: "Europe/Berlin",
		permissions: ["clipboard-read", "clipboard-write"],
		...options.context,
	});
	context.setDefaultTimeout(30_000);
	return { browser, context };
}

/** What all checks share: counting, watching for errors and foreign hosts, axe, and pictures. */
export class Checks {
	passed = 0;
	failed = 0;
	hosts = new Set();
	problems = [];
	shots = process.env.SHOTS;

	#results = [];

	constructor(part, only = process.env.ONLY) {
		this.part = part;
		this.only = only;
		if (this.shots) mkdirSync(this.shots, { recursive: true });
	}

	check = async (name, run) => {
		if (this.only && !name.includes(this.only)) return;
		const began = Date.now();
		try {
			await run();
			this.passed++;
			this.#results.push({ ancestorTitles: [], title: name, status: "passed" });
			console.log(`ok    ${name} (${Date.now() - began} ms)`);
		} catch (e) {
			this.failed++;
			this.#results.push({ ancestorTitles: [], title: name, status: "failed" });
			console.log(`FAIL  ${name}\n      ${String(e?.message ?? e).replaceAll("\n", "\n      ")}`);
			for (const [i, page] of (this.pages?.() ?? []).entries()) await this.shot(page, `failed-${this.failed}-${i}`).catch(() => undefined);
		}
	};

	/** Says how many passed, leaves the report that the case counter reads, and ends the process. */
	end() {
		const name = `browser-${this.part}`;
		writeFileSync(join(root, `bin/test/${name}.json`), JSON.stringify({ testResults: [{ name, status: this.failed ? "failed" : "passed", assertionResults: this.#results }] }));
		console.log(`${this.part}: ${this.passed} passed, ${this.failed} failed, 0 skipped`);
		process.exit(this.failed ? 1 : 0);
	}

	watch(page) {
		page.on("request", (r) => r.url().startsWith("http") && this.hosts.add(new URL(r.url()).host));
		page.on("websocket", (ws) => this.hosts.add(new URL(ws.url()).host));
		page.on("pageerror", (e) => this.problems.push(String(e)));
		page.on("console", (m) => m.type() === "error" && !/status of (401|503)|ERR_CONNECTION|WebSocket connection/.test(m.text()) && this.problems.push(m.text()));
	}

	async shot(page, name) {
		if (this.shots) await page.screenshot({ path: join(this.shots, `${name}.png`) });
	}

	async axe(page, what) {
		await page.evaluate(axeSource);
		const found = await page.evaluate(async () => {
			const { violations } = await window.axe.run(document, {
				runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
			});
			return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} (${n.any[0]?.message ?? ""})`).join(" | ")}`);
		});
		must(found.length === 0, `axe on ${what}:\n${found.join("\n")}`);
	}
}

export const live = (page) => page.locator('[data-connection="live"]');
export const row = (page, id) => page.locator(`[data-node="${id}"]`);
export const rowText = async (page, id) => (await row(page, id).innerText()).replaceAll("\n", " ");
