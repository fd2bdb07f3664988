// Package placement books nodes: reservations, the allocations they hold, when these begin and end, and the waking of drains that wait for them.
//
// live (also called open) means not released and not ended, future bookings included. It is a fact that is written, by a release or by the interval
// timer, and never read off a clock.
package placement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// Bookings makes, releases and ends reservations.
type Bookings struct {
	DB        *db.DB
	Authority *iam.Authority
}

// Reservation is a booking.
type Reservation struct {
	ID         string
	TenantID   string
	Reason     node.Text
	CreatedBy  string
	CreatedAt  time.Time
	ReleasedAt *time.Time
	ReleasedBy node.Text
	EndedAt    *time.Time
}

// State is where a reservation stands.
type State string

// The states of a reservation.
const (
	Active   State = "ACTIVE"
	Released State = "RELEASED"
	Ended    State = "ENDED"
)

// State gives where the reservation stands.
func (r *Reservation) State() State {
	switch {
	case r.ReleasedAt != nil:
		return Released
	case r.EndedAt != nil:
		return Ended
	}
	return Active
}

// Allocation is a share of one node, or devices of it, for one interval.
type Allocation struct {
	ID            string
	ReservationID string
	TenantID      string
	NodeID        string
	StartsAt      time.Time
	EndsAt        *time.Time
	StartedAt     *time.Time
	ReleasedAt    *time.Time
	EndedAt       *time.Time
	// Devices are the uuids of the devices that it holds; empty for a share of the node.
	Devices []string
}

// Live says that the allocation is neither released nor ended; one that begins later is live too.
func (a *Allocation) Live() bool { return a.ReleasedAt == nil && a.EndedAt == nil }

// Future says that the allocation is live and has not begun.
func (a *Allocation) Future() bool { return a.Live() && a.StartedAt == nil }

const (
	reservationColumns = `r.id, r.tenant_id, coalesce(r.reason, ''), r.created_by, r.created_at, r.released_at, coalesce(r.released_by, ''), r.ended_at`
	allocationColumns  = `a.id, a.reservation_id, a.tenant_id, a.node_id, a.starts_at, a.ends_at, a.started_at, a.released_at, a.ended_at,
		array(select h.uuid from allocation_devices h where h.allocation_id = a.id order by h.uuid)`
	liveCondition = `a.released_at is null and a.ended_at is null`
)

// DrainWake has the drain of a node looked at once: something that it may have waited for is gone. Wakes are never unique, since River's
// uniqueness would swallow one while another is scheduled or running.
type DrainWake struct {
	NodeID string `json:"node_id"`
}

// Kind names the job.
func (DrainWake) Kind() string { return "drain_wake" }

// QueueDrains is the queue of drains and their wakes.
const QueueDrains = "drains"

// wakeTx wakes the drains that run on the nodes. The transaction holds the nodes, so a drain that begins meanwhile looks after it.
func (b *Bookings) wakeTx(tx *db.Tx, nodes map[string]node.Locked) ([]string, error) {
	var woken []string
	for nodeID, n := range nodes {
		if n.Running() == nil {
			continue
		}
		if err := SendJob(tx, DrainWake{NodeID: nodeID}, QueueDrains); err != nil {
			return nil, fmt.Errorf("wake the drain: %w", err)
		}
		woken = append(woken, nodeID)
	}
	return woken, nil
}

// Booking asks for devices of a named node, or for a share of it.
type Booking struct {
	Who      iam.Actor
	TenantID string
	NodeID   string
	// Devices are the uuids of the devices to hold; nil means a share, which excludes nobody.
	Devices []string
	// StartsAt is when the interval begins; nil means now.
	StartsAt *time.Time
	// EndsAt is when it ends; nil means open-ended. Not together with Duration.
	EndsAt *time.Time
	// Duration is how long it lasts from its beginning; zero means that EndsAt says.
	Duration  time.Duration
	Reason    string
	RequestID string
}

// Outcome is what a change of a reservation did.
type Outcome struct {
	Reservation Reservation
	Changed     bool
	Cursor      events.Cursor
	// Woken are the nodes whose drains a job was sent to look at.
	Woken []string

	after int // events of the same commit that follow the change's own
}

// MaxSeconds bounds an interval: ten years.
const MaxSeconds = 315_360_000

const maxDuration = MaxSeconds * time.Second

