package placement_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is two tenants' bookings on a database of their own.
type bundle struct {
	*testing.T

	db       *db.DB
	bookings *placement.Bookings
	pool     string
}

var system = iam.System("test")

func setup(t *testing.T) *bundle {
	t.Helper()
	d := dbtest.New(t)
	authority, err := iam.NewAuthority(d)
	require.NoError(t, err)
	b := &bundle{T: t, db: d, bookings: &placement.Bookings{DB: d, Authority: authority}}
	b.do(func(ctx context.Context, tx *db.Tx) error {
		for _, tenant := range []string{"acme", "other"} {
			if err := iam.CreateTenantTx(ctx, tx, tenant); err != nil {
				return err
			}
		}
		p, err := node.CreatePoolTx(ctx, tx, "acme", "gpus")
		b.pool = p.ID
		return err
	})
	return b
}

func (b *bundle) do(fn func(ctx context.Context, tx *db.Tx) error) {
	b.Helper()
	_, err := b.db.Do(b.Context(), fn)
	require.NoError(b, err)
}

func (b *bundle) exec(sql string, args ...any) {
	b.Helper()
	_, err := b.db.Pool().Exec(b.Context(), sql, args...)
	require.NoError(b, err)
}

func (b *bundle) node() string {
	b.Helper()
	var nodeID string
	b.do(func(ctx context.Context, tx *db.Tx) error {
		n, err := node.CreateTx(tx, node.New{Key: id.New(id.Session), PoolID: b.pool, Hostname: "gpu-1", By: "test"})
		if err != nil {
			return err
		}
		nodeID = n
		_, err = tx.Exec(ctx, `update nodes set provision_state = 'ADOPTED' where id = $1`, n)
		return err
	})
	return nodeID
}

// book gives the reservation and the allocation it holds.
func (b *bundle) book(tenant, nodeID string, lasts time.Duration) (placement.Reservation, placement.Allocation) {
	b.Helper()
	out, err := b.bookings.Create(b.Context(), placement.Booking{Who: system, TenantID: tenant, NodeID: nodeID, Duration: lasts})
	require.NoError(b, err)
	by, err := placement.ByReservation(b.Context(), b.db.Pool(), []string{out.Reservation.ID})
	require.NoError(b, err)
	require.Len(b, by[out.Reservation.ID], 1)
	return out.Reservation, by[out.Reservation.ID][0]
}

func (b *bundle) release(r placement.Reservation) {
	b.Helper()
	_, err := b.bookings.Release(b.Context(), placement.Release{Who: system, TenantID: r.TenantID, ReservationID: r.ID}, nil)
	require.NoError(b, err)
}

func TestGet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, _ := b.book("acme", b.node(), time.Hour)
	got, err := placement.Get(t.Context(), b.db.Pool(), "acme", r.ID)
	require.NoError(t, err)
	require.Equal(t, r, got)
	require.Equal(t, placement.Active, got.State())
	b.release(r)
	got, err = placement.Get(t.Context(), b.db.Pool(), "acme", r.ID)
	require.NoError(t, err)
	require.Equal(t, placement.Released, got.State())
	require.EqualValues(t, "test", got.ReleasedBy)
	// H3: another tenant's is as one that never was; a malformed id is neither.
	_, theirs := placement.Get(t.Context(), b.db.Pool(), "other", r.ID)
	absent := id.New(id.Reservation)
	_, never := placement.Get(t.Context(), b.db.Pool(), "other", absent)
	require.Equal(t, fault.NotFound, fault.CodeOf(theirs))
	require.Equal(t, never.Error(), strings.Replace(theirs.Error(), r.ID, absent, 1))
	_, err = placement.Get(t.Context(), b.db.Pool(), "acme", "res_x")
	require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
}

