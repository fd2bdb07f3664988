package db_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
)

// written notes the statements of batches.
type written struct {
	trips

	mu  sync.Mutex
	sql []string
}

func (w *written) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sql = append(w.sql, q.SQL)
}

func (w *written) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	sql := w.sql
	w.sql = nil
	return sql
}

func TestOneBatch(t *testing.T) {
	t.Parallel()
	// A transaction that waits for none of its statements is one batch without BEGIN and COMMIT, and all or nothing all the same: also when its end
	// refuses it. The connection is good afterwards.
	straight := notes(t)
	_, err := straight.Pool().Exec(t.Context(), `
		create function late() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$;
		create constraint trigger late after insert on notes deferrable initially deferred for each row when (new.text = 'late') execute function late()`)
	require.NoError(t, err)
	w := &written{}
	d := open(t, db.Config{URL: straight.URL(), MaxConns: 1, Tracer: w})
	do := func(texts ...string) error {
		_, err := d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
			tx.AtCommit(db.RankPosition, note, texts[len(texts)-1])
			for _, text := range texts[:len(texts)-1] {
				tx.Send(note, text)
			}
			return nil
		})
		return err
	}
	require.NoError(t, do("one", "two", "three"))
	require.Equal(t, []string{note, note, note}, w.take())
	require.ErrorContains(t, do("four", "late", "five"), "not this one")
	require.Error(t, do("four", "five", "\x00"), "a text that the database does not take")
	require.Error(t, do("\x00", "four"))
	require.NoError(t, do("six"))
	require.Equal(t, []string{"one", "two", "three", "six"}, noted(t, straight))
	// One that has begun has its COMMIT.
	w.take()
	_, err = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, note, "seven")
		tx.AtCommit(db.RankPosition, note, "eight")
		return err
	})
	require.NoError(t, err)
	require.Equal(t, []string{"begin", note, note, "commit"}, w.take())
	idle(t, d)
}
