package controls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// DrainController is the actor that ends drains.
const DrainController = "drain-controller"

// lookAtLeast is how often the controller looks at a drain when nothing wakes it.
const lookAtLeast = 5 * time.Minute

// DrainJob is a drain's primary job: it looks, and snoozes until the next look. The drain id lets a job of an ended drain see that it is over.
type DrainJob struct {
	NodeID  string `json:"node_id"`
	DrainID string `json:"drain_id"`
}

// Kind names the job.
func (DrainJob) Kind() string { return "drain" }

// Drainage are the fields of node.draining.
type Drainage struct {
	DrainID  string     `json:"drainId"`
	Deadline *time.Time `json:"deadline,omitempty"`
}

// Drained are the fields of node.drained.
type Drained struct {
	DrainID         string `json:"drainId"`
	ConfirmedByNode bool   `json:"confirmedByNode"`
}

// Draining is what a drain takes besides its reason.
type Draining struct {
	// Deadline is by when its author wants it to be over; nothing is ended by itself.
	Deadline *time.Time `json:"deadline"`
}

// drainControl hands nodes to the drain controller in the transaction that drains them. What was seen under a node's lock is the controller's first look;
// its job comes for the next. With nil nobody has looked, and the job comes at once.
func drainControl(how Draining, seen *emptiness) node.Control {
	c := node.Control{
		Name: "drain", Action: iam.NodesDrain, Axes: node.AxisCordon | node.AxisDrain, Blind: node.PartLabels,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) { return drain(n, a, how, seen) },
		Follow: func(_ context.Context, tx *db.Tx, nodes []*node.Node) error {
			var wait []placement.Later
			for _, n := range nodes {
				if n.Running() != nil { // else it is over already
					wait = append(wait, placement.Later{Job: DrainJob{NodeID: n.ID, DrainID: n.LastDrain.ID}, After: seen.nextLook(n.ID)})
				}
			}
			if err := placement.SendJobs(tx, wait, placement.QueueDrains); err != nil {
				return fmt.Errorf("hand the node to the drain controller: %w", err)
			}
			return nil
		},
	}
	if seen != nil {
		c.Before, c.Unmoved = func(b *pgx.Batch, nodeID string) { seen.before(b, []string{nodeID}) }, seen.beganAt
	}
	return c
}

// drain keeps the author and reason of a cordon that is there, and publishes node.draining only, also where it cordons.
func drain(n *node.Node, a node.Act, how Draining, seen *emptiness) (*node.Fact, error) {
	if err := checkEnd("deadline", how.Deadline, a.Now); err != nil {
		return nil, err
	}
	if n.Running() != nil || seen.joins(n) {
		return nil, nil //nolint:nilnil // nothing to do
	}
	if !n.Cordoned() {
		n.Cordon = &node.Cordon{Reason: node.Text(a.Reason), By: a.Who.Name, At: a.Now}
	}
	n.LastDrain = &node.Drain{
		ID: id.New(id.Drain), NodeID: n.ID, State: node.Draining, Reason: node.Text(a.Reason), By: a.Who.Name, StartedAt: a.Now, Deadline: micros(how.Deadline),
	}
	n.AddReason(node.Reason{Name: node.ReasonDraining, Owner: DrainController, By: node.Text(a.Who.Name), Message: node.Text(a.Reason), Since: a.Now})
	return &node.Fact{Type: "node.draining", Data: Drainage{DrainID: n.LastDrain.ID, Deadline: n.LastDrain.Deadline}}, nil
}

// drainedNext ends the drain of an empty node in the transaction that begins it.
func drainedNext(seen *emptiness) node.Next {
	return node.Next{Who: iam.System(DrainController), Control: drainedControl(seen)}
}

// Release ends a reservation with all that it holds. A drain that waited for no more than that is over in the same transaction (adr/0041).
func (c *Controls) Release(ctx context.Context, rel placement.Release) (placement.Outcome, error) {
	bookings := &placement.Bookings{DB: c.Nodes.DB, Authority: c.Nodes.Authority}
	if c.DrainsByJob {
		return bookings.Release(ctx, rel, nil)
	}
	return bookings.Release(ctx, rel, func(b *pgx.Batch, nodeID string) placement.Follow {
		seen := &emptiness{}
		seen.queue(b, []string{nodeID})
		return func(ctx context.Context, tx *db.Tx, held node.Locks) (int, error) {
			return held.ChangeTx(ctx, tx, nodeID, iam.System(DrainController), drainedControl(seen))
		}
	})
}

func drainedControl(seen *emptiness) node.Control {
	return node.Control{
		Name: "drained", Axes: node.AxisDrain, Blind: node.PartLabels,
		Read: func(b *pgx.Batch, nodeID string) { seen.queue(b, []string{nodeID}) },
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			d := n.Running()
			if d == nil || !seen.empty(n.ID) {
				return nil, nil //nolint:nilnil // it was cancelled or ended meanwhile, or waits on
			}
			confirmed := seen.confirmed[n.ID]
			d.State, d.EndedAt, d.EndedBy, d.ConfirmedByNode, d.Overdue = node.Drained, &a.Now, node.Text(a.Who.Name), &confirmed, false
			n.RemoveReason(node.ReasonDraining)
			return &node.Fact{Type: "node.drained", Reason: string(d.Reason), Data: Drained{DrainID: d.ID, ConfirmedByNode: confirmed}}, nil
		},
	}
}