func TestList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, two := b.node(), b.node()
	var all []string
	for i := range 11 {
		r, _ := b.book("acme", []string{one, two}[i%2], time.Hour)
		all = append(all, r.ID)
		if i == 3 || i == 4 {
			b.release(r)
		}
	}
	b.book("other", one, time.Hour)
	slices.Reverse(all) // the newest first
	list := func(f placement.Filter, first int) []string {
		var ids []string
		for after, more := "", true; more; {
			var page []placement.Reservation
			var err error
			page, more, err = placement.List(t.Context(), b.db.Pool(), "acme", f, placement.Page{First: first, After: after})
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), first)
			for _, r := range page {
				ids = append(ids, r.ID)
				after = r.ID
			}
		}
		return ids
	}
	active, ended := true, false
	for _, first := range []int{1, 3, 10, 11, 12} {
		require.Equal(t, all, list(placement.Filter{}, first), "pages of %d join to the whole", first)
		require.Equal(t, []string{all[10-4], all[10-3]}, list(placement.Filter{Active: &ended}, first))
		require.Len(t, list(placement.Filter{Active: &active}, first), 9)
		require.Equal(t, []string{all[1], all[3], all[5], all[7], all[9]}, list(placement.Filter{NodeID: two}, first))
		require.Equal(t, []string{all[7]}, list(placement.Filter{NodeID: two, Active: &ended}, first), "what a node held counts too")
	}
	require.Empty(t, list(placement.Filter{NodeID: id.New(id.Node)}, 5))
}

func TestOnNodes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, two, empty := b.node(), b.node(), b.node()
	var held []placement.Allocation // on one, the newest first
	for i := range 5 {
		r, a := b.book([]string{"acme", "other"}[i%2], one, time.Hour)
		if i == 1 {
			b.release(r)
			a = b.allocation(a.ID)
		}
		held = append([]placement.Allocation{a}, held...)
	}
	_, lone := b.book("acme", two, 0)
	read := func(s placement.Slice) map[string][]placement.Allocation {
		got, err := placement.OnNodes(t.Context(), b.db.Pool(), []string{one, two, empty}, s)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, map[string][]placement.Allocation{one: held, two: {lone}}, read(placement.Slice{Page: placement.Page{First: 9}}))
	require.Equal(t, map[string][]placement.Allocation{one: held[:3], two: {lone}}, read(placement.Slice{Page: placement.Page{First: 2}}),
		"one more than asked for says that there is more")
	require.Equal(t, map[string][]placement.Allocation{one: held[3:]}, read(placement.Slice{Page: placement.Page{First: 2, After: held[2].ID}}),
		"a place in one node's list is none in another's that is older")
	require.Equal(t, map[string][]placement.Allocation{one: {held[0], held[1], held[2], held[4]}, two: {lone}},
		read(placement.Slice{Live: true, Page: placement.Page{First: 9}}))
	require.Equal(t, map[string][]placement.Allocation{one: {held[1], held[3]}}, read(placement.Slice{Tenant: "other", Page: placement.Page{First: 9}}))
	require.Equal(t, map[string][]placement.Allocation{one: {held[1]}}, read(placement.Slice{Tenant: "other", Live: true, Page: placement.Page{First: 9}}))
	counts, err := placement.LiveCounts(t.Context(), b.db.Pool(), []string{one, two, empty})
	require.NoError(t, err)
	require.Equal(t, map[string]int{one: 4, two: 1}, counts)
}

func (b *bundle) allocation(allocationID string) placement.Allocation {
	b.Helper()
	var reservationID string
	require.NoError(b, b.db.Pool().QueryRow(b.Context(), `select reservation_id from allocations where id = $1`, allocationID).Scan(&reservationID))
	by, err := placement.ByReservation(b.Context(), b.db.Pool(), []string{reservationID})
	require.NoError(b, err)
	return by[reservationID][0]
}

func TestBlockers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n, empty := b.node(), b.node()
	_, soon := b.book("acme", n, time.Hour)
	_, open := b.book("other", n, 0)
	_, late := b.book("acme", n, 3*time.Hour)
	gone, _ := b.book("acme", n, 0)
	b.release(gone)
	_, ended := b.book("acme", n, 2*time.Hour)
	b.exec(`update allocations set ended_at = now() where id = $1`, ended.ID)
	starts := time.Now().Add(24 * time.Hour)
	out, err := b.bookings.Create(t.Context(), placement.Booking{Who: system, TenantID: "acme", NodeID: n, StartsAt: &starts, Duration: time.Hour})
	require.NoError(t, err)
	by, err := placement.Blockers(t.Context(), b.db.Pool(), []string{n, empty})
	require.NoError(t, err)
	// B1: the open-ended first, then those that end last; a booking that begins later is waited for too, and what is over is not.
	var ids []string
	for _, a := range by[n] {
		ids = append(ids, a.ID)
		require.True(t, a.Live())
	}
	require.Len(t, ids, 4)
	require.Equal(t, []string{open.ID, late.ID, soon.ID}, slices.Delete(slices.Clone(ids), 1, 2))
	require.Equal(t, out.Reservation.ID, by[n][1].ReservationID)
	require.True(t, by[n][1].Future())
	require.False(t, by[n][0].Future())
	require.NotContains(t, by, empty)
}

