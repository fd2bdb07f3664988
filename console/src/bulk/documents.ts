import { graphql } from "../gql";

export const SelectMutation = graphql(`
	mutation Select($input: NodeSelectionCreateInput!) {
		nodeSelectionCreate(input: $input) {
			selection {
				id
				count
				expiresAt
			}
		}
	}
`);

export const PreviewQuery = graphql(`
	query Preview(
		$tenantId: ID!
		$selectionId: ID!
		$control: NodesControl!
		$anyone: Boolean!
		$add: [String!]
		$remove: [String!]
		$set: [LabelInput!]
	) {
		nodeSelection(tenantId: $tenantId, selectionId: $selectionId) {
			id
			preview(control: $control, anyone: $anyone, add: $add, remove: $remove, set: $set) {
				done
				unchanged
				refused
				groups {
					outcome
					code
					because
					provisionState
					cordoned
					draining
					count
				}
			}
		}
	}
`);

export const OperationFragment = graphql(`
	fragment Operation on NodesOperation {
		id
		control
		state
		by
		reason
		maxPerPool
		count
		done
		unchanged
		refused
		left
		waiting
		createdAt
		endedAt
		endedBy
	}
`);

export const ResultFragment = graphql(`
	fragment Result on NodesOperationResult {
		nodeId
		outcome
		code
		message
		at
		node {
			id
			hostname
		}
	}
`);

export const NodesCordonMutation = graphql(`
	mutation NodesCordon($input: NodesControlInput!) {
		nodesCordon(input: $input) {
			warnings
			operation {
				...Operation
			}
		}
	}
`);

export const NodesUncordonMutation = graphql(`
	mutation NodesUncordon($input: NodesControlInput!) {
		nodesUncordon(input: $input) {
			warnings
			operation {
				...Operation
			}
		}
	}
`);

export const NodesDrainMutation = graphql(`
	mutation NodesDrain($input: NodesControlInput!) {
		nodesDrain(input: $input) {
			warnings
			operation {
				...Operation
			}
		}
	}
`);

export const NodesTaintMutation = graphql(`
	mutation NodesTaint($input: NodesControlInput!) {
		nodesTaint(input: $input) {
			warnings
			operation {
				...Operation
			}
		}
	}
`);

export const NodesLabelMutation = graphql(`
	mutation NodesLabel($input: NodesControlInput!) {
		nodesLabel(input: $input) {
			warnings
			operation {
				...Operation
			}
		}
	}
`);

export const NodesAdoptMutation = graphql(`
	mutation NodesAdopt($input: NodesControlInput!) {
		nodesAdopt(input: $input) {
			warnings
			operation {
				...Operation
			}
		}
	}
`);

export const StopMutation = graphql(`
	mutation StopOperation($input: NodesOperationStopInput!) {
		nodesOperationStop(input: $input) {
			operation {
				...Operation
			}
		}
	}
`);

export const RunningQuery = graphql(`
	query RunningOperations($tenantId: ID!) {
		nodesOperations(tenantId: $tenantId, active: true, first: 20) {
			nodes {
				...Operation
			}
		}
	}
`);

export const ResultsQuery = graphql(`
	query OperationResults($tenantId: ID!, $operationId: ID!, $outcomes: [NodesOutcome!], $after: Cursor) {
		nodesOperation(tenantId: $tenantId, operationId: $operationId) {
			...Operation
			results(outcomes: $outcomes, first: 200, after: $after) {
				nodes {
					...Result
				}
				pageInfo {
					hasNextPage
					endCursor
				}
			}
		}
	}
`);

export const OperationSubscription = graphql(`
	subscription FollowOperation($tenantId: ID!, $operationId: ID!, $after: Cursor) {
		nodesOperation(tenantId: $tenantId, operationId: $operationId, after: $after) {
			...Operation
			cursor
			newResults {
				...Result
			}
		}
	}
`);
