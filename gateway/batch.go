package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/liveness"
)

// errNoNode says that the node of a Hello does not exist any more.
var errNoNode = errors.New("the node was deleted")

const (
	// batchMost is how many sessions one transaction opens or ends.
	batchMost = 256
	// batchesAtOnce is how many transactions open sessions at one time.
	batchesAtOnce = 4
)

// opener gathers Hellos, so that a rack that powers on at once costs a few transactions.
type opener struct{ queue chan hello }

type hello struct {
	liveness.Hello

	reply chan welcome // of one
}

type welcome struct {
	liveness.Opened

	err error
}

// open waits until the session is open. A full queue is RESOURCE_EXHAUSTED; a node that does not exist is errNoNode.
func (o *opener) open(ctx context.Context, h liveness.Hello) (liveness.Opened, error) {
	asked := hello{Hello: h, reply: make(chan welcome, 1)}
	select {
	case o.queue <- asked:
	default:
		return liveness.Opened{}, busy(time.Second, "too many machines connect now; try again")
	}
	select {
	case got := <-asked.reply:
		return got.Opened, got.err
	case <-ctx.Done():
		return liveness.Opened{}, ctx.Err()
	}
}

// openSessions opens what is asked for, batch by batch, until ctx ends.
func (g *Gateway) openSessions(ctx context.Context) {
	places := make(chan struct{}, batchesAtOnce)
	var batches sync.WaitGroup
	defer batches.Wait()
	var later []hello // a node's second Hello waits for the batch after its first
	for {
		batch := map[string]hello{}
		var again []hello
		take := func(h hello) {
			if _, twice := batch[h.NodeID]; twice {
				again = append(again, h)
			} else {
				batch[h.NodeID] = h
			}
		}
		for _, h := range later {
			take(h)
		}
		if len(batch) == 0 {
			select {
			case h := <-g.opens.queue:
				take(h)
			case <-ctx.Done():
				return
			}
		}
		g.gather(ctx, take, func() int { return len(batch) })
		later = again
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		batches.Go(func() {
			g.openBatch(ctx, batch)
			<-places
		})
	}
}

func (g *Gateway) gather(ctx context.Context, take func(hello), size func() int) {
	enough := time.NewTimer(g.Gather)
	defer enough.Stop()
	for size() < batchMost {
		select {
		case h := <-g.opens.queue:
			take(h)
		case <-enough.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// openBatch opens a batch; when that fails for a reason that may lie in one of them, each is tried alone, so that it doesn't stop the others.
func (g *Gateway) openBatch(ctx context.Context, batch map[string]hello) {
	hellos := make([]liveness.Hello, 0, len(batch))
	for _, h := range batch {
		hellos = append(hellos, h.Hello)
	}
	opened, err := g.Sessions.Open(ctx, g.ID, hellos)
	if err != nil && len(batch) > 1 && fault.CodeOf(err) == fault.Internal && ctx.Err() == nil {
		for nodeID, h := range batch {
			g.openBatch(ctx, map[string]hello{nodeID: h})
		}
		return
	}
	for nodeID, h := range batch {
		o, found := opened[nodeID]
		switch {
		case err != nil:
			h.reply <- welcome{err: err}
		case !found:
			h.reply <- welcome{err: errNoNode}
		default:
			h.reply <- welcome{Opened: o}
		}
	}
}

// ender gathers ends. None is ever dropped while the gateway runs: it is tried until the database has it.
type ender struct {
	mu    sync.Mutex
	list  []liveness.Ended
	nudge chan struct{}
}

func (e *ender) add(ended ...liveness.Ended) {
	e.mu.Lock()
	e.list = append(e.list, ended...)
	e.mu.Unlock()
	select {
	case e.nudge <- struct{}{}:
	default:
	}
}

// take gives the oldest ends, no two of one node.
func (e *ender) take() []liveness.Ended {
	e.mu.Lock()
	defer e.mu.Unlock()
	var batch, rest []liveness.Ended
	in := map[string]bool{}
	for _, ended := range e.list {
		if len(batch) < batchMost && !in[ended.NodeID] {
			batch, in[ended.NodeID] = append(batch, ended), true
		} else {
			rest = append(rest, ended)
		}
	}
	e.list = rest
	return batch
}

// endSessions writes ends, batch by batch, until ctx ends; what there is then gets the time that stopping has for it.
func (g *Gateway) endSessions(ctx context.Context) {
	failures := 0
	for {
		select {
		case <-g.ends.nudge:
		case <-ctx.Done():
			g.lastEnds(ctx)
			return
		}
		pause(ctx, g.Gather)
		for batch := g.ends.take(); len(batch) > 0; batch = g.ends.take() {
			err := g.Sessions.End(ctx, batch)
			if err == nil {
				failures = 0
				continue
			}
			g.ends.add(batch...)
			if ctx.Err() != nil {
				break
			}
			failures++
			g.Log.ErrorContext(ctx, "the end of sessions could not be written; trying again", "sessions", len(batch), "error", err)
			pause(ctx, jitter(min(time.Second<<min(failures, 4), 10*time.Second)))
		}
	}
}

func (g *Gateway) lastEnds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastEnds)
	defer cancel()
	for batch := g.ends.take(); len(batch) > 0; batch = g.ends.take() {
		if err := g.Sessions.End(ctx, batch); err != nil {
			g.Log.ErrorContext(ctx, "the end of sessions could not be written; the next start of this gateway does it", "sessions", len(batch), "error", err)
			return
		}
	}
}

// pause waits, but not beyond ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
