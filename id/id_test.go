package id_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	// A made id passes its own kind's check and no other's.
	n := id.New(id.Node)
	require.NoError(t, id.Check(id.Node, "nodeId", n))
	require.Len(t, n, len("node_")+26)

	for _, bad := range []string{
		"", "node", "node_", n[:len(n)-1], n + "0", strings.ToUpper(n), "pool_" + n[5:], n[5:], "node_zzzzzzzzzzzzzzzzzzzzzzzzzz", "node_0123\x00", " " + n,
	} {
		err := id.Check(id.Node, "nodeId", bad)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err), "%q must be refused", bad)
		require.Equal(t, "nodeId", fault.From(err).Details["argument"])
	}
}

func TestTenant(t *testing.T) {
	t.Parallel()
	// The slug rule at its edges.
	for _, good := range []string{"a", "acme", "a-b", "0", strings.Repeat("a", 63)} {
		require.NoError(t, id.Tenant("tenantId", good), good)
	}
	for _, bad := range []string{"", "-a", "a-", "A", "a_b", "a.b", strings.Repeat("a", 64), "ä", "a\n"} {
		require.Equal(t, fault.InvalidInput, fault.CodeOf(id.Tenant("tenantId", bad)), "%q must be refused", bad)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(id.New(id.Node))
	f.Add("node_")
	f.Fuzz(func(t *testing.T, s string) {
		// No input makes Check panic, and what it accepts has the one shape.
		if id.Check(id.Node, "nodeId", s) == nil && (len(s) != 31 || !strings.HasPrefix(s, "node_")) {
			t.Fatalf("accepted %q", s)
		}
	})
}
