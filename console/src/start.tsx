import { createRoot } from "react-dom/client";
import { App } from "./app";

/** Draws the page. */
export function start(secret: string | null): void {
	const place = document.getElementById("root");
	if (place) createRoot(place).render(<App secret={secret} />);
}
