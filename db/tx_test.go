package db_test

import (
	"context"
	"errors"
	"log/slog"
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

	// A migration that was made earlier than the newest and landed later is missed, and made up for.
	forgotten, err := d.Pool().Exec(t.Context(), `delete from goose_db_version where version_id = (select max(version_id) from goose_db_version where version_id < $1)`, state.Latest)
	require.NoError(t, err)
	require.EqualValues(t, 1, forgotten.RowsAffected())
	state, err = d.MigrationState(t.Context())
	require.NoError(t, err)
	require.True(t, state.Behind())
	if err := db.Migrate(t.Context(), url, slog.New(slog.DiscardHandler)); err != nil {
		require.ErrorContains(t, err, "already exists", "it is run, and what it makes is here already")
		return
	}
	state, err = d.MigrationState(t.Context())
	require.NoError(t, err)
	require.False(t, state.Behind())
}
