package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/node"
)

func TestCheckLabels(t *testing.T) {
	t.Parallel()
	many := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint("k", i)] = "v"
		}
		return m
	}
	for name, labels := range map[string]map[string]string{
		"none":                nil,
		"the guide's":         {"rack": "b7", "fabric/rail": "3"},
		"an empty value":      {"rack": ""},
		"64":                  many(64),
		"a key of 128":        {strings.Repeat("k", 128): "v"},
		"a key of 1":          {"k": "v"},
		"a value of 256":      {"k": strings.Repeat("v", 256)},
		"every sign":          {"a._/-Z": "aZ0._:/@+=-"},
		"bc.dev without more": {"bc.dev": "v"},
	} {
		t.Run("H1 taken: "+name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, node.CheckLabels("labels", labels))
		})
	}
	for name, labels := range map[string]map[string]string{
		"65":                   many(65),
		"an empty key":         {"": "v"},
		"a key of 129":         {strings.Repeat("k", 129): "v"},
		"a leading sign":       {".k": "v"},
		"a trailing sign":      {"k/": "v"},
		"a space":              {"a k": "v"},
		"a colon in a key":     {"a:k": "v"},
		"the system's":         {"bc.dev/driver": "v"},
		"a value of 257":       {"k": strings.Repeat("v", 257)},
		"a value with a space": {"k": "a v"},
		"a value with a comma": {"k": "a,v"},
		"a line's end":         {"k": "v\n"},
	} {
		t.Run("H1 refused: "+name, func(t *testing.T) {
			t.Parallel()
			err := node.CheckLabels("labels", labels)
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			require.Equal(t, "labels", fault.From(err).Details["argument"])
			require.NotEmpty(t, fault.From(err).Details["rule"])
		})
	}
}
