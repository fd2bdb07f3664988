package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is the verbs that workers call, on a database of its own with one node that takes work.
type bundle struct {
	*testing.T

	db     *db.DB
	parts  Parts
	nodeID string
}

var alex = iam.System("alex")

func setup(t *testing.T) *bundle {
	t.Helper()
	d := dbtest.New(t)
	authority, err := iam.NewAuthority(d)
	require.NoError(t, err)
	b := &bundle{T: t, db: d, parts: Parts{
		Controls: &controls.Controls{Nodes: &node.Store{DB: d, Authority: authority}},
		Bookings: &placement.Bookings{DB: d, Authority: authority},
	}}
	_, err = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if err := iam.CreateTenantTx(ctx, tx, "acme"); err != nil {
			return err
		}
		p, err := node.CreatePoolTx(ctx, tx, "acme", "gpus")
		if err != nil {
			return err
		}
		n, err := node.CreateTx(tx, node.New{Key: id.New(id.Session), PoolID: p.ID, Hostname: "gpu-1", By: "test"})
		if err != nil {
			return err
		}
		b.nodeID = n
		_, err = tx.Exec(ctx, `update nodes set provision_state = 'ADOPTED' where id = $1`, n)
		return err
	})
	require.NoError(t, err)
	return b
}

// drain drains the node and gives the drain's job.
func (b *bundle) drain() *river.Job[controls.DrainJob] {
	b.Helper()
	c, err := b.parts.Controls.Drain(b.Context(), node.Edit{Who: alex, TenantID: "acme", NodeID: b.nodeID}, controls.Draining{})
	require.NoError(b, err)
	return &river.Job[controls.DrainJob]{JobRow: &rivertype.JobRow{Attempt: 1}, Args: controls.DrainJob{NodeID: b.nodeID, DrainID: c.Node.LastDrain.ID}}
}

func (b *bundle) book(lasts time.Duration) {
	b.Helper()
	_, err := b.parts.Bookings.Create(b.Context(), placement.Booking{Who: alex, TenantID: "acme", NodeID: b.nodeID, Duration: lasts})
	require.NoError(b, err)
}

func (b *bundle) state() node.DrainState {
	b.Helper()
	v, err := b.parts.Controls.Nodes.Get(b.Context(), alex, "acme", b.nodeID)
	require.NoError(b, err)
	return v.LastDrain.State
}

// snoozed gives for how long a pass has put its job off.
func snoozed(t *testing.T, err error) time.Duration {
	t.Helper()
	var s *river.JobSnoozeError
	require.ErrorAs(t, err, &s)
	return s.Duration
}

