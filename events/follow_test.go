package events_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
)

func TestFollow(t *testing.T) {
	t.Parallel()

	t.Run("from now, a cursor and the beginning", func(t *testing.T) {
		t.Parallel()
		// Nothing that commits after Follow has returned is missed, a cursor gives what comes after it, and every field arrives as written.
		d := dbtest.New(t)
		l := running(t, d, events.Options{})
		write(t, d, entry("acme", "node_a", "node.cordoned"))
		start := head(t, d)
		f := follow(t, l, events.Filter{Tenant: "acme"}, nil)
		e := entry("acme", "node_a", "node.uncordoned")
		e.RequestID, e.Audience.Reduced = "req-1", []string{"guest"}
		c := write(t, d, e)
		got := next(t, f)
		require.Equal(t, c.Position, got.Position)
		require.True(t, c.At.Equal(got.At))
		require.Equal(t, start.Epoch, got.Epoch)
		require.Equal(t, events.Event{
			Position: got.Position, Epoch: got.Epoch, ID: got.ID, Type: "node.uncordoned", At: got.At, TenantID: "acme", NodeID: "node_a",
			Actor: "alex", Reason: "because", RequestID: "req-1", Data: got.Data,
			Audience: events.Audience{Full: []string{"acme"}, Reduced: []string{"guest"}},
		}, got)
		require.JSONEq(t, `{"n":1}`, string(got.Data))
		require.Equal(t, got.Cursor(), f.Position())

		again := follow(t, l, events.Filter{Tenant: "acme"}, &start)
		require.Equal(t, got, next(t, again), "SQL and ring give the same event")
		beginning := follow(t, l, events.Filter{Tenant: "acme"}, &events.Cursor{Epoch: start.Epoch})
		require.Equal(t, "node.cordoned", next(t, beginning).Type)
		require.Equal(t, got, next(t, beginning))
	})

	t.Run("G1 every event once, in order, none missing", func(t *testing.T) {
		t.Parallel()
		// Eight writers, of whose transactions some roll back, and a follower that restarts from its last cursor at random, live and from SQL.
		const writers, each = 8, 150
		d := dbtest.New(t)
		l := running(t, d, events.Options{Ring: 128, Page: 64})
		start := head(t, d)
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					if i%10 == 3 {
						_, err := d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
							if err := events.Append(tx, entry("acme", "node_a", "node.rolled-back")); err != nil {
								return err
							}
							return errors.New("changed my mind")
						})
						if err == nil {
							t.Error("the transaction must roll back")
						}
					}
					if _, err := writeErr(t.Context(), d, entry("acme", fmt.Sprintf("node_%d", w), fmt.Sprintf("node.step-%d", i))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		cursor := start
		seen, perNode := map[string]bool{}, map[string]int{}
		f := follow(t, l, events.Filter{Tenant: "acme"}, &cursor)
		for len(seen) < writers*each {
			e := next(t, f)
			require.Equal(t, cursor.Position+1, e.Position, "positions have no gap")
			require.False(t, seen[e.ID], "each event comes once")
			require.Equal(t, fmt.Sprintf("node.step-%d", perNode[e.NodeID]), e.Type, "one writer's events come in its order")
			seen[e.ID] = true
			perNode[e.NodeID]++
			cursor = e.Cursor()
			if rand.IntN(20) == 0 {
				f.Close()
				_, err := f.Next(t.Context())
				require.Error(t, err, "a closed follower gives nothing")
				f = follow(t, l, events.Filter{Tenant: "acme"}, &cursor)
			}
		}
		writing.Wait()
		require.Equal(t, cursor, head(t, d), "a transaction that was rolled back leaves no gap")
		nothing(t, f, cursor.Position)
	})

	t.Run("G1 64 racing writers, while more followers come and go than a writer nudges itself", func(t *testing.T) {
		t.Parallel()
		// The committing goroutines put their events into the ring, and hand over to the tail reader and back as the crowd grows and shrinks: order and
		// number hold for one that was there all along, and for each that came later from where it came.
		const writers, each, crowd = 64, 10, 80
		d := dbtest.New(t)
		l := running(t, d, events.Options{Ring: 256, Page: 64})
		start := head(t, d)
		f := follow(t, l, events.Filter{Tenant: "acme"}, &start)
		var writing, passing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					if _, err := writeErr(t.Context(), d, entry("acme", fmt.Sprintf("node_%d", w), fmt.Sprintf("node.step-%d", i))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		written := make(chan struct{})
		go func() {
			writing.Wait()
			close(written)
		}()
		for range crowd {
			passing.Go(func() {
				for {
					select {
					case <-written:
						return
					default:
					}
					if err := someInOrder(t.Context(), l); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		perNode := map[string]int{}
		for i := range int64(writers * each) {
			e := next(t, f)
			require.Equal(t, start.Position+1+i, e.Position)
			require.Equal(t, fmt.Sprintf("node.step-%d", perNode[e.NodeID]), e.Type)
			perNode[e.NodeID]++
		}
		passing.Wait()
		nothing(t, f, start.Position+writers*each)
	})

	t.Run("one transaction's burst of 10,000", func(t *testing.T) {
		t.Parallel()
		// A live follower, one with an old cursor and one of a single node get all of a burst that is far bigger than ring and page.
		d := dbtest.New(t)
		l := running(t, d, events.Options{Ring: 1000, Page: 400})
		start := head(t, d)
		live := follow(t, l, events.Filter{Tenant: "acme"}, nil)
		single := follow(t, l, events.Filter{Tenant: "acme", NodeID: "node_7"}, nil)
		burst := make([]events.Entry, 10_000)
		for i := range burst {
			burst[i] = entry("acme", fmt.Sprintf("node_%d", i%100), "node.tainted")
		}
		c := write(t, d, burst...)
		require.Equal(t, start.Position+10_000, c.Position)
		old := follow(t, l, events.Filter{Tenant: "acme"}, &start)
		for _, f := range []*events.Follower{live, old} {
			for i := range int64(10_000) {
				e := next(t, f)
				require.Equal(t, start.Position+1+i, e.Position)
				require.True(t, e.At.Equal(c.At), "events of one transaction share its time")
			}
			nothing(t, f, c.Position)
		}
		for i := range int64(100) {
			require.Equal(t, start.Position+8+100*i, next(t, single).Position)
		}
		nothing(t, single, c.Position)
	})

	t.Run("two processes hear each other at once", func(t *testing.T) {
		t.Parallel()
		// An event of one process is at the other's follower long before the net of the other looks.
		d := dbtest.New(t)
		other := openDB(t, dbtest.URL(d))
		here, there := running(t, d, events.Options{Look: time.Hour}), running(t, other, events.Options{Look: time.Hour})
		a, b := follow(t, here, events.Filter{Tenant: "acme"}, nil), follow(t, there, events.Filter{Tenant: "acme"}, nil)
		for range 20 {
			one := write(t, d, entry("acme", "node_a", "node.cordoned"))
			require.Equal(t, one.Position, next(t, a).Position)
			require.Equal(t, one.Position, next(t, b).Position)
			two := write(t, other, entry("acme", "node_a", "node.uncordoned"))
			require.Equal(t, two.Position, next(t, a).Position)
			require.Equal(t, two.Position, next(t, b).Position)
		}
	})

	t.Run("many followers of one process at once", func(t *testing.T) {
		t.Parallel()
		// A hundred followers of ten nodes each get their node's events and no other's, while they are written.
		const nodes, each = 10, 40
		d := dbtest.New(t)
		l := running(t, d, events.Options{Ring: 64})
		var readers sync.WaitGroup
		for n := range nodes {
			for range 10 {
				f := follow(t, l, events.Filter{Tenant: "acme", NodeID: fmt.Sprintf("node_%d", n)}, nil)
				readers.Go(func() {
					for i := range each {
						e, err := f.Next(t.Context())
						if err != nil || e.NodeID != fmt.Sprintf("node_%d", n) || e.Type != fmt.Sprintf("node.step-%d", i) {
							t.Errorf("node %d, event %d: %v %v", n, i, e, err)
							return
						}
					}
				})
			}
		}
		for i := range each {
			for n := range nodes {
				write(t, d, entry("acme", fmt.Sprintf("node_%d", n), fmt.Sprintf("node.step-%d", i)))
			}
		}
		readers.Wait()
	})
}

// someInOrder follows from now for up to five events or a moment, and says whether there was a gap.
func someInOrder(ctx context.Context, l *events.Log) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	f, err := l.Follow(ctx, events.Filter{Tenant: "acme"}, nil, &gate{})
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	defer f.Close()
	at := f.Position().Position
	for range 5 {
		e, err := f.Next(ctx)
		if err != nil {
			return ignoreEnd(ctx, err)
		}
		if e.Position != at+1 {
			return fmt.Errorf("event %d after %d", e.Position, at)
		}
		at = e.Position
	}
	return nil
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // its moment was over
	}
	return err
}

func TestFilter(t *testing.T) {
	t.Parallel()
	// Ring, SQL and history hold the same rule: the tenant is in the audience, the node matches, the type is named or has a named prefix.
	d := dbtest.New(t)
	l := running(t, d, events.Options{})
	start := head(t, d)
	kinds := []string{"node.drained", "node.draining", "node.drain-overdue", "security.node.quarantined", "securityx.node", "node.drained.late"}
	filters := []events.Filter{
		{Tenant: "acme"},
		{Tenant: "guest"},
		{Tenant: "nobody"},
		{Tenant: "acme", NodeID: "node_a"},
		{Tenant: "guest", NodeID: "node_b"},
		{Tenant: "acme", NodeID: "node_c"},
		{Tenant: "acme", Types: []string{"node.drained"}},
		{Tenant: "acme", Types: []string{"security."}},
		{Tenant: "guest", NodeID: "node_a", Types: []string{"node.drained", "security.", "node.drained."}},
		{Tenant: "acme", Types: []string{"none.such"}},
	}
	var live []*events.Follower
	for _, f := range filters {
		live = append(live, follow(t, l, f, nil))
	}
	var written []events.Entry
	for _, node := range []string{"node_a", "node_b", ""} {
		for _, kind := range kinds {
			for _, audience := range []events.Audience{
				{Full: []string{"acme"}},
				{Full: []string{"acme"}, Reduced: []string{"guest"}},
				{Full: []string{"guest", "acme"}},
				{Full: []string{"other"}, Reduced: []string{"guest", "third"}},
				{},
			} {
				e := entry("acme", node, kind)
				e.Audience = audience
				written = append(written, e)
			}
		}
	}
	c := write(t, d, written...)
	for i, f := range filters {
		var want []int64
		for n, e := range written {
			if strings.HasPrefix(e.Type, "security.") {
				e.Audience.Reduced = nil // as Append writes it
			}
			if passes(f, e) {
				want = append(want, start.Position+1+int64(n))
			}
		}
		old := follow(t, l, f, &start)
		for _, position := range want {
			require.Equal(t, position, next(t, live[i]).Position, "live, %+v", f)
			require.Equal(t, position, next(t, old).Position, "from a cursor, %+v", f)
		}
		nothing(t, live[i], c.Position)
		nothing(t, old, c.Position)
		require.Equal(t, want, positions(t, d, events.ListFilter{Filter: f, Order: events.OldestFirst, First: 500}), "%+v", f)
	}
	for _, bad := range []events.Filter{
		{},
		{Tenant: "acme", Types: []string{""}},
		{Tenant: "acme", Types: []string{"."}},
		{Tenant: "acme", Types: []string{"node..drained"}},
		{Tenant: "acme", Types: []string{"node.%"}},
		{Tenant: "acme", Types: []string{"node_."}},
		{Tenant: "acme", Types: make([]string, 51)},
	} {
		_, err := l.Follow(t.Context(), bad, nil, &gate{})
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err), "%+v", bad)
		_, _, err = events.List(t.Context(), d.Pool(), events.ListFilter{Filter: bad, First: 1})
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err), "%+v", bad)
	}
}