func TestHolding(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	holding := func() placement.Held {
		var h placement.Held
		batch := &pgx.Batch{}
		placement.QueueHolding(batch, n, &h)
		require.NoError(t, b.db.Pool().SendBatch(t.Context(), batch).Close())
		return h
	}
	require.Equal(t, placement.Held{}, holding())
	b.book("acme", n, 0)
	require.Equal(t, placement.Held{Live: 1}, holding(), "an open-ended one has no end to wait for")
	_, a := b.book("acme", n, time.Hour)
	b.book("other", n, 2*time.Hour)
	h := holding()
	require.Equal(t, 3, h.Live)
	require.InDelta(t, time.Hour, *h.NextEnd, float64(time.Minute), "the earliest end")
	// An end that is due and not written yet is due now, never in the past; the allocation is live until it is written.
	b.exec(`update allocations set starts_at = now() - interval '2 hours', ends_at = now() - interval '1 hour' where id = $1`, a.ID)
	h = holding()
	require.Equal(t, 3, h.Live)
	require.Zero(t, *h.NextEnd)
}

func TestBounds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	far := time.Now().AddDate(10, 0, 3)
	for name, c := range map[string]struct {
		booking  placement.Booking
		argument string
	}{
		"H1 a malformed tenant":   {placement.Booking{TenantID: "Acme", NodeID: n}, "tenantId"},
		"H1 a malformed node":     {placement.Booking{TenantID: "acme", NodeID: "node_x"}, "nodeId"},
		"H1 another kind's id":    {placement.Booking{TenantID: "acme", NodeID: b.pool}, "nodeId"},
		"H1 a reason too long":    {placement.Booking{TenantID: "acme", NodeID: n, Reason: strings.Repeat("ü", 257)}, "reason"},
		"end and duration":        {placement.Booking{TenantID: "acme", NodeID: n, EndsAt: &future, Duration: time.Hour}, "durationSeconds"},
		"longer than ten years":   {placement.Booking{TenantID: "acme", NodeID: n, Duration: placement.MaxSeconds*time.Second + 1}, "durationSeconds"},
		"shorter than nothing":    {placement.Booking{TenantID: "acme", NodeID: n, Duration: -1}, "durationSeconds"},
		"an end before the begin": {placement.Booking{TenantID: "acme", NodeID: n, StartsAt: &future, EndsAt: &past}, "endsAt"},
		"an end in eleven years":  {placement.Booking{TenantID: "acme", NodeID: n, EndsAt: &far}, "endsAt"},
		"a begin in eleven years": {placement.Booking{TenantID: "acme", NodeID: n, StartsAt: &far}, "startsAt"},
		"an end in the past":      {placement.Booking{TenantID: "acme", NodeID: n, EndsAt: &past}, "endsAt"},
		"H1 a request id":         {placement.Booking{TenantID: "acme", NodeID: n, RequestID: strings.Repeat("r", 129)}, "requestId"},
	} {
		c.booking.Who = system
		_, err := b.bookings.Create(t.Context(), c.booking)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err), name)
		require.Equal(t, c.argument, fault.From(err).Details["argument"], name)
	}
	var made int
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select count(*) from reservations`).Scan(&made))
	require.Zero(t, made)
	// A begin in the past is now.
	out, err := b.bookings.Create(t.Context(), placement.Booking{Who: system, TenantID: "acme", NodeID: n, StartsAt: &past, Duration: time.Hour})
	require.NoError(t, err)
	by, err := placement.ByReservation(t.Context(), b.db.Pool(), []string{out.Reservation.ID})
	require.NoError(t, err)
	a := by[out.Reservation.ID][0]
	require.Equal(t, out.Reservation.CreatedAt, a.StartsAt)
	require.Equal(t, &a.StartsAt, a.StartedAt)
}
