import { graphql } from "../gql";

export const DrainLineFragment = graphql(`
	fragment DrainLine on Drain {
		id
		state
		reason
		by
		startedAt
		endedAt
		endedBy
		cause
		deadline
		overdue
		expectedAt
		endedAllocationCount
		confirmedByNode
		node {
			...NodeRow
		}
	}
`);

export const DrainsQuery = graphql(`
	query Drains($tenantId: ID!, $active: Boolean!, $first: Int!, $after: Cursor) {
		drains(tenantId: $tenantId, active: $active, first: $first, after: $after) {
			nodes {
				...DrainLine
			}
			pageInfo {
				hasNextPage
				endCursor
			}
		}
	}
`);

/** Every drain of the tenant's nodes that begins, ends, or waits for something else. */
export const DrainsSubscription = graphql(`
	subscription DrainChanges($tenantId: ID!, $after: Cursor!) {
		drainChanges(tenantId: $tenantId, after: $after) {
			...DrainLine
		}
	}
`);