// passes is the rule in the test's own words.
func passes(f events.Filter, e events.Entry) bool {
	sees := false
	for _, tenant := range append(append([]string{}, e.Audience.Full...), e.Audience.Reduced...) {
		sees = sees || tenant == f.Tenant
	}
	kind := len(f.Types) == 0
	for _, want := range f.Types {
		kind = kind || e.Type == want || want[len(want)-1] == '.' && len(e.Type) > len(want) && e.Type[:len(want)] == want
	}
	return sees && kind && (f.NodeID == "" || f.NodeID == e.NodeID)
}

func TestQuietFollower(t *testing.T) {
	t.Parallel()
	// A reader whom nothing concerns does not fall out of the ring: its position goes with the tail though nobody calls Next, and its next event
	// comes from the ring.
	d := dbtest.New(t)
	l := running(t, d, events.Options{Ring: 32})
	f := follow(t, l, events.Filter{Tenant: "acme", NodeID: "node_quiet"}, nil)
	var c db.Committed
	for range 10 {
		burst := make([]events.Entry, 20)
		for i := range burst {
			burst[i] = entry("acme", "node_loud", "node.tainted")
		}
		c = write(t, d, burst...)
	}
	require.Eventually(t, func() bool { return f.Position().Position == c.Position }, 10*time.Second, time.Millisecond)
	require.False(t, f.Lagging())
	c = write(t, d, entry("acme", "node_quiet", "node.drained"))
	require.Eventually(t, func() bool { return l.Stats().Tail == c.Position }, 10*time.Second, time.Millisecond)
	require.False(t, f.Lagging(), "its event is in the ring")
	require.Equal(t, c.Position-1, f.Position().Position)
	require.Equal(t, c.Position, next(t, f).Position)
	require.Equal(t, c.Position, f.Position().Position)
}

