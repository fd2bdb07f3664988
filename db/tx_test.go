package db_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open is another pool on a test's database.
func open(t *testing.T, c db.Config) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// notes gives a database with a table that tests write to.
func notes(t *testing.T) *db.DB {
	t.Helper()
	d := dbtest.New(t)
	_, err := d.Pool().Exec(t.Context(), "create table notes (place serial, text text not null check (text <> 'forbidden'))")
	require.NoError(t, err)
	return d
}

const note = "insert into notes (text) values ($1)"

// noted lists what was committed, in the order of writing.
func noted(t *testing.T, d *db.DB) []string {
	t.Helper()
	rows, err := d.Pool().Query(t.Context(), "select text from notes order by place")
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

// idle says that the pool has every connection back and none is inside a transaction.
func idle(t *testing.T, d *db.DB) {
	t.Helper()
	// A connection that died is taken out of the pool in the background.
	require.Eventually(t, func() bool { return d.Pool().Stat().AcquiredConns() == 0 }, 10*time.Second, time.Millisecond)
	var inside int
	require.NoError(t, d.Pool().QueryRow(t.Context(),
		"select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'").Scan(&inside))
	require.Zero(t, inside)
}

func TestAtCommit(t *testing.T) {
	t.Parallel()

	t.Run("ranks, order and late arguments", func(t *testing.T) {
		t.Parallel()
		// The final batch runs by rank and then by the order of adding, after everything else; a Late argument has the value of that moment; the
		// log's statement gives the commit's position, and the hooks hear of it once.
		d := notes(t)
		var heard []db.Committed
		d.OnLogCommit(func(_ *db.Tx, c db.Committed) { heard = append(heard, c) })
		value := "early"
		c, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			tx.AtCommit(db.RankPosition, note, "position 1")
			tx.AtCommit(db.RankLog, "with n as (insert into notes (text) values ('log')) update event_clock set position = position + 7 returning position, at, epoch")
			tx.AtCommit(db.RankPosition, note, db.Late(func() any { return value }))
			tx.AtCommit(db.RankCapacity, note, "capacity 1")
			tx.AtCommit(db.RankCapacity, note, "capacity 2")
			tx.AtCommit(db.RankPosition, "insert into notes (text) select position::text from event_clock")
			value = "late"
			_, err := tx.Exec(ctx, note, "before")
			return err
		})
		require.NoError(t, err)
		require.Equal(t, []string{"before", "capacity 1", "capacity 2", "log", "position 1", "late", "7"}, noted(t, d))
		require.Equal(t, int64(7), c.Position)
		require.NotZero(t, c.Epoch)
		require.WithinDuration(t, time.Now(), c.At, time.Hour)
		require.Equal(t, []db.Committed{c}, heard)

		c, err = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, note, "no event")
			return err
		})
		require.NoError(t, err)
		require.Zero(t, c.Position, "a commit without an event has no position")
		require.Len(t, heard, 1)
		idle(t, d)
	})

	t.Run("one statement of it fails", func(t *testing.T) {
		t.Parallel()
		// Nothing is committed, those before and after it included; the error is PostgreSQL's and no hook hears.
		d := notes(t)
		d.OnLogCommit(func(*db.Tx, db.Committed) { t.Error("nothing was committed") })
		for _, bad := range []string{"insert into notes (text) values ('forbidden')", "insert into no_such_table values (1)"} {
			_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, note, "before"); err != nil {
					return err
				}
				tx.AtCommit(db.RankCapacity, note, "capacity")
				tx.AtCommit(db.RankLog, "update event_clock set position = position + 1 returning position, at, epoch")
				tx.AtCommit(db.RankPosition, bad)
				return nil
			})
			require.Error(t, err)
			require.Equal(t, fault.Internal, fault.CodeOf(err))
			require.Empty(t, noted(t, d))
			idle(t, d)
		}
	})

	t.Run("an error of the function", func(t *testing.T) {
		t.Parallel()
		// It comes back as it is, nothing is committed, and the connection is as good as new; a panic passes through and leaves nothing behind.
		d := notes(t)
		mine := errors.New("mine")
		_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			tx.AtCommit(db.RankCapacity, note, "final")
			if _, err := tx.Exec(ctx, note, "text"); err != nil {
				return err
			}
			return mine
		})
		require.Equal(t, mine, err)
		require.Panics(t, func() {
			_, _ = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, note, "text")
				require.NoError(t, err)
				panic("defect")
			})
		})
		require.Empty(t, noted(t, d))
		idle(t, d)
	})
}

