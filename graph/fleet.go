package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

const (
	// recountEvery is how often a summary is counted at most.
	recountEvery = time.Second
	// recountAnyway is how often it is counted though nothing was heard of: sight can change without an event.
	recountAnyway = 10 * time.Second
	// recheckReader and recheckIdle are how old the answer may be whether a subscriber may still read, when something is given out and when not.
	recheckReader = time.Second
	recheckIdle   = 5 * time.Second
	// recountShare bounds what a summary costs: it is not counted again for so many times as long as its counting took.
	recountShare = 10
	// countedAtOnce is how many summaries the process counts at the same moment.
	countedAtOnce = 4
	// maxFleets and maxFleetsOfOne are how many different summaries are followed in the process and by one tenant: each is counted again and again.
	maxFleets      = 256
	maxFleetsOfOne = 32
)

// FleetSummary counts the nodes that the tenant sees.
func (q queries) FleetSummary(ctx context.Context, tenantID string, filter *node.Filter) (*FleetSummary, error) {
	if _, err := q.on(ctx, iam.NodesList, tenantID); err != nil {
		return nil, err
	}
	if filter == nil {
		filter = &node.Filter{}
	}
	if err := filter.Check(); err != nil {
		return nil, err
	}
	s, err := q.API.Nodes.Summary(ctx, tenantID, filter)
	if err != nil {
		return nil, err
	}
	return fleetSummary(s), nil
}

// FleetSummary tells the counts whenever they change.
func (s subscriptions) FleetSummary(ctx context.Context, tenantID string, filter *node.Filter) (<-chan *FleetSummary, error) {
	who, err := s.on(ctx, iam.NodesList, tenantID)
	if err != nil {
		return nil, err
	}
	if filter == nil {
		filter = &node.Filter{}
	}
	if err := filter.Check(); err != nil {
		return nil, err
	}
	f, leave, err := s.fleets.join(ctx, s.API, tenantID, filter)
	if err != nil {
		return nil, err
	}
	reader := s.Authority.Reader(who, tenantID, iam.NodesList)
	out := make(chan *FleetSummary)
	go func() {
		defer close(out)
		defer leave()
		valid, cancel := context.WithDeadlineCause(ctx, who.ExpiresAt, iam.Unauthenticated())
		defer cancel()
		if err := f.tell(valid, reader, out); err != nil {
			endWith(ctx, ended(valid, err))
		}
	}()
	return out, nil
}

// fleets are the summaries that somebody follows, one for each tenant and filter: they are counted once for all who ask the same.
type fleets struct {
	mu    sync.Mutex
	by    map[string]*fleet
	slots chan struct{} // of those who count
}

// fleet is one of them. It is counted while it has readers.
type fleet struct {
	tenant  string
	slots   chan struct{}
	readers int                // under the lock of fleets
	stop    context.CancelFunc // of the counting

	mu     sync.Mutex
	latest *node.Summary
	err    error         // why it is counted no more
	news   chan struct{} // closed when one of the above is new
}

// join adds a reader, and gives how it leaves. The counting outlives the reader that was first, and ends with the one that is last.
func (fs *fleets) join(ctx context.Context, a *API, tenant string, filter *node.Filter) (f *fleet, leave func(), err error) {
	text, err := json.Marshal(filter)
	if err != nil {
		return nil, nil, fmt.Errorf("write the filter: %w", err)
	}
	key := tenant + " " + string(text)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f = fs.by[key]
	if f == nil {
		if fs.by == nil {
			fs.by, fs.slots = map[string]*fleet{}, make(chan struct{}, countedAtOnce)
		}
		if err := fs.room(tenant); err != nil {
			return nil, nil, err
		}
		counting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &fleet{tenant: tenant, slots: fs.slots, news: make(chan struct{}), stop: cancel}
		fs.by[key] = f
		go func() {
			err := f.count(counting, a, tenant, filter)
			fs.forget(key, f)
			f.publish(nil, err)
		}()
	}
	f.readers++
	return f, func() { fs.leave(key, f) }, nil
}

// room says whether one more summary may be followed.
func (fs *fleets) room(tenant string) error {
	ofOne := 0
	for _, f := range fs.by {
		if f.tenant == tenant {
			ofOne++
		}
	}
	if ofOne < maxFleetsOfOne && len(fs.by) < maxFleets {
		return nil
	}
	return fault.New(fault.ResourceExhausted, fault.Details{"limit": maxFleetsOfOne, "retryAfterMs": recountAnyway.Milliseconds()},
		"too many different summaries are followed; a tenant has at most %d at once: ask for one that is followed already, or end one", maxFleetsOfOne)
}

func (fs *fleets) leave(key string, f *fleet) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.readers--; f.readers > 0 {
		return
	}
	f.stop()
	if fs.by[key] == f {
		delete(fs.by, key)
	}
}

// forget lets the next reader begin anew.
func (fs *fleets) forget(key string, f *fleet) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.by[key] == f {
		delete(fs.by, key)
	}
}

// everybody is the visibility of the counting itself, which gives no event to anybody: its readers are each asked by themselves.
type everybody struct{}

// Check lets it read.
func (everybody) Check(context.Context) error { return nil }

