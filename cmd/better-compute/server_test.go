package main

import (
	"io"
	"log/slog"
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
