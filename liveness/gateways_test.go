package liveness_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/liveness"
)

func TestForgetGateways(t *testing.T) {
	t.Parallel()
	// A gateway that has not flushed for a week is forgotten, unless sessions are still open under its id; it can come back.
	w := newWorld(t)
	forget := func() int64 {
		t.Helper()
		n, err := liveness.ForgetGateways(t.Context(), w.db)
		require.NoError(t, err)
		return n
	}
	w.begin("gw_gone")
	w.begin("gw_killed")
	w.connected(1, "gw_killed")
	w.pass(6 * 24 * time.Hour)
	require.Zero(t, forget(), "not before a week")
	w.pass(2 * 24 * time.Hour)
	w.flush(gateway)
	require.Equal(t, int64(1), forget())
	require.Equal(t, []string{gateway, "gw_killed"}, one[[]string](t, w.bundle, `select array_agg(id order by id) from gateways`))
	w.begin("gw_killed") // ends what was left open
	w.pass(8 * 24 * time.Hour)
	w.flush(gateway)
	require.Equal(t, int64(1), forget())
	w.begin("gw_gone")
	w.flush("gw_gone")
}
