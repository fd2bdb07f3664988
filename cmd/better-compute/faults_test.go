package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/db/embedded"
	"github.com/better-compute/better-compute/node"
)

// With every jobs process stopped the API alone ends what it causes itself; what time causes waits for a jobs process, and is not lost.
func TestWithoutJobs(t *testing.T) {
	t.Parallel()
	p := newPlant(t, dbtest.New(t))
	through := newTap(t, dbtest.URL(p.db))
	listen := free(t)
	api := p.run(through.url, listen, roleAPI)

	empty := p.node()
	api.must(drainIt, draining(empty))
	p.until(2*time.Second, empty, node.Drained)
	p.drainedOnce(empty, "node.draining", "node.drained")

	released := p.node()
	reservation := p.book(released, 0)
	api.must(drainIt, draining(released))
	api.must(releaseIt, releasing(reservation))
	p.until(2*time.Second, released, node.Drained)
	p.drainedOnce(released, "reservation.created", "node.draining", "reservation.released", "node.drained")

	// An interval ends, and nobody is there to write it.
	timed := p.node()
	p.book(timed, time.Second)
	api.must(drainIt, draining(timed))
	p.passes(timed)
	require.Equal(t, "DRAINING", p.state(timed))

	// The API dies when it has committed: the drain's end is in that commit.
	killed := p.node()
	through.arm(func(tr trip) bool { return tr.reply != nil && tr.does("commit") && tr.has(killed) }, func() { api.kill() })
	_, err := api.ask(drainIt, draining(killed))
	require.Error(t, err, "the answer is lost with the process")
	api.kill()
	require.Equal(t, "DRAINED", p.state(killed))

	last := p.node()
	held := p.book(last, 0)
	api = p.run(through.url, listen, roleAPI)
	api.must(drainIt, draining(last))
	through.arm(func(tr trip) bool { return tr.reply != nil && tr.does("commit") && tr.has(held) }, func() { api.kill() })
	_, err = api.ask(releaseIt, releasing(held))
	require.Error(t, err)
	api.kill()
	require.Equal(t, "DRAINED", p.state(last))
	require.Equal(t, "true", p.text(`select (released_at is not null)::text from reservations where id = $1`, held))

	// One that leaves the look to the jobs dies between its commit and theirs.
	p.flags = []string{"--drains-by-job"}
	unseen := p.node()
	api = p.run(through.url, listen, roleAPI)
	through.arm(func(tr trip) bool { return tr.reply != nil && tr.does("commit") && tr.has(unseen) }, func() { api.kill() })
	_, err = api.ask(drainIt, draining(unseen))
	require.Error(t, err)
	api.kill()
	require.Equal(t, "DRAINING", p.state(unseen), "committed, and nobody looked")

	p.run(dbtest.URL(p.db), "", roleJobs)
	for _, n := range []string{timed, unseen} {
		p.until(30*time.Second, n, node.Drained)
	}
	p.drainedOnce(timed, "reservation.created", "node.draining", "allocation.ended", "node.drained")
	p.drainedOnce(killed, "node.draining", "node.drained")
	p.drainedOnce(unseen, "node.draining", "node.drained")
	p.drainedOnce(last, "reservation.created", "node.draining", "reservation.released", "node.drained")
}

// killings is at how many points of a drain the process is killed at least.
const killings = 20

// A drain with a booking and its release has a dozen steps at which the process and the database exchange something about it: a question before the
// database has it, or an answer before the process has it; where the jobs are to end it, there are more. The process is killed at each of them, once.
func TestKilledAtAnyStep(t *testing.T) { //nolint:tparallel // it is one process that is killed, again and again
	t.Parallel()
	p := newPlant(t, dbtest.New(t))
	r := &killing{plant: p, through: newTap(t, dbtest.URL(p.db)), listen: free(t)}
	story := []string{"reservation.created", "node.draining", "reservation.released", "node.drained"}
	points := 0
	for way, flags := range map[string][]string{"": nil, " of a drain by the jobs": {"--drains-by-job"}} {
		p.flags = flags
		r.serve = p.run(r.through.url, r.listen, roleAPI, roleJobs)
		whole := r.drain(0)
		p.drainedOnce(whole.nodeID, story...)
		for at := 1; at <= 2*len(whole.steps); at++ {
			d := r.drain(at)
			if !d.killed {
				break // there are no more steps; how many there are varies by a few, as the job and its wake meet or miss each other
			}
			points++
			t.Run(fmt.Sprintf("B9 killed at step %d%s", at, way), func(t *testing.T) {
				t.Log(d.steps[at-1])
				in := *p
				in.T = t
				in.drainedOnce(d.nodeID, story...)
			})
		}
		r.serve.kill()
	}
	require.GreaterOrEqual(t, points, killings)
}

