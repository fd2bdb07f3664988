// Package node is the kernel: the compute node with its independent axes, the reasons that keep it out, its drains, the gate that every placement
// asks, and the one write path through which every change of a node goes.
package node

import (
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/better-compute/better-compute/fault"
)

// ProvisionState is how far a machine has come in becoming usable.
type ProvisionState string

// The provision states.
const (
	Enrolling    ProvisionState = "ENROLLING"
	Adopting     ProvisionState = "ADOPTING"
	Adopted      ProvisionState = "ADOPTED"
	Provisioning ProvisionState = "PROVISIONING"
	Failed       ProvisionState = "FAILED"
	Retiring     ProvisionState = "RETIRING"
	Retired      ProvisionState = "RETIRED"
)

// Connectivity is whether the node's daemon holds a session; nothing about health or workloads.
type Connectivity string

// The connectivities.
const (
	Pending      Connectivity = "PENDING"
	Connected    Connectivity = "CONNECTED"
	Disconnected Connectivity = "DISCONNECTED"
	Unreachable  Connectivity = "UNREACHABLE"
	Lost         Connectivity = "LOST"
)

// Credential is whether the node holds one trusted active credential: a fact of its own, kept by the pki room.
type Credential string

// The states of the credential.
const (
	NoCredential Credential = "NONE"
	Trusted      Credential = "TRUSTED"
	Revoked      Credential = "REVOKED"
	Quarantined  Credential = "QUARANTINED"
)

// LabelSource is who a label belongs to.
type LabelSource string

// The sources of labels.
const (
	FromOperator  LabelSource = "OPERATOR"
	FromInventory LabelSource = "INVENTORY"
	FromSystem    LabelSource = "SYSTEM"
)

// DrainState is where a drain stands.
type DrainState string

// The states of a drain.
const (
	Draining  DrainState = "DRAINING"
	Drained   DrainState = "DRAINED"
	Cancelled DrainState = "CANCELLED"
)

// The reasons that controllers write, and the prefix of those that operators own.
const (
	ReasonDraining    = "draining"
	ReasonUnreachable = "unreachable"
	PrefixTaint       = "taint:"
	PrefixCondition   = "condition:"
	PrefixDedicated   = "taint:dedicated="
)

// The phases in which a node can fail.
const (
	PhaseEnrollment   = "ENROLLMENT"
	PhaseAcceptance   = "ACCEPTANCE"
	PhaseProvisioning = "PROVISIONING"
	PhaseRetire       = "RETIRE"
)

