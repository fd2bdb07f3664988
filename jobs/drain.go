package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/placement"
)

type drainWorker struct {
	river.WorkerDefaults[controls.DrainJob]

	controls *controls.Controls
}

// leastSnooze is how soon a drain looks again when an end is due and not written yet: who writes it wakes the drain, so looking oftener is idle.
const leastSnooze = 250 * time.Millisecond

// Work looks at the drain and snoozes until the next look. A job whose drain is no longer the running one ends.
func (w *drainWorker) Work(ctx context.Context, job *river.Job[controls.DrainJob]) error {
	look, err := w.controls.LookAtDrain(ctx, job.Args.NodeID)
	if err != nil {
		return err
	}
	if look.Over || look.DrainID != job.Args.DrainID {
		return nil
	}
	return river.JobSnooze(max(look.Next, leastSnooze))
}

// NextRetry tries a failed look again soon: River's own back-off would let a drain sleep for hours after the database was away.
func (w *drainWorker) NextRetry(job *river.Job[controls.DrainJob]) time.Time {
	return time.Now().Add(time.Duration(min(job.Attempt, 10)) * time.Second)
}

type drainWakeWorker struct {
	river.WorkerDefaults[placement.DrainWake]

	controls *controls.Controls
}

// Work looks once; the drain's primary job goes on waiting if it is not over.
func (w *drainWakeWorker) Work(ctx context.Context, job *river.Job[placement.DrainWake]) error {
	_, err := w.controls.LookAtDrain(ctx, job.Args.NodeID)
	return err
}

// DrainSweep gives a running drain that lost its job a new one.
type DrainSweep struct{}

// Kind names the job.
func (DrainSweep) Kind() string { return "drain_sweep" }

type drainSweepWorker struct {
	river.WorkerDefaults[DrainSweep]

	controls *controls.Controls
}

// Work revives what got lost.
func (w *drainSweepWorker) Work(ctx context.Context, _ *river.Job[DrainSweep]) error {
	_, err := w.controls.ReviveDrains(ctx)
	return err
}
