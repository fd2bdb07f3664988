package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Send runs a statement whose result nobody needs. It waits and goes out with the next one that does, in the same round trip and before it; at
// the latest it goes with the final batch. When it fails, that next statement, or the commit, gives its error.
func (tx *Tx) Send(sql string, args ...any) {
	tx.waiting = append(tx.waiting, &pgx.QueuedQuery{SQL: sql, Arguments: args})
}

// take gives what waits, BEGIN first if the transaction has not begun.
func (tx *Tx) take() []*pgx.QueuedQuery {
	waiting := tx.waiting
	tx.waiting = nil
	if !tx.begun {
		tx.begun = true
		waiting = append([]*pgx.QueuedQuery{{SQL: "begin"}}, waiting...)
	}
	return waiting
}

// idle says that nothing waits, so that a statement can go out by itself.
func (tx *Tx) idle() bool { return tx.begun && len(tx.waiting) == 0 }

// flush sends what waits by itself, for calls that nothing can go along with.
func (tx *Tx) flush(ctx context.Context) error {
	if tx.idle() {
		return nil
	}
	if err := tx.conn.SendBatch(ctx, &pgx.Batch{QueuedQueries: tx.take()}).Close(); err != nil {
		return fmt.Errorf("statements before: %w", err)
	}
	return nil
}

// alone says that a statement can't go in a batch: without arguments it may be several statements, and pgx's options are not for batches.
func alone(args []any) bool {
	if len(args) == 0 {
		return true
	}
	switch args[0].(type) {
	case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
		return true
	}
	return false
}

// Exec runs a statement and gives its tag.
func (tx *Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if !tx.idle() && alone(args) {
		if err := tx.flush(ctx); err != nil {
			return pgconn.CommandTag{}, err
		}
	}
	if tx.idle() {
		return tx.conn.Exec(ctx, sql, args...)
	}
	results := tx.one(ctx, sql, args)
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	return tag, err
}

// Query runs a statement that gives rows.
func (tx *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !tx.idle() && alone(args) {
		if err := tx.flush(ctx); err != nil {
			return failedRows{err: err}, err
		}
	}
	if tx.idle() {
		return tx.conn.Query(ctx, sql, args...)
	}
	results := tx.one(ctx, sql, args)
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return failedRows{err: err}, err
	}
	return &lastRows{Rows: rows, results: results}, nil
}

// QueryRow runs a statement that gives one row.
func (tx *Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if tx.idle() {
		return tx.conn.QueryRow(ctx, sql, args...)
	}
	rows, err := tx.Query(ctx, sql, args...)
	return oneRow{rows, err}
}

// SendBatch runs several statements in one round trip.
func (tx *Tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if tx.idle() {
		return tx.conn.SendBatch(ctx, b)
	}
	waiting := tx.take()
	all := &pgx.Batch{QueuedQueries: append(waiting, b.QueuedQueries...)}
	return &results{BatchResults: tx.conn.SendBatch(ctx, all), before: len(waiting)}
}

func (tx *Tx) one(ctx context.Context, sql string, args []any) pgx.BatchResults {
	b := &pgx.Batch{}
	b.Queue(sql, args...)
	return tx.SendBatch(ctx, b)
}

// results are a batch's without those of the statements that went out before it.
type results struct {
	pgx.BatchResults

	before int
	err    error
}

func (r *results) settle() error {
	for ; r.before > 0 && r.err == nil; r.before-- {
		_, r.err = r.BatchResults.Exec()
	}
	return r.err
}

func (r *results) Exec() (pgconn.CommandTag, error) {
	if err := r.settle(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return r.BatchResults.Exec()
}

func (r *results) Query() (pgx.Rows, error) {
	if err := r.settle(); err != nil {
		return failedRows{err: err}, err
	}
	return r.BatchResults.Query()
}

func (r *results) QueryRow() pgx.Row {
	if err := r.settle(); err != nil {
		return failedRows{err: err}
	}
	return r.BatchResults.QueryRow()
}

// lastRows are the rows of a batch's last statement; with them the batch ends.
type lastRows struct {
	pgx.Rows

	results pgx.BatchResults
	err     error
}

func (r *lastRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *lastRows) Close() {
	r.Rows.Close()
	if err := r.results.Close(); r.err == nil {
		r.err = err
	}
}

func (r *lastRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// oneRow is the first of some rows.
type oneRow struct {
	rows pgx.Rows
	err  error
}

func (r oneRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(into...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// failedRows are those of a statement that could not be sent.
type failedRows struct {
	pgx.Rows

	err error
}

func (r failedRows) Close()            {}
func (r failedRows) Err() error        { return r.err }
func (r failedRows) Next() bool        { return false }
func (r failedRows) Scan(...any) error { return r.err }
