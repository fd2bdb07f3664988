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