func TestSlowReader(t *testing.T) {
	t.Parallel()

	t.Run("G2 a reader that stops reading is ended and resumes by its cursor", func(t *testing.T) {
		t.Parallel()
		// It ends with a code after a bound, also for who is busy sending and not in Next; another reader gets everything meanwhile.
		d := dbtest.New(t)
		l := running(t, d, events.Options{Ring: 64, MaxLag: 500})
		stuck, well := follow(t, l, events.Filter{Tenant: "acme"}, nil), follow(t, l, events.Filter{Tenant: "acme"}, nil)
		first := write(t, d, entry("acme", "node_a", "node.cordoned")).Position
		require.Equal(t, first, next(t, stuck).Position)
		require.Equal(t, first, next(t, well).Position)
		for i := range int64(600) {
			write(t, d, entry("acme", "node_a", "node.cordoned"))
			require.Equal(t, first+1+i, next(t, well).Position)
			if i == 300 {
				require.NoError(t, stuck.Err(), "below the bound it goes on")
				require.Eventually(t, stuck.Lagging, 5*time.Second, time.Millisecond, "and is read from the database, not kept in memory")
			}
		}
		<-stuck.Done()
		_, err := stuck.Next(t.Context())
		require.Equal(t, fault.ResourceExhausted, fault.CodeOf(err))
		require.Contains(t, fault.From(err).Details, "retryAfterMs")
		cursor, parseErr := events.ParseCursor("cursor", fault.From(err).Details["cursor"].(string))
		require.NoError(t, parseErr)
		require.Equal(t, first, cursor.Position, "the cursor is that of what it was given last")
		resumed := follow(t, l, events.Filter{Tenant: "acme"}, &cursor)
		for i := range int64(600) {
			require.Equal(t, first+1+i, next(t, resumed).Position)
		}
		nothing(t, resumed, first+600)
	})

	t.Run("a reader that catches up is not too slow", func(t *testing.T) {
		t.Parallel()
		// The bound is for readers that had been live: an old cursor may be any distance behind.
		d := dbtest.New(t)
		l := running(t, d, events.Options{Ring: 64, MaxLag: 100, Page: 40})
		start := head(t, d)
		burst := make([]events.Entry, 1000)
		for i := range burst {
			burst[i] = entry("acme", "node_a", "node.tainted")
		}
		write(t, d, burst...)
		f := follow(t, l, events.Filter{Tenant: "acme"}, &start)
		require.Eventually(t, f.Lagging, 10*time.Second, time.Millisecond)
		for i := range int64(1000) {
			if i == 500 {
				write(t, d, burst[:200]...)
			}
			require.Equal(t, start.Position+1+i, next(t, f).Position)
		}
		for i := range int64(200) {
			require.Equal(t, start.Position+1001+i, next(t, f).Position)
		}
		require.NoError(t, f.Err())
	})
}

