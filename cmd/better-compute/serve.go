package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/cli"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/graph"
)

// settings are what serve is told.
type settings struct {
	dataDir       string
	listen        string
	gatewayListen string
	// healthListen is where /healthz, /readyz and /metrics are beside the API; "": see healthAddress.
	healthListen string
	databaseURL  string
	roles        []string
	migrate      string
	postgresBin  string
	publicURL    string
	insecureHTTP bool
	// revocationPoll is how often the gateway looks for revoked certificates; 0 turns the feed off.
	revocationPoll   time.Duration
	revocationGiveUp time.Duration
	logLevel         string
	// drainsByJob leaves all drains to the jobs.
	drainsByJob bool
	// shutdownDelay is how long /readyz says that the process stops before it does.
	shutdownDelay time.Duration
	// demo is how many simulated machines live in this process; 0: none. demoSeed makes them.
	demo     int
	demoSeed uint64
	version  string
}

// The roles of a process. One process has all of them; a fleet splits them over machines.
const (
	roleAPI     = "api"
	roleGateway = "gateway"
	roleJobs    = "jobs"
)

func (s *settings) has(role string) bool { return slices.Contains(s.roles, role) }

func newServe(version string) *cobra.Command {
	s := &settings{version: version}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the control plane: API and console, gateway, jobs",
		Long: `Run the control plane: the API with the console, the gateway that machines connect to, and the jobs.

Without --database-url it runs a PostgreSQL of its own in the data directory. The first start makes the certificate
authority, a tenant and a pool called default, and an admin token in <data-dir>/admin.token.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			log := slog.New(graph.LogHandler(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: s.level()})))
			return explain(serve(cmd.Context(), s, log, cmd.OutOrStdout()))
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.dataDir, "data-dir", defaultDataDir(), "where the database, the keys and the admin token are kept")
	// Help and manual say the rule, not what it comes to for who asks.
	f.Lookup("data-dir").DefValue = "/var/lib/better-compute for root, else ~/.local/share/better-compute"
	f.StringVar(&s.listen, "listen", "127.0.0.1:8080", "address of the API and the console")
	f.StringVar(&s.gatewayListen, "gateway-listen", "127.0.0.1:8443", "address that machines connect to")
	f.StringVar(&s.healthListen, "health-listen", "",
		"address of /healthz, /readyz and /metrics beside those of the API, without sign-in; absent: "+defaultHealth+" in a process without the role api")
	f.StringVar(&s.databaseURL, "database-url", "", "an external PostgreSQL, 15 or later; absent: one of its own")
	f.StringSliceVar(&s.roles, "roles", []string{roleAPI, roleGateway, roleJobs}, "what this process does")
	f.StringVar(&s.migrate, "migrate", "auto", "auto: bring the database to this version first; off: refuse one that is behind")
	f.StringVar(&s.postgresBin, "postgres-bin", "", "folder with the programs of the embedded PostgreSQL; absent: the one that npm brought, else an installed one")
	f.StringVar(&s.publicURL, "public-url", "", "the URL by which browsers reach the server, when it is not its own address")
	f.BoolVar(&s.insecureHTTP, "insecure-http", false, "listen beyond the loopback without TLS: only behind a proxy that has it")
	f.DurationVar(&s.revocationPoll, "revocation-poll", time.Second,
		"how often the gateway looks for revoked certificates, besides being told; 0: never, and a revoked one keeps its session until it runs out")
	f.DurationVar(&s.revocationGiveUp, "revocation-give-up", 15*time.Minute, "how long sessions go on while the gateway can't look")
	f.StringVar(&s.logLevel, "log-level", "info", "what is logged: debug, info, warn or error, and what is worse")
	f.DurationVar(&s.shutdownDelay, "shutdown-delay", 500*time.Millisecond,
		"how long /readyz says that the process stops before streams end and nothing is accepted any more: for load balancers")
	f.IntVar(&s.demo, "demo", 0, "simulate `N` machines, with tenants, bookings and faults; only in a data directory of its own")
	f.Uint64Var(&s.demoSeed, "demo-seed", 1, "which fleet is simulated, and what happens to it: the same seed gives the same")
	f.BoolVar(&s.drainsByJob, "drains-by-job", false, "leave also the drains of empty nodes to the jobs: for measuring these")
	_ = f.MarkHidden("drains-by-job")
	return cli.Alone(cmd)
}

// maxShutdownDelay leaves the rest of stopping its time: all of it takes less than ten seconds.
const maxShutdownDelay = 3 * time.Second

// level is the log's; check has seen that it is one.
func (s *settings) level() slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(s.logLevel))
	return l
}

func (s *settings) check() error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, s.logLevel) {
		return fault.Invalid("log-level", "must be debug, info, warn or error", 0)
	}
	if s.shutdownDelay < 0 || s.shutdownDelay > maxShutdownDelay {
		return fault.Invalid("shutdown-delay", "must be 0 to 3s", 0)
	}
	for _, role := range s.roles {
		if !slices.Contains([]string{roleAPI, roleGateway, roleJobs}, role) {
			return fault.Invalid("roles", "must be of api, gateway, jobs", 0)
		}
	}
	if len(s.roles) == 0 {
		return fault.Invalid("roles", "must name at least one of api, gateway, jobs", 0)
	}
	if s.revocationPoll != 0 && (s.revocationPoll < 10*time.Millisecond || s.revocationPoll > 10*time.Second) {
		return fault.Invalid("revocation-poll", "must be 10ms to 10s, or 0 for never", 0)
	}
	if s.revocationGiveUp < time.Minute {
		return fault.Invalid("revocation-give-up", "must be a minute or more", 0)
	}
	if s.migrate != "auto" && s.migrate != "off" {
		return fault.Invalid("migrate", "must be auto or off", 0)
	}
	if s.has(roleAPI) && !loopback(s.listen) && !s.insecureHTTP {
		return fault.Invalid("listen", s.listen+" is beyond the loopback and has no TLS; put a proxy with TLS before it and say --insecure-http", 0)
	}
	if s.healthListen != "" && !loopback(s.healthListen) && !s.insecureHTTP {
		return fault.Invalid("health-listen", s.healthListen+" is beyond the loopback and has no TLS; what it tells needs no sign-in: say --insecure-http if your network may read it", 0)
	}
	dir, err := filepath.Abs(s.dataDir)
	if err != nil {
		return fault.Invalid("data-dir", "cannot be resolved", 0)
	}
	s.dataDir = dir
	return s.checkDemo()
}

// defaultDataDir is the system's for root, and the user's own for everybody else.
func defaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/better-compute"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "better-compute")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "better-compute-data"
	}
	return filepath.Join(home, ".local", "share", "better-compute")
}

// greet says where things are, and on a terminal how to sign in. A secret never goes into a file that somebody redirected the output to.
func greet(out io.Writer, s *settings, apiURL string, health net.Listener, link func() (string, error)) error {
	var b strings.Builder
	if apiURL != "" {
		fmt.Fprintf(&b, "The console and the API:  %s/\n", apiURL)
	}
	if s.has(roleGateway) {
		fmt.Fprintf(&b, "Machines connect to:      %s\n", s.gatewayListen)
	}
	if s.demo > 0 {
		fmt.Fprintf(&b, "Simulated machines:       %d, of seed %d; none of them is real\n", s.demo, s.demoSeed)
	}
	if health != nil {
		fmt.Fprintf(&b, "How this process is:      http://%s/readyz\n", health.Addr())
	}
	if apiURL != "" {
		fmt.Fprintf(&b, "The admin's token:        %s\n", filepath.Join(s.dataDir, adminTokenFile))
		if terminal(out) {
			secret, err := link()
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "Sign in (10 minutes):     %s/#sign-in=%s\n", apiURL, secret)
		} else {
			fmt.Fprintf(&b, "Sign in with:             better-compute sign-in\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
