package controls

import (
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

func cordonControl() node.Control {
	return node.Control{Name: "cordon", Action: iam.NodesCordon, Axes: node.AxisCordon, Decide: cordon}
}

func cordon(n *node.Node, a node.Act) (*node.Fact, error) {
	if n.Cordoned() {
		return nil, nil //nolint:nilnil // nothing to do
	}
	n.Cordon = &node.Cordon{Reason: node.Text(a.Reason), By: a.Who.Name, At: a.Now}
	return &node.Fact{Type: "node.cordoned"}, nil
}

func uncordonControl() node.Control {
	return node.Control{Name: "uncordon", Action: iam.NodesCordon, Axes: node.AxisCordon | node.AxisDrain, Decide: uncordon}
}

// Uncordoned are the fields of node.uncordoned.
type Uncordoned struct {
	// CancelledDrainID is the drain that ended with the cordon before the node was empty.
	CancelledDrainID string `json:"cancelledDrainId,omitempty"`
}

func uncordon(n *node.Node, a node.Act) (*node.Fact, error) {
	if !n.Cordoned() {
		return nil, nil //nolint:nilnil // nothing to do
	}
	n.Cordon = nil
	var told Uncordoned
	if d := n.Running(); d != nil {
		d.State, d.EndedAt, d.EndedBy, d.Cause = node.Cancelled, &a.Now, node.Text(a.Who.Name), "uncordoned"
		n.RemoveReason(node.ReasonDraining)
		told.CancelledDrainID = d.ID
	}
	return &node.Fact{Type: "node.uncordoned", Data: told}, nil
}
