package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/sim"
)

func script(seed uint64, n, acts int) []sim.Act {
	s := sim.NewScript(seed, sim.Machines(seed, n))
	out := make([]sim.Act, acts)
	for i := range out {
		out[i] = s.Next()
	}
	return out
}

func TestSeed(t *testing.T) {
	t.Parallel()
	const acts = 20_000
	for _, n := range []int{1, 200} {
		require.Equal(t, sim.Machines(42, n), sim.Machines(42, n), "the same seed gives the same fleet")
		require.Equal(t, script(42, n, acts), script(42, n, acts), "and the same acts in the same order")
		require.NotEqual(t, sim.Machines(42, n), sim.Machines(43, n))
		require.NotEqual(t, script(42, n, acts), script(43, n, acts))
	}
	require.Equal(t, sim.Machines(42, 10), sim.Machines(42, 200)[:10], "a fleet that grows keeps its machines")
}

func TestScript(t *testing.T) {
	t.Parallel()
	hardware := sim.Machines(1, 200)
	booked, held, dark := map[int]sim.Act{}, map[int]bool{}, -1
	taken := map[[2]int]time.Duration{} // until when a GPU is booked; for ever is an hour after all
	kinds := map[string]int{}
	var at time.Duration
	for _, a := range script(1, 200, 20_000) {
		require.GreaterOrEqual(t, a.At, at, "acts come in the order of their times")
		at = a.At
		kinds[a.Kind]++
		switch a.Kind {
		case sim.Book:
			require.False(t, held[a.Machine], "nobody books what is cordoned")
			require.NotEqual(t, dark, hardware[a.Machine].Rack, "nor what has no power")
			end := at + a.For
			if a.For == 0 {
				end, booked[a.Booking] = 1<<62, a
			}
			for _, gpu := range a.GPUs {
				require.LessOrEqual(t, taken[[2]int{a.Machine, gpu}], at, "nor a GPU twice")
				taken[[2]int{a.Machine, gpu}] = end
			}
		case sim.Release:
			require.Contains(t, booked, a.Booking)
			delete(booked, a.Booking)
			for _, gpu := range a.GPUs {
				delete(taken, [2]int{a.Machine, gpu})
			}
		case sim.Cordon, sim.Drain:
			require.False(t, held[a.Machine])
			held[a.Machine] = true
		case sim.Uncordon:
			require.True(t, held[a.Machine])
			delete(held, a.Machine)
		case sim.RackOff:
			require.Equal(t, -1, dark, "one rack at a time")
			dark = hardware[a.Machine].Rack
		case sim.RackOn:
			require.Equal(t, dark, hardware[a.Machine].Rack)
			dark = -1
		}
	}
	for _, kind := range []string{sim.Book, sim.Release, sim.Cordon, sim.Drain, sim.Uncordon, sim.GPUFails, sim.GPUBack, sim.RackOff, sim.RackOn} {
		require.Positive(t, kinds[kind], kind)
	}
	early := 0
	for _, a := range script(1, 200, 100) {
		if a.At < 30*time.Second {
			early++
		}
	}
	require.Greater(t, early, 60, "there is something to watch within 30 s")
}

func TestHardware(t *testing.T) {
	t.Parallel()
	names, tenants := map[string]bool{}, map[int]int{}
	for _, h := range sim.Machines(3, 2000) {
		require.True(t, strings.HasPrefix(h.Hostname, "sim-") && strings.HasPrefix(h.Pool(), "sim-"), "nobody mistakes it for a real one")
		require.Equal(t, "true", h.Labels()["simulated"])
		names[h.Hostname] = true
		tenants[h.Tenant]++
	}
	require.Len(t, names, 2000)
	require.Len(t, tenants, 3)
	require.Greater(t, tenants[0], tenants[1]+tenants[2])
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	claim := func(c sim.Config) fault.Code {
		if c.Dir == "" {
			c.Dir = dir
		}
		err := c.Claim()
		if err == nil {
			return ""
		}
		return fault.CodeOf(err)
	}
	require.Equal(t, fault.InvalidInput, claim(sim.Config{Machines: 0}))
	require.Equal(t, fault.InvalidInput, claim(sim.Config{Machines: sim.MaxMachines + 1}))
	require.Equal(t, fault.InvalidState, claim(sim.Config{Machines: sim.MaxMachines, Each: 1 << 40}), "too few open files")
	require.False(t, sim.Held(dir), "what was refused has written nothing")
	require.Empty(t, claim(sim.Config{Machines: 1, Seed: 1}))
	require.True(t, sim.Held(dir))
	require.Empty(t, claim(sim.Config{Machines: 5, Seed: 1}), "it may grow")
	require.Equal(t, fault.InvalidState, claim(sim.Config{Machines: 1, Seed: 2}), "another seed is another fleet")
}
