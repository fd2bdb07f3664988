package db_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/db"
)

const moveClock = "update event_clock set position = position + 1 returning position, at, epoch"

func TestTurns(t *testing.T) {
	t.Parallel()

	t.Run("64 at once move the clock, each by itself, and leave no turn taken", func(t *testing.T) {
		t.Parallel()
		d := notes(t)
		var mu sync.Mutex
		positions := map[int64]bool{}
		var g errgroup.Group
		for range 64 {
			g.Go(func() error {
				for range 5 {
					done, err := d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
						tx.AtCommit(db.RankLog, moveClock)
						return nil
					})
					if err != nil {
						return err
					}
					mu.Lock()
					positions[done.Position] = true
					mu.Unlock()
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
		require.Len(t, positions, 64*5)
		idle(t, d)
	})

	t.Run("Those whose turn it is may wait for one whose turn it is not", func(t *testing.T) {
		t.Parallel()
		// One holds a row that the others' final batches want; it commits when they have taken every turn. Nobody is refused.
		d := notes(t)
		_, err := d.Pool().Exec(t.Context(), "insert into notes (text) values ('row')")
		require.NoError(t, err)
		const others = 6
		held, finals := make(chan struct{}), make(chan struct{})
		var g errgroup.Group
		g.Go(func() error {
			_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				tx.AtCommit(db.RankLog, moveClock)
				if _, err := tx.Exec(ctx, "select from notes where text = $1 for update", "row"); err != nil {
					return err
				}
				close(held)
				<-finals
				return nil
			})
			return err
		})
		<-held
		for range others {
			g.Go(func() error {
				_, err := d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
					tx.Send("update notes set text = text where text = $1", "row")
					tx.AtCommit(db.RankLog, moveClock)
					return nil
				})
				return err
			})
		}
		require.Eventually(t, func() bool {
			var waiting int
			err := d.Pool().QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting)
			return err == nil && waiting >= 3
		}, 10*time.Second, time.Millisecond)
		close(finals)
		require.NoError(t, g.Wait())
		idle(t, d)
	})
}
