package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/cli"
)

// checked runs the tests and then looks for goroutines that outlived them.
type checked struct{ m *testing.M }

func (c checked) Run() int {
	code := c.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(checked{m}, map[string]func(){"better-compute": func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		env := cli.System("1.2.3")
		env.Root = false // the tests may run as root, and must not meet a server of the machine
		code := cli.Run(ctx, env, cli.New(env), os.Args[1:])
		stop()
		os.Exit(int(code))
	}})
}

// TestScripts runs the command lines of testdata against a fake server: what they print, where, and how they end.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			tb, ok := env.T().(testing.TB)
			if !ok {
				return errors.New("the scripts need a testing.TB")
			}
			f := newFake(tb)
			env.Values["fake"], env.Values["tb"] = f, tb
			env.Setenv("BETTER_COMPUTE_SERVER", f.url())
			env.Setenv("BETTER_COMPUTE_TOKEN", testToken)
			env.Setenv("FAKE", f.url())
			env.Setenv("TOKEN", testToken)
			env.Setenv("A", nodeA)
			env.Setenv("B", nodeB)
			env.Setenv("POOL", poolP)
			env.Setenv("RES", resR[:len(resR)-2]+"00")
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			env.Setenv("XDG_DATA_HOME", env.WorkDir+"/data")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "fake": steer, "sent": sent, "addr": address,
		},
	})
}

// exits runs a command line in this process and wants exactly that exit code: exits 3 better-compute …
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	env := &cli.Env{
		Stdout: ts.Stdout(), Stderr: ts.Stderr(), Version: "1.2.3",
		LookupEnv: func(name string) (string, bool) { value := ts.Getenv(name); return value, value != "" },
	}
	if got := cli.Run(context.Background(), env, cli.New(env), args[2:]); int(got) != want {
		ts.Fatalf("exit %d, wanted %d", got, want)
	}
}

// sent wants exactly these operations since it was asked last.
func sent(ts *testscript.TestScript, _ bool, args []string) {
	f, _ := ts.Value("fake").(*fake)
	if got := f.taken(); !slices.Equal(got, args) && (len(got) > 0 || len(args) > 0) {
		ts.Fatalf("the server got %v, wanted %v", got, args)
	}
}

// address writes what serve leaves in its data directory.
func address(ts *testscript.TestScript, _ bool, args []string) {
	f, _ := ts.Value("fake").(*fake)
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+"/address"), []byte(f.url()+"\n"), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+"/admin.token"), []byte(testToken+"\n"), 0o600))
}

// steer tells the fake server what to do.
func steer(ts *testscript.TestScript, _ bool, args []string) {
	f, _ := ts.Value("fake").(*fake)
	switch args[0] {
	case "fail": // CODE SENTENCE [DETAILS]
		one := failure{status: 200, code: args[1], text: args[2]}
		if len(args) > 3 {
			ts.Check(json.Unmarshal([]byte(args[3]), &one.detail))
		}
		f.do(func() { f.failures = append(f.failures, one) })
	case "status": // STATUS TIMES
		status, err := strconv.Atoi(args[1])
		ts.Check(err)
		times, err := strconv.Atoi(args[2])
		ts.Check(err)
		f.do(func() {
			for range times {
				f.failures = append(f.failures, failure{status: status})
			}
		})
	case "stop":
		f.stop()
	case "empty":
		f.do(func() { f.nodes, f.pools, f.tenants = []object{}, []object{}, []object{} })
	case "tenants":
		f.do(func() {
			f.tenants = nil
			for _, t := range args[1:] {
				f.tenants = append(f.tenants, object{"id": t, "createdAt": "2026-11-01T08:00:00Z"})
			}
		})
	case "pools":
		f.do(func() {
			f.pools = nil
			for i, name := range args[1:] {
				id := poolP[:len(poolP)-1] + strconv.Itoa(i)
				f.pools = append(f.pools, object{"id": id, "tenantId": "acme", "name": name, "createdAt": "2026-11-01T08:00:00Z"})
			}
		})
	case "more-nodes":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		f.do(func() {
			for i := range n {
				f.nodes = append(f.nodes, newNode(fmt.Sprintf("node_01k5wjb4s8fpvb0q9f6m3h%04d", i), fmt.Sprintf("rack-%04d", i), 1))
			}
		})
	case "reason": // what somebody else wrote
		f.do(func() { f.find(nodeA)["statusSentence"] = strings.ReplaceAll(args[1], "ESC", "\x1b") })
	case "drained":
		f.do(func() { f.finish(f.find(nodeA), true) })
	case "use-token":
		f.do(func() { f.tokens[0]["usedAt"], f.tokens[0]["usedBy"] = "2026-11-29T14:00:09Z", nodeA })
	case "lose-answer":
		f.do(func() { f.dropAfter = 1 })
	case "expire":
		f.do(func() {
			f.write("NodeCordonEvent", "node.cordoned", f.find(nodeA), "alex", nil, object{"cancelledDrainId": nil})
			f.oldest = 1
		})
	case "subscribed":
		tb, _ := ts.Value("tb").(testing.TB)
		f.until(tb, "a subscription", func() bool { return f.subs > 0 })
	default:
		ts.Fatalf("the fake knows no %q", args[0])
	}
}
