import { useEffect, useRef } from "react";
import { useSettings } from "../ui/settings";

/**
 * Calls the handler for keys that are pressed while nothing is typed and no dialog is open. It says whether it took the key. Single letters
 * come only while the reader wants them: some people's software sends keys that nobody pressed.
 */
export function useKeys(handler: (key: string, e: globalThis.KeyboardEvent) => boolean, enabled = true): void {
	const { shortcuts } = useSettings();
	const current = useRef(handler);
	current.current = handler;
	useEffect(() => {
		if (!enabled) return;
		const listener = (e: globalThis.KeyboardEvent) => {
			if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey) return;
			const target = e.target as HTMLElement;
			if (target.closest("input:not([type=checkbox]), textarea, select, [contenteditable], [role=dialog], [role=menu]")) return;
			if (shortcuts === "off" && e.key.length === 1) return;
			if (current.current(e.key, e)) e.preventDefault();
		};
		window.addEventListener("keydown", listener);
		return () => window.removeEventListener("keydown", listener);
	}, [enabled, shortcuts]);
}
