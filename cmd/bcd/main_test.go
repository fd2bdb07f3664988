package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"bcd": main}) }

// patience bounds every wait for a condition; it is only met when something is broken.
const patience = 20 * time.Second

// TestScripts runs the scripts in testdata, each with a gateway of its own: $SERVER and $PIN name it, $STATE is a state directory that is not there yet.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
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
			"config": config,
		},
	})
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
