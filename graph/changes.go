package graph

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

const (
	// maxBatch is how many nodes one batch tells of.
	maxBatch = 500
	// maxRate is how many batches a second a subscriber may ask for.
	maxRate = 20
	// catchUp is how long the first batch waits for what comes after the cursor, so that it is told together.
	catchUp = 250 * time.Millisecond
	// lookAnew is how often a stream looks for what changed without an event that its tenant sees.
	lookAnew = 5 * time.Second
	// maxWatched is how many nodes one subscriber watches, and manyWatched how many times that all of them.
	maxWatched  = 200_000
	manyWatched = 10
	// patience is how long a stream waits for a database that does not answer.
	patience = 30 * time.Second
)

// NodeChanges tells how nodes are now, whenever they change.
func (s subscriptions) NodeChanges(ctx context.Context, tenantID, after string, filter *node.Filter, nodeIDs []string, maxPerSecond int,
) (<-chan *NodeChangeBatch, error) {
	who, err := s.on(ctx, iam.NodesList, tenantID)
	if err != nil {
		return nil, err
	}
	from, err := events.ParseCursor("after", after)
	if err != nil {
		return nil, err
	}
	if maxPerSecond < 1 || maxPerSecond > maxRate {
		return nil, fault.Invalid("maxPerSecond", "must be between 1 and "+strconv.Itoa(maxRate), 0)
	}
	w := &watch{
		api: s.API, who: who, tenant: tenantID, asOf: from, pause: time.Second / time.Duration(maxPerSecond), dirty: map[string]bool{},
	}
	want := events.Filter{Tenant: tenantID}
	if err := w.want(filter, nodeIDs); err != nil {
		return nil, err
	}
	if len(nodeIDs) == 1 {
		want.NodeID = nodeIDs[0]
	}
	if w.follower, err = s.Log.Follow(ctx, want, &from, s.Authority.Reader(who, tenantID, iam.NodesList)); err != nil {
		return nil, err
	}
	out := make(chan *NodeChangeBatch)
	go func() {
		defer close(out)
		defer w.follower.Close()
		if err := w.run(ctx, out); err != nil {
			endWith(ctx, err)
		}
	}()
	return out, nil
}

// watch is one subscriber of nodeChanges. It has one goroutine, which does nothing while the subscriber does not read, and holds two sets of ids, so
// that its memory is bounded by the number of nodes whatever happens to them.
type watch struct {
	api      *API
	who      iam.Actor
	tenant   string
	filter   *node.Filter
	only     []string // sorted; nil for all nodes
	follower *events.Follower
	pause    time.Duration

	dirty map[string]bool // nodes to be read again; true: told as removed even if not known, since the client may hold it from its query
	known map[string]bool // nodes that the tenant saw and the filter let through when they were read last, and whether it owned them
	mark  string          // of what the tenant sees, by which a change of sight without an event is found
	head  int64           // what is up to here happened before known was read, or while it was
	asOf  events.Cursor   // all that was to be told up to here has been
	due   time.Time       // no batch before
	first bool            // the next batch is the first
	held  int             // how many nodes are counted as watched by it
	look  time.Time       // when to look for changes without an event
}

// want sets which nodes are watched.
func (w *watch) want(filter *node.Filter, nodeIDs []string) error {
	w.filter = &node.Filter{}
	if filter != nil {
		w.filter = filter
	}
	if err := w.filter.Check(); err != nil {
		return err
	}
	if nodeIDs == nil {
		return nil
	}
	if len(nodeIDs) > maxBatch {
		return fault.Invalid("nodeIds", "must be at most "+strconv.Itoa(maxBatch)+" ids", len(nodeIDs))
	}
	for _, nodeID := range nodeIDs {
		if err := id.Check(id.Node, "nodeIds", nodeID); err != nil {
			return err
		}
	}
	w.only = slices.Compact(slices.Sorted(slices.Values(nodeIDs)))
	w.filter = &node.Filter{NodeIDs: w.only, Or: []node.Filter{*w.filter}}
	return nil
}

// run tells until ctx ends, the token ends, or the stream can't go on.
func (w *watch) run(ctx context.Context, out chan<- *NodeChangeBatch) error {
	// A token's end is known ahead; that it was revoked, the follower asks now and then.
	ctx, cancel := context.WithDeadlineCause(ctx, w.who.ExpiresAt, iam.Unauthenticated())
	defer cancel()
	defer func() { w.api.watched.Add(int64(-w.held)) }()
	if err := endure(ctx, func() error { return w.begin(ctx) }); err != nil {
		return ended(ctx, err)
	}
	for {
		if err := w.gather(ctx); err != nil {
			return ended(ctx, err)
		}
		batch, err := w.batch(ctx)
		if err != nil {
			return ended(ctx, err)
		}
		w.due, w.first = time.Now().Add(w.pause), false
		if batch == nil {
			continue
		}
		if !give(ctx, out, batch) {
			return context.Cause(ctx)
		}
	}
}

