package events_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openDB is another process's pool on a database.
func openDB(t *testing.T, url string) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), db.Config{URL: url, Strict: true})
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// running makes a Log and runs it until the test ends; then Run must return, with every goroutine gone.
func running(t *testing.T, d *db.DB, o events.Options) *events.Log {
	t.Helper()
	l := events.NewLog(d, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			require.ErrorIs(t, err, context.Canceled)
		case <-time.After(10 * time.Second):
			t.Error("Run did not return after its context ended")
		}
	})
	require.Eventually(t, func() bool { return l.Stats().Unseen < 5*time.Second && l.Ready() }, 10*time.Second, time.Millisecond)
	return l
}

// entry is an event of a node that one tenant sees as a whole.
func entry(tenant, node, kind string) events.Entry {
	return events.Entry{
		Type: kind, TenantID: tenant, NodeID: node, Actor: "alex", Reason: "because",
		Data: map[string]any{"n": 1}, Audience: events.Audience{Full: []string{tenant}},
	}
}

// write commits the events in one transaction.
func write(t *testing.T, d *db.DB, entries ...events.Entry) db.Committed {
	t.Helper()
	c, err := writeErr(t.Context(), d, entries...)
	require.NoError(t, err)
	return c
}

func writeErr(ctx context.Context, d *db.DB, entries ...events.Entry) (db.Committed, error) {
	return d.Do(ctx, func(_ context.Context, tx *db.Tx) error {
		for _, e := range entries {
			if err := events.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// gate is a Visibility that a test can close.
type gate struct {
	mu   sync.Mutex
	err  error
	view func(events.Event) (events.Event, bool)
}

func (g *gate) Check(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

func (g *gate) set(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *gate) View(e events.Event) (events.Event, bool) {
	if g.view == nil {
		return e, true
	}
	return g.view(e)
}

func follow(t *testing.T, l *events.Log, f events.Filter, after *events.Cursor) *events.Follower {
	t.Helper()
	follower, err := l.Follow(t.Context(), f, after, &gate{})
	require.NoError(t, err)
	t.Cleanup(follower.Close)
	return follower
}

// next waits for one event, at most 20 seconds.
func next(t *testing.T, f *events.Follower) events.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := f.Next(ctx)
	require.NoError(t, err)
	return e
}

// nothing says that the follower has looked at everything up to the position, and that nothing of it was for the reader.
func nothing(t *testing.T, f *events.Follower, upTo int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan events.Event, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if e, err := f.Next(ctx); err == nil {
			got <- e
		}
	}()
	require.Eventually(t, func() bool { return f.Position().Position >= upTo || len(got) > 0 }, 10*time.Second, time.Millisecond)
	cancel()
	<-done
	select {
	case e := <-got:
		t.Errorf("an event that is not for this reader: %d %s", e.Position, e.Type)
	default:
	}
}

func at(position int64, f *events.Follower) *events.Cursor {
	c := f.Position()
	c.Position = position
	return &c
}

func head(t *testing.T, d *db.DB) events.Cursor {
	t.Helper()
	c, err := events.Head(t.Context(), d.Pool())
	require.NoError(t, err)
	return c
}
