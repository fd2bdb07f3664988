// Package agent_test lets the real agent of bcd speak to a real gateway on a real database, over real TLS. Only the hardware is made up, and the
// certificates come from an authority of the test.
package agent_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "acme"

// patience is how long a test waits for what must come, on a machine that runs many tests at once.
const patience = 60 * time.Second

// shortLived signs the certificates of nodes for as long as a test says; 0 leaves it to the authority.
type shortLived struct {
	*pkitest.Issuer
	life   atomic.Int64
	before atomic.Pointer[func()] // what happens before it signs
}

// SignNode signs a node's certificate.
func (i *shortLived) SignNode(ctx context.Context, csr *x509.CertificateRequest, p pki.NodeProfile) ([]*x509.Certificate, error) {
	if f := i.before.Load(); f != nil {
		(*f)()
	}
	p.Lifetime = time.Duration(i.life.Load())
	return i.Issuer.SignNode(ctx, csr, p)
}

// bundle is an installation with one gateway that runs.
type bundle struct {
	db      *db.DB
	nodes   *node.Store
	pki     *pki.Store
	issuer  *shortLived
	pool    string
	config  gateway.Config
	address string
	stop    func() error
}

func setup(t *testing.T) *bundle {
	t.Helper()
	in := pkitest.NewInstallation(t)
	d, nodes, log := in.DB, in.Nodes, in.PKI.Log
	b := &bundle{db: d, nodes: nodes, pki: in.PKI, issuer: &shortLived{Issuer: in.Issuer}, pool: in.Pool}
	b.pki.Issuer = b.issuer
	b.config = gateway.Config{
		ID: id.New(id.Gateway), GetCertificate: in.Gateway(t).GetCertificate, Root: b.issuer.Root(), Identities: b.pki,
		Sessions: &liveness.Store{DB: d, Nodes: nodes, Log: log}, Health: &health.Store{DB: d, Nodes: nodes, Log: log}, Log: log,
		Feed:       pki.NewRevocationFeed(d, pki.FeedOptions{Poll: 50 * time.Millisecond, Full: 100 * time.Millisecond, Log: log}),
		FlushEvery: 100 * time.Millisecond, LookEvery: 50 * time.Millisecond, Gather: 2 * time.Millisecond,
	}
	b.start(t, "127.0.0.1:0")
	t.Cleanup(func() { require.NoError(t, b.stop()) })
	return b
}

// start runs a gateway; stop ends it, once.
func (b *bundle) start(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	g := gateway.New(b.config)
	b.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }()
	b.stop = func() error {
		cancel()
		err := <-ended
		ended <- nil
		return err
	}
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.db.Pool().Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// one reads one value.
func one[T any](t *testing.T, b *bundle, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// until waits until the query gives true.
func (b *bundle) until(t *testing.T, what, sql string, args ...any) {
	t.Helper()
	require.Eventually(t, func() bool {
		var v bool
		err := b.db.Pool().QueryRow(t.Context(), sql, args...).Scan(&v)
		return err == nil && v
	}, patience, 10*time.Millisecond, what)
}

func (b *bundle) isNow(t *testing.T, nodeID string, c node.Connectivity) {
	t.Helper()
	b.until(t, "the node must become "+string(c), `select connectivity = $2 from nodes where id = $1`, nodeID, c)
}

func (b *bundle) token(t *testing.T) wire.Token {
	t.Helper()
	made, err := b.pki.JoinTokenCreate(t.Context(), iam.System("alex"), pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool})
	require.NoError(t, err)
	token, err := wire.ParseToken(made.Secret)
	require.NoError(t, err)
	return token
}

// madeUp is hardware out of thin air.
type madeUp struct{ name string }

func (m madeUp) Print(context.Context) *wire.Print {
	return &wire.Print{MachineId: m.name, BootId: "boot-1"}
}
func (m madeUp) Hostname(context.Context) string { return m.name }
func (m madeUp) Inventory(context.Context) *wire.Inventory {
	return &wire.Inventory{System: &wire.System{Hostname: m.name}, Memory: &wire.Memory{TotalBytes: 1 << 30}, Cpu: &wire.Cpu{Arch: "amd64"}}
}
func (m madeUp) Running(context.Context) ([]string, bool) { return nil, true }

// silentMachine can't say what it is made of before it is ready.
type silentMachine struct {
	madeUp
	ready chan struct{}
}