// run runs the jobs until the test, or what is given back, ends them.
func (b *bundle) run(tidy ...Tidying) (stop func()) {
	b.Helper()
	b.parts.Tidy = tidy
	r, err := NewRunner(b.db, b.parts, slog.New(slog.DiscardHandler))
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var done sync.WaitGroup
	done.Go(func() {
		if err := r.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	stop = func() { cancel(); done.Wait() }
	b.Cleanup(stop)
	return stop
}

func TestDrainPass(t *testing.T) {
	t.Parallel()

	t.Run("B1 an open-ended allocation is looked at again in five minutes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.book(0)
		w := &drainWorker{controls: b.parts.Controls}
		require.Equal(t, 5*time.Minute, snoozed(t, w.Work(t.Context(), b.drain())))
	})

	t.Run("an end within five minutes is waited for exactly, one after them is not", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.book(time.Hour)
		job := b.drain()
		w := &drainWorker{controls: b.parts.Controls}
		require.Equal(t, 5*time.Minute, snoozed(t, w.Work(t.Context(), job)))
		_, err := b.db.Pool().Exec(t.Context(), `update allocations set ends_at = clock_timestamp() + interval '90 seconds'`)
		require.NoError(t, err)
		next := snoozed(t, w.Work(t.Context(), job))
		require.LessOrEqual(t, next, 90*time.Second)
		require.Greater(t, next, 60*time.Second)
	})

	t.Run("an end that is due and not written is no busy loop", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.book(time.Hour)
		job := b.drain()
		_, err := b.db.Pool().Exec(t.Context(), `update allocations set starts_at = now() - interval '2 hours', ends_at = now() - interval '1 hour'`)
		require.NoError(t, err)
		require.Equal(t, leastSnooze, snoozed(t, (&drainWorker{controls: b.parts.Controls}).Work(t.Context(), job)))
		require.Equal(t, node.Draining, b.state(), "an end is a fact that is written, never read off a clock")
		require.NoError(t, b.parts.turn(t.Context()))
		require.Equal(t, node.Drained, b.state(), "who writes the end looks at the drain")
	})

	t.Run("an empty node is drained, and a job whose drain is over or another's ends", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		w := &drainWorker{controls: b.parts.Controls}
		first := b.drain()
		require.NoError(t, w.Work(t.Context(), first))
		require.Equal(t, node.Drained, b.state())
		require.NoError(t, w.Work(t.Context(), first))
		_, err := b.parts.Controls.Uncordon(t.Context(), node.Edit{Who: alex, TenantID: "acme", NodeID: b.nodeID}, controls.Uncordoning{})
		require.NoError(t, err)
		b.book(0)
		second := b.drain()
		require.NoError(t, w.Work(t.Context(), first))
		require.Equal(t, 5*time.Minute, snoozed(t, w.Work(t.Context(), second)))
	})

	t.Run("a wake looks once, whatever it finds", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		w := &drainWakeWorker{controls: b.parts.Controls}
		wake := &river.Job[placement.DrainWake]{Args: placement.DrainWake{NodeID: b.nodeID}}
		require.NoError(t, w.Work(t.Context(), wake), "no drain")
		b.book(0)
		b.drain()
		require.NoError(t, w.Work(t.Context(), wake), "not empty")
		require.Equal(t, node.Draining, b.state())
		_, err := b.db.Pool().Exec(t.Context(), `update allocations set released_at = now()`)
		require.NoError(t, err)
		require.NoError(t, w.Work(t.Context(), wake))
		require.Equal(t, node.Drained, b.state())
	})

	t.Run("a look that failed is tried again within seconds, however often", func(t *testing.T) {
		t.Parallel()
		w := &drainWorker{}
		for attempt := range 30 {
			wait := time.Until(w.NextRetry(&river.Job[controls.DrainJob]{JobRow: &rivertype.JobRow{Attempt: attempt + 1}}))
			require.LessOrEqual(t, wait, 10*time.Second)
			require.Positive(t, wait)
		}
	})

	t.Run("a sweep gives a drain that lost its job a new one", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.book(0)
		b.drain()
		_, err := b.db.Pool().Exec(t.Context(), `delete from river_job`)
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, (&drainSweepWorker{controls: b.parts.Controls}).Work(t.Context(), nil))
			var jobs int
			require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select count(*) from river_job where kind = 'drain'`).Scan(&jobs))
			require.Equal(t, 1, jobs)
		}
	})
}

func TestTidyPass(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	ran := 0
	w := &tidyWorker{parts: Parts{Tidy: []Tidying{
		{Name: "good", Run: func(context.Context) error { ran++; return nil }},
		{Name: "bad", Run: func(context.Context) error { return broken }},
	}}}
	pass := func(name string, age time.Duration) error {
		return w.Work(t.Context(), &river.Job[Tidy]{JobRow: &rivertype.JobRow{CreatedAt: time.Now().Add(-age)}, Args: Tidy{Name: name}})
	}
	require.NoError(t, pass("good", 0))
	require.Equal(t, 1, ran)
	err := pass("bad", 0)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "bad")
	// Another version's act is left to it while it can still be there.
	require.Equal(t, tidySnooze, snoozed(t, pass("unknown", 23*time.Hour)))
	var cancelled *river.JobCancelError
	require.ErrorAs(t, pass("unknown", 25*time.Hour), &cancelled)
	require.NoError(t, pass("good", 25*time.Hour), "one that it knows is run, however old")
}

func TestRunner(t *testing.T) {
	t.Parallel()

	t.Run("the real client works a drain from its job alone, and what failed is tried again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tries := make(chan struct{}, 10)
		b.run(Tidying{Name: "once bad", Every: time.Hour, Run: func(context.Context) error {
			tries <- struct{}{}
			if len(tries) == 1 {
				return errors.New("the first try fails")
			}
			return nil
		}})
		b.drain()
		require.Eventually(t, func() bool { return b.state() == node.Drained }, 20*time.Second, 10*time.Millisecond)
		require.Eventually(t, func() bool { return len(tries) == 2 }, 20*time.Second, 10*time.Millisecond)
		require.Eventually(t, func() bool {
			var state string
			err := b.db.Pool().QueryRow(t.Context(), `select state from river_job where kind = 'tidy' and args ->> 'name' = 'once bad'`).Scan(&state)
			return err == nil && state == "completed"
		}, 20*time.Second, 10*time.Millisecond)
	})

	t.Run("an act that keeps the database in order may take minutes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		bound := make(chan time.Duration, 1)
		b.run(Tidying{Name: "slow", Every: time.Hour, Run: func(ctx context.Context) error {
			ends, bounded := ctx.Deadline()
			if !bounded {
				return errors.New("without a bound it would hang for ever")
			}
			bound <- time.Until(ends)
			return nil
		}})
		select {
		case d := <-bound:
			require.InDelta(t, 10*time.Minute, d, float64(time.Minute))
		case <-time.After(20 * time.Second):
			t.Fatal("the act does not run")
		}
	})

	t.Run("stopping lets what runs finish", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		began, release, finished := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		stop := b.run(Tidying{Name: "long", Every: time.Hour, Run: func(ctx context.Context) error {
			close(began)
			<-release
			finished <- ctx.Err()
			return nil
		}})
		<-began
		stopped := make(chan struct{})
		go func() { defer close(stopped); stop() }()
		select {
		case <-stopped:
			t.Fatal("the runner stopped with a job under way")
		case <-time.After(100 * time.Millisecond):
		}
		close(release)
		<-stopped
		require.NoError(t, <-finished, "its context lives until it is done")
	})
}
