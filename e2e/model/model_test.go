// Package model_test runs a model of the node's axes beside the database: whatever many callers do at once, each answer, each entry of the log and
// everything that is stored is what the model has at that position of the log.
//
// The log is the order: a change's cursor is its place in it, and an answer that changed nothing names the place at which it was looked. So the model
// goes through the log one entry at a time, and no call has to wait for another to be compared.
package model_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/id"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "what the callers of TestOrders do; 0: another each time. The same seed gives the same calls, not the same interleaving")
	stepsFlag = flag.Int("steps", 0, "how many steps TestOrders makes; 0: 20,000, or 3,000 under the race detector")
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

const (
	callers  = 16
	machines = 3
	round    = 800 // steps between two looks at everything
)

// slot is a place for a machine: when its node is deleted, the machine comes back as a new node.
type slot struct {
	mu     sync.Mutex
	key    string
	shared bool // with the guest
	node   string
	dead   []string
	known  []call // releases of what was booked here
}

// hall is what the callers share.
type hall struct {
	*fleet

	judge *judge
	slots []*slot

	mu       sync.Mutex
	births   []reading
	steps    []step
	readings []reading
}

func newHall(t *testing.T, machines int) *hall {
	t.Helper()
	h := &hall{fleet: newFleet(t, callers), judge: newJudge()}
	for i := range machines {
		s := &slot{key: fmt.Sprintf("machine-%d", i), shared: i == 0}
		require.NoError(t, h.renew(t.Context(), s, ""))
		h.slots = append(h.slots, s)
	}
	return h
}

// renew gives the slot a new node, when nobody else did since that one was deleted.
func (h *hall) renew(ctx context.Context, s *slot, dead string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node != dead {
		return nil
	}
	nodeID, position, err := h.machine(ctx, s.key, s.shared)
	if err != nil {
		return fmt.Errorf("the machine %s as a new node: %w", s.key, err)
	}
	h.mu.Lock()
	h.births = append(h.births, reading{node: nodeID, position: position, m: fresh(s.shared)})
	h.mu.Unlock()
	s.node, s.dead = nodeID, append(s.dead, dead)
	return nil
}

