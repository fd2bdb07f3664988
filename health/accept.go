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
	RunID  string   `json:"runId,omitempty"`
}

// AdoptionFailed are the fields of node.adoption-failed.
type AdoptionFailed struct {
	RunID string `json:"runId,omitempty"`
	// Phase is ENROLLMENT before the node was ever adopted, else ACCEPTANCE.
	Phase   string `json:"phase"`
	Check   string `json:"check"`
	Message string `json:"message"`
}

// acceptControl takes in a node that waits for it when the checks pass, and fails it when one of them can't pass any more. A node in any other state
// stays as it is, but for one that failed and is back by another boot: what was wrong with it was seen to, and its checks count anew.
func acceptControl(seen seen) node.Control {
	return node.Control{
		Name: "accept", Axes: node.AxisProvision,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			if !seen.awaited(n) {
				return nil, nil //nolint:nilnil // nothing to do, or the results of an older run
			}
			var passed []string
			results := judge(checks, seen)
			for _, r := range results {
				switch r.Status {
				case CheckFailed:
					return fail(n, a, r), nil
				case CheckPassed:
					passed = append(passed, r.Name)
				case CheckPending, CheckWaiting:
				}
			}
			if len(passed) < len(results) {
				return nil, nil //nolint:nilnil // not yet
			}
			n.ProvisionState, n.Failure = node.Adopted, nil
			if n.AdoptedAt == nil {
				n.AdoptedAt = &a.Now
			}
			return &node.Fact{Type: "node.adopted", Data: Adopted{Checks: passed, RunID: n.AcceptanceRun}}, nil
		},
	}
}

func fail(n *node.Node, a node.Act, r Result) *node.Fact {
	phase := node.PhaseAcceptance
	if n.AdoptedAt == nil {
		phase = node.PhaseEnrollment
	}
	message := r.Name + ": " + r.Message
	if f := n.Failure; f != nil && f.Phase == phase && f.Message == message {
		return nil // it is still so
	}
	n.ProvisionState, n.Failure = node.Failed, &node.Failure{Phase: phase, Message: message, At: a.Now}
	return &node.Fact{Type: "node.adoption-failed", Data: AdoptionFailed{RunID: n.AcceptanceRun, Phase: phase, Check: r.Name, Message: r.Message}}
}

// awaited says that the node waits for what was seen: it is adopting, or failed in that and is back by another boot; and what was seen is of its
// present run.
func (s seen) awaited(n *node.Node) bool {
	if s.run != "" && s.run != n.AcceptanceRun {
		return false
	}
	switch n.ProvisionState {
	case node.Adopting:
		return true
	case node.Failed:
		f := n.Failure
		return f != nil && (f.Phase == node.PhaseAcceptance || f.Phase == node.PhaseEnrollment) && s.live && s.bootID != s.checkedBoot
	case node.Enrolling, node.Adopted, node.Provisioning, node.Retiring, node.Retired:
	}
	return false
}
