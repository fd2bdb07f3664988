package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/embedded"
	"github.com/better-compute/better-compute/events"
)

// commitDelay is what storage with a network or a second copy behind it adds to each commit.
const commitDelay = 2 * time.Millisecond

// massive is how many events a transaction writes that appends many at once: a sweep, a bulk control.
const massive = 1000

// ceiling measures how many events a second the log takes. Its one clock row is held from the position's assignment until the commit is on disk, so
// commits that write events come one after the other: the ceiling is one over the time of a commit, whatever the number of writers. Rows: "log" on
// this disk, "log-2ms" with commits that take 2 ms more, and "log-many" with 1,000 events a transaction, which the ceiling doesn't bound. The floors
// write the same rows by one bare statement each.
func ceiling(ctx context.Context, r *rig, s size) ([]Row, error) {
	here := r.postgres.URL()
	one, err := logRow(ctx, "log", here, s, 1)
	if err != nil {
		return nil, err
	}
	many, err := logRow(ctx, "log-many", here, size{s.rounds, max(1, s.each/10), 1}, massive)
	if err != nil {
		return nil, err
	}
	slow, err := embedded.Start(ctx, embedded.Config{
		DataDir: filepath.Join(r.dir, "slow"), Log: slog.New(slog.DiscardHandler),
		Settings: map[string]string{"commit_delay": fmt.Sprint(commitDelay.Microseconds()), "commit_siblings": "0"},
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = slow.Stop(context.WithoutCancel(ctx)) }()
	if err := db.Migrate(ctx, slow.URL(), slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	delayed, err := logRow(ctx, "log-2ms", slow.URL(), s, 1)
	return []Row{one, delayed, many}, err
}

// logRow measures s.n writers, each of which commits s.each transactions of so many events.
func logRow(ctx context.Context, name, url string, s size, perCommit int) (Row, error) {
	d, err := db.Open(ctx, db.Config{URL: url, MaxConns: int32(s.n)})
	if err != nil {
		return Row{}, err
	}
	defer d.Close()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return Row{}, err
	}
	config.MaxConns = int32(s.n)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return Row{}, err
	}
	defer pool.Close()

	entry := events.Entry{Type: "bench.written", TenantID: tenant, Actor: "bench", Audience: events.Audience{Full: []string{tenant}}}
	work := func(ctx context.Context, _, _ int) error {
		_, err := d.Do(ctx, func(_ context.Context, tx *db.Tx) error {
			for range perCommit {
				if err := events.Append(tx, entry); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	bare := func(ctx context.Context, _, _ int) error {
		_, err := pool.Exec(ctx, bareEvents, perCommit)
		return err
	}
	whole := func(fn func(ctx context.Context, client, i int) error) side {
		run := together(s.n, s.each, fn)
		return side{zero, zero, func(ctx context.Context) (round, error) {
			done, err := run(ctx)
			done.n *= perCommit
			return done, err
		}}
	}
	row, err := pairs(ctx, name, s.rounds, perSecond, whole(work), whole(bare))
	row.More = map[string]float64{"writers": float64(s.n), "events_per_commit": float64(perCommit)}
	return row, err
}

// bareEvents is the floor of an append: one statement that moves the clock and writes as many events.
const bareEvents = `
with clock as (
  update event_clock set position = position + $1::int, at = greatest(clock_timestamp(), at + interval '1 microsecond') returning position, at
)
insert into events (position, at, id, type, tenant_id, actor, data, full_for, reduced_for)
select clock.position - $1 + i, clock.at, 'evt_bench', 'bench.written', 'default', 'bench', '{}', '{default}', '{}' from clock, generate_series(1, $1::int) as i`
