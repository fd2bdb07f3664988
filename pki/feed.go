package pki

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
)

// Held is a session that lives, as the feed looks at it.
type Held struct {
	NodeID     string
	Serial     string
	Generation int64
}

// Gone is a session that must end, since its certificate no longer counts.
type Gone struct {
	NodeID string
	Serial string
	Reason Refusal
}

// FeedOptions are the settings of a [RevocationFeed]. A zero field means its default.
type FeedOptions struct {
	// Poll is how often the feed looks for what was revoked when nobody says so: 1 s.
	Poll time.Duration
	// Full is how often every live session is looked at: 10 s. It finds what no certificate's row tells of.
	Full time.Duration
	// Overlap is how far back each look reads: 2 minutes. A row's time is written before its transaction commits, so reading on from the newest
	// one seen would miss those that commit late; no transaction of ours lives as long as this.
	Overlap time.Duration
	// Patience is how old the last good look may be for new sessions to be let in: 30 s.
	Patience time.Duration
	// GiveUp is how old it may be for sessions to go on: 15 minutes.
	GiveUp time.Duration
	// Log must not be nil.
	Log *slog.Logger
}

func (o *FeedOptions) defaults() {
	for d, v := range map[*time.Duration]time.Duration{
		&o.Poll: time.Second, &o.Full: 10 * time.Second, &o.Overlap: 2 * time.Minute, &o.Patience: 30 * time.Second, &o.GiveUp: 15 * time.Minute,
	} {
		if *d == 0 {
			*d = v
		}
	}
}

// RevocationFeed tells a gateway which of its sessions hang on a certificate that no longer counts. It learns of a revocation by the event that
// every revocation writes (see Watch), in milliseconds; by a look each second; and by a full check of all live sessions now and then. What was
// revoked of late it keeps in memory, so that a session which opens while its certificate is revoked is found too.
//
// A gateway without a feed lets a revoked certificate keep its session until it runs out.
type RevocationFeed struct {
	db   *db.DB
	opts FeedOptions

	wake   chan struct{}
	born   time.Time
	looked atomic.Int64 // when the last good look began, since born

	mu     sync.Mutex
	denied map[string]denial
}

type denial struct {
	reason Refusal
	until  time.Time // by this process's clock: from then on TLS refuses it by itself
}

// NewRevocationFeed makes a feed. Run runs it.
func NewRevocationFeed(d *db.DB, o FeedOptions) *RevocationFeed {
	o.defaults()
	return &RevocationFeed{db: d, opts: o, wake: make(chan struct{}, 1), born: time.Now(), denied: map[string]denial{}}
}

// Watch lets the log's events wake the feed: its NOTIFY, sent after the commit and never inside a transaction, is the feed's too.
func (f *RevocationFeed) Watch(log *events.Log) {
	log.Watch(func(e *events.Event) {
		if mayRevoke(e.Type) {
			f.Wake()
		}
	})
}

// mayRevoke says whether certificates can have been revoked by what an event of that type tells. A type too many costs one look, and one too few
// a second.
func mayRevoke(eventType string) bool {
	return strings.HasPrefix(eventType, "security.") || strings.Contains(eventType, "certificate") ||
		eventType == "node.rejoined" || eventType == "node.deleted" || eventType == "node.superseded"
}

// Wake has the feed look now.
func (f *RevocationFeed) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Age is how long ago the last good look began; before the first one, how old the feed is.
func (f *RevocationFeed) Age() time.Duration {
	return time.Since(f.born) - time.Duration(f.looked.Load())
}

// Current says whether new sessions may be let in: the last good look is not too old.
func (f *RevocationFeed) Current() bool { return f.Age() <= f.opts.Patience }

// Blind says that sessions must end, because for too long nobody could have learnt of a revocation.
func (f *RevocationFeed) Blind() bool { return f.Age() > f.opts.GiveUp }

// Denied says whether a certificate was revoked of late, from memory.
func (f *RevocationFeed) Denied(serial string) (Refusal, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.denied[serial]
	return d.reason, ok
}

// The least time between two looks: a thousand revocations one after another are a few dozen looks.
const lookPace = 10 * time.Millisecond

