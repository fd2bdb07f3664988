package graph

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/better-compute/better-compute/fault"
)

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
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}, fault.Invalid("DateTime", "must be RFC 3339, like 2026-11-29T14:30:00Z", len(s))
	}
	return t.UTC().Truncate(time.Microsecond), nil
}

// MarshalJSON writes a value that is JSON already.
func MarshalJSON(v json.RawMessage) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) { _, _ = w.Write(v) })
}

// UnmarshalJSON reads any JSON value.
func UnmarshalJSON(v any) (json.RawMessage, error) { return json.Marshal(v) }
