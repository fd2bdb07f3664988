package events_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
)

// positions reads a whole list page by page.
func positions(t *testing.T, d *db.DB, f events.ListFilter) []int64 {
	t.Helper()
	var all []int64
	for {
		list, more, err := events.List(t.Context(), d.Pool(), f)
		require.NoError(t, err)
		require.LessOrEqual(t, len(list), f.First)
		for _, e := range list {
			all = append(all, e.Position)
		}
		if !more {
			return all
		}
		require.Len(t, list, f.First, "a page with more after it is full")
		after := list[len(list)-1].Cursor()
		f.After = &after
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	// Pages of any size join to the whole, in both orders; actor and time narrow it.
	d := dbtest.New(t)
	var commits []db.Committed
	for i := range 23 {
		e := entry("acme", "node_a", "node.cordoned")
		if i%3 == 0 {
			e.Actor = "sam"
		}
		commits = append(commits, write(t, d, e))
	}
	every := make([]int64, 23)
	for i := range every {
		every[i] = int64(i + 1)
	}
	down := slices.Clone(every)
	slices.Reverse(down)
	acme := events.Filter{Tenant: "acme"}
	for _, first := range []int{1, 5, 22, 23, 24, 500} {
		require.Equal(t, down, positions(t, d, events.ListFilter{Filter: acme, First: first}))
		require.Equal(t, every, positions(t, d, events.ListFilter{Filter: acme, First: first, Order: events.OldestFirst}))
	}
	require.Equal(t, []int64{1, 4, 7, 10, 13, 16, 19, 22}, positions(t, d, events.ListFilter{Filter: acme, Actor: "sam", First: 3, Order: events.OldestFirst}))
	require.Equal(t, []int64{6, 7, 8, 9}, positions(t, d, events.ListFilter{
		Filter: acme, Since: &commits[5].At, Until: &commits[9].At, First: 3, Order: events.OldestFirst,
	}), "since is in, until is out")
	require.Empty(t, positions(t, d, events.ListFilter{Filter: events.Filter{Tenant: "other"}, First: 3}))
	for _, bad := range []events.ListFilter{
		{Filter: acme, First: 0},
		{Filter: acme, First: 501},
		{Filter: acme, First: 1, Order: "SIDEWAYS"},
		{Filter: acme, First: 1, Actor: "a\x00"},
		{Filter: acme, First: 1, Actor: "\xff"},
		{Filter: acme, First: 1, Actor: strings.Repeat("a", 257)},
	} {
		_, _, err := events.List(t.Context(), d.Pool(), bad)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	}
}

func TestListCursor(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	head := write(t, d, entry("acme", "node_a", "node.cordoned"))
	for range 4 {
		head = write(t, d, entry("acme", "node_a", "node.cordoned"))
	}
	list := func(after events.Cursor, o events.Order) ([]events.Event, error) {
		l, _, err := events.List(t.Context(), d.Pool(), events.ListFilter{Filter: events.Filter{Tenant: "acme"}, First: 10, After: &after, Order: o})
		return l, err
	}
	// A cursor of another log, or from ahead of it, is CURSOR_EXPIRED and never a page.
	for cause, c := range map[string]events.Cursor{
		events.CauseEpoch: {Epoch: head.Epoch + 1, Position: 2}, events.CauseAhead: {Epoch: head.Epoch, Position: 6},
	} {
		for _, o := range []events.Order{events.NewestFirst, events.OldestFirst} {
			_, err := list(c, o)
			require.Equal(t, fault.CursorExpired, fault.CodeOf(err), "%s %s", cause, o)
			require.Equal(t, cause, fault.From(err).Details["cause"])
		}
	}
	// Below what retention has left, the list from the newest on has ended, and the one from the oldest on would have a hole.
	_, err := d.Pool().Exec(t.Context(), `update event_clock set oldest = 4`)
	require.NoError(t, err)
	l, err := list(events.Cursor{Epoch: head.Epoch, Position: 1}, events.NewestFirst)
	require.NoError(t, err)
	require.Empty(t, l)
	_, err = list(events.Cursor{Epoch: head.Epoch, Position: 1}, events.OldestFirst)
	require.Equal(t, fault.CursorExpired, fault.CodeOf(err))
	l, err = list(events.Cursor{Epoch: head.Epoch, Position: 3}, events.OldestFirst)
	require.NoError(t, err)
	require.Len(t, l, 2)
}

func TestListActor(t *testing.T) {
	t.Parallel()
	// I5: a guest reads the event without the name of who did it, so it cannot find the name out by asking for it either.
	d := dbtest.New(t)
	e := entry("acme", "node_a", "node.cordoned")
	e.Actor, e.Audience = "alex", events.Audience{Full: []string{"acme"}, Reduced: []string{"guest"}}
	write(t, d, e)
	require.Equal(t, []int64{1}, positions(t, d, events.ListFilter{Filter: events.Filter{Tenant: "acme"}, Actor: "alex", First: 5}))
	require.Equal(t, []int64{1}, positions(t, d, events.ListFilter{Filter: events.Filter{Tenant: "guest"}, First: 5}))
	require.Empty(t, positions(t, d, events.ListFilter{Filter: events.Filter{Tenant: "guest"}, Actor: "alex", First: 5}))
}

func TestSecurityAudience(t *testing.T) {
	t.Parallel()
	// Whoever writes a security event, and by which way: a guest of the node never gets it.
	d := dbtest.New(t)
	for _, kind := range []string{"security.node.quarantined", "node.cordoned"} {
		e := entry("acme", "node_a", kind)
		e.Audience = events.Audience{Full: []string{"acme"}, Reduced: []string{"guest"}}
		write(t, d, e)
	}
	require.Equal(t, []int64{1, 2}, positions(t, d, events.ListFilter{Filter: events.Filter{Tenant: "acme"}, First: 5, Order: events.OldestFirst}))
	require.Equal(t, []int64{2}, positions(t, d, events.ListFilter{Filter: events.Filter{Tenant: "guest"}, First: 5}))
}
