package events_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
)

// partitions lists the attached ones.
func partitions(t *testing.T, d *db.DB) []string {
	t.Helper()
	rows, err := d.Pool().Query(t.Context(), "select inhrelid::regclass::text from pg_inherits where inhparent = 'events'::regclass order by 1")
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

func execSQL(t *testing.T, d *db.DB, sql string, args ...any) {
	t.Helper()
	_, err := d.Pool().Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func TestEnsurePartitions(t *testing.T) {
	t.Parallel()
	// What is missing is made, with every index of the log, by many at once; what is there stays.
	d := dbtest.New(t)
	whole := partitions(t, d)
	require.Len(t, whole, 4)
	m := events.NewMaintenance(d, nil)
	execSQL(t, d, "drop table "+whole[1]+", "+whole[3])
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := m.EnsurePartitions(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, whole, partitions(t, d))
	var invalid int
	require.NoError(t, d.Pool().QueryRow(t.Context(), `
		select count(*) from pg_index i join pg_inherits h on h.inhparent = 'events'::regclass and h.inhrelid = i.indrelid
		where not exists (select from pg_inherits a where a.inhrelid = i.indexrelid)`).Scan(&invalid))
	require.Zero(t, invalid, "each index belongs to one of the log's")

	// The log's time may run ahead of the server's: then the months are counted from there.
	execSQL(t, d, "update event_clock set at = date_trunc('month', clock_timestamp()) + interval '2 months'")
	require.NoError(t, m.EnsurePartitions(t.Context()))
	require.Len(t, partitions(t, d), 6)
}

func TestMissingPartition(t *testing.T) {
	t.Parallel()
	// A commit that finds no partition for its month makes it and succeeds, for every writer at that moment, also with one connection alone, and
	// the event is there once.
	d := dbtest.New(t)
	d = openDB(t, dbtest.URL(d)+one(dbtest.URL(d)))
	l := running(t, d, events.Options{})
	f := follow(t, l, events.Filter{Tenant: "acme"}, nil)
	for _, name := range partitions(t, d) {
		execSQL(t, d, "drop table "+name)
	}
	var writers sync.WaitGroup
	for range 6 {
		writers.Go(func() {
			if _, err := writeErr(t.Context(), d, entry("acme", "node_a", "node.cordoned")); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	for i := range int64(6) {
		require.Equal(t, i+1, next(t, f).Position)
	}
	nothing(t, f, 6)
	require.Len(t, partitions(t, d), 4)

	// Any other violated check is not its matter.
	_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "insert into tenants (id) values ('NO')")
		return err
	})
	require.Equal(t, fault.Internal, fault.CodeOf(err))
}

// one is what makes a pool of that URL hold one connection.
func one(url string) string {
	if slices.Contains([]byte(url), '?') {
		return "&pool_max_conns=1"
	}
	return "?pool_max_conns=1"
}

func TestRetain(t *testing.T) {
	t.Parallel()
	// Months that have ended long enough ago are gone as a whole; oldest tells where the log begins now; a cursor from before is refused, one at the
	// edge is good; what is younger stays; writers and a follower go on meanwhile.
	d := dbtest.New(t)
	m := events.NewMaintenance(d, nil)
	l := running(t, d, events.Options{Ring: 4})
	// Three events each in three old months, as they would stand there, then the running month.
	var old []string
	position := 0
	for _, ago := range []string{"5 months", "4 months", "2 months"} {
		var name, from, to string
		require.NoError(t, d.Pool().QueryRow(t.Context(), `
			select 'events_' || to_char(m, 'YYYY_MM'), to_char(m, 'YYYY-MM-DD'), to_char(m + interval '1 month', 'YYYY-MM-DD')
			from date_trunc('month', (clock_timestamp() - $1::interval) at time zone 'UTC') m`, ago).Scan(&name, &from, &to))
		execSQL(t, d, "create table "+name+" partition of events for values from ('"+from+" 00:00:00+00') to ('"+to+" 00:00:00+00')")
		old = append(old, name)
		for range 3 {
			position++
			execSQL(t, d, `insert into events (position, at, id, type, tenant_id, actor, data, full_for, reduced_for)
				values ($1::bigint, $2::timestamptz + interval '1 hour', 'evt_' || $1::bigint::text, 'node.tainted', 'acme', 'alex', '{}', '{acme}', '{}')`, position, from+" 00:00:00+00")
		}
	}
	execSQL(t, d, "update event_clock set position = $1", position)
	beginning := events.Cursor{Epoch: head(t, d).Epoch}
	now := partitions(t, d)
	f := follow(t, l, events.Filter{Tenant: "acme"}, &beginning)
	require.Equal(t, int64(1), next(t, f).Position)
	f.Close()

	require.NoError(t, m.Retain(t.Context(), 400*24*time.Hour))
	require.Equal(t, now, partitions(t, d), "nothing is as old as that")
	require.Equal(t, fault.InvalidInput, fault.CodeOf(m.Retain(t.Context(), -time.Second)))

	// What an earlier run left: a month that was detached and not dropped.
	execSQL(t, d, "update event_clock set oldest = 4")
	execSQL(t, d, "alter table events detach partition "+old[0])
	require.NoError(t, m.Retain(t.Context(), 80*24*time.Hour))
	require.Equal(t, now[2:], partitions(t, d))
	var left int
	require.NoError(t, d.Pool().QueryRow(t.Context(), "select count(*) from pg_class where relname = any($1)", old[:2]).Scan(&left))
	require.Zero(t, left, "the tables are gone")

	span, err := events.Extent(t.Context(), d.Pool())
	require.NoError(t, err)
	require.Equal(t, int64(6), span.Oldest.Position)
	_, err = l.Follow(t.Context(), events.Filter{Tenant: "acme"}, &beginning, &gate{})
	require.Equal(t, fault.CursorExpired, fault.CodeOf(err))
	f = follow(t, l, events.Filter{Tenant: "acme"}, &span.Oldest)
	for i := range int64(3) {
		require.Equal(t, i+7, next(t, f).Position)
	}
	c := write(t, d, entry("acme", "node_a", "node.cordoned"))
	require.Equal(t, c.Position, next(t, f).Position)

	// A transaction that reads the log holds up the removal, for longer than others wait for a lock, and not the writers. A run that is ended meanwhile
	// leaves the month half removed; the next one finishes it, as soon as the reader is through.
	reader, err := d.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = reader.Exec(t.Context(), "select count(*) from events")
	require.NoError(t, err)
	waits := func(sql string) {
		require.Eventually(t, func() bool {
			var there bool
			err := d.Pool().QueryRow(t.Context(), "select "+sql+` from pg_stat_activity where datname = current_database() and application_name = 'better-compute retention'
				and wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '2500 ms'`).Scan(&there)
			return err == nil && there
		}, 20*time.Second, 20*time.Millisecond)
	}
	retaining := func() <-chan error {
		done := make(chan error, 1)
		go func() { done <- m.Retain(t.Context(), 0) }()
		return done
	}
	first := retaining()
	waits("pg_terminate_backend(pid)")
	require.Error(t, <-first)
	second := retaining()
	waits("true")
	write(t, d, entry("acme", "node_a", "node.cordoned"))
	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, <-second)
	require.Equal(t, now[3:], partitions(t, d))
	span, err = events.Extent(t.Context(), d.Pool())
	require.NoError(t, err)
	require.Equal(t, int64(9), span.Oldest.Position)
}
