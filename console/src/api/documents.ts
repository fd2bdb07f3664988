import { graphql } from "../gql";

/** What a row of the grid shows; every other answer that holds a node asks for the same, so that the store never holds half a node. */
export const NodeRowFragment = graphql(`
	fragment NodeRow on ComputeNode {
		id
		hostname
		version
		pool {
			id
			name
		}
		provisionState
		failure {
			phase
			message
			at
		}
		cordoned
		cordon {
			reason
			by
			at
			until
			overdue
		}
		noScheduleReasons
		maintenance
		connectivity
		connectivitySince
		deletedAt
		lastSeen
		placeableFor
		statusSentence
		outSince
		liveAllocationCount
		holds {
			reason
			owner
			by
			message
			since
		}
		drain {
			id
			state
			reason
			by
			startedAt
			endedAt
			expectedAt
			deadline
			overdue
			confirmedByNode
		}
		controls {
			control
			action
			enabled
			because
		}
	}
`);

export const ViewerQuery = graphql(`
	query Viewer {
		viewer {
			name
			tenants {
				id
			}
		}
	}
`);

export const PoolsQuery = graphql(`
	query Pools($tenantId: ID!) {
		pools(tenantId: $tenantId) {
			id
			name
		}
	}
`);

export const NodesQuery = graphql(`
	query Nodes($tenantId: ID!, $filter: NodeFilter, $orderBy: NodeOrder!, $first: Int!, $after: Cursor) {
		nodes(tenantId: $tenantId, filter: $filter, orderBy: $orderBy, first: $first, after: $after) {
			nodes {
				...NodeRow
			}
			pageInfo {
				hasNextPage
				endCursor
			}
			totalCount
			asOf
		}
	}
`);

/** The rows that are on the screen, as they are now. */
export const RowsSubscription = graphql(`
	subscription Rows($tenantId: ID!, $after: Cursor!, $nodeIds: [ID!]!) {
		nodeChanges(tenantId: $tenantId, after: $after, nodeIds: $nodeIds, maxPerSecond: 4) {
			changed {
				...NodeRow
			}
			removed
			asOf
		}
	}
`);

/** Which nodes a list is about: by id alone, however many there are. */
export const MembersSubscription = graphql(`
	subscription Members($tenantId: ID!, $after: Cursor!, $filter: NodeFilter) {
		nodeChanges(tenantId: $tenantId, after: $after, filter: $filter, maxPerSecond: 2) {
			changed {
				id
			}
			removed
			asOf
		}
	}
`);

export const FleetSubscription = graphql(`
	subscription Fleet($tenantId: ID!) {
		fleetSummary(tenantId: $tenantId) {
			total
			connectivity {
				connectivity
				count
			}
			cordoned
			draining
			maintenance
		}
	}
`);

export const CountSubscription = graphql(`
	subscription Count($tenantId: ID!, $filter: NodeFilter) {
		fleetSummary(tenantId: $tenantId, filter: $filter) {
			total
		}
	}
`);
