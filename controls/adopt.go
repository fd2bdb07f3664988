package controls

import (
	"context"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// Adopting are the fields of node.adopting.
type Adopting struct {
	// RunID is the run that begins; the results of an older one are ignored.
	RunID string `json:"runId"`
}

func adoptControl() node.Control {
	return node.Control{
		Name: "adopt", Action: iam.NodesProvision, Axes: node.AxisProvision, Decide: adopt,
		Follow: func(_ context.Context, tx *db.Tx, nodes []*node.Node) error {
			if err := tx.Locks(db.LockNodePart); err != nil {
				return err
			}
			for _, n := range nodes {
				health.BeginRunTx(tx, n.ID, n.AcceptanceRun)
			}
			return nil
		},
	}
}

// adopt begins a run of acceptance on a node that is adopting or adopted. What it holds stays; nothing new lands until the checks pass.
func adopt(n *node.Node, _ node.Act) (*node.Fact, error) {
	if n.ProvisionState != node.Adopting && n.ProvisionState != node.Adopted {
		return nil, fault.New(fault.InvalidState, fault.Details{"provisionState": n.ProvisionState, "cordoned": n.Cordoned()},
			"a node that is %s can't be adopted again: it has to be adopting or adopted", n.ProvisionState)
	}
	n.ProvisionState, n.AcceptanceRun = node.Adopting, id.New(id.Acceptance)
	return &node.Fact{Type: "node.adopting", Data: Adopting{RunID: n.AcceptanceRun}}, nil
}

// Adopt runs acceptance again. An adopted node goes back to adopting and leaves placement until the checks pass; its allocations stay.
//
// Codes besides the write path's: INVALID_STATE { provisionState, cordoned } for a node that is neither adopting nor adopted.
func (c *Controls) Adopt(ctx context.Context, e node.Edit) (node.Changed, error) {
	return c.Nodes.Change(ctx, e, adoptControl())
}

// LookAtAcceptance looks whether the checks of a run pass by what the node's daemon has reported already; what it reports later is looked at then.
func (c *Controls) LookAtAcceptance(ctx context.Context, nodeID, run string) error {
	return c.health().Accept(ctx, nodeID, run)
}

// CatchAdopting looks at nodes for which a look may be all that is missing: whoever should have looked died first.
func (c *Controls) CatchAdopting(ctx context.Context) error {
	waiting, err := c.health().Waiting(ctx)
	if err != nil {
		return err
	}
	for nodeID, run := range waiting {
		if err := c.LookAtAcceptance(ctx, nodeID, run); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controls) health() *health.Store { return &health.Store{DB: c.Nodes.DB, Nodes: c.Nodes} }
