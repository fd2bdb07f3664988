package controls_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/node"
)

// jobs counts the drains' jobs that nobody has taken up.
func (b *bundle) jobs() int {
	b.Helper()
	var n int
	require.NoError(b, b.db.Pool().QueryRow(context.WithoutCancel(b.Context()), `select count(*) from river_job where kind = 'drain'`).Scan(&n))
	return n
}

func TestOperationDrain(t *testing.T) {
	t.Parallel()
	limited := func(n int) controls.Manner { return controls.Manner{Verb: controls.VerbDrain, MaxPerPool: &n} }

	t.Run("An empty node's drain ends with the batch, with both events and without a job; one that holds something waits for its job", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(6)
		held := b.book(ids[2], 0)
		b.book(ids[4], time.Hour)
		o := b.begin(controls.ManyEdit{SelectionID: b.selected(b.alex, ids...), Reason: "PSU", Manner: verbs["drain"]})
		require.True(t, b.run(o).Over)
		require.Equal(t, "DONE: 6 done, 0 unchanged, 0 refused, 0 left", b.counts(o.ID))
		for i, n := range ids {
			v := b.get(n)
			if i == 2 || i == 4 {
				require.Equal(t, []string{"reservation.created", "node.draining"}, b.log(n))
				require.NotNil(t, v.Running())
				continue
			}
			require.Equal(t, []string{"node.draining", "node.drained"}, b.log(n))
			list := b.events(n)
			require.Equal(t, list[0].Position+1, list[1].Position)
			require.Equal(t, []string{"drain-controller", "PSU", ""}, []string{list[1].Actor, list[1].Reason, list[1].RequestID})
			require.JSONEq(t, `{"drainId": "`+v.LastDrain.ID+`", "confirmedByNode": false}`, string(list[1].Data))
			require.Equal(t, node.Drained, v.LastDrain.State)
			require.True(t, v.Cordoned())
			require.Empty(t, v.Reasons)
			require.Equal(t, 2, v.Version, "it moves once for both")
		}
		require.Equal(t, 2, b.jobs())
		var at []time.Duration
		rows, err := b.db.Pool().Query(t.Context(), `select scheduled_at - now() from river_job where kind = 'drain' order by scheduled_at`)
		require.NoError(t, err)
		for rows.Next() {
			var d time.Duration
			require.NoError(t, rows.Scan(&d))
			at = append(at, d)
		}
		require.NoError(t, rows.Err())
		require.Len(t, at, 2)
		require.Greater(t, at[0], 4*time.Minute, "the look has been taken under the lock")
		b.release(held)
		require.Equal(t, []string{"reservation.created", "node.draining", "reservation.released", "node.drained"}, b.log(ids[2]))
	})

	t.Run("A drain that is over at once takes no slot, also where all are taken", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(9)
		first := b.book(ids[3], 0)
		b.book(ids[6], 0)
		o := b.begin(controls.ManyEdit{NodeIDs: ids, Manner: limited(1)})
		p := b.run(o)
		require.False(t, p.Over)
		require.Equal(t, "RUNNING: 6 done, 0 unchanged, 0 refused, 3 left", b.counts(o.ID), "what is empty goes on until one needs the slot that another has")
		require.Equal(t, 1, b.running(b.pool))
		require.Equal(t, 5, b.total("node.drained"))
		require.Contains(t, b.operation(o.ID).Waiting, "1 drain runs in pool gpus, and at most 1 may")
		other := b.begin(controls.ManyEdit{NodeIDs: b.fleet(3), Manner: limited(1)})
		require.True(t, b.run(other).Over, "it needs none")
		b.release(first)
		require.True(t, b.run(o).Over)
		require.Equal(t, "DONE: 9 done, 0 unchanged, 0 refused, 0 left", b.counts(o.ID))
		require.Equal(t, 1, b.running(b.pool))
		require.Equal(t, 11, b.total("node.drained"))
	})

	t.Run("What is booked between the look at the slots and the lock waits for its slot", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(2)
		b.book(ids[0], 0)
		// The second node is taken while the batch waits for it, so that it is empty before the lock and held after.
		tx, err := b.db.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `select from nodes where id = $1 for update`, ids[1])
		require.NoError(t, err)
		o := b.begin(controls.ManyEdit{NodeIDs: ids, Manner: limited(1)})
		done := make(chan controls.Progress, 1)
		go func() {
			p, err := b.controls.RunOperation(context.WithoutCancel(t.Context()), controls.OperationJob{OperationID: o.ID, Run: 1})
			if err != nil {
				t.Error(err)
			}
			done <- p
		}()
		b.eventually(10*time.Second, func() bool {
			var waits bool
			require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select exists (select from pg_locks where not granted and pid <> pg_backend_pid()
				and pid in (select pid from pg_stat_activity where datname = current_database()))`).Scan(&waits))
			return waits
		}, "the batch waits for the node")
		_, err = tx.Exec(t.Context(), `
			with r as (insert into reservations (id, tenant_id, created_by, created_at) values ('res_00000000000000000000000001', 'acme', 'sam', now()) returning id)
			insert into allocations (id, reservation_id, tenant_id, node_id, starts_at) select 'alloc_00000000000000000000000001', id, 'acme', $1, now() from r`, ids[1])
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
		require.False(t, (<-done).Over)
		require.Equal(t, "RUNNING: 1 done, 0 unchanged, 0 refused, 1 left", b.counts(o.ID))
		require.Equal(t, 1, b.running(b.pool))
	})

	t.Run("A node that another drained while the batch waited for it is unchanged", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(2)
		tx, err := b.db.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `select from nodes where id = $1 for update`, ids[0])
		require.NoError(t, err)
		waiting := func(n int) {
			b.eventually(10*time.Second, func() bool {
				var waits int
				require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select count(*) from pg_locks where not granted
					and pid in (select pid from pg_stat_activity where datname = current_database())`).Scan(&waits))
				return waits == n
			}, "they wait in line")
		}
		sam := make(chan error, 1)
		go func() {
			_, err := b.drainBy(context.WithoutCancel(t.Context()), b.edit(b.sam, ids[0], "mine"))
			sam <- err
		}()
		waiting(1)
		o := b.begin(controls.ManyEdit{NodeIDs: ids, Manner: verbs["drain"]})
		done := make(chan error, 1)
		go func() {
			_, err := b.controls.RunOperation(context.WithoutCancel(t.Context()), controls.OperationJob{OperationID: o.ID, Run: 1})
			done <- err
		}()
		waiting(2)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, <-sam)
		require.NoError(t, <-done)
		require.Equal(t, "DONE: 1 done, 1 unchanged, 0 refused, 0 left", b.counts(o.ID))
		require.Equal(t, []string{"node.draining", "node.drained"}, b.log(ids[0]), "once, and it is sam's")
		require.Equal(t, node.Text("drained already by sam"), b.results(o.ID)[ids[0]].Message)
	})

	t.Run("With --drains-by-job their jobs end them, and the limit counts them until then", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.controls.DrainsByJob = true
		ids := b.fleet(4)
		o := b.begin(controls.ManyEdit{NodeIDs: ids, Manner: limited(2)})
		require.False(t, b.run(o).Over)
		require.Equal(t, []int{2, 2}, []int{b.running(b.pool), b.jobs()})
		for range 2 {
			for _, n := range ids {
				_, err := b.controls.LookAtDrain(t.Context(), n)
				require.NoError(t, err)
			}
			b.run(o)
		}
		require.Equal(t, "DONE: 4 done, 0 unchanged, 0 refused, 0 left", b.counts(o.ID))
	})
}
