package controls_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

func (b *bundle) drain(nodeID, reason string) node.Changed {
	b.Helper()
	done, err := b.drainBy(b.Context(), b.edit(b.alex, nodeID, reason))
	require.NoError(b, err)
	return done
}

func (b *bundle) look(nodeID string) controls.Look {
	b.Helper()
	look, err := b.controls.LookAtDrain(b.Context(), nodeID)
	require.NoError(b, err)
	return look
}

func TestDrain(t *testing.T) {
	t.Parallel()

	t.Run("B1 an open-ended allocation keeps it draining, with a look each 5 minutes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.book(n, 0)
		b.drain(n, "replace PSU")
		look := b.look(n)
		require.False(t, look.Over)
		require.Equal(t, 5*time.Minute, look.Next)
		b.work()
		// The drain itself was the first look, so the primary job sleeps until the next: it is scheduled, minutes away.
		b.eventually(10*time.Second, func() bool {
			var far bool
			err := b.db.Pool().QueryRow(t.Context(), `select exists (select from river_job where kind = 'drain' and state = 'scheduled'
				and scheduled_at > now() + interval '4 minutes')`).Scan(&far)
			return err == nil && far
		}, "the job sleeps")
		v := b.get(n)
		require.Equal(t, node.Draining, v.Drain().State)
		require.Equal(t, []string{"draining"}, v.NoScheduleReasons())
		blockers, err := placement.Blockers(t.Context(), b.db.Pool(), []string{n})
		require.NoError(t, err)
		require.Len(t, blockers[n], 1)
		require.Nil(t, blockers[n][0].EndsAt)
	})

	t.Run("B2 the last interval ends between two looks", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.work()
		n := b.node()
		b.book(n, 2*time.Second)
		b.drain(n, "")
		require.False(t, b.look(n).Over)
		b.eventually(4*time.Second, func() bool { return b.get(n).LastDrain.State == node.Drained }, "drained at once, not after 5 minutes")
		var ended, drained time.Time
		for _, e := range b.events(n) {
			switch e.Type {
			case "allocation.ended":
				ended = e.At
			case "node.drained":
				drained = e.At
			}
		}
		require.Less(t, drained.Sub(ended), time.Second)
	})

	t.Run("B2 the last allocation is released", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.work()
		n := b.node()
		first, last := b.book(n, 0), b.book(n, time.Hour)
		b.drain(n, "")
		b.release(first)
		require.Equal(t, node.Draining, b.get(n).LastDrain.State)
		out := b.release(last)
		require.Equal(t, node.Drained, b.get(n).LastDrain.State, "in the same transaction")
		all := b.events(n)
		require.Equal(t, []string{"reservation.released", "node.drained"}, []string{all[len(all)-2].Type, all[len(all)-1].Type})
		require.Equal(t, out.Cursor, all[len(all)-2].Cursor(), "who waits from the answer's cursor is told of the drain's end")
	})

	t.Run("B2 the last allocation is released, and a job has to look", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.controls.DrainsByJob = true
		b.work()
		n := b.node()
		r := b.book(n, time.Hour)
		b.drain(n, "")
		require.Equal(t, []string{n}, b.release(r).Woken)
		b.eventually(3*time.Second, func() bool { return b.get(n).LastDrain.State == node.Drained }, "the wake does it, without anybody looking")
	})

	t.Run("B4 an empty node: draining, then drained, and the cordon stays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		edit := b.edit(b.alex, n, "replace PSU")
		edit.RequestID = "once"
		done, err := b.drainBy(t.Context(), edit)
		require.NoError(t, err)
		require.True(t, b.look(n).Over)
		all := b.events(n)
		require.Equal(t, all[0].Cursor(), done.Cursor, "who waits from the answer's cursor is told of the end")
		require.Equal(t, node.Draining, done.Node.LastDrain.State, "the answer is of that place")
		again, err := b.drainBy(t.Context(), edit)
		require.NoError(t, err)
		require.Equal(t, done.Cursor, again.Cursor, "a repeat's too")
		require.Equal(t, []string{"node.draining", "node.drained"}, b.log(n))
		require.Equal(t, controls.DrainController, all[1].Actor)
		require.Equal(t, "replace PSU", all[1].Reason)
		var told controls.Drained
		require.NoError(t, json.Unmarshal(all[1].Data, &told))
		require.Equal(t, controls.Drained{DrainID: done.Node.LastDrain.ID, ConfirmedByNode: false}, told)
		v := b.get(n)
		require.True(t, v.Cordoned())
		require.Equal(t, "alex", v.Cordon.By)
		require.NotContains(t, v.NoScheduleReasons(), "draining") // the seed's predicate: cordoned and not draining
		require.Equal(t, node.Drained, v.Drain().State)
		_, err = b.bookings.Create(t.Context(), placement.Booking{Who: b.alex, TenantID: "acme", NodeID: n})
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
	})

	t.Run("B5 drains of an empty node that wait for one another are one", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		held, err := b.db.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = held.Exec(t.Context(), "select from nodes where id = $1 for update", n)
		require.NoError(t, err)
		const callers = 8
		var g errgroup.Group
		changed, ids := make([]bool, callers), make([]string, callers)
		for i := range callers {
			g.Go(func() error {
				done, err := b.drainBy(t.Context(), b.edit(b.alex, n, ""))
				if err == nil {
					changed[i], ids[i] = done.Changed, done.Node.LastDrain.ID
				}
				return err
			})
		}
		b.eventually(5*time.Second, func() bool {
			var waiting int
			err := b.db.Pool().QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting)
			return err == nil && waiting == callers
		}, "all wait for the node")
		require.NoError(t, held.Rollback(t.Context()))
		require.NoError(t, g.Wait())
		slices.Sort(ids)
		require.Len(t, slices.Compact(ids), 1)
		require.Equal(t, 1, len(slices.DeleteFunc(changed, func(c bool) bool { return !c })))
		require.Equal(t, []string{"node.draining", "node.drained"}, b.log(n))
		require.True(t, b.drain(n, "later").Changed, "B7 one that came later is another")
	})

	t.Run("B5 one that comes before the other's commit joins it too, and is told where it began", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		held, err := b.db.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = held.Exec(t.Context(), "select from event_clock for update") // a drain that has decided waits here before it commits
		require.NoError(t, err)
		waiting := func(callers int) {
			b.eventually(5*time.Second, func() bool {
				var n int
				err := b.db.Pool().QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&n)
				return err == nil && n == callers
			}, "it waits")
		}
		var g errgroup.Group
		answers := make([]node.Changed, 2)
		for i := range answers {
			g.Go(func() (err error) {
				edit := b.edit(b.alex, n, "")
				edit.RequestID = "call-" + strconv.Itoa(i)
				answers[i], err = b.drainBy(t.Context(), edit)
				return err
			})
			waiting(i + 1)
		}
		require.NoError(t, held.Rollback(t.Context()))
		require.NoError(t, g.Wait())
		require.Equal(t, []string{"node.draining", "node.drained"}, b.log(n))
		require.Equal(t, []bool{true, false}, []bool{answers[0].Changed, answers[1].Changed})
		require.Equal(t, answers[0].Node.LastDrain.ID, answers[1].Node.LastDrain.ID)
		require.Equal(t, b.events(n)[0].Cursor(), answers[1].Cursor, "who waits from there is told of the end")
		edit := b.edit(b.alex, n, "")
		edit.RequestID = "call-1"
		again, err := b.drainBy(t.Context(), edit)
		require.NoError(t, err)
		require.Equal(t, answers[1].Cursor, again.Cursor)
		require.Equal(t, answers[0].Node.Version, b.get(n).Version, "the answer's version is the node's")
	})

	t.Run("B5 50 concurrent drains are one", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.book(n, 0)
		var g errgroup.Group
		ids := make([]string, 50)
		for i := range ids {
			g.Go(func() error {
				done, err := b.drainBy(t.Context(), b.edit(b.alex, n, ""))
				if err == nil {
					ids[i] = done.Node.LastDrain.ID
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		slices.Sort(ids)
		require.Len(t, slices.Compact(ids), 1)
		require.Equal(t, 1, b.count(n, "node.draining"))
	})

	t.Run("B7 drained, then drained again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		r := b.book(n, 0)
		first := b.drain(n, "one").Node.LastDrain.ID
		require.False(t, b.drain(n, "two").Changed, "draining a draining node changes nothing")
		b.release(r)
		second := b.drain(n, "three")
		require.True(t, second.Changed)
		require.NotEqual(t, first, second.Node.LastDrain.ID)
		types := slices.DeleteFunc(b.log(n), func(s string) bool { return !strings.HasPrefix(s, "node.") })
		require.Equal(t, []string{"node.draining", "node.drained", "node.draining", "node.drained"}, types)
		require.Equal(t, node.Text("one"), b.get(n).Cordon.Reason, "the cordon keeps its author and reason")
	})

	t.Run("A4 uncordon cancels, and no node.drained ever follows", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.work()
		n := b.node()
		r := b.book(n, 0)
		drainID := b.drain(n, "").Node.LastDrain.ID
		_, err := b.uncordon(t.Context(), b.edit(b.sam, n, "not today"))
		require.NoError(t, err)
		b.release(r)
		require.True(t, b.look(n).Over)
		d := b.get(n).LastDrain
		require.Equal(t, node.Cancelled, d.State)
		require.Equal(t, node.Text("sam"), d.EndedBy)
		require.Nil(t, b.get(n).Drain())
		last := b.events(n)
		var told controls.Uncordoned
		for _, e := range last {
			if e.Type == "node.uncordoned" {
				require.NoError(t, json.Unmarshal(e.Data, &told))
			}
		}
		require.Equal(t, drainID, told.CancelledDrainID)
		// The job of the cancelled drain ends by itself.
		b.eventually(10*time.Second, func() bool {
			var left int
			err := b.db.Pool().QueryRow(t.Context(), `select count(*) from river_job where kind in ('drain', 'drain_wake') and finalized_at is null
				and scheduled_at <= now()`).Scan(&left)
			return err == nil && left == 0
		}, "nothing waits to run")
		require.Zero(t, b.count(n, "node.drained"))
	})

	t.Run("Draining a node that another cordoned keeps that cordon, and publishes node.draining only", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		_, err := b.cordon(t.Context(), b.edit(b.sam, n, "firmware"))
		require.NoError(t, err)
		b.drain(n, "PSU")
		v := b.get(n)
		require.Equal(t, node.Cordon{By: "sam", Reason: "firmware", At: v.Cordon.At}, *v.Cordon)
		require.Equal(t, node.Text("PSU"), v.LastDrain.Reason)
		require.Equal(t, []string{"node.cordoned", "node.draining", "node.drained"}, b.log(n))
	})

	t.Run("B8 a drained node that can't tell is not confirmed, one that reports emptiness in its session is", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for name, c := range map[string]struct {
			report string // SQL for what the node reported
			want   bool
		}{
			"nothing reported":        {"", false},
			"reports nothing running": {`insert into node_running values ($1, 3, true, '{}', now())`, true},
			"still runs something":    {`insert into node_running values ($1, 3, true, '{GPU-1}', now())`, false},
			"can't tell":              {`insert into node_running values ($1, 3, false, '{}', now())`, false},
			"of an older session":     {`insert into node_running values ($1, 2, true, '{}', now())`, false},
		} {
			n := b.node()
			_, err := b.db.Pool().Exec(t.Context(), `insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
				values ($1, 's', 3, 'g', 'b', 'v', '{}', 0, now())`, n)
			require.NoError(t, err)
			_, err = b.db.Pool().Exec(t.Context(), `update node_liveness set session_number = 3, last_seen = now() where node_id = $1`, n)
			require.NoError(t, err)
			if c.report != "" {
				_, err = b.db.Pool().Exec(t.Context(), c.report, n)
				require.NoError(t, err)
			}
			b.drain(n, "")
			require.Equal(t, c.want, *b.get(n).LastDrain.ConfirmedByNode, name)
		}
	})

	t.Run("B9 the process is killed with the wake and the primary job in its hands", func(t *testing.T) {
		t.Parallel()
		// River gives the jobs of a process that died to another after a minute; the drain of an empty node must not wait for that.
		b := setup(t)
		b.controls.DrainsByJob = true
		n, other := b.node(), b.node()
		for _, nodeID := range []string{n, other} {
			r := b.book(nodeID, 0)
			b.drain(nodeID, "")
			b.release(r)
		}
		_, err := b.db.Pool().Exec(t.Context(), `
			update river_job set state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{killed}' where kind in ('drain', 'drain_wake')`)
		require.NoError(t, err)
		b.work()
		for _, nodeID := range []string{n, other} {
			b.eventually(3*time.Second, func() bool { return b.get(nodeID).LastDrain.State == node.Drained }, "the timer's net finds it")
			require.Equal(t, 1, b.count(nodeID, "node.drained"))
		}
	})

	t.Run("A drain whose job got lost is revived once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.book(n, 0)
		b.drain(n, "")
		revived, err := b.controls.ReviveDrains(t.Context())
		require.NoError(t, err)
		require.Zero(t, revived, "the job is there")
		_, err = b.db.Pool().Exec(t.Context(), `delete from river_job`)
		require.NoError(t, err)
		for _, want := range []int{1, 0} {
			revived, err = b.controls.ReviveDrains(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, revived)
		}
	})
}

