/** One tab that a new visitor finds. */
export type Example = { title: string; query: string; variables: string };

/** The tabs of a first visit, filled in for the visitor's tenant and one of its nodes, so that each runs as it stands. */
export function examples(tenantId: string, nodeId: string): Example[] {
	const of = (variables: unknown) => JSON.stringify(variables, null, 2);
	return [
		{
			title: "List nodes",
			query: `# The nodes that the tenant sees, and why one takes no new work. Run it with Ctrl-Enter.
query ListNodes($tenantId: ID!) {
  nodes(tenantId: $tenantId, first: 50) {
    nodes {
      id
      hostname
      connectivity
      provisionState
      placeableFor
      statusSentence
      version
    }
    pageInfo {
      hasNextPage
      endCursor
    }
  }
}
`,
			variables: of({ tenantId }),
		},
		{
			title: "Cordon",
			query: `# A cordon stops new work from landing on the node and changes nothing else.
# Give the version that you read: if the node changed since, the answer is CONFLICT.
mutation Cordon($input: NodeCordonInput!) {
  nodeCordon(input: $input) {
    changed
    cursor
    node {
      id
      version
      cordoned
    }
  }
}

mutation Uncordon($uncordon: NodeUncordonInput!) {
  nodeUncordon(input: $uncordon) {
    changed
    node {
      id
      version
      cordoned
    }
  }
}
`,
			variables: of({ input: { tenantId, nodeId, reason: "BIOS update window" }, uncordon: { tenantId, nodeId } }),
		},
		{
			title: "Drain",
			query: `# A drain is a cordon that also waits until the node holds no live allocation. The next tab shows node.drained.
mutation Drain($input: NodeDrainInput!) {
  nodeDrain(input: $input) {
    changed
    cursor
    node {
      id
      noScheduleReasons
      drain {
        id
        state
        blockers {
          reservationId
          endsAt
        }
      }
    }
  }
}
`,
			variables: of({ input: { tenantId, nodeId, reason: "replace PSU" } }),
		},
		{
			title: "Follow events",
			query: `# What happens to the tenant's nodes, as it happens. To resume, give the cursor of the last event that you had as after.
subscription FollowEvents($tenantId: ID!, $after: Cursor) {
  nodeEvents(tenantId: $tenantId, after: $after) {
    cursor
    at
    type
    nodeId
    actor
    reason
  }
}
`,
			variables: of({ tenantId }),
		},
	];
}
