import type { ReactNode } from "react";

export function Section({
	title,
	count,
	aside,
	children,
}: {
	title: string;
	count?: number;
	aside?: ReactNode;
	children: ReactNode;
}) {
	return (
		<section aria-label={title} className="flex flex-col gap-1.5 border-line border-b px-4 py-3 last:border-b-0">
			<div className="flex items-baseline gap-2">
				<h2 className="font-semibold">{title}</h2>
				{count !== undefined && count > 0 && <span className="text-muted">{count.toLocaleString("en")}</span>}
				{aside && <span className="ml-auto">{aside}</span>}
			</div>
			{children}
		</section>
	);
}

export function Facts({ children }: { children: ReactNode }) {
	return <dl className="grid grid-cols-[6.5rem_minmax(0,1fr)] gap-x-3 gap-y-1">{children}</dl>;
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
	return (
		<>
			<dt className="text-muted">{name}</dt>
			<dd className="wrap-anywhere min-w-0">{children}</dd>
		</>
	);
}

export const Absent = () => <span className="text-muted">not given</span>;

/** A table that scrolls sideways by itself where the place is narrow; then the keyboard can scroll it too. */
export function Table({ label, head, children }: { label: string; head: [string, string?][]; children: ReactNode }) {
	return (
		// biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
		<div className="overflow-x-auto" tabIndex={0} role="group" aria-label={label}>
			<table className="w-full border-collapse text-left">
				<thead>
					<tr className="border-line border-b text-muted text-xs">
						{head.map(([title, className = ""]) => (
							<th key={title} scope="col" className={`py-1 pr-4 font-medium last:pr-0 ${className}`}>
								{title}
							</th>
						))}
					</tr>
				</thead>
				<tbody>{children}</tbody>
			</table>
		</div>
	);
}

export function Td({ className = "", title, children }: { className?: string; title?: string | undefined; children: ReactNode }) {
	return (
		<td title={title} className={`py-1 pr-4 align-baseline last:pr-0 ${className}`}>
			{children}
		</td>
	);
}
