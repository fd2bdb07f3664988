package placement

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// Release ends a reservation with all that it holds, and wakes the drains that waited for it. A released or ended one is left as it is.
func (b *Bookings) Release(ctx context.Context, rel Release) (Outcome, error) {
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
	if err := b.Authority.OnTenant(ctx, b.DB.Pool(), rel.Who, iam.ReservationsEnd, rel.TenantID); err != nil {
		return Outcome{}, err
	}
	var out Outcome
	did, err := request.Once(ctx, b.DB, func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
		out = Outcome{}
		if err := tx.Locks(db.LockReservation); err != nil {
			return iam.Answer{}, err
		}
		r, allocations, err := lockReservation(ctx, tx, rel.TenantID, rel.ReservationID)
		if err != nil {
			return iam.Answer{}, err
		}
		out.Reservation = r
		if r.State() != Active {
			return iam.Answer{Made: []string{r.ID}}, nil
		}
		return iam.Answer{Changed: true, Made: []string{r.ID}}, b.releaseTx(ctx, tx, rel, allocations, &out)
	}, again(rel.TenantID, &out))
	return out.with(did, err)
}

func (b *Bookings) releaseTx(ctx context.Context, tx *db.Tx, rel Release, allocations []Allocation, out *Outcome) error {
	var nodeIDs, allocationIDs []string
	for _, a := range allocations {
		if a.Live() {
			nodeIDs, allocationIDs = append(nodeIDs, a.NodeID), append(allocationIDs, a.ID)
		}
	}
	slices.Sort(nodeIDs)
	nodeIDs = slices.Compact(nodeIDs)
	nodes, err := node.LockTx(ctx, tx, nodeIDs...)
	if err != nil {
		return err
	}
	if err := tx.Locks(db.LockNodePart); err != nil {
		return err
	}
	// The reservation's lock keeps its allocations as they were read; what is written goes along with the final batch, all by one clock.
	var now time.Time
	for _, n := range nodes {
		now = n.Now
	}
	if now.IsZero() { // it holds nothing, or what it held is on nodes that are deleted
		if err := tx.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil {
			return fmt.Errorf("release: %w", err)
		}
	}
	out.Reservation.ReleasedAt, out.Reservation.ReleasedBy = &now, node.Text(rel.Who.Name)
	tx.Send(`update allocations set released_at = $2 where id = any($1)`, allocationIDs, now)
	tx.Send(`update reservations set released_at = $2, released_by = $3 where id = $1`, rel.ReservationID, now, rel.Who.Name)
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
		if found && owner == rel.TenantID {
			continue // its sight does not come from what it holds
		}
		if err := withdrawTx(ctx, tx, rel.TenantID, nodeID); err != nil {
			return err
		}
	}
	out.Woken, err = b.wakeTx(tx, nodes)
	return err
}

// withdrawTx ends the sight that an allocation gave, when the tenant holds no live one on the node any more.
func withdrawTx(ctx context.Context, tx *db.Tx, tenant, nodeID string) error {
	var holds bool
	err := tx.QueryRow(ctx, `select exists (select from allocations a where a.node_id = $1 and a.tenant_id = $2 and `+liveCondition+`)`,
		nodeID, tenant).Scan(&holds)
	if err != nil {
		return fmt.Errorf("read what the tenant holds: %w", err)
	}
	if holds {
		return nil
	}
	return iam.WithdrawTx(ctx, tx, tenant, nodeID, iam.Allocated)
}
