import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

// Empties the build folder but for the file that keeps it in the repository, and writes each text file once more as gzip and
// brotli, so that the server never compresses.
function precompressed(): Plugin {
	let dir = "";
	return {
		name: "precompressed",
		apply: "build",
		configResolved(config) {
			dir = join(config.root, config.build.outDir);
		},
		buildStart() {
			for (const made of ["assets", "index.html", "index.html.br", "index.html.gz", "icon.svg", "icon.svg.br", "icon.svg.gz"])
				rmSync(join(dir, made), { recursive: true, force: true });
		},
		writeBundle(_, bundle) {
			for (const name of [...Object.keys(bundle), "icon.svg"]) {
				if (!/\.(html|js|css|svg)$/.test(name)) continue;
				const body = readFileSync(join(dir, name));
				writeFileSync(join(dir, `${name}.gz`), gzipSync(body, { level: 9 }));
				writeFileSync(join(dir, `${name}.br`), brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
			}
		},
	};
}

const server = process.env.BETTER_COMPUTE_SERVER ?? "http://127.0.0.1:8080";

export default defineConfig({
	plugins: [react(), tailwindcss(), precompressed()],
	build: {
		outDir: "dist",
		emptyOutDir: false,
		target: "es2023",
		modulePreload: { polyfill: false },
		assetsInlineLimit: 0,
		chunkSizeWarningLimit: 700,
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
});
