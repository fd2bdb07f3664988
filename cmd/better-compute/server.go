package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/console"
	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/embedded"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/graph"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/jobs"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/issuer"
	"github.com/better-compute/better-compute/placement"
)

// addressFile in the data directory tells the command line on this host where the API is.
const addressFile = "address"

// keep is how long events are kept.
const keep = 400 * 24 * time.Hour

// rooms are the verbs of the domain, put together once.
type rooms struct {
	db        *db.DB
	log       *events.Log
	authority *iam.Authority
	nodes     *node.Store
	controls  *controls.Controls
	bookings  *placement.Bookings
	pki       *pki.Store
	// signer is what pki signs with; nil without a gateway.
	signer *issuer.Issuer
}

// serve runs the control plane until ctx ends or a part of it fails.
func serve(ctx context.Context, s *settings, log *slog.Logger, out io.Writer) error {
	// Listening first: a port that is taken is said before a database is started for nothing.
	listeners, err := s.open()
	if err != nil {
		return err
	}
	defer listeners.close()
	url, died, stopDatabase, err := s.database(ctx, log)
	if err != nil {
		return err
	}
	defer stopDatabase()
	if s.has(roleGateway) {
		release, err := s.holdGateway()
		if err != nil {
			return err
		}
		defer release()
	}
	d, err := s.openDatabase(ctx, url, log)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := s.claimDemo(ctx, d, log); err != nil {
		return err
	}
	r, err := s.assemble(ctx, d, log)
	if err != nil {
		return err
	}

	o := &ops{metrics: newMetrics(d, log.With("part", "metrics")), ready: &readiness{db: d, log: log.With("part", "ready")}}
	o.metrics.log(r.log)
	o.ready.add("log", logReady(r.log))
	until, stop := s.stopping(ctx, o.ready, log)
	defer stop()
	g, running := errgroup.WithContext(until)
	// Also when a part fails, the process is not ready before the others end.
	defer context.AfterFunc(running, func() { o.ready.stopping.Store(true) })()
	g.Go(func() error {
		select {
		case <-running.Done():
			return nil
		case <-died:
			return fault.New(fault.Unavailable, nil, "the embedded PostgreSQL ended by itself; its own words stand above in the log")
		}
	})
	later := newBackground(log)
	defer later.wait()
	defer r.tellRest(ctx)
	// The log outlives what uses it: streams are told to come back by a log that still runs.
	logCtx, stopLog := context.WithCancel(context.WithoutCancel(ctx))
	logDone := make(chan error, 1)
	go func() { logDone <- r.log.Run(logCtx) }()
	defer func() {
		stopLog()
		<-logDone
	}()
	if listeners.health != nil {
		saysHow(running, g, o, listeners.health, log)
	}
	// In the group, so that a part that can't start ends those that have.
	g.Go(func() error { return s.parts(running, g, r, o, listeners, later, log, out) })
	err = g.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		log.InfoContext(context.WithoutCancel(ctx), "stopped")
		return nil
	}
	return err
}

