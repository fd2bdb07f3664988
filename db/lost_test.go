package db_test

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
)

func TestLostConnection(t *testing.T) {
	t.Parallel()

	t.Run("during the final batch", func(t *testing.T) {
		t.Parallel()
		// Whether PostgreSQL got the batch or not, the caller is told UNAVAILABLE and that the outcome is unknown; the function does not run again,
		// since it may have been done; the next transaction works.
		straight := notes(t)
		p := dbtest.NewProxy(t, straight.URL())
		d := open(t, db.Config{URL: p.URL(), MaxConns: 1})
		var want []string
		for _, through := range []bool{false, true} {
			write := func(text string, runs *int) (db.Committed, error) {
				return d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
					*runs++
					tx.AtCommit(db.RankCapacity, note, text)
					return nil
				})
			}
			var runs int
			_, err := write("warm", &runs)
			require.NoError(t, err)
			want = append(want, "warm")
			p.CutAt("cut-here", through)
			runs = 0
			_, err = write("cut-here", &runs)
			require.Equal(t, fault.Unavailable, fault.CodeOf(err))
			require.ErrorContains(t, err, "outcome is unknown")
			require.Equal(t, 1, runs)
			if through {
				want = append(want, "cut-here")
			}
			require.Equal(t, want, noted(t, straight))
		}
		_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, note, "after")
			return err
		})
		require.NoError(t, err)
		idle(t, d)
	})

	t.Run("ended by the server while it commits", func(t *testing.T) {
		t.Parallel()
		// A server that is shut down says so at whatever point it has come to, which can be after the commit: nobody says then that nothing was
		// changed. A statement before COMMIT that it ends with is known to have changed nothing, and so is a COMMIT that it refuses.
		d := notes(t)
		_, err := d.Pool().Exec(t.Context(), `
			create function linger() returns trigger language plpgsql as $$ begin
				if new.text = 'refused' then raise exception 'not this one'; end if;
				perform pg_sleep(20); return null; end $$;
			create constraint trigger linger after insert on notes deferrable initially deferred for each row when (new.text <> 'quick')
				execute function linger()`)
		require.NoError(t, err)
		admin := open(t, db.Config{URL: d.URL()})
		end := func(pid uint32, at string) {
			require.Eventually(t, func() bool {
				var there bool
				err := admin.Pool().QueryRow(t.Context(),
					"select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and wait_event = 'PgSleep' and query ilike $2", pid, at).Scan(&there)
				return err == nil && there
			}, 10*time.Second, time.Millisecond)
		}
		// Of two transactions alike, the first is one batch, which PostgreSQL commits at its end, and the second has a COMMIT.
		for _, c := range []struct {
			text, statement, ends, says string
			begun                       bool
		}{
			{"lingers", "", "%insert into notes%", "outcome is unknown", false},
			{"lingers", "", "commit", "outcome is unknown", true},
			{"quick", "select pg_sleep(20)", "select%", "nothing was changed", false},
			{"quick", "select pg_sleep(20)", "select%", "nothing was changed", true},
			{"refused", "", "", "not this one", false},
			{"refused", "", "", "not this one", true},
		} {
			var ending sync.WaitGroup
			runs := 0
			_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				runs++
				if c.begun {
					_, err := tx.Exec(ctx, "select from notes where text = $1", "nothing")
					require.NoError(t, err)
				}
				pid := tx.Lib().Conn().PgConn().PID()
				tx.AtCommit(db.RankCapacity, note, c.text)
				if c.statement != "" {
					tx.AtCommit(db.RankPosition, c.statement)
				}
				if c.ends != "" {
					ending.Go(func() { end(pid, c.ends) })
				}
				return nil
			})
			ending.Wait()
			require.ErrorContains(t, err, c.says, c.text)
			require.Equal(t, 1, runs, c.text)
			if c.ends != "" {
				require.Equal(t, fault.Unavailable, fault.CodeOf(err))
			}
			require.Empty(t, noted(t, d))
		}
		idle(t, d)
	})

	t.Run("before it", func(t *testing.T) {
		t.Parallel()
		// A connection that breaks or is terminated in the middle is UNAVAILABLE with nothing changed, and so is a database that is away.
		straight := notes(t)
		p := dbtest.NewProxy(t, straight.URL())
		d := open(t, db.Config{URL: p.URL(), MaxConns: 1})
		for _, breaks := range []func(tx *db.Tx){
			func(*db.Tx) { p.Cut() },
			func(tx *db.Tx) {
				_, err := straight.Pool().Exec(t.Context(), "select pg_terminate_backend($1, 5000)", tx.Lib().Conn().PgConn().PID())
				require.NoError(t, err)
			},
		} {
			_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, note, "first"); err != nil {
					return err
				}
				breaks(tx)
				_, err := tx.Exec(ctx, note, "second")
				return err
			})
			require.Equal(t, fault.Unavailable, fault.CodeOf(err))
			require.ErrorContains(t, err, "nothing was changed")
			require.Empty(t, noted(t, straight))
		}
		p.Down()
		_, err := d.Do(t.Context(), func(context.Context, *db.Tx) error { return nil })
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		p.Up()
		_, err = d.Do(t.Context(), func(context.Context, *db.Tx) error { return nil })
		require.NoError(t, err)
	})

	t.Run("a statement takes too long", func(t *testing.T) {
		t.Parallel()
		// The bound of statements is UNAVAILABLE, and a transaction that sits idle is ended by the server and commits nothing.
		d := notes(t)
		d = open(t, db.Config{URL: d.URL(), StatementTimeout: 100 * time.Millisecond, IdleInTransaction: 200 * time.Millisecond})
		_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "select pg_sleep(20)")
			return err
		})
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		_, err = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, note, "text"); err != nil {
				return err
			}
			pid := tx.Lib().Conn().PgConn().PID()
			require.Eventually(t, func() bool {
				var alive bool
				err := d.Pool().QueryRow(ctx, "select exists (select from pg_stat_activity where pid = $1)", pid).Scan(&alive)
				return err == nil && !alive
			}, 10*time.Second, 10*time.Millisecond)
			return nil
		})
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		require.Empty(t, noted(t, d))
		idle(t, d)
	})
}

