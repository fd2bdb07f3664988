package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/id"
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

// Entry is an event to be written. Position, time and id come with the commit.
type Entry struct {
	Type      string
	TenantID  string
	NodeID    string
	Actor     string
	Reason    string
	RequestID string
	// Data is what encoding/json can write as an object; nil means no fields.
	Data     any
	Audience Audience
}

// security begins the types of events about trust. They are for those who see the whole, and for nobody else.
const security = "security."

// Append collects an event. It is written in the transaction's final batch, so that it commits with the state it tells of or not at all, and
// the clock row is held for that one round trip only. A security event has no reduced audience, whatever the entry says. In tests it refuses what the
// catalogue doesn't know.
func Append(tx *db.Tx, e Entry) error {
	if strings.HasPrefix(e.Type, security) {
		e.Audience.Reduced = nil
	}
	data := []byte("{}")
	if e.Data != nil {
		var err error
		if data, err = json.Marshal(e.Data); err != nil {
			return fmt.Errorf("event %s: %w", e.Type, err)
		}
	}
	if strict {
		if err := Check(e, data); err != nil {
			return err
		}
	}
	b := tx.Attached(batchKey{}, func() any {
		b := &batch{}
		tx.AtCommitFunc(db.RankLog, b.statement)
		return b
	}).(*batch)
	b.ids, b.entries, b.data = append(b.ids, id.New(id.Event)), append(b.entries, e), append(b.data, string(data))
	return nil
}

type batchKey struct{}

// batch is what one transaction will write.
type batch struct {
	ids     []string
	entries []Entry
	data    []string
}

// The statements move the clock and write the events in one. The update waits for the transaction that holds the clock, and a later statement
// of the batch reads the position from event_clock.
const (
	moveClock = `
with clock as (
  update event_clock set position = position + $1, at = greatest(clock_timestamp(), at + interval '1 microsecond')
  returning position, at, epoch
), written as (
  insert into events (position, at, id, type, tenant_id, node_id, actor, reason, request_id, data, full_for, reduced_for)
  select `

	insertMany = moveClock + `clock.position - $1 + e.place, clock.at, e.id, e.type, e.tenant_id, nullif(e.node_id, ''), e.actor, nullif(e.reason, ''),
         nullif(e.request_id, ''), e.data, string_to_array(e.full_for, ','), string_to_array(e.reduced_for, ',')
  from clock, unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::jsonb[], $10::text[], $11::text[])
    with ordinality as e (id, type, tenant_id, node_id, actor, reason, request_id, data, full_for, reduced_for, place)
)
select position, at, epoch from clock`
)

// insertFew are for the common cases, by the number of events: without arrays to take apart PostgreSQL plans each once, which is most of the cost.
var insertFew = [...]string{1: few(1), 2: few(2), 3: few(3), 4: few(4)}

// few makes the statement for n events. Its parameters are their number, and ten for each.
func few(n int) string {
	rows := make([]string, n)
	for i := range rows {
		var p [10]any
		for k := range p {
			p[k] = 2 + i*len(p) + k
		}
		rows[i] = fmt.Sprintf("(%d, ", i+1) + fmt.Sprintf("$%d::text, $%d::text, $%d::text, $%d::text, $%d::text, $%d::text, $%d::text, $%d::jsonb, $%d::text[], $%d::text[])", p[:]...)
	}
	return moveClock + `clock.position - $1 + e.place, clock.at, e.id, e.type, e.tenant_id, nullif(e.node_id, ''), e.actor, nullif(e.reason, ''),
         nullif(e.request_id, ''), e.data, e.full_for, e.reduced_for
  from clock, (values ` + strings.Join(rows, ", ") + `)
    as e (place, id, type, tenant_id, node_id, actor, reason, request_id, data, full_for, reduced_for)
)
select position, at, epoch from clock`
}

func (b *batch) statement() (sql string, args []any) {
	n := len(b.entries)
	if n < len(insertFew) {
		args = append(args, n)
		for i, e := range b.entries {
			args = append(args, b.ids[i], e.Type, e.TenantID, e.NodeID, e.Actor, e.Reason, e.RequestID, b.data[i],
				tenants(e.Audience.Full), tenants(e.Audience.Reduced))
		}
		return insertFew[n], args
	}
	column := func(of func(e *Entry) string) []string {
		c := make([]string, n)
		for i := range b.entries {
			c[i] = of(&b.entries[i])
		}
		return c
	}
	return insertMany, []any{
		n,
		b.ids,
		column(func(e *Entry) string { return e.Type }),
		column(func(e *Entry) string { return e.TenantID }),
		column(func(e *Entry) string { return e.NodeID }),
		column(func(e *Entry) string { return e.Actor }),
		column(func(e *Entry) string { return e.Reason }),
		column(func(e *Entry) string { return e.RequestID }),
		b.data,
		// Tenants are slugs, so a comma can join them; an array of arrays would have to be rectangular.
		column(func(e *Entry) string { return strings.Join(e.Audience.Full, ",") }),
		column(func(e *Entry) string { return strings.Join(e.Audience.Reduced, ",") }),
	}
}

// written gives what a transaction wrote, as the log holds it now.
func written(tx *db.Tx, c db.Committed) []*Event {
	b, ok := tx.Attached(batchKey{}, func() any { return nil }).(*batch)
	if !ok {
		return nil
	}
	n := int64(len(b.entries))
	out := make([]*Event, n)
	for i, e := range b.entries {
		out[i] = &Event{
			Position: c.Position - n + int64(i) + 1, Epoch: c.Epoch, ID: b.ids[i], Type: e.Type, At: c.At, TenantID: e.TenantID, NodeID: e.NodeID,
			Actor: e.Actor, Reason: e.Reason, RequestID: e.RequestID, Data: json.RawMessage(b.data[i]), Audience: e.Audience,
		}
	}
	return out
}

// tenants is never null.
func tenants(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}
