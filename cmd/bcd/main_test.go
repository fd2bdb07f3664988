package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/agent/agenttest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/testenv"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"bcd": main}) }

// patience bounds every wait for a condition; it is only met when something is broken.
const patience = 20 * time.Second

// TestScripts runs the scripts in testdata, each with a gateway of its own: $SERVER and $PIN name it, $STATE is a state directory that is not there yet.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scripts(t, "testdata"))
}

// TestOwner runs the scripts that root alone can: $STATE is the directory of a user without rights.
func TestOwner(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "linux", "root")
	params := scripts(t, "testdata/root")
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		if err := setup(env); err != nil {
			return err
		}
		// Every user gets there, as to /var/lib/bcd.
		dir, err := os.MkdirTemp("", "bcd-owner-") //nolint:usetesting // a test's own directory is closed to other users
		if err != nil {
			return err
		}
		env.Defer(func() { _ = os.RemoveAll(dir) })
		state := filepath.Join(dir, "state")
		env.Setenv("STATE", state)
		return errors.Join(os.Chmod(dir, 0o755), os.Mkdir(state, 0o700), os.Chown(state, nobody, nobody))
	}
	testscript.Run(t, params)
}

const nobody = 65534

func scripts(t *testing.T, dir string) testscript.Params {
	t.Helper()
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			gateway, err := agenttest.Start(t.Context(), agenttest.Options{})
			if err != nil {
				return err
			}
			env.Defer(gateway.Close)
			env.Values["gateway"] = gateway
			// The race detector holds up every exit for a second unless told otherwise.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("SERVER", gateway.Address)
			env.Setenv("PIN", gateway.CAFingerprint)
			env.Setenv("STATE", env.WorkDir+"/state")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"token": token, "exits": exits, "joins": joins, "dials": dials, "session": session, "term": term, "reply": reply,
			"config": config, "owned": owned,
		},
	}
}

// owned UID checks that everything below $STATE belongs to that user.
func owned(ts *testscript.TestScript, _ bool, args []string) {
	seen := 0
	ts.Check(filepath.WalkDir(ts.Getenv("STATE"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		seen++
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || strconv.Itoa(int(stat.Uid)) != args[0] {
			return fmt.Errorf("%s belongs to user %d", path, stat.Uid)
		}
		return nil
	}))
	if seen < 3 {
		ts.Fatalf("%s holds %d files", ts.Getenv("STATE"), seen)
	}
}

func gatewayOf(ts *testscript.TestScript) *agenttest.Gateway {
	gateway, ok := ts.Value("gateway").(*agenttest.Gateway)
	if !ok {
		ts.Fatalf("no gateway")
	}
	return gateway
}

// token FILE writes a fresh join token to a file.
func token(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(gatewayOf(ts).Token().Text()+"\n"), 0o600))
}

// config FILE writes a configuration that names the gateway.
func config(ts *testscript.TestScript, _ bool, args []string) {
	g := gatewayOf(ts)
	text := fmt.Sprintf("server = [%q]\nca_fingerprint = %q\nstate_dir = %q\n[join]\nattestor = \"token\"\n", g.Address, g.CAFingerprint, ts.Getenv("STATE"))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// exits CODE PROGRAM... runs a program that must exit with exactly this code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, not %d", got, want)
	}
}

// joins N checks how many join requests the gateway has got.
func joins(ts *testscript.TestScript, _ bool, args []string) {
	if got := strconv.Itoa(gatewayOf(ts).Joins()); got != args[0] {
		ts.Fatalf("%s joins, not %s", got, args[0])
	}
}

// dials N checks how many connections the gateway has got.
func dials(ts *testscript.TestScript, _ bool, args []string) {
	if got := strconv.Itoa(gatewayOf(ts).Dials()); got != args[0] {
		ts.Fatalf("%s dials, not %s", got, args[0])
	}
}

// session waits for a session with an inventory.
func session(ts *testscript.TestScript, _ bool, _ []string) {
	late := time.After(patience)
	select {
	case s := <-gatewayOf(ts).Sessions:
		select {
		case <-s.Inventories:
		case <-late:
			ts.Fatalf("no inventory")
		}
	case <-late:
		ts.Fatalf("no session")
	}
}

// term sends SIGTERM to what runs in the background.
func term(ts *testscript.TestScript, _ bool, _ []string) {
	for _, command := range ts.BackgroundCmds() {
		ts.Check(command.Process.Signal(syscall.SIGTERM))
	}
}

