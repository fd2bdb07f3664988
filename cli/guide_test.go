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
		for _, verb := range []string{"get", "cordon", "uncordon", "drain", "taint", "label", "delete", "events"} {
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

	t.Run("ON-4.3 taint: add one and remove another", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		types(t, f, cli.ExitOK, "nodes", "taint", nodeA, "--tenant", "acme", "--add", "burn-in")
		c := types(t, f, cli.ExitOK, "nodes", "taint", nodeA, "--tenant", "acme", "--add", "rma-pending", "--remove", "burn-in")
		require.Equal(t, []any{"taint:rma-pending"}, f.find(nodeA)["noScheduleReasons"])
		require.Contains(t, c.stderr.String(), "tainted (version 8 → 9)")
	})

	t.Run("ON-5.10 label: set two and remove one", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		types(t, f, cli.ExitOK, "nodes", "label", nodeA, "--tenant", "acme", "--set", "burn-in=1")
		types(t, f, cli.ExitOK, "nodes", "label", nodeA, "--tenant", "acme", "--set", "rack=b7,fabric/rail=3", "--remove", "burn-in")
		require.Equal(t, []any{
			object{"key": "rack", "value": "b7", "source": "OPERATOR"},
			object{"key": "cpu.arch", "value": "amd64", "source": "INVENTORY"},
			object{"key": "fabric/rail", "value": "3", "source": "OPERATOR"},
		}, f.find(nodeA)["labels"])
	})

	t.Run("ON-5.12 pairs and keys are split at commas, pairs at the first equals sign, and one of both flags is required", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		types(t, f, cli.ExitOK, "nodes", "label", nodeA, "--tenant", "acme", "--set", "a=b=c,empty=")
		require.Equal(t, []any{object{"key": "a", "value": "b=c"}, object{"key": "empty", "value": ""}}, f.input["set"])
		f.taken()
		for _, wrong := range [][]string{
			{"label", nodeA},
			{"taint", nodeA},
			{"label", nodeA, "--set", "rack"},
			{"label", nodeA, "--set", ""},
			{"label", nodeA, "--remove", "a,,b"},
			{"taint", nodeA, "--add", ""},
			{"taint", nodeA, "--add", "a,a"},
			{"taint", nodeA, "--add", "a", "--remove", "b,a"},
			{"label", nodeA, "--set", "a=1,a=2"},
		} {
			types(t, f, cli.ExitUsage, append([]string{"nodes"}, append(wrong, "--tenant", "acme")...)...)
		}
		require.Empty(t, f.taken(), "what is wrong is refused before anything is sent")
	})

	t.Run("ON-4.16 a dedication to nobody is done, with a warning", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := types(t, f, cli.ExitOK, "nodes", "taint", nodeA, "--tenant", "acme", "--add", "dedicated=ghost")
		require.Contains(t, c.stderr.String(), "warning: there is no tenant ghost")
		events := types(t, f, cli.ExitOK, "nodes", "events", nodeA, "--tenant", "acme", "-o", "wide")
		require.Contains(t, events.stdout.String(), `taintsAdded=["dedicated=ghost"]`)
	})

	t.Run("Drains: what one would wait for, the list of those that run, and a deadline", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := types(t, f, cli.ExitOK, "drains", "plan", nodeA, "--tenant", "acme")
		require.Contains(t, c.stdout.String(), "at once: it holds nothing")
		types(t, f, cli.ExitOK, "reservations", "create", "--node", nodeA, "--tenant", "acme")
		require.Contains(t, types(t, f, cli.ExitOK, "drains", "plan", nodeA, "--tenant", "acme").stdout.String(), "an allocation is open-ended")
		require.Contains(t, types(t, f, cli.ExitOK, "drains", "list", "--tenant", "acme").stderr.String(), "no drains")
		types(t, f, cli.ExitOK, "nodes", "drain", nodeA, "--tenant", "acme", "--deadline", "2026-11-30T06:00:00Z")
		require.Equal(t, "2026-11-30T06:00:00Z", f.input["deadline"])
		require.Contains(t, types(t, f, cli.ExitOK, "drains", "list", "--tenant", "acme", "-o", "wide").stdout.String(), nodeA)
		types(t, f, cli.ExitUsage, "nodes", "drain", nodeA, "--tenant", "acme", "--deadline", "tomorrow")
		types(t, f, cli.ExitUsage, "drains", "plan", "gpu-01", "--tenant", "acme")
	})

	t.Run("A cordon's end and reason, and an uncordon of one's own", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		types(t, f, cli.ExitOK, "nodes", "cordon", nodeA, "--tenant", "acme", "--until", "2026-11-30T06:00:00Z", "--reason", "BIOS")
		c := types(t, f, cli.ExitOK, "nodes", "cordon", nodeA, "--tenant", "acme")
		require.Contains(t, c.stderr.String(), "unchanged: already cordoned by alex since 2026-11-29T13:46:00Z until 2026-11-30T06:00:00Z: BIOS")
		types(t, f, cli.ExitOK, "nodes", "cordon", nodeA, "--tenant", "acme", "--update-reason", "--reason", "parts")
		require.Equal(t, "parts", f.find(nodeA)["cordon"].(object)["reason"])
		c = types(t, f, cli.ExitConflict, "nodes", "uncordon", nodeA, "--tenant", "acme", "--if-cordoned-by", "sam")
		require.Contains(t, c.stderr.String(), "hint: look at it again, then repeat with --if-cordoned-by alex\n", "an author is no version")
		types(t, f, cli.ExitOK, "nodes", "uncordon", nodeA, "--tenant", "acme", "--if-cordoned-by", "alex")
		types(t, f, cli.ExitUsage, "nodes", "uncordon", nodeA, "--tenant", "acme", "--if-cordoned-by", "")
		types(t, f, cli.ExitUsage, "nodes", "cordon", nodeA, "--tenant", "acme", "--until", "2h")
	})

	t.Run("ON-12.9 removing an adopted host: cordon, then delete with a reason and --yes", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := types(t, f, cli.ExitInvalidState, "nodes", "delete", nodeA, "--tenant", "acme", "--reason", "TPM replaced", "--yes")
		require.Contains(t, c.stderr.String(), "Cordon the adopted node first (nodes.cordon), then delete it once it holds nothing")
		types(t, f, cli.ExitOK, "nodes", "cordon", nodeA, "--tenant", "acme", "--reason", "TPM replaced")
		types(t, f, cli.ExitConflict, "nodes", "delete", nodeA, "--tenant", "acme", "--if-version", "1", "--yes")
		types(t, f, cli.ExitOK, "nodes", "delete", nodeA, "--tenant", "acme", "--reason", "TPM replaced", "--yes")
		require.Equal(t, "TPM replaced", f.input["reason"])
		c = types(t, f, cli.ExitOK, "nodes", "delete", nodeA, "--tenant", "acme", "--yes", "-o", "json", "--jq", ".deleted")
		require.Equal(t, "false\n", c.stdout.String())
	})

	t.Run("ON-12.10 without --yes it refuses before any call is made", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := types(t, f, cli.ExitUsage, "nodes", "delete", nodeA, "--tenant", "acme", "--reason", "TPM replaced")
		require.Contains(t, c.stderr.String(), "nodes delete removes "+nodeA+" for good; re-run with --yes")
		require.Empty(t, f.taken())
	})

	t.Run("ON-10.1 adopt runs acceptance again, and the node shows its checks", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := types(t, f, cli.ExitOK, "nodes", "adopt", nodeA, "--tenant", "acme", "--reason", "GPU replaced")
		require.Contains(t, c.stderr.String(), "adopting (version 7 → 8)")
		require.Contains(t, types(t, f, cli.ExitOK, "nodes", "get", nodeA, "--tenant", "acme").stdout.String(), "inventory Pending: its inventory is awaited")
	})
}
