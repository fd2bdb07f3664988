package health

import (
	"fmt"
	"time"

	"github.com/better-compute/better-compute/node"
)

// clockTolerance is how far a machine's clock may be off before it is a condition.
const clockTolerance = 5 * time.Minute

// ClockSkew is the reason of a node whose clock is off.
const ClockSkew = node.ConditionClockSkew

// Condition are the fields of node.condition.
type Condition struct {
	Condition string `json:"condition"`
	// Active says that it came; otherwise it went.
	Active  bool   `json:"active"`
	Message string `json:"message,omitempty"`
}

// clockControl keeps the condition clock-skew as the skew has it. It moves no reason that is not its own.
func clockControl(skew time.Duration) node.Control {
	return node.Control{
		Name: "clock-skew", Axes: node.AxisConditions,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			had, active := condition(n, ClockSkew)
			if active && had.Owner != Actor {
				return nil, nil //nolint:nilnil // somebody else's: it is theirs to take away
			}
			if skew.Abs() <= clockTolerance {
				if !active {
					return nil, nil //nolint:nilnil // nothing to do
				}
				n.RemoveReason(ClockSkew)
				return &node.Fact{Type: "node.condition", Data: Condition{Condition: "clock-skew"}}, nil
			}
			message := node.Text(skewSentence(skew))
			if active && had.Message == message {
				return nil, nil //nolint:nilnil // nothing to do
			}
			since := a.Now
			if active {
				since = had.Since
			}
			n.AddReason(node.Reason{Name: ClockSkew, Owner: Actor, Message: message, Since: since})
			return &node.Fact{Type: "node.condition", Data: Condition{Condition: "clock-skew", Active: true, Message: string(message)}}, nil
		},
	}
}

func condition(n *node.Node, name string) (node.Reason, bool) {
	for _, r := range n.Reasons {
		if r.Name == name {
			return r, true
		}
	}
	return node.Reason{}, false
}

// skewSentence says how far off the clock is, in a grain that does not change with every session.
func skewSentence(skew time.Duration) string {
	d, way := skew.Abs(), "ahead"
	if skew < 0 {
		way = "behind"
	}
	var much string
	switch {
	case d < 2*time.Hour:
		much = fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		much = fmt.Sprintf("%d h", int(d.Hours()))
	default:
		much = fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	return "the machine's clock is " + much + " " + way + "; set it, and restart bcd"
}

// Adopted are the fields of node.adopted.
type Adopted struct {
	// Checks are the acceptance checks that it passed.
	Checks []string `json:"checks"`
}

// acceptControl takes in a node that waits for it when the checks pass: its daemon holds a live session, by which its inventory is in, and its clock
// is right. A node in any other state stays as it is.
func acceptControl(seen seen) node.Control {
	return node.Control{
		Name: "accept", Axes: node.AxisProvision,
		Decide: func(n *node.Node, _ node.Act) (*node.Fact, error) {
			if n.ProvisionState != node.Adopting || !seen.live || !seen.inventoried || seen.skew.Abs() > clockTolerance {
				return nil, nil //nolint:nilnil // not yet, or nothing to do
			}
			n.ProvisionState = node.Adopted
			return &node.Fact{Type: "node.adopted", Data: Adopted{Checks: []string{"session", "inventory", "clock"}}}, nil
		},
	}
}
