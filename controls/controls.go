// Package controls is what an operator does to a node. Each control is a pure decision on the node that moves exactly one axis, and goes through the
// node's one write path. This is the only room that knows all the parts.
package controls

import (
	"context"
	"log/slog"

	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// Controls are the operator's verbs.
type Controls struct {
	Nodes *node.Store
	// DrainsByJob leaves also the drains of empty nodes to the jobs: for measuring these.
	DrainsByJob bool
	// Log takes what goes wrong on our side; nil: nobody hears of it.
	Log *slog.Logger
}

// Cordon stops new work from landing on a node and changes nothing else. Cordoning a cordoned node changes nothing, whoever holds it, unless the call is
// to update its reason and end, which is an act of its own: node.cordon-updated.
//
// Codes besides the write path's: INVALID_INPUT for an end that does not lie ahead, INVALID_STATE for an update where there is no cordon.
func (c *Controls) Cordon(ctx context.Context, e node.Edit, how Cordoning) (node.Changed, error) {
	if how.Until != nil || how.Update {
		e.Args = how
	}
	return c.Nodes.Change(ctx, e, cordonControl(how))
}

// Uncordon lifts the cordon and ends a drain that runs. Taints, maintenance and other reasons stay. A cordon of another author than the call names is
// CONFLICT { expected, actual, by, at } and stays.
func (c *Controls) Uncordon(ctx context.Context, e node.Edit, how Uncordoning) (node.Changed, error) {
	if err := how.check(); err != nil {
		return node.Changed{}, err
	}
	if how != (Uncordoning{}) {
		e.Args = how
	}
	return c.Nodes.Change(ctx, e, uncordonControl(how))
}

// Drain cordons a node and has the drain controller wait until it holds no live allocation. Nothing is evicted. Draining a node that is draining
// changes nothing, a new deadline included. The drain of an empty node is over in the same transaction, with both events (adr/0041); the answer is of
// the first, also for a call that waited while another's drain of the node began and ended.
//
// Codes besides the write path's: INVALID_INPUT for a deadline that does not lie ahead.
func (c *Controls) Drain(ctx context.Context, e node.Edit, how Draining) (node.Changed, error) {
	if how.Deadline != nil {
		e.Args = how
	}
	if c.DrainsByJob {
		return c.Nodes.Change(ctx, e, drainControl(how, nil))
	}
	var seen emptiness
	return c.Nodes.Change(ctx, e, drainControl(how, &seen), drainedNext(&seen))
}

// All gives every control, for tests that hold for all of them: a new control joins by standing here.
func (c *Controls) All() []node.Control {
	return []node.Control{
		cordonControl(Cordoning{}), cordonControl(Cordoning{Update: true}), uncordonControl(Uncordoning{}), uncordonControl(Uncordoning{IfBy: "x"}),
		drainControl(Draining{}, nil), drainedControl(&emptiness{}), taintControl(Taints{Add: []string{"new", "dedicated=other"}, Remove: []string{"rma", "unreachable"}}),
		labelControl(Labels{Set: map[string]string{"new": "1", "rack": "b8"}, Remove: []string{"cpu.arch"}}),
		adoptControl(), deleteControl(&holding{}), deleteControl(&holding{held: placement.Held{Live: 1}}),
	}
}

// Offer says whether a control is offered on a node now and, if not, why.
type Offer struct {
	Control string
	Action  iam.Action
	Enabled bool
	Because string
}

// offered are the operator's controls, with what is said where a control would do nothing.
func offered(live int) []struct {
	control node.Control
	idle    string
} {
	return []struct {
		control node.Control
		idle    string
	}{
		{cordonControl(Cordoning{}), "the node is cordoned already"},
		{uncordonControl(Uncordoning{}), "the node is not cordoned"},
		{drainControl(Draining{}, nil), "the node is draining already"},
		// No node can hold a key without a character, so what these would do is never done already.
		{taintControl(Taints{Add: []string{""}}), ""},
		{labelControl(Labels{Set: map[string]string{"": ""}}), ""},
		{adoptControl(), ""},
		{deleteControl(&holding{held: placement.Held{Live: live}}), "the node is deleted already"},
	}
}

// Offers judges the operator's controls by the decisions that they themselves use: a control whose decision would do nothing or refuse is not offered.
// rights are the caller's on a node that its tenant owns; a guest has none. live is how many live allocations the node holds.
func Offers(n *node.Node, rights iam.Rights, live int) []Offer {
	var offers []Offer
	for _, o := range offered(live) {
		offer := Offer{Control: o.control.Name, Action: o.control.Action, Enabled: true}
		fact, err := o.control.Decide(n.Clone(), node.Act{})
		switch {
		case n.DeletedAt != nil:
			offer.Enabled, offer.Because = false, "the node is deleted"
		case !rights.May(o.control.Action):
			offer.Enabled, offer.Because = false, "it needs "+string(o.control.Action)+" and the tenant that owns the node"
		case err != nil:
			offer.Enabled, offer.Because = false, err.Error()
		case fact == nil:
			offer.Enabled, offer.Because = false, o.idle
		}
		offers = append(offers, offer)
	}
	return offers
}
