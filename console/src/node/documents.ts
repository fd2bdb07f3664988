import { graphql } from "../gql";

/** The row with its place in the log, and beside it what only the node's own page shows. */
export const NodeDetailQuery = graphql(`
	query NodeDetail($tenantId: ID!, $nodeId: ID!) {
		nodes(tenantId: $tenantId, filter: { nodeIds: [$nodeId], includeDeleted: true }, first: 1) {
			nodes {
				...NodeRow
			}
			asOf
		}
		node(tenantId: $tenantId, nodeId: $nodeId) {
			id
			version
			connectivity
			liveAllocationCount
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
			checks {
				name
				status
				message
				evidence
				durationMs
				startedAt
				endedAt
			}
			drain {
				id
				endedAllocationCount
				blockers {
					...AllocationLine
				}
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
				endedAllocationCount
				confirmedByNode
			}
			allocations(live: false, first: 50) {
				nodes {
					...AllocationLine
				}
				pageInfo {
					hasNextPage
					endCursor
				}
			}
			devices {
				uuid
				kind
				slot
				model
				memoryBytes
				serial
				pciAddress
				missingSince
				held
				inUse
			}
			storageRoots {
				path
				uuid
				device
				fsType
				sizeBytes
				missingSince
			}
			scalarResources {
				name
				amount
				unit
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
				gpuNote
			}
			certificates(live: false, first: 20) {
				nodes {
					serial
					state
					generation
					keyFingerprint
					issuedAt
					notAfter
					firstUsedAt
					endedAt
					endedBy
					reason
				}
				pageInfo {
					hasNextPage
				}
			}
		}
	}
`);

export const AllocationLineFragment = graphql(`
	fragment AllocationLine on Allocation {
		id
		reservationId
		tenantId
		devices
		live
		future
		startsAt
		endsAt
		releasedAt
		endedAt
	}
`);

export const AllocationsQuery = graphql(`
	query Allocations($tenantId: ID!, $nodeId: ID!, $after: Cursor) {
		node(tenantId: $tenantId, nodeId: $nodeId) {
			id
			allocations(live: false, first: 100, after: $after) {
				nodes {
					...AllocationLine
				}
				pageInfo {
					hasNextPage
					endCursor
				}
			}
		}
	}
`);