func TestVisibility(t *testing.T) {
	t.Parallel()

	t.Run("G4 who may no longer read is ended, while events flow and while none does", func(t *testing.T) {
		t.Parallel()
		// The stream ends with the very code of the Visibility, within the interval of asking.
		d := dbtest.New(t)
		l := running(t, d, events.Options{Recheck: time.Nanosecond, IdleRecheck: 20 * time.Millisecond})
		for _, busy := range []bool{true, false} {
			g := &gate{}
			f, err := l.Follow(t.Context(), events.Filter{Tenant: "acme"}, nil, g)
			require.NoError(t, err)
			defer f.Close()
			write(t, d, entry("acme", "node_a", "node.cordoned"))
			next(t, f)
			g.set(fault.New(fault.Unauthenticated, nil, "the token has expired"))
			if busy {
				write(t, d, entry("acme", "node_a", "node.uncordoned"))
			}
			_, err = f.Next(t.Context())
			require.Equal(t, fault.Unauthenticated, fault.CodeOf(err))
			g.set(nil)
			_, err = f.Next(t.Context())
			require.Equal(t, fault.Unauthenticated, fault.CodeOf(err), "what has ended stays ended")
		}
		_, err := l.Follow(t.Context(), events.Filter{Tenant: "acme"}, nil, &gate{err: fault.New(fault.Forbidden, nil, "no")})
		require.Equal(t, fault.Forbidden, fault.CodeOf(err), "who may not read can't begin")
	})

	t.Run("nothing is given out while nobody knows whether the reader may", func(t *testing.T) {
		t.Parallel()
		// UNAVAILABLE from Check holds the events back and ends no stream before patience does.
		d := dbtest.New(t)
		l := running(t, d, events.Options{Recheck: time.Nanosecond, Patience: 300 * time.Millisecond})
		g := &gate{}
		f, err := l.Follow(t.Context(), events.Filter{Tenant: "acme"}, nil, g)
		require.NoError(t, err)
		defer f.Close()
		g.set(fault.New(fault.Unavailable, nil, "the database is away"))
		c := write(t, d, entry("acme", "node_a", "node.cordoned"))
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		_, err = f.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		g.set(nil)
		require.Equal(t, c.Position, next(t, f).Position, "the end of Next's context has cost nothing")
		g.set(fault.New(fault.Unavailable, nil, "the database is away"))
		write(t, d, entry("acme", "node_a", "node.cordoned"))
		_, err = f.Next(t.Context())
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		require.Equal(t, at(c.Position, f).String(), fault.From(err).Details["cursor"])
	})

	t.Run("the view drops and reduces", func(t *testing.T) {
		t.Parallel()
		// What View drops is passed over and moves the position on; what it changes is changed for this reader alone.
		d := dbtest.New(t)
		l := running(t, d, events.Options{})
		f, err := l.Follow(t.Context(), events.Filter{Tenant: "acme"}, nil, &gate{view: func(e events.Event) (events.Event, bool) {
			e.Actor = "operator"
			return e, e.Type != "node.secret"
		}})
		require.NoError(t, err)
		defer f.Close()
		whole := follow(t, l, events.Filter{Tenant: "acme"}, nil)
		c := write(t, d, entry("acme", "node_a", "node.secret"), entry("acme", "node_a", "node.cordoned"), entry("acme", "node_a", "node.secret"))
		e := next(t, f)
		require.Equal(t, c.Position-1, e.Position)
		require.Equal(t, "operator", e.Actor)
		nothing(t, f, c.Position)
		require.Equal(t, "alex", next(t, whole).Actor)
		require.Equal(t, "alex", next(t, whole).Actor)
	})
}

