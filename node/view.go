package node

import (
	"slices"
	"strings"

	"github.com/better-compute/better-compute/iam"
)

// View is a node as one tenant sees it.
type View struct {
	*Node

	// Seer is the tenant.
	Seer string
	// Full says that it sees the whole: it owns the node. Otherwise the node is already reduced.
	Full bool
	// Pool is the node's.
	Pool Pool
	// Rights is what the caller may do on what the tenant owns, where the same reading decided it.
	Rights iam.Rights

	place string // in the list that it was read for: the key that sorts
}

// dedicatedToOther is a dedication to another tenant, before tenants that do not own the node.
const dedicatedToOther = "taint:dedicated"

// reduce cuts from a guest's view the owner's words, names and own labels: it learns that and since when the node is out, not by whom or why in the
// owner's words, and of another tenant's dedication only that there is one.
func (v *View) reduce() {
	if v.Full {
		return
	}
	r := v.Node
	r.ChangedBy = Operator
	if r.Failure != nil {
		r.Failure.Message = ""
	}
	if r.Cordon != nil {
		r.Cordon.By, r.Cordon.Reason, r.Cordon.Until, r.Cordon.Overdue = Operator, "", nil, false
	}
	if r.LastDrain != nil {
		r.LastDrain.reduce()
	}
	for i := range r.Reasons {
		reason := &r.Reasons[i]
		if to, ok := strings.CutPrefix(reason.Name, PrefixDedicated); ok && to != v.Seer {
			reason.Name = dedicatedToOther
		}
		reason.By, reason.Message = "", ""
	}
	r.Reasons = slices.CompactFunc(r.Reasons, func(a, b Reason) bool { return a.Name == b.Name })
	r.Labels = those(r.Labels, func(l Label) bool { return l.Source != FromOperator })
}

func (d *Drain) reduce() {
	d.By, d.Reason, d.Cause, d.Deadline, d.Overdue = Operator, "", "", nil, false
	if d.EndedBy != "" {
		d.EndedBy = Operator
	}
}