type killing struct {
	*plant

	through *tap
	listen  string
	serve   *process
}

// drained is one drain that went its way to the end, whatever happened to the process.
type drained struct {
	nodeID string
	steps  []string // up to the one at which the process was killed
	killed bool
}

// drain drains a node with a booking, releases that, and waits for the end. At the step of that number, from 1, the process is killed; then it is
// started again, and whoever asked asks again, by the same request ids. 0 kills nobody.
func (r *killing) drain(at int) drained {
	r.Helper()
	d := drained{nodeID: r.node()}
	reservation := r.book(d.nodeID, 0)
	died := make(chan struct{})
	r.through.arm(func(tr trip) bool {
		if !tr.has(d.nodeID, reservation) {
			return false
		}
		d.steps = append(d.steps, tr.String())
		return len(d.steps) == at
	}, func() {
		d.killed = true
		_ = r.serve.cmd.Process.Kill()
		close(died)
	})
	r.persist(died, drainIt, draining(d.nodeID))
	r.persist(died, releaseIt, releasing(reservation))
	r.until(died, "the drain comes to its end", func() bool { return r.state(d.nodeID) == string(node.Drained) })
	// The last answers are still on their way: the process may be killed in them too.
	r.until(died, "the server is ready", func() bool { return r.serve.ready() })
	r.through.disarm()
	r.revive(died)
	return d
}

// persist asks until there is an answer.
func (r *killing) persist(died <-chan struct{}, query string, variables any) {
	r.Helper()
	r.until(died, "there is an answer", func() bool {
		_, err := r.serve.ask(query, variables)
		return err == nil
	})
}

// until waits, and starts the process again whenever it was killed.
func (r *killing) until(died <-chan struct{}, what string, holds func() bool) {
	r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	bound := time.NewTimer(2 * time.Minute)
	defer bound.Stop()
	for {
		r.revive(died)
		if holds() {
			return
		}
		select {
		case <-tick.C:
		case <-bound.C:
			require.Failf(r, "waited in vain", "until %s", what)
		}
	}
}

// revive starts the process again when it was killed.
func (r *killing) revive(died <-chan struct{}) {
	select {
	case <-died:
	default:
		return
	}
	select {
	case <-r.serve.ended:
		r.serve = r.run(r.through.url, r.listen, roleAPI, roleJobs)
	default:
	}
}

