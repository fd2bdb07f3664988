// Package abuse_test lets hostile clients loose on a real server process: each of their ways has a bound and a code, the server's memory stays flat, and
// others go on being served. Under CI the sizes are small; `just abuse` runs the full ones and holds others' latency to at most twice what it was.
package abuse_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/e2e/proc"
	"github.com/better-compute/better-compute/sim"
)

func TestMain(m *testing.M) { os.Exit(proc.Main(m)) }

// full says that the sizes are those of a real attack, and that latency is judged: only where nothing else runs.
var full = os.Getenv("BC_ABUSE") == "full"

// size gives how much of something there is: all of it, or what CI has room for.
func size(all, small int) int {
	if full {
		return all
	}
	return small
}

const (
	tenant   = "sim"
	machines = 8
	mib      = 1 << 20
	// patience is how long what must come may take on a machine that runs many tests at once.
	patience = 60 * time.Second
)

// victim is the server, with some machines that live, and somebody who works with it.
type victim struct {
	*testing.T

	server  *proc.Process
	url     string
	gateway string
	client  *proc.Client
	nodes   []string
	reason  string // of the cordons
}

func setup(t *testing.T) *victim {
	t.Helper()
	d := dbtest.New(t)
	dir := t.TempDir()
	listen := proc.Free(t)
	v := &victim{T: t, url: "http://" + listen, gateway: proc.Free(t)}
	v.server = proc.New(t, "serve", "serve", "--database-url", dbtest.URL(d), "--data-dir", filepath.Join(dir, "data"), "--listen", listen,
		"--gateway-listen", v.gateway, "--log-level", "warn")
	v.server.Start()
	proc.Ready(t, v.url)
	v.client = proc.NewClient(proc.Token(t, filepath.Join(dir, "data", "admin.token")), v.url)
	fleet, err := sim.New(sim.Config{
		Seed: 1, Machines: machines, Dir: filepath.Join(dir, "fleet"), Server: v.url, Token: v.client.Token, Gateways: []string{v.gateway}, Tenant: tenant,
		Still: true, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	require.Eventually(t, func() bool { v.nodes = v.list(); return len(v.nodes) == machines }, patience, 50*time.Millisecond)
	v.latency(size(200, 20)) // warm
	return v
}

// list gives the nodes that are connected.
func (v *victim) list() []string {
	var got struct {
		Nodes struct {
			Nodes []struct{ ID, Connectivity string }
		}
	}
	if v.client.Do(v.Context(), `query($t: ID!) { nodes(tenantId: $t) { nodes { id connectivity } } }`, map[string]any{"t": tenant}, &got) != nil {
		return nil
	}
	var ids []string
	for _, n := range got.Nodes.Nodes {
		if n.Connectivity == "CONNECTED" {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// percentiles are of some calls.
type percentiles struct{ p50, p99 time.Duration }

func (p percentiles) String() string {
	return fmt.Sprintf("p50 %s p99 %s", p.p50.Round(10*time.Microsecond), p.p99.Round(10*time.Microsecond))
}

// toggle cordons or uncordons a node.
func (v *victim) toggle(n int, reason string) error {
	mutation, input := "nodeCordon", "NodeCordonInput"
	if n/machines%2 == 1 {
		mutation, input = "nodeUncordon", "NodeUncordonInput"
	}
	return v.client.Once(v.Context(), v.url, fmt.Sprintf(`mutation($i: %s!) { %s(input: $i) { cursor } }`, input, mutation),
		map[string]any{"i": map[string]any{"tenantId": tenant, "nodeId": v.nodes[n%machines], "reason": reason}}, nil)
}

// latency is of cordons and uncordons, one after another.
func (v *victim) latency(n int) percentiles {
	v.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		require.NoError(v, v.toggle(i, v.reason), "others are served")
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return percentiles{took[n/2], took[n*99/100]}
}

// withstand lets an attack run, and holds what others and the memory suffer to bounds. The attack goes on until its context ends.
func (v *victim) withstand(most int64, attack func(ctx context.Context)) {
	v.Helper()
	v.after(most, func() {}, attack)
}

// after is withstand with an attack that is prepared first.
func (v *victim) after(most int64, prepare func(), attack func(ctx context.Context)) {
	v.Helper()
	calls := size(1000, 60)
	before, rss := v.latency(calls), v.server.RSS()
	prepare()
	ctx, stop := context.WithCancel(v.Context())
	defer stop()
	var attacking sync.WaitGroup
	attacking.Go(func() { attack(ctx) })
	peak := rss
	watch := func(during time.Duration) {
		for began := time.Now(); time.Since(began) < during; <-time.After(100 * time.Millisecond) {
			peak = max(peak, v.server.RSS())
		}
	}
	// From the first moment on, when nothing holds the attackers back yet; then while they are held back.
	var during []percentiles
	for _, wait := range []time.Duration{0, time.Second, time.Duration(size(5, 1)) * time.Second} {
		watch(wait)
		during = append(during, v.latency(calls))
		peak = max(peak, v.server.RSS())
	}
	stop()
	attacking.Wait()
	worst := slices.MaxFunc(during, func(a, b percentiles) int { return cmp.Compare(a.p50, b.p50) })
	v.Logf("cordon before %s, during %v (at worst %.2f x); memory %d MB, at most %d MB", before, during, float64(worst.p50)/float64(before.p50), rss/mib, peak/mib)
	require.Less(v, peak-rss, most, "memory is bounded")
	for _, d := range during {
		require.Less(v, d.p99, 5*time.Second, "nobody is shut out")
	}
	if full {
		require.Less(v, worst.p50, 2*before.p50, "others' latency at most doubles")
	}
	require.Len(v, v.list(), machines, "no machine lost its session")
}
