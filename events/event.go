package events

import (
	"encoding/json"
	"slices"
	"time"
)

// Event is one entry of the log.
type Event struct {
	// Position is its place in the log: gapless, in commit order.
	Position int64
	// Epoch names the log that the position is of.
	Epoch int64
	// ID is an evt_ id that never changes; consumers drop what they have seen by it.
	ID string
	// Type is the dotted name, like node.cordoned.
	Type string
	// At is the log's own monotone time, in microseconds.
	At time.Time
	// TenantID is the owner of what the event is about.
	TenantID string
	// NodeID is the node that the event is about; empty for events of the control plane itself.
	NodeID string
	// Actor is who did it.
	Actor string
	// Reason is the free text that the actor gave; empty when there was none.
	Reason string
	// RequestID is the request id that the actor sent; empty when there was none.
	RequestID string
	// Data holds the fields of the event's type, as JSON.
	Data json.RawMessage
	// Audience says who may read it, as it was when it was written.
	Audience Audience
}

// Audience names the tenants that see an event: as a whole, or reduced to what a tenant may know of a machine that it does not own.
type Audience struct {
	Full    []string
	Reduced []string
}

// Sees says whether the tenant is in the audience, and whether it sees the whole.
func (a Audience) Sees(tenant string) (full, some bool) {
	if slices.Contains(a.Full, tenant) {
		return true, true
	}
	return false, slices.Contains(a.Reduced, tenant)
}

// With gives the audience with these tenants too: those that are not in it see the reduced form.
func (a Audience) With(guests []string) Audience {
	for _, t := range guests {
		if _, some := a.Sees(t); !some {
			a.Reduced = append(slices.Clone(a.Reduced), t)
		}
	}
	return a
}
