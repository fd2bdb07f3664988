package placement

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

// intervalBatch is how many allocations one pass of the timer writes at most.
const intervalBatch = 500

// Turned is what one pass of the interval timer wrote.
type Turned struct {
	Started int
	Ended   int
	// Woken are the nodes whose drains may be over now.
	Woken []string
	// More says that the pass was full: there may be more to do at once.
	More bool
}

// TurnIntervals writes the beginnings and ends of intervals that have come by the database's clock, and wakes the drains that waited for them. It is
// idempotent, and several processes may run it: nodes are locked in order, and what another wrote first is no longer due.
func (b *Bookings) TurnIntervals(ctx context.Context) (Turned, error) {
	due, err := b.due(ctx)
	if err != nil || len(due) == 0 {
		return Turned{}, err
	}
	ids, reservationIDs, nodeIDs := keys(due)

	var out Turned
	_, err = b.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		out = Turned{More: len(due) == intervalBatch}
		if err := lockReservations(ctx, tx, reservationIDs); err != nil {
			return err
		}
		nodes, err := node.LockTx(ctx, tx, nodeIDs...)
		if err != nil {
			return err
		}
		if err := tx.Locks(db.LockNodePart); err != nil {
			return err
		}
		started, err := turn(ctx, tx, `
			update allocations a set started_at = clock_timestamp()
			where a.id = any($1) and a.started_at is null and a.starts_at <= clock_timestamp() and `+liveCondition+` returning `+allocationColumns, ids)
		if err != nil {
			return err
		}
		ended, err := turn(ctx, tx, `
			update allocations a set ended_at = clock_timestamp()
			where a.id = any($1) and a.ends_at <= clock_timestamp() and `+liveCondition+` returning `+allocationColumns, ids)
		if err != nil {
			return err
		}
		out.Started, out.Ended = len(started), len(ended)
		if err := tell(tx, "allocation.started", started, nodes); err != nil {
			return err
		}
		if err := tell(tx, "allocation.ended", ended, nodes); err != nil {
			return err
		}
		if err := endReservations(ctx, tx, ended); err != nil {
			return err
		}
		over := map[string]node.Locked{}
		for _, a := range ended {
			sql, args := withdrawal(a.TenantID, a.NodeID)
			tx.Send(sql, args...)
			if n, ok := nodes[a.NodeID]; ok {
				over[a.NodeID] = n
			}
		}
		out.Woken, err = b.wakeTx(tx, over)
		return err
	})
	if err != nil {
		return Turned{}, err
	}
	return out, nil
}

// keys gives the ids of allocations, and of their reservations and nodes without repeats.
func keys(due []Allocation) (ids, reservations, nodes []string) {
	for _, a := range due {
		ids, reservations, nodes = append(ids, a.ID), append(reservations, a.ReservationID), append(nodes, a.NodeID)
	}
	slices.Sort(reservations)
	slices.Sort(nodes)
	return ids, slices.Compact(reservations), slices.Compact(nodes)
}

// lockReservations takes the locks that a release takes, in the same order.
func lockReservations(ctx context.Context, tx *db.Tx, ids []string) error {
	if err := tx.Locks(db.LockReservation); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `select from reservations where id = any($1) order by id for no key update`, ids); err != nil {
		return fmt.Errorf("lock the reservations: %w", err)
	}
	return nil
}

// due finds what has come, without a lock: the transaction looks again.
func (b *Bookings) due(ctx context.Context) ([]Allocation, error) {
	rows, err := b.DB.Pool().Query(ctx, `
		(select `+allocationColumns+` from allocations a where a.ends_at <= now() and `+liveCondition+` order by a.ends_at limit $1)
		union all
		(select `+allocationColumns+` from allocations a where a.starts_at <= now() and a.started_at is null and `+liveCondition+`
		 order by a.starts_at limit $1)
		limit $1`, intervalBatch)
	if err != nil {
		return nil, fmt.Errorf("find intervals that are due: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Allocation])
}

func turn(ctx context.Context, tx *db.Tx, sql string, ids []string) ([]Allocation, error) {
	rows, err := tx.Query(ctx, sql, ids)
	if err != nil {
		return nil, fmt.Errorf("write the intervals: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Allocation])
}

// tell appends an event for each allocation. An allocation on a deleted node has no node here; its tenant is told all the same.
func tell(tx *db.Tx, eventType string, allocations []Allocation, nodes map[string]node.Locked) error {
	for _, a := range allocations {
		owner := a.TenantID
		if n, ok := nodes[a.NodeID]; ok {
			owner = n.TenantID
		}
		err := events.Append(tx, events.Entry{
			Type: eventType, TenantID: a.TenantID, NodeID: a.NodeID, Actor: iam.System("interval-timer").Name,
			Data:     map[string]any{"allocationId": a.ID, "reservationId": a.ReservationID},
			Audience: audience(a.TenantID, owner),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// endReservations ends those that hold nothing live any more.
func endReservations(ctx context.Context, tx *db.Tx, ended []Allocation) error {
	if len(ended) == 0 {
		return nil
	}
	ids := make([]string, len(ended))
	for i, a := range ended {
		ids[i] = a.ReservationID
	}
	_, err := tx.Exec(ctx, `
		update reservations r set ended_at = clock_timestamp()
		where r.id = any($1) and r.released_at is null and r.ended_at is null
		  and not exists (select from allocations a where a.reservation_id = r.id and `+liveCondition+`)`, ids)
	if err != nil {
		return fmt.Errorf("end the reservations: %w", err)
	}
	return nil
}
