package graph

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// refusedPerSecond is how many operations that can't be run one caller gets refused at once in the long run, refusedAtOnce how many in a row.
	refusedPerSecond, refusedAtOnce = 20, 100
	// refusedWait is how long each further refusal takes.
	refusedWait = time.Second
	// maxCallers bounds the memory.
	maxCallers = 10_000
)

// tarpit makes callers wait who send one operation after another that can't be read, is invalid or asks for too much: finding that out costs what it
// costs, and others must not pay for it. What can be run is never held up.
type tarpit struct {
	atOnce int

	mu sync.Mutex
	of map[string]*rate.Limiter
}

// newTarpit makes one; atOnce is how many refusals in a row cost nothing, 0 means the usual number.
func newTarpit(atOnce int) *tarpit {
	return &tarpit{atOnce: cmp.Or(atOnce, refusedAtOnce), of: map[string]*rate.Limiter{}}
}

// hold returns at once while the caller was refused seldom, and else after a while, or when ctx ends.
func (t *tarpit) hold(ctx context.Context, caller string) {
	if t.takes(caller) {
		return
	}
	wait := time.NewTimer(refusedWait)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

func (t *tarpit) takes(caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.of[caller]
	if l == nil {
		if len(t.of) >= maxCallers {
			clear(t.of) // all begin anew, which costs less than an unbounded map
		}
		l = rate.NewLimiter(refusedPerSecond, t.atOnce)
		t.of[caller] = l
	}
	return l.Allow()
}

type addressKey struct{}

// withAddress keeps where a request came from.
func withAddress(ctx context.Context, from string) context.Context {
	return context.WithValue(ctx, addressKey{}, from)
}

// callerOf tells callers apart: who, and from which address.
func callerOf(ctx context.Context) string {
	from, _ := ctx.Value(addressKey{}).(string)
	return nameOf(ctx) + "@" + from
}
