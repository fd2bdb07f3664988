package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/cli"
)

// buffer is an output that a test reads while the command still writes.
type buffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func newBuffer() *buffer { return &buffer{changed: make(chan struct{})} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// until waits for the output to hold the text so many times.
func (b *buffer) until(t *testing.T, text string, times int) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for {
		b.mu.Lock()
		ok, changed := strings.Count(b.b.String(), text) >= times, b.changed
		b.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("waited in vain for %q, %d times, in:\n%s", text, times, b)
		}
	}
}

// command is a command line that runs in this process.
type command struct {
	stdout, stderr *buffer
	interrupt      context.CancelFunc
	exit           chan cli.Exit
}

func run(t *testing.T, f *fake, change func(*cli.Env), args ...string) *command {
	t.Helper()
	c := &command{stdout: newBuffer(), stderr: newBuffer(), exit: make(chan cli.Exit, 1)}
	vars := map[string]string{
		"BETTER_COMPUTE_SERVER": f.url(), "BETTER_COMPUTE_TOKEN": testToken, "BETTER_COMPUTE_TENANT": "acme", "XDG_CONFIG_HOME": t.TempDir(),
	}
	env := &cli.Env{
		Stdout: c.stdout, Stderr: c.stderr,
		LookupEnv: func(name string) (string, bool) { value, ok := vars[name]; return value, ok },
	}
	if change != nil {
		change(env)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.interrupt = cancel
	go func() { c.exit <- cli.Run(ctx, env, cli.New(env), args) }()
	t.Cleanup(cancel)
	return c
}

func (c *command) ends(t *testing.T, want cli.Exit) {
	t.Helper()
	select {
	case got := <-c.exit:
		require.Equal(t, want, got, "stdout:\n%s\nstderr:\n%s", c.stdout, c.stderr)
	case <-time.After(20 * time.Second):
		t.Fatalf("the command does not end; stdout:\n%s\nstderr:\n%s", c.stdout, c.stderr)
	}
}

// TestFollow: a follower has every event once, in order, whatever happens to its server.
func TestFollow(t *testing.T) {
	t.Parallel()
	t.Run("G1 each event once over restarts of the server", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := run(t, f, nil, "nodes", "events", nodeA, "--follow", "--count", "12", "-o", "ndjson")
		cordons := func(n int) {
			f.do(func() {
				for range n {
					f.write("NodeCordonEvent", "node.cordoned", f.find(nodeA), "alex", nil, object{"cancelledDrainId": nil})
				}
			})
		}
		f.until(t, "the first subscription", func() bool { return f.subs == 1 })
		f.do(func() {
			f.write("NodeCordonEvent", "node.cordoned", f.find(nodeB), "alex", nil, object{"cancelledDrainId": nil})
		})
		cordons(3)
		c.stdout.until(t, "\n", 3)
		for round := range 3 {
			f.stop()
			cordons(1)
			// A server that sends the last event once more changes nothing.
			f.do(func() { f.again = round == 1 })
			c.stderr.until(t, "# connection lost", round+1)
			f.start(t)
			c.stderr.until(t, "# reconnected, no events missed", round+1)
			cordons(2)
			c.stdout.until(t, "\n", 3+3*(round+1))
		}
		c.ends(t, cli.ExitOK)

		seen := map[string]bool{}
		last := ""
		for line := range strings.Lines(c.stdout.String()) {
			var e struct{ ID, Cursor, NodeID string }
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			require.False(t, seen[e.ID], "%s came twice", e.ID)
			require.Equal(t, nodeA, e.NodeID)
			require.Less(t, last, e.ID, "out of order")
			seen[e.ID], last = true, e.ID
		}
		require.Len(t, seen, 12)
	})

	t.Run("G1 what happens while the very first connection is lost is not missed", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := run(t, f, nil, "nodes", "events", "--follow", "--count", "1", "-o", "name")
		f.until(t, "the first subscription", func() bool { return f.subs == 1 })
		f.stop()
		f.do(func() {
			f.write("NodeCordonEvent", "node.cordoned", f.find(nodeA), "alex", nil, object{"cancelledDrainId": nil})
		})
		f.start(t)
		c.ends(t, cli.ExitOK)
		require.Equal(t, "evt_01k5wjb4s8fpvb0q9f6m3h0001\n", c.stdout.String())
	})

	t.Run("G7 a hundred followers that lose their server for seconds come back spread out, and all of them", func(t *testing.T) {
		t.Parallel()
		const many = 100
		f := newFake(t)
		all := make([]*command, many)
		for i := range all {
			all[i] = run(t, f, nil, "nodes", "events", "--follow", "--count", "1", "-o", "name")
		}
		f.until(t, "all subscriptions", func() bool { return f.subs == many })
		f.stop()
		f.do(func() {
			f.write("NodeCordonEvent", "node.cordoned", f.find(nodeA), "alex", nil, object{"cancelledDrainId": nil})
		})
		// Long enough for each to have come to the longest span between two tries.
		away := time.NewTimer(5 * time.Second)
		defer away.Stop()
		<-away.C
		f.start(t)
		for _, c := range all {
			c.ends(t, cli.ExitOK)
		}
		var back []time.Time
		f.do(func() { back = f.begun[many:] })
		require.Len(t, back, many, "each came once")
		most := 0
		for i := range back {
			within := 0
			for _, at := range back[i:] {
				if at.Sub(back[i]) < 200*time.Millisecond {
					within++
				}
			}
			most = max(most, within)
		}
		require.Less(t, most, many*6/10, "most in any 200 ms of the two seconds over which they come")
	})

	t.Run("G4 a stream whose token no longer counts ends with 4", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.do(func() { f.failures = []failure{{code: "UNAUTHENTICATED", text: "this token has expired"}} })
		c := run(t, f, nil, "nodes", "events", "--follow", "--after", "log-0")
		c.ends(t, cli.ExitUnauthenticated)
		require.Contains(t, c.stderr.String(), "error: UNAUTHENTICATED: this token has expired")
	})

	t.Run("G2 a stream that the server ended for being slow comes back by itself", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.do(func() {
			f.failures = []failure{{code: "RESOURCE_EXHAUSTED", text: "too slow", detail: object{"retryAfterMs": 10}}}
			f.write("NodeCordonEvent", "node.cordoned", f.find(nodeA), "alex", nil, object{"cancelledDrainId": nil})
		})
		c := run(t, f, nil, "nodes", "events", "--follow", "--after", "log-0", "--count", "1", "-o", "name")
		c.ends(t, cli.ExitOK)
		require.Contains(t, c.stderr.String(), "# reconnected, no events missed")
	})

	t.Run("a proxy's answers while the server is away are no reason to give up", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := run(t, f, nil, "nodes", "events", "--follow", "--count", "1", "-o", "name")
		f.until(t, "the first subscription", func() bool { return f.subs == 1 })
		f.stop()
		f.do(func() { f.proxied = []int{502, 404, 503} })
		f.start(t)
		f.until(t, "the proxy's answers to be used up", func() bool { return len(f.proxied) == 0 && f.subs == 2 })
		f.do(func() {
			f.write("NodeCordonEvent", "node.cordoned", f.find(nodeA), "alex", nil, object{"cancelledDrainId": nil})
		})
		c.ends(t, cli.ExitOK)
	})

	t.Run("a server that never answered is given up when it is none", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.do(func() { f.proxied = []int{404} })
		c := run(t, f, nil, "nodes", "events", "--follow", "--after", "log-0")
		c.ends(t, cli.ExitUnreachable)
	})

	t.Run("a server that starts may fail a few times, a broken one ends it with 1", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		internal := failure{code: "INTERNAL", text: "something went wrong on our side"}
		f.do(func() {
			f.failures = []failure{internal, internal, internal}
			f.write("NodeCordonEvent", "node.cordoned", f.find(nodeA), "alex", nil, object{"cancelledDrainId": nil})
		})
		c := run(t, f, nil, "nodes", "events", "--follow", "--after", "log-0", "--count", "1", "-o", "name")
		c.ends(t, cli.ExitOK)
		f.do(func() { f.failures = slices.Repeat([]failure{internal}, 20) })
		c = run(t, f, nil, "nodes", "events", "--follow", "--after", "log-0", "--count", "1", "-o", "name")
		c.ends(t, cli.ExitUnexpected)
	})

	t.Run("a malformed cursor is a usage error", func(t *testing.T) {
		t.Parallel()
		c := run(t, newFake(t), nil, "nodes", "events", "--follow", "--after", "nonsense")
		c.ends(t, cli.ExitUsage)
	})

	t.Run("an interruption ends it with 130", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := run(t, f, nil, "nodes", "events", "--follow")
		f.until(t, "the subscription", func() bool { return f.subs == 1 })
		c.interrupt()
		c.ends(t, cli.ExitInterrupted)
		require.Empty(t, c.stdout.String())
	})
}

