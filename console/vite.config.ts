import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

// The playground is built apart from the console, so that the two share no chunk and neither page can grow the other.
const pages = {
	console: { html: "index.html", assets: "assets", made: ["assets", "index.html", "icon.svg"] },
	playground: { html: "playground.html", assets: "assets/playground", made: ["assets/playground", "playground.html"] },
};

// Removes what the build before made, but not the file that keeps the folder in the repository, and writes each text file once more
// as gzip and brotli, so that the server never compresses.
function precompressed(made: string[]): Plugin {
	let dir = "";
	return {
		name: "precompressed",
		apply: "build",
		configResolved(config) {
			dir = join(config.root, config.build.outDir);
		},
		buildStart() {
			for (const name of made)
				for (const twin of ["", ".br", ".gz"]) rmSync(join(dir, name + twin), { recursive: true, force: true });
		},
		writeBundle(_, bundle) {
			for (const name of [...Object.keys(bundle), "icon.svg"]) {
				if (!/\.(html|js|css|svg)$/.test(name)) continue;
				const body = readFileSync(join(dir, name));
				// Brotli's highest quality takes seconds for a megabyte, and gains little there.
				const quality = body.length < 1 << 20 ? 11 : 9;
				writeFileSync(join(dir, `${name}.gz`), gzipSync(body, { level: 9 }));
				writeFileSync(
					join(dir, `${name}.br`),
					brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } }),
				);
			}
		},
	};
}

// The first script asks for the data and then loads the page's code. Its name stands in the HTML, so that both are on their way at once and
// the size check counts it.
function preloaded(module: string): Plugin {
	return {
		name: "preloaded",
		apply: "build",
		transformIndexHtml: {
			order: "post",
			handler(html, { bundle }) {
				if (!bundle) return;
				const files = new Set<string>();
				const add = (file: string) => {
					const chunk = bundle[file];
					if (chunk?.type !== "chunk" || files.has(file)) return;
					files.add(file);
					for (const next of chunk.imports) add(next);
				};
				for (const chunk of Object.values(bundle))
					if (chunk.type === "chunk" && chunk.facadeModuleId?.endsWith(module)) add(chunk.fileName);
				return [...files]
					.filter((file) => !html.includes(file))
					.map((file) => ({
						tag: "link",
						attrs: { rel: "modulepreload", crossorigin: true, href: `/${file}` },
						injectTo: "head" as const,
					}));
			},
		},
	};
}

const server = process.env.BETTER_COMPUTE_SERVER ?? "http://127.0.0.1:8080";

export default defineConfig(({ mode }) => {
	const page = mode === "playground" ? pages.playground : pages.console;
	return {
		plugins: [react(), tailwindcss(), preloaded("/src/start.tsx"), precompressed(page.made)],
		build: {
			outDir: "dist",
			assetsDir: page.assets,
			emptyOutDir: false,
			target: "es2023",
			modulePreload: { polyfill: false },
			assetsInlineLimit: 0,
			// The playground's editor is large by nature.
			chunkSizeWarningLimit: page === pages.playground ? 5000 : 700,
			rollupOptions: {
				input: page.html,
				// How long plugins take on a slow machine is nothing to tell whoever starts the product.
				checks: { pluginTimings: false },
				// GraphiQL's files carry a directive of a compiler that is not used here.
				onLog: (level, log, print) => log.code !== "MODULE_LEVEL_DIRECTIVE" && print(level, log),
			},
		},
		server: {
			host: "127.0.0.1",
			proxy: {
				// The server answers its own pages alone, so the development server speaks in its name.
				"/graphql": { target: server, ws: true, changeOrigin: true, headers: { origin: server } },
				"/session": { target: server, changeOrigin: true, headers: { origin: server } },
			},
		},
		test: { environment: "happy-dom", include: ["test/**/*.test.{ts,tsx}"], reporters: ["default", "./scripts/count.mjs"] },
	};
});
