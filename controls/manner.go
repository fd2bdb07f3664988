package controls

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/node"
)

// Verb is a control that can be done to many nodes at once.
type Verb string

// The verbs.
const (
	VerbCordon   Verb = "CORDON"
	VerbUncordon Verb = "UNCORDON"
	VerbDrain    Verb = "DRAIN"
	VerbTaint    Verb = "TAINT"
	VerbLabel    Verb = "LABEL"
	VerbAdopt    Verb = "ADOPT"
)

// maxPerPool is the largest limit of drains that can be asked for: more nodes than one selection holds don't drain by it.
const maxPerPool = MaxSelected

// Manner is a verb with its arguments. Each argument is for the verbs that are named at it; for another it is INVALID_INPUT.
type Manner struct {
	Verb Verb `json:"-"`
	// Until is when a CORDON is meant to end.
	Until *time.Time `json:"until,omitempty"`
	// IfCordonedBy has UNCORDON lift the cordons of that author; empty: the caller's own.
	IfCordonedBy string `json:"ifCordonedBy,omitempty"`
	// Anyone has UNCORDON lift cordons whoever holds them.
	Anyone bool `json:"anyone,omitempty"`
	// Deadline is by when a DRAIN is meant to be over.
	Deadline *time.Time `json:"deadline,omitempty"`
	// MaxPerPool has DRAIN begin one only while fewer run in the node's pool, whoever began them; nil: all at once.
	MaxPerPool *int `json:"maxPerPool,omitempty"`
	// Add is for TAINT, Remove for TAINT and LABEL, Set for LABEL.
	Add    []string          `json:"add,omitempty"`
	Remove []string          `json:"remove,omitempty"`
	Set    map[string]string `json:"set,omitempty"`
}

// checkEnds says whether the ends that are given lie ahead, by the database's time.
func (m Manner) checkEnds(now time.Time) error {
	if err := checkEnd("until", m.Until, now); err != nil {
		return err
	}
	return checkEnd("deadline", m.Deadline, now)
}

// check says whether the verb takes the arguments, and whether they can be read.
func (m Manner) check() error {
	given := map[string]bool{
		"until": m.Until != nil, "ifCordonedBy": m.IfCordonedBy != "", "anyone": m.Anyone, "deadline": m.Deadline != nil,
		"maxPerPool": m.MaxPerPool != nil, "add": m.Add != nil, "remove": m.Remove != nil, "set": m.Set != nil,
	}
	for _, argument := range slices.Sorted(maps.Keys(given)) {
		if given[argument] && !slices.Contains(argumentsOf[m.Verb], argument) {
			return fault.Invalid(argument, "is no argument of this control", 0)
		}
	}
	switch m.Verb {
	case VerbUncordon:
		if m.Anyone && m.IfCordonedBy != "" {
			return fault.Invalid("anyone", "must not stand beside ifCordonedBy: lift one author's cordons, or everybody's", 0)
		}
		return Uncordoning{IfBy: m.IfCordonedBy}.check()
	case VerbDrain:
		if n := m.MaxPerPool; n != nil && (*n < 1 || *n > maxPerPool) {
			return fault.Invalid("maxPerPool", "must be between 1 and "+strconv.Itoa(maxPerPool), 0)
		}
	case VerbTaint:
		return Taints{Add: m.Add, Remove: m.Remove}.check()
	case VerbLabel:
		return Labels{Set: m.Set, Remove: m.Remove}.check()
	case VerbCordon, VerbAdopt:
	}
	return nil
}

var argumentsOf = map[Verb][]string{
	VerbCordon:   {"until"},
	VerbUncordon: {"ifCordonedBy", "anyone"},
	VerbDrain:    {"deadline", "maxPerPool"},
	VerbTaint:    {"add", "remove"},
	VerbLabel:    {"set", "remove"},
}

// control gives what is done to each node, by somebody. For a drain, what was seen under the nodes' locks says which are over at once; nil: their jobs look.
func (m Manner) control(by string, seen *emptiness) node.Control {
	switch m.Verb {
	case VerbUncordon:
		switch {
		case m.Anyone:
			return uncordonControl(Uncordoning{})
		case m.IfCordonedBy != "":
			return uncordonControl(Uncordoning{IfBy: m.IfCordonedBy})
		}
		return uncordonControl(Uncordoning{IfBy: by})
	case VerbDrain:
		return drainControl(Draining{Deadline: m.Deadline}, seen)
	case VerbTaint:
		return taintControl(Taints{Add: m.Add, Remove: m.Remove})
	case VerbLabel:
		return labelControl(Labels{Set: m.Set, Remove: m.Remove})
	case VerbAdopt:
		return adoptControl()
	case VerbCordon:
	}
	return cordonControl(Cordoning{Until: m.Until})
}

// upset are the types of events after which a node is not what was selected for the verb: somebody decided otherwise about the very thing that it moves.
func (m Manner) upset() []string {
	switch m.Verb {
	case VerbCordon, VerbDrain:
		return []string{"node.uncordoned"}
	case VerbUncordon:
		return []string{"node.cordoned", "node.cordon-updated", "node.draining", "node.uncordoned"}
	case VerbTaint:
		return []string{"node.tainted"}
	case VerbLabel:
		return []string{"node.labeled"}
	case VerbAdopt:
	}
	return []string{"node.adopting", "node.adopted", "node.adoption-failed"}
}

// keys are those that an event of upset has to be about; nil where it need not.
func (m Manner) keys() []string {
	switch m.Verb {
	case VerbTaint:
		return slices.Concat(m.Add, m.Remove)
	case VerbLabel:
		return slices.Concat(slices.Sorted(maps.Keys(m.Set)), m.Remove)
	case VerbCordon, VerbUncordon, VerbDrain, VerbAdopt:
	}
	return nil
}

// warnings are sentences about what is done all the same.
func (m Manner) warnings(ctx context.Context, q db.Querier) ([]string, error) {
	if m.Verb != VerbTaint {
		return nil, nil
	}
	return Taints{Add: m.Add}.warnings(ctx, q)
}

// idle says why the verb had nothing to do on a node.
func (m Manner) idle(n *node.Node) string {
	switch m.Verb {
	case VerbCordon:
		return "cordoned already by " + n.Cordon.By + " since " + n.Cordon.At.UTC().Format(time.RFC3339)
	case VerbUncordon:
		return "not cordoned"
	case VerbDrain:
		if n.Running() == nil {
			return "drained already by " + n.LastDrain.By
		}
		return "draining already"
	case VerbTaint:
		return "its taints are so already"
	case VerbLabel:
		return "its labels are so already"
	case VerbAdopt:
	}
	return ""
}