// reply STATUS BODY makes the gateway answer the next join with this.
func reply(ts *testscript.TestScript, _ bool, args []string) {
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	gatewayOf(ts).FailJoin(status, args[1])
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	signalled := func(s os.Signal) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errSignal{s})
		return ctx
	}
	// The codes are what scripts switch on: each kind of outcome has its own.
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want int
	}{
		"done":                     {t.Context(), nil, 0},
		"unexpected":               {t.Context(), errors.New("x"), 1},
		"a file with a wrong mode": {t.Context(), fault.New(fault.InvalidState, nil, "x"), 1},
		"a fault of the gateway":   {t.Context(), fault.New(fault.Internal, nil, "x"), 1},
		"usage":                    {t.Context(), errUsage, 2},
		"bad input":                {t.Context(), fault.Invalid("server", "x", 0), 2},
		"refused":                  {t.Context(), fault.New(fault.Unauthenticated, nil, "x"), 4},
		"forbidden":                {t.Context(), fault.New(fault.Forbidden, nil, "x"), 4},
		"unreachable":              {t.Context(), fault.New(fault.Unavailable, nil, "x"), 9},
		"too many":                 {t.Context(), fault.New(fault.ResourceExhausted, nil, "x"), 9},
		"joined":                   {t.Context(), fault.New(fault.InvalidState, nil, "this machine is %w", agent.ErrJoined), 12},
		"interrupted":              {signalled(os.Interrupt), context.Canceled, 130},
		"a run that ^C stopped":    {signalled(os.Interrupt), nil, 130},
		"a run that was stopped":   {signalled(syscall.SIGTERM), nil, 0},
		"a join that was stopped":  {signalled(syscall.SIGTERM), context.Canceled, 130},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, exitCode(c.ctx, c.err))
		})
	}
}

func TestStatusText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		status agent.Status
		want   []string
	}{
		"not joined":             {agent.Status{}, []string{"joined  no"}},
		"an identity alone":      {agent.Status{Key: "k1"}, []string{"joined  no", "key     k1"}},
		"joined, never run":      {agent.Status{Joined: true, NodeID: "n", NotAfter: now.Add(90 * time.Minute)}, []string{"(1h30m0s left by this machine's clock)", "bcd run is not running"}},
		"a certificate that ran": {agent.Status{Joined: true, NotAfter: now.Add(-time.Second)}, []string{"until 2026-03-01T11:59:59Z (past"}},
		"running and connected": {
			agent.Status{Joined: true, Running: true, Session: &agent.Session{State: agent.Connected, Since: now}},
			[]string{"session      CONNECTED since 2026-03-01T12:00:00Z"},
		},
		"refused": {
			agent.Status{Joined: true, Running: true, Session: &agent.Session{
				State: agent.Refused, Since: now, Reason: "revoked", Message: "by alex", NextTryAt: now.Add(time.Minute),
			}},
			[]string{"REFUSED (revoked) since 2026-03-01T12:00:00Z: by alex; next try 2026-03-01T12:01:00Z"},
		},
		"a reset that was cut off": {
			agent.Status{Joined: true, NodeID: "n", Reset: &agent.Reset{Dir: "/s/reset"}},
			[]string{"begun and not through: the machine is still this node; to go on, repeat bcd join --reset --yes", "remove /s/reset"},
		},
		"a reset of a machine that was nobody": {
			agent.Status{Reset: &agent.Reset{Dir: "/s/reset"}}, []string{"the machine is still not joined; to go on"},
		},
		"a reset that is under way": {
			agent.Status{Joined: true, Reset: &agent.Reset{Dir: "/s/reset", UnderWay: true}}, []string{"under way: so far the machine is still this node"},
		},
		"a reset whose files are not in their places": {
			agent.Status{Joined: true, NodeID: "n", Reset: &agent.Reset{Through: true}}, []string{"through: the machine is this node; the next bcd join or run"},
		},
		"killed while connected": {
			agent.Status{Joined: true, Session: &agent.Session{State: agent.Connected, Since: now}},
			[]string{"bcd run is not running; last: CONNECTED since"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			require.NoError(t, printStatus(&b, c.status, now))
			for _, want := range c.want {
				require.Contains(t, b.String(), want)
			}
		})
	}
}

// The unit starts a command that there is, as a user without rights, and stays down for the exit codes that need a person.
func TestUnit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/bcd/bcd.service")
	require.NoError(t, err)
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			settings[key] = value
		}
	}
	words := strings.Fields(settings["ExecStart"])
	require.NotEmpty(t, words)
	require.Equal(t, "bcd", filepath.Base(words[0]))
	command, rest, err := root(nil, nil, nil).Find(words[1:])
	require.NoError(t, err)
	require.Equal(t, "run", command.Name())
	require.NoError(t, command.ParseFlags(rest))
	require.Equal(t, agent.DefaultConfigFile, command.Flag("config").Value.String())
	require.Equal(t, "/var/lib/"+settings["StateDirectory"], agent.DefaultStateDir)
	require.Equal(t, "bcd", settings["User"])
	require.Equal(t, "yes", settings["NoNewPrivileges"])
	require.Empty(t, settings["CapabilityBoundingSet"])
	require.Equal(t, fmt.Sprintf("%d %d", exitUsage, exitRefused), settings["RestartPreventExitStatus"])
}
