package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
)

// Maintenance keeps the log's partitions, one a month: those to come are made ahead, those that retention lets go are dropped whole.
type Maintenance struct {
	db       *db.DB
	log      *slog.Logger
	patience time.Duration
}

// detachPatience is how long a month that is being removed waits for the transactions that began before. It is longer than what others wait for a
// lock: nobody waits behind it, and a report or a backup that was on its way takes its time.
const detachPatience = 2 * time.Minute

// NewMaintenance makes one. log may be nil.
func NewMaintenance(d *db.DB, log *slog.Logger) *Maintenance {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Maintenance{db: d, log: log, patience: detachPatience}
}

// monthsAhead is how many months beside the running one have their partition.
const monthsAhead = 3

// The advisory locks under which one process at a time makes partitions, and one removes them.
const (
	makeLock   = 0x6263_7061_7274_6e73 // "bcpartns"
	retainLock = 0x6263_7265_7461_696e // "bcretain"
)

// EnsurePartitions makes the partitions of the running month and of the three after it, as far as they are missing. A partition is made apart and
// then attached, so that writers never wait for it.
func (m *Maintenance) EnsurePartitions(ctx context.Context) error {
	_, err := m.db.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '2s'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", int64(makeLock)); err != nil {
			return err
		}
		// The log's time runs ahead of the server's when that was set back.
		rows, err := tx.Query(ctx, `
			select to_char(month, 'YYYY_MM'), to_char(month, 'YYYY-MM-DD'), to_char(month + interval '1 month', 'YYYY-MM-DD')
			from (select date_trunc('month', greatest(clock_timestamp(), at) at time zone 'UTC') as first from event_clock) now,
			  generate_series(first, first + make_interval(months => $1), interval '1 month') month
			where to_regclass('events_' || to_char(month, 'YYYY_MM')) is null`, monthsAhead)
		if err != nil {
			return err
		}
		missing, err := pgx.CollectRows(rows, pgx.RowToStructByPos[month])
		if err != nil {
			return err
		}
		for _, p := range missing {
			for _, sql := range []string{
				"create table events_" + p.Name + " (like events including all)",
				"alter table events attach partition events_" + p.Name +
					" for values from ('" + p.From + " 00:00:00+00') to ('" + p.To + " 00:00:00+00')",
			} {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			m.log.InfoContext(ctx, "made a partition of the log", "month", p.Name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make the log's partitions: %w", err)
	}
	return nil
}

type month struct{ Name, From, To string }

// repair makes the partition whose absence has failed a transaction. Only PostgreSQL's "no partition of relation events found for row" is its
// matter.
func (m *Maintenance) repair(ctx context.Context, err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "23514" || pg.TableName != "events" || pg.ConstraintName != "" {
		return false
	}
	m.log.WarnContext(ctx, "the log's partition of this month was missing; it is made now")
	if err := m.EnsurePartitions(ctx); err != nil {
		m.log.ErrorContext(ctx, "the log's partition cannot be made", "error", err)
		return false
	}
	return true
}

// Retain removes the months that ended longer ago than that, by the database's clock. It raises the log's oldest position first, so that no reader
// can take the gap for an empty stretch, and then detaches and drops each partition without holding up writers. What an earlier run left half
// done is finished. While another process is at it, this one has nothing to do.
func (m *Maintenance) Retain(ctx context.Context, olderThan time.Duration) error {
	if olderThan < 0 {
		return fault.Invalid("olderThan", "must not be negative", 0)
	}
	c := m.db.Pool().Config().ConnConfig
	c.RuntimeParams["lock_timeout"] = strconv.FormatInt(m.patience.Milliseconds(), 10)
	c.RuntimeParams["statement_timeout"] = "0"
	c.RuntimeParams["application_name"] = "better-compute retention"
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return fault.Because(fault.Unavailable, err, nil, "the database does not answer; the log keeps its old months until the next run")
	}
	defer closeConn(ctx, conn)
	// The lock is the session's, since detaching cannot run inside a transaction. It goes with the connection at the latest.
	var ours bool
	if err := conn.QueryRow(ctx, "select pg_try_advisory_lock($1)", int64(retainLock)).Scan(&ours); err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	if !ours {
		return nil
	}
	defer func() { _, _ = conn.Exec(ctx, "select pg_advisory_unlock($1)", int64(retainLock)) }()
	rows, err := conn.Query(ctx, endedMonths, olderThan)
	if err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	ended, err := pgx.CollectRows(rows, pgx.RowToStructByPos[partition])
	if err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	for _, p := range ended {
		if err := m.remove(ctx, conn, p); err != nil {
			return fmt.Errorf("retention of %s: %w", p.Name, err)
		}
		m.log.InfoContext(ctx, "removed a partition of the log", "partition", p.Name)
	}
	return nil
}

// partition is a table of the log as an earlier run may have left it: still attached, half detached, or no longer attached.
type partition struct {
	Name           string
	Attached, Half bool
}

const endedMonths = `
select c.relname::text, c.relispartition, coalesce(i.inhdetachpending, false)
from pg_class c left join pg_inherits i on i.inhrelid = c.oid
where c.relkind = 'r' and c.relnamespace = (select relnamespace from pg_class where oid = 'events'::regclass)
  and case when c.relname ~ '^events_[0-9]{4}_[0-9]{2}$'
    then to_date(substr(c.relname::text, 8), 'YYYY_MM') + interval '1 month' <= (clock_timestamp() - $1::interval) at time zone 'UTC'
    else false end
order by c.relname`

func (m *Maintenance) remove(ctx context.Context, conn *pgx.Conn, p partition) error {
	name := pgx.Identifier{p.Name}.Sanitize()
	if p.Attached {
		if err := m.raiseOldest(ctx, name); err != nil {
			return err
		}
		how := " concurrently"
		if p.Half {
			how = " finalize"
		}
		if _, err := conn.Exec(ctx, "alter table events detach partition "+name+how); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, "drop table "+name)
	return err
}

// raiseOldest says that what the partition holds may be gone. The clock row is held for the commit's round trip only.
func (m *Maintenance) raiseOldest(ctx context.Context, name string) error {
	_, err := m.db.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		var last *int64
		if err := tx.QueryRow(ctx, "select max(position) from "+name).Scan(&last); err != nil || last == nil {
			return err
		}
		tx.AtCommit(db.RankPosition, "update event_clock set oldest = greatest(oldest, $1)", *last+1)
		return nil
	})
	return err
}
