package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/cli"
)

// TestGuide types the lines of the guide to the letter, with real ids for its shortened ones.
func TestGuide(t *testing.T) {
	t.Parallel()
	types := func(t *testing.T, f *fake, want cli.Exit, args ...string) *command {
		t.Helper()
		c := run(t, f, nil, args...)
		c.ends(t, want)
		return c
	}

	t.Run("ON-2.3 cordon with a reason, then uncordon", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		types(t, f, cli.ExitOK, "nodes", "cordon", nodeA, "--tenant", "acme", "--reason", "BIOS update window")
		require.Equal(t, "BIOS update window", f.find(nodeA)["cordon"].(object)["reason"])
		require.Equal(t, "acme", f.input["tenantId"])
		types(t, f, cli.ExitOK, "nodes", "uncordon", nodeA, "--tenant", "acme")
		require.Equal(t, false, f.find(nodeA)["cordoned"])
	})

	t.Run("ON-2.4 the id is the argument, and the version goes with it", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		for _, verb := range []string{"cordon", "drain", "uncordon"} {
			types(t, f, cli.ExitConflict, "nodes", verb, nodeA, "--tenant", "acme", "--if-version", "6")
		}
		require.Empty(t, f.log, "a stale version changes nothing")
		types(t, f, cli.ExitOK, "nodes", "cordon", nodeA, "--tenant", "acme", "--if-version", "7")
		types(t, f, cli.ExitOK, "nodes", "uncordon", nodeA, "--tenant", "acme", "--if-version", "8")
		types(t, f, cli.ExitOK, "nodes", "drain", nodeA, "--tenant", "acme", "--if-version", "9")
	})

	t.Run("ON-2.5 what does not look like a node id is a usage error before anything is sent", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		for _, verb := range []string{"get", "cordon", "uncordon", "drain", "events"} {
			for _, id := range []string{"node_01k5w…", "gpu-01", "node_", poolP, strings.ToUpper(nodeA), nodeA + "x"} {
				c := types(t, f, cli.ExitUsage, "nodes", verb, id, "--tenant", "acme")
				require.Contains(t, c.stderr.String(), "it must look like node_ and 26 characters")
			}
		}
		require.Empty(t, f.taken())
	})

	t.Run("ON-3.10 drain with a reason, then its end among the events", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		types(t, f, cli.ExitOK, "nodes", "drain", nodeA, "--tenant", "acme", "--reason", "replace PSU")
		f.do(func() { f.finish(f.find(nodeA), true) })
		c := types(t, f, cli.ExitOK, "nodes", "events", nodeA, "--tenant", "acme", "--type", "node.drained")
		require.Contains(t, c.stdout.String(), "node.drained")
		require.NotContains(t, c.stdout.String(), "node.draining")
	})

	t.Run("ON-5.11 the cordoned ones of a list", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		types(t, f, cli.ExitOK, "nodes", "cordon", nodeB, "--tenant", "acme")
		c := types(t, f, cli.ExitOK, "nodes", "list", "--tenant", "acme", "--cordoned")
		require.Contains(t, c.stdout.String(), nodeB)
		require.NotContains(t, c.stdout.String(), nodeA)
	})
}
