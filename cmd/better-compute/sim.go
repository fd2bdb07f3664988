package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/cli"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/sim"
)

// newSim makes the command that simulates machines for a control plane that runs elsewhere.
func newSim() *cobra.Command {
	var c sim.Config
	var tokenFile, logLevel string
	cmd := &cobra.Command{
		Use:   "sim N",
		Short: "Simulate N machines for a running control plane",
		Long: `Simulate N machines for a running control plane: the real daemon's code on made-up hardware, with bookings, cordons,
drains and faults. The machines join pools of their own whose names begin with sim-, in tenants of their own; nothing else
of the control plane is touched. They live until Ctrl-C, and the same directory brings the same machines back.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usage("sim takes the number of machines, like better-compute sim 200")
			}
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return cli.Usage("%q is no number of machines", args[0])
			}
			if err := id.Tenant("tenant", c.Tenant); err != nil {
				return err
			}
			if c.Tenant == defaultName {
				return fault.Invalid("tenant", "must be one of the simulation's own, not default", 0)
			}
			c.Machines = n
			c.Server = cmp.Or(c.Server, os.Getenv("BETTER_COMPUTE_SERVER"), textOf(filepath.Join(defaultDataDir(), addressFile)))
			if c.Server == "" {
				return cli.Usage("no server is named: give --server")
			}
			c.Token = textOf(cmp.Or(tokenFile, os.Getenv("BETTER_COMPUTE_TOKEN_FILE"), filepath.Join(defaultDataDir(), adminTokenFile)))
			if c.Token == "" {
				return fault.New(fault.Unauthenticated, nil, "no token for %s; name a file that holds one by --token-file", c.Server)
			}
			level := slog.LevelInfo
			if err := level.UnmarshalText([]byte(logLevel)); err != nil {
				return fault.Invalid("log-level", "must be debug, info, warn or error", 0)
			}
			c.Log = slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			return live(cmd, c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Server, "server", "", "the server's `URL`")
	f.StringVar(&tokenFile, "token-file", "", "a `file` that holds a bearer token with a grant in every tenant")
	f.StringSliceVar(&c.Gateways, "gateway", []string{"127.0.0.1:8443"}, "where machines connect to; several are spread over")
	f.StringVar(&c.Tenant, "tenant", "sim", "the tenant that owns most machines; it is made")
	f.Uint64Var(&c.Seed, "seed", 1, "which machines, and what happens to them: the same seed gives the same")
	f.StringVar(&c.Dir, "dir", "", "where the machines' identities are kept; absent: nowhere, and they are gone for good at the end")
	f.BoolVar(&c.Still, "still", false, "let nothing happen: the machines only live")
	f.StringVar(&logLevel, "log-level", "info", "what is logged: debug, info, warn or error, and what is worse")
	return cmd
}

// live runs the fleet until the command is interrupted.
func live(cmd *cobra.Command, c sim.Config) error {
	if c.Dir == "" {
		dir, err := os.MkdirTemp("", "better-compute-sim-*")
		if err != nil {
			return fmt.Errorf("make a directory for the machines: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		c.Dir = dir
	}
	fleet, err := sim.New(c)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%d simulated machines of seed %d at %s; Ctrl-C ends them\n", c.Machines, c.Seed, strings.Join(c.Gateways, ", ")); err != nil {
		return err
	}
	err = fleet.Run(cmd.Context())
	if figures := fleet.Figures(); err == nil {
		_, err = io.WriteString(cmd.OutOrStdout(), fmt.Sprintf("%d machines lived; %d acts happened, %d were refused\n", figures.Joined, figures.Acts, figures.Refused))
	}
	return err
}

// textOf reads a small file; one that can't be read is empty.
func textOf(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
