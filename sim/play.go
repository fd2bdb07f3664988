package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// cleared is the reason of what a run does to begin with a fleet that is as good as new.
const cleared = "the simulation begins anew"

// tidy ends what an earlier run has left: bookings and cordons on the fleet's own tenants' simulated pools.
func (f *Fleet) tidy(ctx context.Context) error {
	tenants := map[string][]string{}
	for key, id := range f.pools {
		tenants[key[0]] = append(tenants[key[0]], id)
	}
	for tenant, pools := range tenants {
		for _, pool := range pools {
			if err := f.tidyPool(ctx, tenant, pool); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fleet) tidyPool(ctx context.Context, tenant, pool string) error {
	var out struct {
		Nodes struct {
			Nodes []struct {
				ID          string
				Cordoned    bool
				Allocations struct {
					Nodes []struct{ ReservationID string }
				}
			}
			PageInfo struct {
				HasNextPage bool
				EndCursor   *string
			}
		}
	}
	var after *string
	for {
		err := f.api.do(ctx, `query($t: ID!, $p: ID!, $after: Cursor) { nodes(tenantId: $t, filter: {poolId: $p}, first: 50, after: $after) {
			nodes { id cordoned allocations(first: 20) { nodes { reservationId } } } pageInfo { hasNextPage endCursor } } }`,
			map[string]any{"t": tenant, "p": pool, "after": after}, &out)
		if err != nil {
			return fmt.Errorf("look what an earlier run has left: %w", err)
		}
		for _, n := range out.Nodes.Nodes {
			for _, a := range n.Allocations.Nodes {
				if a.ReservationID == "" {
					continue
				}
				err := f.api.act(ctx, "reservationRelease", "ReservationReleaseInput", map[string]any{"tenantId": tenant, "reservationId": a.ReservationID, "reason": cleared})
				if err != nil && fault.CodeOf(err) != fault.NotFound {
					return fmt.Errorf("release what an earlier run has booked: %w", err)
				}
			}
			if n.Cordoned {
				if err := f.api.act(ctx, "nodeUncordon", "NodeUncordonInput", map[string]any{"tenantId": tenant, "nodeId": n.ID, "reason": cleared}); err != nil {
					return fmt.Errorf("lift what an earlier run has cordoned: %w", err)
				}
			}
		}
		if after = out.Nodes.PageInfo.EndCursor; !out.Nodes.PageInfo.HasNextPage {
			return nil
		}
	}
}

// play lets the script's acts happen, each at its time, until ctx ends.
func (f *Fleet) play(ctx context.Context) {
	hardware := make([]Hardware, len(f.machines))
	for i, m := range f.machines {
		hardware[i] = *m.Hardware
	}
	script := NewScript(f.Seed, hardware)
	p := &stage{Fleet: f, run: fmt.Sprintf("sim-%x", rand.Uint64()), reservations: map[int]string{}} //nolint:gosec // names a run, no secret
	// Someone has to be there before anything happens.
	for f.joined.Load() < int64(max(len(f.machines)/10, 1)) {
		if rest(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
	began := time.Now()
	for {
		act := script.Next()
		if rest(ctx, time.Until(began.Add(act.At))) != nil {
			return
		}
		err := p.act(ctx, act)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.refused.Add(1)
			f.Log.DebugContext(ctx, "an act of the simulation was refused", "act", act.Kind, "machine", f.machines[act.Machine].Hardware.Hostname, "error", err)
		default:
			f.done.Add(1)
			f.Log.DebugContext(ctx, "simulated", "act", act.Kind, "machine", f.machines[act.Machine].Hardware.Hostname, "reason", act.Reason)
		}
	}
}

// stage is where acts happen. It belongs to the goroutine of play.
type stage struct {
	*Fleet

	run          string
	made         int
	reservations map[int]string // by the script's number of the booking
}

var errNoNode = fault.New(fault.NotFound, nil, "the machine has not joined")

func (p *stage) act(ctx context.Context, a Act) error {
	m := p.machines[a.Machine]
	input := map[string]any{"tenantId": p.tenant(m.Hardware), "nodeId": m.node(), "reason": a.Reason}
	p.made++
	input["requestId"] = fmt.Sprintf("%s-%d", p.run, p.made) // so that a repeat after a lost answer does nothing
	if input["nodeId"] == "" {
		return errNoNode
	}
	switch a.Kind {
	case Book:
		return p.book(ctx, a, m, input)
	case Release:
		id, ok := p.reservations[a.Booking]
		if !ok {
			return fault.New(fault.NotFound, nil, "that booking had been refused")
		}
		delete(p.reservations, a.Booking)
		delete(input, "nodeId")
		input["reservationId"] = id
		m.use(a.GPUs, -1)
		return p.api.act(ctx, "reservationRelease", "ReservationReleaseInput", input)
	case Cordon:
		return p.api.act(ctx, "nodeCordon", "NodeCordonInput", input)
	case Drain:
		return p.api.act(ctx, "nodeDrain", "NodeDrainInput", input)
	case Uncordon:
		return p.api.act(ctx, "nodeUncordon", "NodeUncordonInput", input)
	case GPUFails, GPUBack:
		m.fail(a.GPUs[0], a.Kind == GPUFails)
		p.work.Go(func() {
			m.power.Lock()
			defer m.power.Unlock()
			m.halt()
			m.boot(ctx, p.failed)
		})
	case RackOff, RackOn:
		for _, other := range p.machines {
			if other.Rack != m.Rack || other.node() == "" {
				continue
			}
			p.work.Go(func() {
				other.power.Lock()
				defer other.power.Unlock()
				if a.Kind == RackOff {
					other.cable.lose()
					other.halt()
				} else {
					other.boot(ctx, p.failed)
				}
			})
		}
	}
	return nil
}

func (p *stage) book(ctx context.Context, a Act, m *machine, input map[string]any) error {
	devices := make([]string, len(a.GPUs))
	for i, n := range a.GPUs {
		devices[i] = m.gpus[n]
	}
	input["devices"] = devices
	if a.For > 0 {
		input["durationSeconds"] = int(a.For.Seconds())
	}
	var made struct {
		ReservationCreate struct{ Reservation struct{ ID string } }
	}
	err := p.api.do(ctx, `mutation($input: ReservationCreateInput!) { reservationCreate(input: $input) { reservation { id } } }`, map[string]any{"input": input}, &made)
	if err != nil {
		return err
	}
	m.use(a.GPUs, 1)
	if a.For > 0 {
		// The control plane ends it by itself; the work on the machine ends with it.
		p.work.Go(func() {
			if rest(ctx, a.For) == nil {
				m.use(a.GPUs, -1)
			}
		})
		return nil
	}
	p.reservations[a.Booking] = made.ReservationCreate.Reservation.ID
	return nil
}
