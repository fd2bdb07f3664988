package events

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// Follower gives one reader its events, in order, each once. It has no goroutine: the reader pulls. One goroutine at a time calls Next; the
// other methods may be called by any.
type Follower struct {
	log        *Log
	want       *selection
	visibility Visibility
	epoch      int64

	nudges chan struct{} // something may have come
	done   chan struct{} // closed when it has ended
	unbind func() bool

	mu      sync.Mutex
	err     error    // why it has ended
	read    int64    // everything up to here has been looked at, and what passed is in buffer or was given out
	pending int64    // the first position after read that may concern it; 0 when there is none up to what was announced
	last    int64    // the newest position that it was nudged for
	unread  int      // nudges since it was last live
	live    bool     // it had reached the log's head: from then on what it leaves unread is its own doing
	buffer  []*Event // looked at, not yet given out

	// Only the goroutine in Next touches these.
	checked time.Time // when Visibility last said yes
	trouble time.Time // since when the database hasn't given a page; zero when it does
	unsure  time.Time // since when Visibility hasn't known; zero when it does
}

// ringBatch is how many events a reader takes out of the ring at once, and ringLook how many it looks at while it holds the ring.
const (
	ringBatch = 64
	ringLook  = 4096
	// stretch is how far one statement looks for a reader's events where no index leads to them.
	stretch = 50_000
)

// Follow begins a stream of the events that pass the filter, from after the cursor on; nil means from now: whatever commits after Follow has
// returned is in the stream. The stream ends with ctx or with [Follower.Close].
//
// It answers INVALID_INPUT for a filter that can't be read, CURSOR_EXPIRED for a cursor from which the log can't go on, UNAVAILABLE when the
// database doesn't answer, and whatever Visibility.Check says.
func (l *Log) Follow(ctx context.Context, filter Filter, after *Cursor, v Visibility) (*Follower, error) {
	want, err := choose(filter)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, errors.New("follow: a reader has a Visibility")
	}
	if err := v.Check(ctx); err != nil {
		return nil, err
	}
	checked := time.Now()
	extent, err := Extent(ctx, l.db.Pool())
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fault.Because(fault.Unavailable, err, nil, "the log cannot be read now; try again")
	}
	if after == nil {
		after = &extent.Head
	}
	if err := extent.admits(*after); err != nil {
		return nil, err
	}
	f := &Follower{
		log: l, want: want, visibility: v, epoch: extent.Head.Epoch, read: after.Position, checked: checked,
		nudges: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := l.admit(f, extent.Head.Position); err != nil {
		return nil, err
	}
	unbind := context.AfterFunc(ctx, func() { f.finish(context.Cause(ctx)) })
	f.mu.Lock()
	f.unbind = unbind
	f.mu.Unlock()
	select {
	case <-l.stop:
		f.stop()
	case <-f.done:
		unbind()
	default:
	}
	return f, nil
}

// admit puts the follower into the index, and then has it look at what the ring holds already: an event is either in the ring by then, or its
// nudge finds the follower in the index.
func (l *Log) admit(f *Follower, head int64) error {
	l.followers.add(f)
	f.mu.Lock()
	l.ring.RLock()
	other := l.ring.started && l.ring.epoch != f.epoch
	tail := l.tail.Load()
	l.ring.RUnlock()
	if f.read < tail {
		f.pending = f.read + 1
	}
	f.live = f.read >= head // the tail may not be there yet
	f.mu.Unlock()
	if other {
		l.followers.remove(f)
		signal(l.wake)
		return fault.New(fault.Unavailable, nil, "the log has just been replaced; try again")
	}
	return nil
}

// Next waits for the next event. An error of ctx leaves the stream as it is; any other has ended it, and comes again at each further call.
func (f *Follower) Next(ctx context.Context) (Event, error) {
	for {
		ready, page, err := f.fill()
		switch {
		case err != nil:
			return Event{}, err
		case ctx.Err() != nil:
			return Event{}, ctx.Err()
		case page > 0:
			if err := f.check(ctx, f.log.opts.Recheck); err != nil {
				return Event{}, err
			}
			if err := f.catchUp(ctx, page); err != nil {
				return Event{}, err
			}
		case !ready:
			if err := f.await(ctx); err != nil {
				return Event{}, err
			}
		default:
			if err := f.check(ctx, f.log.opts.Recheck); err != nil {
				return Event{}, err
			}
			if e, ok := f.pop(); ok {
				return e, nil
			}
		}
	}
}