func TestDrainRaces(t *testing.T) {
	t.Parallel()

	t.Run("B3 booking and drain race 500 times", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var before, refused int
		for range 500 {
			n := b.node()
			var g errgroup.Group
			var booked bool
			g.Go(func() error {
				_, err := b.bookings.Create(t.Context(), placement.Booking{Who: b.alex, TenantID: "acme", NodeID: n})
				switch fault.CodeOf(err) {
				case "":
					booked = true
				case fault.InvalidState:
				default:
					return err
				}
				return nil
			})
			g.Go(func() error {
				_, err := b.drainBy(t.Context(), b.edit(b.alex, n, ""))
				return err
			})
			g.Go(func() error {
				_, err := b.controls.LookAtDrain(t.Context(), n)
				return err
			})
			require.NoError(t, g.Wait())
			over := b.look(n).Over
			types := b.log(n)
			if booked {
				// Booked before: the drain waits for it.
				before++
				require.False(t, over)
				require.Equal(t, []string{"reservation.created", "node.draining"}, types)
			} else {
				refused++
				require.True(t, over)
				require.Equal(t, []string{"node.draining", "node.drained"}, types)
			}
		}
		t.Logf("booked before the drain: %d, refused: %d", before, refused)
	})

	t.Run("B6 uncordon in the moment the last allocation ends", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for range 100 {
			n := b.node()
			r := b.book(n, 0)
			b.drain(n, "")
			var g errgroup.Group
			g.Go(func() error {
				_, err := b.controls.Release(t.Context(), placement.Release{Who: b.alex, TenantID: "acme", ReservationID: r.ID})
				if err != nil {
					return err
				}
				_, err = b.controls.LookAtDrain(t.Context(), n)
				return err
			})
			g.Go(func() error {
				_, err := b.uncordon(t.Context(), b.edit(b.sam, n, ""))
				return err
			})
			require.NoError(t, g.Wait())
			b.look(n)
			ends := slices.DeleteFunc(b.log(n), func(s string) bool { return s == "reservation.created" || s == "reservation.released" })
			ok := slices.Equal(ends, []string{"node.draining", "node.drained", "node.uncordoned"}) || slices.Equal(ends, []string{"node.draining", "node.uncordoned"})
			require.True(t, ok, "%v", ends)
			require.False(t, b.get(n).Cordoned())
		}
	})
}

