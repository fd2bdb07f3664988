package db_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
)

// trips counts what is sent to the database.
type trips struct{ n atomic.Int64 }

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestSend(t *testing.T) {
	t.Parallel()

	count := func(ctx context.Context, tx *db.Tx) (n int, err error) {
		return n, tx.QueryRow(ctx, "select count(*) from notes where text <> $1", "none").Scan(&n)
	}

	t.Run("BEGIN and what waits go along with the next statement, in order, whatever that is", func(t *testing.T) {
		t.Parallel()
		for name, next := range map[string]func(ctx context.Context, tx *db.Tx) (seen int, err error){
			"a row": count,
			"rows": func(ctx context.Context, tx *db.Tx) (int, error) {
				rows, err := tx.Query(ctx, "select text from notes where text <> $1", "none")
				require.NoError(t, err)
				all, err := pgx.CollectRows(rows, pgx.RowTo[string])
				return len(all), err
			},
			"a tag": func(ctx context.Context, tx *db.Tx) (int, error) {
				tag, err := tx.Exec(ctx, "update notes set text = text where text <> $1", "none")
				return int(tag.RowsAffected()), err
			},
			"a batch": func(ctx context.Context, tx *db.Tx) (n int, err error) {
				b := &pgx.Batch{}
				b.Queue("select count(*) from notes").QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
				return n, tx.SendBatch(ctx, b).Close()
			},
			"a batch that is read": func(ctx context.Context, tx *db.Tx) (n int, err error) {
				b := &pgx.Batch{}
				b.Queue("select count(*) from notes")
				b.Queue(note, "more")
				results := tx.SendBatch(ctx, b)
				require.NoError(t, results.QueryRow().Scan(&n))
				_, err = results.Exec()
				require.NoError(t, err)
				return n, results.Close()
			},
		} {
			d := notes(t)
			sent := &trips{}
			d = open(t, db.Config{URL: d.URL(), Tracer: sent})
			before := sent.n.Load()
			_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				tx.Send(note, "one")
				tx.Send(note, "two")
				n, err := next(ctx, tx)
				require.Equal(t, 2, n, name)
				return err
			})
			require.NoError(t, err, name)
			require.Equal(t, int64(2), sent.n.Load()-before, "%s: one round trip, and one for COMMIT", name)
			require.Equal(t, []string{"one", "two"}, noted(t, d)[:2])
		}
	})

	t.Run("What nothing goes along with goes with COMMIT; a transaction without statements sends nothing", func(t *testing.T) {
		t.Parallel()
		d := notes(t)
		sent := &trips{}
		d = open(t, db.Config{URL: d.URL(), Tracer: sent})
		before := sent.n.Load()
		for _, fn := range []func(tx *db.Tx) error{
			func(*db.Tx) error { return nil },
			func(*db.Tx) error { return errors.New("no") },
			func(tx *db.Tx) error { tx.Send(note, "lost"); return errors.New("no") },
		} {
			_, _ = d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error { return fn(tx) })
		}
		require.Equal(t, before, sent.n.Load())
		_, err := d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
			tx.Send(note, "kept")
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, int64(1), sent.n.Load()-before)
		require.Equal(t, []string{"kept"}, noted(t, d))
	})

	t.Run("When it fails, what it went along with fails, and nothing is committed", func(t *testing.T) {
		t.Parallel()
		d := notes(t)
		for name, next := range map[string]func(ctx context.Context, tx *db.Tx) error{
			"nothing": func(context.Context, *db.Tx) error { return nil },
			"a row":   func(ctx context.Context, tx *db.Tx) error { _, err := count(ctx, tx); return err },
			"rows": func(ctx context.Context, tx *db.Tx) error {
				rows, err := tx.Query(ctx, "select text from notes where text <> $1", "none")
				if err != nil {
					return err
				}
				_, err = pgx.CollectRows(rows, pgx.RowTo[string])
				return err
			},
			"a tag":         func(ctx context.Context, tx *db.Tx) error { _, err := tx.Exec(ctx, note, "after"); return err },
			"by itself":     func(ctx context.Context, tx *db.Tx) error { _, err := tx.Exec(ctx, "select 1; select 2"); return err },
			"one swallowed": func(ctx context.Context, tx *db.Tx) error { _, _ = count(ctx, tx); return nil },
		} {
			_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				tx.Send(note, "before")
				tx.Send(note, "forbidden")
				return next(ctx, tx)
			})
			require.Error(t, err, name)
		}
		require.Empty(t, noted(t, d))
		idle(t, d)
	})

	t.Run("Statements that can't go along have what waits sent before them", func(t *testing.T) {
		t.Parallel()
		d := notes(t)
		_, err := d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			tx.Send(note, "one")
			_, err := tx.Exec(ctx, "insert into notes (text) values ('two'); insert into notes (text) values ('three')")
			require.NoError(t, err)
			tx.Send(note, "four")
			_, err = tx.Lib().CopyFrom(ctx, pgx.Identifier{"notes"}, []string{"text"}, pgx.CopyFromRows([][]any{{"five"}}))
			require.NoError(t, err)
			tx.Send(note, "six")
			var n int
			require.NoError(t, tx.QueryRow(ctx, "select count(*) from notes where text <> $1", pgx.QueryExecModeExec, "none").Scan(&n))
			require.Equal(t, 6, n)
			require.ErrorIs(t, tx.QueryRow(ctx, "select 1 from notes where text = $1", "none").Scan(&n), pgx.ErrNoRows)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"one", "two", "three", "four", "five", "six"}, noted(t, d))
	})
}