// Run looks until ctx ends. held gives the live sessions, gone is told which of them must end; a session that is registered before Denied is asked
// is never missed.
func (f *RevocationFeed) Run(ctx context.Context, held func() []Held, gone func(context.Context, []Gone)) {
	tick := time.NewTicker(f.opts.Poll)
	defer tick.Stop()
	var lastFull time.Time
	failing := false
	for {
		full := time.Since(lastFull) >= f.opts.Full
		began := time.Now()
		err := f.look(ctx, full, held, gone)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			f.looked.Store(int64(began.Sub(f.born)))
			if full {
				lastFull = began
			}
			if failing {
				f.opts.Log.InfoContext(ctx, "revocations are seen again")
			}
		case !failing:
			f.opts.Log.ErrorContext(ctx, "revocations can't be seen now; trying on", "error", err, "noNewSessionsAfter", f.opts.Patience, "closedAfter", f.opts.GiveUp)
		}
		failing = err != nil
		pace := time.NewTimer(lookPace)
		select {
		case <-ctx.Done():
			pace.Stop()
			return
		case <-pace.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-f.wake:
		}
	}
}

func (f *RevocationFeed) look(ctx context.Context, full bool, held func() []Held, gone func(context.Context, []Gone)) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ended, err := f.recent(ctx)
	if err != nil {
		return err
	}
	// Read after the memory was filled: a session that registers later finds itself denied.
	live := held()
	var out []Gone
	for _, h := range live {
		if reason, ok := ended[h.Serial]; ok {
			out = append(out, Gone{NodeID: h.NodeID, Serial: h.Serial, Reason: reason})
		}
	}
	if full {
		found, err := checkHeld(ctx, f.db.Pool(), live)
		if err != nil {
			return err
		}
		out = append(out, found...)
		f.forget(time.Now())
	}
	if len(out) > 0 {
		gone(ctx, out)
	}
	return nil
}

// recent reads what ended of late, and keeps in memory what was revoked.
func (f *RevocationFeed) recent(ctx context.Context) (map[string]Refusal, error) {
	rows, err := f.db.Pool().Query(ctx, `
		select c.serial, c.state = 'REVOKED', extract(epoch from c.not_after - clock_timestamp())::float8, case
		    when n.deleted_at is not null then 'deleted'
		    when n.credential = 'QUARANTINED' then 'quarantined'
		    when c.state = 'REVOKED' then 'revoked'
		    else 'superseded' end
		from node_certs c join nodes n on n.id = c.node_id
		where c.ended_at > statement_timestamp() - make_interval(secs => $1)`, f.opts.Overlap.Seconds())
	if err != nil {
		return nil, fmt.Errorf("look for revoked certificates: %w", err)
	}
	ended := map[string]Refusal{}
	now := time.Now()
	var serial string
	var revoked bool
	var left float64
	var reason Refusal
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err = pgx.ForEachRow(rows, []any{&serial, &revoked, &left, &reason}, func() error {
		ended[serial] = reason
		if revoked {
			f.denied[serial] = denial{reason: reason, until: now.Add(time.Duration(left * float64(time.Second)))}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for revoked certificates: %w", err)
	}
	return ended, nil
}

// forget drops what TLS refuses anyway, and keeps all that the next look could read again.
func (f *RevocationFeed) forget(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for serial, d := range f.denied {
		if now.After(d.until.Add(f.opts.Overlap)) {
			delete(f.denied, serial)
		}
	}
}

// checkHeld looks at every session by one statement, and gives those whose certificate or node no longer counts.
func checkHeld(ctx context.Context, q db.Querier, held []Held) ([]Gone, error) {
	if len(held) == 0 {
		return nil, nil
	}
	nodes, serials, generations := make([]string, len(held)), make([]string, len(held)), make([]int64, len(held))
	for i, h := range held {
		nodes[i], serials[i], generations[i] = h.NodeID, h.Serial, h.Generation
	}
	rows, err := q.Query(ctx, `
		select node_id, serial, reason from (
		  select x.node_id, x.serial, case
		    when n.id is null or n.deleted_at is not null then 'deleted'
		    when n.credential = 'QUARANTINED' then 'quarantined'
		    when c.serial is null or c.node_id <> x.node_id then 'unknown'
		    when c.state = 'REVOKED' or n.credential <> 'TRUSTED' then 'revoked'
		    when n.identity_generation <> x.generation then 'generation'
		    when c.state = 'SUPERSEDED' then 'superseded'
		  end as reason
		  from unnest($1::text[], $2::text[], $3::bigint[]) as x(node_id, serial, generation)
		  left join nodes n on n.id = x.node_id
		  left join node_certs c on c.serial = x.serial) looked
		where reason is not null`, nodes, serials, generations)
	if err != nil {
		return nil, fmt.Errorf("check the live sessions' certificates: %w", err)
	}
	gone, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Gone])
	if err != nil {
		return nil, fmt.Errorf("check the live sessions' certificates: %w", err)
	}
	return gone, nil
}
