// Package cli holds better-compute's commands: a plain client of the GraphQL API, one file a noun.
//
// What a command prints on stdout is data only; everything said to people goes to stderr. JSON is the server's own text, so its keys are those
// of the schema. A command ends with a number of the table in exit.go. Command lines that are wrong are refused before anything is sent.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/better-compute/better-compute/id"
)

// Env is all that the commands know of the process they run in.
type Env struct {
	// Stdin is read where a command line says so by a dash; nil has nothing in it.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// StdoutTTY and StderrTTY say whether a person looks at them through a terminal.
	StdoutTTY, StderrTTY bool
	// Width gives how many columns the terminal of Stderr has now; nil or 0: not known.
	Width func() int
	// LookupEnv reads an environment variable.
	LookupEnv func(name string) (string, bool)
	// Root says whether the process runs as root: the default data directory depends on it.
	Root bool
	// Version is what this program was built as.
	Version string
	// Revision is the commit that it was built from; empty when only the build itself may know it.
	Revision string
}

// System gives the environment of this very process.
func System(version string) *Env {
	return &Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StdoutTTY: isatty.IsTerminal(os.Stdout.Fd()), StderrTTY: isatty.IsTerminal(os.Stderr.Fd()),
		Width: func() int {
			columns, _, err := term.GetSize(int(os.Stderr.Fd()))
			if err != nil {
				return 0
			}
			return columns
		},
		LookupEnv: os.LookupEnv,
		Root:      os.Geteuid() == 0,
		Version:   version,
	}
}

func (e *Env) get(name string) string {
	value, _ := e.LookupEnv(name)
	return value
}

// app is what the commands of one run share: the flags that all of them take, and the way to the server once it is known.
type app struct {
	env      *Env
	flags    flags
	resolved *settings
	api      *client
}

// New makes the root command with every client command under it. The program adds its own, like serve, and hands it to Run.
func New(env *Env) *cobra.Command {
	a := &app{env: env}
	root := &cobra.Command{
		Use:   "better-compute",
		Short: "Operate compute nodes: cordon, drain, book and follow them",
		Long: "better-compute operates compute nodes that tenants book.\n\n" +
			"The commands are clients of the GraphQL API; `better-compute help settings` says which server they talk to, and as whom.",
		Args:          NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &Error{Code: Usage("").Code, Message: err.Error(), Hint: "see " + cmd.CommandPath() + " --help", cause: err}
	})
	a.flags.register(root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	_ = root.RegisterFlagCompletionFunc("context", a.completeContexts)
	root.AddCommand(
		a.nodes(), a.drains(), a.operations(), a.reservations(), a.pools(), a.joinTokens(), a.tenants(), a.signIn(), a.version(),
		exitCodesTopic(), outputTopic(), settingsTopic(),
	)
	root.SetHelpCommand(help(root))
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, cmd := range append(completion.Commands(), completion) {
			cmd.Args = NoArgs
		}
	}
	return root
}

// help is cobra's, but a topic that isn't there is a usage error.
func help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command or topic]",
		Short: "Help about any command, and about exit-codes, output and settings",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				e := Usage("there is no help about %q", strings.Join(args, " "))
				e.Hint = "see better-compute help"
				return e
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// Run runs the command line and gives the number to end with. An ended ctx is an interruption.
func Run(ctx context.Context, env *Env, root *cobra.Command, args []string) Exit {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	e := asError(err)
	e.write(env.Stderr, wantsJSON(args))
	return e.Exit()
}

// wantsJSON reads the command line itself: when it is wrong, the flags may not have been read.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch {
		case arg == "--":
			return false
		case arg == "--jq", strings.HasPrefix(arg, "--jq="):
			return true
		case arg == "-o", arg == "--output":
			if i+1 < len(args) && isJSON(args[i+1]) {
				return true
			}
		case strings.HasPrefix(arg, "-o"), strings.HasPrefix(arg, "--output="):
			value := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(arg, "--output"), "-o"), "=")
			if isJSON(value) {
				return true
			}
		}
	}
	return false
}

func isJSON(format string) bool { return format == formatJSON || format == formatNDJSON }

// noun makes a command that only holds others. A word under it that it doesn't know is a usage error, never its help with success.
func noun(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// NoArgs refuses words that are neither a command nor wanted by one, as a usage error.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return Usage("%s takes no argument, but got %q", cmd.CommandPath(), args[0])
	}
	e := Usage("%s has no command %q", cmd.CommandPath(), args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		e.Hint = "did you mean " + strings.Join(near, " or ") + "?"
	} else {
		e.Hint = "see " + cmd.CommandPath() + " --help"
	}
	return e
}

// Alone takes a command that is no client from those that are: its help lists only its own flags, and a flag of a client's is a usage error.
func Alone(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Changed && err == nil {
				err = Usage("%s is no client, and takes no --%s", cmd.CommandPath(), f.Name)
			}
		})
		if err != nil {
			return err
		}
		return run(cmd, args)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
		cmd.Root().HelpFunc()(cmd, args)
	})
	return cmd
}

// oneID takes exactly one id of the kind, and refuses anything that doesn't look like one before a call is made.
func oneID(kind id.Kind, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usage("%s takes one %s id, but got %d arguments", cmd.CommandPath(), what, len(args))
		}
		return checkID(kind, what, args[0])
	}
}

// maybeNode takes a node's id, or nothing.
func maybeNode(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return oneID(id.Node, "node")(cmd, args)
}

func checkID(kind id.Kind, what, s string) error {
	if id.Check(kind, what, s) != nil {
		return Usage("%q is no %s id: it must look like %s_ and 26 characters", s, what, kind)
	}
	return nil
}

// choice is a flag that takes one or several of a closed list, whatever the case, with dashes for underscores.
type choice struct {
	allowed []string
	several bool
	values  []string
}

var _ pflag.Value = (*choice)(nil)

// Set reads one value or several with commas.
func (c *choice) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		value := strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(word), "-", "_"))
		if !slices.Contains(c.allowed, value) {
			return errors.New("must be one of " + strings.ToLower(strings.ReplaceAll(strings.Join(c.allowed, ", "), "_", "-")))
		}
		c.values = append(c.values, value)
	}
	if !c.several && len(c.values) > 1 {
		return errors.New("can be given once")
	}
	return nil
}

// String gives what was set.
func (c *choice) String() string { return strings.ToLower(strings.Join(c.values, ",")) }

// Type is shown in the help.
func (c *choice) Type() string { return "word" }

// say writes one line for people.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintln(a.env.Stderr, clean(fmt.Sprintf(format, args...)))
}
