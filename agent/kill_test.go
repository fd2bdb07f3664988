package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent/agenttest"
	"github.com/better-compute/better-compute/gateway/wire"
)

// asBcd makes the test's program a bcd that resets its machine and is killed on the way.
const asBcd = "BCD_TEST_RESET"

// doomed is what such a bcd reads from its standard input.
type doomed struct {
	Config Config
	Token  string
	Left   int
	When   string
}

// resetAndDie is that bcd.
func resetAndDie() error {
	var d doomed
	if err := json.NewDecoder(os.Stdin).Decode(&d); err != nil {
		return err
	}
	token, err := wire.ParseToken(d.Token)
	if err != nil {
		return err
	}
	a := New(Options{Config: d.Config, Machine: &madeUp{}, Version: "v1", Log: slog.New(slog.DiscardHandler)})
	a.store.disk = &killingDisk{disk: localDisk{}, left: d.Left, when: d.When}
	_, err = a.Join(context.Background(), Join{Token: token, Reset: true})
	return err
}

// killingDisk kills its own process at a change: before it, in the midst of it, or after it.
type killingDisk struct {
	disk
	left int
	when string
}

func (d *killingDisk) step(do func() error, half func()) error {
	d.left--
	if d.left != 0 {
		return do()
	}
	switch d.when {
	case "in":
		half()
	case "after":
		if err := do(); err != nil {
			return err
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (d *killingDisk) write(path string, content []byte) error {
	return d.step(func() error { return d.disk.write(path, content) }, func() { _ = d.disk.write(path, content[:len(content)/2]) })
}

func (d *killingDisk) link(from, to string) error {
	return d.step(func() error { return d.disk.link(from, to) }, func() {})
}

func (d *killingDisk) rename(from, to string) error {
	return d.step(func() error { return d.disk.rename(from, to) }, func() {})
}

func (d *killingDisk) remove(path string) error {
	return d.step(func() error { return d.disk.remove(path) }, func() {})
}

func (d *killingDisk) mkdir(dir string) error {
	return d.step(func() error { return d.disk.mkdir(dir) }, func() { _ = os.Mkdir(dir, dirMode) })
}

func (d *killingDisk) sync(dir string) error {
	return d.step(func() error { return d.disk.sync(dir) }, func() {})
}

// killed runs such a bcd and says whether it was killed, else what it said.
func killed(t *testing.T, a *Agent, token wire.Token, left int, when string) (bool, string) {
	t.Helper()
	input, err := json.Marshal(doomed{Config: a.config, Token: token.Text(), Left: left, When: when})
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), asBcd+"=1", "GORACE=atexit_sleep_ms=0")
	command.Stdin = strings.NewReader(string(input))
	said, err := command.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status, ok := exit.Sys().(syscall.WaitStatus)
		require.True(t, ok)
		if status.Signaled() {
			require.Equal(t, syscall.SIGKILL, status.Signal())
			return true, ""
		}
	}
	return false, strings.TrimSpace(string(said))
}

// TestKilledReset kills a real process by SIGKILL before, in and after each change that a reset makes on the disk. It is not parallel: a process holds
// what others have locked between its fork and its exec.
func TestKilledReset(t *testing.T) {
	for _, when := range []string{"before", "in", "after"} {
		t.Run("D8 killed "+when+" each change of a reset: the machine is the old node or the new one, and it comes to its end", func(t *testing.T) {
			outcomes := map[bool]int{}
			for n := 1; ; n++ {
				g := agenttest.New(t, agenttest.Options{})
				a, _, was := member(t, g)
				old, token := recordFiles(t, a), g.Token()
				at := fmt.Sprintf("killed %s the change %d", when, n)
				dead, said := killed(t, a, token, n, when)
				if !dead {
					require.Empty(t, said, at)
					require.NotEqual(t, was.NodeID, whole(t, a, at))
					break
				}
				outcomes[resetFault(t, a, g, old, was.NodeID, at, token)]++
				g.Close()
			}
			require.Greater(t, outcomes[false], 5, "%v", outcomes)
			require.Greater(t, outcomes[true], 5, "%v", outcomes)
			t.Logf("%d kills left the old node, %d the new one", outcomes[false], outcomes[true])
		})
		t.Run("D8 killed "+when+" each change of a reset that is refused: the machine is what it was", func(t *testing.T) {
			g := agenttest.New(t, agenttest.Options{})
			used := g.Token()
			other, _ := machine(t, g)
			_, err := other.Join(t.Context(), Join{Token: used})
			require.NoError(t, err)
			a, _, was := member(t, g)
			old, kills := recordFiles(t, a), 0
			for n := 1; ; n++ {
				at := fmt.Sprintf("killed %s the change %d", when, n)
				dead, said := killed(t, a, used, n, when)
				require.Equal(t, was.NodeID, whole(t, a, at), at)
				require.Equal(t, old, recordFiles(t, a), at)
				if !dead {
					require.Contains(t, said, "ask for a new one", at)
					break
				}
				kills++
				require.NoError(t, a.store.unstage(), at) // as status says that it may be
			}
			require.Greater(t, kills, 5)
			require.Equal(t, 2, g.Nodes())
		})
	}
}
