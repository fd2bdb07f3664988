package jobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A job counts from when it was due, until somebody takes it; kinds without a due job are there with zero.
func TestOldest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	oldest, err := Oldest(t.Context(), b.db.Pool())
	require.NoError(t, err)
	require.Equal(t, map[string]time.Duration{"drain": 0, "drain_wake": 0, "node_operation": 0, "drain_sweep": 0, "interval_sweep": 0, "tidy": 0}, oldest)
	for _, j := range []struct {
		kind, state string
		due         time.Duration
	}{
		{"drain", "available", -time.Hour},
		{"drain", "retryable", -2 * time.Hour},
		{"drain_wake", "scheduled", time.Hour},
		{"tidy", "completed", -time.Hour},
		{"of_another_version", "available", -time.Minute},
	} {
		_, err := b.db.Pool().Exec(t.Context(), `
			insert into river_job (args, kind, max_attempts, queue, state, scheduled_at, finalized_at)
			values ('{}', $1, 25, 'drains', $2::text::river_job_state, now() + $3, case when $2 = 'completed' then now() end)`, j.kind, j.state, j.due)
		require.NoError(t, err)
	}
	oldest, err = Oldest(t.Context(), b.db.Pool())
	require.NoError(t, err)
	require.InDelta(t, (2 * time.Hour).Seconds(), oldest["drain"].Seconds(), 60)
	require.InDelta(t, time.Minute.Seconds(), oldest["of_another_version"].Seconds(), 30)
	require.Zero(t, oldest["drain_wake"])
	require.Zero(t, oldest["tidy"])
}