func (b Booking) check() error {
	if err := id.Tenant("tenantId", b.TenantID); err != nil {
		return err
	}
	if err := id.Check(id.Node, "nodeId", b.NodeID); err != nil {
		return err
	}
	switch {
	case b.Duration != 0 && b.EndsAt != nil:
		return fault.Invalid("durationSeconds", "cannot stand together with endsAt", 0)
	case b.Duration < 0 || b.Duration > maxDuration:
		return fault.Invalid("durationSeconds", "must be between 1 and 315360000", 0)
	case b.EndsAt != nil && b.StartsAt != nil && !b.EndsAt.After(*b.StartsAt):
		return fault.Invalid("endsAt", "must be after startsAt", 0)
	}
	if err := checkDevices(b.Devices); err != nil {
		return err
	}
	return node.CheckReason(b.Reason)
}

// Create books. The gate is asked under the node's lock, so a booking and a drain or a cordon never pass each other: it stands before, and is waited
// for, or it is refused with INVALID_STATE and the gate's sentences.
func (b *Bookings) Create(ctx context.Context, booking Booking) (Outcome, error) {
	if err := booking.check(); err != nil {
		return Outcome{}, err
	}
	asked := []any{booking.TenantID, booking.NodeID, booking.StartsAt, booking.EndsAt, booking.Duration, booking.Reason}
	if len(booking.Devices) > 0 {
		asked = append(asked, booking.Devices)
	}
	request, err := iam.NewRequest(booking.Who, booking.RequestID, "reservation.create", asked)
	if err != nil {
		return Outcome{}, err
	}
	if _, err := b.Authority.OnNode(ctx, b.DB.Pool(), booking.Who, iam.ReservationsCreate, booking.TenantID, booking.NodeID); err != nil {
		return Outcome{}, err
	}
	var out Outcome
	did, err := request.Once(ctx, b.DB, func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
		out = Outcome{}
		nodes, err := node.LockTx(ctx, tx, booking.NodeID)
		if err != nil {
			return iam.Answer{}, err
		}
		n, ok := nodes[booking.NodeID]
		if !ok {
			return iam.Answer{}, iam.NoSuchNode(booking.NodeID)
		}
		if gate := node.Gate(n.Node, booking.TenantID, node.Device, n.Now); !gate.Placeable {
			return iam.Answer{}, fault.New(fault.InvalidState,
				fault.Details{"provisionState": string(n.ProvisionState), "cordoned": n.Cordoned(), "because": gate.Because},
				"node %s takes no new work: %s", n.ID, strings.Join(gate.Because, "; "))
		}
		out.Reservation, err = b.insertTx(ctx, tx, booking, n)
		return iam.Answer{Changed: true, Made: []string{out.Reservation.ID}}, err
	}, again(booking.TenantID, &out))
	return out.with(did, err)
}

// interval gives when the booking begins and ends by the database's clock; ends is nil for an open end.
func (b Booking) interval(now time.Time) (starts time.Time, ends *time.Time, err error) {
	starts, ends = now, b.EndsAt
	if b.StartsAt != nil && b.StartsAt.After(now) {
		starts = *b.StartsAt
	}
	if b.Duration > 0 {
		e := starts.Add(b.Duration)
		ends = &e
	}
	switch {
	case starts.Sub(now) > maxDuration:
		return starts, nil, fault.Invalid("startsAt", "must be within ten years", 0)
	case ends != nil && !ends.After(starts):
		return starts, nil, fault.Invalid("endsAt", "must be in the future and after startsAt", 0)
	case ends != nil && ends.Sub(starts) > maxDuration:
		return starts, nil, fault.Invalid("endsAt", "must be within ten years of the beginning; leave it out for an open end", 0)
	}
	return starts, ends, nil
}

