package controls

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

// Cordoning is what a cordon takes besides its reason.
type Cordoning struct {
	// Until is when its author means it to end; nothing is lifted by itself.
	Until *time.Time `json:"until"`
	// Update gives a cordon that is there, whoever holds it, this reason and this end.
	Update bool `json:"update"`
}

// Cordoned are the fields of node.cordoned and node.cordon-updated.
type Cordoned struct {
	Until *time.Time `json:"until,omitempty"`
}

func cordonControl(c Cordoning) node.Control {
	return node.Control{
		Name: "cordon", Action: iam.NodesCordon, Axes: node.AxisCordon, Blind: node.AllParts,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) { return cordon(n, a, c) },
	}
}

func cordon(n *node.Node, a node.Act, c Cordoning) (*node.Fact, error) {
	if err := checkEnd("until", c.Until, a.Now); err != nil {
		return nil, err
	}
	until := micros(c.Until)
	switch held := n.Cordon; {
	case c.Update && held == nil:
		return nil, fault.New(fault.InvalidState, fault.Details{"provisionState": n.ProvisionState, "cordoned": false},
			"the node is not cordoned, so there is no reason to update; cordon it without updateReason")
	case c.Update:
		if held.Reason == node.Text(a.Reason) && sameEnd(held.Until, until) {
			return nil, nil //nolint:nilnil // nothing to do
		}
		// Who holds it and since when stays: another's words do not make the cordon another's.
		held.Reason, held.Until, held.Overdue = node.Text(a.Reason), until, false
		return &node.Fact{Type: "node.cordon-updated", Data: Cordoned{Until: until}}, nil
	case held != nil:
		return nil, nil //nolint:nilnil // nothing to do
	}
	n.Cordon = &node.Cordon{Reason: node.Text(a.Reason), By: a.Who.Name, At: a.Now, Until: until}
	return &node.Fact{Type: "node.cordoned", Data: Cordoned{Until: until}}, nil
}

func sameEnd(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// Uncordoning is what an uncordon takes besides its reason.
type Uncordoning struct {
	// IfBy lifts only the cordon of that author; empty: whoever's.
	IfBy string `json:"ifBy,omitempty"`
}

func (u Uncordoning) check() error {
	if n := utf8.RuneCountInString(u.IfBy); n > 256 || !utf8.ValidString(u.IfBy) || strings.ContainsFunc(u.IfBy, unicode.IsControl) {
		return fault.Invalid("ifCordonedBy", "must be the name of somebody, of at most 256 characters, none of them a control character", n)
	}
	return nil
}

func uncordonControl(u Uncordoning) node.Control {
	return node.Control{
		Name: "uncordon", Action: iam.NodesCordon, Axes: node.AxisCordon | node.AxisDrain, Blind: node.PartLabels,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) { return uncordon(n, a, u) },
	}
}

// Uncordoned are the fields of node.uncordoned.
type Uncordoned struct {
	// CancelledDrainID is the drain that ended with the cordon before the node was empty.
	CancelledDrainID string `json:"cancelledDrainId,omitempty"`
}

func uncordon(n *node.Node, a node.Act, u Uncordoning) (*node.Fact, error) {
	if !n.Cordoned() {
		return nil, nil //nolint:nilnil // nothing to do
	}
	if u.IfBy != "" && n.Cordon.By != u.IfBy {
		return nil, fault.New(fault.Conflict, fault.Details{"expected": u.IfBy, "actual": n.Cordon.By, "by": n.Cordon.By, "at": n.Cordon.At},
			"the cordon is held by %s and not by %s; it stays", n.Cordon.By, u.IfBy)
	}
	n.Cordon = nil
	var told Uncordoned
	if d := n.Running(); d != nil {
		d.State, d.EndedAt, d.EndedBy, d.Cause, d.Overdue = node.Cancelled, &a.Now, node.Text(a.Who.Name), "uncordoned", false
		n.RemoveReason(node.ReasonDraining)
		told.CancelledDrainID = d.ID
	}
	return &node.Fact{Type: "node.uncordoned", Data: told}, nil
}