// step makes a call, and keeps what came of it for the judge.
func (h *hall) step(ctx context.Context, c call) (step, error) {
	s, r, err := h.do(ctx, c)
	if err != nil {
		return s, fmt.Errorf("%s: %w", c.Verb, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps, h.readings = append(h.steps, s), append(h.readings, r)
	return s, nil
}

// after does what the API does after its answer: it looks at acceptance.
func (h *hall) after(ctx context.Context, s step) error {
	if s.call.Verb != "adopt" || !s.got.Changed {
		return nil
	}
	_, err := h.step(ctx, call{Verb: "accept", Node: s.call.Node, Run: s.run})
	return err
}

// compare holds what happened since the last time against the model. Nobody calls meanwhile.
func (h *hall) compare(ctx context.Context) error {
	for _, s := range h.slots {
		r, err := h.reading(ctx, s.node)
		if err != nil {
			return err
		}
		h.readings = append(h.readings, r)
	}
	log, err := h.log(ctx)
	if err != nil {
		return err
	}
	for _, b := range h.births {
		h.judge.born(b.node, b.position, b.m)
	}
	if err := h.judge.judge(log, h.steps, h.readings); err != nil {
		return err
	}
	h.tell(h.judge.position)
	h.births, h.steps, h.readings = nil, nil, nil
	return nil
}

// all compares every node that ever was.
func (h *hall) all(ctx context.Context) error {
	for nodeID := range h.judge.pasts {
		r, err := h.reading(ctx, nodeID)
		if err != nil {
			return err
		}
		h.readings = append(h.readings, r)
	}
	return h.compare(ctx)
}

func (h *hall) report() {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(h.judge.counts)) {
		lines = append(lines, fmt.Sprintf("%s: %d", name, h.judge.counts[name]))
	}
	h.Logf("%d entries of the log; %s", h.judge.position, strings.Join(lines, ", "))
}

func TestOrders(t *testing.T) {
	t.Parallel()
	// Whatever 16 callers do to 3 nodes at once, in whichever order, is what the model has: each answer, each entry of the log, and everything that is
	// stored, after each step. The log has no gap, and no caller hears of a deadlock.
	seed, total := *seedFlag, *stepsFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	if total == 0 {
		if total = 20_000; raced {
			total = 3_000
		}
	}
	again := fmt.Sprintf("again: go test ./e2e/model -run TestOrders -seed %d -steps %d", seed, total)
	t.Log(again)
	h := newHall(t, machines)
	stop := h.work()
	defer stop()
	var who [callers]*person
	for i := range who {
		who[i] = &person{hall: h, name: caller(i), rng: rand.New(rand.NewPCG(seed, uint64(i))), versions: make([]int, machines)}
	}
	began := time.Now()
	for done := 0; done < total; done += round {
		var g errgroup.Group
		for _, p := range who {
			g.Go(func() error {
				for range min(round, total-done) / callers {
					if err := p.step(t.Context()); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, g.Wait(), again)
		require.NoError(t, h.compare(t.Context()), again)
	}
	t.Logf("%d steps in %s", total, time.Since(began).Round(time.Millisecond))
	h.settle()
	stop()
	require.NoError(t, h.all(t.Context()), again)
	var deadlocks int
	require.NoError(t, h.db.Pool().QueryRow(t.Context(), `select deadlocks from pg_stat_database where datname = current_database()`).Scan(&deadlocks))
	require.Zero(t, deadlocks, "locks are taken in one order")
	h.report()
}

// settle waits until the controllers have nothing left to do: no drain goes on where nothing is held, and no interval is past its end.
func (h *hall) settle() {
	h.Helper()
	require.Eventually(h, func() bool {
		var left int
		err := h.db.Pool().QueryRow(h.Context(), `
			select (select count(*) from node_drains d where d.state = 'DRAINING' and not exists (
			         select from allocations a where a.node_id = d.node_id and a.released_at is null and a.ended_at is null))
			     + (select count(*) from allocations where ends_at < now() and released_at is null and ended_at is null)`).Scan(&left)
		return err == nil && left == 0
	}, 20*time.Second, 20*time.Millisecond, "the drains of empty nodes end, and intervals that are over")
}

// person is one of the callers.
type person struct {
	*hall

	name     string
	rng      *rand.Rand
	versions []int // of each slot's node, as it saw it last
}

func (p *person) step(ctx context.Context) error {
	i := p.rng.IntN(len(p.slots))
	s := p.slots[i]
	c := p.choose(i, s)
	done, err := p.hall.step(ctx, c)
	if err != nil {
		return err
	}
	if done.shown != nil {
		p.versions[i] = done.shown.Version
	}
	switch {
	case c.Verb == "book" && done.got.Changed:
		s.mu.Lock()
		s.known = append(s.known[max(0, len(s.known)-7):], call{Node: c.Node, Tenant: c.Tenant, Reservation: done.reservation})
		s.mu.Unlock()
	case c.Verb == "delete" && done.got.Code == "" || c.Verb != "release" && done.got.Code == "NOT_FOUND" && c.Tenant == owner:
		if err := p.renew(ctx, s, c.Node); err != nil {
			return err
		}
	}
	return p.after(ctx, done)
}

// verbs are what people do, the more often the more often it stands there.
var verbs = strings.Fields(`cordon cordon uncordon uncordon uncordon uncordon uncordon drain drain drain taint taint taint label label adopt delete delete
	book book book book book release release release release`)

func some(rng *rand.Rand, of []string) []string {
	var out []string
	for _, s := range of {
		if rng.IntN(3) == 0 {
			out = append(out, s)
		}
	}
	return out
}

// choose makes up a call. It draws the same numbers whatever the state of things, so that a seed gives the same calls again.
func (p *person) choose(i int, s *slot) call {
	rng := p.rng
	c := call{Verb: verbs[rng.IntN(len(verbs))], Who: p.name, Tenant: owner}
	why, versioned, asked, kind, nth, amount := rng.IntN(3), rng.IntN(4), rng.IntN(8), rng.IntN(8), rng.IntN(1000), rng.IntN(400)
	taints, labels := some(rng, []string{"rma", "unreachable", dedicated + owner, dedicated + guest}), some(rng, []string{"rack", "row", "gpu.model"})
	if why > 0 {
		c.Reason = fmt.Sprintf("why %d", nth)
	}
	if asked == 0 {
		c.Request = id.New("req")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Node = s.node
	if c.Verb != "book" && c.Verb != "release" && versioned == 0 {
		c.Version = p.versions[i]
	}
	switch c.Verb {
	case "cordon":
		c.Update = kind == 0
	case "uncordon":
		if kind == 0 {
			c.IfBy = caller(nth % callers)
		}
	case "taint":
		if c.Remove = taints; kind < 2 {
			c.Add, c.Remove = taints, nil
		}
		if len(taints) == 0 {
			c.Remove = []string{"rma", dedicated + guest}
		}
	case "label":
		c.Set = map[string]string{}
		for _, key := range labels {
			c.Set[key] = fmt.Sprint(nth % 3)
		}
		if kind < 3 || len(labels) == 0 {
			c.Set, c.Remove = nil, append(labels, "burn-in")
		}
	case "book":
		if kind < 2 {
			c.Who, c.Tenant = "gus", guest
		}
		if nth%2 == 0 {
			c.Device = gpus[amount%len(gpus)]
		}
		if kind%2 == 0 {
			c.Lasts = time.Duration(1+amount) * time.Millisecond
		}
	case "release":
		switch {
		case len(s.known) > 0:
			r := s.known[nth%len(s.known)]
			c.Node, c.Tenant, c.Reservation = r.Node, r.Tenant, r.Reservation
			if kind > 0 { // else somebody will do it again
				s.known = slices.DeleteFunc(s.known, func(k call) bool { return k.Reservation == r.Reservation })
			}
			if c.Tenant == guest {
				c.Who = "gus"
			}
		case kind == 0:
			c.Reservation = id.New(id.Reservation)
		default:
			c.Verb = "uncordon"
		}
	}
	return c
}
