package graph

import (
	"context"
	"time"

	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// Drain is a drain in an answer.
type Drain struct {
	*node.Drain

	Node *Node
}

// Blockers gives the live allocations that a running drain waits for: all to the owner, others' reduced; its own to a guest.
func (d *Drain) Blockers(ctx context.Context) ([]*Allocation, error) {
	out := []*Allocation{}
	if d.State != node.Draining {
		return out, nil
	}
	by, err := d.Node.page.blockers(ctx)
	for _, a := range by[d.NodeID] {
		if d.Node.Full || a.TenantID == d.Node.Seer {
			out = append(out, allocation(a, d.Node.Seer))
		}
	}
	return out, err
}

// ExpectedAt gives when the last blocker ends; nil when one is open-ended or there is none, and to a guest when the last is another's: the end of
// that one's work is none of its business.
func (d *Drain) ExpectedAt(ctx context.Context) (*time.Time, error) {
	if d.State != node.Draining {
		return nil, nil //nolint:nilnil // it waits for nothing
	}
	by, err := d.Node.page.blockers(ctx)
	blockers := by[d.NodeID]
	if err != nil || len(blockers) == 0 {
		return nil, err
	}
	last := blockers[0] // the open-ended stand first, then those that end last
	if !d.Node.Full && last.TenantID != d.Node.Seer {
		return nil, nil //nolint:nilnil // not told
	}
	return last.EndsAt, nil
}

// EndedAllocationCount counts the allocations that ended while it ran.
func (d *Drain) EndedAllocationCount(ctx context.Context) (int, error) {
	counts, err := d.Node.page.endedIn(ctx)
	return counts[d.ID], err
}

// Allocation is an allocation as a tenant sees it: of another's, only that it is there and until when.
type Allocation struct {
	ID            *string
	ReservationID *string
	TenantID      *string
	NodeID        string
	Live          bool
	Future        bool
	StartsAt      *time.Time
	EndsAt        *time.Time
	ReleasedAt    *time.Time
	EndedAt       *time.Time
	Devices       []string
}

func allocation(a placement.Allocation, seer string) *Allocation {
	v := &Allocation{
		NodeID: a.NodeID, Live: a.Live(), Future: a.Future(), EndsAt: a.EndsAt, ReleasedAt: a.ReleasedAt, EndedAt: a.EndedAt, Devices: a.Devices,
	}
	if a.TenantID == seer {
		v.ID, v.ReservationID, v.TenantID, v.StartsAt = &a.ID, &a.ReservationID, &a.TenantID, &a.StartsAt
	}
	return v
}

// Reservation is a reservation in an answer.
type Reservation struct {
	*placement.Reservation

	of *reservations
}

// reservations is a set whose allocations are read once for all.
type reservations struct {
	api         *API
	ids         []string
	allocations lazy[map[string][]placement.Allocation]
}

func (a *API) reservations(list []placement.Reservation) []*Reservation {
	of := &reservations{api: a}
	out := make([]*Reservation, len(list))
	for i := range list {
		of.ids = append(of.ids, list[i].ID)
		out[i] = &Reservation{Reservation: &list[i], of: of}
	}
	return out
}

// Allocations gives what the reservation holds.
func (r *Reservation) Allocations(ctx context.Context) ([]*Allocation, error) {
	by, err := r.of.allocations.get(ctx, func() (map[string][]placement.Allocation, error) {
		return placement.ByReservation(ctx, r.of.api.DB.Pool(), r.of.ids)
	})
	out := []*Allocation{}
	for _, a := range by[r.ID] {
		out = append(out, allocation(a, r.TenantID))
	}
	return out, err
}
