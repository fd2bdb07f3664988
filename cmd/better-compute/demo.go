package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/sim"
)

// demoDir in the data directory keeps the identities of the simulated machines.
const demoDir = "demo"

// filesEach are the open files that a machine costs the process which also serves it: both ends of its connection, and its lock.
const filesEach = 3

func (s *settings) demoDir() string { return filepath.Join(s.dataDir, demoDir) }

// checkDemo refuses a demo where it could be mistaken for, or get in the way of, the real thing.
func (s *settings) checkDemo() error {
	switch {
	case s.demo < 0 || s.demo > sim.MaxMachines:
		return fault.Invalid("demo", fmt.Sprintf("must be 1 to %d machines", sim.MaxMachines), 0)
	case s.demo == 0:
		return nil
	case !s.has(roleAPI) || !s.has(roleGateway):
		return fault.Invalid("demo", "needs the roles api and gateway in the same process; better-compute sim simulates machines for others", 0)
	case sim.Held(s.demoDir()):
		return nil
	}
	if _, err := os.Stat(filepath.Join(s.dataDir, adminTokenFile)); err == nil {
		return fault.New(fault.InvalidState, fault.Details{"dataDir": s.dataDir},
			"%s holds a control plane that is no demo, so no machines are simulated in it; choose another by --data-dir", s.dataDir)
	}
	return nil
}

// fleet is what is simulated; where it connects to is known later.
func (s *settings) fleet() sim.Config {
	return sim.Config{Seed: s.demoSeed, Machines: s.demo, Dir: s.demoDir(), Tenant: defaultName, Each: filesEach}
}

// claimDemo says, before a first start has written anything, whether the demo can live here, and marks the data directory as one.
func (s *settings) claimDemo(ctx context.Context, d *db.DB, log *slog.Logger) error {
	if s.demo == 0 {
		if sim.Held(s.demoDir()) {
			log.WarnContext(ctx, "this data directory is a demo's, and its simulated machines are away: they come with --demo")
		}
		return nil
	}
	if !sim.Held(s.demoDir()) {
		// The directory is new; the database need not be.
		census, err := node.TakeCensus(ctx, d.Pool())
		if err != nil {
			return err
		}
		if len(census) > 0 {
			return fault.New(fault.InvalidState, nil, "the database holds nodes already, so no machines are simulated in it; give the demo a database of its own")
		}
	}
	c := s.fleet()
	return c.Claim()
}

// simulate lets the demo's machines live beside the server until ctx ends.
func (s *settings) simulate(ctx context.Context, g *errgroup.Group, apiURL, gateway string, log *slog.Logger) error {
	token, err := os.ReadFile(filepath.Join(s.dataDir, adminTokenFile))
	if err != nil {
		return fault.Because(fault.InvalidState, err, nil, "the admin's token cannot be read")
	}
	c := s.fleet()
	c.Server, c.Token, c.Gateways, c.Log = apiURL, strings.TrimSpace(string(token)), []string{gateway}, log.With("part", "sim")
	fleet, err := sim.New(c)
	if err != nil {
		return err
	}
	g.Go(func() error { return fleet.Run(ctx) })
	return nil
}
