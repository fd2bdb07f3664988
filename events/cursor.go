package events

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

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
	binary.BigEndian.PutUint64(b[1:], uint64(c.Epoch))    //nolint:gosec // the bits, whatever the sign
	binary.BigEndian.PutUint64(b[9:], uint64(c.Position)) //nolint:gosec // positions are not negative
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads the text back. Anything else is INVALID_INPUT naming the argument.
func ParseCursor(argument, s string) (Cursor, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != 17 || b[0] != cursorKind {
		return Cursor{}, fault.Invalid(argument, "must be a cursor of the log, as an event, a mutation or the log query gives it", len(s))
	}
	c := Cursor{
		Epoch:    int64(binary.BigEndian.Uint64(b[1:])), //nolint:gosec // the bits, whatever the sign
		Position: int64(binary.BigEndian.Uint64(b[9:])), //nolint:gosec // checked below
	}
	if c.Position < 0 {
		return Cursor{}, fault.Invalid(argument, "must be a cursor of the log", len(s))
	}
	return c, nil
}

// Cursor gives the place just after the event.
func (e *Event) Cursor() Cursor { return Cursor{Epoch: e.Epoch, Position: e.Position} }

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
