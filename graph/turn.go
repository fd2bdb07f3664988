package graph

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// turns are how many answers of streams are made at one time: one fewer than there are processors, and at least one. An event that a thousand
// subscribers get is a thousand answers at once, and whatever request comes then would wait behind all of them. With a processor left free it waits
// behind none: a goroutine that waits for its turn is not runnable, and a processor that has nothing else to do looks at the network at once. And while
// requests are under way, the answers of a crowd of streams are made with a pause before each, since the database and the kernel need processors too.
type turns struct {
	places   chan struct{}
	waiting  atomic.Int64 // streams that wait for a place
	requests atomic.Int64 // queries and mutations that are under way
}

const (
	// pause is before each answer of a crowd of streams while requests are under way. The clock makes it half as long again.
	pause = 100 * time.Microsecond
	// crowd is how many streams must wait for there to be pauses: the answers of fewer take a request no longer than the pauses would take them.
	crowd = 16
)

func newTurns() *turns {
	return &turns{places: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))}
}

// enter takes a place.
func (t *turns) enter(ctx context.Context) bool {
	t.waiting.Add(1)
	select {
	case t.places <- struct{}{}:
	case <-ctx.Done():
		t.waiting.Add(-1)
		return false
	}
	if t.waiting.Add(-1) < crowd || t.requests.Load() == 0 {
		return true
	}
	over := time.NewTimer(pause)
	defer over.Stop()
	select {
	case <-over.C:
		return true
	case <-ctx.Done():
		t.leave()
		return false
	}
}

func (t *turns) leave() { <-t.places }

// turn is one stream's part in it. A nil one is of no stream, and lets everything through.
type turn struct {
	*turns

	// ready has something in it while the answer before has been written and the next is waited for: a subscriber that does not read never waits, and
	// so never holds a place.
	ready chan struct{}

	mu     sync.Mutex
	held   bool // a place
	making bool // an answer
	aside  int  // how many of the answer's parts wait for the database
}

type turnKey struct{}

func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

// inTurn gives each subscription its turns: a place is taken by [give], and freed when the answer is made and only has to be written.
func inTurn(all *turns) graphql.OperationMiddleware {
	return func(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
		if op := graphql.GetOperationContext(ctx); op.Operation == nil || op.Operation.Operation != ast.Subscription {
			return all.request(ctx, next)
		}
		t := &turn{turns: all, ready: make(chan struct{}, 1)}
		respond := next(context.WithValue(ctx, turnKey{}, t))
		return func(ctx context.Context) *graphql.Response {
			select {
			case t.ready <- struct{}{}:
			default:
			}
			defer t.made()
			return respond(ctx)
		}
	}
}

// request counts a query or mutation while it is under way.
func (t *turns) request(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	t.requests.Add(1)
	over := sync.OnceFunc(func() { t.requests.Add(-1) })
	stop := context.AfterFunc(ctx, over) // when nobody asks for the answer
	respond := next(ctx)
	return func(ctx context.Context) *graphql.Response {
		defer func() {
			stop()
			over()
		}()
		return respond(ctx)
	}
}

// give hands a value to whoever makes and writes the stream's answers, in its turn. It says false when ctx has ended.
func give[T any](ctx context.Context, out chan<- T, v T) bool {
	t := turnOf(ctx)
	return t.take(ctx) && hand(ctx, t, out, v)
}

// hand is give with the turn taken already.
func hand[T any](ctx context.Context, t *turn, out chan<- T, v T) bool {
	select {
	case out <- v:
		return true
	case <-ctx.Done():
		t.made()
		return false
	}
}

// take waits until the writer is ready, and then for a place.
func (t *turn) take(ctx context.Context) bool {
	if t == nil {
		return true
	}
	select {
	case <-t.ready:
	case <-ctx.Done():
		return false
	}
	if !t.enter(ctx) {
		return false
	}
	t.mu.Lock()
	t.held, t.making = true, true
	t.mu.Unlock()
	return true
}

// made frees the place.
func (t *turn) made() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.making = false
	t.free()
}

// free frees the place if one is held. mu is held.
func (t *turn) free() {
	if t.held {
		t.held = false
		t.leave()
	}
}

// wait runs what waits for the database, without holding a place meanwhile.
func (t *turn) wait(ctx context.Context, f func()) {
	if t == nil {
		f()
		return
	}
	t.mu.Lock()
	t.aside++
	t.free()
	t.mu.Unlock()
	defer t.back(ctx)
	f()
}

// back takes a place again when no part of the answer waits any more.
func (t *turn) back(ctx context.Context) {
	t.mu.Lock()
	t.aside--
	last := t.aside == 0 && t.making
	t.mu.Unlock()
	if !last {
		return
	}
	if !t.enter(ctx) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held || !t.making || t.aside > 0 {
		t.leave()
		return
	}
	t.held = true
}
