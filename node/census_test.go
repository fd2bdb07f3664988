package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// Nodes are counted by what the gate says of each, and a kind whose last node is gone is gone.
func TestCensus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	census := func() map[node.Census]int {
		list, err := node.TakeCensus(t.Context(), b.db.Pool())
		require.NoError(t, err)
		got := map[node.Census]int{}
		for _, c := range list {
			nodes := c.Nodes
			c.Nodes = 0
			require.NotContains(t, got, c, "each kind is there once")
			got[c] = nodes
		}
		return got
	}
	require.Empty(t, census())
	made := make([]string, 0, 9)
	for range cap(made) {
		b.do(func(ctx context.Context, tx *db.Tx) error {
			n, err := node.CreateTx(tx, node.New{Key: id.New(id.Session), PoolID: b.pool, Hostname: "gpu", By: "test"})
			if err != nil {
				return err
			}
			made = append(made, n)
			return nil
		})
	}
	b.exec(`update nodes set provision_state = 'ADOPTED', credential = 'TRUSTED', connectivity = 'CONNECTED' where id <> $1`, made[0])
	b.exec(`update nodes set credential = 'TRUSTED' where id = $1`, made[0])
	reason := func(nodeID, name string) {
		b.exec(`insert into node_reasons (node_id, reason, owner, since) values ($1, $2, 'test', now())`, nodeID, name)
	}
	reason(made[1], node.PrefixDedicated+"acme")
	reason(made[2], node.PrefixDedicated+"acme")
	reason(made[2], node.PrefixDedicated+"globex")
	reason(made[3], node.PrefixDedicated+"acme")
	reason(made[3], "taint:rma-pending")
	reason(made[4], node.ReasonDraining)
	b.exec(`update nodes set cordoned = true, cordon_by = 'alex', cordon_at = now() where id = $1`, made[5])
	b.exec(`update nodes set credential = 'REVOKED', connectivity = 'DISCONNECTED' where id = $1`, made[6])
	b.exec(`update nodes set deleted_at = now() where id = $1`, made[7])

	connected := node.Census{Pool: "acme/gpus", Connectivity: node.Connected, ProvisionState: node.Adopted}
	with := func(c node.Census, p node.Placeable) node.Census {
		c.Placeable = p
		return c
	}
	var enrolling node.ProvisionState
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select provision_state from nodes where id = $1`, made[0]).Scan(&enrolling))
	want := map[node.Census]int{
		{Pool: "acme/gpus", Connectivity: node.Pending, ProvisionState: enrolling, Placeable: node.PlaceableForNone}: 1,
		with(connected, node.PlaceableForAll):  1, // made[8]
		with(connected, node.PlaceableForOne):  1,
		with(connected, node.PlaceableForNone): 4,
		{Pool: "acme/gpus", Connectivity: node.Disconnected, ProvisionState: node.Adopted, Placeable: node.PlaceableForNone}: 1,
	}
	require.Equal(t, want, census())

	b.exec(`update nodes set connectivity = 'CONNECTED' where id = $1`, made[6])
	got := census()
	require.Len(t, got, 4)
	require.Equal(t, 5, got[with(connected, node.PlaceableForNone)])
}

// Every state is counted, also one that no drain is in; only a running drain has an age, and one that ended over an hour ago counts no more.
func TestCountDrains(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c, err := node.CountDrains(t.Context(), b.db.Pool())
	require.NoError(t, err)
	require.Equal(t, node.DrainCount{States: map[node.DrainState]int{node.Draining: 0, node.Drained: 0, node.Cancelled: 0}}, c)
	for i, state := range []string{"DRAINING", "DRAINING", "DRAINED", "CANCELLED", "DRAINED"} {
		var nodeID string
		b.do(func(ctx context.Context, tx *db.Tx) error {
			n, err := node.CreateTx(tx, node.New{Key: id.New(id.Session), PoolID: b.pool, Hostname: "gpu", By: "test"})
			if err == nil {
				nodeID = n
			}
			return err
		})
		b.exec(`insert into node_drains (id, node_id, state, by, started_at, ended_at, confirmed_by_node)
			values ($1, $2, $3, 'alex', now() - $4 * interval '1 hour', case when $3 <> 'DRAINING' then now() - greatest($4 - 3, 0) * interval '40 minutes' end, case when $3 = 'DRAINED' then false end)`,
			id.New(id.Drain), nodeID, state, i+1)
	}
	c, err = node.CountDrains(t.Context(), b.db.Pool())
	require.NoError(t, err)
	require.Equal(t, map[node.DrainState]int{node.Draining: 2, node.Drained: 1, node.Cancelled: 1}, c.States)
	require.InDelta(t, (2 * time.Hour).Seconds(), c.Oldest.Seconds(), 60)
}
