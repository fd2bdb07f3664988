package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"
)

const (
	// tidySnooze is how soon a job that this binary does not know is looked at again, by whichever process.
	tidySnooze = time.Minute
	// tidyStale is how old such a job becomes: by then the version that scheduled it is gone.
	tidyStale = 24 * time.Hour
	// tidyBound is how long an act may run: detaching a partition waits for transactions that may still read it.
	tidyBound = 10 * time.Minute
)

// Tidy runs one of the periodic acts that keep the database in order.
type Tidy struct {
	Name string `json:"name"`
}

// Kind names the job.
func (Tidy) Kind() string { return "tidy" }

type tidyWorker struct {
	river.WorkerDefaults[Tidy]

	parts Parts
}

// Timeout is an act's own; River also leaves a tidy of a process that was killed alone for so long.
func (*tidyWorker) Timeout(*river.Job[Tidy]) time.Duration { return tidyBound }

// Work runs the act of that name. One that this binary does not know was scheduled by another version and is left to it, for a day.
func (w *tidyWorker) Work(ctx context.Context, job *river.Job[Tidy]) error {
	for _, t := range w.parts.Tidy {
		if t.Name == job.Args.Name {
			if err := t.Run(ctx); err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			return nil
		}
	}
	if time.Since(job.CreatedAt) > tidyStale {
		return river.JobCancel(fmt.Errorf("nobody knows the act %q any more", job.Args.Name))
	}
	return river.JobSnooze(tidySnooze)
}
