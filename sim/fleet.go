package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// Config says what a fleet is and where it lives.
type Config struct {
	// Seed makes the fleet and its acts.
	Seed uint64
	// Machines is how many there are.
	Machines int
	// Dir keeps the machines' identities, so that the same fleet comes back at the next run.
	Dir string
	// Server is the API's URL, Token a bearer token that may do everything.
	Server, Token string
	// Gateways are where machines connect to, as host:port; they spread over them.
	Gateways []string
	// Tenant owns most machines; two guests, sim-globex and sim-initech, own the others.
	Tenant string
	// Still leaves the acts out: the machines only live.
	Still bool
	// Each is how many open files a machine costs this process; 0 means 2: its connection, and its lock. In the server's own process it is one more.
	Each int
	// Log must not be nil.
	Log *slog.Logger
}

const (
	// MaxMachines bounds a fleet to what one gateway takes.
	MaxMachines = 20_000
	// joinsAtOnce is how many machines join at a time. It is the fleet's own admission: a gateway would tell a storm to come back later.
	joinsAtOnce = 8
	// startsPerSecond is how many machines that have joined before connect each second.
	startsPerSecond = 200
	// spareFiles are the open files for everything else.
	spareFiles = 256
	version    = "sim"
)

// Fleet is simulated machines that live.
type Fleet struct {
	Config

	api      *api
	machines []*machine
	pools    map[[2]string]string // ids by tenant and name
	joined   atomic.Int64
	done     atomic.Int64
	refused  atomic.Int64
	work     sync.WaitGroup
}

// Figures are what a fleet has come to.
type Figures struct {
	// Joined are the machines that are nodes.
	Joined int
	// Acts are those that happened, Refused those that the control plane refused or that found no machine.
	Acts, Refused int
}

// Figures gives them as they are now.
func (f *Fleet) Figures() Figures {
	return Figures{Joined: int(f.joined.Load()), Acts: int(f.done.Load()), Refused: int(f.refused.Load())}
}

// Claim takes a directory for a fleet, or finds it there, before anything is dialled: INVALID_INPUT for a setting, INVALID_STATE when the directory holds
// a fleet of another seed, or the process may not open enough files. A repeat changes nothing.
func (c *Config) Claim() error {
	if c.Machines < 1 || c.Machines > MaxMachines {
		return fault.Invalid("machines", fmt.Sprintf("must be 1 to %d", MaxMachines), 0)
	}
	if c.Each == 0 {
		c.Each = 2
	}
	if err := enoughFiles(c.Machines, c.Each); err != nil {
		return err
	}
	return keepRecord(c.Dir, c.Seed)
}

// New makes a fleet; it claims its directory.
func New(c Config) (*Fleet, error) {
	if len(c.Gateways) == 0 {
		return nil, fault.Invalid("gateway", "must name a gateway", 0)
	}
	if err := c.Claim(); err != nil {
		return nil, err
	}
	f := &Fleet{Config: c, api: newAPI(c.Server, c.Token), pools: map[[2]string]string{}}
	hardware := Machines(c.Seed, c.Machines)
	for i := range hardware {
		f.machines = append(f.machines, newMachine(&hardware[i]))
	}
	return f, nil
}

// enoughFiles says whether the process may open what so many machines need. Go has raised the soft limit to the hard one by itself.
func enoughFiles(machines, each int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil //nolint:nilerr // where nobody can say, trying is the answer
	}
	need := uint64(machines*each + spareFiles)
	if limit.Cur >= need {
		return nil
	}
	return fault.New(fault.InvalidState, fault.Details{"need": need, "limit": limit.Cur},
		"%d machines need %d open files and this process may have %d; raise the limit (ulimit -Hn %d, LimitNOFILE= in a unit), or simulate at most %d",
		machines, need, limit.Cur, need, (max(limit.Cur, spareFiles)-spareFiles)/uint64(each))
}

// record says which fleet a directory holds.
type record struct {
	Seed uint64 `json:"seed"`
}

func recordFile(dir string) string { return filepath.Join(dir, "fleet.json") }

// Held says whether a directory holds a fleet.
func Held(dir string) bool {
	_, err := os.Stat(recordFile(dir))
	return err == nil
}

