package node

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Binding is what new work would take of a node.
type Binding int

const (
	// Device is a share of a node: devices, or a slot that excludes nobody.
	Device Binding = iota
	// Whole is a lease of the whole node in a tenantRoot pool, which ignores reasons other than dedications.
	Whole
)

// Placeability is the gate's answer.
type Placeability struct {
	Placeable bool
	// Because holds a sentence for each thing that keeps the work out; empty when placeable.
	Because []string
}

// Placeable says for whom work can land on a node.
type Placeable string

// The answers.
const (
	PlaceableForAll  Placeable = "ALL"
	PlaceableForOne  Placeable = "ONE_TENANT"
	PlaceableForNone Placeable = "NONE"
)

// Gate is the one decision whether new work of a tenant can land on a node: every placement path, the API's placeable and the console ask it.
//
// A node takes work when it is adopted, not deleted, not cordoned, not in maintenance and holds a trusted credential, and its reasons are none, or
// exactly one dedication to that tenant. A whole-node lease ignores the reasons that are no dedications while there is no dedication; a dedication
// together with any other reason, or a second one, blocks everyone.
//
// now is only for the words about how long.
func Gate(n *Node, tenant string, binding Binding, now time.Time) Placeability {
	because := n.blocked(now)
	var dedicated, other []string
	for _, r := range n.Reasons {
		if to, ok := strings.CutPrefix(r.Name, PrefixDedicated); ok {
			dedicated = append(dedicated, to)
		} else {
			other = append(other, r.sentence())
		}
	}
	switch {
	case len(dedicated) > 1:
		because = append(because, "dedicated to several tenants ("+strings.Join(dedicated, ", ")+"), so to nobody")
	case len(dedicated) == 1 && dedicated[0] != tenant:
		because = append(because, "only for "+dedicated[0])
	}
	if binding == Device || len(dedicated) > 0 {
		because = append(because, other...)
	}
	return Placeability{Placeable: len(because) == 0, Because: because}
}

// blocked gives what keeps everybody out whatever the reasons.
func (n *Node) blocked(now time.Time) []string {
	var because []string
	if n.DeletedAt != nil {
		because = append(because, "deleted")
	}
	if n.ProvisionState != Adopted {
		s := strings.ToLower(string(n.ProvisionState))
		if n.Failure != nil {
			s += " in " + strings.ToLower(n.Failure.Phase) + ": " + n.Failure.Message
		} else if awaits := n.awaits(); awaits != "" {
			s += ": " + awaits
		}
		because = append(because, s)
	}
	if n.Cordon != nil {
		s := "cordoned by " + n.Cordon.By + " " + Ago(now.Sub(n.Cordon.At))
		if n.Cordon.Overdue {
			s += ", overdue"
		}
		if n.Cordon.Reason != "" {
			s += ": " + string(n.Cordon.Reason)
		}
		because = append(because, s)
	}
	if n.Maintenance {
		because = append(because, "in maintenance: it needs an operator")
	}
	switch n.Credential {
	case Trusted:
	case NoCredential:
		because = append(because, "holds no credential yet")
	case Revoked:
		because = append(because, "its credential is revoked; it must join again")
	case Quarantined:
		because = append(because, "its certificate is quarantined: two machines used it")
	}
	return because
}

// ConditionClockSkew is the condition of a machine whose clock is off; acceptance waits for it to go.
const ConditionClockSkew = PrefixCondition + "clock-skew"

// awaits says what acceptance waits for while the node is adopting. Acceptance looks whenever an inventory comes, so a node that holds a session by
// a right clock, and was not taken in yet, has not told its inventory in that session.
func (n *Node) awaits() string {
	switch {
	case n.ProvisionState != Adopting:
		return ""
	case n.Connectivity == Pending:
		return "its daemon has not connected yet"
	case n.Connectivity != Connected:
		return "its daemon holds no session"
	case slices.ContainsFunc(n.Reasons, func(r Reason) bool { return r.Name == ConditionClockSkew }):
		return "its clock must be right first"
	default:
		return "its inventory is awaited"
	}
}

func (r Reason) sentence() string {
	switch {
	case r.Name == ReasonDraining:
		return "draining"
	case r.Name == ReasonUnreachable:
		return "unreachable"
	case r.Message != "":
		return r.Name + ": " + string(r.Message)
	}
	return r.Name
}

// PlaceableFor says for whom work can land: for all, for the one tenant that the node is dedicated to, or for nobody.
func (n *Node) PlaceableFor() Placeable {
	now := time.Time{}
	if Gate(n, "", Device, now).Placeable { // no tenant is called ""
		return PlaceableForAll
	}
	if len(n.Reasons) == 1 {
		if to, ok := strings.CutPrefix(n.Reasons[0].Name, PrefixDedicated); ok && Gate(n, to, Device, now).Placeable {
			return PlaceableForOne
		}
	}
	return PlaceableForNone
}

// Hold is one thing that keeps a node out.
type Hold struct {
	Reason  string
	Owner   string
	By      Text
	Message Text
	Since   *time.Time
}

// Holds gives everything that keeps the node out: its reasons, and cordon, maintenance, credential and provisioning.
func (n *Node) Holds() []Hold {
	holds := []Hold{}
	if n.ProvisionState != Adopted {
		h := Hold{Reason: "provisioning", Owner: "adoption", Message: Text(strings.ToLower(string(n.ProvisionState)))}
		if awaits := n.awaits(); awaits != "" {
			h.Message += Text(": " + awaits)
		}
		if n.Failure != nil {
			h.Message, h.Since = Text(n.Failure.Message), &n.Failure.At
		}
		holds = append(holds, h)
	}
	if c := n.Cordon; c != nil {
		holds = append(holds, Hold{Reason: "cordon", Owner: Operator, By: Text(c.By), Message: c.Reason, Since: &c.At})
	}
	if n.Maintenance {
		holds = append(holds, Hold{Reason: "maintenance", Owner: "health", Message: "it needs an operator"})
	}
	if n.Credential != Trusted {
		holds = append(holds, Hold{Reason: "credential", Owner: "pki", Message: Text(strings.ToLower(string(n.Credential))), Since: &n.CredentialSince})
	}
	for _, r := range n.Reasons {
		holds = append(holds, Hold{Reason: r.Name, Owner: r.Owner, By: r.By, Message: r.Message, Since: &r.Since})
	}
	return holds
}

// OutSince gives since when the node is out: the oldest known time of what holds it. It is nil in service.
func (n *Node) OutSince() *time.Time {
	var oldest *time.Time
	for _, h := range n.Holds() {
		if h.Since != nil && (oldest == nil || h.Since.Before(*oldest)) {
			oldest = h.Since
		}
	}
	return oldest
}

// StatusSentence says in words why the node is out, and first that it was drained for that; "in service" when it is not. now is for the words about how long.
func (n *Node) StatusSentence(now time.Time) string {
	var because []string
	if d := n.Drain(); d != nil && d.State == Drained {
		because = append(because, "drained "+Ago(now.Sub(*d.EndedAt)))
	}
	because = append(because, n.blocked(now)...)
	for _, r := range n.Reasons {
		if to, ok := strings.CutPrefix(r.Name, PrefixDedicated); ok {
			because = append(because, "only for "+to)
		} else {
			because = append(because, r.sentence())
		}
	}
	if len(because) == 0 {
		return "in service"
	}
	return strings.Join(because, "; ")
}

// Ago says a duration as people do.
func Ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}
