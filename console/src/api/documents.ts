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
		}
		noScheduleReasons
		maintenance
		connectivity
		connectivitySince
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
			confirmedByNode
			blockers {
				id
				reservationId
				tenantId
				startsAt
				endsAt
				future
			}
		}
		controls {
			control
			action
			enabled
			because
		}
	}
`);

export const EventLineFragment = graphql(`
	fragment EventLine on Event {
		__typename
		id
		cursor
		type
		at
		nodeId
		actor
		reason
		... on NodeCordonEvent {
			cancelledDrainId
		}
		... on NodeDraining {
			drainId
		}
		... on NodeDrained {
			drainId
			confirmedByNode
		}
		... on GenericEvent {
			data
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
	query Nodes($tenantId: ID!, $filter: NodeFilter, $first: Int!, $after: Cursor) {
		nodes(tenantId: $tenantId, filter: $filter, first: $first, after: $after) {
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

export const NodeRowQuery = graphql(`
	query NodeRowById($tenantId: ID!, $nodeId: ID!) {
		node(tenantId: $tenantId, nodeId: $nodeId) {
			...NodeRow
		}
	}
`);

export const NodeDetailQuery = graphql(`
	query NodeDetail($tenantId: ID!, $nodeId: ID!) {
		node(tenantId: $tenantId, nodeId: $nodeId) {
			...NodeRow
			key
			tenantId
			createdAt
			identityGeneration
			labels {
				key
				value
				source
			}
			session {
				gateway
				since
				endedAt
				agentVersion
				bootId
				clockSkewMs
			}
			lastDrain {
				id
				state
				reason
				by
				startedAt
				endedAt
				endedBy
				cause
				confirmedByNode
			}
			allocations(first: 50) {
				nodes {
					id
					reservationId
					tenantId
					startsAt
					endsAt
					future
				}
				pageInfo {
					hasNextPage
				}
			}
			inventory {
				reportedAt
				stale
				os
				kernel
				vendor
				model
				serial
				cpuModel
				cpuArch
				cpuCores
				cpuThreads
				memoryBytes
				gpus {
					uuid
					model
					memoryBytes
				}
				gpuNote
				storageRoots {
					path
					fsType
					sizeBytes
				}
			}
		}
	}
`);

export const NodeHistoryQuery = graphql(`
	query NodeHistory($tenantId: ID!, $nodeId: ID!, $after: Cursor) {
		events(tenantId: $tenantId, nodeId: $nodeId, first: 30, after: $after) {
			nodes {
				...EventLine
			}
			pageInfo {
				hasNextPage
				endCursor
			}
		}
	}
`);

export const NodeEventsSubscription = graphql(`
	subscription NodeEvents($tenantId: ID!, $after: Cursor) {
		nodeEvents(tenantId: $tenantId, after: $after) {
			...EventLine
			node {
				...NodeRow
			}
		}
	}
`);

export const CordonMutation = graphql(`
	mutation Cordon($input: NodeCordonInput!) {
		nodeCordon(input: $input) {
			node {
				...NodeRow
			}
			changed
		}
	}
`);

export const UncordonMutation = graphql(`
	mutation Uncordon($input: NodeUncordonInput!) {
		nodeUncordon(input: $input) {
			node {
				...NodeRow
			}
			changed
		}
	}
`);

export const DrainMutation = graphql(`
	mutation Drain($input: NodeDrainInput!) {
		nodeDrain(input: $input) {
			node {
				...NodeRow
			}
			changed
		}
	}
`);
