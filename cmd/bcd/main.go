// Command bcd is the daemon on a machine: it joins the machine to a control plane and keeps a session with it.
//
// Exit codes: 0 done, 1 unexpected, 2 usage, 4 not joined or the identity or token is refused, 9 unreachable, 12 already joined, 130 interrupted.
// Standard output carries what was asked for and nothing else; sentences for people and the log go to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/fault"
)

// The exit codes.
const (
	exitDone        = 0
	exitUnexpected  = 1
	exitUsage       = 2
	exitRefused     = 4
	exitUnreachable = 9
	exitJoined      = 12
	exitInterrupted = 130
)

// version is set by the linker in a release; else the build says what it was built from.
var version = ""

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// errSignal is the cause of a context that a signal ended.
type errSignal struct{ signal os.Signal }

func (e errSignal) Error() string { return "interrupted by " + e.signal.String() }

// run is main without its globals.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case s := <-signals:
			// A second signal ends the process at once.
			signal.Stop(signals)
			cancel(errSignal{s})
		case <-done:
		}
	}()

	command := root(stdin, stdout, stderr)
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	if err != nil && !errors.Is(err, errSaid) {
		fmt.Fprintln(stderr, "bcd:", err)
	}
	return code
}

// errSaid is the outcome of a status that shows no membership: what was printed says it all.
var errSaid = errors.New("not joined")

// errUsage marks what is wrong with the command line itself.
var errUsage = errors.New("see bcd --help")

// exitCode turns an outcome into the code that scripts switch on.
func exitCode(ctx context.Context, err error) int {
	var by errSignal
	if errors.As(context.Cause(ctx), &by) && (err != nil || by.signal != syscall.SIGTERM) {
		return exitInterrupted
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, agent.ErrJoined):
		return exitJoined
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, errSaid):
		return exitRefused
	}
	switch fault.CodeOf(err) {
	case fault.InvalidInput:
		return exitUsage
	case fault.Unauthenticated, fault.Forbidden:
		return exitRefused
	case fault.Unavailable, fault.ResourceExhausted:
		return exitUnreachable
	default:
		return exitUnexpected
	}
}

// root is the command with its three verbs.
func root(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	command := &cobra.Command{
		Use:           "bcd",
		Short:         "The daemon on a machine of better-compute",
		Version:       versionText(),
		Args:          noArguments,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(command *cobra.Command, _ []string) error {
			return fmt.Errorf("say join, run or status: %w", errUsage)
		},
	}
	command.SetIn(stdin)
	command.SetOut(stdout)
	command.SetErr(stderr)
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", err, errUsage) })
	command.CompletionOptions.HiddenDefaultCmd = true
	command.AddCommand(joinCommand(), runCommand(), statusCommand())
	for _, sub := range command.Commands() {
		sub.Args = noArguments
	}
	addManual(command)
	return command
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("bcd takes no argument %q here: %w", args[0], errUsage)
	}
	return nil
}

// settings are the flags that every verb has.
type settings struct {
	file  string
	state string
}

func (s *settings) add(command *cobra.Command) {
	command.Flags().StringVar(&s.file, "config", agent.DefaultConfigFile, "the configuration `FILE`; it may be absent when this flag is not given")
	command.Flags().StringVar(&s.state, "state-dir", "", "the `DIRECTORY` that keeps the identity (state_dir, "+agent.DefaultStateDir+")")
}

// load reads the configuration, without checking it.
func (s *settings) load(command *cobra.Command) (agent.Config, error) {
	config, err := agent.LoadConfig(s.file, !command.Flags().Changed("config"))
	if err != nil {
		return agent.Config{}, err
	}
	if s.state != "" {
		config.StateDir = s.state
	}
	return config, nil
}

// newAgent makes the agent of a checked configuration. From then on a bcd that root started is the owner of the state directory.
func newAgent(command *cobra.Command, config agent.Config, level slog.Level) (*agent.Agent, error) {
	config, err := config.Check()
	if err != nil {
		return nil, err
	}
	if err := actAsOwner(config.StateDir); err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(command.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	return agent.New(agent.Options{Config: config, Machine: agent.NewHost(), Version: versionText(), Log: log}), nil
}

// versionText is what bcd calls itself.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
}
