package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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

// Append collects an event. It is written in the transaction's final batch, so that it commits with the state it tells of or not at all, and
// the clock row is held for that one round trip only.
func Append(tx *db.Tx, e Entry) error {
	data := []byte("{}")
	if e.Data != nil {
		var err error
		if data, err = json.Marshal(e.Data); err != nil {
			return fmt.Errorf("event %s: %w", e.Type, err)
		}
	}
	t := tx.Attached(tailKey{}, func() any {
		t := &tail{}
		tx.AtCommit(db.RankLog, insertEvents, db.Late(func() any { return t.named() }))
		return t
	}).(*tail)
	t.add(e, data)
	return nil
}

type tailKey struct{}

// tail is what one transaction will write, by column.
type tail struct {
	ids, types, tenants, nodes, actors, reasons, requests, data, full, reduced []string
}

func (t *tail) add(e Entry, data []byte) {
	t.ids = append(t.ids, id.New(id.Event))
	t.types = append(t.types, e.Type)
	t.tenants = append(t.tenants, e.TenantID)
	t.nodes = append(t.nodes, e.NodeID)
	t.actors = append(t.actors, e.Actor)
	t.reasons = append(t.reasons, e.Reason)
	t.requests = append(t.requests, e.RequestID)
	t.data = append(t.data, string(data))
	// Tenants are slugs, so a comma can join them; an array of arrays would have to be rectangular.
	t.full = append(t.full, strings.Join(e.Audience.Full, ","))
	t.reduced = append(t.reduced, strings.Join(e.Audience.Reduced, ","))
}

func (t *tail) named() pgx.NamedArgs {
	return pgx.NamedArgs{
		"ids": t.ids, "types": t.types, "tenants": t.tenants, "nodes": t.nodes, "actors": t.actors, "reasons": t.reasons,
		"requests": t.requests, "data": t.data, "full": t.full, "reduced": t.reduced, "n": len(t.ids),
	}
}

// insertEvents moves the clock and writes the events in one statement. The update waits for the transaction that holds the clock, and a later
// statement of the batch reads the position from event_clock.
const insertEvents = `
with clock as (
  update event_clock set position = position + @n, at = greatest(clock_timestamp(), at + interval '1 microsecond')
  returning position, at, epoch
), written as (
  insert into events (position, at, id, type, tenant_id, node_id, actor, reason, request_id, data, full_for, reduced_for)
  select clock.position - @n + e.place, clock.at, e.id, e.type, e.tenant_id, nullif(e.node_id, ''), e.actor, nullif(e.reason, ''),
         nullif(e.request_id, ''), e.data, string_to_array(e.full_for, ','), string_to_array(e.reduced_for, ',')
  from clock, unnest(@ids::text[], @types::text[], @tenants::text[], @nodes::text[], @actors::text[], @reasons::text[], @requests::text[],
    @data::jsonb[], @full::text[], @reduced::text[])
    with ordinality as e (id, type, tenant_id, node_id, actor, reason, request_id, data, full_for, reduced_for, place)
)
select position, at, epoch from clock`
