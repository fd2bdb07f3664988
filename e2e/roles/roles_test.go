// Package roles_test runs the roles of the control plane in processes of their own, two of each on one database, kills, pauses and restarts them under
// load, and compares what every subscriber got with the log.
package roles_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/e2e/proc"
	"github.com/better-compute/better-compute/sim"
)

func TestMain(m *testing.M) { os.Exit(proc.Main(m)) }

const (
	machines    = 60
	workers     = 6
	subscribers = 6
	tenant      = "sim"
)

// installation is two processes of each role on one database, and the machines that are connected to them.
type installation struct {
	*testing.T

	db            *db.DB
	dir           string
	apis          [2]*proc.Process
	gateways      [2]*proc.Process
	jobs          [2]*proc.Process
	urls          []string
	gatewayListen []string
	token         string
}

// serve names a process with one role and a data directory of its own.
func (i *installation) serve(name, role string, args ...string) *proc.Process {
	i.Helper()
	if role != "api" {
		args = append(args, "--health-listen", proc.Free(i.T))
	}
	return proc.New(i.T, name, append([]string{"serve", "--roles", role, "--database-url", dbtest.URL(i.db), "--data-dir", filepath.Join(i.dir, name)}, args...)...)
}

// share gives a process files of another's pki directory, as an operator copies them to another machine.
func (i *installation) share(from, to string, files ...string) {
	i.Helper()
	require.NoError(i, os.MkdirAll(filepath.Join(i.dir, to, "pki"), 0o700))
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(i.dir, from, "pki", file))
		require.NoError(i, err)
		require.NoError(i, os.WriteFile(filepath.Join(i.dir, to, "pki", file), text, 0o600))
	}
}

func install(t *testing.T) *installation {
	t.Helper()
	i := &installation{T: t, db: dbtest.New(t), dir: t.TempDir()}
	for n := range 2 {
		listen, gateway := proc.Free(t), proc.Free(t)
		i.urls, i.gatewayListen = append(i.urls, "http://"+listen), append(i.gatewayListen, gateway)
		i.gateways[n] = i.serve(fmt.Sprintf("gateway%d", n+1), "gateway", "--gateway-listen", gateway)
		i.apis[n] = i.serve(fmt.Sprintf("api%d", n+1), "api", "--listen", listen)
		i.jobs[n] = i.serve(fmt.Sprintf("jobs%d", n+1), "jobs")
	}
	i.gateways[0].Start()
	i.gateways[0].Says("the gateway takes machines", 1)
	i.share("gateway1", "gateway2", "root.crt", "intermediate.crt", "intermediate.key")
	i.gateways[1].Start()
	i.apis[0].Start()
	proc.Ready(t, i.urls[0])
	i.token = proc.Token(t, filepath.Join(i.dir, "api1", "admin.token"))
	i.share("api1", "api2", "token-signing.key")
	i.apis[1].Start()
	proc.Ready(t, i.urls[1])
	i.gateways[1].Says("the gateway takes machines", 1)
	i.jobs[0].Start()
	i.jobs[1].Start()
	return i
}

// until waits until the query gives true.
func (i *installation) until(within time.Duration, what, sql string, args ...any) {
	i.Helper()
	require.Eventually(i, func() bool {
		var ok bool
		return i.db.Pool().QueryRow(i.Context(), sql, args...).Scan(&ok) == nil && ok
	}, within, 50*time.Millisecond, what)
}

func one[T any](i *installation, sql string, args ...any) T {
	i.Helper()
	var v T
	require.NoError(i, i.db.Pool().QueryRow(i.Context(), sql, args...).Scan(&v))
	return v
}