func (m *silentMachine) Inventory(ctx context.Context) *wire.Inventory {
	select {
	case <-m.ready:
		return m.madeUp.Inventory(ctx)
	case <-ctx.Done():
		return nil
	}
}

// node reads the node as the API shows it.
func (b *bundle) node(t *testing.T, nodeID string) *node.Node {
	t.Helper()
	v, err := b.nodes.Get(t.Context(), iam.System("test"), tenant, nodeID)
	require.NoError(t, err)
	return v.Node
}

// machine is the agent on one machine; stateDir survives its restarts.
type machine struct {
	*agent.Agent
	stateDir string
}

func (b *bundle) machine(t *testing.T, stateDir string, change ...func(*agent.Options)) *machine {
	t.Helper()
	config, err := agent.Config{Servers: []string{b.address}, CAFingerprint: pki.Fingerprint(b.issuer.CA.Root), StateDir: stateDir}.Check()
	require.NoError(t, err)
	options := agent.Options{Config: config, Machine: madeUp{"host-1"}, Version: "1.0.0", Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&options)
	}
	return &machine{Agent: agent.New(options), stateDir: stateDir}
}

// join makes a fresh machine a node.
func (b *bundle) join(t *testing.T) (m *machine, nodeID string) {
	t.Helper()
	m = b.machine(t, filepath.Join(t.TempDir(), "state"))
	joined, err := m.Join(t.Context(), agent.Join{Token: b.token(t)})
	require.NoError(t, err)
	return m, joined.Credential.NodeID
}

// run keeps the machine's session until stop or the test's end.
func (m *machine) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stop = func() {
		cancel()
		err := <-ended
		ended <- nil
		require.NoError(t, err)
	}
	t.Cleanup(stop)
	return stop
}

// state waits until the machine's own status shows it.
func (m *machine) state(t *testing.T, want agent.SessionState) agent.Session {
	t.Helper()
	var last agent.Session
	require.Eventually(t, func() bool {
		status, err := m.Status()
		if err == nil && status.Session != nil {
			last = *status.Session
		}
		return last.State == want
	}, patience, 10*time.Millisecond, string(want))
	return last
}

// words keeps what an agent logs.
type words struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *words) has(text string) func() bool {
	return func() bool { return w.count(text) > 0 }
}

