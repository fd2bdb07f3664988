package controls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/node"
)

// Overseer is the actor that tells of cordons and drains that are past the end that their authors gave.
const Overseer = "overseer"

// maxAhead is how far ahead an end can lie.
const maxAhead = 10 * 365 * 24 * time.Hour

// checkEnd says whether a moment can be the end of what begins now; nil is none. Like every comparison of times it is by the database's clock.
func checkEnd(argument string, end *time.Time, now time.Time) error {
	switch {
	case end == nil:
		return nil
	case !end.After(now):
		return fault.Invalid(argument, "must lie ahead, and the control plane's clock shows "+now.UTC().Format(time.RFC3339), 0)
	case end.Sub(now) > maxAhead:
		return fault.Invalid(argument, "must lie within ten years", 0)
	}
	return nil
}

// micros gives a moment as the database keeps it.
func micros(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	t := at.UTC().Truncate(time.Microsecond)
	return &t
}

// CordonOverdue are the fields of node.cordon-overdue.
type CordonOverdue struct {
	Until time.Time `json:"until"`
}

// DrainOverdue are the fields of node.drain-overdue.
type DrainOverdue struct {
	DrainID  string    `json:"drainId"`
	Deadline time.Time `json:"deadline"`
}

// overdueBatch is how many one pass tells of at most.
const overdueBatch = 500

// cordonIsOverdue goes by the statement's time, which an index can be searched for; clock_timestamp() is another one for each row.
const cordonIsOverdue = `n.cordon_until <= statement_timestamp() and n.deleted_at is null and not exists (
	select from node_cordon_told t where t.node_id = n.id and t.cordon_at = n.cordon_at and t.until = n.cordon_until
	  and t.told_at > statement_timestamp() - interval '24 hours')`

// TellOverdue publishes node.cordon-overdue for each cordon that is past its end, once a day, and node.drain-overdue for each drain that runs past its
// deadline, once. Nothing is lifted or ended by it. It is idempotent, and several processes may run it.
func (c *Controls) TellOverdue(ctx context.Context) error {
	return errors.Join(
		c.tellOverdue(ctx, `select n.id from nodes n where `+cordonIsOverdue+` order by n.id limit $1`, tellCordons),
		c.tellOverdue(ctx, `select node_id from node_drains where state = 'DRAINING' and deadline <= statement_timestamp() and overdue_at is null
			order by node_id limit $1`, tellDrains))
}

// tellOverdue finds nodes without a lock, locks them, and has what is still so told.
func (c *Controls) tellOverdue(ctx context.Context, find string, tell func(context.Context, *db.Tx, map[string]node.Locked, []string) error) error {
	rows, err := c.Nodes.DB.Pool().Query(ctx, find, overdueBatch)
	if err != nil {
		return fmt.Errorf("find what is overdue: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(ids) == 0 {
		return err
	}
	_, err = c.Nodes.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		nodes, err := node.LockTx(ctx, tx, ids...)
		if err != nil {
			return err
		}
		if err := tx.Locks(db.LockNodePart); err != nil {
			return err
		}
		return tell(ctx, tx, nodes, ids)
	})
	return err
}

func tellCordons(ctx context.Context, tx *db.Tx, nodes map[string]node.Locked, ids []string) error {
	rows, err := tx.Query(ctx, `
		insert into node_cordon_told (node_id, cordon_at, until, told_at)
		select n.id, n.cordon_at, n.cordon_until, clock_timestamp() from nodes n where n.id = any($1) and `+cordonIsOverdue+` order by n.id
		on conflict (node_id) do update set cordon_at = excluded.cordon_at, until = excluded.until, told_at = excluded.told_at
		returning node_id, until`, ids)
	if err != nil {
		return fmt.Errorf("tell of cordons: %w", err)
	}
	var nodeID string
	var until time.Time
	_, err = pgx.ForEachRow(rows, []any{&nodeID, &until}, func() error {
		n, ok := nodes[nodeID]
		if !ok || n.Cordon == nil {
			return nil
		}
		return overdue(tx, n, "node.cordon-overdue", n.Cordon.Reason, CordonOverdue{Until: until.UTC()})
	})
	return err
}

func tellDrains(ctx context.Context, tx *db.Tx, nodes map[string]node.Locked, ids []string) error {
	rows, err := tx.Query(ctx, `
		update node_drains set overdue_at = clock_timestamp()
		where node_id = any($1) and state = 'DRAINING' and deadline <= clock_timestamp() and overdue_at is null
		returning id, node_id, deadline`, ids)
	if err != nil {
		return fmt.Errorf("tell of drains: %w", err)
	}
	var drainID, nodeID string
	var deadline time.Time
	_, err = pgx.ForEachRow(rows, []any{&drainID, &nodeID, &deadline}, func() error {
		n, ok := nodes[nodeID]
		if !ok || n.LastDrain == nil {
			return nil
		}
		return overdue(tx, n, "node.drain-overdue", n.LastDrain.Reason, DrainOverdue{DrainID: drainID, Deadline: deadline.UTC()})
	})
	return err
}

func overdue(tx *db.Tx, n node.Locked, eventType string, reason node.Text, data any) error {
	return events.Append(tx, events.Entry{
		Type: eventType, TenantID: n.TenantID, NodeID: n.ID, Actor: Overseer, Reason: string(reason), Data: data, Audience: n.Audience,
	})
}