// fleet runs simulated machines until the test ends.
func (i *installation) fleet() {
	i.Helper()
	fleet, err := sim.New(sim.Config{
		Seed: 1, Machines: machines, Dir: filepath.Join(i.dir, "fleet"), Server: i.urls[0], Token: i.token, Gateways: i.gatewayListen, Tenant: tenant, Still: true,
		Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(i, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(i.Context()))
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(ctx) }()
	i.Cleanup(func() {
		stop()
		require.NoError(i, <-ended)
	})
	i.until(time.Minute, "all machines live", `select count(*) = $1 from nodes where connectivity = 'CONNECTED' and provision_state = 'ADOPTED'`, machines)
}

// worker does to its own nodes what operators and tenants do, one act after another; each act happens once, whatever dies meanwhile.
type worker struct {
	client *proc.Client
	nodes  []string
	name   string
	made   int
	acts   *atomic.Int64
	drains *atomic.Int64
}

func (w *worker) act(ctx context.Context, mutation, inputType, selection string, input map[string]any, out any) error {
	w.made++
	input["tenantId"], input["requestId"] = tenant, fmt.Sprintf("%s-%d", w.name, w.made)
	err := w.client.Do(ctx, fmt.Sprintf(`mutation($i: %s!) { %s(input: $i) { changed %s } }`, inputType, mutation, selection), map[string]any{"i": input}, out)
	if err != nil {
		return fmt.Errorf("%s: %w", mutation, err)
	}
	w.acts.Add(1)
	return nil
}

// round books a node, drains it, lets the booking end by a release or by its interval, waits for the drain, and takes the node back in.
func (w *worker) round(ctx context.Context, n int) error {
	nodeID := w.nodes[n%len(w.nodes)]
	booking := map[string]any{"nodeId": nodeID, "reason": "load"}
	if n%2 == 0 {
		booking["durationSeconds"] = 2
	}
	var booked struct {
		ReservationCreate struct{ Reservation struct{ ID string } }
	}
	if err := w.act(ctx, "reservationCreate", "ReservationCreateInput", "reservation { id }", booking, &booked); err != nil {
		return err
	}
	if err := w.act(ctx, "nodeCordon", "NodeCordonInput", "cursor", map[string]any{"nodeId": nodeID}, nil); err != nil {
		return err
	}
	if err := w.act(ctx, "nodeDrain", "NodeDrainInput", "cursor", map[string]any{"nodeId": nodeID}, nil); err != nil {
		return err
	}
	w.drains.Add(1)
	if n%2 == 1 {
		release := map[string]any{"reservationId": booked.ReservationCreate.Reservation.ID}
		if err := w.act(ctx, "reservationRelease", "ReservationReleaseInput", "cursor", release, nil); err != nil {
			return err
		}
	}
	for {
		var got struct {
			Node struct{ Drain *struct{ State string } }
		}
		err := w.client.Do(ctx, `query($t: ID!, $n: ID!) { node(tenantId: $t, nodeId: $n) { drain { state } } }`, map[string]any{"t": tenant, "n": nodeID}, &got)
		if err != nil {
			return fmt.Errorf("wait for the drain of %s: %w", nodeID, err)
		}
		if got.Node.Drain != nil && got.Node.Drain.State == "DRAINED" {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the drain of %s did not end: %w", nodeID, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return w.act(ctx, "nodeUncordon", "NodeUncordonInput", "cursor", map[string]any{"nodeId": nodeID}, nil)
}

// load is the workers; stop lets each end its round, which must be done within a while.
func (i *installation) load() (acts, drains *atomic.Int64, stop func()) {
	i.Helper()
	acts, drains = &atomic.Int64{}, &atomic.Int64{}
	nodes := one[[]string](i, `select array_agg(id order by id) from nodes where owner_tenant_id = $1`, tenant)
	stopping := make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(i.Context()))
	i.Cleanup(cancel)
	var work sync.WaitGroup
	for n := range workers {
		var mine []string
		for at := n; at < len(nodes); at += workers {
			mine = append(mine, nodes[at])
		}
		w := &worker{
			client: proc.NewClient(i.token, i.urls[n%2], i.urls[1-n%2]), nodes: mine, name: fmt.Sprintf("worker-%d", n), acts: acts, drains: drains,
		}
		work.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-stopping:
					return
				default:
				}
				bounded, cancel := context.WithTimeout(ctx, time.Minute)
				err := w.round(bounded, round)
				cancel()
				if err != nil {
					if ctx.Err() == nil {
						i.Errorf("worker %d, round %d: %v", n, round, err)
					}
					return
				}
			}
		})
	}
	return acts, drains, func() {
		close(stopping)
		work.Wait()
	}
}

// follower is one subscriber's stream, over all its connections.
type follower struct {
	mu  sync.Mutex
	ids []string
}

func (f *follower) take(e proc.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = append(f.ids, e.ID)
}

