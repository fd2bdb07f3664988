import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Search } from "../store/filter";

type Path = "/nodes" | "/drains" | "/events";

/** A link within the console: the tenant goes along, and whatever else is given. */
export function Go({
	to,
	search = {},
	className,
	current = false,
	children,
}: {
	to: Path;
	search?: Partial<Search> & Record<string, unknown>;
	className?: string;
	current?: boolean;
	children: ReactNode;
}) {
	return (
		<Link
			to={to}
			search={(old: Record<string, unknown>) => ({ tenant: old.tenant as string | undefined, ...search })}
			className={className}
			aria-current={current ? "page" : undefined}
		>
			{children}
		</Link>
	);
}

/** A link to a node. */
export function GoNode({ id, className, children }: { id: string; className?: string; children: ReactNode }) {
	return (
		<Link
			to="/nodes/$nodeId"
			params={{ nodeId: id }}
			search={(old: Record<string, unknown>) => ({ tenant: old.tenant as string | undefined })}
			className={className}
		>
			{children}
		</Link>
	);
}
