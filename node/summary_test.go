package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// A summary counts of a fleet what a list shows of each of its nodes, for the owner and for a guest, whatever keeps work off them.
func TestSummary(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`insert into tenants (id) values ('globex') on conflict do nothing`)
	reasons := []string{node.PrefixDedicated + "acme", node.PrefixDedicated + "globex", node.PrefixTaint + "rma", node.ReasonDraining}
	for mask := range 1 << len(reasons) {
		for _, state := range []string{"ADOPTED", "ADOPTING"} {
			for _, cordoned := range []bool{false, true} {
				n := b.node("gpu")
				b.exec(`update nodes set provision_state = $2, credential = 'TRUSTED', cordoned = $3, cordon_by = case when $3 then 'x' end,
					cordon_at = case when $3 then now() end where id = $1`, n, state, cordoned)
				b.exec(`insert into node_projection (tenant_id, node_id, relation) values ('globex', $1, 'DEDICATED')`, n)
				for i, reason := range reasons {
					if mask&(1<<i) != 0 {
						b.exec(`insert into node_reasons (node_id, reason, owner, since) values ($1, $2, 'test', now())`, n, reason)
					}
				}
				if mask&8 != 0 {
					b.exec(`insert into node_drains (id, node_id, state, by, started_at) values ($1, $2, 'DRAINING', 'x', now())`, id.New(id.Drain), n)
				}
			}
		}
	}
	for _, tenant := range []string{"acme", "globex"} {
		summary, err := b.store.Summary(t.Context(), tenant, &node.Filter{})
		require.NoError(t, err)
		listed, err := b.store.List(t.Context(), system, node.Listing{Tenant: tenant, Order: node.ByHostname, First: node.MaxFirst, Count: true})
		require.NoError(t, err)
		require.Len(t, listed.Views, 64)
		require.Equal(t, []int{64, 64}, []int{listed.Total, summary.Total})
		placeable, draining, cordoned := map[node.Placeable]int{}, 0, 0
		for _, v := range listed.Views {
			placeable[v.PlaceableFor()]++
			if v.Running() != nil {
				draining++
			}
			if v.Cordoned() {
				cordoned++
			}
		}
		require.Len(t, placeable, 3, "the test has each kind")
		for kind, n := range placeable {
			require.Equal(t, n, summary.PlaceableFor[kind], "%s for %s", kind, tenant)
		}
		require.Equal(t, []int{draining, cordoned}, []int{summary.Draining, summary.Cordoned})
	}
}

// A page reads its own nodes and not the fleet, unless it is asked how many there are.
func TestPageReads(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.WithMaxConns(1))
	b.exec(`
		with made as (
		  insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
		  select id, id, 'acme', $1, id, 'ADOPTED', 'TRUSTED', 'test' from (select 'node_' || lpad(i::text, 26, '0') as id from generate_series(1, 5000) i) x returning id)
		insert into node_projection (tenant_id, node_id, relation) select 'acme', id, 'OWNER' from made`, b.pool)
	b.exec(`analyze`)
	var l node.Listed
	var f node.Filter
	tables := []string{"nodes", "node_projection"}
	page := func(after string, count bool) (read int) {
		for _, table := range tables {
			read += dbtest.Rows(t, b.db, table, func() {
				var err error
				l, err = b.store.List(t.Context(), system, node.Listing{Tenant: "acme", Filter: f, Order: node.ByHostname, First: 50, After: after, Count: count})
				require.NoError(t, err)
			})
		}
		return read
	}
	require.Less(t, page("", false), 500)
	require.Zero(t, l.Total)
	for range 3 {
		require.Less(t, page(l.Cursors[49], false), 500, "the next page too")
	}
	require.GreaterOrEqual(t, page("", true), 5000)
	require.Equal(t, 5000, l.Total)

	// Where few nodes have what the filter wants, sight is asked of those few.
	tables = tables[1:]
	b.exec(`insert into node_reasons (node_id, reason, owner, since) select id, 'taint:rma', 'test', now() from nodes where id like '%17'`)
	b.exec(`insert into node_reasons (node_id, reason, owner, since) select id, 'draining', 'test', now() from nodes where id like '%18'`)
	b.exec(`insert into node_drains (id, node_id, state, by, started_at) select 'drn_' || right(id, 26), id, 'DRAINING', 'x', now() from nodes where id like '%18'`)
	b.exec(`analyze`)
	yes := true
	for what, filter := range map[string]node.Filter{
		"taints": {Taints: []string{"rma"}}, "reasons": {Reasons: []string{"draining"}}, "draining": {Draining: &yes},
	} {
		f = filter
		require.Less(t, page("", false), 200, what)
		require.Len(t, l.Views, 50, what)
	}
}