// booked makes a fake with a reservation on node A.
func booked(t *testing.T) *fake {
	t.Helper()
	f := newFake(t)
	f.do(func() {
		_, refused := f.book("reservationCreate", object{"nodeId": nodeA, "durationSeconds": 7200})
		require.Nil(t, refused)
	})
	return f
}

func waiting(t *testing.T, f *fake, change func(*cli.Env), more ...string) *command {
	t.Helper()
	c := run(t, f, change, append([]string{"nodes", "drain", nodeA, "--wait", "--reason", "replace PSU"}, more...)...)
	c.stderr.until(t, "waits for 1 live allocation", 1)
	f.until(t, "the subscription", func() bool { return f.subs > 0 })
	return c
}

// TestDrainWait: the command ends when its own drain has ended, and by nothing else.
func TestDrainWait(t *testing.T) {
	t.Parallel()
	t.Run("B2 the last release ends it with 0 and the node as it is", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		c := waiting(t, f, nil, "-o", "json")
		require.Empty(t, c.stdout.String(), "nothing is data before the end")
		f.do(func() { f.release(f.reserved[0]) })
		c.ends(t, cli.ExitOK)
		require.Contains(t, c.stderr.String(), nodeA+" drained; the node confirms that nothing runs; it stays cordoned")
		var n struct {
			Cordoned bool
			Drain    struct{ State string }
		}
		require.NoError(t, json.Unmarshal([]byte(c.stdout.String()), &n))
		require.True(t, n.Cordoned)
		require.Equal(t, "DRAINED", n.Drain.State)
	})

	t.Run("B9 it survives the server, and sees the end that came meanwhile", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		c := waiting(t, f, nil)
		for round := range 2 {
			f.stop()
			c.stderr.until(t, "# connection lost, coming back; the drain goes on", round+1)
			f.start(t)
			c.stderr.until(t, "# reconnected, no events missed", round+1)
		}
		f.stop()
		f.do(func() { f.release(f.reserved[0]) })
		f.start(t)
		c.ends(t, cli.ExitOK)
		require.Equal(t, 1, strings.Count(c.stderr.String(), " drained; "))
	})

	t.Run("B4 an empty node ends it at once", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := run(t, f, nil, "nodes", "drain", nodeA, "--wait")
		f.until(t, "the drain", func() bool { return f.drains == 1 })
		f.do(func() { f.finish(f.find(nodeA), false) })
		c.ends(t, cli.ExitOK)
		require.Contains(t, c.stderr.String(), "the node itself has not confirmed that nothing runs")
	})

	t.Run("I8 an uncordon ends it with 7 and its cause", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		c := waiting(t, f, nil, "-o", "json")
		f.do(func() { f.uncordon(f.find(nodeA), "sam", "needed again") })
		c.ends(t, cli.ExitInvalidState)
		require.Empty(t, c.stdout.String())
		lines := strings.Split(strings.TrimSpace(c.stderr.String()), "\n")
		require.Contains(t, lines[len(lines)-1], `{"error":{"code":"CANCELLED","message":"the drain was cancelled: uncordoned by sam`)
	})

	t.Run("I8 a drain that was cancelled and begun anew while the server was away is not taken for the new one", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		c := waiting(t, f, nil)
		f.stop()
		f.do(func() {
			f.uncordon(f.find(nodeA), "sam", "needed again")
			_, refused := f.act("nodeDrain", object{"nodeId": nodeA})
			require.Nil(t, refused)
		})
		f.start(t)
		c.ends(t, cli.ExitInvalidState)
		require.Contains(t, c.stderr.String(), "uncordoned by sam: needed again")
	})

	t.Run("I8 the node's deletion ends it with 7", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		c := waiting(t, f, nil)
		f.do(func() { f.write("GenericEvent", "node.deleted", f.find(nodeA), "sam", "gone", nil) })
		c.ends(t, cli.ExitInvalidState)
		require.Contains(t, c.stderr.String(), "the node was deleted by sam: gone")
	})

	t.Run("a node that is no longer visible ends it with 3", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		c := waiting(t, f, nil)
		f.stop()
		f.do(func() { f.nodes = f.nodes[1:] })
		f.start(t)
		c.ends(t, cli.ExitNotFound)
		require.Contains(t, c.stderr.String(), "hint: the drain goes on")
	})

	t.Run("the time that was given ends it with 8, and the drain goes on", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		c := run(t, f, nil, "nodes", "drain", nodeA, "--wait", "--timeout", "300ms")
		c.ends(t, cli.ExitTimedOut)
		require.Contains(t, c.stderr.String(), "error: TIMED_OUT: "+nodeA+" is not drained after 300ms; the drain goes on")
	})

	t.Run("the time also ends it while the server is away", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		c := waiting(t, f, nil, "--timeout", "1500ms")
		f.stop()
		c.ends(t, cli.ExitTimedOut)
	})

	t.Run("B5 a second wait attaches to the running drain", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		one := waiting(t, f, nil)
		two := run(t, f, nil, "nodes", "drain", nodeA, "--wait")
		two.stderr.until(t, "unchanged: already draining since 2026-11-29T14:00:00Z by alex: replace PSU", 1)
		f.until(t, "both subscriptions", func() bool { return f.subs == 2 })
		f.do(func() { f.release(f.reserved[0]) })
		one.ends(t, cli.ExitOK)
		two.ends(t, cli.ExitOK)
		require.Equal(t, 1, f.drains)
	})

	t.Run("an interruption says that the drain goes on", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		c := waiting(t, f, nil)
		c.interrupt()
		c.ends(t, cli.ExitInterrupted)
		require.Contains(t, c.stderr.String(), "error: INTERRUPTED: no longer waiting; the drain goes on")
	})

	t.Run("off a terminal each change is a line of its own", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		f.do(func() {
			_, refused := f.book("reservationCreate", object{"nodeId": nodeA})
			require.Nil(t, refused)
		})
		c := run(t, f, nil, "nodes", "drain", nodeA, "--wait")
		c.stderr.until(t, "waits for 2 live allocations, no end known", 1)
		f.until(t, "the subscription", func() bool { return f.subs > 0 })
		f.do(func() { f.release(f.reserved[1]) })
		c.stderr.until(t, "waits for 1 live allocation", 1)
		f.do(func() { f.release(f.reserved[0]) })
		c.ends(t, cli.ExitOK)
		require.NotContains(t, c.stderr.String(), "\x1b")
	})

	t.Run("on a terminal one block is drawn again, and gone at the end", func(t *testing.T) {
		t.Parallel()
		f := booked(t)
		c := waiting(t, f, func(env *cli.Env) {
			env.StderrTTY = true
			env.Width = func() int { return 80 }
		})
		c.stderr.until(t, "Ctrl-C stops watching; the drain goes on.", 1)
		f.do(func() { f.release(f.reserved[0]) })
		c.ends(t, cli.ExitOK)
		out := c.stderr.String()
		require.Contains(t, out, "\x1b[4A\x1b[J", "a line of more than 80 characters takes two rows")
		require.True(t, strings.HasSuffix(out, "it stays cordoned\n"), out)
	})
}

// TestSecretsStayOut: D6 the token never stands in what a command says, whatever goes wrong.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for _, one := range []failure{{status: 500}, {status: 200, code: "INTERNAL", text: "x"}, {status: 401}} {
		f.do(func() { f.failures = []failure{one} })
		c := run(t, f, nil, "nodes", "list", "-o", "json")
		exit := <-c.exit
		require.NotEqual(t, cli.ExitOK, exit)
		require.NotContains(t, fmt.Sprint(c.stdout, c.stderr), testToken)
	}
}
