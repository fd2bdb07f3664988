package controls_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// running counts the drains that run in a pool.
func (b *bundle) running(pool string) int {
	b.Helper()
	var n int
	require.NoError(b, b.db.Pool().QueryRow(context.WithoutCancel(b.Context()), `
		select count(*) from node_drains d join nodes n on n.id = d.node_id where d.state = 'DRAINING' and n.pool_id = $1`, pool).Scan(&n))
	return n
}

// once says that an operation gave each node one result and one event.
func (b *bundle) once(o controls.Operation, ids []string, eventType string) {
	b.Helper()
	results := b.results(o.ID)
	require.Len(b, results, len(ids))
	var twice, all int
	require.NoError(b, b.db.Pool().QueryRow(context.WithoutCancel(b.Context()), `
		select count(*) filter (where n > 1), count(*) from (select node_id, count(*) as n from events where type = $1 and request_id = $2 group by node_id) as by_node`,
		eventType, o.ID).Scan(&twice, &all))
	require.Equal(b, []int{0, len(ids)}, []int{twice, all})
}

func TestOperationRaces(t *testing.T) {
	t.Parallel()

	t.Run("Killed at any point and taken up by several at once, it loses nothing and does nothing twice", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(1500)
		o := b.begin(controls.ManyEdit{SelectionID: b.selected(b.alex, ids...), Manner: verbs["drain"]})
		// Two jobs processes, each of which is cut again and again: its context ends, or the database's end of its session goes away.
		var workers sync.WaitGroup
		over, end := context.WithCancel(t.Context())
		for range 2 {
			workers.Go(func() {
				for cuts := 0; over.Err() == nil; cuts++ {
					ctx, cut := context.WithTimeout(over, time.Duration(5+rand.IntN(20+10*cuts))*time.Millisecond) // longer and longer, so that it ends on a slow machine
					if p, err := b.controls.RunOperation(ctx, controls.OperationJob{OperationID: o.ID, Run: 1}); err == nil && p.Over {
						end()
					}
					cut()
				}
			})
		}
		workers.Go(func() {
			for pause := 10 * time.Millisecond; over.Err() == nil; pause += 2 * time.Millisecond {
				_, _ = b.db.Pool().Exec(over, `select pg_terminate_backend(pid) from pg_stat_activity
					where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle' order by random() limit 1`)
				select {
				case <-over.Done():
				case <-time.After(pause):
				}
			}
		})
		go func() {
			select {
			case <-over.Done():
			case <-time.After(90 * time.Second):
				end()
			}
		}()
		workers.Wait()
		b.db.Pool().Reset() // one that was told to go may not have gone yet
		require.Equal(t, "DONE: 1500 done, 0 unchanged, 0 refused, 0 left", b.counts(o.ID))
		b.once(o, ids, "node.draining")
	})

	t.Run("Two operations that begin at the same moment never pass a pool's limit of drains together, nor does one with another limit", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		other, err := b.controls.Nodes.PoolCreate(t.Context(), b.alex, node.PoolCreateInput{TenantID: "acme", Name: "cpus"})
		require.NoError(t, err)
		ids, elsewhere := b.fleet(24), b.fleetIn(other.Pool.ID, 6)
		for _, n := range append(ids[:], elsewhere...) {
			b.book(n, 0)
		}
		limit := func(n int) controls.Manner { return controls.Manner{Verb: controls.VerbDrain, MaxPerPool: &n} }
		var ops []controls.Operation
		for i, part := range [][]string{ids[:8], ids[8:16], append(ids[16:24:24], elsewhere...)} {
			ops = append(ops, b.begin(controls.ManyEdit{SelectionID: b.selected(b.alex, part...), Manner: limit([]int{3, 3, 2}[i])}))
		}
		// Each round ends one drain, and then all operations go on at once.
		for round := 0; ; round++ {
			var at sync.WaitGroup
			for _, o := range ops {
				for range 3 {
					at.Go(func() {
						_, err := b.controls.RunOperation(context.WithoutCancel(t.Context()), controls.OperationJob{OperationID: o.ID, Run: 1})
						if err != nil && fault.CodeOf(err) != fault.Unavailable {
							t.Error(err)
						}
					})
				}
			}
			at.Wait()
			require.LessOrEqual(t, b.running(b.pool), 3)
			require.LessOrEqual(t, b.running(other.Pool.ID), 2)
			if round == 0 {
				require.Equal(t, 3, b.running(b.pool), "and they use it")
				require.Equal(t, 2, b.running(other.Pool.ID))
			}
			var node string
			err := b.db.Pool().QueryRow(t.Context(), `select node_id from node_drains where state = 'DRAINING' order by random() limit 1`).Scan(&node)
			if err != nil {
				break // none runs any more
			}
			_, err = b.db.Pool().Exec(t.Context(), `update allocations set released_at = now() where node_id = $1`, node)
			require.NoError(t, err)
			_, err = b.controls.LookAtDrain(t.Context(), node)
			require.NoError(t, err)
		}
		for i, o := range ops {
			require.Equal(t, fmt.Sprintf("DONE: %d done, 0 unchanged, 0 refused, 0 left", []int{8, 8, 14}[i]), b.counts(o.ID))
		}
		require.Equal(t, 30, b.total("node.drained"))
	})

	t.Run("An operation that waits says for what, does not hold up what needs no slot, and a stop ends the wait", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(3)
		for _, n := range ids {
			b.book(n, 0)
		}
		one := 1
		o := b.begin(controls.ManyEdit{NodeIDs: append(ids, id.New(id.Node)), Manner: controls.Manner{Verb: controls.VerbDrain, MaxPerPool: &one}})
		p := b.run(o)
		require.False(t, p.Over)
		require.Less(t, p.Next, time.Second)
		require.Equal(t, "RUNNING: 1 done, 0 unchanged, 1 refused, 2 left", b.counts(o.ID))
		require.Contains(t, b.operation(o.ID).Waiting, "at most 1 may")
		_, err := b.controls.Stop(t.Context(), controls.Stopping{Who: b.alex, TenantID: "acme", OperationID: o.ID})
		require.NoError(t, err)
		require.True(t, b.run(o).Over)
		require.Equal(t, "STOPPED: 1 done, 0 unchanged, 1 refused, 2 left", b.counts(o.ID))
		require.Empty(t, b.operation(o.ID).Waiting)
	})

	t.Run("Two jobs processes with the real client do it once, and an operation whose process died is taken up", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(1500)
		o := b.begin(controls.ManyEdit{SelectionID: b.selected(b.alex, ids...), Manner: verbs["cordon"]})
		// As a process leaves it that was killed with the job in its hands: River takes it away only after a minute.
		_, err := b.db.Pool().Exec(t.Context(), `update river_job set state = 'running', attempt = 1, attempted_at = now() - interval '15 seconds', attempted_by = '{dead}'`)
		require.NoError(t, err)
		_, err = b.db.Pool().Exec(t.Context(), `update node_operations set looked_at = now() - interval '15 seconds'`)
		require.NoError(t, err)
		b.work()
		b.work()
		b.eventually(40*time.Second, func() bool { return b.operation(o.ID).State == controls.OperationDone }, "it is done")
		b.once(o, ids, "node.cordoned")
		// The dead one's job comes back: it is not of the newest run.
		p, err := b.controls.RunOperation(t.Context(), controls.OperationJob{OperationID: o.ID, Run: 1})
		require.NoError(t, err)
		require.True(t, p.Over)
	})

	t.Run("An operation that waits for a worker, or was looked at, is not revived; one that is lost is, once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		o := b.begin(controls.ManyEdit{NodeIDs: b.fleet(1), Manner: verbs["cordon"]})
		revive := func(want int) {
			n, err := b.controls.ReviveOperations(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		revive(0)
		_, err := b.db.Pool().Exec(t.Context(), `update node_operations set looked_at = now() - interval '1 hour'`)
		require.NoError(t, err)
		revive(0)
		_, err = b.db.Pool().Exec(t.Context(), `delete from river_job`)
		require.NoError(t, err)
		revive(1)
		revive(0)
		p, err := b.controls.RunOperation(t.Context(), controls.OperationJob{OperationID: o.ID, Run: 1})
		require.NoError(t, err)
		require.True(t, p.Over, "another has it")
		require.Equal(t, "RUNNING: 0 done, 0 unchanged, 0 refused, 1 left", b.counts(o.ID))
		_, err = b.controls.RunOperation(t.Context(), controls.OperationJob{OperationID: o.ID, Run: 2})
		require.NoError(t, err)
		require.Equal(t, controls.OperationDone, b.operation(o.ID).State)
	})

	t.Run("Selections run out, the oldest make room, and ended operations are forgotten with all that hangs on them", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(2)
		first := b.selected(b.alex, ids...)
		o := b.begin(controls.ManyEdit{SelectionID: first, Manner: verbs["cordon"]})
		var last string
		for range 20 {
			last = b.selected(b.alex, ids...)
		}
		samsOwn := b.selected(b.sam, ids...)
		_, err := b.controls.Selection(t.Context(), b.alex, "acme", first)
		require.Equal(t, fault.NotFound, fault.CodeOf(err))
		require.True(t, b.run(o).Over, "it has its nodes")
		require.Equal(t, controls.OperationDone, b.operation(o.ID).State)
		_, err = b.controls.Selection(t.Context(), b.alex, "acme", last)
		require.NoError(t, err)
		_, err = b.db.Pool().Exec(t.Context(), `update node_selections set expires_at = now() - interval '1 second' where id = $1`, last)
		require.NoError(t, err)
		_, err = b.controls.Begin(t.Context(), controls.ManyEdit{Who: b.alex, TenantID: "acme", SelectionID: last, Manner: verbs["cordon"]})
		require.Equal(t, fault.NotFound, fault.CodeOf(err))
		waits := b.begin(controls.ManyEdit{SelectionID: samsOwn, Who: b.sam, Manner: verbs["cordon"]})
		_, err = b.db.Pool().Exec(t.Context(), `update node_operations set ended_at = now() - interval '31 days' where id = $1`, o.ID)
		require.NoError(t, err)
		require.NoError(t, b.controls.ForgetOperations(t.Context()))
		_, err = b.controls.Operation(t.Context(), "acme", o.ID)
		require.Equal(t, fault.NotFound, fault.CodeOf(err))
		require.Equal(t, controls.OperationRunning, b.operation(waits.ID).State)
		for table, want := range map[string]int{"node_selections": 20, "node_operations": 1, "node_operation_parts": 1, "node_operation_batches": 0, "node_selection_parts": 20} {
			var n int
			require.NoError(t, b.db.Pool().QueryRow(t.Context(), "select count(*) from "+table).Scan(&n))
			require.Equal(t, want, n, table)
		}
		for range 203 {
			empty, err := b.controls.Select(t.Context(), controls.Selecting{Who: b.alex, TenantID: "acme", Filter: &node.Filter{Hostnames: []string{"none"}}})
			require.NoError(t, err)
			b.begin(controls.ManyEdit{SelectionID: empty.Selection.ID, Manner: verbs["cordon"]})
		}
		require.NoError(t, b.controls.ForgetOperations(t.Context()))
		list, more, err := b.controls.Operations(t.Context(), "acme", false, 300, "")
		require.NoError(t, err)
		require.False(t, more)
		require.Len(t, list, 201)
	})

	t.Run("Of forty that begin at once no more run than may", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(1)
		var at sync.WaitGroup
		for range 40 {
			at.Go(func() {
				_, err := b.controls.Begin(context.WithoutCancel(t.Context()), controls.ManyEdit{Who: b.alex, TenantID: "acme", NodeIDs: ids, Manner: verbs["cordon"]})
				if err != nil && fault.CodeOf(err) != fault.ResourceExhausted {
					t.Error(err)
				}
			})
		}
		at.Wait()
		list, _, err := b.controls.Operations(t.Context(), "acme", true, 100, "")
		require.NoError(t, err)
		require.Len(t, list, 20)
	})

	t.Run("A selection holds 20,000 nodes, and one more is refused; it needs one connection", func(t *testing.T) {
		t.Parallel()
		b := setup(t, dbtest.With(func(c *db.Config) { c.MaxConns = 1 }))
		b.fleet(20_000)
		s, err := b.controls.Select(t.Context(), controls.Selecting{Who: b.alex, TenantID: "acme", Filter: &node.Filter{}})
		require.NoError(t, err)
		require.Equal(t, 20_000, s.Selection.Count)
		o := b.begin(controls.ManyEdit{SelectionID: s.Selection.ID, Manner: controls.Manner{Verb: controls.VerbUncordon}})
		require.True(t, b.run(o).Over)
		require.Equal(t, "DONE: 0 done, 20000 unchanged, 0 refused, 0 left", b.counts(o.ID))
		b.fleet(1)
		_, err = b.controls.Select(t.Context(), controls.Selecting{Who: b.alex, TenantID: "acme", Filter: &node.Filter{}})
		require.Equal(t, fault.ResourceExhausted, fault.CodeOf(err))
	})

	t.Run("Operations and single controls on the same nodes end without a deadlock, whatever the order", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(300)
		var ops []controls.Operation
		for _, name := range []string{"cordon", "taint", "label", "drain", "adopt"} {
			ops = append(ops, b.begin(controls.ManyEdit{NodeIDs: ids, Manner: verbs[name]}))
		}
		var at sync.WaitGroup
		for _, o := range ops {
			at.Go(func() {
				for {
					p, err := b.controls.RunOperation(context.WithoutCancel(t.Context()), controls.OperationJob{OperationID: o.ID, Run: 1})
					if err != nil {
						t.Error(err)
						return
					}
					if p.Over {
						return
					}
				}
			})
		}
		at.Go(func() {
			for i := range 60 {
				for _, verb := range b.verbs() {
					if _, err := verb(context.WithoutCancel(t.Context()), b.edit(b.sam, ids[(i*37)%len(ids)], "")); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
		at.Wait()
		for _, o := range ops {
			require.Equal(t, controls.OperationDone, b.operation(o.ID).State)
			require.Len(t, b.results(o.ID), 300)
		}
	})
}
