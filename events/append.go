package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/id"
)

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

	// insertAlike is for events most of whose columns are the same in all of them, or in each of a few kinds, as when one act moves many nodes: what an
	// event shares with its kind is given once, and found by the kind's number.
	insertAlike = moveClock + `clock.position - $1 + e.place, clock.at, e.id, ($6::text[])[e.kind], ($7::text[])[e.kind], nullif(e.node_id, ''), ($8::text[])[e.kind],
         nullif(($9::text[])[e.kind], ''), nullif(($10::text[])[e.kind], ''), coalesce(e.data, ($11::jsonb[])[e.kind]),
         string_to_array(($12::text[])[e.kind], ','), string_to_array(($13::text[])[e.kind], ',')
  from clock, unnest($2::text[], $3::text[], $4::int[], $5::jsonb[]) with ordinality as e (id, node_id, kind, data, place)
)
select position, at, epoch from clock`

	insertMany = moveClock + `clock.position - $1 + e.place, clock.at, e.id, e.type, e.tenant_id, nullif(e.node_id, ''), e.actor, nullif(e.reason, ''),
         nullif(e.request_id, ''), e.data, string_to_array(e.full_for, ','), string_to_array(e.reduced_for, ',')
  from clock, unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::jsonb[], $10::text[], $11::text[])
    with ordinality as e (id, node_id, type, tenant_id, actor, reason, request_id, data, full_for, reduced_for, place)
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
	nodes := make([]string, n)
	for i := range b.entries {
		nodes[i] = b.entries[i].NodeID
	}
	if kinds, of, ok := b.kinds(); ok {
		return insertAlike, append([]any{n, b.ids, nodes, of, b.ownData(kinds, of)}, columns(b.entries, b.data, kinds)...)
	}
	c := columns(b.entries, b.data, nil)
	return insertMany, append([]any{n, b.ids, nodes}, c...)
}

// maxKinds bounds the kinds of [insertAlike], since PostgreSQL finds each by counting from the first.
const maxKinds = 8

// kinds sorts the events into kinds of which one differs from another in no more than its node and its data: for each kind, its first event, and for each
// event the number of its kind, from 1. It says whether they are few.
func (b *batch) kinds() (firsts []int, of []int32, few bool) {
	of = make([]int32, len(b.entries))
	for i := range b.entries {
		at := slices.IndexFunc(firsts, func(first int) bool { return alike(&b.entries[first], &b.entries[i]) })
		if at < 0 {
			if at = len(firsts); at == maxKinds {
				return nil, nil, false
			}
			firsts = append(firsts, i)
		}
		of[i] = int32(at + 1)
	}
	return firsts, of, true
}

func alike(a, b *Entry) bool {
	return a.Type == b.Type && a.TenantID == b.TenantID && a.Actor == b.Actor && a.Reason == b.Reason && a.RequestID == b.RequestID &&
		slices.Equal(a.Audience.Full, b.Audience.Full) && slices.Equal(a.Audience.Reduced, b.Audience.Reduced)
}

// ownData gives the data of each event, or nil when each has what its kind's first has.
func (b *batch) ownData(firsts []int, of []int32) []string {
	for i, data := range b.data {
		if data != b.data[firsts[of[i]-1]] {
			return b.data
		}
	}
	return nil
}

// columns are those of some of the entries, by their places, or of all: what an event has besides its id and its node.
func columns(entries []Entry, data []string, places []int) []any {
	n := len(places)
	if places == nil {
		n = len(entries)
	}
	column := func(of func(i int, e *Entry) string) []string {
		c := make([]string, n)
		for k := range c {
			i := k
			if places != nil {
				i = places[k]
			}
			c[k] = of(i, &entries[i])
		}
		return c
	}
	return []any{
		column(func(_ int, e *Entry) string { return e.Type }),
		column(func(_ int, e *Entry) string { return e.TenantID }),
		column(func(_ int, e *Entry) string { return e.Actor }),
		column(func(_ int, e *Entry) string { return e.Reason }),
		column(func(_ int, e *Entry) string { return e.RequestID }),
		column(func(i int, _ *Entry) string { return data[i] }),
		// Tenants are slugs, so a comma can join them; an array of arrays would have to be rectangular.
		column(func(_ int, e *Entry) string { return strings.Join(e.Audience.Full, ",") }),
		column(func(_ int, e *Entry) string { return strings.Join(e.Audience.Reduced, ",") }),
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
