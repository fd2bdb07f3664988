package controls

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

// Labels are the operator's labels that a call sets, and the keys that it removes.
type Labels struct {
	Set    map[string]string `json:"set"`
	Remove []string          `json:"remove"`
}

// Labeled are the fields of node.labeled by an operator.
type Labeled struct {
	// Set are the labels that came or got another value.
	Set map[string]string `json:"set"`
	// Removed are those that went.
	Removed map[string]string `json:"removed"`
}

// Label sets and removes operators' labels. Setting a key that inventory or the system owns is INVALID_INPUT naming the owner; removing one leaves it.
//
// Codes besides the write path's: INVALID_INPUT for labels that are too many, malformed, the system's, named twice or in both lists, or none at all.
func (c *Controls) Label(ctx context.Context, e node.Edit, l Labels) (node.Changed, error) {
	if err := l.check(); err != nil {
		return node.Changed{}, err
	}
	e.Args = l
	return c.Nodes.Change(ctx, e, labelControl(l))
}

func (l Labels) check() error {
	if len(l.Set) == 0 && len(l.Remove) == 0 {
		return fault.Invalid("set", "set or remove must hold a key", 0)
	}
	if err := node.CheckLabels("set", l.Set); err != nil {
		return err
	}
	if err := checkKeys("remove", l.Remove, node.MaxLabels, node.LabelKeyRule, ". _ / -"); err != nil {
		return err
	}
	for _, key := range l.Remove {
		if strings.HasPrefix(key, node.SystemLabels) {
			return fault.Invalid("remove", "keys that begin with "+node.SystemLabels+" belong to the system", len(key))
		}
	}
	return checkBoth("set", slices.Sorted(maps.Keys(l.Set)), "remove", l.Remove)
}

func labelControl(l Labels) node.Control {
	return node.Control{
		Name: "label", Action: iam.NodesUpdate, Axes: node.AxisOperatorLabels,
		Decide: func(n *node.Node, _ node.Act) (*node.Fact, error) { return label(n, l) },
	}
}

func label(n *node.Node, l Labels) (*node.Fact, error) {
	told := Labeled{Set: map[string]string{}, Removed: map[string]string{}}
	set := slices.Sorted(maps.Keys(l.Set))
	for _, key := range set {
		if had, there := n.Label(key); there && had.Source != node.FromOperator {
			return nil, fault.New(fault.InvalidInput, fault.Details{"argument": "set", "rule": "the key belongs to another", "key": key, "owner": string(had.Source)},
				"set: the label %s belongs to %s and can't be set by an operator; choose another key", key, ownerWord(had.Source))
		}
	}
	for _, key := range set {
		want := node.Label{Key: key, Value: l.Set[key], Source: node.FromOperator}
		if had, there := n.Label(key); !there || had != want {
			n.SetLabel(want)
			told.Set[key] = want.Value
		}
	}
	for _, key := range l.Remove {
		if had, there := n.Label(key); there && had.Source == node.FromOperator {
			n.RemoveLabel(key)
			told.Removed[key] = had.Value
		}
	}
	if len(told.Set)+len(told.Removed) == 0 {
		return nil, nil //nolint:nilnil // nothing to do
	}
	return &node.Fact{Type: "node.labeled", Data: told}, nil
}

// ownerWord says whose a label is.
func ownerWord(s node.LabelSource) string {
	if s == node.FromSystem {
		return "the system"
	}
	return strings.ToLower(string(s))
}
