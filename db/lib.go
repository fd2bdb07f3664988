package db

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Lib gives the view of the transaction that River and other libraries take. It runs statements and refuses to begin (a savepoint), commit or
// roll back: a transaction is ended at one place.
func (tx *Tx) Lib() pgx.Tx { return library{tx} }

type library struct{ tx *Tx }

var errEnds = errors.New("a library must neither begin, commit nor roll back inside the product's transaction")

func (l library) Begin(context.Context) (pgx.Tx, error) { return nil, errEnds }
func (l library) Commit(context.Context) error          { return errEnds }
func (l library) Rollback(context.Context) error        { return errEnds }
func (l library) Conn() *pgx.Conn                       { return l.tx.conn.Conn() }
func (l library) LargeObjects() pgx.LargeObjects        { return pgx.LargeObjects{} }

func (l library) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := l.tx.flush(ctx); err != nil {
		return 0, err
	}
	return l.tx.conn.CopyFrom(ctx, table, columns, src)
}

func (l library) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return l.tx.SendBatch(ctx, b)
}

func (l library) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return l.Conn().Prepare(ctx, name, sql)
}

func (l library) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return l.tx.Exec(ctx, sql, args...)
}

func (l library) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return l.tx.Query(ctx, sql, args...)
}

func (l library) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return l.tx.QueryRow(ctx, sql, args...)
}
