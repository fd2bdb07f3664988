package events

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
)

// Options bound a [Log]. A zero field means its default.
type Options struct {
	// Ring is how many of the newest events are kept in memory for all readers together; 16,384 by default.
	Ring int
	// Page is how many events one statement reads at most; 1,000 by default for the tail, a quarter of it for a single reader that catches up.
	Page int
	// Look is how often the log is looked at when nobody says that it has grown; 1 s by default.
	Look time.Duration
	// Notify is the least time between two NOTIFYs of this process; 5 ms by default.
	Notify time.Duration
	// Greet is how often a process says that it listens; 30 s by default. One that was not heard for two and a half times as long counts as gone.
	Greet time.Duration
	// Recheck is how old the answer of a reader's Visibility may be when an event is given out; 1 s by default.
	Recheck time.Duration
	// IdleRecheck is how often a waiting reader's Visibility is asked; 5 s by default.
	IdleRecheck time.Duration
	// MaxLag is how many of its events a reader that had been live may leave unread; 100,000 by default, and no bound when negative.
	MaxLag int
	// Patience is how long a reader waits for a database that does not answer; 30 s by default.
	Patience time.Duration
	// Log takes what went wrong; nil means nowhere.
	Log *slog.Logger
}

func (o *Options) defaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&o.Look, time.Second)
	set(&o.Notify, 5*time.Millisecond)
	set(&o.Greet, 30*time.Second)
	set(&o.Recheck, time.Second)
	set(&o.IdleRecheck, 5*time.Second)
	set(&o.Patience, 30*time.Second)
	if o.Ring == 0 {
		o.Ring = 16384
	}
	if o.Page == 0 {
		o.Page = 1000
	}
	if o.MaxLag == 0 {
		o.MaxLag = 100_000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Log is a process's reading end of the log: one tail reader for all its followers.
type Log struct {
	db   *db.DB
	opts Options
	log  *slog.Logger

	wake    chan struct{} // the tail reader should look now
	missing chan struct{} // something was told too early, and the tail reader should look if what is between does not come
	told    chan []*Event // what transactions of this process wrote and leave to the tail reader to put into the ring
	mark    chan struct{} // the other processes should be told

	// turn is held by whoever puts events into the ring and announces them: the tail reader, or a goroutine that has committed. Followers hear of events in
	// the log's order.
	turn sync.Mutex
	// early is what was told before what stands between it and the tail, by its first position. It goes with the turn.
	early map[int64][]*Event

	notifier atomic.Uint32 // the notifying connection's backend, whose notifications are no news here
	greeted  atomic.Int64  // when the present listening connection said that it listens, in nanoseconds since born; 0 while there is none
	heard    atomic.Int64  // when another process was heard, in nanoseconds since born; 0 for never
	tail     atomic.Int64  // newest position in the ring
	head     atomic.Int64  // newest position in the log, as far as the tail reader knows
	nudged   atomic.Int64  // everything up to here has been announced to the followers
	looked   atomic.Int64  // when the tail was last known to be whole, in nanoseconds since born
	born     time.Time

	watchers struct {
		sync.RWMutex
		all []func(*Event)
	}

	// The lock order is: turn, followers, a follower's mu, ring.
	followers index
	ring      struct {
		sync.RWMutex
		started bool
		epoch   int64
		oldest  int64 // lowest position that the ring holds; above tail when it holds none
		at      time.Time
		slots   []*Event // by position modulo length
	}

	stop    chan struct{} // closed when Run ends
	stopped sync.Once
}

// NewLog makes the reading end of a process. Followers may be made at once; events come as soon as [Log.Run] runs.
//
// It also teaches the database's transactions to make a month's partition that is missing.
func NewLog(d *db.DB, o Options) *Log {
	o.defaults()
	l := &Log{
		db: d, opts: o, log: o.Log, born: time.Now(),
		wake: make(chan struct{}, 1), missing: make(chan struct{}, 1), told: make(chan []*Event, toldMost), early: map[int64][]*Event{},
		mark: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	l.followers.init()
	l.ring.slots = make([]*Event, o.Ring)
	l.ring.oldest = 1
	d.OnLogCommit(func(tx *db.Tx, c db.Committed) {
		if c.Position > l.tail.Load() {
			l.tell(written(tx, c))
		}
		signal(l.mark)
		// The readers first: what the committing goroutine does next is its answer, which may take ten times as long as they do.
		runtime.Gosched()
	})
	d.OnFault(NewMaintenance(d, o.Log).repair)
	return l
}

// signal puts a token into a channel of one place; one that is there already says the same.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run reads the log's tail, listens and notifies, until ctx ends. Then every follower ends with UNAVAILABLE and Run returns. It is called once.
func (l *Log) Run(ctx context.Context) error {
	defer l.stopped.Do(func() {
		close(l.stop)
		l.followers.all(func(f *Follower) { f.stop() })
	})
	var parts sync.WaitGroup
	for name, part := range map[string]func(context.Context, *pgx.Conn) error{
		"tail": l.readTail, "listen": l.listen, "notify": l.notify,
	} {
		parts.Go(func() { l.keep(ctx, name, part) })
	}
	parts.Wait()
	return ctx.Err()
}

// keep runs a part on a connection of its own, and anew after each fault, until ctx ends.
func (l *Log) keep(ctx context.Context, name string, part func(context.Context, *pgx.Conn) error) {
	const first, most = 50 * time.Millisecond, 2 * time.Second
	wait := first
	for ctx.Err() == nil {
		began := time.Now()
		err := l.connected(ctx, name, part)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > most {
			wait = first
		}
		l.log.WarnContext(ctx, "the log lost its connection and takes a new one", "part", name, "error", err, "wait", wait)
		pause(ctx, wait)
		wait = min(2*wait, most)
	}
}

func (l *Log) connected(ctx context.Context, name string, part func(context.Context, *pgx.Conn) error) error {
	c := l.db.Pool().Config().ConnConfig
	// PostgreSQL cuts names at 63 bytes; the part stays readable.
	app := c.RuntimeParams["application_name"]
	c.RuntimeParams["application_name"] = app[:min(len(app), 40)] + " log " + name
	// Left alone, PostgreSQL plans the tail reader's one statement anew each time, over all months, which takes many times as long as running it. And a
	// plan that was made while the log was empty must not read all of it later. (Without jit off, the penalty for the clock's one row would have it
	// compiled.)
	c.RuntimeParams["jit"] = "off"
	c.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	c.RuntimeParams["enable_seqscan"] = "off"
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	return part(ctx, conn)
}

// closeConn says goodbye to the server even when ctx has ended.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// answer is how long a statement of the log's own connections may take before the connection counts as lost.
const answer = 20 * time.Second

func bounded(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	return fn(ctx)
}

// Watch has fn called for each event as the tail reader comes upon it, whoever may see it: for a part of this process that must look at the database
// when something happened, and never to show the event to anybody. fn must neither block nor change the event. When the reader begins anew, events
// are passed over, so whoever watches also looks by itself.
func (l *Log) Watch(fn func(*Event)) {
	l.watchers.Lock()
	defer l.watchers.Unlock()
	l.watchers.all = append(l.watchers.all, fn)
}

// Ready says whether the tail has been read since Run began.
func (l *Log) Ready() bool { return l.looked.Load() > 0 }

// Stats is what metrics and readiness ask of a log.
type Stats struct {
	// Tail is the newest position that this process has read.
	Tail int64
	// Unseen is for how long the process hasn't known whether there is more: at most a little over [Options.Look] when all is well.
	Unseen time.Duration
	// Followers is how many readers there are, and Lagging how many of them have fallen out of the ring.
	Followers, Lagging int
}

// Stats counts.
func (l *Log) Stats() Stats {
	s := Stats{Tail: l.tail.Load(), Unseen: time.Since(l.born) - time.Duration(l.looked.Load())}
	l.followers.all(func(f *Follower) {
		s.Followers++
		if f.Lagging() {
			s.Lagging++
		}
	})
	return s
}

// index finds the followers whom an event may concern: those of its audience's tenants that follow all nodes, and those that follow its node.
type index struct {
	sync.RWMutex
	by map[concern]map[*Follower]struct{}
	n  int
}

type concern struct{ tenant, node string }

func (x *index) init() { x.by = map[concern]map[*Follower]struct{}{} }

func (x *index) add(f *Follower) {
	x.Lock()
	defer x.Unlock()
	c := concern{f.want.Tenant, f.want.NodeID}
	if x.by[c] == nil {
		x.by[c] = map[*Follower]struct{}{}
	}
	x.by[c][f] = struct{}{}
	x.n++
}

func (x *index) remove(f *Follower) {
	x.Lock()
	defer x.Unlock()
	c := concern{f.want.Tenant, f.want.NodeID}
	if _, there := x.by[c][f]; there {
		x.n--
	}
	delete(x.by[c], f)
	if len(x.by[c]) == 0 {
		delete(x.by, c)
	}
}

// count is how many followers there are.
func (x *index) count() int {
	x.RLock()
	defer x.RUnlock()
	return x.n
}

func (x *index) all(fn func(*Follower)) {
	x.RLock()
	defer x.RUnlock()
	for _, set := range x.by {
		for f := range set {
			fn(f)
		}
	}
}

func (x *index) concerned(e *Event, fn func(*Follower)) {
	x.RLock()
	defer x.RUnlock()
	if len(x.by) == 0 {
		return
	}
	for _, tenants := range [2][]string{e.Audience.Full, e.Audience.Reduced} {
		for _, tenant := range tenants {
			for f := range x.by[concern{tenant, ""}] {
				fn(f)
			}
			if e.NodeID == "" {
				continue
			}
			for f := range x.by[concern{tenant, e.NodeID}] {
				fn(f)
			}
		}
	}
}
