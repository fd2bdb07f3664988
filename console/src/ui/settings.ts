import { useSyncExternalStore } from "react";

/** Choices of this browser alone: they change how things look, never what is true. */
const choices = {
	theme: ["system", "light", "dark"],
	zone: ["local", "utc"],
	shortcuts: ["on", "off"],
} as const;

export type Settings = { [K in keyof typeof choices]: (typeof choices)[K][number] };

const listeners = new Set<() => void>();
const name = (key: string) => `better-compute.${key}`;

function read<K extends keyof Settings>(key: K): Settings[K] {
	const allowed: readonly string[] = choices[key];
	try {
		const held = localStorage.getItem(name(key));
		if (held && allowed.includes(held)) return held as Settings[K];
	} catch {
		// Without storage the choice holds for this page alone.
	}
	return choices[key][0] as Settings[K];
}

let current: Settings = { theme: read("theme"), zone: read("zone"), shortcuts: read("shortcuts") };

function apply(): void {
	if (current.theme === "system") delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = current.theme;
}

export const settings = (): Settings => current;

export function choose<K extends keyof Settings>(key: K, value: Settings[K]): void {
	current = { ...current, [key]: value };
	try {
		localStorage.setItem(name(key), value);
	} catch {
		// As above.
	}
	apply();
	for (const tell of listeners) tell();
}

export function useSettings(): Settings {
	return useSyncExternalStore(
		(listener) => {
			listeners.add(listener);
			return () => listeners.delete(listener);
		},
		() => current,
	);
}

apply();