// View gives it the event.
func (everybody) View(e events.Event) (events.Event, bool) { return e, true }

// count counts whenever something happened to a node that the tenant sees, but not oftener than once a second, until ctx ends.
func (f *fleet) count(ctx context.Context, a *API, tenant string, filter *node.Filter) error {
	for {
		follower, err := a.Log.Follow(ctx, events.Filter{Tenant: tenant}, nil, everybody{})
		if err != nil {
			return err
		}
		err = f.countWith(ctx, a, tenant, filter, follower)
		follower.Close()
		switch fault.CodeOf(err) {
		case fault.CursorExpired, fault.ResourceExhausted: // the log was replaced or is too fast: what is counted is the state, so begin from now
		default:
			return err
		}
	}
}

func (f *fleet) countWith(ctx context.Context, a *API, tenant string, filter *node.Filter, follower *events.Follower) error {
	for {
		var again time.Time
		if err := endure(ctx, func() error {
			select {
			case f.slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			began := time.Now()
			s, err := a.Nodes.Summary(ctx, tenant, filter)
			again = began.Add(max(recountEvery, recountShare*time.Since(began)))
			<-f.slots
			if err == nil {
				f.publish(s, nil)
			}
			return err
		}); err != nil {
			return err
		}
		if _, err := next(ctx, follower, again.Add(recountAnyway)); err != nil {
			return err
		}
		for happened := true; happened; { // whatever comes until then is counted together
			var err error
			if happened, err = next(ctx, follower, again); err != nil {
				return err
			}
		}
	}
}

// next waits for an event of a node until then, and says whether there was one.
func next(ctx context.Context, follower *events.Follower, until time.Time) (bool, error) {
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		e, err := follower.Next(waiting)
		switch {
		case err == nil && e.NodeID != "":
			return true, nil
		case err == nil:
		case ctx.Err() == nil && follower.Err() == nil:
			return false, nil
		default:
			return false, err
		}
	}
}

// publish gives the readers a summary that differs from the one before, or the end.
func (f *fleet) publish(s *node.Summary, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && f.latest != nil && reflect.DeepEqual(s.Counts, f.latest.Counts) && reflect.DeepEqual(s.Pools, f.latest.Pools) {
		return
	}
	if f.err = err; err == nil {
		f.latest = s
	}
	close(f.news)
	f.news = make(chan struct{})
}

func (f *fleet) now() (latest *node.Summary, news <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest, f.news, f.err
}

// tell gives one reader what is new to it. A reader that takes its time gets the newest, never what is in between.
func (f *fleet) tell(ctx context.Context, reader *iam.Reader, out chan<- *FleetSummary) error {
	checked := time.Now()
	var told *node.Summary
	for {
		latest, news, err := f.now()
		if err != nil {
			return err
		}
		most := recheckIdle
		if latest != told {
			most = recheckReader
		}
		if time.Since(checked) >= most {
			if err := endure(ctx, func() error { return reader.Check(ctx) }); err != nil {
				return err
			}
			checked = time.Now()
		}
		if latest != told {
			if !give(ctx, out, fleetSummary(latest)) {
				return ctx.Err()
			}
			told = latest
			continue
		}
		t := time.NewTimer(recheckIdle - time.Since(checked))
		select {
		case <-news:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
		t.Stop()
	}
}

func fleetSummary(s *node.Summary) *FleetSummary {
	states, connected, placeable := countsOf(s.Counts)
	out := &FleetSummary{
		Total: s.Total, ProvisionStates: states, Connectivity: connected, PlaceableFor: placeable, Cordoned: s.Cordoned, Draining: s.Draining,
		Maintenance: s.Maintenance, Pools: make([]*PoolSummary, len(s.Pools)), AsOf: s.AsOf.String(),
	}
	for i, p := range s.Pools {
		states, connected, placeable := countsOf(p.Counts)
		out.Pools[i] = &PoolSummary{
			Pool: &p.Pool, Total: p.Total, ProvisionStates: states, Connectivity: connected, PlaceableFor: placeable, Cordoned: p.Cordoned,
			Draining: p.Draining, Maintenance: p.Maintenance,
		}
	}
	return out
}

// countsOf lists each value of the axes that have several, in the order in which the schema has them.
func countsOf(c *node.Counts) (states []*ProvisionStateCount, connected []*ConnectivityCount, placeable []*PlaceableForCount) {
	for _, v := range []node.ProvisionState{
		node.Enrolling, node.Adopting, node.Adopted, node.Provisioning, node.Failed, node.Retiring, node.Retired,
	} {
		states = append(states, &ProvisionStateCount{ProvisionState: v, Count: c.ProvisionStates[v]})
	}
	for _, v := range []node.Connectivity{node.Pending, node.Connected, node.Disconnected, node.Unreachable, node.Lost} {
		connected = append(connected, &ConnectivityCount{Connectivity: v, Count: c.Connectivity[v]})
	}
	for _, v := range []node.Placeable{node.PlaceableForAll, node.PlaceableForOne, node.PlaceableForNone} {
		placeable = append(placeable, &PlaceableForCount{PlaceableFor: v, Count: c.PlaceableFor[v]})
	}
	return states, connected, placeable
}
