package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
)

func TestPast(t *testing.T) {
	t.Parallel()
	// The events of a page's nodes, and the nodes of those events, take as many statements for twelve nodes as for two, and are what each node alone
	// would show.
	counter := &statements{}
	b := setup(t, dbtest.With(counter.trace))
	var ids []string
	for range 12 {
		n := b.node()
		for _, control := range []string{"nodeCordon", "nodeUncordon", "nodeCordon"} {
			b.control(control, object{"tenantId": "acme", "nodeId": n}).at(t, control)
		}
		ids = append(ids, n)
	}
	const past = `id events(first: 2) { nodes { id type node { id } } edges { cursor } pageInfo { hasNextPage endCursor } }
		cordons: events(first: 5, types: ["node.cordoned"]) { nodes { id node { id } } pageInfo { hasNextPage } }`
	page := func(ids []string) (nodes []any, sent int) {
		counter.take()
		nodes = b.query(`query($ids: [ID!]) { nodes(tenantId: "acme", filter: { nodeIds: $ids }) { nodes { `+past+` } } }`, object{"ids": ids}).at(t, "nodes", "nodes").([]any)
		return nodes, len(counter.take())
	}
	_, few := page(ids[:2])
	nodes, many := page(ids)
	require.Equal(t, few, many)
	require.Len(t, nodes, 12)
	for _, n := range nodes {
		alone := b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { `+past+` } }`, object{"n": n.(object)["id"]}).at(t, "node").(object)
		require.Equal(t, alone, n)
		require.Equal(t, true, n.(object)["events"].(object)["pageInfo"].(object)["hasNextPage"])
		require.Len(t, n.(object)["cordons"].(object)["nodes"], 2)
		// The page goes on where it ended.
		rest := b.query(`query($n: ID!, $a: Cursor) { node(tenantId: "acme", nodeId: $n) { events(first: 2, after: $a) { nodes { type } pageInfo { hasNextPage } } } }`,
			object{"n": n.(object)["id"], "a": n.(object)["events"].(object)["pageInfo"].(object)["endCursor"]}).at(t, "node", "events")
		require.Equal(t, object{"nodes": []any{object{"type": "node.cordoned"}}, "pageInfo": object{"hasNextPage": false}}, rest)
	}
	require.Equal(t, "INVALID_INPUT", b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { events(first: 0) { nodes { id } } } }`, object{"n": ids[0]}).code(t))
}
