// The first page's JavaScript must stay small: everything that index.html names, gzipped, against the limit.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const limit = 190 * 1024;
const dist = new URL("../dist/", import.meta.url);
const html = readFileSync(new URL("index.html", dist), "utf8");
const files = [...html.matchAll(/(?:src|href)="\/(assets\/[^"]+\.js)"/g)].map((m) => m[1]);
if (files.length === 0) {
	console.error("size: dist/index.html names no script");
	process.exit(1);
}
let sum = 0;
for (const file of files) {
	const bytes = gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length;
	sum += bytes;
	console.log(`${(bytes / 1024).toFixed(1).padStart(8)} KB  ${file}`);
}
console.log(`${(sum / 1024).toFixed(1).padStart(8)} KB gzipped of ${limit / 1024} KB`);
process.exit(sum > limit ? 1 : 0);
