package main

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
)

// A part that can't start ends serve with its sentence; the parts that have started don't keep it alive and silent.
func TestServeEndsWhenAPartCannotStart(t *testing.T) {
	t.Parallel()
	s := &settings{
		dataDir: t.TempDir(), listen: "127.0.0.1:0", gatewayListen: "127.0.0.1:0", databaseURL: dbtest.URL(dbtest.New(t)),
		roles: []string{roleAPI, roleGateway, roleJobs}, migrate: "auto", publicURL: "::",
	}
	done := make(chan error, 1)
	go func() { done <- serve(t.Context(), s, slog.New(slog.DiscardHandler), io.Discard) }()
	select {
	case err := <-done:
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "public-url")
	case <-time.After(30 * time.Second):
		require.Fail(t, "serve hangs")
	}
}

// A second gateway on the data directory of one that runs is refused before it does anything; the first goes on.
func TestSecondGateway(t *testing.T) {
	t.Parallel()
	var first *settings
	b := start(t, func(s *settings) { first = s })
	second := *first
	second.listen, second.gatewayListen = "127.0.0.1:0", "127.0.0.1:0"
	err := serve(t.Context(), &second, slog.New(slog.DiscardHandler), io.Discard)
	require.Equal(t, fault.InvalidState, fault.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "in use by a running gateway")
	status, _, err := b.get("/readyz", "")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	b.stop()
	require.NoError(t, b.end())
	release, err := first.holdGateway()
	require.NoError(t, err, "it is free again")
	release()
}

// What runs when the process stops is waited for, and nothing begins after that: the database is closed next.
func TestBackgroundBeginsNothingAfterTheWait(t *testing.T) {
	t.Parallel()
	b := newBackground(slog.New(slog.DiscardHandler))
	release := make(chan struct{})
	var ran, late atomic.Int32
	b.run(t.Context(), "runs", func(context.Context) error {
		<-release
		ran.Add(1)
		return nil
	})
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		b.wait()
	}()
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.closed
	}, 10*time.Second, time.Millisecond)
	b.run(t.Context(), "late", func(context.Context) error {
		late.Add(1)
		return nil
	})
	select {
	case <-waited:
		require.Fail(t, "it did not wait for what runs")
	default:
	}
	close(release)
	<-waited
	require.EqualValues(t, 1, ran.Load())
	b.wait()
	require.Zero(t, late.Load())
}