// parts starts what the roles ask for.
func (s *settings) parts(ctx context.Context, g *errgroup.Group, r *rooms, o *ops, l *listeners, later *background, log *slog.Logger, out io.Writer) error {
	if s.has(roleJobs) {
		tidy := events.NewMaintenance(r.db, log)
		sweeper := liveness.NewSweeper(&liveness.Store{DB: r.db, Nodes: r.nodes, Log: log.With("part", "liveness")})
		runner, err := jobs.NewRunner(r.db, jobs.Parts{Controls: r.controls, Bookings: r.bookings, Liveness: sweeper, Tidy: []jobs.Tidying{
			{Name: "partitions", Every: time.Hour, Run: tidy.EnsurePartitions},
			{Name: "retention", Every: 24 * time.Hour, Run: func(ctx context.Context) error { return tidy.Retain(ctx, keep) }},
			{Name: "requests", Every: time.Hour, Run: func(ctx context.Context) error {
				_, err := iam.ForgetRequests(ctx, r.db)
				return err
			}},
			{Name: "operations", Every: 10 * time.Minute, Run: r.controls.ForgetOperations},
			{Name: "tokens", Every: 24 * time.Hour, Run: func(ctx context.Context) error {
				_, err := iam.ForgetTokens(ctx, r.db)
				return err
			}},
			{Name: "gateways", Every: 24 * time.Hour, Run: func(ctx context.Context) error {
				_, err := liveness.ForgetGateways(ctx, r.db)
				return err
			}},
		}}, log.With("part", "jobs"))
		if err != nil {
			return err
		}
		o.ready.add("jobs", jobsReady(runner.Works))
		g.Go(func() error { return runner.Run(ctx) })
	}
	if s.has(roleGateway) {
		if err := s.gateway(ctx, g, r, o, l.gateway, log); err != nil {
			return err
		}
	}
	var apiURL string
	link := func() (string, error) { return "", nil }
	if s.has(roleAPI) {
		issuer, err := s.issuer(ctx, r.db)
		if err != nil {
			return err
		}
		apiURL = "http://" + l.api.Addr().String()
		link = func() (string, error) { return issuer.SignInLink(ctx, adminName) }
		if err := s.api(ctx, g, r, o, issuer, l.api, later, log); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(s.dataDir, addressFile), []byte(apiURL+"\n"), 0o644); err != nil {
			return err
		}
	}
	if s.demo > 0 {
		if err := s.simulate(ctx, g, apiURL, l.gateway.Addr().String(), log); err != nil {
			return err
		}
	}
	return greet(out, s, apiURL, l.health, link)
}

// ops is what operators see of the process.
type ops struct {
	metrics *metrics
	ready   *readiness
}

// stopBound is how long requests and streams have to end when the process stops.
const stopBound = 6 * time.Second

// stopping gives the context in which the parts run. It ends a moment after ctx, in which /readyz already says that the process stops and all goes
// on, so that nobody is sent here any more.
func (s *settings) stopping(ctx context.Context, r *readiness, log *slog.Logger) (context.Context, context.CancelFunc) {
	until, stop := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		r.stopping.Store(true)
		log.InfoContext(until, "stopping")
		delay := time.NewTimer(s.shutdownDelay)
		defer delay.Stop()
		select {
		case <-until.Done():
		case <-delay.C:
			stop()
		}
	})
	return until, func() {
		unhook()
		stop()
	}
}

// explain gives a code to what serve can end with and the rooms have no word for: a database that refuses, and files that can't be used.
func explain(err error) error {
	if err == nil || fault.CodeOf(err) != fault.Internal || errors.Is(err, context.Canceled) {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !db.Unanswered(err) {
		return fault.Because(fault.InvalidState, err, fault.Details{"sqlState": pg.Code}, "the database refused what serve needs: %s; see --database-url and the rights of its role", pg.Message)
	}
	if db.Unanswered(err) {
		return db.Unavailable(err)
	}
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return fault.Because(fault.InvalidState, err, nil, "%s cannot be used: %s; run serve as the user that owns the data directory, or choose another by --data-dir", file.Path, file.Err)
	}
	return err
}

// database gives the URL of the one to use: the external one, or the embedded one, which it starts. died is closed when that ends by itself.
func (s *settings) database(ctx context.Context, log *slog.Logger) (url string, died <-chan struct{}, stop func(), err error) {
	if s.databaseURL != "" {
		// The embedded one makes the directory itself, with the rights that it needs.
		if err := os.MkdirAll(s.dataDir, 0o700); err != nil {
			return "", nil, nil, fault.Because(fault.InvalidInput, err, nil, "the data directory %s cannot be made; choose another by --data-dir", s.dataDir)
		}
		return s.databaseURL, nil, func() {}, nil
	}
	began := time.Now()
	server, err := embedded.Start(ctx, embedded.Config{DataDir: s.dataDir, BinDir: s.postgresBin, Log: log.With("part", "postgres")})
	if err != nil {
		return "", nil, nil, err
	}
	log.InfoContext(ctx, "embedded PostgreSQL runs", "took", time.Since(began).String())
	return server.URL(), server.Done(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			log.ErrorContext(ctx, "the embedded PostgreSQL did not stop in time", "error", err)
		}
	}, nil
}

