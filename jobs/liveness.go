package jobs

import (
	"context"
	"time"

	"github.com/better-compute/better-compute/liveness"
)

// sweep offers each few seconds to look which nodes were not heard of, until ctx ends; of all processes one does. A failure is logged and tried at the
// next tick: what it costs is judged by the sweep itself, by the database's clock.
func (r *Runner) sweep(ctx context.Context) {
	if r.parts.Liveness == nil {
		return
	}
	tick := time.NewTicker(liveness.SweepEvery)
	defer tick.Stop()
	failing := false
	for {
		swept, err := r.parts.Liveness.Sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			r.log.ErrorContext(ctx, "who is heard of can't be looked at; trying on, and nobody is given up meanwhile", "error", err)
		case swept.Unreachable > 0 || swept.Back > 0:
			r.log.InfoContext(ctx, "nodes are given up or heard of again", "unreachable", swept.Unreachable, "back", swept.Back)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
