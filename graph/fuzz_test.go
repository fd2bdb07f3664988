package graph

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/99designs/gqlgen/complexity"
	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

// FuzzDateTime: a text is INVALID_INPUT, or a moment of the years that PostgreSQL and JSON both have, which is written as a text that reads as the same.
func FuzzDateTime(f *testing.F) {
	for _, s := range []string{"2026-11-29T14:30:00Z", "2026-11-29T14:30:00.123456789+14:00", "1970-01-01T00:00:00+23:59", "9999-12-31T23:59:59-12:00", "2026-11-29", "", "0000-01-01T00:00:00Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := UnmarshalDateTime(s)
		if err != nil {
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			return
		}
		var b bytes.Buffer
		MarshalDateTime(at).MarshalGQL(&b)
		var text string
		require.NoError(t, json.Unmarshal(b.Bytes(), &text))
		again, err := UnmarshalDateTime(text)
		require.NoError(t, err, "%s was read of %q", text, s)
		require.True(t, at.Equal(again))
		require.Equal(t, time.UTC, at.Location())
	})
}

// FuzzJSON: any JSON value that comes as a variable is read, and written as the same.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`null`, `{"a":[1,2.5e300,"\u0000"]}`, `"\ud800"`, `[]`, `-0`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		raw, err := UnmarshalJSON(v)
		require.NoError(t, err)
		var b bytes.Buffer
		MarshalJSON(raw).MarshalGQL(&b)
		var again any
		require.NoError(t, json.Unmarshal(b.Bytes(), &again))
		require.Equal(t, v, again)
	})
}

// FuzzQuery: whatever text is sent as an operation, reading it within the limits, holding it against the schema and counting what it would read ends
// without a panic, and the count is never below nothing, however its arguments are chosen.
func FuzzQuery(f *testing.F) {
	schema := NewExecutableSchema(Config{Complexity: complexities()})
	for _, s := range []string{
		`{ nodes(tenantId: "acme", first: 500) { nodes { id labels { key } events(first: 500) { nodes { id } } } } }`,
		`query($n: Int! = 9223372036854775807) { nodes(tenantId: "a", first: $n) { nodes { id } } }`,
		`{ nodes(tenantId: "a", first: -9223372036854775808) { edges { node { allocations(first: -1) { nodes { id } } } } } }`,
		`mutation { a: nodeCordon(input: {tenantId: "a", nodeId: "b", version: 1e9}) { changed } }`,
		`subscription { nodeEvents(tenantId: "a", types: [null]) { ...F } } fragment F on Event { id ...F }`,
		`{ __schema { types { fields { type { ofType { ofType { name } } } } } } }`, `{`, `{a(b:"""`, "\x00", `query @skip(if: $x) { viewer { name } }`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: text}, maxTokens)
		if err != nil {
			return
		}
		if errs := validator.ValidateWithRules(schema.Schema(), doc, rules.NewDefaultRules()); len(errs) > 0 {
			return
		}
		for _, op := range doc.Operations {
			variables, err := validator.VariableValues(schema.Schema(), op, map[string]any{})
			if err != nil {
				continue
			}
			count := complexity.Calculate(t.Context(), schema, op, variables)
			require.GreaterOrEqual(t, count, 0)
			require.LessOrEqual(t, count, math.MaxInt)
		}
	})
}

// FuzzNames: whatever messages a socket's client sends, one a line, each is passed on as a message with an id of its own among those that run, refused
// with a close code of the protocol, or given on as it is; and what is written on an operation reaches the client under the client's own id.
func FuzzNames(f *testing.F) {
	f.Add(`{"type":"connection_init"}` + "\n" + `{"id":"1","type":"subscribe"}` + "\n" + `{"id":"1","type":"complete"}` + "\n" + `{"id":"1","type":"subscribe"}`)
	f.Add(`{"id":"1","type":"subscribe"}`)
	f.Add(`{"type":"connection_init"}` + "\n" + `{"id":"1","type":"subscribe"}` + "\n" + `{"id":"1","type":"subscribe"}`)
	f.Add(`{"type":"connection_init","payload":{"Authorization":"Bearer x"}}` + "\n" + `{"id":"\u0000","type":"subscribe","payload":null}` + "\n" + `[[[`)
	f.Fuzz(func(t *testing.T, text string) {
		var n names
		running := map[string]bool{}
		for line := range bytes.SplitSeq([]byte(text), []byte("\n")) {
			out, known, no := n.read(line)
			if no.code != 0 {
				require.GreaterOrEqual(t, no.code, 4400)
				require.LessOrEqual(t, len(no.reason), 123, "it fits into a close frame")
				return
			}
			if !known {
				require.Equal(t, line, out)
				continue
			}
			var got, was frame
			require.NoError(t, json.Unmarshal(out, &got))
			require.NoError(t, json.Unmarshal(line, &was))
			require.Equal(t, was.Type, got.Type)
			if was.Type != "subscribe" {
				continue
			}
			require.False(t, running[got.ID], "no two operations under one id")
			running[got.ID] = true
			next, err := json.Marshal(frame{ID: got.ID, Type: "next"})
			require.NoError(t, err)
			var told frame
			require.NoError(t, json.Unmarshal(n.write(next), &told))
			require.Equal(t, was.ID, told.ID)
		}
	})
}

// FuzzNests: JSON that is let through nests no deeper than is allowed, and none is refused that does not.
func FuzzNests(f *testing.F) {
	for _, s := range []string{`{"a":[{"b":"]]]"}]}`, `"\"[["`, `[[[[`, `{"query":"{ a }","variables":{"a":[[[]]]}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			_, _ = nests([]byte(text)), isRequest([]byte(text))
			return
		}
		depth, deepest := 0, 0
		for d := json.NewDecoder(bytes.NewReader([]byte(text))); ; {
			token, err := d.Token()
			if err != nil {
				break
			}
			switch token {
			case json.Delim('{'), json.Delim('['):
				depth++
				deepest = max(deepest, depth)
			case json.Delim('}'), json.Delim(']'):
				depth--
			}
		}
		require.Equal(t, deepest > maxNested, nests([]byte(text)))
	})
}

// FuzzAfter: a list's cursor is INVALID_INPUT, or the place of an entry, whose cursor is the same text.
func FuzzAfter(f *testing.F) {
	for _, s := range []string{"I.drn_01h455vb4pex5vsknk084sn02q", "I.drn_", "C.0f", "C.", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		entry, err := parseListCursor(id.Drain, s)
		if err != nil {
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
		} else {
			require.Equal(t, s, listCursor(entry))
		}
		serial, err := parseCertificateCursor(s)
		if err != nil {
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
		} else {
			require.Equal(t, s, certificateKind+serial)
		}
	})
}
