import { ApiError } from "../src/api/client";
import type { Dial, Ears, Line, Sink } from "../src/api/line";

export type Said = { query: string; variables: Record<string, unknown>; sink: Sink; live: boolean };

/** A server that is spoken by hand: each dialled line, what was subscribed on it, and what was asked of it. */
export class Wire {
	lines: { ears: Ears; said: Said[]; pings: number; cut: boolean }[] = [];
	/** Whether a dialled line opens by itself. */
	up = true;

	dial: Dial = (ears) => {
		const line = { ears, said: [] as Said[], pings: 0, cut: false };
		this.lines.push(line);
		const cut = () => {
			if (line.cut) return;
			line.cut = true;
			ears.closed(new ApiError("NETWORK", "the connection was cut"));
		};
		const me: Line = {
			subscribe: (query, variables, sink) => {
				const said = { query, variables, sink, live: true };
				line.said.push(said);
				return () => {
					said.live = false;
				};
			},
			ping: () => {
				line.pings++;
			},
			cut,
		};
		if (this.up) ears.opened(me);
		return { cut };
	};

	get line() {
		const line = this.lines.at(-1);
		if (!line) throw new Error("nobody dialled");
		return line;
	}

	/** The running streams of the newest line whose document holds the text. */
	streams(text: string): Said[] {
		return this.line.said.filter((s) => s.live && s.query.includes(text));
	}

	stream(text: string): Said {
		const [said] = this.streams(text);
		if (!said) throw new Error(`no stream of ${text}`);
		return said;
	}

	lose(error: ApiError): void {
		this.line.cut = true;
		this.line.ears.closed(error);
	}
}
