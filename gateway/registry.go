package gateway

import (
	"sync"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/pki"
)

// registry is the sessions in memory: all connections that were let in, and by node those that are open.
type registry struct {
	mu     sync.Mutex
	closed bool
	all    map[*session]struct{}
	byNode map[string]*session
}

// add lets a connection in and counts its goroutine, unless the gateway is full or stops.
func (r *registry) add(s *session, most int, work *sync.WaitGroup) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return fault.New(fault.Unavailable, nil, "this gateway stops; try another, or again")
	case len(r.all) >= most:
		return busy(5*time.Second+jitter(10*time.Second), "this gateway is full; try another")
	}
	r.all[s] = struct{}{}
	work.Add(1)
	return nil
}

// open makes s its node's session. It gives the session that s supersedes; when a newer one is there already, it is s that has to go.
func (r *registry) open(s *session) (older *session, newest bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.byNode[s.NodeID]
	if before != nil && before.number > s.number {
		return nil, false
	}
	r.byNode[s.NodeID] = s
	return before, true
}

func (r *registry) remove(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, s)
	if r.byNode[s.NodeID] == s {
		delete(r.byNode, s.NodeID)
	}
}

// close lets nobody in any more and gives those who are there.
func (r *registry) close() []*session {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	return r.snapshot()
}

func (r *registry) snapshot() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*session, 0, len(r.all))
	for s := range r.all {
		out = append(out, s)
	}
	return out
}

func (r *registry) count() (all, open int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all), len(r.byNode)
}

// ages gives how old each open session is that was heard of since its last flush, and when that was.
func (r *registry) ages(now time.Duration) ([]liveness.Age, map[*session]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ages, heardOf := make([]liveness.Age, 0, len(r.byNode)), make(map[*session]int64, len(r.byNode))
	for _, s := range r.byNode {
		heard := s.heard.Load()
		if heard == s.flushed.Load() {
			continue
		}
		ages = append(ages, liveness.Age{NodeID: s.NodeID, Number: s.number, Age: now - time.Duration(heard)})
		heardOf[s] = heard
	}
	return ages, heardOf
}

func (r *registry) held() []liveness.Held {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := make([]liveness.Held, 0, len(r.byNode))
	for _, s := range r.byNode {
		held = append(held, liveness.Held{NodeID: s.NodeID, Number: s.number})
	}
	return held
}

// certificates gives what the open sessions hang on.
func (r *registry) certificates() []pki.Held {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := make([]pki.Held, 0, len(r.byNode))
	for _, s := range r.byNode {
		held = append(held, pki.Held{NodeID: s.NodeID, Serial: s.Serial, Generation: s.Generation})
	}
	return held
}

// findBy gives the node's open session if it hangs on that certificate.
func (r *registry) findBy(nodeID, serial string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.byNode[nodeID]; s != nil && s.Serial == serial {
		return s
	}
	return nil
}

// find gives the node's open session if it is that one.
func (r *registry) find(nodeID string, number int64) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.byNode[nodeID]; s != nil && s.number == number {
		return s
	}
	return nil
}
