// Command better-compute is the control plane and its command line in one program.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/better-compute/better-compute/cli"
)

// version and revision are set when a release is built.
var (
	version  = "dev"
	revision string
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second Ctrl-C ends the process at once.
	defer context.AfterFunc(ctx, stop)()
	defer stop()

	env := cli.System(version)
	env.Revision = revision
	return runIn(ctx, env, args)
}

// runIn runs a command line in an environment.
func runIn(ctx context.Context, env *cli.Env, args []string) int {
	root := cli.New(env)
	root.AddCommand(newServe(env.Version), newSim())
	addManual(root)
	return int(cli.Run(ctx, env, root, args))
}
