import { createRoot } from "react-dom/client";
import { takeSecret } from "./api/session";
import { App } from "./app";
import { askViewer } from "./boot";
import "./styles.css";

// The secret leaves the address before anything else can read it.
const secret = takeSecret(location, history);
if (!secret) askViewer();
const place = document.getElementById("root");
if (place) createRoot(place).render(<App secret={secret} />);

// A link opened in a tab that already shows the console changes the fragment alone.
window.addEventListener("hashchange", () => {
	if (location.hash.includes("sign-in=")) location.reload();
});