// fill puts events into the empty buffer from the ring. It says whether there are any; when the place to read at isn't in the ring, page is the
// position after which the database is to be read, plus one.
func (f *Follower) fill() (ready bool, page int64, err error) {
	announced := f.log.nudged.Load() // before pending is looked at: what is announced up to here is in it
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return false, 0, f.err
	}
	if len(f.buffer) > 0 {
		return true, 0, nil
	}
	f.buffer = nil
	if f.pending == 0 {
		f.read = max(f.read, announced)
		return false, 0, nil
	}
	from := max(f.pending, f.read+1)
	l := f.log
	l.ring.RLock()
	defer l.ring.RUnlock()
	tail := l.tail.Load()
	if from > tail {
		f.reached(tail)
		return false, 0, nil
	}
	if from < l.ring.oldest {
		return false, from, nil
	}
	size := int64(len(l.ring.slots))
	at := from
	for ; at <= tail && len(f.buffer) < ringBatch && at-from < ringLook; at++ {
		if e := l.ring.slots[at%size]; f.want.has(e) {
			f.buffer = append(f.buffer, e)
		}
	}
	f.read = at - 1
	f.reached(tail)
	return len(f.buffer) > 0, 0, nil
}

// reached sets what is pending after read has moved. mu and the ring are held, so that no event comes in between.
func (f *Follower) reached(tail int64) {
	if f.read >= tail {
		f.pending, f.unread = 0, 0
		f.live = f.read >= f.log.head.Load() // else the tail reader itself has a way to go, and would count all of it as unread
		return
	}
	f.pending = f.read + 1
	f.unread = max(0, f.unread-len(f.buffer))
	signal(f.nudges)
}

// pop takes an event out of the buffer; false when the reader does not see it.
func (f *Follower) pop() (Event, bool) {
	f.mu.Lock()
	if f.err != nil || len(f.buffer) == 0 {
		f.mu.Unlock()
		return Event{}, false
	}
	e := f.buffer[0]
	f.buffer[0] = nil
	f.buffer = f.buffer[1:]
	f.mu.Unlock()
	return f.visibility.View(*e)
}

// catchUp reads a page from the database.
func (f *Follower) catchUp(ctx context.Context, from int64) error {
	limit := max(1, f.log.opts.Page/4)
	sql, args := followPage(f.want, from-1, int64(limit), stretch)
	p, err := readPage(ctx, f.log.db.Pool(), sql, args)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !passing(err) {
			f.finish(err)
			return f.Err()
		}
		return f.endure(ctx, &f.trouble, err)
	}
	f.trouble = time.Time{}
	if err := p.admits(Cursor{Epoch: f.epoch, Position: from - 1}); err != nil {
		f.finish(err)
		return f.Err()
	}
	looked := p.Head.Position
	if f.want.NodeID == "" {
		looked = min(looked, from-1+stretch)
	}
	if len(p.events) == limit {
		looked = p.events[limit-1].Position
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log.ring.RLock()
	defer f.log.ring.RUnlock()
	f.buffer, f.read = p.events, looked
	f.reached(f.log.tail.Load())
	return nil
}

// check asks whether the reader may still read, unless it was asked lately.
func (f *Follower) check(ctx context.Context, young time.Duration) error {
	for time.Since(f.checked) >= young {
		err := f.visibility.Check(ctx)
		switch {
		case err == nil:
			f.checked, f.unsure = time.Now(), time.Time{}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case fault.CodeOf(err) != fault.Unavailable:
			f.finish(err)
			return f.Err()
		}
		if err := f.endure(ctx, &f.unsure, err); err != nil {
			return err
		}
	}
	return nil
}

// endure waits a moment for what has failed to come back, and ends the stream when it has been away for too long.
func (f *Follower) endure(ctx context.Context, since *time.Time, err error) error {
	const moment = 100 * time.Millisecond
	if since.IsZero() {
		*since = time.Now()
	}
	if time.Since(*since) >= f.log.opts.Patience {
		f.finish(fault.Because(fault.Unavailable, err, fault.Details{"cursor": f.Position().String()},
			"the database does not answer; go on from the cursor later"))
		return f.Err()
	}
	t := time.NewTimer(moment)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.done:
		return f.Err()
	case <-t.C:
		return nil
	}
}