// Look is what a look at a drain found.
type Look struct {
	// Over says that no drain runs on the node any more.
	Over bool
	// DrainID is the drain that runs.
	DrainID string
	// Next is how long to wait for the next look while one runs.
	Next time.Duration
}

// LookAtDrain ends the node's drain if the node holds no live allocation, in one transaction with node.drained. It is idempotent and safe to call at
// any time by anyone: the drain's job, a wake, the interval timer and its net. Most looks find nothing to do, and lock nothing.
func (c *Controls) LookAtDrain(ctx context.Context, nodeID string) (Look, error) {
	look, empty, err := c.glance(ctx, nodeID)
	if err != nil || !empty {
		return look, err
	}
	seen, err := c.endDrain(ctx, nodeID)
	switch {
	case err != nil:
		return Look{}, err
	case seen.empty(nodeID):
		return Look{Over: true}, nil
	}
	look.Next = seen.nextLook(nodeID)
	return look, nil
}

func (c *Controls) endDrain(ctx context.Context, nodeID string) (*emptiness, error) {
	seen := &emptiness{}
	_, err := c.Nodes.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		ids := []string{nodeID}
		many := node.Many{IDs: ids, Who: iam.System(DrainController), Unshown: node.AllParts, Read: func(b *pgx.Batch) { seen.queue(b, ids) }}
		_, err := c.Nodes.ChangeManyTx(ctx, tx, many, drainedControl(seen))
		return err
	})
	return seen, err
}

// glance looks without a lock: at the drain that runs, and whether the node holds nothing, so that it may be over.
func (c *Controls) glance(ctx context.Context, nodeID string) (look Look, empty bool, err error) {
	var held placement.Held
	b := &pgx.Batch{}
	b.Queue(`select id from node_drains where node_id = $1 and state = 'DRAINING'`, nodeID).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(&look.DrainID); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		look.Over = true
		return nil
	})
	placement.QueueHolding(b, nodeID, &held)
	if err := c.Nodes.DB.Pool().SendBatch(ctx, b).Close(); err != nil {
		return Look{}, false, fmt.Errorf("look at the drain: %w", err)
	}
	if look.Over {
		return look, false, nil
	}
	look.Next = nextLook(held)
	return look, held.Live == 0, nil
}

// nextLook is the seed's: at the earliest allocation end, and at least every 5 minutes.
func nextLook(h placement.Held) time.Duration {
	if h.NextEnd != nil && *h.NextEnd < lookAtLeast {
		return *h.NextEnd
	}
	return lookAtLeast
}

// Plan is what a drain of a node would wait for now.
type Plan struct {
	// Held is what the drain controller itself looks at: while it holds anything live, a drain goes on.
	Held placement.Held
	// Blockers are the live allocations, the open-ended first, then those that end last; up to 500.
	Blockers []placement.Allocation
	// ExpectedAt is when the last of them ends; nil when one is open-ended or there is none.
	ExpectedAt *time.Time
}

// PlanDrain says what a drain of the node would wait for, and changes nothing. It is for who may drain the node.
func (c *Controls) PlanDrain(ctx context.Context, nodeID string) (Plan, error) {
	var p Plan
	b := &pgx.Batch{}
	placement.QueueHolding(b, nodeID, &p.Held)
	if err := c.Nodes.DB.Pool().SendBatch(ctx, b).Close(); err != nil {
		return Plan{}, fmt.Errorf("plan the drain: %w", err)
	}
	if p.Held.Live == 0 {
		return p, nil
	}
	by, err := placement.Blockers(ctx, c.Nodes.DB.Pool(), []string{nodeID})
	if err != nil {
		return Plan{}, err
	}
	if p.Blockers = by[nodeID]; len(p.Blockers) > 0 {
		p.ExpectedAt = p.Blockers[0].EndsAt
	}
	return p, nil
}

// EndedInDrains gives, by drain, how many of the node's allocations were released or ended while it ran; a drain without any is absent.
func (c *Controls) EndedInDrains(ctx context.Context, drainIDs []string) (map[string]int, error) {
	rows, err := c.Nodes.DB.Pool().Query(ctx, `
		select d.id, count(*) from node_drains d join allocations a on a.node_id = d.node_id
		where d.id = any($1) and least(a.released_at, a.ended_at) between d.started_at and coalesce(d.ended_at, 'infinity') group by d.id`, drainIDs)
	if err != nil {
		return nil, fmt.Errorf("count what ended in the drains: %w", err)
	}
	counts := make(map[string]int, len(drainIDs))
	var drainID string
	var n int
	if _, err = pgx.ForEachRow(rows, []any{&drainID, &n}, func() error {
		counts[drainID] = n
		return nil
	}); err != nil {
		return nil, fmt.Errorf("count what ended in the drains: %w", err)
	}
	return counts, nil
}