func TestNotLetIn(t *testing.T) {
	t.Parallel()
	// A server that answers and lets nobody in says why, to who opens it and who migrates it; one that is not there does not answer.
	d := dbtest.New(t)
	at := func(change func(u *url.URL)) string {
		u, err := url.Parse(dbtest.URL(d))
		require.NoError(t, err)
		change(u)
		return u.String()
	}
	for _, c := range []struct {
		url, says string
		code      fault.Code
	}{
		{at(func(u *url.URL) { u.Path = "/no_such_database" }), "no_such_database", fault.InvalidState},
		{at(func(u *url.URL) { u.User = url.UserPassword("no_such_role", "my-secret") }), "no_such_role", fault.InvalidState},
		{"postgres://x:my-secret@127.0.0.1:1/x", "does not answer", fault.Unavailable},
		{"postgres://x:my-secret@@::/x", "write it like", fault.InvalidInput},
	} {
		_, err := db.Open(t.Context(), db.Config{URL: c.url})
		for _, err := range []error{err, db.Migrate(t.Context(), c.url, slog.New(slog.DiscardHandler))} {
			require.Equal(t, c.code, fault.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "my-secret")
		}
	}
}

func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	// A database that takes no writes is UNAVAILABLE with a sentence that says so, and nothing is changed: at the start, when migrating, and in the
	// middle. Reads go on; and once it takes writes again so do we, though sessions were begun meanwhile.
	d := notes(t)
	admin := open(t, db.Config{URL: d.URL(), MaxConns: 1})
	only := func(on string) {
		_, err := admin.Pool().Exec(t.Context(), "do $$ begin execute format('alter database %I set default_transaction_read_only = "+on+"', current_database()); end $$")
		require.NoError(t, err)
	}
	refused := func(err error) {
		t.Helper()
		require.Equal(t, fault.Unavailable, fault.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "takes no writes")
		require.ErrorContains(t, err, "nothing was changed")
	}
	write := func(text string) error {
		_, err := d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
			tx.AtCommit(db.RankCapacity, note, text)
			return nil
		})
		return err
	}
	require.NoError(t, write("before"))
	only("on")
	_, err := db.Open(t.Context(), db.Config{URL: d.URL()})
	refused(err)
	refused(db.Migrate(t.Context(), d.URL(), slog.New(slog.DiscardHandler)))
	d.Pool().Reset() // its sessions begin anew
	refused(write("meanwhile"))
	require.Equal(t, []string{"before"}, noted(t, d))
	_, err = d.Pool().Exec(t.Context(), note, "meanwhile")
	require.True(t, db.Unanswered(err))
	refused(db.Unavailable(err))
	only("off")
	require.NoError(t, write("after"))
	require.Equal(t, []string{"before", "after"}, noted(t, d))
}