// await waits for a nudge. Now and then it asks whether the reader may still read, so that a stream where nothing happens ends too.
func (f *Follower) await(ctx context.Context) error {
	t := time.NewTimer(max(0, f.log.opts.IdleRecheck-time.Since(f.checked)))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.done:
		return f.Err()
	case <-f.nudges:
		return nil
	case <-t.C:
		return f.check(ctx, f.log.opts.IdleRecheck)
	}
}

// nudge tells the follower of an event that was put into the ring.
func (f *Follower) nudge(e *Event) {
	if !f.want.hasType(e.Type) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Position <= f.read || e.Position <= f.last || f.err != nil {
		return
	}
	f.last = e.Position
	if f.pending == 0 {
		f.pending = e.Position
	}
	if f.live {
		f.unread++
	}
	if most := f.log.opts.MaxLag; most >= 0 && f.unread > most {
		f.end(fault.New(fault.ResourceExhausted, fault.Details{"cursor": f.position(0).String(), "unread": f.unread, "retryAfterMs": 1000},
			"%d events are unread, which is too many; go on from the cursor, and read faster", f.unread))
		return
	}
	signal(f.nudges)
}

// lookAnew is called when the ring was emptied. A follower whose place is no longer in the log ends, and any other looks at the database. announced
// is up to where followers had been nudged before.
func (f *Follower) lookAnew(s Span, announced int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	place := f.position(announced)
	if err := s.admits(place); err != nil {
		f.end(err)
		return
	}
	f.last = 0
	if len(f.buffer) == 0 {
		f.read = place.Position
	}
	if f.read < s.Head.Position {
		f.pending, f.live = f.read+1, false
		signal(f.nudges)
	}
}

// finish ends the follower and takes it out of the index. Only the first reason counts.
func (f *Follower) finish(err error) {
	f.mu.Lock()
	f.end(err)
	f.mu.Unlock()
	f.log.followers.remove(f)
}

// stop ends the follower because the process ends.
func (f *Follower) stop() {
	place := f.Position().String()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(fault.New(fault.Unavailable, fault.Details{"cursor": place}, "the server is stopping; connect again and go on from the cursor"))
}

// end is finish with mu held, and without leaving the index, over which a walk may be going on: Close or the end of the context does that.
func (f *Follower) end(err error) {
	if f.err != nil {
		return
	}
	f.err = err
	f.buffer = nil
	close(f.done)
}

var errClosed = errors.New("the stream is closed")

// Close ends the stream and frees what it holds. It may be called more than once.
func (f *Follower) Close() {
	f.finish(errClosed)
	f.mu.Lock()
	unbind := f.unbind
	f.mu.Unlock()
	if unbind != nil {
		unbind()
	}
}

// Done is closed when the stream has ended, for a reader that is busy giving out an event and not in Next.
func (f *Follower) Done() <-chan struct{} { return f.done }

// Err tells why the stream has ended; nil while it hasn't.
func (f *Follower) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Position is the cursor up to which there is nothing more for the reader: it moves on while other readers' events go by. The event that Next
// has returned last counts as dealt with, so who is still giving it out must not promise this cursor yet.
func (f *Follower) Position() Cursor {
	announced := f.log.nudged.Load() // before pending is looked at: what is announced up to here is in it
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.position(announced)
}

// position is Position with mu held.
func (f *Follower) position(announced int64) Cursor {
	c := Cursor{Epoch: f.epoch, Position: f.read}
	switch {
	case len(f.buffer) > 0:
		c.Position = f.buffer[0].Position - 1
	case f.pending == 0:
		c.Position = max(f.read, announced)
	default:
		c.Position = max(f.read, f.pending-1)
	}
	return c
}

// Lagging says whether the reader has fallen so far behind that its next event comes from the database.
func (f *Follower) Lagging() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pending == 0 {
		return false
	}
	f.log.ring.RLock()
	defer f.log.ring.RUnlock()
	return max(f.pending, f.read+1) < f.log.ring.oldest
}