func TestSwallowedError(t *testing.T) {
	t.Parallel()
	// A statement failed and its error was dropped: PostgreSQL answers ROLLBACK to COMMIT. That is an error and nothing is committed, with and
	// without a final batch.
	d := notes(t)
	for _, final := range []bool{false, true} {
		_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if final {
				tx.AtCommit(db.RankCapacity, note, "final")
			}
			if _, err := tx.Exec(ctx, note, "text"); err != nil {
				return err
			}
			_, _ = tx.Exec(ctx, note, "forbidden")
			return nil
		})
		require.Error(t, err)
		require.Equal(t, fault.Internal, fault.CodeOf(err), "it is a defect of ours")
		require.Empty(t, noted(t, d))
		idle(t, d)
	}
}

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
		for _, c := range []struct{ text, statement, ends, says string }{
			{"lingers", "", "commit", "outcome is unknown"},
			{"quick", "select pg_sleep(20)", "select%", "nothing was changed"},
			{"refused", "", "", "not this one"},
		} {
			var ending sync.WaitGroup
			runs := 0
			_, err := d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
				runs++
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

func TestCallersContext(t *testing.T) {
	t.Parallel()
	// Cancelled before the commit: nothing is committed and the context's error comes back. Cancelled once the final batch is under way: it commits
	// all the same, and says so.
	d := notes(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := d.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, note, "text")
		cancel()
		return err
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, noted(t, d))
	_, err = d.Do(ctx, func(context.Context, *db.Tx) error {
		t.Error("no transaction begins under a context that has ended")
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithCancel(t.Context())
	_, err = d.Do(ctx, func(_ context.Context, tx *db.Tx) error {
		tx.AtCommit(db.RankCapacity, note, db.Late(func() any {
			cancel()
			return "committed"
		}))
		tx.AtCommit(db.RankPosition, "select pg_sleep(0.05)")
		return nil
	})
	require.NoError(t, err)
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Equal(t, []string{"committed"}, noted(t, d))
	idle(t, d)
}

func TestRetries(t *testing.T) {
	t.Parallel()

	t.Run("deadlock", func(t *testing.T) {
		t.Parallel()
		// Two transactions that lock two rows in opposite order both succeed in the end: the one that PostgreSQL ends is run again.
		d := notes(t)
		for _, text := range []string{"a", "b"} {
			_, err := d.Pool().Exec(t.Context(), note, text)
			require.NoError(t, err)
		}
		var both, met sync.WaitGroup
		met.Add(2)
		var mu sync.Mutex
		runs := 0
		for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
			var once sync.Once
			both.Go(func() {
				_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					mu.Lock()
					runs++
					mu.Unlock()
					if _, err := tx.Exec(ctx, "select from notes where text = $1 for update", order[0]); err != nil {
						return err
					}
					once.Do(func() { met.Done(); met.Wait() })
					_, err := tx.Exec(ctx, "select from notes where text = $1 for update", order[1])
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		require.GreaterOrEqual(t, runs, 3)
		idle(t, d)
	})

	t.Run("serialisation", func(t *testing.T) {
		t.Parallel()
		// Counting up in repeatable read, by four at once, loses no count.
		d := notes(t)
		_, err := d.Pool().Exec(t.Context(), "create table counter (n int); insert into counter values (0)")
		require.NoError(t, err)
		var all, met sync.WaitGroup
		met.Add(2)
		for range 2 {
			var once sync.Once
			all.Go(func() {
				_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					if _, err := tx.Exec(ctx, "set transaction isolation level repeatable read"); err != nil {
						return err
					}
					var n int
					if err := tx.QueryRow(ctx, "select n from counter").Scan(&n); err != nil {
						return err
					}
					once.Do(func() { met.Done(); met.Wait() })
					_, err := tx.Exec(ctx, "update counter set n = $1", n+1)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var n int
		require.NoError(t, d.Pool().QueryRow(t.Context(), "select n from counter").Scan(&n))
		require.Equal(t, 2, n)
	})

	t.Run("lock timeout", func(t *testing.T) {
		t.Parallel()
		// A row that stays locked is tried four times and then is UNAVAILABLE; one that is let go in between succeeds. The same holds when the lock
		// is met in the final batch.
		d := notes(t)
		short := open(t, db.Config{URL: d.URL(), LockTimeout: 50 * time.Millisecond})
		_, err := d.Pool().Exec(t.Context(), note, "a")
		require.NoError(t, err)
		for _, final := range []bool{false, true} {
			holder, err := d.Pool().Begin(t.Context())
			require.NoError(t, err)
			_, err = holder.Exec(t.Context(), "select from notes for update")
			require.NoError(t, err)
			runs, release := 0, 0
			take := func(ctx context.Context, tx *db.Tx) error {
				runs++
				if runs == release {
					require.NoError(t, holder.Rollback(ctx))
				}
				if final {
					tx.AtCommit(db.RankCapacity, "update notes set text = text")
					return nil
				}
				_, err := tx.Exec(ctx, "update notes set text = text")
				return err
			}
			_, err = short.Do(t.Context(), take)
			require.Equal(t, fault.Unavailable, fault.CodeOf(err))
			require.Equal(t, 4, runs)
			runs, release = 0, 3
			_, err = short.Do(t.Context(), take)
			require.NoError(t, err)
			require.Equal(t, 3, runs)
		}
		idle(t, short)
	})

	t.Run("a repair", func(t *testing.T) {
		t.Parallel()
		// A hook that has removed the cause has the transaction run again; one that hasn't leaves the error; a cause that stays ends after four runs.
		d := notes(t)
		var mend func(context.Context) bool
		d.OnFault(func(ctx context.Context, err error) bool {
			require.Zero(t, d.Pool().Stat().AcquiredConns(), "the failed transaction has given its connection back")
			return mend(ctx)
		})
		runs := 0
		write := func(ctx context.Context, tx *db.Tx) error {
			runs++
			tx.AtCommit(db.RankCapacity, "insert into later values (1)")
			return nil
		}
		mend = func(context.Context) bool { return false }
		_, err := d.Do(t.Context(), write)
		require.ErrorContains(t, err, "later")
		require.Equal(t, 1, runs)
		mend = func(context.Context) bool { return true }
		runs = 0
		_, err = d.Do(t.Context(), write)
		require.Error(t, err)
		require.Equal(t, 4, runs)
		mend = func(ctx context.Context) bool {
			_, err := d.Pool().Exec(ctx, "create table later (n int)")
			return err == nil
		}
		runs = 0
		_, err = d.Do(t.Context(), write)
		require.NoError(t, err)
		require.Equal(t, 2, runs)
	})
}

func TestLibraryView(t *testing.T) {
	t.Parallel()
	// A library runs statements of every kind inside the transaction, and can neither begin, commit nor roll back.
	d := notes(t)
	_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		lib := tx.Lib()
		_, err := lib.Begin(ctx)
		require.Error(t, err)
		require.Error(t, lib.Commit(ctx))
		require.Error(t, lib.Rollback(ctx))
		_, err = lib.Exec(ctx, note, "exec")
		require.NoError(t, err)
		n, err := lib.CopyFrom(ctx, pgx.Identifier{"notes"}, []string{"text"}, pgx.CopyFromRows([][]any{{"copied"}}))
		require.NoError(t, err)
		require.Equal(t, int64(1), n)
		batch := &pgx.Batch{}
		batch.Queue(note, "batch")
		require.NoError(t, lib.SendBatch(ctx, batch).Close())
		_, err = lib.Prepare(ctx, "count_notes", "select count(*) from notes")
		require.NoError(t, err)
		var count int
		require.NoError(t, lib.QueryRow(ctx, "count_notes").Scan(&count))
		require.Equal(t, 3, count)
		rows, err := lib.Query(ctx, "select text from notes")
		require.NoError(t, err)
		rows.Close()
		return rows.Err()
	})
	require.NoError(t, err)
	require.Equal(t, []string{"exec", "copied", "batch"}, noted(t, d))
}

func TestLockOrder(t *testing.T) {
	t.Parallel()
	// Under Strict, going back in the order is an error and commits nothing; the same place again, skipping places, and a fresh transaction are fine.
	d := dbtest.New(t)
	for _, c := range []struct {
		strict bool
		locks  []db.Lock
		fine   bool
	}{
		{true, []db.Lock{db.LockRequest, db.LockPool, db.LockNode, db.LockNode, db.LockRiver}, true},
		{true, []db.Lock{db.LockNode, db.LockReservation}, false},
		{true, []db.Lock{db.LockRiver, db.LockRequest}, false},
		{false, []db.Lock{db.LockRiver, db.LockRequest}, true},
	} {
		d := open(t, db.Config{URL: d.URL(), Strict: c.strict})
		_, err := d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
			for _, l := range c.locks {
				if err := tx.Locks(l); err != nil {
					return err
				}
			}
			return nil
		})
		require.Equal(t, c.fine, err == nil, "%v: %v", c.locks, err)
	}
}

func TestOneConnection(t *testing.T) {
	t.Parallel()
	// One connection carries any number of transactions at once, with errors among them: each waits for its turn and none takes a second one.
	d := notes(t)
	d = open(t, db.Config{URL: d.URL(), MaxConns: 1})
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				tx.AtCommit(db.RankPosition, note, "final")
				if _, err := tx.Exec(ctx, note, "first"); err != nil {
					return err
				}
				if i%3 == 0 {
					return errors.New("no")
				}
				return nil
			})
			if (err != nil) != (i%3 == 0) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, noted(t, d), 40)
	idle(t, d)
}

func TestOpen(t *testing.T) {
	t.Parallel()
	// A URL that can't be read is INVALID_INPUT and its text, which can hold a password, is not shown; a server that isn't there is UNAVAILABLE.
	_, err := db.Open(t.Context(), db.Config{URL: "postgres://me:hunter2@host:port/x"})
	require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	require.NotContains(t, err.Error(), "hunter2")
	_, err = db.Open(t.Context(), db.Config{URL: "postgres://me:hunter2@127.0.0.1:1/x"})
	require.Equal(t, fault.Unavailable, fault.CodeOf(err))
	require.NotContains(t, err.Error(), "hunter2")
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	// Many processes that start at once migrate once, and a migrated database is not behind.
	url := dbtest.Empty(t)
	d := open(t, db.Config{URL: url})
	state, err := d.MigrationState(t.Context())
	require.NoError(t, err)
	require.True(t, state.Behind())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := db.Migrate(t.Context(), url, slog.New(slog.DiscardHandler)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	state, err = d.MigrationState(t.Context())
	require.NoError(t, err)
	require.False(t, state.Behind())
	require.Equal(t, state.Latest, state.Current)
	require.Positive(t, state.Latest)
}
