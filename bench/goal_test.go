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
			for part, more := range g.More {
				require.True(t, (more.Most > 0) != (more.Least > 0), name+" "+part)
			}
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
		slow := Row{Ratio: 4, More: map[string]float64{"wal": 160, "hot": 95}}
		require.NotEmpty(t, Goal{Most: 2, CPU: true}.missed(slow, slack))
		require.Empty(t, Goal{Most: 3, CPU: true}.missed(slow, slack))
		require.Empty(t, Goal{Most: 2}.missed(slow, slack))
		require.Empty(t, Goal{Most: 2, CPU: true, Later: true}.missed(slow, slack))
	})

	t.Run("A row's other figures are bounded too, and one that is not there misses", func(t *testing.T) {
		t.Parallel()
		goal := Goal{Most: 2, More: map[string]Goal{"wal": {Most: 100, CPU: true}, "hot": {Least: 95, CPU: true}}}
		row := Row{Ratio: 2, More: map[string]float64{"wal": 100, "hot": 95}}
		require.True(t, goal.within(row, 1))
		require.Empty(t, goal.missed(row, 1))
		row.More["wal"] = 151
		require.False(t, goal.within(row, slack))
		require.Len(t, goal.missed(row, slack), 1)
		delete(row.More, "hot")
		require.Len(t, goal.missed(row, slack), 2)
		require.Equal(t, "<= 2, hot >= 95, wal <= 100", goal.String())
	})
}
