/** The wait before attempt n (from 0): full jitter under a doubling cap, the first attempt too, so that a fleet of pages that lost its server does not come back at once. */
export function backoff(attempt: number, random: () => number = Math.random): number {
	const cap = Math.min(30_000, 1_000 * 2 ** Math.min(attempt, 5));
	return Math.round(random() * cap);
}