func (f *follower) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.ids...)
}

func TestRoles(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.fleet()

	client := proc.NewClient(i.token, i.urls...)
	var head struct{ Log struct{ Head string } }
	require.NoError(t, client.Do(t.Context(), `query($t: ID!) { log(tenantId: $t) { head } }`, map[string]any{"t": tenant}, &head))
	position := one[int64](i, `select position from event_clock`)
	following, unfollow := context.WithCancel(context.WithoutCancel(t.Context()))
	var streams sync.WaitGroup
	t.Cleanup(func() {
		unfollow()
		streams.Wait()
	})
	followers := make([]*follower, subscribers)
	for n := range followers {
		f := &follower{}
		followers[n] = f
		c := proc.NewClient(i.token, i.urls...)
		streams.Go(func() { c.Follow(following, tenant, head.Log.Head, n, f.take) })
	}
	acts, drains, stop := i.load()

	// What befalls the processes. Each step goes on when the system has been under load for a while in its new shape.
	lived := func(n int64) {
		t.Helper()
		want := acts.Load() + n
		require.Eventually(t, func() bool { return acts.Load() >= want }, time.Minute, 20*time.Millisecond, "the work goes on")
	}
	began := time.Now()
	at := func(d time.Duration) { <-time.After(time.Until(began.Add(d))) }
	lived(30)
	i.gateways[1].Signal(syscall.SIGSTOP) // for longer than the lease: its sessions move
	i.apis[0].Kill()
	lived(30)
	i.apis[0].Start()
	proc.Ready(t, i.urls[0])
	i.jobs[0].Kill()
	lived(40)
	i.jobs[0].Start()
	i.jobs[1].Signal(syscall.SIGSTOP)
	lived(40)
	i.apis[1].Stop()
	lived(30)
	i.apis[1].Start()
	proc.Ready(t, i.urls[1])
	i.jobs[1].Signal(syscall.SIGCONT)
	i.apis[0].Signal(syscall.SIGSTOP)
	lived(20)
	i.apis[0].Signal(syscall.SIGCONT)
	moved := `select count(*) = 0 from node_sessions s join gateways g on g.id = s.gateway_id
		where s.disconnected_at is null and g.flushed_at < now() - interval '20 seconds'`
	at(30 * time.Second)
	i.until(time.Minute, "the sessions of the paused gateway move to the other", moved)
	i.gateways[1].Signal(syscall.SIGCONT)
	lived(30)
	i.gateways[0].Kill() // for good
	killed := one[string](i, `select gateway_id from node_sessions where disconnected_at is null group by 1 order by count(*) desc limit 1`)
	i.until(30*time.Second, "the sessions of the killed gateway move to the one that was paused",
		`select count(*) = $1 from node_sessions where disconnected_at is null and gateway_id <> $2`, machines, killed)
	lived(20)
	stop()
	t.Logf("%d acts, %d drains, %d events in %s", acts.Load(), drains.Load(), one[int64](i, `select position from event_clock`)-position, time.Since(began).Round(time.Second))

	require.Equal(t, drains.Load(), one[int64](i, `select count(*) from node_drains where state = 'DRAINED'`), "every drain completed")
	require.Equal(t, drains.Load(), one[int64](i, `select count(*) from node_drains`))
	require.Equal(t, drains.Load(), one[int64](i, `select count(*) from events where type = 'node.drained'`), "and was told once")
	require.Equal(t, acts.Load(), one[int64](i, `select count(*) from events where request_id like 'worker-%'`), "each act stands in the log once")
	require.Zero(t, one[int](i, `select count(*)::int from events where type = 'node.unreachable'`), "nobody was given up")
	require.Zero(t, one[int](i, `select count(*)::int from nodes where connectivity <> 'CONNECTED'`))

	want := one[[]string](i, `select array_agg(id order by position) from events where position > $1 and ($2 = any(full_for) or $2 = any(reduced_for))`, position, tenant)
	for n, f := range followers {
		require.Eventually(t, func() bool { got := f.all(); return len(got) > 0 && got[len(got)-1] == want[len(want)-1] }, 30*time.Second, 50*time.Millisecond,
			"subscriber %d comes to the end of the log", n)
		require.Equal(t, want, f.all(), "subscriber %d has each event once and in order", n)
	}
}
