package liveness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
)

// ErrTakenOver says that another process runs under this gateway's id.
var ErrTakenOver = errors.New("another process runs under this gateway's id")

// atOnce is how many sessions one transaction ends.
const atOnce = 1000

// StartGateway enters a gateway's process and ends what its predecessor under the same id left open when it was killed: those nodes are DISCONNECTED
// until they are back. It gives how many there were. instance names the process.
func (s *Store) StartGateway(ctx context.Context, gatewayID, instance string) (int, error) {
	_, err := s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, `
			insert into gateways (id, instance, started_at, flushed_at) values ($1, $2, clock_timestamp(), clock_timestamp())
			on conflict (id) do update set instance = excluded.instance, started_at = excluded.started_at, flushed_at = excluded.flushed_at`,
			gatewayID, instance)
		if err != nil {
			return fmt.Errorf("enter the gateway: %w", err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	closed := 0
	for {
		left, err := s.openOf(ctx, gatewayID)
		if err != nil {
			return closed, err
		}
		if len(left) == 0 {
			return closed, nil
		}
		if err := s.End(ctx, left); err != nil {
			return closed, err
		}
		closed += len(left)
	}
}

func (s *Store) openOf(ctx context.Context, gatewayID string) ([]Ended, error) {
	rows, err := s.DB.Pool().Query(ctx, `
		select node_id, id, number, $2 from node_sessions where gateway_id = $1 and disconnected_at is null order by node_id limit $3`,
		gatewayID, EndedGatewayLost, atOnce)
	if err != nil {
		return nil, fmt.Errorf("find the sessions that were left open: %w", err)
	}
	left, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Ended])
	if err != nil {
		return nil, fmt.Errorf("find the sessions that were left open: %w", err)
	}
	return left, nil
}

// ForgetGateways removes the gateways that have not flushed for a week and hold no session; one that comes back enters itself anew. It gives how many
// there were.
func ForgetGateways(ctx context.Context, d *db.DB) (int64, error) {
	tag, err := d.Pool().Exec(ctx, `
		delete from gateways g where flushed_at < now() - interval '7 days'
		  and not exists (select from node_sessions s where s.gateway_id = g.id and s.disconnected_at is null)`)
	if err != nil {
		return 0, fmt.Errorf("forget gateways that are gone: %w", err)
	}
	return tag.RowsAffected(), nil
}

// Age is how long ago a session was heard of.
type Age struct {
	NodeID string
	Number int64
	Age    time.Duration
}

// Flush writes the ages of a gateway's sessions, all by one statement against the database's clock, together with the gateway's own row. An age of a
// session that is not its node's newest changes nothing, and none makes a node older than it was, unless that lies in the future: then the
// database's clock was set back, and the node would pass for heard of until it has caught up. A gateway whose id another process took over writes
// nothing: ErrTakenOver.
func (s *Store) Flush(ctx context.Context, gatewayID, instance string, ages []Age) error {
	ages = slices.Clone(ages)
	slices.SortFunc(ages, func(a, b Age) int { return strings.Compare(a.NodeID, b.NodeID) })
	ids, numbers, millis := make([]string, len(ages)), make([]int64, len(ages)), make([]int64, len(ages))
	for i, a := range ages {
		ids[i], numbers[i], millis[i] = a.NodeID, a.Number, max(a.Age.Milliseconds(), 0)
	}
	_, err := s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		tag, err := tx.Exec(ctx, `update gateways set flushed_at = clock_timestamp() where id = $1 and instance = $2`, gatewayID, instance)
		if err != nil {
			return fmt.Errorf("flush the ages: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return ErrTakenOver
		}
		if len(ids) == 0 {
			return nil
		}
		if err := tx.Locks(db.LockLiveness); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			update node_liveness l set last_seen = x.at, gateway_id = $1
			from (select node_id, number, statement_timestamp() - make_interval(secs => ms / 1000.0) as at
			      from unnest($2::text[], $3::bigint[], $4::bigint[]) as u(node_id, number, ms)) x
			where l.node_id = x.node_id and l.session_number = x.number
			  and (l.last_seen < x.at or l.last_seen > statement_timestamp() + interval '5 seconds')`, gatewayID, ids, numbers, millis)
		if err != nil {
			return fmt.Errorf("flush the ages: %w", err)
		}
		return nil
	})
	return err
}

// Held is a session that a gateway holds.
type Held struct {
	NodeID string
	Number int64
}

// Gone is a session that must end, and why: one of the Ended… words.
type Gone struct {
	NodeID string
	Number int64
	Reason string
}

// Check looks at sessions that are held, by one statement, and gives those that must end: the node is deleted, or a newer session took over
// elsewhere. Whether its certificate still counts is for pki's revocation feed to say.
func (s *Store) Check(ctx context.Context, held []Held) ([]Gone, error) {
	if len(held) == 0 {
		return nil, nil
	}
	ids, numbers := make([]string, len(held)), make([]int64, len(held))
	for i, h := range held {
		ids[i], numbers[i] = h.NodeID, h.Number
	}
	rows, err := s.DB.Pool().Query(ctx, `
		select node_id, number, reason from (
		  select x.node_id, x.number, case
		    when n.id is null or n.deleted_at is not null then 'DELETED'
		    when s.number is distinct from x.number then 'SUPERSEDED'
		  end as reason
		  from unnest($1::text[], $2::bigint[]) as x(node_id, number)
		  left join nodes n on n.id = x.node_id
		  left join node_sessions s on s.node_id = x.node_id) looked
		where reason is not null`, ids, numbers)
	if err != nil {
		return nil, fmt.Errorf("check the sessions: %w", err)
	}
	gone, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Gone])
	if err != nil {
		return nil, fmt.Errorf("check the sessions: %w", err)
	}
	return gone, nil
}
