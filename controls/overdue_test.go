package controls_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/node"
)

func TestCordonUntil(t *testing.T) {
	t.Parallel()

	t.Run("An end is kept with the cordon, and nothing is lifted by itself: it is told once a day", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, other := b.node(), b.node()
		until := time.Now().Add(time.Hour)
		done, err := b.controls.Cordon(t.Context(), b.edit(b.alex, n, "BIOS"), controls.Cordoning{Until: &until})
		require.NoError(t, err)
		require.WithinDuration(t, until, *done.Node.Cordon.Until, time.Microsecond)
		_, err = b.cordon(t.Context(), b.edit(b.alex, other, "without an end"))
		require.NoError(t, err)
		tell := func() {
			var g errgroup.Group // several processes may look at once
			for range 4 {
				g.Go(func() error { return b.controls.TellOverdue(t.Context()) })
			}
			require.NoError(t, g.Wait())
		}
		tell()
		require.False(t, b.get(n).Cordon.Overdue)
		b.exec(`update nodes set cordon_until = now() - interval '1 minute' where id = $1`, n)
		version := b.get(n).Version
		for range 3 {
			tell()
		}
		require.Equal(t, []string{"node.cordoned", "node.cordon-overdue"}, b.log(n))
		told := b.events(n)[1]
		require.Equal(t, []string{controls.Overseer, "BIOS"}, []string{told.Actor, told.Reason})
		v := b.get(n)
		require.True(t, v.Cordon.Overdue)
		require.Equal(t, version, v.Version, "being told of moves nothing")
		require.Contains(t, v.StatusSentence(time.Now()), "overdue")
		b.exec(`update node_cordon_told set told_at = now() - interval '25 hours'`)
		tell()
		require.Equal(t, 2, b.count(n, "node.cordon-overdue"))
		_, err = b.uncordon(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		b.exec(`update node_cordon_told set told_at = now() - interval '25 hours'`)
		tell()
		require.Equal(t, 2, b.count(n, "node.cordon-overdue"))
		// The next cordon has none of it.
		_, err = b.cordon(t.Context(), b.edit(b.sam, n, ""))
		require.NoError(t, err)
		require.Nil(t, b.get(n).Cordon.Until)
		require.Equal(t, []string{"node.cordoned"}, b.log(other))
	})

	t.Run("A reason is updated as an act of its own; who holds the cordon since when stays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		update := func(reason string, until *time.Time) (node.Changed, error) {
			return b.controls.Cordon(t.Context(), b.edit(b.sam, n, reason), controls.Cordoning{Update: true, Until: until})
		}
		_, err := update("x", nil)
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		require.Equal(t, false, fault.From(err).Details["cordoned"])
		_, err = b.cordon(t.Context(), b.edit(b.alex, n, "BIOS"))
		require.NoError(t, err)
		before := b.get(n).Cordon
		until := time.Now().Add(time.Hour)
		done, err := update("waits for parts", &until)
		require.NoError(t, err)
		require.True(t, done.Changed)
		require.Equal(t, 3, done.Node.Version)
		got := b.get(n).Cordon
		require.Equal(t, []any{"alex", before.At, node.Text("waits for parts")}, []any{got.By, got.At, got.Reason})
		require.NotNil(t, got.Until)
		require.Equal(t, []string{"node.cordoned", "node.cordon-updated"}, b.log(n))
		require.Equal(t, []string{"sam", "waits for parts"}, []string{b.events(n)[1].Actor, b.events(n)[1].Reason})
		done, err = update("waits for parts", &until)
		require.NoError(t, err)
		require.False(t, done.Changed)
	})

	t.Run("An uncordon can be for one's own cordon only", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		mine := controls.Uncordoning{IfBy: "sam"}
		done, err := b.controls.Uncordon(t.Context(), b.edit(b.sam, n, ""), mine)
		require.NoError(t, err)
		require.False(t, done.Changed, "there is none")
		_, err = b.cordon(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		_, err = b.controls.Uncordon(t.Context(), b.edit(b.sam, n, ""), mine)
		require.Equal(t, fault.Conflict, fault.CodeOf(err))
		require.Equal(t, []any{"sam", "alex"}, []any{fault.From(err).Details["expected"], fault.From(err).Details["actual"]})
		require.True(t, b.get(n).Cordoned())
		done, err = b.controls.Uncordon(t.Context(), b.edit(b.sam, n, ""), controls.Uncordoning{IfBy: "alex"})
		require.NoError(t, err)
		require.True(t, done.Changed)
	})
}

func TestDrainDeadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	r := b.book(n, 0)
	deadline := time.Now().Add(time.Hour)
	done, err := b.controls.Drain(t.Context(), b.edit(b.alex, n, "PSU"), controls.Draining{Deadline: &deadline})
	require.NoError(t, err)
	require.WithinDuration(t, deadline, *done.Node.LastDrain.Deadline, time.Microsecond)
	// Another deadline on a drain that runs changes nothing.
	later := deadline.Add(time.Hour)
	again, err := b.controls.Drain(t.Context(), b.edit(b.sam, n, ""), controls.Draining{Deadline: &later})
	require.NoError(t, err)
	require.False(t, again.Changed)
	require.WithinDuration(t, deadline, *b.get(n).LastDrain.Deadline, time.Microsecond)
	require.NoError(t, b.controls.TellOverdue(t.Context()))
	b.exec(`update node_drains set deadline = now() - interval '1 second' where node_id = $1`, n)
	require.True(t, b.get(n).LastDrain.Overdue)
	var g errgroup.Group
	for range 4 {
		g.Go(func() error { return b.controls.TellOverdue(t.Context()) })
	}
	require.NoError(t, g.Wait())
	require.NoError(t, b.controls.TellOverdue(t.Context()))
	require.Equal(t, 1, b.count(n, "node.drain-overdue"), "once")
	var told controls.DrainOverdue
	all := b.events(n)
	require.NoError(t, json.Unmarshal(all[len(all)-1].Data, &told))
	require.Equal(t, done.Node.LastDrain.ID, told.DrainID)
	require.Equal(t, "PSU", all[len(all)-1].Reason)
	// Nothing was ended by it, and the drain goes on to its end.
	require.Equal(t, node.Draining, b.get(n).LastDrain.State)
	b.release(r)
	b.look(n)
	require.Equal(t, node.Drained, b.get(n).LastDrain.State)
	require.False(t, b.get(n).LastDrain.Overdue)
}

func TestEndsAhead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	past, far := time.Now().Add(-time.Minute), time.Now().Add(11*365*24*time.Hour)
	for name, end := range map[string]*time.Time{"past": &past, "beyond ten years": &far} {
		t.Run("H1 refused: "+name, func(t *testing.T) {
			t.Parallel()
			_, err := b.controls.Cordon(t.Context(), b.edit(b.alex, n, ""), controls.Cordoning{Until: end})
			require.Equal(t, "until", fault.From(err).Details["argument"])
			_, err = b.controls.Drain(t.Context(), b.edit(b.alex, n, ""), controls.Draining{Deadline: end})
			require.Equal(t, "deadline", fault.From(err).Details["argument"])
		})
	}
	t.Cleanup(func() { require.Empty(t, b.log(n)) })
}

func TestPlanDrain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	plan := func() controls.Plan {
		p, err := b.controls.PlanDrain(t.Context(), n)
		require.NoError(t, err)
		return p
	}
	require.Zero(t, plan().Held.Live)
	require.Empty(t, plan().Blockers)
	b.book(n, time.Hour)
	p := plan()
	require.Equal(t, 1, p.Held.Live)
	require.Equal(t, p.Blockers[0].EndsAt, p.ExpectedAt, "the exact end")
	b.book(n, 0)
	p = plan()
	require.Len(t, p.Blockers, 2)
	require.Nil(t, p.ExpectedAt, "one is open-ended")
	require.Empty(t, b.get(n).NoScheduleReasons(), "a plan changes nothing")
	require.Equal(t, 1, b.get(n).Version)
}

func TestListDrains(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var running []string
	for range 5 {
		n := b.node()
		b.book(n, 0)
		running = append([]string{b.drain(n, "").Node.LastDrain.ID}, running...)
	}
	ended := b.node()
	b.drain(ended, "")
	b.look(ended)
	list := func(l node.DrainListing) (ids []string) {
		for more := true; more; {
			var page []node.DrainView
			var err error
			page, more, err = b.controls.Nodes.ListDrains(t.Context(), "acme", l)
			require.NoError(t, err)
			for _, d := range page {
				ids = append(ids, d.ID)
				l.After = d.ID
			}
		}
		return ids
	}
	for first := 1; first <= 6; first++ {
		require.Equal(t, running, list(node.DrainListing{Active: true, First: first}), "pages of %d join to the whole", first)
	}
	require.Equal(t, []string{b.get(ended).LastDrain.ID}, list(node.DrainListing{First: 5}))
	require.Equal(t, running, list(node.DrainListing{Active: true, PoolID: &b.pool, First: 9}))
	elsewhere := "pool_01k5wjb4s8fpvb0q9f6m3h2c9f"
	require.Empty(t, list(node.DrainListing{Active: true, PoolID: &elsewhere, First: 9}))
	unseen, _, err := b.controls.Nodes.ListDrains(t.Context(), "other", node.DrainListing{Active: true, First: 9})
	require.NoError(t, err)
	require.Empty(t, unseen)
}

// The look for what is overdue, which runs every second or two, reads what is due and not the fleet, however many cordons have an end.
func TestOverdueLook(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.WithMaxConns(1))
	b.exec(`
		with made as (
		  insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by, cordoned, cordon_by, cordon_at, cordon_until)
		  select id, id, 'acme', $1, id, 'ADOPTED', 'TRUSTED', 'test', true, 'test', now(), now() + interval '1 day'
		  from (select 'node_' || lpad(i::text, 26, '0') as id from generate_series(1, 3000) i) x returning id)
		insert into node_projection (tenant_id, node_id, relation) select 'acme', id, 'OWNER' from made`, b.pool)
	b.exec(`analyze`)
	n := b.node()
	_, err := b.cordon(t.Context(), b.edit(b.alex, n, ""))
	require.NoError(t, err)
	b.exec(`update nodes set cordon_until = now() - interval '1 minute' where id = $1`, n)
	look := func() { require.NoError(t, b.controls.TellOverdue(t.Context())) }
	require.Less(t, dbtest.Rows(t, b.db, "nodes", look), 100)
	require.Equal(t, []string{"node.cordoned", "node.cordon-overdue"}, b.log(n))
	require.Less(t, dbtest.Rows(t, b.db, "nodes", func() {
		_, err := node.CountDrains(t.Context(), b.db.Pool())
		require.NoError(t, err)
	}), 100)
}
