package placement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/placement"
)

// machine makes a node with as many devices, GPU-0 and on.
func (b *bundle) machine(devices int) (nodeID string) {
	b.Helper()
	nodeID = b.node()
	b.see(nodeID, devices)
	return nodeID
}

// see reports an inventory of the node with as many devices.
func (b *bundle) see(nodeID string, devices int) {
	b.Helper()
	seen := make([]placement.Device, devices)
	for i := range seen {
		seen[i] = placement.Device{UUID: fmt.Sprintf("GPU-%d", i), Kind: placement.KindGPU, Slot: i, Model: "H100"}
	}
	b.do(func(ctx context.Context, tx *db.Tx) error { return placement.SeeDevicesTx(ctx, tx, nodeID, seen) })
}

// hold books devices.
func (b *bundle) hold(booking placement.Booking) (placement.Reservation, error) {
	booking.Who = system
	if booking.TenantID == "" {
		booking.TenantID = "acme"
	}
	out, err := b.bookings.Create(b.Context(), booking)
	return out.Reservation, err
}

func (b *bundle) held(nodeID string) map[string]bool {
	b.Helper()
	by, err := placement.DevicesOf(b.Context(), b.db.Pool(), []string{nodeID})
	require.NoError(b, err)
	out := map[string]bool{}
	for _, d := range by[nodeID] {
		out[d.UUID] = d.Held()
	}
	return out
}

func in(d time.Duration) *time.Time {
	t := time.Now().Add(d).Truncate(time.Microsecond)
	return &t
}

func TestDevices(t *testing.T) {
	t.Parallel()

	t.Run("a device is held by one live allocation at a time; a share excludes nobody and is excluded by nobody", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, elsewhere := b.machine(4), b.machine(4)
		r, err := b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-0", "GPU-2"}, Duration: time.Hour})
		require.NoError(t, err)
		require.Equal(t, map[string]bool{"GPU-0": true, "GPU-1": false, "GPU-2": true, "GPU-3": false}, b.held(n))
		by, err := placement.ByReservation(t.Context(), b.db.Pool(), []string{r.ID})
		require.NoError(t, err)
		require.Equal(t, []string{"GPU-0", "GPU-2"}, by[r.ID][0].Devices)

		for range 3 {
			_, err = b.hold(placement.Booking{NodeID: n})
			require.NoError(t, err)
		}
		_, err = b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-1", "GPU-3"}})
		require.NoError(t, err)
		_, err = b.hold(placement.Booking{NodeID: elsewhere, Devices: []string{"GPU-0"}})
		require.NoError(t, err, "another node's device of that name is another device")
		_, err = b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-1", "GPU-2"}, Duration: time.Hour})
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
	})

	t.Run("intervals: one may begin when the other ends, none may overlap, and an open end is for ever", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.machine(1)
		one := []string{"GPU-0"}
		_, err := b.hold(placement.Booking{NodeID: n, Devices: one, StartsAt: in(2 * time.Hour), Duration: time.Hour})
		require.NoError(t, err)
		for name, booking := range map[string]placement.Booking{
			"now without an end":  {},
			"into the other":      {EndsAt: in(2*time.Hour + time.Minute)},
			"out of the other":    {StartsAt: in(2*time.Hour + 59*time.Minute), Duration: time.Hour},
			"around the other":    {StartsAt: in(time.Hour), Duration: 5 * time.Hour},
			"within the other":    {StartsAt: in(2*time.Hour + time.Minute), Duration: time.Minute},
			"before, open-ended":  {StartsAt: in(time.Hour)},
			"across, from the go": {Duration: 24 * time.Hour},
		} {
			booking.NodeID, booking.Devices = n, one
			_, err := b.hold(booking)
			require.Equal(t, fault.InvalidState, fault.CodeOf(err), name)
		}
		starts := in(4 * time.Hour)
		ends := starts.Add(time.Hour)
		for name, booking := range map[string]placement.Booking{
			"until the other begins": {Duration: time.Hour},
			"after the other":        {StartsAt: starts, EndsAt: &ends},
			"right when that ends":   {StartsAt: &ends},
		} {
			booking.NodeID, booking.Devices = n, one
			_, err := b.hold(booking)
			require.NoError(t, err, name)
		}
		_, err = b.hold(placement.Booking{NodeID: n, Devices: one, StartsAt: in(30 * 24 * time.Hour), Duration: time.Hour})
		require.Equal(t, fault.InvalidState, fault.CodeOf(err), "the last has no end")
	})

	t.Run("a release and a written end free the device, and a moved end follows by itself", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.machine(1)
		one := []string{"GPU-0"}
		r, err := b.hold(placement.Booking{NodeID: n, Devices: one})
		require.NoError(t, err)
		b.release(r)
		require.Equal(t, map[string]bool{"GPU-0": false}, b.held(n))
		future, err := b.hold(placement.Booking{NodeID: n, Devices: one, StartsAt: in(time.Hour)})
		require.NoError(t, err, "released")
		b.release(future)
		r, err = b.hold(placement.Booking{NodeID: n, Devices: one, Duration: time.Hour})
		require.NoError(t, err, "released before it began")
		// Its interval passes.
		b.exec(`update allocations set starts_at = now() - interval '2 hours', ends_at = now() - interval '1 hour' where reservation_id = $1`, r.ID)
		turned, err := b.bookings.TurnIntervals(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, turned.Ended)
		_, err = b.hold(placement.Booking{NodeID: n, Devices: one})
		require.NoError(t, err, "ended")
		// What was really held: the first until its release, the second nothing, the third its interval.
		var spans []string
		rows, err := b.db.Pool().Query(t.Context(), `
			select case when isempty(h.during) then 'nothing' when upper(h.during) = a.released_at then 'until its release'
			       when h.during = tstzrange(a.starts_at, a.ends_at) then 'its interval' end
			from allocation_devices h join allocations a on a.id = h.allocation_id order by a.id`)
		require.NoError(t, err)
		for rows.Next() {
			var span string
			require.NoError(t, rows.Scan(&span))
			spans = append(spans, span)
		}
		require.NoError(t, rows.Err())
		require.Equal(t, []string{"until its release", "nothing", "its interval", "its interval"}, spans)
	})

	t.Run("a hundred bookings of one device at once: one gets it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.machine(2)
		var g errgroup.Group
		won := make(chan string, 100)
		for i := range 100 {
			g.Go(func() error {
				r, err := b.hold(placement.Booking{NodeID: n, Devices: []string{fmt.Sprintf("GPU-%d", i%2)}, Duration: time.Hour})
				if fault.CodeOf(err) == fault.InvalidState {
					return nil
				}
				won <- r.ID
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.Len(t, won, 2, "one for each device")
	})

	t.Run("devices that go missing while they are booked are kept, and can't be booked until they are back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.machine(2)
		_, err := b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-1"}, StartsAt: in(time.Hour), Duration: time.Hour})
		require.NoError(t, err)
		b.see(n, 1)
		_, err = b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-1"}, Duration: time.Minute})
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		require.ErrorContains(t, err, "device GPU-1 is missing: the node's inventory has not shown it since 20")
		b.see(n, 2)
		_, err = b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-1"}, Duration: time.Minute})
		require.NoError(t, err)
		// Beyond the bound of what is kept, what was ever booked stays.
		b.see(n, placement.MaxMissing+10)
		b.see(n, 0)
		b.see(n, 1)
		require.Contains(t, b.held(n), "GPU-1")
	})
}

