package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/better-compute/better-compute/controls"
)

type deleteWorker struct {
	river.WorkerDefaults[controls.DeleteJob]

	controls *controls.Controls
}

// Work does what the row asks for; one that is finished, or late, is no work.
func (w *deleteWorker) Work(ctx context.Context, job *river.Job[controls.DeleteJob]) error {
	return w.controls.RunDelete(ctx, job.Args.DeleteID)
}

// NextRetry tries again soon: after ten seconds the row itself refuses.
func (w *deleteWorker) NextRetry(*river.Job[controls.DeleteJob]) time.Time {
	return time.Now().Add(time.Second)
}
