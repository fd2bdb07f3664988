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

// sendJob writes the row that River's own insert would, and tells River's workers at the commit. The topic is River's for inserted jobs.
const sendJob = `
	with job as (
		insert into river_job (args, kind, max_attempts, queue, state) values ($1::jsonb, $2, $3, $4, 'available') returning queue)
	select pg_notify(concat(current_schema(), '.river_insert'), json_build_object('queue', queue)::text) from job`

// sendLater writes the row that River's own insert would for a job that is scheduled: River's scheduler finds it when it is due.
const sendLater = `
	insert into river_job (args, kind, max_attempts, queue, state, scheduled_at)
	values ($1::jsonb, $2, $3, $4, 'scheduled', clock_timestamp() + make_interval(secs => $5))`

// sendAll is for many jobs: those that are due at once are told to the workers.
const sendAll = `
	with job as (
		insert into river_job (args, kind, max_attempts, queue, state, scheduled_at)
		select args, $2, $3, $4, (case when secs > 0 then 'scheduled' else 'available' end)::river_job_state, clock_timestamp() + make_interval(secs => secs)
		from unnest($1::jsonb[], $5::float8[]) as x (args, secs) returning queue, state)
	select pg_notify(concat(current_schema(), '.river_insert'), json_build_object('queue', queue)::text) from job where state = 'available' limit 1`

// SendJob hands a job to River with the transaction: it exists, and is told to the workers, when that commits. River's InsertTx takes two or three round
// trips of its own; this statement goes along with the next one, which is mostly the final batch.
func SendJob(tx *db.Tx, job river.JobArgs, queue string) error {
	return SendJobs(tx, []Later{{Job: job}}, queue)
}

// Later is a job that is to run after a while; at once with none.
type Later struct {
	Job   river.JobArgs
	After time.Duration
}

// SendJobs is SendJob for jobs of one kind, each when it is due.
func SendJobs(tx *db.Tx, jobs []Later, queue string) error {
	if len(jobs) == 0 {
		return nil
	}
	if err := tx.Locks(db.LockRiver); err != nil {
		return err
	}
	args, after := make([]string, len(jobs)), make([]float64, len(jobs))
	for i, j := range jobs {
		body, err := json.Marshal(j.Job)
		if err != nil {
			return fmt.Errorf("job %s: %w", j.Job.Kind(), err)
		}
		args[i], after[i] = string(body), j.After.Seconds()
	}
	kind := jobs[0].Job.Kind()
	switch {
	case len(jobs) > 1:
		tx.Send(sendAll, args, kind, maxAttempts, queue, after)
	case jobs[0].After > 0:
		tx.Send(sendLater, args[0], kind, maxAttempts, queue, after[0])
	default:
		tx.Send(sendJob, args[0], kind, maxAttempts, queue)
	}
	return nil
}
