package events

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
)

// Cursor is a place in the log: everything up to and including Position has been read. Its text is opaque to clients.
type Cursor struct {
	Epoch    int64
	Position int64
}

// cursorKind is the first byte of a log cursor's text, so that a list's cursor can't be taken for one.
const cursorKind = 'L'

// String gives the opaque text.
func (c Cursor) String() string {
	b := make([]byte, 17)
	b[0] = cursorKind
	binary.BigEndian.PutUint64(b[1:], uint64(c.Epoch))
	binary.BigEndian.PutUint64(b[9:], uint64(c.Position))
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads the text back. Anything else is INVALID_INPUT naming the argument.
func ParseCursor(argument, s string) (Cursor, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != 17 || b[0] != cursorKind {
		return Cursor{}, fault.Invalid(argument, "must be a cursor of the log, as an event, a mutation or the log query gives it", len(s))
	}
	c := Cursor{
		Epoch:    int64(binary.BigEndian.Uint64(b[1:])),
		Position: int64(binary.BigEndian.Uint64(b[9:])),
	}
	// The decoder passes over line breaks; a cursor has one text.
	if c.Position < 0 || c.String() != s {
		return Cursor{}, fault.Invalid(argument, "must be a cursor of the log", len(s))
	}
	return c, nil
}

// Cursor gives the place just after the event.
func (e Event) Cursor() Cursor { return Cursor{Epoch: e.Epoch, Position: e.Position} }

// MarshalGQL writes the cursor as a GraphQL string.
func (c Cursor) MarshalGQL(w io.Writer) { _, _ = io.WriteString(w, strconv.Quote(c.String())) }

// UnmarshalGQL reads a cursor from a GraphQL input.
func (c *Cursor) UnmarshalGQL(v any) error {
	s, ok := v.(string)
	if !ok {
		return fault.Invalid("cursor", fmt.Sprintf("must be a string, not %T", v), 0)
	}
	parsed, err := ParseCursor("cursor", s)
	*c = parsed
	return err
}

// Head gives the log's newest position, and its epoch. Inside a transaction that holds a row lock it is a position at or after every event that
// changed that row.
func Head(ctx context.Context, q db.Querier) (Cursor, error) {
	s, err := Extent(ctx, q)
	return s.Head, err
}

// Span is what the log holds.
type Span struct {
	// Oldest is the cursor after which everything that the log still holds comes.
	Oldest Cursor
	// Head is the cursor after the newest event.
	Head Cursor
}

// Extent reads from where to where the log reaches.
func Extent(ctx context.Context, q db.Querier) (Span, error) {
	var epoch, oldest, head int64
	if err := q.QueryRow(ctx, "select epoch, oldest, position from event_clock").Scan(&epoch, &oldest, &head); err != nil {
		return Span{}, fmt.Errorf("read the log's head: %w", err)
	}
	return span(epoch, oldest, head), nil
}

func span(epoch, oldest, head int64) Span {
	return Span{Oldest: Cursor{Epoch: epoch, Position: oldest - 1}, Head: Cursor{Epoch: epoch, Position: head}}
}

// The causes of CURSOR_EXPIRED.
const (
	// CauseEpoch: the cursor is of another log, or of this one before it was restored from a backup.
	CauseEpoch = "epoch"
	// CauseAhead: the log has never been that far.
	CauseAhead = "ahead"
	// CauseRetention: events after the cursor have been removed.
	CauseRetention = "retention"
)

// admits says whether reading can go on after the cursor; if not, it is CURSOR_EXPIRED with oldest, head and cause.
func (s Span) admits(c Cursor) error {
	var cause, sentence string
	switch {
	case c.Epoch != s.Head.Epoch:
		cause, sentence = CauseEpoch, "the cursor is of another log than this one"
	case c.Position > s.Head.Position:
		cause, sentence = CauseAhead, "the cursor is ahead of the log"
	case c.Position < s.Oldest.Position:
		cause, sentence = CauseRetention, "events after the cursor have been removed"
	default:
		return nil
	}
	return fault.New(fault.CursorExpired, fault.Details{"oldest": s.Oldest.String(), "head": s.Head.String(), "cause": cause},
		"%s; read the state anew and follow from its cursor, or from the oldest that there is", sentence)
}

// NewEpoch makes every cursor that was ever handed out expire. Restoring a backup needs it: positions after the backup are handed out again.
func NewEpoch(tx *db.Tx) {
	var b [8]byte
	_, _ = rand.Read(b[:])
	tx.AtCommit(db.RankPosition, "update event_clock set epoch = $1", int64(binary.BigEndian.Uint64(b[:])))
}