// keepRecord takes the directory for a fleet, or finds it there.
func keepRecord(dir string, seed uint64) error {
	var r record
	text, err := os.ReadFile(recordFile(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if text, err = json.Marshal(record{seed}); err != nil {
			return fmt.Errorf("write which fleet this is: %w", err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fault.Because(fault.InvalidState, err, nil, "%s cannot be made", dir)
		}
		if err := os.WriteFile(recordFile(dir), append(text, '\n'), 0o600); err != nil {
			return fault.Because(fault.InvalidState, err, nil, "%s cannot be written", recordFile(dir))
		}
		return nil
	case err != nil:
		return fault.Because(fault.InvalidState, err, nil, "%s cannot be read", recordFile(dir))
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return fault.Because(fault.InvalidState, err, nil, "%s does not say which fleet this is; remove %s to begin anew", recordFile(dir), dir)
	}
	if r.Seed != seed {
		return fault.New(fault.InvalidState, fault.Details{"seed": r.Seed},
			"%s holds the fleet of seed %d: go on with that seed, or begin another fleet in an empty directory", dir, r.Seed)
	}
	return nil
}

// tenant names the owner of a machine.
func (f *Fleet) tenant(h *Hardware) string {
	return [guests + 1]string{f.Tenant, "sim-globex", "sim-initech"}[h.Tenant]
}

// Run lets the fleet live until ctx ends, and then ends every session in order. It gives an error only when it can't begin, or not go on at all.
func (f *Fleet) Run(ctx context.Context) error {
	defer f.work.Wait()
	if err := f.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		for _, m := range f.machines {
			f.work.Go(m.halt)
		}
	}()
	began := time.Now()
	if !f.Still {
		f.work.Go(func() { f.play(running) })
	}
	f.join(running)
	if ctx.Err() == nil {
		f.Log.InfoContext(ctx, "the simulated machines live", "machines", f.joined.Load(), "of", f.Machines, "seed", f.Seed, "took", time.Since(began).Round(time.Millisecond))
	}
	<-ctx.Done()
	return nil
}

// prepare makes the tenants and pools, and agents that know where to go.
func (f *Fleet) prepare(ctx context.Context) error {
	for _, m := range f.machines {
		tenant, pool := f.tenant(m.Hardware), m.Pool()
		if f.pools[[2]string{tenant, pool}] != "" {
			continue
		}
		if err := f.api.act(ctx, "tenantCreate", "TenantCreateInput", map[string]any{"tenantId": tenant}); err != nil {
			return fmt.Errorf("make the tenant %s: %w", tenant, err)
		}
		var made struct {
			PoolCreate struct{ Pool struct{ ID string } }
		}
		err := f.api.do(ctx, `mutation($input: PoolCreateInput!) { poolCreate(input: $input) { pool { id } } }`,
			map[string]any{"input": map[string]any{"tenantId": tenant, "name": pool}}, &made)
		if err != nil {
			return fmt.Errorf("make the pool %s of %s: %w", pool, tenant, err)
		}
		f.pools[[2]string{tenant, pool}] = made.PoolCreate.Pool.ID
	}
	return f.tidy(ctx)
}

// join lets every machine join that has not, a few at a time, and starts all.
func (f *Fleet) join(ctx context.Context) {
	next := make(chan *machine)
	var workers sync.WaitGroup
	for range joinsAtOnce {
		workers.Go(func() {
			for m := range next {
				if err := f.bringUp(ctx, m); err != nil && ctx.Err() == nil {
					f.Log.ErrorContext(ctx, "a simulated machine could not join", "machine", m.Hardware.Hostname, "error", err)
				}
			}
		})
	}
	pace := time.NewTicker(time.Second / startsPerSecond)
	defer pace.Stop()
	for _, m := range f.machines {
		select {
		case next <- m:
		case <-ctx.Done():
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
}

// bringUp makes a machine a node, if it is none, and starts its agent.
func (f *Fleet) bringUp(ctx context.Context, m *machine) error {
	dir := filepath.Join(f.Dir, "machines", m.Hardware.Hostname)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	status, err := f.agentOf(m, dir, "").Status()
	if err == nil && status.Joined && time.Now().After(status.NotAfter) {
		// It was away for longer than its certificate lives: the same machine gets a new one by a new token.
		err = forget(dir)
		status.Joined = false
	}
	if err != nil {
		return err
	}
	node := status.NodeID
	for try := 0; !status.Joined; try++ {
		joined, err := f.joinOnce(ctx, m, dir)
		if err == nil {
			node = joined.Credential.NodeID
			break
		}
		if try == tries || ctx.Err() != nil {
			return err
		}
		if err := rest(ctx, time.Second<<try); err != nil {
			return err
		}
	}
	m.begin(ctx, f.agentOf(m, dir, ""), node, f.failed)
	f.joined.Add(1)
	return nil
}

// joinOnce takes a token and joins with it.
func (f *Fleet) joinOnce(ctx context.Context, m *machine, dir string) (agent.Joined, error) {
	tenant := f.tenant(m.Hardware)
	var labels []map[string]string
	for key, value := range m.Labels() {
		labels = append(labels, map[string]string{"key": key, "value": value})
	}
	var made struct {
		JoinTokenCreate struct{ Secret, CaFingerprint string }
	}
	err := f.api.do(ctx, `mutation($input: JoinTokenCreateInput!) { joinTokenCreate(input: $input) { secret caFingerprint } }`,
		map[string]any{"input": map[string]any{"tenantId": tenant, "poolId": f.pools[[2]string{tenant, m.Pool()}], "labels": labels}}, &made)
	if err != nil {
		return agent.Joined{}, fmt.Errorf("make a join token: %w", err)
	}
	token, err := wire.ParseToken(made.JoinTokenCreate.Secret)
	if err != nil {
		return agent.Joined{}, fmt.Errorf("read the join token: %w", err)
	}
	return f.agentOf(m, dir, made.JoinTokenCreate.CaFingerprint).Join(ctx, agent.Join{Token: token})
}

// agentOf makes the machine's agent. The gateways are turned, so that a fleet spreads over them also when it joins.
func (f *Fleet) agentOf(m *machine, dir, caFingerprint string) *agent.Agent {
	at := m.Index % len(f.Gateways)
	servers := append(append([]string{}, f.Gateways[at:]...), f.Gateways[:at]...)
	return agent.New(agent.Options{
		Config:  agent.Config{Servers: servers, CAFingerprint: caFingerprint, StateDir: dir, Attestor: agent.AttestorToken},
		Machine: m, Version: version, Dial: m.cable.dial, Log: slog.New(slog.DiscardHandler),
	})
}

// forget takes the certificate away; the identity stays, so the machine comes back as the same node.
func forget(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "credential*"))
	if err != nil {
		return fmt.Errorf("look for the certificate: %w", err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("take the certificate away: %w", err)
		}
	}
	return nil
}

func (f *Fleet) failed(m *machine, err error) {
	f.Log.Error("a simulated machine's agent ended", "machine", m.Hardware.Hostname, "error", err)
}
