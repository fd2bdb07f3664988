package events

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// earlyMost is how many transactions may wait for one that stands before them, and earlyWait how long: one of this process tells within
	// microseconds of those after it.
	earlyMost = 64
	earlyWait = 500 * time.Microsecond
	// crowd is how many followers a committing goroutine nudges itself. A larger crowd is the tail reader's to nudge: it would hold up the answer.
	crowd = 64
	// toldMost is how many transactions of this process may wait for the tail reader then; past it, the reader looks.
	toldMost = 256
)

// tell takes what a transaction of this process wrote, from the goroutine that committed it: when it comes right after the tail, it is in the ring and its
// followers are nudged when tell returns, and no other goroutine had to be woken for it.
func (l *Log) tell(events []*Event) {
	if l.followers.count() > crowd {
		select {
		case l.told <- events:
		default:
			signal(l.wake)
		}
		return
	}
	follows, waits := l.take(events)
	switch {
	case !follows:
		signal(l.wake)
	case waits:
		signal(l.missing)
	}
}

// take puts what was told into its place. It says whether it could, and whether something waits for what stands before it.
func (l *Log) take(events []*Event) (follows, waits bool) {
	l.turn.Lock()
	defer l.turn.Unlock()
	follows = l.follows(events)
	return follows, len(l.early) > 0
}

// readTail reads each new range of the log once, and puts it into the ring.
func (l *Log) readTail(ctx context.Context, conn *pgx.Conn) error {
	ticker := time.NewTicker(l.opts.Look)
	defer ticker.Stop()
	for {
		whole, err := l.look(ctx, conn)
		if err != nil {
			return err
		}
		if !whole {
			continue
		}
		if err := l.listenIn(ctx, ticker.C); err != nil {
			return err
		}
	}
}

// listenIn returns when the tail reader must look: what this process's transactions wrote does not follow on the tail and what is between did not come at
// once, another process wrote, or a second has passed. Meanwhile it takes what the transactions leave to it.
func (l *Log) listenIn(ctx context.Context, tick <-chan time.Time) error {
	late := time.NewTimer(earlyWait)
	defer late.Stop()
	waiting := false
	for {
		waits := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.wake:
			return nil
		case <-tick:
			return nil
		case <-late.C:
			waiting = false
			if l.waits() {
				return nil
			}
		case <-l.missing:
			waits = true
		case events := <-l.told:
			var follows bool
			if follows, waits = l.take(events); !follows {
				return nil
			}
		}
		if waits && !waiting {
			waiting = true
			late.Reset(earlyWait)
		}
	}
}

// waits says whether something that was told waits for what stands before it.
func (l *Log) waits() bool {
	l.turn.Lock()
	defer l.turn.Unlock()
	return len(l.early) > 0
}

// follows puts events that were told into the ring when they come right after the tail. What the ring has already is passed over. Transactions that
// commit at once tell in any order: what comes too early waits for what is between. It is false when the reader must look: too much waits, or the ring
// is of another log. Whoever calls it has the turn.
func (l *Log) follows(events []*Event) bool {
	if len(events) == 0 {
		return false
	}
	l.ring.RLock()
	same := l.ring.started && l.ring.epoch == events[0].Epoch
	l.ring.RUnlock()
	if !same {
		clear(l.early)
		return false
	}
	if first := events[0].Position; first > l.tail.Load()+1 {
		l.early[first] = events
		return len(l.early) <= earlyMost
	}
	for events != nil {
		tail, last := l.tail.Load(), events[len(events)-1].Position
		switch {
		case events[0].Position == tail+1:
			l.ring.Lock()
			l.head.Store(max(l.head.Load(), last))
			l.put(events)
			l.ring.Unlock()
			l.announce(events)
		case last > tail: // a page ended within the transaction's events
			return false
		}
		next := l.tail.Load() + 1
		events = l.early[next]
		delete(l.early, next)
	}
	return true
}

