import { useSyncExternalStore } from "react";
import { settings } from "./settings";

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | null = null;
let moment = Date.now();
let frozen: number | null = null;

/** Stops the ages at the moment of the data while it is stale, for "now" would be a lie; null lets them run. */
export function freezeTime(at: number | null): void {
	if (frozen === at) return;
	frozen = at;
	moment = at ?? Date.now();
	for (const tell of listeners) tell();
}

/** The time, moved on every few seconds for all that show an age, so that they never disagree. What shows none now is not drawn anew for it, and gets 0. */
export function useNow(needed = true): number {
	return useSyncExternalStore(
		(listener) => {
			listeners.add(listener);
			timer ??= setInterval(() => {
				if (frozen !== null) return;
				moment = Date.now();
				for (const tell of listeners) tell();
			}, 5_000);
			return () => {
				listeners.delete(listener);
				if (listeners.size === 0 && timer) {
					clearInterval(timer);
					timer = null;
				}
			};
		},
		() => (needed ? moment : 0),
	);
}

const time = { hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;
const date = { year: "numeric", month: "short", day: "numeric" } as const;

function formats(timeZone?: string) {
	const make = (o: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat("en-GB", timeZone ? { ...o, timeZone } : o);
	return {
		clock: make({ ...time, timeZoneName: "short" }),
		full: make({ ...date, ...time, timeZoneName: "short" }),
		day: make({ weekday: "short", ...date }),
		short: make(time),
	};
}
const local = formats();
const utc = formats("UTC");
const format = () => (settings().zone === "utc" ? utc : local);

/** 13:34:30 CET */
export const clock = (at: number | string) => format().clock.format(new Date(at));
/** 13:34:30, where the zone stands beside */
export const short = (at: number | string) => format().short.format(new Date(at));
/** 29 Nov 2026, 13:34:30 CET */
export const full = (at: number | string) => format().full.format(new Date(at));
/** Sun, 29 Nov 2026 */
export const day = (at: number | string) => format().day.format(new Date(at));
/** CET */
export const zone = (at: number | string) =>
	format()
		.clock.formatToParts(new Date(at))
		.find((p) => p.type === "timeZoneName")?.value ?? "";

/** 2 h 14 min: at most two units, the coarse ones. */
export function duration(ms: number): string {
	const s = Math.max(0, Math.round(ms / 1000));
	if (s < 60) return `${s} s`;
	const m = Math.floor(s / 60);
	if (m < 60) return `${m} min`;
	const h = Math.floor(m / 60);
	if (h < 24) return m % 60 ? `${h} h ${m % 60} min` : `${h} h`;
	const d = Math.floor(h / 24);
	return h % 24 && d < 10 ? `${d} d ${h % 24} h` : `${d} d`;
}

/** 14 min ago; seconds of the first minute are noise. */
export function ago(at: string, now: number): string {
	const ms = now - Date.parse(at);
	return ms < 60_000 ? "just now" : `${duration(ms)} ago`;
}

/** in 47 min, or since when it is over. */
export function until(at: string, now: number): string {
	const ms = Date.parse(at) - now;
	return ms >= 0 ? `in ${duration(ms)}` : `${duration(-ms)} ago`;
}

/** An age with the moment itself in its tooltip and for machines. */
export function Ago({ at }: { at: string }) {
	const now = useNow();
	return (
		<time dateTime={at} title={full(at)}>
			{ago(at, now)}
		</time>
	);
}
