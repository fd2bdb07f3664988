package iam

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
)

// Request is a request id that a principal sent with an operation and its input. The zero value is no request id.
type Request struct {
	ID   string
	hash []byte
	who  string
}

// Answer is what a request did.
type Answer struct {
	// Changed says whether anything did.
	Changed bool
	// After is how many events the same commit wrote after the change's own, which its cursor stands before.
	After int
	// Made are the ids of what it made.
	Made []string
	// Cursor is the log's position of this very change; when nothing changed, what the act says, and else the head as it was read after the act.
	Cursor events.Cursor
}

// maxRequestID bounds the text that clients choose.
const maxRequestID = 128

// NewRequest ties a request id to what it is for. The input is hashed without its request id field, so that only a repeat of the same matches.
func NewRequest(who Actor, requestID, operation string, input any) (Request, error) {
	if requestID == "" {
		return Request{}, nil
	}
	if n := utf8.RuneCountInString(requestID); n > maxRequestID || !utf8.ValidString(requestID) || strings.ContainsFunc(requestID, unicode.IsControl) {
		return Request{}, fault.Invalid("requestId", "must be at most 128 characters, none of them a control character", n)
	}
	body, err := json.Marshal(input)
	if err != nil {
		return Request{}, fmt.Errorf("hash the request: %w", err)
	}
	sum := sha256.Sum256(append([]byte(operation+"\x00"), body...))
	return Request{ID: requestID, hash: sum[:], who: who.Name}, nil
}

// Steps are what is done under a request id, in one transaction. They may run several times, since it is tried again after a deadlock.
type Steps struct {
	// First, if there is one, adds to the transaction's first batch, in which the id is claimed before it: what is locked and read there costs no round
	// trip of its own. The functions of its queries are called before the claim is looked at, and their error ends the transaction.
	First func(tx *db.Tx, b *pgx.Batch) error
	// Act does it.
	Act func(ctx context.Context, tx *db.Tx) (Answer, error)
	// Again reads what the answer shows where it has happened before.
	Again func(ctx context.Context, tx *db.Tx, a Answer) error
}

// Once is Perform for what begins with its own statements.
func (r Request) Once(ctx context.Context, d *db.DB,
	act func(ctx context.Context, tx *db.Tx) (Answer, error), again func(ctx context.Context, tx *db.Tx, a Answer) error,
) (Answer, error) {
	return r.Perform(ctx, d, Steps{Act: act, Again: again})
}

// Perform acts at most once for a request id, in one transaction: the act happens, or, when it has happened before, the answer is the first one's. A
// change's cursor is its own; of what changed nothing it is the head. The same id for something else is INVALID_INPUT.
func (r Request) Perform(ctx context.Context, d *db.DB, s Steps) (Answer, error) {
	var out Answer
	done, err := d.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		before, err := r.begin(ctx, tx, s.First)
		if err != nil {
			return err
		}
		if before != nil {
			out = *before
			return s.Again(ctx, tx, out)
		}
		if out, err = s.Act(ctx, tx); err != nil {
			return err
		}
		if !out.Changed && out.Cursor == (events.Cursor{}) {
			if out.Cursor, err = events.Head(ctx, tx); err != nil {
				return err
			}
		}
		r.store(tx, out)
		return nil
	})
	if err != nil {
		return Answer{}, err
	}
	if done.Position > 0 {
		out.Cursor = events.Cursor{Epoch: done.Epoch, Position: done.Position - int64(out.After)}
	}
	return out, nil
}

// begin sends the transaction's first batch: it claims the request id, and then does what comes first. It gives the answer of what has happened under
// the id before.
func (r Request) begin(ctx context.Context, tx *db.Tx, first func(*db.Tx, *pgx.Batch) error) (*Answer, error) {
	b := &pgx.Batch{}
	var c claim
	if r.ID != "" {
		if err := tx.Locks(db.LockRequest); err != nil {
			return nil, err
		}
		r.queueClaim(b, &c)
	}
	if first != nil {
		if err := first(tx, b); err != nil {
			return nil, err
		}
	}
	if b.Len() == 0 {
		return nil, nil //nolint:nilnil // nothing to repeat, nothing to read
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		if fault.CodeOf(err) != fault.Internal {
			return nil, err // a refusal, in its own words
		}
		return nil, fmt.Errorf("begin: %w", err)
	}
	switch {
	case r.ID == "" || c.fresh:
		return nil, nil //nolint:nilnil // it happens now
	case !c.same:
		return nil, fault.Invalid("requestId", "was used before for something else; choose a new one", 0)
	}
	return &c.before, nil
}

// claim is what became of a request id.
type claim struct {
	fresh  bool // nobody had it
	same   bool // it was used for this very request
	before Answer
}

// queueClaim takes the id, or waits for whoever is using it; the second statement reads the row as it is then.
func (r Request) queueClaim(b *pgx.Batch, c *claim) {
	b.Queue(`insert into requests (principal, id, hash) values ($1, $2, $3) on conflict do nothing`, r.who, r.ID, r.hash).Exec(func(tag pgconn.CommandTag) error {
		c.fresh = tag.RowsAffected() == 1
		return nil
	})
	b.Queue(`
		select hash = $3, coalesce(changed, false), made, coalesce(epoch, 0), coalesce(position, 0)
		from requests where principal = $1 and id = $2`, r.who, r.ID, r.hash).QueryRow(func(row pgx.Row) error {
		a := &c.before
		return row.Scan(&c.same, &a.Changed, &a.Made, &a.Cursor.Epoch, &a.Cursor.Position)
	})
}

// store keeps the answer. The cursor of a change comes with the final batch.
func (r Request) store(tx *db.Tx, a Answer) {
	if r.ID == "" {
		return
	}
	made := a.Made
	if made == nil {
		made = []string{}
	}
	if !a.Changed {
		tx.AtCommit(db.RankPosition, `update requests set changed = false, made = $3, epoch = $4, position = $5 where principal = $1 and id = $2`,
			r.who, r.ID, made, a.Cursor.Epoch, a.Cursor.Position)
		return
	}
	tx.AtCommit(db.RankPosition, `
		update requests set changed = true, made = $3, (epoch, position) = (select epoch, position - $4 from event_clock) where principal = $1 and id = $2`,
		r.who, r.ID, made, a.After)
}

// ForgetRequests removes request ids older than a day, after which a repeat would act again.
func ForgetRequests(ctx context.Context, d *db.DB) (int64, error) {
	tag, err := d.Pool().Exec(ctx, `delete from requests where at < now() - interval '24 hours'`)
	if err != nil {
		return 0, fmt.Errorf("forget old request ids: %w", err)
	}
	return tag.RowsAffected(), nil
}