// caughtUp takes what was told too early and is in place after a look. Whoever calls it has the turn.
func (l *Log) caughtUp() {
	tail := l.tail.Load()
	for first, events := range l.early {
		if events[len(events)-1].Position <= tail {
			delete(l.early, first)
		}
	}
	if events, ok := l.early[tail+1]; ok {
		delete(l.early, tail+1)
		l.follows(events)
	}
}

// put adds events to the ring, which is locked.
func (l *Log) put(events []*Event) {
	size := int64(len(l.ring.slots))
	tail := l.tail.Load()
	for _, e := range events {
		l.ring.slots[e.Position%size] = e
		tail = e.Position
		l.ring.at = e.At
	}
	l.ring.oldest = max(l.ring.oldest, tail-size+1)
	l.tail.Store(tail)
}

// announce nudges the followers that events concern, and tells those who watch.
func (l *Log) announce(events []*Event) {
	for _, e := range events {
		l.followers.concerned(e, func(f *Follower) { f.nudge(e) })
	}
	l.nudged.Store(l.tail.Load())
	l.watchers.RLock()
	defer l.watchers.RUnlock()
	for _, watch := range l.watchers.all {
		for _, e := range events {
			watch(e)
		}
	}
}

// look reads one page after the tail, and says whether that was all.
func (l *Log) look(ctx context.Context, conn *pgx.Conn) (whole bool, err error) {
	l.ring.RLock()
	from := place{started: l.ring.started, tail: l.tail.Load(), at: l.ring.at}
	l.ring.RUnlock()
	began := time.Since(l.born)
	var p page
	err = bounded(ctx, func(ctx context.Context) (err error) {
		if !from.started {
			p, err = readPage(ctx, conn, clockPage, pgx.NamedArgs{})
			return err
		}
		p, err = readPage(ctx, conn, tailPage, pgx.NamedArgs{"after": from.tail, "at": from.at, "limit": l.opts.Page})
		return err
	})
	if err != nil {
		return false, err
	}
	if l.turnPage(p, from) {
		l.log.WarnContext(ctx, "the log was replaced by another one or by an older state of itself; its readers begin anew", "head", p.Head.Position)
	}
	whole = l.tail.Load() >= p.Head.Position
	if whole {
		l.looked.Store(int64(began))
	}
	return whole, nil
}

// place is where the tail was when a page was asked for: transactions of this process may have moved it since.
type place struct {
	started bool
	tail    int64
	at      time.Time
}

// turnPage puts a page into the ring and nudges the followers that it concerns. It says whether the log is no longer the one that the ring holds.
func (l *Log) turnPage(p page, from place) (replaced bool) {
	l.turn.Lock()
	defer l.turn.Unlock()
	defer l.caughtUp()
	l.ring.Lock()
	replaced = from.started && (p.Head.Epoch != l.ring.epoch || p.Head.Position < from.tail)
	broken := !from.started || replaced
	if !broken && len(p.events) < l.opts.Page {
		// The page reaches up to the head. When events are missing in it, retention has passed the tail reader: it was away for months.
		broken = from.tail+int64(len(p.events)) != p.Head.Position
	}
	if !broken && len(p.events) > 0 {
		broken = p.events[0].Position != from.tail+1
	}
	if broken {
		l.restart(p)
		l.ring.Unlock()
		announced := l.nudged.Load()
		l.followers.all(func(f *Follower) { f.lookAnew(p.Span, announced) })
		l.nudged.Store(p.Head.Position)
		return replaced
	}
	l.head.Store(max(l.head.Load(), p.Head.Position))
	fresh := p.events[min(int64(len(p.events)), l.tail.Load()-from.tail):]
	l.put(fresh)
	l.ring.Unlock()
	l.announce(fresh)
	return false
}

// restart empties the ring and puts its tail to the page's head.
func (l *Log) restart(p page) {
	clear(l.ring.slots)
	l.ring.started, l.ring.epoch, l.ring.at, l.ring.oldest = true, p.Head.Epoch, p.at, p.Head.Position+1
	l.tail.Store(p.Head.Position)
	l.head.Store(p.Head.Position)
}
