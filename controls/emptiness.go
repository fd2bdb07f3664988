package controls

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// emptiness is what is read under the locks of nodes to decide whether their drains are over.
type emptiness struct {
	held      map[string]placement.Held // a node that holds nothing is not in it
	confirmed map[string]bool

	asked  bool              // whether newest was read
	newest map[string]string // by node, the drain that was its newest before the lock was waited for; none is absent
}

// before reads what drains there were when the call came, without a lock. A later try of the same call keeps what the first one read.
func (e *emptiness) before(b *pgx.Batch, nodeIDs []string) {
	newestDrains.Queue(b, nodeIDs).Query(func(rows pgx.Rows) error {
		newest := map[string]string{}
		var nodeID, drainID string
		_, err := pgx.ForEachRow(rows, []any{&nodeID, &drainID}, func() error {
			newest[nodeID] = drainID
			return nil
		})
		if !e.asked {
			e.asked, e.newest = true, newest
		}
		return err
	})
}

var newestDrains = db.LookingFor(`select distinct on (node_id) node_id, id from node_drains where node_id = any($1) order by node_id, started_at desc, id desc`)

// joins says that another's drain of the empty node began and ended while the call waited for the lock: it came to a node that was draining.
func (e *emptiness) joins(n *node.Node) bool {
	d := n.LastDrain
	return e != nil && e.asked && n.Cordoned() && d != nil && d.State == node.Drained && d.ID != e.newest[n.ID]
}

// queue reads it: what holds the nodes after their locks were got. A booking that is under way either commits before and is seen, or is refused by the
// cordon after.
func (e *emptiness) queue(b *pgx.Batch, nodeIDs []string) {
	placement.QueueHoldings(b, nodeIDs, &e.held)
	liveness.QueueConfirmsEmpty(b, nodeIDs, &e.confirmed)
}

// empty says that nothing holds the node.
func (e *emptiness) empty(nodeID string) bool { return e.held[nodeID].Live == 0 }

// nextLook is when the drain's job is to look; at once where nobody has.
func (e *emptiness) nextLook(nodeID string) time.Duration {
	if e == nil {
		return 0
	}
	return nextLook(e.held[nodeID])
}

// beganAt gives the place where the drain that a call joined began: who waits from there is told of its end.
func (e *emptiness) beganAt(ctx context.Context, tx *db.Tx, n *node.Node) (events.Cursor, error) {
	if !e.joins(n) {
		return events.Cursor{}, nil
	}
	list, _, err := events.List(ctx, tx, events.ListFilter{
		Filter: events.Filter{Tenant: n.TenantID, NodeID: n.ID, Types: []string{"node.draining"}}, First: 1,
	})
	if err != nil || len(list) == 0 { // it has left the log already
		return events.Cursor{}, err
	}
	return list[0].Cursor(), nil
}
