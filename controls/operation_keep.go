package controls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/placement"
)

// lostAfter is after how long without a look an operation counts as lost, and gets another job.
const lostAfter = 10 * time.Second

// ReviveOperations gives each running operation that nobody has looked at for a while, and that waits for no worker, another job: whoever had it died, and
// River takes a dead process's job away only after a minute. The job before, if it comes back, finds that it is not of the newest run.
func (c *Controls) ReviveOperations(ctx context.Context) (int, error) {
	rows, err := c.Nodes.DB.Pool().Query(ctx, `
		select id, run from node_operations o where state = 'RUNNING' and looked_at < statement_timestamp() - make_interval(secs => $1) and not exists (
			select from river_job j where j.kind = $2 and j.args ->> 'operation_id' = o.id and (j.args ->> 'run')::bigint = o.run
			  and (j.state in ('available', 'scheduled', 'retryable') or j.state = 'running' and j.attempted_at > statement_timestamp() - make_interval(secs => $1)))
		order by id`, lostAfter.Seconds(), OperationJob{}.Kind())
	if err != nil {
		return 0, fmt.Errorf("find operations without a job: %w", err)
	}
	lost, err := pgx.CollectRows(rows, pgx.RowToStructByPos[OperationJob])
	if err != nil {
		return 0, fmt.Errorf("find operations without a job: %w", err)
	}
	revived := 0
	for _, job := range lost {
		_, err := c.Nodes.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error { return revive(ctx, tx, job) })
		switch {
		case errors.Is(err, errOvertaken):
			continue // somebody looked meanwhile
		case err != nil:
			return revived, err
		}
		revived++
	}
	return revived, nil
}

// revive hands an operation to a job of the next run, unless somebody has looked at it.
func revive(ctx context.Context, tx *db.Tx, job OperationJob) error {
	if err := placement.SendJob(tx, OperationJob{OperationID: job.OperationID, Run: job.Run + 1}, QueueOperations); err != nil {
		return err
	}
	if err := tx.Locks(db.LockOperation); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		update node_operations set run = run + 1, looked_at = clock_timestamp()
		where id = $1 and run = $2 and state = 'RUNNING' and looked_at < clock_timestamp() - make_interval(secs => $3)`,
		job.OperationID, job.Run, lostAfter.Seconds())
	if err != nil {
		return fmt.Errorf("revive the operation: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errOvertaken
	}
	return nil
}

const (
	// keepOperations is how long operations are kept after their end, and keepEnded how many of a tenant's at most.
	keepOperations = 30 * 24 * time.Hour
	keepEnded      = 200
)

// ForgetOperations removes selections that have run out, and operations that ended long ago or are too many.
func (c *Controls) ForgetOperations(ctx context.Context) error {
	for _, forget := range []struct {
		sql  string
		args []any
	}{
		{`delete from node_selections where expires_at < statement_timestamp()`, nil},
		{`delete from node_operations where ended_at < statement_timestamp() - make_interval(secs => $1)`, []any{keepOperations.Seconds()}},
		{`delete from node_operations where id in (
			select id from (select id, row_number() over (partition by tenant_id order by ended_at desc, id desc) as place
				from node_operations where ended_at is not null) as ended where place > $1)`, []any{keepEnded}},
	} {
		if _, err := c.Nodes.DB.Pool().Exec(ctx, forget.sql, forget.args...); err != nil {
			return fmt.Errorf("forget old operations: %w", err)
		}
	}
	return nil
}
