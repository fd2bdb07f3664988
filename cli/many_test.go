package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/cli"
)

const ghost = "node_01k5wjb4s8fpvb0q9f6m3h2c00"

func withStdin(text string) func(*cli.Env) {
	return func(e *cli.Env) { e.Stdin = strings.NewReader(text) }
}

func TestManyNodes(t *testing.T) {
	t.Parallel()

	t.Run("Several ids are one operation, with a line per node in a pipe", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := run(t, f, nil, "nodes", "cordon", nodeA, nodeB, "--reason", "BIOS")
		c.ends(t, cli.ExitOK)
		require.Equal(t, []string{"NodesCordon", "FollowOperation"}, f.taken())
		require.Equal(t, []any{nodeA, nodeB}, f.input["nodeIds"])
		require.Equal(t, "BIOS", f.input["reason"])
		require.Equal(t, nodeA+"\tgpu-01\tDone\n"+nodeB+"\tgpu-02\tDone\n", c.stdout.String())
		require.Contains(t, c.stderr.String(), "2 of 2 done, 0 unchanged, 0 refused, 0 left")
		c = run(t, f, nil, "nodes", "cordon", nodeA, nodeB)
		c.ends(t, cli.ExitOK)
		require.Contains(t, c.stdout.String(), nodeA+"\tgpu-01\tUnchanged\tcordoned already by alex\n")
	})

	t.Run("Some were refused: 11, in every format, with all results", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := run(t, f, nil, "nodes", "drain", nodeA, ghost, "--max-per-pool", "2")
		c.ends(t, cli.ExitPartlyFailed)
		require.EqualValues(t, "2", f.input["maxPerPool"].(json.Number).String())
		require.Contains(t, c.stdout.String(), ghost+"\t-\tRefused\tNOT_FOUND: no node "+ghost)
		require.Contains(t, c.stderr.String(), "error: PARTLY_FAILED: 1 of 2 nodes were refused")
		c = run(t, f, nil, "nodes", "taint", nodeA, ghost, "--add", "rma", "-o", "json")
		c.ends(t, cli.ExitPartlyFailed)
		var document struct {
			Results   []object
			Operation object
		}
		require.NoError(t, json.Unmarshal([]byte(c.stdout.String()), &document))
		require.Equal(t, []any{"DONE", "REFUSED", 1.0}, []any{document.Results[0]["outcome"], document.Results[1]["outcome"], document.Operation["refused"]})
		require.Contains(t, c.stderr.String(), `"exitCode":11`)
		c = run(t, f, nil, "nodes", "label", nodeA, ghost, "--set", "rack=b7", "-o", "ndjson")
		c.ends(t, cli.ExitPartlyFailed)
		require.Len(t, strings.Split(strings.TrimSpace(c.stdout.String()), "\n"), 2)
		c = run(t, f, nil, "nodes", "adopt", nodeA, ghost, "-o", "name")
		c.ends(t, cli.ExitPartlyFailed)
		require.Equal(t, nodeA+"\n", c.stdout.String(), "those that are as they were to be")
		c = run(t, f, nil, "nodes", "adopt", nodeA, ghost, "--jq", ".results[].code")
		c.ends(t, cli.ExitPartlyFailed)
		require.Equal(t, "null\nNOT_FOUND\n", c.stdout.String())
	})

	t.Run("A dash reads ids from standard input, each once; with none there is nothing to do", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		run(t, f, withStdin(nodeA+"\n\n  "+nodeB+" "+nodeA+"\n"), "nodes", "uncordon", "-").ends(t, cli.ExitOK)
		require.Equal(t, []any{nodeA, nodeB}, f.input["nodeIds"])
		require.Equal(t, false, f.input["anyone"])
		run(t, f, withStdin(nodeA), "nodes", "uncordon", "-", "--anyone").ends(t, cli.ExitOK)
		require.Equal(t, true, f.input["anyone"])
		run(t, f, withStdin(nodeA), "nodes", "uncordon", "-", "--if-cordoned-by", "sam").ends(t, cli.ExitOK)
		require.Equal(t, "sam", f.input["ifCordonedBy"])
		f.taken()
		for _, nothing := range []func(*cli.Env){nil, withStdin(""), withStdin("\n \n")} {
			c := run(t, f, nothing, "nodes", "cordon", "-")
			c.ends(t, cli.ExitOK)
			require.Contains(t, c.stderr.String(), "nothing to do")
			require.Empty(t, c.stdout.String())
		}
		for format, want := range map[string]string{
			"json": "{\n  \"results\": [],\n  \"operation\": null\n}\n", "yaml": "results: []\noperation: null\n", "ndjson": "", "name": "",
		} {
			c := run(t, f, withStdin(""), "nodes", "cordon", "-", "-o", format)
			c.ends(t, cli.ExitOK)
			require.Equal(t, want, c.stdout.String(), format)
		}
		c := run(t, f, withStdin(""), "nodes", "cordon", "-", "--jq", ".results | length")
		c.ends(t, cli.ExitOK)
		require.Equal(t, "0\n", c.stdout.String())
		run(t, f, withStdin(nodeA+"\ngpu-01\n"), "nodes", "cordon", "-").ends(t, cli.ExitUsage)
		run(t, f, withStdin(strings.Repeat("x", 100_000)), "nodes", "cordon", "-").ends(t, cli.ExitUsage)
		require.Empty(t, f.taken())
	})

	t.Run("A filter freezes the nodes if they are as many as are expected", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		run(t, f, nil, "nodes", "cordon", "--filter", "cordoned=false", "--expect-count", "2").ends(t, cli.ExitOK)
		require.Equal(t, []string{"NodeSelectionCreate", "NodesCordon", "FollowOperation"}, f.taken())
		require.Contains(t, f.input["selectionId"], "sel_")
		require.NotContains(t, f.input, "nodeIds")
		c := run(t, f, nil, "nodes", "uncordon", "--filter", "cordoned", "--expect-count", "3")
		c.ends(t, cli.ExitConflict)
		require.Contains(t, c.stderr.String(), "then repeat with --expect-count 2")
		require.Equal(t, []string{"NodeSelectionCreate"}, f.taken(), "nothing was begun")
		for text, want := range map[string]object{
			"all":                           {},
			"cordoned,draining=false":       {"cordoned": true, "draining": false},
			"maintenance,text=gpu":          {"maintenance": true, "text": "gpu"},
			"label=rack=b7,label=row":       {"labels": []any{object{"key": "rack", "values": []any{"b7"}}, object{"key": "row"}}},
			"label=rack=b7,label=rack=":     {"labels": []any{object{"key": "rack", "values": []any{"b7", ""}}}},
			"connectivity=lost,taint=rma":   {"connectivity": []any{"LOST"}, "taints": []any{"rma"}},
			"hostname=a,hostname=b":         {"hostnames": []any{"a", "b"}},
			"provision-state=adopted":       {"provisionStates": []any{"ADOPTED"}},
			"reason=draining, pool=default": {"reasons": []any{"draining"}, "poolId": poolP},
		} {
			run(t, f, nil, "nodes", "adopt", "--filter", text, "--expect-count", "9").ends(t, cli.ExitConflict)
			require.Equal(t, want, f.input["filter"], text)
		}
	})

	t.Run("What can't be meant is a usage error before anything is sent", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		for _, args := range []string{
			"cordon", "cordon " + nodeA + " " + nodeA, "cordon " + nodeA + " -", "cordon " + nodeA + " gpu-01", "cordon --filter cordoned",
			"cordon --filter cordoned --expect-count -1", "cordon " + nodeA + " --filter all --expect-count 1", "cordon --expect-count 2 " + nodeA,
			"cordon --filter x --expect-count 1", "cordon --filter cordoned=maybe --expect-count 1", "cordon --filter pool= --expect-count 1",
			"cordon --filter= --expect-count 1", "cordon --filter connectivity=nothing --expect-count 1",
			"cordon --filter provision-state=new --expect-count 1", "cordon --filter pool=a,pool=b --expect-count 1",
			"cordon --filter cordoned,cordoned=false --expect-count 1", "cordon --filter text=a,text=b --expect-count 1", "cordon " + nodeA + " --detach", "cordon " + nodeA + " " + nodeB + " --if-version 3",
			"cordon " + nodeA + " " + nodeB + " --update-reason", "drain " + nodeA + " " + nodeB + " --wait", "drain " + nodeA + " --max-per-pool 2",
			"drain " + nodeA + " " + nodeB + " --max-per-pool 0", "uncordon " + nodeA + " --anyone",
			"uncordon " + nodeA + " " + nodeB + " --anyone --if-cordoned-by sam", "taint " + nodeA + " " + nodeB, "label " + nodeA + " " + nodeB,
		} {
			run(t, f, nil, append([]string{"nodes"}, strings.Fields(args)...)...).ends(t, cli.ExitUsage)
		}
		for _, args := range []string{"operations stop nop_x", "operations watch " + nodeA, "operations list --limit -1"} {
			run(t, f, nil, strings.Fields(args)...).ends(t, cli.ExitUsage)
		}
		require.Empty(t, f.taken())
	})

	t.Run("Ctrl-C ends the command and says that the operation goes on; it can be watched again and stopped", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.do(func() { f.many.held = 1 })
		c := run(t, f, nil, "nodes", "drain", nodeA, nodeB)
		c.stdout.until(t, nodeA, 1)
		c.stderr.until(t, "# 2 drains run, and at most 2 may", 1)
		c.interrupt()
		c.ends(t, cli.ExitInterrupted)
		require.Contains(t, c.stderr.String(), "no longer watching; the operation goes on")
		operationID := f.many.operations[0]["id"].(string)
		require.Contains(t, c.stderr.String(), "better-compute operations stop "+operationID)
		require.Equal(t, "RUNNING", f.many.operations[0]["state"])
		c = run(t, f, nil, "operations", "list", "--active", "-o", "name")
		c.ends(t, cli.ExitOK)
		require.Equal(t, operationID+"\n", c.stdout.String())
		watching := run(t, f, nil, "operations", "watch", operationID)
		watching.stdout.until(t, nodeA, 1)
		c = run(t, f, nil, "operations", "stop", operationID)
		c.ends(t, cli.ExitOK)
		require.Contains(t, c.stderr.String(), "stopped: 1 of 2 done")
		watching.ends(t, cli.ExitInvalidState)
		require.Contains(t, watching.stderr.String(), "CANCELLED: stopped by alex; 1 node was left alone")
		c = run(t, f, nil, "operations", "stop", operationID)
		c.ends(t, cli.ExitOK)
		require.Contains(t, c.stderr.String(), "unchanged: it has ended already")
		run(t, f, nil, "operations", "watch", strings.Replace(operationID, "000", "777", 1)).ends(t, cli.ExitNotFound)
		c = run(t, f, nil, "operations", "list", "-o", "wide")
		c.ends(t, cli.ExitOK)
		require.Contains(t, c.stdout.String(), "Stopped")
	})

	t.Run("The server goes away and comes back: no result is missed or printed twice", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.do(func() { f.many.held = 1 })
		c := run(t, f, nil, "nodes", "cordon", nodeA, nodeB)
		c.stdout.until(t, nodeA, 1)
		f.stop()
		f.start(t)
		f.finishMany()
		c.ends(t, cli.ExitOK)
		require.Equal(t, nodeA+"\tgpu-01\tDone\n"+nodeB+"\tgpu-02\tDone\n", c.stdout.String())
		require.Contains(t, c.stderr.String(), "no results missed")
	})

	t.Run("Where no answer comes it says that the operation may have begun; where nothing listens it does not", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.do(func() { f.dropAfter = 1000 })
		c := run(t, f, nil, "nodes", "cordon", nodeA, nodeB)
		c.ends(t, cli.ExitUnreachable)
		require.Contains(t, c.stderr.String(), "hint: it may have begun all the same: see better-compute operations list\n")
		require.Len(t, f.many.operations, 1)
		f.stop()
		c = run(t, f, nil, "nodes", "cordon", nodeA, nodeB)
		c.ends(t, cli.ExitUnreachable)
		require.NotContains(t, c.stderr.String(), "begun")
	})

	t.Run("With --detach it ends when the operation has begun", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.do(func() { f.many.held = 1 })
		c := run(t, f, nil, "nodes", "cordon", nodeA, nodeB, "--detach", "-o", "name")
		c.ends(t, cli.ExitOK)
		require.Equal(t, f.many.operations[0]["id"].(string)+"\n", c.stdout.String())
		require.Equal(t, []string{"NodesCordon"}, f.taken())
	})

	t.Run("On a terminal the progress is drawn again, and the results stand in a table", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.do(func() { f.many.held = 1 })
		c := run(t, f, func(e *cli.Env) { e.StdoutTTY, e.StderrTTY = true, true }, "nodes", "cordon", nodeA, ghost)
		c.stderr.until(t, "1 of 2 done, 0 unchanged, 0 refused, 1 left", 1)
		c.stderr.until(t, "Ctrl-C stops watching; the operation goes on.", 1)
		require.Empty(t, c.stdout.String())
		f.finishMany()
		c.ends(t, cli.ExitPartlyFailed)
		require.Contains(t, c.stderr.String(), "\x1b[3A\x1b[J")
		lines := strings.Split(c.stdout.String(), "\n")
		require.Regexp(t, `^NODE +HOSTNAME +RESULT +WHY$`, lines[0])
		require.Regexp(t, `^`+nodeA+` +gpu-01 +Done$`, lines[1])
		require.Regexp(t, `^`+ghost+` +- +Refused +NOT_FOUND: `, lines[2])
	})
}
