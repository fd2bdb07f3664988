// Package jobs runs River: the clients, the queues, the periodic schedule, and a worker for each kind, which calls one verb. No rule of the domain is
// in here. Jobs are only wake-ups: rows are the truth, every worker is idempotent, and a sweep inserts again what got lost.
package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/placement"
)

// fetchCooldown is how soon a queue fetches again. River's default of 100 ms would be the latency of every drain.
const fetchCooldown = 5 * time.Millisecond

// queueMaintenance holds what keeps the database in order.
const queueMaintenance = "maintenance"

// operationsAtOnce is how many operations on many nodes one process goes on with at a time: each keeps a connection and a core busy.
const operationsAtOnce = 2

// Parts are what the workers call.
type Parts struct {
	Controls *controls.Controls
	Bookings *placement.Bookings
	// Liveness gives up nodes that were not heard of, and takes them back; nil: nobody does here.
	Liveness *liveness.Sweeper
	// Tidy are the periodic acts of other rooms: partitions, retention, old request ids.
	Tidy []Tidying
}

// Tidying is a periodic act that keeps the database in order.
type Tidying struct {
	Name  string
	Every time.Duration
	Run   func(ctx context.Context) error
}

// Runner works the jobs of one process.
type Runner struct {
	client *river.Client[pgx.Tx]
	parts  Parts
	log    *slog.Logger
	works  atomic.Bool
}

// Works says whether jobs are being worked.
func (r *Runner) Works() bool { return r.works.Load() }

// NewRunner makes the working client with its queues and its schedule. Nothing runs before Run.
func NewRunner(d *db.DB, p Parts, log *slog.Logger) (*Runner, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &drainWorker{controls: p.Controls})
	river.AddWorker(workers, &drainWakeWorker{controls: p.Controls})
	river.AddWorker(workers, &operationWorker{controls: p.Controls})
	river.AddWorker(workers, &drainSweepWorker{controls: p.Controls})
	river.AddWorker(workers, &intervalSweepWorker{parts: p})
	river.AddWorker(workers, &tidyWorker{parts: p})
	quick := river.QueueConfig{MaxWorkers: 10, FetchCooldown: fetchCooldown, FetchPollInterval: 100 * time.Millisecond}
	periodic := []*river.PeriodicJob{
		every(30*time.Second, func() (river.JobArgs, *river.InsertOpts) {
			return IntervalSweep{}, &river.InsertOpts{Queue: queueMaintenance}
		}),
		every(time.Minute, func() (river.JobArgs, *river.InsertOpts) {
			return DrainSweep{}, &river.InsertOpts{Queue: queueMaintenance}
		}),
	}
	for _, t := range p.Tidy {
		periodic = append(periodic, every(t.Every, func() (river.JobArgs, *river.InsertOpts) {
			return Tidy{Name: t.Name}, &river.InsertOpts{Queue: queueMaintenance}
		}))
	}
	client, err := river.NewClient(riverpgxv5.New(d.Pool()), &river.Config{
		FetchCooldown:     fetchCooldown,
		FetchPollInterval: time.Second,
		JobTimeout:        30 * time.Second,
		Logger:            quiet(log),
		PeriodicJobs:      periodic,
		Queues: map[string]river.QueueConfig{
			placement.QueueDrains: quick, queueMaintenance: {MaxWorkers: 2},
			controls.QueueOperations: {MaxWorkers: operationsAtOnce, FetchCooldown: fetchCooldown, FetchPollInterval: 100 * time.Millisecond},
		},
		Workers: workers,
		// A job of a process that was killed is another's after a minute, or after the timeout of its own kind; nothing here runs for longer.
		RescueStuckJobsAfter: time.Minute,
	})
	if err != nil {
		return nil, fmt.Errorf("make the job client: %w", err)
	}
	return &Runner{client: client, parts: p, log: log}, nil
}

func every(d time.Duration, args func() (river.JobArgs, *river.InsertOpts)) *river.PeriodicJob {
	return river.NewPeriodicJob(river.PeriodicInterval(d), args, &river.PeriodicJobOpts{RunOnStart: true})
}

// stopBound is how long running jobs may take to end when the process stops; then their contexts end.
const stopBound = 5 * time.Second

// Run works jobs, turns intervals and sweeps until ctx ends, then lets what runs finish.
func (r *Runner) Run(ctx context.Context) error {
	// River stops at Stop, not with the context, so that running jobs can finish.
	if err := r.client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start the jobs: %w", err)
	}
	r.works.Store(true)
	var sweeping sync.WaitGroup
	sweeping.Go(func() { r.sweep(ctx) })
	r.turnIntervals(ctx)
	sweeping.Wait()
	r.works.Store(false)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound)
	defer cancel()
	if err := r.client.Stop(stop); err != nil {
		hard, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound)
		defer cancel()
		return r.client.StopAndCancel(hard)
	}
	return nil
}

// quiet keeps River's warnings and errors, and leaves out what it says of each queue every few seconds.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(warnings{log.Handler()}) }

type warnings struct{ slog.Handler }

func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
