package node_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/node"
)

// FuzzCheckLabels: what passes is of the guide's grammar to the letter, and everything else is INVALID_INPUT naming the argument.
func FuzzCheckLabels(f *testing.F) {
	for _, l := range [][2]string{
		{"rack", "b7"},
		{"fabric/rail", "3"},
		{"bc.dev/driver", "1"},
		{"-a", ""},
		{"a.", ""},
		{"a", ""},
		{"a\n", "b"},
		{"a", "b\n"},
		{"ä", "é"},
		{"a", "\x00"},
		{strings.Repeat("k", 128), strings.Repeat("v", 256)},
		{strings.Repeat("k", 129), strings.Repeat("v", 257)},
	} {
		f.Add(l[0], l[1])
	}
	key := regexp.MustCompile(`\A[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?\z`)
	value := regexp.MustCompile(`\A[A-Za-z0-9._:/@+=-]*\z`)
	f.Fuzz(func(t *testing.T, k, v string) {
		err := node.CheckLabels("set", map[string]string{k: v})
		good := key.MatchString(k) && len(k) <= 128 && !strings.HasPrefix(k, "bc.dev/") && value.MatchString(v) && len(v) <= 256
		require.Equal(t, good, err == nil, "%q = %q: %v", k, v, err)
		if err != nil {
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			require.Equal(t, "set", fault.From(err).Details["argument"])
			require.True(t, utf8.ValidString(err.Error()), "the sentence can be shown")
		}
	})
}
