package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/better-compute/better-compute/controls"
)

type operationWorker struct {
	river.WorkerDefaults[controls.OperationJob]

	controls *controls.Controls
}

// Work goes on with the operation for a while, and snoozes until there is more to do.
func (w *operationWorker) Work(ctx context.Context, job *river.Job[controls.OperationJob]) error {
	progress, err := w.controls.RunOperation(ctx, job.Args)
	if err != nil || progress.Over {
		return err
	}
	return river.JobSnooze(progress.Next)
}

// NextRetry tries again soon: River's own back-off would let an operation sleep for hours after the database was away.
func (w *operationWorker) NextRetry(job *river.Job[controls.OperationJob]) time.Time {
	return time.Now().Add(time.Duration(min(job.Attempt, 10)) * time.Second)
}
