package events

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A page is what one statement read: some events, and the clock row in the same snapshot. So an event that is missing from the page is known
// to be missing from the log up to the head, and a page that retention has cut into shows it by an oldest position beyond its start.
type page struct {
	Span
	at     time.Time
	events []*Event
}

// querier is as much of a pool or a connection as reading takes.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

const (
	pageClock = `
select true, c.position, c.at, c.epoch, c.oldest, '', '', '', '', '', '', '', '{}'::jsonb, '{}'::text[], '{}'::text[] from event_clock c
union all
`
	pageEvents = `(
  select false, e.position, e.at, 0::bigint, 0::bigint, e.id, e.type, e.tenant_id, coalesce(e.node_id, ''), e.actor, coalesce(e.reason, ''),
         coalesce(e.request_id, ''), e.data, e.full_for, e.reduced_for
  from events e
  where `
)

// tailPage reads what comes after a position, for every reader at once. The time keeps older partitions out of it.
const tailPage = pageClock + pageEvents + `e.position > @after and e.at >= @at order by e.position limit @limit)`

// clockPage reads no event.
const clockPage = pageClock + pageEvents + `false)`

// followPage reads one reader's events. Without a node there is no index that leads to them, so the statement looks at a bounded stretch.
func followPage(s *selection, after, limit, stretch int64) (sql string, args pgx.NamedArgs) {
	where, args := s.where()
	args["after"], args["limit"] = after, limit
	where = append(where, "e.position > @after")
	if s.NodeID == "" {
		args["until"] = after + stretch
		where = append(where, "e.position <= @until")
	}
	return pageClock + pageEvents + strings.Join(where, " and ") + " order by e.position limit @limit)", args
}

func readPage(ctx context.Context, q querier, sql string, args pgx.NamedArgs) (page, error) {
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return page{}, err
	}
	defer rows.Close()
	var p page
	for rows.Next() {
		var clock bool
		var epoch, oldest int64
		e := &Event{}
		if err := rows.Scan(&clock, &e.Position, &e.At, &epoch, &oldest, &e.ID, &e.Type, &e.TenantID, &e.NodeID, &e.Actor, &e.Reason,
			&e.RequestID, (*[]byte)(&e.Data), &e.Audience.Full, &e.Audience.Reduced); err != nil {
			return page{}, err
		}
		e.At = e.At.UTC()
		if clock {
			p.Span, p.at = span(epoch, oldest, e.Position), e.At
			continue
		}
		p.events = append(p.events, e)
	}
	if err := rows.Err(); err != nil {
		return page{}, err
	}
	for _, e := range p.events {
		e.Epoch = p.Head.Epoch
	}
	return p, nil
}

// passing says whether an error of the database may be gone at the next try: it restarts, is overloaded, or the connection broke.
func passing(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true
	}
	switch pg.Code[:2] {
	case "08", "40", "53", "55", "57", "58":
		return true
	}
	return false
}