// PostgreSQL is restarted while drains wait and while they are asked for: nothing is lost, nothing comes twice, and who follows hears of each once.
func TestDatabaseRestarted(t *testing.T) {
	t.Parallel()
	// As root PostgreSQL runs as another user, who can't reach t.TempDir.
	dir, err := os.MkdirTemp("/var/tmp", "bc-faults-") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711))
	config := embedded.Config{DataDir: filepath.Join(dir, "data"), ProjectDir: "../..", Settings: map[string]string{"fsync": "off"}}
	postgres, err := embedded.Start(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, postgres.Stop(context.WithoutCancel(t.Context()))) })
	require.NoError(t, db.Migrate(t.Context(), postgres.URL(), slog.New(slog.DiscardHandler)))
	d, err := db.Open(t.Context(), db.Config{URL: postgres.URL(), MaxConns: 4})
	require.NoError(t, err)
	t.Cleanup(d.Close)
	p := newPlant(t, d)
	serve := p.run(postgres.URL(), free(t), roleAPI, roleJobs)
	heard := serve.follow()

	waits := p.node()
	reservation := p.book(waits, 0)
	serve.must(drainIt, draining(waits))
	drainID := p.text(`select id from node_drains where node_id = $1`, waits)
	nodes := make([]string, 10)
	for i := range nodes {
		nodes[i] = p.node()
	}
	// Drains are asked for, again and again until there is an answer, while the database goes and comes back.
	var asking errgroup.Group
	for _, n := range nodes {
		asking.Go(func() error { return persist(t.Context(), serve, drainIt, draining(n)) })
	}
	require.NoError(t, postgres.Stop(t.Context()))
	require.Eventually(t, func() bool { return !serve.ready() }, 20*time.Second, 10*time.Millisecond)
	postgres, err = embedded.Start(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, asking.Wait())
	d.Pool().Reset()
	require.Eventually(t, func() bool { return d.Pool().Ping(t.Context()) == nil && serve.ready() }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "DRAINING", p.state(waits))
	require.Equal(t, drainID, p.text(`select id from node_drains where node_id = $1`, waits))
	require.NoError(t, persist(t.Context(), serve, releaseIt, releasing(reservation)))
	for _, n := range append(nodes, waits) {
		p.until(30*time.Second, n, node.Drained)
	}
	p.drainedOnce(waits, "reservation.created", "node.draining", "reservation.released", "node.drained")
	for _, n := range nodes {
		p.drainedOnce(n, "node.draining", "node.drained")
	}
	heard.once(append(nodes, waits)...)
}

// Two processes on one database do the same work: what one begins the other ends, also when the first was killed, and nothing is done twice.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	p := newPlant(t, dbtest.New(t))
	one := p.run(dbtest.URL(p.db), free(t), roleAPI, roleJobs)
	two := p.run(dbtest.URL(p.db), free(t), roleAPI, roleJobs)
	heard := two.follow()

	var both []string
	for i := range 20 { // both look at each
		n := p.node()
		both = append(both, n)
		[]*process{one, two}[i%2].must(drainIt, draining(n))
	}
	for _, n := range both {
		p.until(10*time.Second, n, node.Drained)
		p.drainedOnce(n, "node.draining", "node.drained")
	}

	released, timed := p.node(), p.node()
	reservation := p.book(released, 0)
	p.book(timed, 2*time.Second)
	one.must(drainIt, draining(released))
	one.must(drainIt, draining(timed))
	one.kill()
	two.must(releaseIt, releasing(reservation))
	p.until(10*time.Second, released, node.Drained)
	p.until(30*time.Second, timed, node.Drained)
	p.drainedOnce(released, "reservation.created", "node.draining", "reservation.released", "node.drained")
	p.drainedOnce(timed, "reservation.created", "node.draining", "allocation.ended", "node.drained")
	heard.once(append(both, released, timed)...)
}

// persist asks until there is an answer.
func persist(ctx context.Context, r *process, query string, variables any) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := r.ask(query, variables)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-bounded.Done():
			return err
		}
	}
}

// hearing is a subscriber of node.drained.
type hearing struct {
	*process

	conn *websocket.Conn
}

func (r *process) follow() *hearing {
	r.Helper()
	s := &server{T: r.T, url: r.url, token: r.token}
	return &hearing{process: r, conn: s.socketFor(`subscription { nodeDrained(tenantId: "default") { nodeId } }`)}
}

// once wants to hear of each of the nodes once, and of no other.
func (h *hearing) once(nodes ...string) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 20*time.Second)
	defer cancel()
	var got []string
	for len(got) < len(nodes) {
		var m struct {
			Type    string
			Payload struct {
				Data struct {
					NodeDrained struct{ NodeID string }
				}
			}
		}
		require.NoError(h, wsjson.Read(ctx, h.conn, &m), "%d of %d", len(got), len(nodes))
		switch m.Type {
		case "ping":
			require.NoError(h, wsjson.Write(ctx, h.conn, map[string]string{"type": "pong"}))
		case "next":
			got = append(got, m.Payload.Data.NodeDrained.NodeID)
		default:
			require.Failf(h, "the stream ended", "%+v", m)
		}
	}
	require.ElementsMatch(h, nodes, got)
}
