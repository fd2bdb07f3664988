package placement

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// Release asks to end a reservation.
type Release struct {
	Who           iam.Actor
	TenantID      string
	ReservationID string
	Reason        string
	RequestID     string
}

// Follow is what follows on a node in the transaction that let go of it. It gives how many events it wrote.
type Follow func(ctx context.Context, tx *db.Tx, held node.Locks) (int, error)

// Following adds to the batch that locks a node, and lets go of it, what it needs to know for what follows.
type Following func(b *pgx.Batch, nodeID string) Follow

// Release ends a reservation with all that it holds, and then does what follows on each of its nodes; with nothing to follow it wakes the drains that may
// have waited for it. A released or ended one is left as it is.
func (b *Bookings) Release(ctx context.Context, rel Release, follow Following) (Outcome, error) {
	if err := id.Tenant("tenantId", rel.TenantID); err != nil {
		return Outcome{}, err
	}
	if err := id.Check(id.Reservation, "reservationId", rel.ReservationID); err != nil {
		return Outcome{}, err
	}
	if err := node.CheckReason(rel.Reason); err != nil {
		return Outcome{}, err
	}
	request, err := iam.NewRequest(rel.Who, rel.RequestID, "reservation.release", []any{rel.TenantID, rel.ReservationID, rel.Reason})
	if err != nil {
		return Outcome{}, err
	}
	var out Outcome
	var held []holding
	did, err := request.Perform(ctx, b.DB, iam.Steps{
		First: func(tx *db.Tx, batch *pgx.Batch) error {
			out = Outcome{}
			if err := tx.Locks(db.LockReservation); err != nil {
				return err
			}
			b.Authority.QueueOnTenant(batch, rel.Who, iam.ReservationsEnd, rel.TenantID)
			queueLock(batch, rel.Who, rel.TenantID, rel.ReservationID, &out.Reservation, &held)
			return nil
		},
		Act: func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
			done := iam.Answer{Made: []string{rel.ReservationID}}
			if out.Reservation.State() != Active {
				return done, nil
			}
			done.Changed = true
			err := b.releaseTx(ctx, tx, rel, held, follow, &out)
			done.After = out.after
			return done, err
		},
		Again: again(rel.TenantID, &out),
	})
	return out.with(did, err)
}

// releaseSQL lets go of the allocations, all by one clock.
const releaseSQL = `
	with clock as (select clock_timestamp() as now), gone as (
		update allocations a set released_at = clock.now from clock where a.reservation_id = $1 and ` + liveCondition + `)
	update reservations set released_at = clock.now, released_by = $2 from clock where id = $1 returning released_at`

func (b *Bookings) releaseTx(ctx context.Context, tx *db.Tx, rel Release, holdings []holding, follow Following, out *Outcome) error {
	var nodeIDs, allocationIDs []string
	for _, h := range holdings {
		nodeIDs, allocationIDs = append(nodeIDs, h.NodeID), append(allocationIDs, h.ID)
	}
	slices.Sort(nodeIDs)
	nodeIDs = slices.Compact(nodeIDs)
	var follows []Follow
	// The reservation's lock keeps its allocations as they were read.
	held, err := node.LockAndReadTx(ctx, tx, nodeIDs, node.AllParts&^node.PartLabels, func(batch *pgx.Batch) {
		batch.Queue(releaseSQL, rel.ReservationID, rel.Who.Name).QueryRow(func(row pgx.Row) error {
			return row.Scan(&out.Reservation.ReleasedAt)
		})
		for _, nodeID := range nodeIDs {
			// What follows is told to who still sees the node.
			sql, args := withdrawal(rel.TenantID, nodeID)
			batch.Queue(sql, args...)
			if follow != nil {
				follows = append(follows, follow(batch, nodeID))
			}
		}
	})
	if err != nil {
		return err
	}
	if err := tx.Locks(db.LockNodePart); err != nil {
		return err
	}
	nodes := held.Nodes
	out.Reservation.ReleasedBy = node.Text(rel.Who.Name)
	for _, nodeID := range nodeIDs {
		owner := rel.TenantID // of a deleted node nobody else is told
		n, found := nodes[nodeID]
		if found {
			owner = n.TenantID
		}
		err := events.Append(tx, events.Entry{
			Type: "reservation.released", TenantID: rel.TenantID, NodeID: nodeID, Actor: rel.Who.Name, Reason: rel.Reason, RequestID: rel.RequestID,
			Data:     map[string]any{"reservationId": rel.ReservationID, "allocationIds": allocationIDs},
			Audience: audience(rel.TenantID, owner),
		})
		if err != nil {
			return err
		}
	}
	if follow == nil {
		out.Woken, err = b.wakeTx(tx, nodes)
		return err
	}
	for _, next := range follows {
		wrote, err := next(ctx, tx, held)
		if err != nil {
			return err
		}
		out.after += wrote
	}
	return nil
}

// withdrawal is the statement that ends the sight that an allocation gave, unless the tenant holds another live one on the node. The owner's sight comes
// from elsewhere and stays.
func withdrawal(tenant, nodeID string) (sql string, args []any) {
	return iam.Withdrawal(tenant, nodeID, iam.Allocated, `select from allocations a where a.tenant_id = $1 and a.node_id = $2 and `+liveCondition)
}
