package placement

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/better-compute/better-compute/db"
)

// maxAttempts is how often River tries a job before it gives up: its own default.
const maxAttempts = 25

// sendLater writes the row that River's own insert would for a job that is scheduled: River's scheduler finds it when it is due.
const sendLater = `
	insert into river_job (args, kind, max_attempts, queue, state, scheduled_at)
	values ($1::jsonb, $2, $3, $4, 'scheduled', clock_timestamp() + make_interval(secs => $5))`

// SendJobLater is SendJob for a job that is to run after a while.
func SendJobLater(tx *db.Tx, job river.JobArgs, queue string, after time.Duration) error {
	return send(tx, job, sendLater, queue, after.Seconds())
}

// sendJob writes the row that River's own insert would, and tells River's workers at the commit. The topic is River's for inserted jobs.
const sendJob = `
	with job as (
		insert into river_job (args, kind, max_attempts, queue, state) values ($1::jsonb, $2, $3, $4, 'available') returning queue)
	select pg_notify(concat(current_schema(), '.river_insert'), json_build_object('queue', queue)::text) from job`

// SendJob hands a job to River with the transaction: it exists, and is told to the workers, when that commits. River's InsertTx takes two or three round
// trips of its own; this statement goes along with the next one, which is mostly the final batch.
func SendJob(tx *db.Tx, job river.JobArgs, queue string) error {
	return send(tx, job, sendJob, queue)
}

func send(tx *db.Tx, job river.JobArgs, sql, queue string, more ...any) error {
	if err := tx.Locks(db.LockRiver); err != nil {
		return err
	}
	args, err := json.Marshal(job)
	if err != nil {
		return fmt.Errorf("job %s: %w", job.Kind(), err)
	}
	tx.Send(sql, append([]any{string(args), job.Kind(), maxAttempts, queue}, more...)...)
	return nil
}