// What raw SQL tries is refused by the database itself.
func TestDoubleBookingBySQL(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n, other := b.machine(2), b.machine(1)
	first, err := b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-0"}, Duration: time.Hour})
	require.NoError(t, err)
	later, err := b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-0"}, StartsAt: in(2 * time.Hour), Duration: time.Hour})
	require.NoError(t, err)
	share, err := b.hold(placement.Booking{NodeID: n, Duration: time.Hour})
	require.NoError(t, err)
	const insert = `insert into allocation_devices (allocation_id, node_id, uuid, device, open, during)
		select a.id, a.node_id, d.uuid, d.number, %s, %s from allocations a, devices d
		where a.reservation_id = $1 and d.node_id = %s and d.uuid = 'GPU-0'`
	for name, c := range map[string]struct {
		sql  string
		code string
		args []any
	}{
		"a second row for a device in that time": {fmt.Sprintf(insert, "a.open", "a.during", "a.node_id"), "23P01", []any{share.ID}},
		"a row that says it is not live":         {fmt.Sprintf(insert, "false", "a.during", "a.node_id"), "23503", []any{share.ID}},
		"a row that says another interval":       {fmt.Sprintf(insert, "a.open", "tstzrange(now() + interval '90 days', null)", "a.node_id"), "23503", []any{share.ID}},
		"a row for another node's device":        {strings.Replace(fmt.Sprintf(insert, "a.open", "a.during", "'"+other+"'"), "a.node_id, d.uuid", "d.node_id, d.uuid", 1), "23503", []any{share.ID}},
		"a device's number that is another's": {`insert into allocation_devices (allocation_id, node_id, uuid, device, open, during)
			select a.id, a.node_id, 'GPU-0', (select number from devices where node_id = a.node_id and uuid = 'GPU-1'), a.open, a.during
			from allocations a where a.reservation_id = $1`, "23503", []any{share.ID}},
		"an end moved into the next booking":    {`update allocations set ends_at = now() + interval '3 hours' where reservation_id = $1`, "23P01", []any{first.ID}},
		"an end taken away":                     {`update allocations set ends_at = null where reservation_id = $1`, "23P01", []any{first.ID}},
		"a beginning moved into the one before": {`update allocations set starts_at = now() where reservation_id = $1`, "23P01", []any{later.ID}},
		"a row moved out of the way": {`update allocation_devices h set during = tstzrange(now() + interval '90 days', null)
			from allocations a where a.reservation_id = $1 and h.allocation_id = a.id`, "23503", []any{later.ID}},
		"a device that is forgotten with its row": {`delete from devices where node_id = $1 and uuid = 'GPU-0'`, "23503", []any{n}},
	} {
		_, err := b.db.Pool().Exec(t.Context(), c.sql, c.args...)
		pg, ok := errors.AsType[*pgconn.PgError](err)
		require.True(t, ok, "%s: %v", name, err)
		require.Equal(t, c.code, pg.Code, "%s: %v", name, err)
	}
	// What is over may be brought back only while nobody else holds the device.
	b.release(first)
	again, err := b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-0"}, Duration: time.Minute})
	require.NoError(t, err)
	_, err = b.db.Pool().Exec(t.Context(), `update allocations set released_at = null where reservation_id = $1`, first.ID)
	require.ErrorContains(t, err, "allocation_devices_once")
	b.release(again)
	b.exec(`update allocations set released_at = null where reservation_id = $1`, first.ID)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.machine(8)
	ends := in(time.Hour)
	mine, err := b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-0"}, EndsAt: ends})
	require.NoError(t, err)
	_, err = b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-1"}})
	require.NoError(t, err)
	theirs, err := b.hold(placement.Booking{NodeID: n, TenantID: "other", Devices: []string{"GPU-2"}, EndsAt: ends})
	require.NoError(t, err)
	starts := in(30 * time.Minute)
	_, err = b.hold(placement.Booking{NodeID: n, TenantID: "other", Devices: []string{"GPU-3"}, StartsAt: starts, EndsAt: ends})
	require.NoError(t, err)
	at := func(t *time.Time) string { return t.UTC().Format(time.RFC3339) }
	for name, c := range map[string]struct {
		tenant  string
		devices []string
		code    fault.Code
		says    string
	}{
		"its own, until when": {
			"acme",
			[]string{"GPU-4", "GPU-0"},
			fault.InvalidState,
			"device GPU-0 is booked by " + mine.ID + " until " + at(ends) + "; book it from then on, or another device",
		},
		"without an end": {"acme", []string{"GPU-1"}, fault.InvalidState, "without an end; it has to be released first, or book another device"},
		"another tenant's, to the node's owner": {
			"acme",
			[]string{"GPU-2"},
			fault.InvalidState,
			"device GPU-2 is booked by another tenant until " + at(ends) + "; book it from then on, or another device",
		},
		"one that begins later": {
			"acme",
			[]string{"GPU-3"},
			fault.InvalidState,
			"device GPU-3 is booked by another tenant from " + at(starts) + " until " + at(ends) + "; book it from then on, or another device",
		},
		"several at once": {"acme", []string{"GPU-0", "GPU-2"}, fault.InvalidState, "or another device; device GPU-2 is booked"},
		"I5 another tenant's, to a guest": {
			"other",
			[]string{"GPU-0"},
			fault.InvalidState,
			"device GPU-0 is booked by another tenant in that time; book another device or another time",
		},
		"its own, to a guest":        {"other", []string{"GPU-2"}, fault.InvalidState, "device GPU-2 is booked by " + theirs.ID + " until " + at(ends)},
		"none of the node's":         {"acme", []string{"GPU-8"}, fault.NotFound, "node " + n + " has no device GPU-8; list what it has"},
		"H1 none at all":             {"acme", []string{}, fault.InvalidInput, "devices: must name at least one device; leave it out to book a share of the node"},
		"H1 one twice":               {"acme", []string{"GPU-4", "GPU-4"}, fault.InvalidInput, "devices: must name each device once"},
		"H1 an empty one":            {"acme", []string{""}, fault.InvalidInput, "hardware ids"},
		"H1 of 129 characters":       {"acme", []string{strings.Repeat("G", 129)}, fault.InvalidInput, "hardware ids"},
		"H1 with a control sign":     {"acme", []string{"GPU-4\x00"}, fault.InvalidInput, "hardware ids"},
		"H1 257 of them":             {"acme", slices.Repeat([]string{"GPU-4"}, 257), fault.InvalidInput, "devices: must name at most 256 devices"},
		"one that is there, in fact": {"acme", []string{"GPU-5"}, "", ""},
	} {
		_, err := b.hold(placement.Booking{NodeID: n, TenantID: c.tenant, Devices: c.devices, Duration: time.Hour})
		require.Equal(t, c.code, fault.CodeOf(err), "%s: %v", name, err)
		if c.code != "" {
			require.ErrorContains(t, err, c.says, name)
		}
		if name == "I5 another tenant's, to a guest" {
			require.Equal(t, fault.Details{"nodeId": n, "blocked": []fault.Details{{"device": "GPU-0"}}}, fault.From(err).Details)
		}
	}
	var held int
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select count(*) from allocations where node_id = $1`, n).Scan(&held))
	require.Equal(t, 5, held, "what was refused changed nothing")
}
