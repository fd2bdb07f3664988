package main

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/graph"
)

const (
	// logBehind is how long the process may not know what the log holds before it counts as not ready.
	logBehind = 5 * time.Second
	// flushBehind is how old the ages that the gateway wrote may be: four flushes.
	flushBehind = time.Minute
)

// readiness is what the parts of the process say of themselves.
type readiness struct {
	db       *db.DB
	log      *slog.Logger
	stopping atomic.Bool
	migrated atomic.Bool // once true, it stays so: migrations only go forward

	mu    sync.Mutex
	parts []namedPart
}

type namedPart struct {
	name  string
	check func() error
}

// add names one more part that must be ready; check must not block.
func (r *readiness) add(name string, check func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts = append(r.parts, namedPart{name, check})
}

// check asks all parts.
func (r *readiness) check(ctx context.Context) []graph.Part {
	var process error
	if r.stopping.Load() {
		process = fault.New(fault.Unavailable, nil, "the process stops")
	}
	database, migrations := r.database(ctx)
	out := []graph.Part{{Name: "process", Err: process}, {Name: "database", Err: database}, {Name: "migrations", Err: migrations}}
	r.mu.Lock()
	parts := r.parts
	r.mu.Unlock()
	for _, p := range parts {
		out = append(out, graph.Part{Name: p.name, Err: p.check()})
	}
	return out
}

func (r *readiness) database(ctx context.Context) (database, migrations error) {
	var readOnly bool
	if err := r.db.Pool().QueryRow(ctx, "select current_setting('transaction_read_only')::bool from event_clock").Scan(&readOnly); err != nil {
		r.log.WarnContext(ctx, "the database does not answer", "error", err)
		none := fault.New(fault.Unavailable, nil, "the database does not answer")
		if r.migrated.Load() {
			return none, nil
		}
		return none, fault.New(fault.Unavailable, nil, "not known while the database does not answer")
	}
	if readOnly {
		database = fault.New(fault.Unavailable, nil, "the database takes no writes: it is a standby, or set to read only")
	}
	if r.migrated.Load() {
		return database, nil
	}
	state, err := r.db.MigrationState(ctx)
	switch {
	case err != nil:
		r.log.WarnContext(ctx, "the migrations can't be read", "error", err)
		return database, fault.New(fault.Unavailable, nil, "they can't be read")
	case state.Behind():
		return database, fault.New(fault.InvalidState, nil, "the database is at migration %d and this version needs %d", state.Current, state.Latest)
	}
	r.migrated.Store(true)
	return database, nil
}

// logReady says whether the reading end of the log keeps up.
func logReady(l *events.Log) func() error {
	return func() error {
		switch s := l.Stats(); {
		case !l.Ready():
			return fault.New(fault.Unavailable, nil, "it was not read yet")
		case s.Unseen > logBehind:
			return fault.New(fault.Unavailable, nil, "it was not read for %s", s.Unseen.Round(time.Second))
		}
		return nil
	}
}

// gatewayReady says whether the gateway takes machines and writes ages.
func gatewayReady(g *gateway.Gateway) func() error {
	return func() error {
		switch s := g.Stats(); {
		case !s.Serving:
			return fault.New(fault.Unavailable, nil, "it takes no machines")
		case s.FlushAge > flushBehind:
			return fault.New(fault.Unavailable, nil, "the ages of its sessions were not written for %s", s.FlushAge.Round(time.Second))
		}
		return nil
	}
}

// jobsReady says whether jobs are being worked.
func jobsReady(works func() bool) func() error {
	return func() error {
		if !works() {
			return fault.New(fault.Unavailable, nil, "they are not being worked")
		}
		return nil
	}
}
