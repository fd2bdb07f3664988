package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river"

	"github.com/better-compute/better-compute/controls"
)

// intervalTick is how often the timer asks an index whether an interval has come: within it, beginnings and ends are written.
const intervalTick = 200 * time.Millisecond

// netEvery is how often, in ticks, the timer also looks for drains of empty nodes; the first tick of a process does.
const netEvery = 5

// turnIntervals is the interval timer. A failure is logged and tried at the next tick; the sweep is the net below it. It is also the net below the
// wakes of drains, since a process that was killed keeps those that it had fetched.
func (r *Runner) turnIntervals(ctx context.Context) {
	tick := time.NewTicker(intervalTick)
	defer tick.Stop()
	failing := false
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := r.parts.turn(ctx)
		if err == nil && n%netEvery == 0 {
			_, lost := r.parts.Controls.ReviveOperations(ctx)
			err = errors.Join(r.parts.catchEmpty(ctx), r.parts.Controls.TellOverdue(ctx), lost)
		}
		if err != nil && ctx.Err() == nil && !failing {
			r.log.ErrorContext(ctx, "what is due or got lost (intervals, drains, operations) can't be written; trying on", "error", err)
		}
		failing = err != nil
	}
}

// turn writes what has come, and looks at the drains that waited for it.
func (p Parts) turn(ctx context.Context) error {
	for {
		turned, err := p.Bookings.TurnIntervals(ctx)
		if err != nil {
			return err
		}
		if err := look(ctx, p.Controls, turned.Woken); err != nil {
			return err
		}
		if !turned.More || turned.Started+turned.Ended == 0 {
			return nil
		}
	}
}

// catchEmpty ends the drains of nodes that are empty and that nobody looked at.
func (p Parts) catchEmpty(ctx context.Context) error {
	ids, err := p.Controls.EmptyDrains(ctx)
	if err != nil {
		return err
	}
	return look(ctx, p.Controls, ids)
}

func look(ctx context.Context, c *controls.Controls, nodeIDs []string) error {
	var errs []error
	for _, nodeID := range nodeIDs {
		_, err := c.LookAtDrain(ctx, nodeID)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// IntervalSweep is the net below the interval timer.
type IntervalSweep struct{}

// Kind names the job.
func (IntervalSweep) Kind() string { return "interval_sweep" }

type intervalSweepWorker struct {
	river.WorkerDefaults[IntervalSweep]

	parts Parts
}

// Work writes what the timer missed.
func (w *intervalSweepWorker) Work(ctx context.Context, _ *river.Job[IntervalSweep]) error {
	return errors.Join(w.parts.turn(ctx), w.parts.Controls.CatchAdopting(ctx))
}
