package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// background owns the goroutines that follow answers, and waits for them when the process stops.
type background struct {
	log   *slog.Logger
	slots chan struct{}

	mu     sync.Mutex // holds off wait while a goroutine is being counted
	tasks  sync.WaitGroup
	closed bool
}

const (
	// laterAtOnce bounds the goroutines that follow answers; past it the jobs do the same work.
	laterAtOnce = 64
	laterBound  = 10 * time.Second
)

func newBackground(log *slog.Logger) *background {
	return &background{log: log, slots: make(chan struct{}, laterAtOnce)}
}

// run does fn after the answer that asked for it. When too many are under way, or the process has begun to wait for them, which a socket can
// outlive, it does nothing, since a job does the same.
func (b *background) run(ctx context.Context, name string, fn func(ctx context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	select {
	case b.slots <- struct{}{}:
	default:
		return
	}
	b.tasks.Go(func() {
		defer func() { <-b.slots }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), laterBound)
		defer cancel()
		if err := fn(ctx); err != nil {
			b.log.WarnContext(ctx, "what follows an answer did not work; a job does it", "what", name, "error", err)
		}
	})
}

// wait ends when all that runs has ended; from its beginning on nothing more begins.
func (b *background) wait() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.tasks.Wait()
}
