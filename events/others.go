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
	// greeting is the payload of a NOTIFY by which a process says that it listens.
	greeting = "listening"
)

// listen waits for the other processes' notifications. Now and then it says that it listens, for whoever has something to tell; that also finds out whether
// the connection still lives: its peer may be gone without a word. Meanwhile the tail reader's own look is the net.
func (l *Log) listen(ctx context.Context, conn *pgx.Conn) error {
	say := func(what string) error {
		return bounded(ctx, func(ctx context.Context) error {
			_, err := conn.Exec(ctx, what)
			return err
		})
	}
	const greet = "notify " + channel + ", '" + greeting + "'"
	if err := say("listen " + channel); err != nil {
		return err
	}
	defer l.greeted.Store(0)
	signal(l.wake) // for what was said before anybody listened
	own := conn.PgConn().PID()
	for next := time.Now(); ; {
		if !time.Now().Before(next) {
			if err := say(greet); err != nil {
				return err
			}
			l.greeted.CompareAndSwap(0, l.since())
			next = time.Now().Add(l.opts.Greet)
		}
		n, err := waitFor(ctx, conn, max(time.Until(next), time.Millisecond))
		switch {
		case err != nil:
			return err
		case n == nil || n.PID == own || n.PID == l.notifier.Load():
		case n.Payload == greeting:
			l.heard.Store(l.since())
			signal(l.mark) // so that it hears of us too
		default:
			l.heard.Store(l.since())
			signal(l.wake)
		}
	}
}

// since is how old the log is in this process, in nanoseconds.
func (l *Log) since() int64 { return int64(time.Since(l.born)) }

// alone says that no other process listens, so that there is nobody to tell. It is false while that is not known: without a connection that listens, and for
// a moment after it has said that it does, which others answer.
func (l *Log) alone() bool {
	now, greeted, heard := l.since(), l.greeted.Load(), l.heard.Load()
	return greeted > 0 && now-greeted > int64(answered) && (heard == 0 || now-heard > int64(l.opts.Greet)*5/2)
}

// answered is within what time the others have answered a greeting.
const answered = time.Second

// notify tells the other processes, at most once each Options.Notify, and never inside anybody's transaction: there it would hold a lock over
// the flush of the commit and undo group commit. Where no other process listens it tells nobody: PostgreSQL would wake each session of this one that
// listens to anything.
func (l *Log) notify(ctx context.Context, conn *pgx.Conn) error {
	l.notifier.Store(conn.PgConn().PID())
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
