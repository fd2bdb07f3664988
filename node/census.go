package node

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
)

// Census is how many nodes there are of one kind.
type Census struct {
	// Pool is the tenant's and the pool's name, with a slash between: names of pools are a tenant's own.
	Pool           string
	Connectivity   Connectivity
	ProvisionState ProvisionState
	Placeable      Placeable
	Nodes          int
}

// TakeCensus counts all nodes that are not deleted, in one statement. What the gate asks is counted, and the gate itself decides.
func TakeCensus(ctx context.Context, q db.Querier) ([]Census, error) {
	rows, err := q.Query(ctx, `
		select p.tenant_id || '/' || p.name, n.connectivity, n.provision_state, n.cordoned, n.maintenance, n.credential,
		       least(coalesce(r.dedications, 0), 2), coalesce(r.others, false), count(*)
		from nodes n join pools p on p.id = n.pool_id
		left join (select node_id, count(*) filter (where starts_with(reason, $1)) as dedications, bool_or(not starts_with(reason, $1)) as others
		           from node_reasons group by node_id) r on r.node_id = n.id
		where n.deleted_at is null
		group by 1, 2, 3, 4, 5, 6, 7, 8`, PrefixDedicated)
	if err != nil {
		return nil, fmt.Errorf("count the nodes: %w", err)
	}
	type group struct {
		Census

		Node        Node
		cordoned    bool
		dedications int
		others      bool
	}
	groups, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g group, err error) {
		err = row.Scan(&g.Pool, &g.Connectivity, &g.ProvisionState, &g.cordoned, &g.Node.Maintenance, &g.Node.Credential, &g.dedications, &g.others, &g.Nodes)
		return g, err
	})
	if err != nil {
		return nil, fmt.Errorf("count the nodes: %w", err)
	}
	sum := map[Census]int{}
	for _, g := range groups {
		n := g.Node
		n.ProvisionState = g.ProvisionState
		if g.cordoned {
			n.Cordon = &Cordon{}
		}
		for i := range g.dedications {
			n.Reasons = append(n.Reasons, Reason{Name: PrefixDedicated + string(rune('a'+i))})
		}
		if g.others {
			n.Reasons = append(n.Reasons, Reason{Name: ReasonDraining})
		}
		kind := g.Census
		kind.Placeable, kind.Nodes = n.PlaceableFor(), 0
		sum[kind] += g.Nodes
	}
	out := make([]Census, 0, len(sum))
	for kind, nodes := range sum {
		kind.Nodes = nodes
		out = append(out, kind)
	}
	return out, nil
}

// DrainsWithin is how far back ended drains are counted: their table only grows.
const DrainsWithin = time.Hour

// DrainCount is how many drains run, how many ended in which way within [DrainsWithin], and how old the oldest is that runs; zero when none does.
type DrainCount struct {
	States map[DrainState]int
	Oldest time.Duration
	// Overdue are those that run past their deadline.
	Overdue int
	// OverdueCordons are the cordons that hold past the end that their authors gave.
	OverdueCordons int
}

// CountDrains counts the drains, of which it reads no row of those that ended before, and the cordons that are overdue, in one statement. Every state
// is there, also one that no drain is in.
func CountDrains(ctx context.Context, q db.Querier) (DrainCount, error) {
	c := DrainCount{States: map[DrainState]int{Draining: 0, Drained: 0, Cancelled: 0}}
	rows, err := q.Query(ctx, `
		select state, count(*), coalesce(extract(epoch from statement_timestamp() - min(started_at)), 0)::float8,
		       count(*) filter (where deadline <= statement_timestamp()), 0
		from node_drains where state = 'DRAINING' group by state
		union all
		select state, count(*), 0, 0, 0 from node_drains where ended_at > now() - $1::interval group by state
		union all
		select '', 0, 0, 0, (select count(*) from nodes where cordon_until <= statement_timestamp() and deleted_at is null)`, DrainsWithin)
	if err != nil {
		return c, fmt.Errorf("count the drains: %w", err)
	}
	var state DrainState
	var drains, overdue, cordons int
	var oldest float64
	_, err = pgx.ForEachRow(rows, []any{&state, &drains, &oldest, &overdue, &cordons}, func() error {
		if state != "" {
			c.States[state] = drains
		}
		c.Overdue, c.OverdueCordons = c.Overdue+overdue, c.OverdueCordons+cordons
		c.Oldest = max(c.Oldest, time.Duration(oldest*float64(time.Second)))
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("count the drains: %w", err)
	}
	return c, nil
}