// ended gives why a context ended, if that is what an error comes from.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// begin reads which nodes the stream is about. The follower is there already, so that whatever happens from now on is both seen by it and after
// head, or in what is read here.
func (w *watch) begin(ctx context.Context) error {
	var err error
	if w.mark, err = w.api.Nodes.SightMark(ctx, w.tenant); err != nil {
		return err
	}
	if w.known, err = w.matching(ctx); err != nil {
		return err
	}
	head, err := events.Head(ctx, w.api.DB.Pool())
	if err != nil {
		return err
	}
	for _, nodeID := range w.only {
		if _, there := w.known[nodeID]; !there {
			w.dirty[nodeID] = true
		}
	}
	w.head, w.first = head.Position, true
	w.due, w.look = time.Now().Add(catchUp), time.Now().Add(lookAnew)
	return nil
}

// matching reads which nodes are watched, unless they are too many to keep in memory.
func (w *watch) matching(ctx context.Context) (map[string]bool, error) {
	most := w.api.MaxWatched
	if most == 0 {
		most = maxWatched
	}
	ids, err := w.api.Nodes.MatchingIDs(ctx, w.tenant, w.filter, most+1)
	if err != nil {
		return nil, err
	}
	if len(ids) > most {
		return nil, fault.New(fault.ResourceExhausted, fault.Details{"limit": most},
			"more than %d nodes match, which is more than one stream watches; narrow the filter, or follow nodeEvents", most)
	}
	if more := len(ids) - w.held; more > 0 {
		if all := w.api.watched.Add(int64(more)); all > int64(most)*manyWatched {
			w.api.watched.Add(int64(-more))
			return nil, fault.New(fault.ResourceExhausted, fault.Details{"limit": most * manyWatched, "retryAfterMs": 30_000},
				"this server watches as many nodes as it can; narrow the filter, or come back later")
		}
		w.held = len(ids)
	}
	return ids, nil
}

// gather takes events until there is something to tell and a batch is due. However often a node changes meanwhile, it is one entry.
func (w *watch) gather(ctx context.Context) error {
	for {
		wake := w.look
		if len(w.dirty) > 0 {
			if wake = w.due; !time.Now().Before(w.due) || w.first && w.follower.Position().Position >= w.head {
				return nil
			}
		}
		waiting, cancel := context.WithDeadline(ctx, wake)
		e, err := w.follower.Next(waiting)
		cancel()
		switch {
		case err == nil:
			if _, among := slices.BinarySearch(w.only, e.NodeID); e.NodeID != "" && (among || w.only == nil) {
				w.dirty[e.NodeID] = w.dirty[e.NodeID] || e.Position <= w.head
			}
		case ctx.Err() != nil || w.follower.Err() != nil:
			return err
		}
		if !time.Now().Before(w.look) {
			if err := endure(ctx, func() error { return w.lookAnew(ctx) }); err != nil {
				return err
			}
		}
	}
}

// lookAnew finds the nodes that came into sight, went out of it or are seen otherwise without an event that the tenant sees.
func (w *watch) lookAnew(ctx context.Context) error {
	mark, err := w.api.Nodes.SightMark(ctx, w.tenant)
	if err != nil {
		return err
	}
	if mark != w.mark {
		now, err := w.matching(ctx)
		if err != nil {
			return err
		}
		for _, change := range []struct{ of, in map[string]bool }{{w.known, now}, {now, w.known}} {
			for nodeID, owned := range change.of {
				if same, there := change.in[nodeID]; !there || same != owned {
					w.dirty[nodeID] = w.dirty[nodeID] || false
				}
			}
		}
		w.mark = mark
	}
	w.look = time.Now().Add(lookAnew)
	return nil
}

// batch reads the nodes that are to be told of as they are now, and as the tenant sees them now. It is nil when there is nothing to tell.
func (w *watch) batch(ctx context.Context) (*NodeChangeBatch, error) {
	position := w.follower.Position() // before the nodes are read: they hold everything up to it
	ids := make([]string, 0, min(len(w.dirty), maxBatch))
	for nodeID := range w.dirty {
		if len(ids) == maxBatch {
			break
		}
		ids = append(ids, nodeID)
	}
	slices.Sort(ids)
	var views map[string]*node.View
	if err := endure(ctx, func() (err error) {
		views, err = w.api.Nodes.Matching(ctx, w.tenant, w.filter, ids)
		return err
	}); err != nil {
		return nil, err
	}
	out := &NodeChangeBatch{Removed: []string{}}
	changed := make([]*node.View, 0, len(views))
	for _, nodeID := range ids {
		_, known := w.known[nodeID]
		switch v := views[nodeID]; {
		case v != nil:
			changed = append(changed, v)
			w.known[nodeID] = v.Full
		case known || w.dirty[nodeID]:
			out.Removed = append(out.Removed, nodeID)
			delete(w.known, nodeID)
		}
		delete(w.dirty, nodeID)
	}
	if len(w.dirty) == 0 {
		w.asOf = position
	}
	if len(changed)+len(out.Removed) == 0 {
		return nil, nil //nolint:nilnil // nothing that the filter is about
	}
	out.Changed, out.AsOf = w.api.newPage(w.who, w.tenant, changed), w.asOf.String()
	return out, nil
}

// endure tries again while the database does not answer, for as long as a stream waits for it.
func endure(ctx context.Context, try func() error) error {
	const moment = 250 * time.Millisecond
	began := time.Now()
	for {
		err := try()
		if err == nil || ctx.Err() != nil || time.Since(began) >= patience || !db.Unanswered(err) && fault.CodeOf(err) != fault.Unavailable {
			return err
		}
		t := time.NewTimer(moment)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}
