import { takeSecret } from "./api/session";
import { askEarly } from "./boot";
import "./styles.css";

// The secret leaves the address before anything else can read it.
const secret = takeSecret(location, history);
if (!secret) askEarly(location);

// The rest is larger, and is on its way already: the page names it. This script is async, for the questions are not to wait for the style sheet,
// and so may run before the place to draw in has been parsed.
const parsed =
	document.readyState === "loading"
		? new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }))
		: null;
void Promise.all([import("./start"), parsed]).then(([{ start }]) => start(secret));

// A link opened in a tab that already shows the console changes the fragment alone.
window.addEventListener("hashchange", () => {
	if (location.hash.includes("sign-in=")) location.reload();
});
