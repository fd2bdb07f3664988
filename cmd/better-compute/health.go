package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/graph"
)

// defaultHealth is where a process without the API says how it is.
const defaultHealth = "127.0.0.1:8081"

// healthAddress is where the process says how it is beside the API; "" for one that has the API and was not told another place.
func (s *settings) healthAddress() string {
	if s.healthListen == "" && !s.has(roleAPI) {
		return defaultHealth
	}
	return s.healthListen
}

// saysHow answers /healthz, /readyz and /metrics until ctx ends. Nobody signs in here, so it tells of the process alone: what the database counts, of
// all tenants, is read where the API is.
func saysHow(ctx context.Context, g *errgroup.Group, o *ops, l net.Listener, log *slog.Logger) {
	server := &http.Server{
		Handler: graph.Health(o.ready.check, o.metrics.process()), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(log.With("part", "health").Handler(), slog.LevelWarn),
	}
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the health of the process: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := server.Shutdown(stop); err != nil {
			_ = server.Close()
		}
		return nil
	})
}
