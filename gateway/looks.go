package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/pki"
)

// flush writes ages, in a phase of its own, until ctx ends. It gives an error only when another process runs under this gateway's id.
func (g *Gateway) flush(ctx context.Context) error {
	next := time.NewTimer(jitter(g.FlushEvery))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		err := g.flushOnce(ctx)
		switch {
		case errors.Is(err, liveness.ErrTakenOver):
			return fault.Because(fault.InvalidState, err, nil,
				"another process runs as the gateway %s; give each its own data directory", g.ID)
		case err != nil && ctx.Err() == nil:
			g.Log.ErrorContext(ctx, "the ages of the sessions could not be written; trying on", "gateway", g.ID, "error", err)
		}
		next.Reset(g.FlushEvery)
	}
}

// flushOnce writes the ages of the sessions that were heard of since the flush before.
func (g *Gateway) flushOnce(ctx context.Context) error {
	at := g.now()
	ages, heard := g.registry.ages(at)
	if err := g.Sessions.Flush(ctx, g.ID, g.instance, ages); err != nil {
		return err
	}
	for s, heard := range heard {
		s.flushed.Store(heard)
	}
	g.flushed.Store(int64(at))
	return nil
}

// check asks the database each second which sessions must end, until ctx ends. While the database doesn't answer, sessions go on.
func (g *Gateway) check(ctx context.Context) {
	tick := time.NewTicker(g.LookEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := g.checkOnce(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			g.Log.ErrorContext(ctx, "the sessions can't be checked against the database; they go on", "gateway", g.ID, "error", err)
		}
		failing = err != nil
	}
}

func (g *Gateway) checkOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	gone, err := g.Sessions.Check(ctx, g.registry.held())
	if err != nil {
		return err
	}
	for _, gone := range gone {
		if s := g.registry.find(gone.NodeID, gone.Number); s != nil {
			g.Log.InfoContext(ctx, "a session must end", "node", gone.NodeID, "session", s.id, "reason", gone.Reason)
			g.work.Go(func() { s.end(gone.Reason, sentences[gone.Reason], 0) })
		}
	}
	return nil
}

// revoked ends sessions whose certificates no longer count.
func (g *Gateway) revoked(ctx context.Context, gone []pki.Gone) {
	for _, gone := range gone {
		s := g.registry.findBy(gone.NodeID, gone.Serial)
		if s == nil {
			continue
		}
		reason := refusalEnds[string(gone.Reason)]
		g.Log.InfoContext(ctx, "a session's certificate no longer counts", "node", gone.NodeID, "session", s.id, "reason", gone.Reason)
		g.work.Go(func() { s.end(reason, sentences[reason], 0) })
	}
}

// blind ends all sessions when for too long no revocation could have been seen: a thief's session must not outlive that.
func (g *Gateway) blind(ctx context.Context) {
	if g.Feed == nil || !g.Feed.Blind() {
		return
	}
	all := g.registry.snapshot()
	if len(all) > 0 {
		g.Log.ErrorContext(ctx, "revocations could not be seen for too long, so the sessions end", "gateway", g.ID, "sessions", len(all))
	}
	for _, s := range all {
		g.work.Go(func() {
			s.end(liveness.EndedGoAway, "this gateway can't see what is revoked; connect to another, or again", time.Second+jitter(30*time.Second))
		})
	}
}

// keep looks at every session in memory until ctx ends.
func (g *Gateway) keep(ctx context.Context) {
	tick := time.NewTicker(g.LookEvery)
	defer tick.Stop()
	var since time.Duration // silence counts from here on: what passed while this process stood still is nobody's fault
	last := g.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := g.now()
		if now-last > 5*g.LookEvery+time.Second {
			since = now
		}
		last = now
		g.blind(ctx)
		for _, s := range g.registry.snapshot() {
			s.look(ctx, now, since)
		}
	}
}