// HostnameRule is what a machine may call itself.
var HostnameRule = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?$`)

// Node is a machine that tenants book. Each control moves exactly one of its axes.
type Node struct {
	ID                 string
	Key                string
	TenantID           string
	PoolID             string
	Hostname           string
	Version            int
	ProvisionState     ProvisionState
	Failure            *Failure
	AcceptanceRun      string     // the run of acceptance that it is in, or was in last; empty before the first
	AdoptedAt          *time.Time // when it was adopted first
	Cordon             *Cordon
	Reasons            []Reason // sorted by Name
	Maintenance        bool
	Connectivity       Connectivity
	ConnectivitySince  *time.Time
	IdentityGeneration int
	Credential         Credential
	CredentialSince    time.Time
	Labels             []Label // sorted by Key
	LastDrain          *Drain
	ChangedBy          string
	ChangedAt          time.Time
	CreatedAt          time.Time
	DeletedAt          *time.Time
}

// Failure says what failed while the provision state is FAILED.
type Failure struct {
	Phase   string
	Message string
	At      time.Time
}

// Cordon is an operator's hold: nothing new lands, nothing else changes.
type Cordon struct {
	Reason Text
	By     string
	At     time.Time
	// Until is when its author means it to end; nil: not said. Nothing is lifted by itself.
	Until *time.Time
	// Overdue says that Until had passed by the database's clock when the node was read.
	Overdue bool
}

// Reason is one entry of noScheduleReasons. It belongs to its owner, who alone takes it away.
type Reason struct {
	Name    string
	Owner   string
	By      Text
	Message Text
	Since   time.Time
}

// Operator owns the reasons that operators set, and stands for whoever acts on a node before tenants that do not own it.
const Operator = "operator"

// Label describes a node for placement.
type Label struct {
	Key    string
	Value  string
	Source LabelSource
}

// Drain is one run of taking a node out and waiting until it is empty.
type Drain struct {
	ID              string
	NodeID          string
	State           DrainState
	Reason          Text
	By              string
	StartedAt       time.Time
	EndedAt         *time.Time
	EndedBy         Text
	Cause           Text
	ConfirmedByNode *bool
	// Deadline is by when its author wants it to be over; nil: not said. Nothing is ended by itself.
	Deadline *time.Time
	// Overdue says that it ran past its deadline by the database's clock when it was read.
	Overdue bool
}

// Cordoned says that an operator keeps new work off the node.
func (n *Node) Cordoned() bool { return n.Cordon != nil }

// Running gives the drain that runs, or nil.
func (n *Node) Running() *Drain {
	if n.LastDrain != nil && n.LastDrain.State == Draining {
		return n.LastDrain
	}
	return nil
}

// Drain gives the drain that runs, or the one that ended while its cordon still holds, or nil.
func (n *Node) Drain() *Drain {
	d := n.LastDrain
	switch {
	case d == nil:
		return nil
	case d.State == Draining:
		return d
	case d.State == Drained && n.Cordon != nil && d.EndedAt != nil && !n.Cordon.At.After(*d.EndedAt):
		return d
	}
	return nil
}

// NoScheduleReasons gives the names of the reasons, sorted.
func (n *Node) NoScheduleReasons() []string {
	names := make([]string, len(n.Reasons))
	for i, r := range n.Reasons {
		names[i] = r.Name
	}
	return names
}

// AddReason puts a reason into its place; one of that name is replaced.
func (n *Node) AddReason(r Reason) {
	n.RemoveReason(r.Name)
	i, _ := slices.BinarySearchFunc(n.Reasons, r.Name, func(r Reason, name string) int { return strings.Compare(r.Name, name) })
	n.Reasons = slices.Insert(n.Reasons, i, r)
}

// RemoveReason takes a reason away; one that is not there is no fault.
func (n *Node) RemoveReason(name string) {
	n.Reasons = slices.DeleteFunc(n.Reasons, func(r Reason) bool { return r.Name == name })
}

// SetLabel puts a label into its place; one of that key is replaced.
func (n *Node) SetLabel(l Label) {
	i, there := slices.BinarySearchFunc(n.Labels, l.Key, func(l Label, key string) int { return strings.Compare(l.Key, key) })
	if there {
		n.Labels[i] = l
		return
	}
	n.Labels = slices.Insert(n.Labels, i, l)
}

// Label gives the label of that key, if there is one.
func (n *Node) Label(key string) (Label, bool) {
	i, there := slices.BinarySearchFunc(n.Labels, key, func(l Label, key string) int { return strings.Compare(l.Key, key) })
	if !there {
		return Label{}, false
	}
	return n.Labels[i], true
}

// RemoveLabel takes a label away; one that is not there is no fault.
func (n *Node) RemoveLabel(key string) {
	n.Labels = slices.DeleteFunc(n.Labels, func(l Label) bool { return l.Key == key })
}

// Clone gives a copy that shares nothing with n.
func (n *Node) Clone() *Node {
	c := *n
	c.Failure = clone(n.Failure)
	c.Cordon = clone(n.Cordon)
	if c.Cordon != nil {
		c.Cordon.Until = clone(n.Cordon.Until)
	}
	c.Reasons = slices.Clone(n.Reasons)
	c.ConnectivitySince = clone(n.ConnectivitySince)
	c.Labels = slices.Clone(n.Labels)
	c.LastDrain = clone(n.LastDrain)
	if c.LastDrain != nil {
		c.LastDrain.EndedAt = clone(n.LastDrain.EndedAt)
		c.LastDrain.Deadline = clone(n.LastDrain.Deadline)
		c.LastDrain.ConfirmedByNode = clone(n.LastDrain.ConfirmedByNode)
	}
	c.DeletedAt, c.AdoptedAt = clone(n.DeletedAt), clone(n.AdoptedAt)
	return &c
}

// clean says that s is text that can be stored and shown: valid UTF-8 without control characters.
func clean(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }

// Text is free text that may be absent: the API writes the empty text as null.
type Text string

// MarshalGQL writes the text, or null.
func (t Text) MarshalGQL(w io.Writer) {
	if t == "" {
		_, _ = io.WriteString(w, "null")
		return
	}
	b, err := json.Marshal(string(t))
	if err != nil {
		b = []byte("null")
	}
	_, _ = w.Write(b)
}

// UnmarshalGQL reads the text; null is the empty one.
func (t *Text) UnmarshalGQL(v any) error {
	switch v := v.(type) {
	case nil:
		*t = ""
	case string:
		*t = Text(v)
	default:
		return fault.Invalid("text", "must be a string", 0)
	}
	return nil
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// maxReason is how many characters a free-text reason may have.
const maxReason = 256

// CheckReason says whether a free-text reason fits: up to 256 characters, none of them a control character.
func CheckReason(s string) error {
	if n := utf8.RuneCountInString(s); n > maxReason {
		return fault.Invalid("reason", "must be at most 256 characters", n)
	}
	if !clean(s) {
		return fault.Invalid("reason", "must be text without control characters", utf8.RuneCountInString(s))
	}
	return nil
}