// count says how many lines have the text.
func (w *words) count(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for line := range strings.Lines(w.b.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func TestMachine(t *testing.T) {
	t.Parallel()

	t.Run("a node says why it is not taken in yet, at each step", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		silent := &silentMachine{madeUp: madeUp{"host-1"}, ready: make(chan struct{})}
		m := b.machine(t, filepath.Join(t.TempDir(), "state"), func(o *agent.Options) { o.Machine = silent })
		joined, err := m.Join(t.Context(), agent.Join{Token: b.token(t)})
		require.NoError(t, err)
		nodeID := joined.Credential.NodeID
		says := func() string { return b.node(t, nodeID).StatusSentence(time.Now()) }
		require.Equal(t, "adopting: its daemon has not connected yet", says())
		stop := m.run(t)
		b.isNow(t, nodeID, node.Connected)
		require.Equal(t, "adopting: its inventory is awaited", says())
		stop()
		b.isNow(t, nodeID, node.Disconnected)
		require.Equal(t, "adopting: its daemon holds no session", says())
		close(silent.ready)
		b.machine(t, m.stateDir, func(o *agent.Options) { o.Machine = silent }).run(t)
		b.until(t, "it is adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, nodeID)
		require.Equal(t, "in service", says())
	})

	t.Run("a machine joins, connects and is adopted", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, nodeID := b.join(t)
		status, err := m.Status()
		require.NoError(t, err)
		require.Equal(t, status.Key, one[string](t, b, `select key from nodes where id = $1`, nodeID))
		require.Equal(t, status.Serial, one[string](t, b, `select serial from node_certs where node_id = $1 and state in ('PENDING', 'ACTIVE')`, nodeID),
			"both sides spell a serial number alike")
		m.run(t)
		b.isNow(t, nodeID, node.Connected)
		b.until(t, "it is adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, nodeID)
		b.until(t, "the report says that nothing runs", `select known from node_running where node_id = $1`, nodeID)
	})

	t.Run("C8 a stopped agent leaves its node disconnected and as it was", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, nodeID := b.join(t)
		stop := m.run(t)
		b.until(t, "it is adopted", `select connectivity = 'CONNECTED' and provision_state = 'ADOPTED' from nodes where id = $1`, nodeID)
		reservation := id.New(id.Reservation)
		b.exec(t, `insert into node_reasons (node_id, reason, owner, by, since) values ($1, 'taint:burn-in', 'OPERATOR', 'alex', now())`, nodeID)
		b.exec(t, `insert into node_labels (node_id, key, value, source) values ($1, 'rack', 'b7', 'OPERATOR')`, nodeID)
		b.exec(t, `insert into reservations (id, tenant_id, created_by, created_at) values ($1, $2, 'alex', now())`, reservation, tenant)
		b.exec(t, `insert into allocations (id, reservation_id, tenant_id, node_id, starts_at) values ($1, $2, $3, $4, now())`,
			id.New(id.Allocation), reservation, tenant, nodeID)
		const kept = `select jsonb_build_object(
			'node', (select to_jsonb(n) - 'connectivity' - 'connectivity_since' from nodes n where n.id = $1),
			'reasons', (select jsonb_agg(to_jsonb(r) order by reason) from node_reasons r where r.node_id = $1),
			'labels', (select jsonb_agg(to_jsonb(l) order by key) from node_labels l where l.node_id = $1),
			'allocations', (select jsonb_agg(to_jsonb(a) order by id) from allocations a where a.node_id = $1))`
		before := one[map[string]any](t, b, kept, nodeID)
		stop()
		b.isNow(t, nodeID, node.Disconnected)
		require.Equal(t, before, one[map[string]any](t, b, kept, nodeID))
	})

	for name, c := range map[string]struct {
		clock func() time.Time
		says  string
	}{
		"an hour behind": {func() time.Time { return time.Now().Add(-time.Hour) }, "(59|60) min behind"},
		"an hour ahead":  {func() time.Time { return time.Now().Add(time.Hour) }, "(59|60) min ahead"},
		"in 1970":        {func() time.Time { return time.Unix(3600, 0) }, "[0-9]+ days behind"},
	} {
		t.Run("D21 a machine whose clock is "+name+" joins and connects; the skew stands in holds and statusSentence until it is right", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var right atomic.Bool
			odd := func(o *agent.Options) {
				o.Clock = func() time.Time {
					if right.Load() {
						return time.Now()
					}
					return c.clock()
				}
			}
			m := b.machine(t, filepath.Join(t.TempDir(), "state"), odd)
			joined, err := m.Join(t.Context(), agent.Join{Token: b.token(t)})
			require.NoError(t, err)
			nodeID := joined.Credential.NodeID
			stop := m.run(t)
			b.until(t, "the condition comes", `select count(*) = 1 from node_reasons where node_id = $1 and reason = 'condition:clock-skew'`, nodeID)
			n := b.node(t, nodeID)
			require.Equal(t, node.Connected, n.Connectivity)
			require.Equal(t, node.Adopting, n.ProvisionState)
			require.Contains(t, n.StatusSentence(time.Now()), "adopting: its clock must be right first")
			require.Regexp(t, "condition:clock-skew: the machine's clock is "+c.says, n.StatusSentence(time.Now()))
			var held bool
			for _, h := range n.Holds() {
				held = held || h.Reason == "condition:clock-skew" && regexp.MustCompile(c.says).MatchString(string(h.Message))
			}
			require.True(t, held, "%v", n.Holds())
			stop()
			right.Store(true)
			b.machine(t, m.stateDir, odd).run(t)
			b.until(t, "it is adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, nodeID)
			require.Equal(t, "in service", b.node(t, nodeID).StatusSentence(time.Now()))
		})
	}

	t.Run("D7 restarted ten times it is one node", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, nodeID := b.join(t)
		for range 10 {
			again := b.machine(t, m.stateDir)
			stop := again.run(t)
			b.isNow(t, nodeID, node.Connected)
			stop()
			b.isNow(t, nodeID, node.Disconnected)
		}
		require.Equal(t, 1, one[int](t, b, `select count(*) from nodes`))
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs`))
	})

	t.Run("G7 agents that a crowded gateway turns away come back when it said, and all get in", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.NoError(t, b.stop())
		b.config.HellosPerSecond = 2
		b.start(t, b.address)
		turnedAway := &words{}
		var nodes []string
		var machines []*machine
		for range 12 {
			m := b.machine(t, filepath.Join(t.TempDir(), "state"), func(o *agent.Options) { o.Log = slog.New(slog.NewTextHandler(turnedAway, nil)) })
			joined, err := m.Join(t.Context(), agent.Join{Token: b.token(t)})
			require.NoError(t, err)
			nodes, machines = append(nodes, joined.Credential.NodeID), append(machines, m)
		}
		for _, m := range machines { // all at once, however long a join took
			m.run(t)
		}
		for _, nodeID := range nodes {
			b.isNow(t, nodeID, node.Connected)
		}
		require.True(t, turnedAway.has("too many machines connect now")(), "some were turned away")
	})

	t.Run("G7 agents that lose their gateway together come back spread out, and all come back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		const fleet = 60
		for range fleet {
			m, _ := b.join(t)
			m.run(t)
		}
		b.until(t, "all are connected", `select count(*) = $1 from nodes where connectivity = 'CONNECTED'`, fleet)
		require.NoError(t, b.stop())
		b.until(t, "all are disconnected", `select count(*) = $1 from nodes where connectivity = 'DISCONNECTED'`, fleet)
		b.start(t, b.address)
		b.until(t, "all are back", `select count(*) = $1 from nodes where connectivity = 'CONNECTED'`, fleet)
		most := one[int](t, b, `
			select max(n) from (select count(*) over (order by connected_at range between current row and interval '200 milliseconds' following) as n
			                    from node_sessions) crowds`)
		require.Less(t, most, fleet/2, "no fifth of a second brings half of them back")
		require.Equal(t, 0, one[int](t, b, `select count(*) from events where type in ('node.unreachable', 'node.lost')`))
	})

	t.Run("a gateway that stops and starts has its machine back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, nodeID := b.join(t)
		m.run(t)
		b.isNow(t, nodeID, node.Connected)
		require.NoError(t, b.stop())
		m.state(t, agent.Waiting)
		b.start(t, b.address)
		m.state(t, agent.Connected)
		b.isNow(t, nodeID, node.Connected)
	})
}

func TestRecovery(t *testing.T) {
	t.Parallel()

	t.Run("D13 a revoked certificate is refused for ever, and a fresh token brings the same node back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, nodeID := b.join(t)
		m.run(t)
		b.isNow(t, nodeID, node.Connected)
		old := m.state(t, agent.Connected)
		status, err := m.Status()
		require.NoError(t, err)
		stolen, err := os.ReadFile(filepath.Join(m.stateDir, "credential"))
		require.NoError(t, err)
		b.exec(t, `update node_certs set state = 'REVOKED', ended_at = now(), ended_by = 'alex', reason = 'stolen' where serial = $1`, status.Serial)
		b.exec(t, `update nodes set credential = 'REVOKED' where id = $1`, nodeID)
		refused := m.state(t, agent.Refused)
		require.Equal(t, wire.ReasonRevoked, refused.Reason)
		require.True(t, refused.Since.After(old.Since))

		// The operator hands out a token; the running bcd goes on by itself.
		_, err = b.machine(t, m.stateDir).Join(t.Context(), agent.Join{Token: b.token(t)})
		require.NoError(t, err)
		m.state(t, agent.Connected)
		b.until(t, "one certificate is active, one revoked",
			`select (select count(*) from node_certs where node_id = $1 and state = 'ACTIVE') = 1
			 and (select state from node_certs where serial = $2) = 'REVOKED'`, nodeID, status.Serial)
		require.Equal(t, 1, one[int](t, b, `select count(*) from nodes`))

		// Whoever kept the old credential is refused at the door.
		thief := b.machine(t, filepath.Join(t.TempDir(), "state"))
		require.NoError(t, os.Mkdir(thief.stateDir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(thief.stateDir, "credential"), stolen, 0o600))
		thief.run(t)
		require.Equal(t, wire.ReasonRevoked, thief.state(t, agent.Refused).Reason)
	})

	t.Run("the rehearsal: joined once, revoked, refused three times, joined again as itself", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, nodeID := b.join(t)
		first, err := m.Status()
		require.NoError(t, err)
		stop := m.run(t)
		b.isNow(t, nodeID, node.Connected)
		stop()
		b.exec(t, `update node_certs set state = 'REVOKED', ended_at = now(), ended_by = 'alex', reason = 'rehearsal' where serial = $1`, first.Serial)
		b.exec(t, `update nodes set credential = 'REVOKED' where id = $1`, nodeID)
		refusedAgain := func() {
			before := time.Now()
			again := b.machine(t, m.stateDir)
			stop := again.run(t)
			require.Eventually(t, func() bool {
				status, err := again.Status()
				return err == nil && status.Session != nil && status.Session.State == agent.Refused && status.Session.Since.After(before) &&
					status.Session.Reason == wire.ReasonRevoked
			}, patience, 10*time.Millisecond, "it is refused with the reason")
			stop()
		}
		for range 3 {
			refusedAgain()
		}
		credential := filepath.Join(m.stateDir, "credential")
		old, err := os.ReadFile(credential)
		require.NoError(t, err)
		require.NoError(t, os.Remove(credential))
		_, err = m.Join(t.Context(), agent.Join{Token: b.token(t)})
		require.NoError(t, err)
		stop = b.machine(t, m.stateDir).run(t)
		b.isNow(t, nodeID, node.Connected)
		stop()
		status, err := m.Status()
		require.NoError(t, err)
		require.Equal(t, nodeID, status.NodeID)
		require.Equal(t, first.Key, status.Key)
		require.Equal(t, []string{"ACTIVE", "REVOKED"}, one[[]string](t, b, `select array_agg(state order by state) from node_certs where node_id = $1`, nodeID))
		require.Equal(t, 1, one[int](t, b, `select count(distinct hostname) from nodes`))
		require.Equal(t, 1, one[int](t, b, `select count(*) from nodes`))
		require.NoError(t, os.WriteFile(credential, old, 0o600))
		refusedAgain()
	})

	t.Run("D13 a lost credential comes back to the same node", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, nodeID := b.join(t)
		require.NoError(t, os.Remove(filepath.Join(m.stateDir, "credential")))
		again, err := m.Join(t.Context(), agent.Join{Token: b.token(t)})
		require.NoError(t, err)
		require.Equal(t, nodeID, again.Credential.NodeID)
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs where node_id = $1 and state in ('PENDING', 'ACTIVE')`, nodeID))
	})

	t.Run("D14 a lost identity is a new node, and the old row stays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, nodeID := b.join(t)
		require.NoError(t, os.RemoveAll(m.stateDir))
		again, err := m.Join(t.Context(), agent.Join{Token: b.token(t)})
		require.NoError(t, err)
		require.NotEqual(t, nodeID, again.Credential.NodeID)
		require.Equal(t, 2, one[int](t, b, `select count(*) from nodes where deleted_at is null`))
	})

	t.Run("D12 a certificate is renewed in its session, and counts from its first use on", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		// So short that the gateway asks for the renewal at once; the next one lives a day.
		b.issuer.life.Store(int64(patience))
		m, nodeID := b.join(t)
		first, err := m.Status()
		require.NoError(t, err)
		b.issuer.life.Store(0)
		b.exec(t, `update node_certs set not_after = clock_timestamp() + interval '5 seconds' where serial = $1`, first.Serial)
		m.run(t)
		b.until(t, "the new certificate is active and the old one superseded",
			`select (select state from node_certs where serial = $2) = 'SUPERSEDED'
			 and (select count(*) from node_certs where node_id = $1 and state = 'ACTIVE') = 1`, nodeID, first.Serial)
		require.Eventually(t, func() bool {
			now, err := m.Status()
			return err == nil && now.Serial != first.Serial && now.NodeID == nodeID
		}, patience, 10*time.Millisecond, "the machine has it as its credential")
		m.state(t, agent.Connected)
	})

	t.Run("D16 a deleted node's machine is told so, and comes back as a new one by a reset", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, nodeID := b.join(t)
		m.run(t)
		b.isNow(t, nodeID, node.Connected)
		b.exec(t, `update nodes set deleted_at = now() where id = $1`, nodeID)
		require.Equal(t, wire.ReasonDeleted, m.state(t, agent.Refused).Reason)
		other := b.machine(t, m.stateDir)
		_, err := other.Join(t.Context(), agent.Join{Token: b.token(t)})
		require.ErrorIs(t, err, agent.ErrJoined)
		again, err := other.Join(t.Context(), agent.Join{Token: b.token(t), Reset: true})
		require.NoError(t, err)
		require.NotEqual(t, nodeID, again.Credential.NodeID)
		b.isNow(t, again.Credential.NodeID, node.Connected)
	})
}
