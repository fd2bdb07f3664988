package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/better-compute/better-compute/fault"
)

// Rank orders the statements of the final batch.
type Rank int

// The ranks of the final batch, in the order in which they run.
const (
	// RankCapacity: deltas of capacity counters, sorted by their keys.
	RankCapacity Rank = 1
	// RankLog: the clock row and the events. The last row such a statement returns, (position, at, epoch), is the commit's.
	RankLog Rank = 2
	// RankPosition: rows that store the position, which they read from event_clock.
	RankPosition Rank = 3
)

// Lock is a place in the order in which every transaction takes its locks (design.md §3). Going backwards can deadlock.
type Lock int

// The lock order.
const (
	LockRequest Lock = iota + 1
	LockControllerTerm
	LockJoinToken
	LockPool
	LockReservation
	LockNode
	LockLiveness
	LockNodePart
	LockRiver
	LockOperation
)

// Committed tells where in the log a commit stands. A Position of zero means that it wrote no event.
type Committed struct {
	// Position is the place in the log of the commit's last event.
	Position int64
	// At is the log's own, monotone time of that event.
	At time.Time
	// Epoch names the log that the position is of.
	Epoch int64
}

// Late is an argument of [Tx.AtCommit] that is computed when the batch is sent.
type Late func() any

// Tx is a transaction. It holds its connection itself, has no savepoints, and is ended by [DB.Do] alone. BEGIN goes out together with its first
// statement, so a transaction that runs none costs nothing. One that waits for no statement before its end is one batch, and PostgreSQL makes that a
// transaction by itself: no BEGIN and no COMMIT are sent.
type Tx struct {
	db       *DB
	conn     *pgxpool.Conn
	begun    bool
	ended    bool
	waiting  []*pgx.QueuedQuery
	final    []deferred
	attached map[any]any
	lock     Lock
}

type deferred struct {
	rank      Rank
	statement func() (sql string, args []any)
}

func (d *DB) begin(ctx context.Context) (*Tx, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Because(fault.Unavailable, err, nil, "the database does not answer; try again")
	}
	return &Tx{db: d, conn: conn}, nil
}

// AtCommit adds a statement to the final batch. Statements run by rank, and within a rank in the order of their adding; none runs when the
// transaction fails. An argument of type [Late] is computed when the batch is sent.
func (tx *Tx) AtCommit(rank Rank, sql string, args ...any) {
	tx.AtCommitFunc(rank, func() (string, []any) {
		args := slices.Clone(args)
		for i, a := range args {
			if late, ok := a.(Late); ok {
				args[i] = late()
			}
		}
		return sql, args
	})
}

// AtCommitFunc adds a statement to the final batch as [Tx.AtCommit] does; what it is, is asked when the batch is sent.
func (tx *Tx) AtCommitFunc(rank Rank, statement func() (sql string, args []any)) {
	tx.final = append(tx.final, deferred{rank: rank, statement: statement})
}

// Attached gives the value that a package keeps with this transaction under its own key, made at the first call.
func (tx *Tx) Attached(key any, make func() any) any {
	if v, ok := tx.attached[key]; ok {
		return v
	}
	if tx.attached == nil {
		tx.attached = map[any]any{}
	}
	v := make()
	tx.attached[key] = v
	return v
}

// Locks says that the transaction now takes locks of that place in the order. Under [Config.Strict] going backwards is an error, so that tests
// find what could deadlock; otherwise it is free.
func (tx *Tx) Locks(l Lock) error {
	if tx.db.strict && l < tx.lock {
		return fmt.Errorf("lock order: place %d after place %d", l, tx.lock)
	}
	tx.lock = max(tx.lock, l)
	return nil
}

var errSwallowed = errors.New("the transaction had failed before its commit")

// commitBound is how long the final batch may take. It never depends on the caller's context: a caller that leaves during COMMIT would close
// the connection and leave the outcome unknown.
const commitBound = 15 * time.Second