func TestEnds(t *testing.T) {
	t.Parallel()

	t.Run("its context", func(t *testing.T) {
		t.Parallel()
		// A follower whose context ends is gone from the index without Close.
		d := dbtest.New(t)
		l := running(t, d, events.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		f, err := l.Follow(ctx, events.Filter{Tenant: "acme"}, nil, &gate{})
		require.NoError(t, err)
		require.Equal(t, 1, l.Stats().Followers)
		cancel()
		_, err = f.Next(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		require.Eventually(t, func() bool { return l.Stats().Followers == 0 }, 5*time.Second, time.Millisecond)
	})

	t.Run("the process stops", func(t *testing.T) {
		t.Parallel()
		// A waiting reader is told UNAVAILABLE and its cursor, and none can begin after that.
		d := dbtest.New(t)
		l := events.NewLog(d, events.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		f := follow(t, l, events.Filter{Tenant: "acme"}, nil)
		c := write(t, d, entry("acme", "node_a", "node.cordoned"))
		require.Equal(t, c.Position, next(t, f).Position)
		cancel()
		_, err := f.Next(t.Context())
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		require.Equal(t, f.Position().String(), fault.From(err).Details["cursor"])
		require.ErrorIs(t, <-done, context.Canceled)
		late := follow(t, l, events.Filter{Tenant: "acme"}, nil)
		_, err = late.Next(t.Context())
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
	})
}

func TestCursorExpired(t *testing.T) {
	t.Parallel()

	t.Run("at the start", func(t *testing.T) {
		t.Parallel()
		// A cursor of another epoch, ahead of the head or below what retention has left is refused, with where the log reaches and why; its edges
		// are good.
		d := dbtest.New(t)
		l := running(t, d, events.Options{})
		for range 5 {
			write(t, d, entry("acme", "node_a", "node.cordoned"))
		}
		_, err := d.Pool().Exec(t.Context(), "update event_clock set oldest = 3")
		require.NoError(t, err)
		h := head(t, d)
		for _, c := range []struct {
			cursor events.Cursor
			cause  string
		}{
			{events.Cursor{Epoch: h.Epoch + 1, Position: 3}, "epoch"},
			{events.Cursor{Epoch: h.Epoch, Position: 6}, "ahead"},
			{events.Cursor{Epoch: h.Epoch, Position: 1}, "retention"},
		} {
			_, err := l.Follow(t.Context(), events.Filter{Tenant: "acme"}, &c.cursor, &gate{})
			require.Equal(t, fault.CursorExpired, fault.CodeOf(err))
			require.Equal(t, fault.Details{
				"oldest": events.Cursor{Epoch: h.Epoch, Position: 2}.String(), "head": h.String(), "cause": c.cause,
			}, fault.From(err).Details)
		}
		f := follow(t, l, events.Filter{Tenant: "acme"}, &events.Cursor{Epoch: h.Epoch, Position: 2})
		require.Equal(t, int64(3), next(t, f).Position)
		follow(t, l, events.Filter{Tenant: "acme"}, &h)
	})

	t.Run("retention passes a reader on its way", func(t *testing.T) {
		t.Parallel()
		// A slow reader that comes back for events that are gone is told so, and is given none from beyond the gap.
		d := dbtest.New(t)
		l := running(t, d, events.Options{Ring: 16, Page: 40})
		start := head(t, d)
		burst := make([]events.Entry, 100)
		for i := range burst {
			burst[i] = entry("acme", "node_a", "node.tainted")
		}
		write(t, d, burst...)
		f := follow(t, l, events.Filter{Tenant: "acme"}, &start)
		got := next(t, f).Position
		_, err := d.Pool().Exec(t.Context(), "update event_clock set oldest = 91")
		require.NoError(t, err)
		_, err = d.Pool().Exec(t.Context(), "delete from events where position < 91")
		require.NoError(t, err)
		for {
			e, err := f.Next(t.Context())
			if err != nil {
				require.Equal(t, fault.CursorExpired, fault.CodeOf(err))
				require.Equal(t, "retention", fault.From(err).Details["cause"])
				break
			}
			require.Equal(t, got+1, e.Position)
			got = e.Position
		}
		require.Less(t, got, int64(90))
	})

	t.Run("the log is replaced under its readers", func(t *testing.T) {
		t.Parallel()
		// After a restore every live reader is told that its cursor is of another log, and new ones follow the new log.
		d := dbtest.New(t)
		l := running(t, d, events.Options{Look: 20 * time.Millisecond})
		f := follow(t, l, events.Filter{Tenant: "acme"}, nil)
		write(t, d, entry("acme", "node_a", "node.cordoned"))
		old := next(t, f).Cursor()
		_, err := d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
			events.NewEpoch(tx)
			return nil
		})
		require.NoError(t, err)
		require.NotEqual(t, old.Epoch, head(t, d).Epoch)
		_, err = f.Next(t.Context())
		require.Equal(t, fault.CursorExpired, fault.CodeOf(err))
		require.Equal(t, "epoch", fault.From(err).Details["cause"])
		fresh := follow(t, l, events.Filter{Tenant: "acme"}, nil)
		c := write(t, d, entry("acme", "node_a", "node.cordoned"))
		require.Equal(t, c.Position, next(t, fresh).Position)
	})

	t.Run("the log loses its newest commits", func(t *testing.T) {
		t.Parallel()
		// After a failover to a copy that lacked them, a reader that had seen them is ended, and one that hadn't goes on with what comes.
		d := dbtest.New(t)
		l := running(t, d, events.Options{Look: 20 * time.Millisecond, Ring: 8})
		write(t, d, entry("acme", "node_a", "node.cordoned"))
		ahead := follow(t, l, events.Filter{Tenant: "acme"}, nil)
		behind := follow(t, l, events.Filter{Tenant: "acme"}, &events.Cursor{Epoch: head(t, d).Epoch})
		require.Equal(t, int64(1), next(t, behind).Position)
		for range 20 {
			write(t, d, entry("acme", "node_a", "node.lost"))
		}
		for range 20 {
			next(t, ahead)
		}
		_, err := d.Pool().Exec(t.Context(), "with gone as (delete from events where position > 1) update event_clock set position = 1")
		require.NoError(t, err)
		_, err = ahead.Next(t.Context())
		require.Equal(t, fault.CursorExpired, fault.CodeOf(err))
		require.Equal(t, "ahead", fault.From(err).Details["cause"])
		write(t, d, entry("acme", "node_a", "node.new"))
		e := next(t, behind)
		require.Equal(t, int64(2), e.Position)
		require.Equal(t, "node.new", e.Type)
	})
}
