package graph

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/better-compute/better-compute/fault"
)

// MarshalString writes a text.
func MarshalString(s string) graphql.Marshaler { return graphql.MarshalString(s) }

// UnmarshalString reads a text, and nothing else: gqlgen would make one of a number.
func UnmarshalString(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fault.Invalid("String", "must be a text", 0)
	}
	return s, nil
}

// MarshalInt writes a number.
func MarshalInt(i int) graphql.Marshaler { return graphql.MarshalInt(i) }

// UnmarshalInt reads a whole number of 32 bits, and nothing else: gqlgen would make one of a text.
func UnmarshalInt(v any) (int, error) {
	var text string
	switch v := v.(type) {
	case json.Number: // of the variables
		text = string(v)
	case int64: // of the document
		text = strconv.FormatInt(v, 10)
	case int:
		text = strconv.Itoa(v)
	}
	i, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fault.Invalid("Int", "must be a whole number of at most 32 bits", len(text))
	}
	return int(i), nil
}

// timeLayout is RFC 3339 in UTC with the microseconds that PostgreSQL keeps.
const timeLayout = "2006-01-02T15:04:05.000000Z07:00"

// MarshalDateTime writes a time in UTC to the microsecond.
func MarshalDateTime(t time.Time) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) { _, _ = io.WriteString(w, strconv.Quote(t.UTC().Format(timeLayout))) })
}

// UnmarshalDateTime reads an RFC 3339 time; what is finer than a microsecond is cut, as PostgreSQL would.
func UnmarshalDateTime(v any) (time.Time, error) {
	s, ok := v.(string)
	if !ok {
		return time.Time{}, fault.Invalid("DateTime", "must be a string like 2026-11-29T14:30:00Z", 0)
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	t = t.UTC() // the bounds are of what is stored and shown
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}, fault.Invalid("DateTime", "must be RFC 3339, like 2026-11-29T14:30:00Z", len(s))
	}
	return t.Truncate(time.Microsecond), nil
}

// MarshalJSON writes a value that is JSON already.
func MarshalJSON(v json.RawMessage) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) { _, _ = w.Write(v) })
}

// UnmarshalJSON reads any JSON value.
func UnmarshalJSON(v any) (json.RawMessage, error) { return json.Marshal(v) }
