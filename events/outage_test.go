package events_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
)

func TestOutage(t *testing.T) {
	t.Parallel()

	t.Run("G5 the listening connection is killed", func(t *testing.T) {
		t.Parallel()
		// What is written while nobody listens comes within seconds by itself, and afterwards the notifications come again: with a net of an hour
		// nothing else could bring them.
		d := dbtest.New(t)
		writer := openDB(t, dbtest.URL(d))
		netted, listening := running(t, d, events.Options{}), running(t, openDB(t, dbtest.URL(d)), events.Options{Look: time.Hour})
		a, b := follow(t, netted, events.Filter{Tenant: "acme"}, nil), follow(t, listening, events.Filter{Tenant: "acme"}, nil)
		for range 3 {
			// The writer runs no Log, so it notifies nobody.
			c := write(t, writer, entry("acme", "node_a", "node.cordoned"))
			began := time.Now()
			require.Equal(t, c.Position, next(t, a).Position, "the net finds what nobody told of")
			require.Less(t, time.Since(began), 4*time.Second)

			var killed int
			require.NoError(t, d.Pool().QueryRow(t.Context(), `
				select count(pg_terminate_backend(pid)) from pg_stat_activity
				where datname = current_database() and application_name like '% log listen'`).Scan(&killed))
			require.Positive(t, killed)
			require.Equal(t, c.Position, next(t, b).Position, "a new listening connection looks for what was said before it")
		}
		notifying := running(t, openDB(t, dbtest.URL(d)), events.Options{})
		follow(t, notifying, events.Filter{Tenant: "acme"}, nil)
		require.Eventually(t, func() bool {
			var listeners int
			err := d.Pool().QueryRow(t.Context(), `
				select count(*) from pg_stat_activity where datname = current_database() and application_name like '% log listen'
				and query like 'notify bc_log%' and state = 'idle'`).Scan(&listeners)
			return err == nil && listeners == 3
		}, 10*time.Second, 10*time.Millisecond)
		c := write(t, d, entry("acme", "node_a", "node.cordoned"))
		require.Equal(t, c.Position, next(t, b).Position)
	})

	t.Run("every connection is cut, again and again", func(t *testing.T) {
		t.Parallel()
		// The tail reader, the listener, the notifier and the pages of a reader that catches up all lose their connections; no reader notices.
		d := dbtest.New(t)
		p := dbtest.NewProxy(t, dbtest.URL(d))
		l := running(t, openDB(t, p.URL()), events.Options{Ring: 32, Page: 40})
		start := head(t, d)
		live := follow(t, l, events.Filter{Tenant: "acme"}, nil)
		position := start.Position
		for range 5 {
			p.Cut()
			burst := make([]events.Entry, 100)
			for i := range burst {
				burst[i] = entry("acme", "node_a", "node.tainted")
			}
			write(t, d, burst...)
			for i := range 100 {
				if i%30 == 7 {
					p.Cut()
				}
				position++
				require.Equal(t, position, next(t, live).Position)
			}
		}
		nothing(t, live, position)
	})

	t.Run("the database is away", func(t *testing.T) {
		t.Parallel()
		// Shorter than patience: the stream goes on where it was. While it is away none can begin. Longer: a reader that needs the database ends
		// with UNAVAILABLE and its cursor, one that only waits goes on waiting.
		d := dbtest.New(t)
		p := dbtest.NewProxy(t, dbtest.URL(d))
		l := running(t, openDB(t, p.URL()), events.Options{Ring: 8, Patience: 3 * time.Second})
		start := head(t, d)
		waiting := follow(t, l, events.Filter{Tenant: "acme", NodeID: "node_b"}, nil)
		behind := follow(t, l, events.Filter{Tenant: "acme", NodeID: "node_a"}, &start)
		burst := make([]events.Entry, 50)
		for i := range burst {
			burst[i] = entry("acme", "node_a", "node.tainted")
		}
		write(t, d, burst...)
		require.Eventually(t, behind.Lagging, 10*time.Second, time.Millisecond)
		p.Down()
		_, err := l.Follow(t.Context(), events.Filter{Tenant: "acme"}, nil, &gate{})
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		up := time.AfterFunc(time.Second, p.Up)
		defer up.Stop()
		require.Equal(t, start.Position+1, next(t, behind).Position)
		c := write(t, d, entry("acme", "node_b", "node.drained"))
		require.Equal(t, c.Position, next(t, waiting).Position)

		resumed := follow(t, l, events.Filter{Tenant: "acme"}, &start)
		p.Down()
		_, err = resumed.Next(t.Context())
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		require.Equal(t, start.String(), fault.From(err).Details["cursor"])
		require.NoError(t, waiting.Err())
		require.Greater(t, l.Stats().Unseen, 2*time.Second, "readiness can tell")
		p.Up()
		c = write(t, d, entry("acme", "node_b", "node.drained"))
		require.Equal(t, c.Position, next(t, waiting).Position)
	})
}

func TestNotify(t *testing.T) {
	t.Parallel()
	// However many commits there are, the other processes are told at most once an interval, and always after the last one.
	const interval = 50 * time.Millisecond
	d := dbtest.New(t)
	running(t, d, events.Options{Notify: interval})
	conn, err := pgx.Connect(t.Context(), dbtest.URL(d))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	_, err = conn.Exec(t.Context(), "listen bc_log; notify bc_log, 'listening'") // as another process does
	require.NoError(t, err)
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			if _, err := writeErr(t.Context(), d, entry("acme", "node_a", "node.cordoned")); err != nil {
				t.Error(err)
			}
		}
	}()
	told := 0
	for told == 0 || head(t, d).Position < 200 {
		n, err := conn.WaitForNotification(t.Context())
		require.NoError(t, err)
		if n.Payload == "" {
			told++
		}
	}
	<-done
	require.Positive(t, told)
	require.LessOrEqual(t, told, int(time.Since(began)/interval)+1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := write(t, d, entry("acme", "node_a", "node.cordoned"))
	for {
		n, err := conn.WaitForNotification(ctx)
		require.NoError(t, err, "the last commit is told of too")
		if n.Payload == "" && head(t, d).Position == c.Position {
			break
		}
	}
}
