package controls_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// trips counts round trips to the database: a statement by itself, or a batch.
type trips struct{ n atomic.Int64 }

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	// Each round trip is latency under the node's lock or before it, so their number is fixed here.
	sent := &trips{}
	b := setup(t, dbtest.With(func(c *db.Config) { c.Tracer = sent }))
	n := b.node()
	b.drain(b.node(), "") // River asks once which PostgreSQL it has
	of := func(act func() error) int64 {
		before := sent.n.Load()
		require.NoError(t, act())
		return sent.n.Load() - before
	}
	require.EqualValues(t, 2, of(func() error {
		_, err := b.cordon(t.Context(), b.edit(b.sam, n, ""))
		return err
	}), "BEGIN, decide, lock and load; save, clock, event and COMMIT")
	require.EqualValues(t, 2, of(func() error {
		e := b.edit(b.sam, n, "")
		e.RequestID = "once"
		_, err := b.uncordon(t.Context(), e)
		return err
	}), "a request id is claimed in the first of them")
	require.EqualValues(t, 2, of(func() error {
		_, err := b.drainBy(t.Context(), b.edit(b.sam, n, ""))
		return err
	}), "as a cordon: the look, and the drain's end, go along")
	require.Equal(t, node.Drained, b.get(n).LastDrain.State)
	r := b.book(b.node(), 0)
	require.EqualValues(t, 3, of(func() error {
		_, err := b.controls.Release(t.Context(), placement.Release{Who: b.alex, TenantID: "acme", ReservationID: r.ID})
		return err
	}), "BEGIN, decide and lock the reservation; lock the node, let go of it and look; save, clock, events and COMMIT")
	b.controls.DrainsByJob = true
	b.drain(n, "")
	require.EqualValues(t, 3, of(func() error {
		_, err := b.controls.LookAtDrain(t.Context(), n)
		return err
	}), "a look without a lock; BEGIN, lock, load and what holds the node; save, clock, event and COMMIT")
	require.Equal(t, node.Drained, b.get(n).LastDrain.State)
	require.EqualValues(t, 1, of(func() error {
		look, err := b.controls.LookAtDrain(t.Context(), n)
		require.True(t, look.Over)
		return err
	}), "a look at what is over locks nothing")
	require.EqualValues(t, 2, of(func() error {
		done, err := b.controls.Delete(t.Context(), b.edit(b.sam, n, ""))
		require.True(t, done.Deleted)
		return err
	}), "BEGIN, decide, lock, load and what holds the node; the whole list, clock, event and COMMIT")
}
