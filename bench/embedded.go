package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/better-compute/better-compute/db/embedded"
)

// embeddedStart measures how long the database that comes with the product takes to start on a directory that it has used before. There is no floor: the
// goal is a time, of a machine that does nothing else.
func embeddedStart(ctx context.Context, r *rig, s size) ([]Row, error) {
	dir := filepath.Join(r.dir, "again")
	if err := os.Mkdir(dir, 0o711); err != nil { //nolint:gosec // the database's user passes through
		return nil, err
	}
	config := embedded.Config{DataDir: filepath.Join(dir, "db"), Log: slog.New(slog.DiscardHandler)}
	var times []time.Duration
	for i := range s.each + 1 {
		began := time.Now()
		server, err := embedded.Start(ctx, config)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first makes the directory
			times = append(times, time.Since(began))
		}
		if err := server.Stop(ctx); err != nil {
			return nil, err
		}
	}
	p50 := millis(quantile(times, 0.5))
	return []Row{{Name: "embedded-start", N: len(times), Unit: "ms", Value: tidy(p50), P50: tidy(p50), P99: tidy(millis(quantile(times, 0.99)))}}, nil
}
