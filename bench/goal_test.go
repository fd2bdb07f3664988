package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGoals(t *testing.T) {
	t.Parallel()

	t.Run("Each goal is of a row that exists, and bounds it from one side", func(t *testing.T) {
		t.Parallel()
		goals, err := readGoals()
		require.NoError(t, err)
		rows := map[string]bool{"drain-empty": true, "drain-release": true, "log-2ms": true, "log-many": true} // rows of drain and log
		for _, b := range benchmarks {
			rows[b.name] = true
		}
		for name, g := range goals {
			require.True(t, rows[name], name)
			require.True(t, (g.Most > 0) != (g.Least > 0), name)
		}
	})

	t.Run("A check lets a goal be missed by half, from either side", func(t *testing.T) {
		t.Parallel()
		most, least := Goal{Most: 2}, Goal{Least: 0.6}
		require.True(t, most.within(Row{Ratio: 3}, slack))
		require.False(t, most.within(Row{Ratio: 3.1}, slack))
		require.True(t, least.within(Row{Ratio: 0.4}, slack))
		require.False(t, least.within(Row{Ratio: 0.39}, slack))
		require.True(t, Goal{Most: 4, Of: "p50"}.within(Row{Ratio: 100, P50: 4}, 1))
	})

	t.Run("A check judges CPU and memory, of today's goals", func(t *testing.T) {
		t.Parallel()
		require.True(t, Goal{Most: 2, CPU: true}.judged())
		require.False(t, Goal{Most: 2}.judged())
		require.False(t, Goal{Most: 2, CPU: true, Later: true}.judged())
	})
}