func (s *settings) openDatabase(ctx context.Context, url string, log *slog.Logger) (*db.DB, error) {
	if s.migrate == "auto" {
		if err := db.Migrate(ctx, url, log.With("part", "migrate")); err != nil {
			return nil, err
		}
	}
	d, err := db.Open(ctx, db.Config{URL: url, MaxConns: 30, Log: log.With("part", "db")})
	if err != nil {
		return nil, err
	}
	state, err := d.MigrationState(ctx)
	if err == nil && state.Behind() {
		err = fault.New(fault.InvalidState, fault.Details{"current": state.Current, "latest": state.Latest},
			"the database is at migration %d and this version needs %d; run it once with --migrate=auto", state.Current, state.Latest)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// tellRest waits for what the owners of refused join tokens are told, which follows the answer too.
func (r *rooms) tellRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound)
	defer cancel()
	r.pki.Told(ctx)
}

// assemble puts the rooms together, and makes what a first start needs.
func (s *settings) assemble(ctx context.Context, d *db.DB, log *slog.Logger) (*rooms, error) {
	authority, err := iam.NewAuthority(d)
	if err != nil {
		return nil, err
	}
	if err := events.NewMaintenance(d, log).EnsurePartitions(ctx); err != nil {
		return nil, err
	}
	nodes := &node.Store{DB: d, Authority: authority}
	r := &rooms{
		db: d, authority: authority, nodes: nodes,
		log:      events.NewLog(d, events.Options{Log: log.With("part", "events")}),
		controls: &controls.Controls{Nodes: nodes, DrainsByJob: s.drainsByJob, Log: log.With("part", "controls")},
		bookings: &placement.Bookings{DB: d, Authority: authority},
		pki:      &pki.Store{DB: d, Authority: authority, Nodes: nodes, Log: log.With("part", "pki")},
	}
	if s.has(roleGateway) {
		ca, err := pki.OpenCA(ctx, d, filepath.Join(s.dataDir, "pki"), issuer.NewCA)
		if err != nil {
			return nil, err
		}
		if r.signer, err = issuer.New(ca); err != nil {
			return nil, err
		}
		r.pki.Issuer = r.signer
	}
	return r, firstStart(ctx, d)
}

// api serves HTTP until ctx ends; then it answers what is under way and ends the streams.
func (s *settings) api(ctx context.Context, g *errgroup.Group, r *rooms, o *ops, issuer *iam.Issuer, l net.Listener, later *background, log *slog.Logger) error {
	hosts, err := graph.NewHosts(l.Addr(), s.publicURL)
	if err != nil {
		return err
	}
	pages, err := jobs.NewUI(ctx, r.db, log.With("part", "jobs"))
	if err != nil {
		return err
	}
	var sockets sync.WaitGroup
	handler := graph.Handler(&graph.API{
		DB: r.db, Log: r.log, Authority: r.authority, Issuer: issuer, Nodes: r.nodes, Controls: r.controls, Bookings: r.bookings, PKI: r.pki,
		GatewayAddress: s.gatewayListen, Later: later.run, Slog: log.With("part", "api"),
	}, graph.Options{
		Hosts: hosts, Secure: strings.HasPrefix(s.publicURL, "https://"), Console: console.Handler(), Jobs: pages, Stopping: ctx,
		Ready: o.ready.check, Metrics: o.metrics.handler(), Meter: o.metrics, Sockets: &sockets,
	})
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, ConnContext: graph.ConnContext,
		ErrorLog: slog.NewLogLogger(log.With("part", "http").Handler(), slog.LevelWarn),
	}
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the API: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound)
		defer cancel()
		if err := server.Shutdown(stop); err != nil {
			_ = server.Close()
		}
		// The server does not know of websockets, which say good-bye meanwhile. What does not within the bound ends with the process.
		ended := make(chan struct{})
		go func() {
			sockets.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-stop.Done():
		}
		return nil
	})
	return nil
}
