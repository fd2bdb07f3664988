import { Tooltip } from "radix-ui";
import { type ButtonHTMLAttributes, Fragment, type ReactNode, useEffect, useRef, useState } from "react";
import type { ApiError } from "../api/client";

const looks = {
	plain: "border border-line bg-bg text-text hover:bg-hover",
	primary: "border border-accent bg-accent text-on-accent hover:bg-accent-hover hover:border-accent-hover",
	danger: "border border-bad bg-bad text-on-bad hover:opacity-90",
	row: "border border-transparent text-muted hover:bg-bg! hover:text-text group-hover:border-line group-hover:text-text group-aria-selected:border-line group-aria-selected:text-text",
	quiet: "border border-transparent text-muted hover:bg-hover hover:text-text",
};

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
	look?: keyof typeof looks;
	/** Why it cannot be used now: it stays visible and says so instead of acting. */
	because?: string | null;
};

/** A button that, when it is not offered, can still be reached and says why. */
export function Button({ look = "plain", because, className = "", onClick, children, ...rest }: ButtonProps) {
	const off = because != null;
	const button = (
		<button
			type="button"
			className={`inline-flex h-7 shrink-0 items-center justify-center gap-1.5 whitespace-nowrap rounded px-2.5 font-medium ${looks[look]} ${off ? "cursor-not-allowed! opacity-60" : ""} ${className}`}
			aria-disabled={off || undefined}
			onClick={off ? (e) => e.preventDefault() : onClick}
			{...rest}
		>
			{children}
		</button>
	);
	return off ? <Hint text={because}>{button}</Hint> : button;
}

/** A tooltip for pointer and keyboard. */
export function Hint({ text, children }: { text: string; children: ReactNode }) {
	return (
		<Tooltip.Root delayDuration={200}>
			<Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
			<Tooltip.Portal>
				<Tooltip.Content
					sideOffset={4}
					collisionPadding={8}
					className="z-50 max-w-80 rounded bg-text px-2 py-1 text-bg text-xs shadow-lg"
				>
					{text}
				</Tooltip.Content>
			</Tooltip.Portal>
		</Tooltip.Root>
	);
}

/** Copies a text and says so for a moment. Without the clipboard's permission it says that instead. */
export function Copy({ text, label, word = "Copy" }: { text: string; label: string; word?: string }) {
	const [said, setSaid] = useState<string | null>(null);
	const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
	useEffect(() => () => clearTimeout(timer.current), []);
	const copy = async () => {
		try {
			await navigator.clipboard.writeText(text);
			setSaid("copied");
		} catch {
			setSaid("not allowed");
		}
		clearTimeout(timer.current);
		timer.current = setTimeout(() => setSaid(null), 1_500);
	};
	return (
		<button
			type="button"
			onClick={copy}
			aria-label={said ?? label}
			title={label}
			className="inline-flex h-5 shrink-0 items-center rounded px-1.5 font-sans text-muted text-xs hover:bg-hover hover:text-text"
		>
			{said ?? word}
		</button>
	);
}

/** Code, sentence and request id, as every failure shows them. */
export function Failure({ error, action }: { error: ApiError; action?: ReactNode }) {
	return (
		<div
			role="alert"
			className="flex flex-wrap items-baseline gap-x-3 gap-y-1 rounded border border-bad/40 bg-bad-bg px-3 py-2 text-bad"
		>
			<span className="font-mono font-semibold text-xs">{error.code}</span>
			<span className="min-w-40 flex-1 text-text">{error.message}</span>
			{error.requestId && (
				<span className="flex items-baseline gap-1 font-mono text-text text-xs">
					request {error.requestId}
					<Copy text={error.requestId} label="Copy the request id" />
				</span>
			)}
			{action}
		</div>
	);
}

/** The sign of something on its way. */
export function Spinner() {
	return (
		<span
			aria-hidden="true"
			className="inline-block size-3 animate-spin rounded-full border-2 border-current border-r-transparent motion-reduce:animate-none"
		/>
	);
}

/** A key as it is printed on the keyboard. */
export function Key({ children }: { children: ReactNode }) {
	return (
		<kbd className="inline-block min-w-5 rounded border border-line border-b-2 bg-raised px-1 text-center font-mono text-[11px] text-text">
			{children}
		</kbd>
	);
}

/** A line to type elsewhere, with its copy button. */
export function Command({ text, label }: { text: string; label: string }) {
	const long = text.split("\n").length > 8;
	return (
		<div className="flex items-start gap-2 rounded border border-line bg-raised py-1 pr-1.5 pl-3">
			{/* What scrolls must be reachable by the keyboard; and a line is broken before a flag, not behind its dashes. */}
			<pre
				className={`wrap-anywhere min-w-0 flex-1 whitespace-pre-wrap py-0.5 font-mono text-xs ${long ? "max-h-40 overflow-auto" : ""}`}
				tabIndex={long ? 0 : undefined}
			>
				{text.split(/(?<=\s)(?=--)/).map((part, i) => (
					// biome-ignore lint/suspicious/noArrayIndexKey: the parts have no names, and none moves
					<Fragment key={i}>
						<span className="whitespace-nowrap">{/^[-\w]*/.exec(part)?.[0]}</span>
						{part.replace(/^[-\w]*/, "")}
					</Fragment>
				))}
			</pre>
			<Copy text={text} label={label} />
		</div>
	);
}