func (tx *Tx) commit(ctx context.Context) (Committed, error) {
	if err := ctx.Err(); err != nil {
		return Committed{}, err
	}
	if !tx.begun && len(tx.waiting) == 0 && len(tx.final) == 0 {
		return Committed{}, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitBound)
	defer cancel()

	slices.SortStableFunc(tx.final, func(a, b deferred) int { return int(a.rank - b.rank) })
	batch := &pgx.Batch{}
	for _, d := range tx.final {
		sql, args := d.statement()
		batch.Queue(sql, args...)
	}
	whole := !tx.begun // the statements up to the batch's end are a transaction, which commits or fails there
	if whole {
		tx.begun = true
	} else {
		batch.Queue("commit")
	}

	end := func() {}
	if tx.logs() {
		end = tx.db.turn()
	}
	var done Committed
	all := tx.SendBatch(ctx, batch)
	reached, err := tx.readFinal(all, &done, whole)
	// Once PostgreSQL has answered COMMIT it is committed, and a connection that breaks after that changes nothing. A batch that is a transaction
	// commits where it ends.
	if closed := all.Close(); whole && err == nil {
		reached, err = true, closed
	}
	end()
	if err != nil {
		tx.begun = !whole // nothing is left to roll back
		return Committed{}, tx.commitError(err, reached)
	}
	tx.ended = true
	tx.conn.Release()
	if done.Position > 0 {
		tx.db.committed(tx, done)
	}
	return done, nil
}

// logs says that the final batch moves the log's clock.
func (tx *Tx) logs() bool {
	return slices.ContainsFunc(tx.final, func(d deferred) bool { return d.rank == RankLog })
}

const (
	// turnsAtOnce is how many final batches of this process are at the clock row at once: one commits, and the next are there when it has. Any more would
	// queue in PostgreSQL, where waiting for a row costs several times the CPU that it does here.
	turnsAtOnce = 3
	// turnBound is how long a transaction waits for its turn. It only paces: the row's lock is what orders commits, and one whose turn does not come, since
	// those before it wait for something that it holds, goes on.
	turnBound = 20 * time.Millisecond
)

// turn waits for a turn at the clock row, and gives what ends it.
func (d *DB) turn() (end func()) {
	select {
	case d.turns <- struct{}{}:
		return func() { <-d.turns }
	default:
	}
	late := time.NewTimer(turnBound)
	defer late.Stop()
	select {
	case d.turns <- struct{}{}:
		return func() { <-d.turns }
	case <-late.C:
		return func() {}
	}
}

// readFinal reads the answers to the final batch, and says whether it reached that to COMMIT, which one that is the whole transaction does not have.
func (tx *Tx) readFinal(all pgx.BatchResults, done *Committed, whole bool) (reached bool, err error) {
	if r, ok := all.(*results); ok {
		if err := r.settle(); err != nil {
			return false, err
		}
	}
	for _, d := range tx.final {
		if d.rank != RankLog {
			if _, err := all.Exec(); err != nil {
				return false, err
			}
			continue
		}
		rows, err := all.Query()
		if err != nil {
			return false, err
		}
		if rows.Next() {
			if err := rows.Scan(&done.Position, &done.At, &done.Epoch); err != nil {
				rows.Close()
				return false, err
			}
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return false, err
		}
	}
	if whole {
		return false, nil
	}
	tag, err := all.Exec()
	if err != nil {
		return true, err
	}
	if tag.String() != "COMMIT" {
		// An error that somebody swallowed had already failed the transaction: PostgreSQL answers ROLLBACK to COMMIT, and pgx no error.
		return true, fmt.Errorf("%w: PostgreSQL answered %s", errSwallowed, tag.String())
	}
	return true, nil
}

// commitError tells a refusal by the server, after which nothing is committed, from a lost connection, after which nobody knows. A server that ends
// the session while it commits may have committed already when it says so.
func (tx *Tx) commitError(err error, reached bool) error {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if !answered && tx.conn.Conn().IsClosed() || answered && reached && pg.SeverityUnlocalized != "ERROR" {
		return fault.Because(fault.Unavailable, err, nil,
			"the database was lost while it committed, so the outcome is unknown; send the same request id again to learn it")
	}
	return fmt.Errorf("commit: %w", err)
}

// end gives the connection back. After an error it rolls back first; a connection that cannot is closed.
func (tx *Tx) end(ctx context.Context) {
	if tx.ended {
		return
	}
	tx.ended = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if tx.begun && !tx.conn.Conn().IsClosed() {
		if _, err := tx.conn.Exec(ctx, "rollback"); err != nil {
			_ = tx.conn.Conn().Close(ctx)
		}
	}
	tx.conn.Release()
}

func (d *DB) committed(tx *Tx, c Committed) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, fn := range d.onCommit {
		fn(tx, c)
	}
}
