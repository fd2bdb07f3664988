package graph

import (
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/better-compute/better-compute/iam"
)

// Nobody fills the server's memory with operations: only short ones of those who are signed in are kept.
func TestH2ParsedOperationsAreKeptForFew(t *testing.T) {
	t.Parallel()
	kept := parsed{lru.New[*ast.QueryDocument](cachedQueries)}
	signedIn := withActor(t.Context(), iam.Actor{Name: "alex", TokenID: "tok_1"})
	long := "{ viewer { name } } #" + strings.Repeat("x", cachedLength)
	has := func(text string) bool {
		_, ok := kept.Get(t.Context(), text)
		return ok
	}
	kept.Add(t.Context(), "{ viewer { name } }", &ast.QueryDocument{})
	require.False(t, has("{ viewer { name } }"), "of somebody who is not signed in")
	kept.Add(signedIn, long, &ast.QueryDocument{})
	require.False(t, has(long))
	kept.Add(signedIn, "{ viewer { name } }", &ast.QueryDocument{})
	require.True(t, has("{ viewer { name } }"))
}

// What nests is counted outside of texts only, whatever stands in them.
func TestNests(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]bool{
		"": false, deep(maxNested): false, deep(maxNested + 1): true, `{"q":"` + strings.Repeat("{[", 500) + `"}`: false, `{"q":"\\\"` + strings.Repeat("{", 500) + `"}`: false,
		`{"q":"\\"` + strings.Repeat("[", 500): true, strings.Repeat("[],", 500): false,
	} {
		require.Equal(t, want, nests([]byte(text)), text[:min(len(text), 20)])
	}
}
