import { graphql } from "../gql";

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
		node {
			id
			hostname
		}
		... on NodeCordonEvent {
			until
			cancelledDrainId
		}
		... on NodeDraining {
			drainId
			deadline
		}
		... on NodeDrained {
			drainId
			confirmedByNode
		}
		... on NodeTaintEvent {
			taintsAdded
			taintsRemoved
		}
		... on NodeLabelEvent {
			labelsSet {
				key
				value
			}
			labelsRemoved {
				key
				value
			}
			labelsDisplaced {
				key
				value
			}
		}
		... on NodeJoinEvent {
			generation
		}
		... on NodeAdoptionEvent {
			checks
		}
		... on NodeConditionEvent {
			condition
			message
		}
		... on NodeSessionEvent {
			gateway
			cause
			lastSeen
		}
		... on ReservationEvent {
			reservationId
			startsAt
			endsAt
			deviceUuids
		}
		... on AllocationEvent {
			reservationId
		}
		... on CertificateSecurityEvent {
			serial
			claimedNodeId
		}
		... on JoinTokenSecurityEvent {
			joinTokenId
			hostname
			refusal
		}
		... on GenericEvent {
			data
		}
	}
`);

export const HistoryQuery = graphql(`
	query History($tenantId: ID!, $nodeId: ID, $types: [String!], $actor: String, $first: Int!, $after: Cursor) {
		events(tenantId: $tenantId, nodeId: $nodeId, types: $types, actor: $actor, first: $first, after: $after) {
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

export const LogQuery = graphql(`
	query Log($tenantId: ID!) {
		log(tenantId: $tenantId) {
			head
		}
	}
`);

export const EventsSubscription = graphql(`
	subscription Events($tenantId: ID!, $nodeId: ID, $types: [String!], $after: Cursor!) {
		nodeEvents(tenantId: $tenantId, nodeId: $nodeId, types: $types, after: $after) {
			...EventLine
		}
	}
`);
