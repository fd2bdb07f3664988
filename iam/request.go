package iam

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

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

// Replay is the stored answer to a request that has happened.
type Replay struct {
	Changed bool
	Cursor  events.Cursor
	Made    []string
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

// BeginTx claims the request id as the first statement of the transaction. When it has happened already, the stored answer comes back and nothing
// may be changed; under the same id for something else it is INVALID_INPUT.
func (r Request) BeginTx(ctx context.Context, tx *db.Tx) (*Replay, error) {
	if r.ID == "" {
		return nil, nil //nolint:nilnil // no request id: nothing to replay, nothing wrong
	}
	if err := tx.Locks(db.LockRequest); err != nil {
		return nil, err
	}
	tag, err := tx.Exec(ctx, `insert into requests (principal, id, hash) values ($1, $2, $3) on conflict do nothing`, r.who, r.ID, r.hash)
	if err != nil {
		return nil, fmt.Errorf("claim the request id: %w", err)
	}
	if tag.RowsAffected() == 1 {
		return nil, nil //nolint:nilnil // claimed: it happens now
	}
	var same bool
	var p Replay
	err = tx.QueryRow(ctx, `
		select hash = $3, coalesce(changed, false), coalesce(position, 0), made, (select epoch from event_clock)
		from requests where principal = $1 and id = $2`, r.who, r.ID, r.hash).
		Scan(&same, &p.Changed, &p.Cursor.Position, &p.Made, &p.Cursor.Epoch)
	if err != nil {
		return nil, fmt.Errorf("read the request's answer: %w", err)
	}
	if !same {
		return nil, fault.Invalid("requestId", "was used before for something else; choose a new one", 0)
	}
	return &p, nil
}

// Finish stores the answer. The position of a change comes with the final batch; that of an unchanged one is the head as it was read.
func (r Request) Finish(tx *db.Tx, changed bool, head events.Cursor, made ...string) {
	if r.ID == "" {
		return
	}
	if made == nil {
		made = []string{}
	}
	if !changed {
		tx.AtCommit(db.RankPosition, `update requests set changed = false, position = $3, made = $4 where principal = $1 and id = $2`,
			r.who, r.ID, head.Position, made)
		return
	}
	tx.AtCommit(db.RankPosition, `
		update requests set changed = true, position = (select position from event_clock), made = $3 where principal = $1 and id = $2`,
		r.who, r.ID, made)
}

// ForgetRequests removes request ids older than a day, after which a repeat would act again.
func ForgetRequests(ctx context.Context, d *db.DB) (int64, error) {
	tag, err := d.Pool().Exec(ctx, `delete from requests where at < now() - interval '24 hours'`)
	if err != nil {
		return 0, fmt.Errorf("forget old request ids: %w", err)
	}
	return tag.RowsAffected(), nil
}
