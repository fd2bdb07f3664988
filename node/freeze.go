package node

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
)

// Frozen is which nodes a tenant saw at one moment.
type Frozen struct {
	// Position is where the log stood, and LogAt the time of its newest event: what happened to a node afterwards is beyond both.
	Position int64
	LogAt    time.Time
	// Now is the moment itself.
	Now time.Time
	// Nodes are by pool, and in a pool by id.
	Nodes []FrozenNode
}

// FrozenNode is a node as it was then.
type FrozenNode struct {
	ID      string
	PoolID  string
	Version int
}

// Freeze reads, in one statement, which nodes the tenant sees now and the filter lets through. More than most are RESOURCE_EXHAUSTED. It is for what
// already decided that the caller may list nodes.
func (s *Store) Freeze(ctx context.Context, q db.Querier, tenant string, f *Filter, most int) (Frozen, error) {
	from := allSeenNodes + allUndeleted
	if f.NodeIDs != nil {
		from = seenNodes // which looks at those alone
	}
	match := f.query(tenant)
	limit := match.arg(most + 1)
	rows, err := q.Query(ctx, `
		select c.position, c.at, clock_timestamp(), coalesce(m.id, ''), coalesce(m.pool_id, ''), coalesce(m.version, 0)
		from event_clock c left join (select n.id, n.pool_id, n.version from `+from+match.where()+` limit `+limit+`) as m on true
		order by m.pool_id collate "C", m.id collate "C"`, match.args)
	if err != nil {
		return Frozen{}, fmt.Errorf("freeze the nodes: %w", err)
	}
	var out Frozen
	var n FrozenNode
	if _, err := pgx.ForEachRow(rows, []any{&out.Position, &out.LogAt, &out.Now, &n.ID, &n.PoolID, &n.Version}, func() error {
		if n.ID != "" {
			out.Nodes = append(out.Nodes, n)
		}
		return nil
	}); err != nil {
		return Frozen{}, fmt.Errorf("freeze the nodes: %w", err)
	}
	if len(out.Nodes) > most {
		return Frozen{}, fault.New(fault.ResourceExhausted, fault.Details{"limit": most},
			"more than %d nodes match, which is more than one selection holds; narrow the filter and make several", most)
	}
	return out, nil
}
