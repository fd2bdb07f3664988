package events

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
)

// Order is how a list is sorted.
type Order string

// The orders, with the words of the API's contract.
const (
	NewestFirst Order = "NEWEST_FIRST"
	OldestFirst Order = "OLDEST_FIRST"
)

// ListFilter says which part of the history is wanted.
type ListFilter struct {
	Filter
	// Actor picks the events of one actor; empty means of all.
	Actor string
	// Since and Until bound the time: at or after Since, before Until.
	Since, Until *time.Time
	// Order is NewestFirst when it is empty.
	Order Order
	// First is how many events a page has, 1 to 500.
	First int
	// After is the place of the last event of the page before; nil means the first page.
	After *Cursor
}

const (
	// maxList is the biggest page of a list.
	maxList = 500
	// maxActor is how long the name of an actor to look for may be.
	maxActor = 256
)

// List reads a page of the history, and whether there is more after it. It looks only at events whose audience the tenant is in; what the reader
// may see of each is for the caller's [Visibility].
//
// It answers INVALID_INPUT for a filter that can't be read, and CURSOR_EXPIRED for a place that this log doesn't have, or, where the older events
// come first, whose followers retention has removed; where the newest come first the list just ends there.
func List(ctx context.Context, q db.Querier, f ListFilter) (list []Event, more bool, err error) {
	where, args, sorted, err := f.query()
	if err != nil {
		return nil, false, err
	}
	if f.After != nil {
		if err := admitsList(ctx, q, *f.After, sorted == "desc"); err != nil {
			return nil, false, err
		}
	}
	list, err = collect(ctx, q, "select "+eventColumns+" from events e cross join event_clock c where "+strings.Join(where, " and ")+
		" order by e.position "+sorted+" limit @limit", args)
	if err != nil {
		return nil, false, err
	}
	if len(list) > f.First {
		return list[:f.First], true, nil
	}
	return list, false, nil
}

// OfNodes reads the first page of the history of each of the nodes, by node id and in one statement. Where a node has more than the page, there is
// one more event than asked for. The filter names neither a node nor a place.
func OfNodes(ctx context.Context, q db.Querier, nodeIDs []string, f ListFilter) (map[string][]Event, error) {
	where, args, sorted, err := f.query()
	if err != nil {
		return nil, err
	}
	args["nodes"] = nodeIDs
	list, err := collect(ctx, q, "select each.* from unnest(@nodes::text[]) as n (id) cross join lateral (select "+eventColumns+
		" from events e cross join event_clock c where e.node_id = n.id and "+strings.Join(where, " and ")+
		" order by e.position "+sorted+" limit @limit) as each", args)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]Event, len(nodeIDs))
	for _, e := range list {
		out[e.NodeID] = append(out[e.NodeID], e)
	}
	return out, nil
}

// eventColumns are those of an event e and the clock c, in the order in which collect reads them.
const eventColumns = `e.position, e.at, c.epoch, e.id, e.type, e.tenant_id, coalesce(e.node_id, '') as node_id, e.actor, coalesce(e.reason, '') as reason,
	coalesce(e.request_id, '') as request_id, e.data, e.full_for, e.reduced_for`

func collect(ctx context.Context, q db.Querier, sql string, args pgx.NamedArgs) ([]Event, error) {
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Event, error) {
		var e Event
		err := row.Scan(&e.Position, &e.At, &e.Epoch, &e.ID, &e.Type, &e.TenantID, &e.NodeID, &e.Actor, &e.Reason,
			&e.RequestID, (*[]byte)(&e.Data), &e.Audience.Full, &e.Audience.Reduced)
		e.At = e.At.UTC()
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return list, nil
}

// query gives the filter as conditions on a row e of events, with their arguments, and the direction of the list.
func (f ListFilter) query() (where []string, args pgx.NamedArgs, sorted string, err error) {
	s, err := choose(f.Filter)
	if err != nil {
		return nil, nil, "", err
	}
	if f.First < 1 || f.First > maxList {
		return nil, nil, "", fault.Invalid("first", "must be 1 to 500", 0)
	}
	compare, sorted := "<", "desc"
	switch f.Order {
	case NewestFirst, "":
	case OldestFirst:
		compare, sorted = ">", "asc"
	default:
		return nil, nil, "", fault.Invalid("order", "must be NEWEST_FIRST or OLDEST_FIRST", 0)
	}
	if n := utf8.RuneCountInString(f.Actor); n > maxActor || !utf8.ValidString(f.Actor) || strings.ContainsFunc(f.Actor, unicode.IsControl) {
		return nil, nil, "", fault.Invalid("actor", "must be at most 256 characters, none of them a control character", n)
	}
	where, args = s.where()
	args["limit"] = f.First + 1
	if f.Actor != "" {
		// A reduced event shows nobody's name, so none can be asked for either.
		args["actor"] = f.Actor
		where = append(where, "e.actor = @actor and @tenant = any(e.full_for)")
	}
	if f.Since != nil {
		args["since"] = *f.Since
		where = append(where, "e.at >= @since")
	}
	if f.Until != nil {
		args["until"] = *f.Until
		where = append(where, "e.at < @until")
	}
	if f.After != nil {
		args["after"] = f.After.Position
		where = append(where, "e.position "+compare+" @after")
	}
	return where, args, sorted, nil
}

// admitsList says whether a list can go on after the cursor, down the log or up.
func admitsList(ctx context.Context, q db.Querier, after Cursor, down bool) error {
	extent, err := Extent(ctx, q)
	if err != nil {
		return err
	}
	if down {
		after.Position = max(after.Position, extent.Oldest.Position)
	}
	return extent.admits(after)
}
