package db

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/better-compute/better-compute/fault"
)

// Unanswered says that an error means that the database did not answer, rather than that it refused: a connection that failed or was lost, a server
// that starts, stops or only reads, a statement that it cut for taking too long.
func Unanswered(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "57P01", "57P02", "57P03", readOnlyCode, "53300", "57014": // shutdowns, starting up, read-only, too many connections, query_canceled
			return true
		}
		return false
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

const readOnlyCode = "25006" // read_only_sql_transaction

// ReadOnly says that the database refused to write because it is a standby or was set to read only.
func ReadOnly(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == readOnlyCode
}

// Unavailable gives an error of [Unanswered] its code and a sentence that says which of the two it is: a database that does not answer, or one that
// only reads. It is for statements outside a transaction; [DB.Do] does the same for those inside.
func Unavailable(err error) *fault.Error {
	if ReadOnly(err) {
		return fault.Because(fault.Unavailable, err, nil, takesNoWrites)
	}
	return fault.Because(fault.Unavailable, err, nil, "the database does not answer; try again")
}

// unopened is the answer to who could not connect. A server that answered says itself why it did not let us in, and never shows the password.
func unopened(err error) *fault.Error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !Unanswered(pg) {
		return fault.Because(fault.InvalidState, err, fault.Details{"sqlState": pg.Code},
			"the database did not let us in: %s; check the role, its password and the database's name in --database-url", pg.Message)
	}
	return fault.Because(fault.Unavailable, err, nil, "the database does not answer; check that it runs and that its address is right")
}

// unreadable is the answer to a URL that is none. The parser's text can hold the password, so it is not passed on.
func unreadable() *fault.Error {
	return fault.New(fault.InvalidInput, fault.Details{"argument": "database-url"},
		"the database URL cannot be read; write it like postgres://role@host/database")
}

const takesNoWrites = "the database takes no writes now, since it is a standby or set to read only; nothing was changed; try again when it does"

func retryable(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "40001", "40P01", "55P03": // serialization_failure, deadlock_detected, lock_not_available
		return true
	}
	return false
}

// lost gives an error without a code its code when the database has let the transaction down before the commit: it is restarting, only reads, or has
// cut the connection or a statement that took too long. Nothing is committed then.
func (tx *Tx) lost(ctx context.Context, err error) error {
	var f *fault.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &f) {
		return err
	}
	if ReadOnly(err) {
		return Unavailable(err)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case pg.Code == "25P03", pg.Code == "25P04": // idle_in_transaction_session_timeout, transaction_timeout
		case slices.Contains([]string{"08", "53", "57"}, pg.Code[:2]): // connection_exception, insufficient_resources, operator_intervention
		default:
			return err
		}
	} else if !tx.conn.Conn().IsClosed() {
		return err
	}
	return fault.Because(fault.Unavailable, err, nil, "the database could not finish it, and nothing was changed; try again")
}
