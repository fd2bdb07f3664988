package controls

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/placement"
)

// emptyBatch is how many drains one pass of the net looks at.
const emptyBatch = 500

// EmptyDrains gives nodes whose drain runs though they hold nothing live: whoever should have looked died first, with the wake in its hands, and
// River takes a dead process's job away only after a minute.
func (c *Controls) EmptyDrains(ctx context.Context) ([]string, error) {
	rows, err := c.Nodes.DB.Pool().Query(ctx, `
		select d.node_id from node_drains d
		where d.state = 'DRAINING' and not exists (
			select from allocations a where a.node_id = d.node_id and a.released_at is null and a.ended_at is null)
		order by d.started_at limit $1`, emptyBatch)
	if err != nil {
		return nil, fmt.Errorf("find drains of empty nodes: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find drains of empty nodes: %w", err)
	}
	return ids, nil
}

// ReviveDrains inserts the primary job of each running drain that has none: after a restore, or when its attempts were used up. It gives how many.
func (c *Controls) ReviveDrains(ctx context.Context) (int, error) {
	rows, err := c.Nodes.DB.Pool().Query(ctx, `
		select d.node_id, d.id from node_drains d
		where d.state = 'DRAINING' and not exists (
			select from river_job j where j.kind = $1 and j.args ->> 'drain_id' = d.id and j.finalized_at is null)
		order by d.node_id`, DrainJob{}.Kind())
	if err != nil {
		return 0, fmt.Errorf("find drains without a job: %w", err)
	}
	lost, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DrainJob])
	if err != nil {
		return 0, fmt.Errorf("find drains without a job: %w", err)
	}
	jobs := make([]placement.Later, len(lost))
	for i, job := range lost {
		jobs[i].Job = job
	}
	_, err = c.Nodes.DB.Do(ctx, func(_ context.Context, tx *db.Tx) error { return placement.SendJobs(tx, jobs, placement.QueueDrains) })
	if err != nil {
		return 0, fmt.Errorf("revive the drains: %w", err)
	}
	return len(lost), nil
}
