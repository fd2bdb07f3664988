package graph

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// drainTypes are the events after which a drain may be otherwise: it began or ended, or the node holds something else.
func drainTypes() []string {
	return []string{"node.draining", "node.drained", "node.uncordoned", "node.deleted", "reservation.", "allocation."}
}

// DrainChanges tells how drains are now.
func (s subscriptions) DrainChanges(ctx context.Context, tenantID string, drainIDs []string, poolID, after *string) (<-chan *Drain, error) {
	who, err := s.on(ctx, iam.NodesList, tenantID)
	if err != nil {
		return nil, err
	}
	w := &drainWatch{api: s.API, who: who, tenant: tenantID, filter: &node.Filter{PoolID: poolID}}
	if err := w.filter.Check(); err != nil {
		return nil, fault.Invalid("poolId", "must look like pool_ and 26 characters", 0)
	}
	if len(drainIDs) > maxBatch {
		return nil, fault.Invalid("drainIds", "must be at most "+strconv.Itoa(maxBatch)+" ids", len(drainIDs))
	}
	for _, drainID := range drainIDs {
		if err := id.Check(id.Drain, "drainIds", drainID); err != nil {
			return nil, err
		}
	}
	from, err := cursorOf(after)
	if err != nil {
		return nil, err
	}
	w.follower, err = s.Log.Follow(ctx, events.Filter{Tenant: tenantID, Types: drainTypes()}, from, s.Authority.Reader(who, tenantID, iam.NodesList))
	if err != nil {
		return nil, err
	}
	// After the follower is there: what is not in this reading comes by it.
	if drainIDs != nil {
		w.running = map[string]string{}
		if err := w.begin(ctx, slices.Compact(slices.Sorted(slices.Values(drainIDs)))); err != nil {
			w.follower.Close()
			return nil, err
		}
	}
	out := make(chan *Drain)
	go func() {
		defer close(out)
		defer w.follower.Close()
		valid, cancel := context.WithDeadlineCause(ctx, who.ExpiresAt, iam.Unauthenticated())
		defer cancel()
		if err := w.run(valid, out); err != nil {
			endWith(ctx, ended(valid, err))
		}
	}()
	return out, nil
}

// drainWatch is one subscriber of drainChanges.
type drainWatch struct {
	api      *API
	who      iam.Actor
	tenant   string
	filter   *node.Filter
	follower *events.Follower
	running  map[string]string // nodes by drain: those that were asked for and have not ended; nil when all are told
	first    []*Drain          // what is told at once
}

// begin reads the drains that were asked for.
func (w *drainWatch) begin(ctx context.Context, ids []string) error {
	list, err := w.read(ctx, ids)
	if err != nil {
		return err
	}
	for _, d := range list {
		if w.filter.PoolID == nil || *w.filter.PoolID == d.Node.PoolID {
			w.first = append(w.first, d)
			w.running[d.ID] = d.NodeID
		}
	}
	return nil
}

// read gives drains by id; one that is not there, or whose node is not seen, is NOT_FOUND.
func (w *drainWatch) read(ctx context.Context, ids []string) ([]*Drain, error) {
	var list []node.DrainView
	if err := endure(ctx, func() (err error) {
		list, err = w.api.Nodes.Drains(ctx, w.tenant, ids)
		return err
	}); err != nil {
		return nil, err
	}
	for _, drainID := range ids {
		if !slices.ContainsFunc(list, func(d node.DrainView) bool { return d.ID == drainID }) {
			return nil, fault.New(fault.NotFound, fault.Details{"drainId": drainID}, "no drain %s, or its node is not visible to this tenant", drainID)
		}
	}
	return w.api.drains(w.who, w.tenant, list), nil
}

// run tells until ctx ends, the stream can't go on, or all drains that were asked for have ended.
func (w *drainWatch) run(ctx context.Context, out chan<- *Drain) error {
	changed := w.first
	for {
		for _, d := range changed {
			if !give(ctx, out, d) {
				return ctx.Err()
			}
			if d.State != node.Draining {
				delete(w.running, d.ID)
			}
		}
		if w.running != nil && len(w.running) == 0 {
			return nil
		}
		var err error
		if changed, err = w.next(ctx); err != nil {
			return err
		}
	}
}

// next gives the drains that the next event may have changed. Sight can be lost without an event that the tenant sees, so now and then it is looked
// whether those that are waited for are still seen: a wait must not last for ever.
func (w *drainWatch) next(ctx context.Context) ([]*Drain, error) {
	waiting, cancel := context.WithTimeout(ctx, lookAnew)
	defer cancel()
	e, err := w.follower.Next(waiting)
	switch {
	case err == nil:
		return w.concerned(ctx, e)
	case ctx.Err() != nil || w.follower.Err() != nil:
		return nil, err
	case w.running != nil:
		_, err := w.read(ctx, slices.Sorted(maps.Keys(w.running)))
		return nil, err
	}
	return nil, nil
}

// concerned gives the drains that an event may have changed, as they are now.
func (w *drainWatch) concerned(ctx context.Context, e events.Event) ([]*Drain, error) {
	if w.running != nil {
		var ids []string
		for drainID, nodeID := range w.running {
			if nodeID == e.NodeID {
				ids = append(ids, drainID)
			}
		}
		if len(ids) == 0 {
			return nil, nil
		}
		slices.Sort(ids)
		return w.read(ctx, ids)
	}
	var views map[string]*node.View
	if err := endure(ctx, func() (err error) {
		views, err = w.api.Nodes.Matching(ctx, w.tenant, w.filter, []string{e.NodeID})
		return err
	}); err != nil {
		return nil, err
	}
	v := views[e.NodeID]
	if v == nil || v.LastDrain == nil || !about(e, v) {
		return nil, nil
	}
	return []*Drain{w.api.oneNode(w.who, v).LastDrain()}, nil
}

// about says whether the event is about the node's newest drain. What a guest reads of node.uncordoned does not name the drain.
func about(e events.Event, v *node.View) bool {
	d := v.LastDrain
	switch e.Type {
	case "node.draining", "node.drained":
		return true
	case "node.uncordoned":
		var u controls.Uncordoned
		return d.State == node.Cancelled && (!v.Full || read(e, &u) == nil && u.CancelledDrainID == d.ID)
	}
	return d.State == node.Draining
}
