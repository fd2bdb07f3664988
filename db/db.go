// Package db is the way to PostgreSQL: the pool with its bounds, the transaction with its final batch, the migrations.
//
// Everything true lives in that database. A verb opens one transaction with [DB.Do], passes the [Tx] on as a visible argument, and what must
// come last (the log's clock row and its events, rows that store the position) is collected by [Tx.AtCommit] and sent together with COMMIT as
// one pipelined batch, so that nothing slow ever happens while the clock row is held.
package db

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/better-compute/better-compute/fault"
)

// Config says which database to open and with what bounds.
type Config struct {
	// URL is a PostgreSQL connection string.
	URL string
	// MaxConns bounds the pool; 0 means 20.
	MaxConns int32
	// Application is shown in pg_stat_activity; empty means "better-compute".
	Application string
	// LockTimeout is how long a statement waits for a lock; 0 means 3 s.
	LockTimeout time.Duration
	// StatementTimeout is how long a statement may run; 0 means 15 s.
	StatementTimeout time.Duration
	// IdleInTransaction is how long a transaction may sit without a statement before the server ends it; 0 means 10 s.
	IdleInTransaction time.Duration
	// Strict makes a transaction that takes locks against the order of [Lock] fail; tests set it.
	Strict bool
	// Tracer hears of every statement; nil means nobody does.
	Tracer pgx.QueryTracer
	// Log takes what the pool has to say; nil means nowhere.
	Log *slog.Logger
}

// DB is a pool of connections to one database.
type DB struct {
	pool   *pgxpool.Pool
	url    string
	strict bool
	log    *slog.Logger
	turns  chan struct{} // taken for a final batch that moves the log's clock

	mu       sync.RWMutex
	onCommit []func(*Tx, Committed)
	onFault  []func(context.Context, error) bool
}

// Querier is what both the pool and a transaction offer: for reads that do not care which of the two they run on.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Open connects. A server that does not answer or takes no writes is UNAVAILABLE; one older than PostgreSQL 15 is INVALID_STATE.
func Open(ctx context.Context, c Config) (*DB, error) {
	pc, err := poolConfig(c)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	var version int
	var readOnly bool
	if err := pool.QueryRow(ctx, "select current_setting('server_version_num')::int, current_setting('transaction_read_only')::bool").
		Scan(&version, &readOnly); err != nil {
		pool.Close()
		return nil, unopened(err)
	}
	if version < oldestServer {
		pool.Close()
		return nil, fault.New(fault.InvalidState, nil, "the database is PostgreSQL %d; 15 or later is needed", version/10000)
	}
	if readOnly {
		pool.Close()
		return nil, openedReadOnly()
	}
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &DB{pool: pool, url: c.URL, strict: c.Strict, log: log, turns: make(chan struct{}, turnsAtOnce)}, nil
}

const oldestServer = 150000

// openedReadOnly is the answer to who opens or migrates a database that only reads.
func openedReadOnly() *fault.Error {
	return fault.New(fault.Unavailable, nil, "the database takes no writes, since it is a standby or set to read only; nothing was changed; "+
		"name its primary, or lift default_transaction_read_only for its role and database")
}

// onlyReads says whether a session begins its transactions read-only. PostgreSQL tells whenever that changes.
func onlyReads(conn *pgx.Conn) bool {
	pg := conn.PgConn()
	return pg.ParameterStatus("default_transaction_read_only") == "on" || pg.ParameterStatus("in_hot_standby") == "on"
}

func poolConfig(c Config) (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, unreadable()
	}
	pc.MaxConns = orDefault(c.MaxConns, 20)
	pc.MaxConnIdleTime = 10 * time.Minute
	pc.ConnConfig.ConnectTimeout = 5 * time.Second
	params := pc.ConnConfig.RuntimeParams
	if params["application_name"] == "" {
		params["application_name"] = orDefault(c.Application, "better-compute")
	}
	params["lock_timeout"] = millis(orDefault(c.LockTimeout, 3*time.Second))
	params["statement_timeout"] = millis(orDefault(c.StatementTimeout, 15*time.Second))
	params["idle_in_transaction_session_timeout"] = millis(orDefault(c.IdleInTransaction, 10*time.Second))
	params["timezone"] = "UTC"
	params["jit"] = "off" // compiling takes longer than any of our statements runs
	pc.ConnConfig.Tracer = c.Tracer
	pc.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		return nil
	}
	// A session that was begun while the database only read would go on to read only for as long as it lives, so it is used once.
	pc.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		if !onlyReads(conn) {
			return true, nil
		}
		data := conn.PgConn().CustomData()
		_, used := data["used"]
		data["used"] = true
		return !used, nil
	}
	return pc, nil
}

func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Pool gives the connections for reads outside a transaction and for LISTEN.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// URL gives the connection string that the pool was opened with. It can hold a password: it is for opening, never for showing.
func (d *DB) URL() string { return d.url }

// Close waits for the connections in use and closes all.
func (d *DB) Close() { d.pool.Close() }

// OnLogCommit has fn called after each commit of this process that wrote to the log. It may read what was attached to the transaction, which is
// over, and must not block.
func (d *DB) OnLogCommit(fn func(*Tx, Committed)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onCommit = append(d.onCommit, fn)
}

// OnFault has fn called when a transaction has failed and been rolled back. When fn has removed the cause it says true, and the transaction is
// tried again, as after a fault of the kinds that [DB.Do] names.
func (d *DB) OnFault(fn func(context.Context, error) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onFault = append(d.onFault, fn)
}

// attempts is how often Do runs a transaction that PostgreSQL refuses for no fault of the caller's: once, and three times more.
const attempts = 4

// Do runs fn in a transaction and commits it. Serialisation, deadlock and lock-timeout faults run fn again, up to three times; then the
// answer is UNAVAILABLE. fn may run more than once, so it keeps no state outside the transaction.
//
// When the connection is lost while COMMIT is under way the outcome is unknown: UNAVAILABLE, and a request id tells what happened.
func (d *DB) Do(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) (Committed, error) {
	for attempt := 1; ; attempt++ {
		done, err := d.once(ctx, fn)
		if err == nil || !retryable(err) && !d.repaired(ctx, err) {
			return done, err
		}
		if attempt == attempts {
			return Committed{}, fault.Because(fault.Unavailable, err, nil, "the database is too busy with others' changes of the same rows; try again")
		}
		d.log.DebugContext(ctx, "transaction is tried again", "attempt", attempt, "error", err)
		select {
		case <-ctx.Done():
			return Committed{}, ctx.Err()
		case <-time.After(time.Duration(rand.Int64N(int64(attempt) * int64(10*time.Millisecond)))): //nolint:gosec // jitter, not a secret
		}
	}
}

func (d *DB) once(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) (Committed, error) {
	tx, err := d.begin(ctx)
	if err != nil {
		return Committed{}, err
	}
	defer tx.end(ctx)
	if err := fn(ctx, tx); err != nil {
		return Committed{}, tx.lost(ctx, err)
	}
	done, err := tx.commit(ctx)
	return done, tx.lost(ctx, err)
}

func (d *DB) repaired(ctx context.Context, err error) bool {
	d.mu.RLock()
	repairs := d.onFault
	d.mu.RUnlock()
	for _, repair := range repairs {
		if repair(ctx, err) {
			return true
		}
	}
	return false
}
