package events

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// channel is the NOTIFY channel that says "the log has grown", without saying more.
	channel = "bc_log"
	// arrival is the payload of a NOTIFY by which a process says that it listens from now on, greeting of one by which it says that it still does. Only the
	// first is answered by all: n processes that answered each greeting would send n² NOTIFYs a round.
	arrival, greeting = "arrived", "listening"
)

// listen waits for the other processes' notifications. Now and then it says that it listens, for whoever has something to tell; that also finds out whether
// the connection still lives: its peer may be gone without a word. Meanwhile the tail reader's own look is the net.
func (l *Log) listen(ctx context.Context, conn *pgx.Conn) error {
	run := func(sql string) error {
		return bounded(ctx, func(ctx context.Context) error {
			_, err := conn.Exec(ctx, sql)
			return err
		})
	}
	say := func(what string) error { return run("notify " + channel + ", '" + what + "'") }
	if err := run("listen " + channel); err != nil {
		return err
	}
	signal(l.wake) // for what was said before anybody listened
	if err := say(arrival); err != nil {
		return err
	}
	l.greeted.Store(l.since())
	defer l.greeted.Store(0)
	own := conn.PgConn().PID()
	for next := time.Now().Add(l.opts.Greet); ; {
		if !time.Now().Before(next) {
			if err := say(greeting); err != nil {
				return err
			}
			next = time.Now().Add(l.opts.Greet)
		}
		n, err := waitFor(ctx, conn, max(time.Until(next), time.Millisecond))
		switch {
		case err != nil:
			return err
		case n == nil || n.PID == own || n.PID == l.notifier.Load():
		default:
			before := l.heard.Swap(l.since())
			if n.Payload == arrival || l.aloneAt(l.since(), before) {
				signal(l.mark) // so that it hears of us too, and of what it was not told
			}
			if n.Payload == "" {
				signal(l.wake)
			}
		}
	}
}

// since is how old the log is in this process, in nanoseconds.
func (l *Log) since() int64 { return int64(time.Since(l.born)) }

// alone says that no other process listens, so that there is nobody to tell. It is false while that is not known: without a connection that listens, and for
// a moment after it has said that it does, which others answer.
func (l *Log) alone() bool {
	now := l.since() // before heard is read, see aloneAt
	return l.aloneAt(now, l.heard.Load())
}

// aloneAt is alone at a time, with another process having been heard last then. The notifier takes the time before it reads heard, the listener after it has
// put a new one in its place: whatever the notifier left out, the listener finds that it had been alone.
func (l *Log) aloneAt(now, heard int64) bool {
	greeted := l.greeted.Load()
	return greeted > 0 && now-greeted > int64(answered) && (heard == 0 || now-heard > int64(l.opts.Greet)*5/2)
}

// answered is within what time the others have answered a greeting.
const answered = time.Second

// notify tells the other processes, at most once each Options.Notify, and never inside anybody's transaction: there it would hold a lock over
// the flush of the commit and undo group commit. Where no other process listens it tells nobody: PostgreSQL would wake each session of this one that
// listens to anything.
func (l *Log) notify(ctx context.Context, conn *pgx.Conn) error {
	l.notifier.Store(conn.PgConn().PID())
	defer l.notifier.Store(0) // another process's may be given that number
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.mark:
		}
		if l.alone() {
			continue
		}
		if err := bounded(ctx, func(ctx context.Context) error {
			_, err := conn.Exec(ctx, "notify "+channel)
			return err
		}); err != nil {
			signal(l.mark)
			return err
		}
		pause(ctx, l.opts.Notify)
	}
}

// waitFor gives the next notification, or nil when none came for a while.
func waitFor(ctx context.Context, conn *pgx.Conn, quiet time.Duration) (*pgconn.Notification, error) {
	ctx, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !conn.IsClosed() {
		return nil, nil
	}
	return n, err
}