func TestBookings(t *testing.T) {
	t.Parallel()

	t.Run("Who holds no role in the tenant is refused at once, whoever holds the reservation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.book(b.node(), time.Hour)
		eve := b.principal("eve", "other")
		held, err := b.db.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = held.Exec(t.Context(), "select from reservations where id = $1 for update", r.ID)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // less than a lock is waited for
		defer cancel()
		_, err = b.controls.Release(ctx, placement.Release{Who: eve, TenantID: "acme", ReservationID: r.ID})
		require.Equal(t, fault.Forbidden, fault.CodeOf(err), "%v", err)
		require.NoError(t, held.Rollback(t.Context()))
	})

	t.Run("A release is once, and of the tenant that booked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		r := b.book(n, time.Hour)
		eve := b.principal("eve", "other")
		_, err := b.controls.Release(t.Context(), placement.Release{Who: eve, TenantID: "other", ReservationID: r.ID})
		require.Equal(t, fault.NotFound, fault.CodeOf(err))
		require.True(t, b.release(r).Changed)
		require.False(t, b.release(r).Changed)
		require.Equal(t, []string{"reservation.created", "reservation.released"}, b.log(n))
	})

	t.Run("Intervals that make no sense are INVALID_INPUT", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		past, soon := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		for name, booking := range map[string]placement.Booking{
			"ends in the past":        {EndsAt: &past},
			"ends before it begins":   {StartsAt: &soon, EndsAt: &past},
			"ends and lasts":          {EndsAt: &soon, Duration: time.Minute},
			"lasts less than nothing": {Duration: -time.Second},
			"lasts for ever":          {Duration: 11 * 365 * 24 * time.Hour},
		} {
			booking.Who, booking.TenantID, booking.NodeID = b.alex, "acme", n
			_, err := b.bookings.Create(t.Context(), booking)
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err), name)
		}
		require.Empty(t, b.log(n))
	})

	t.Run("A booking that begins later is live, and a drain waits for it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		starts := time.Now().Add(time.Hour)
		_, err := b.bookings.Create(t.Context(), placement.Booking{Who: b.alex, TenantID: "acme", NodeID: n, StartsAt: &starts, Duration: time.Hour})
		require.NoError(t, err)
		b.drain(n, "")
		require.False(t, b.look(n).Over)
	})

	t.Run("A guest that books sees the node for as long as it holds something, and reads of the owner nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		guest := b.principal("gus", "guest")
		_, err := b.bookings.Create(t.Context(), placement.Booking{Who: guest, TenantID: "guest", NodeID: n})
		require.Equal(t, fault.NotFound, fault.CodeOf(err), "what it does not see it can't book")
		require.NoError(t, b.share(n, "guest"))
		out, err := b.bookings.Create(t.Context(), placement.Booking{Who: guest, TenantID: "guest", NodeID: n, Reason: "training"})
		require.NoError(t, err)
		_, err = b.db.Pool().Exec(t.Context(), `delete from node_projection where tenant_id = 'guest' and relation = 'SHARED'`)
		require.NoError(t, err)
		v, err := b.controls.Nodes.Get(t.Context(), guest, "guest", n)
		require.NoError(t, err)
		require.False(t, v.Full)
		// The owner reads that somebody booked, not who or why.
		reader := b.controls.Nodes.Authority.Reader(b.alex, "acme", iam.NodesEvents)
		told, ok := reader.View(b.events(n)[0])
		require.True(t, ok)
		require.Equal(t, []string{"operator", "", "{}"}, []string{told.Actor, told.Reason, string(told.Data)})
		_, err = b.controls.Release(t.Context(), placement.Release{Who: guest, TenantID: "guest", ReservationID: out.Reservation.ID})
		require.NoError(t, err)
		_, err = b.controls.Nodes.Get(t.Context(), guest, "guest", n)
		require.Equal(t, fault.NotFound, fault.CodeOf(err))
	})

	t.Run("Several timers at once write each beginning and end once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		for range 20 {
			b.book(n, time.Second)
		}
		b.eventually(5*time.Second, func() bool {
			var g errgroup.Group
			for range 4 {
				g.Go(func() error {
					_, err := b.bookings.TurnIntervals(t.Context())
					return err
				})
			}
			require.NoError(t, g.Wait())
			return b.count(n, "allocation.ended") >= 20
		}, "all have ended")
		require.Equal(t, 20, b.count(n, "allocation.ended"))
		list, _, err := placement.List(t.Context(), b.db.Pool(), "acme", placement.Filter{}, placement.Page{First: 50})
		require.NoError(t, err)
		for _, r := range list {
			require.Equal(t, placement.Ended, r.State())
		}
	})
}

// share lets another tenant see a node.
func (b *bundle) share(nodeID, tenant string) error {
	_, err := b.db.Pool().Exec(context.WithoutCancel(b.Context()),
		`insert into node_projection (tenant_id, node_id, relation) values ($1, $2, 'SHARED')`, tenant, nodeID)
	return errors.Join(err)
}