func (b *Bookings) insertTx(ctx context.Context, tx *db.Tx, booking Booking, n node.Locked) (Reservation, error) {
	starts, ends, err := booking.interval(n.Now)
	if err != nil {
		return Reservation{}, err
	}
	var started *time.Time
	if !starts.After(n.Now) {
		started = &n.Now
	}
	if err := tx.Locks(db.LockNodePart); err != nil {
		return Reservation{}, err
	}
	if err := claim(ctx, tx, booking, n, starts, ends); err != nil {
		return Reservation{}, err
	}
	r := Reservation{
		ID: id.New(id.Reservation), TenantID: booking.TenantID, Reason: node.Text(booking.Reason), CreatedBy: booking.Who.Name, CreatedAt: n.Now,
	}
	allocationID := id.New(id.Allocation)
	batch := &pgx.Batch{}
	batch.Queue(`insert into reservations (id, tenant_id, reason, created_by, created_at) values ($1, $2, nullif($3, ''), $4, $5)`,
		r.ID, r.TenantID, r.Reason, r.CreatedBy, r.CreatedAt)
	batch.Queue(`insert into allocations (id, reservation_id, tenant_id, node_id, starts_at, ends_at, started_at) values ($1, $2, $3, $4, $5, $6, $7)`,
		allocationID, r.ID, r.TenantID, n.ID, starts, ends, started)
	told := map[string]any{"reservationId": r.ID, "allocationIds": []string{allocationID}, "startsAt": starts, "endsAt": ends}
	if len(booking.Devices) > 0 {
		batch.Queue(holdSQL, allocationID, booking.Devices)
		told["devices"] = booking.Devices
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return Reservation{}, taken(err)
	}
	if n.TenantID != r.TenantID {
		if err := iam.ProjectTx(ctx, tx, r.TenantID, n.ID, iam.Allocated); err != nil {
			return Reservation{}, err
		}
	}
	return r, events.Append(tx, events.Entry{
		Type: "reservation.created", TenantID: r.TenantID, NodeID: n.ID, Actor: booking.Who.Name, Reason: booking.Reason, RequestID: booking.RequestID,
		Data: told, Audience: audience(r.TenantID, n.TenantID),
	})
}

// audience of a booking: the whole for the tenant whose it is, a reduced form for the node's owner.
func audience(tenant, owner string) events.Audience {
	if tenant == owner {
		return events.Audience{Full: []string{tenant}}
	}
	return events.Audience{Full: []string{tenant}, Reduced: []string{owner}}
}

// again reads the reservation of a request that has happened.
func again(tenant string, out *Outcome) func(ctx context.Context, tx *db.Tx, before iam.Answer) error {
	return func(ctx context.Context, tx *db.Tx, before iam.Answer) (err error) {
		if len(before.Made) != 1 {
			return fmt.Errorf("the request's row names %d reservations", len(before.Made))
		}
		*out = Outcome{}
		out.Reservation, err = one(ctx, tx, tenant, before.Made[0])
		return err
	}
}

func (o Outcome) with(did iam.Answer, err error) (Outcome, error) {
	if err != nil {
		return Outcome{}, err
	}
	o.Changed, o.Cursor = did.Changed, did.Cursor
	return o, nil
}

const oneSQL = "select " + reservationColumns + " from reservations r where r.id = $1 and r.tenant_id = $2 "

func one(ctx context.Context, q db.Querier, tenant, reservationID string) (Reservation, error) {
	rows, err := q.Query(ctx, oneSQL, reservationID, tenant)
	if err != nil {
		return Reservation{}, fmt.Errorf("read the reservation: %w", err)
	}
	return collectOne(rows, tenant, reservationID)
}

func collectOne(rows pgx.Rows, tenant, reservationID string) (Reservation, error) {
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Reservation])
	if errors.Is(err, pgx.ErrNoRows) {
		return Reservation{}, fault.New(fault.NotFound, fault.Details{"reservationId": reservationID},
			"no reservation %s in tenant %s", reservationID, tenant)
	}
	if err != nil {
		return Reservation{}, fmt.Errorf("read the reservation: %w", err)
	}
	return r, nil
}

var lockSQL = oneSQL + "and " + iam.MemberSQL(3, 4, 5, 2) + " for no key update"

// holding is an allocation that is live, on its node.
type holding struct{ ID, NodeID string }

// queueLock locks a reservation, and reads what it holds after the lock was got. Who holds no role in the tenant locks nothing, and finds nothing; the
// decision, which stands in the batch before, says why.
func queueLock(b *pgx.Batch, who iam.Actor, tenant, reservationID string, r *Reservation, held *[]holding) {
	b.Queue(lockSQL, append([]any{reservationID, tenant}, who.MemberArgs()...)...).Query(func(rows pgx.Rows) (err error) {
		*r, err = collectOne(rows, tenant, reservationID)
		return err
	})
	b.Queue("select a.id, a.node_id from allocations a where a.reservation_id = $1 and "+liveCondition+" order by a.id", reservationID).
		Query(func(rows pgx.Rows) (err error) {
			*held, err = pgx.CollectRows(rows, pgx.RowToStructByPos[holding])
			return err
		})
}
