import { graphql } from "../gql";

export const CordonMutation = graphql(`
	mutation Cordon($input: NodeCordonInput!) {
		nodeCordon(input: $input) {
			node {
				...NodeRow
			}
			changed
			warnings
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
			warnings
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
			warnings
		}
	}
`);

export const TaintMutation = graphql(`
	mutation Taint($input: NodeTaintInput!) {
		nodeTaint(input: $input) {
			node {
				...NodeRow
			}
			changed
			warnings
		}
	}
`);

export const LabelMutation = graphql(`
	mutation Label($input: NodeLabelInput!) {
		nodeLabel(input: $input) {
			node {
				...NodeRow
			}
			changed
			warnings
		}
	}
`);

export const AdoptMutation = graphql(`
	mutation Adopt($input: NodeAdoptInput!) {
		nodeAdopt(input: $input) {
			node {
				...NodeRow
			}
			changed
			warnings
		}
	}
`);

export const DeleteMutation = graphql(`
	mutation Delete($input: NodeDeleteInput!) {
		nodeDelete(input: $input) {
			nodeId
			deleted
			warnings
		}
	}
`);

/** The labels on which a dialog decides, with the version that they are of. */
export const LabelsQuery = graphql(`
	query Labels($tenantId: ID!, $nodeId: ID!) {
		node(tenantId: $tenantId, nodeId: $nodeId) {
			id
			version
			labels {
				key
				value
				source
			}
		}
	}
`);

/** What a drain of the node would wait for, by what the drain controller itself looks at. */
export const DrainPlanQuery = graphql(`
	query DrainPlan($tenantId: ID!, $nodeId: ID!) {
		drainPlan(tenantId: $tenantId, nodeId: $nodeId) {
			empty
			liveAllocationCount
			expectedAt
			blockers {
				...AllocationLine
			}
		}
	}
`);
