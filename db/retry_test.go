package db_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
)

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
