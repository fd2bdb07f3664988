/** Whose nodes are shown when nobody said: the tenant called default when there is one, as on the command line. */
export function firstTenant(tenants: readonly { id: string }[]): string | undefined {
	return (tenants.find((t) => t.id === "default") ?? tenants[0])?.id;
}
