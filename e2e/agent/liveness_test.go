package agent_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// giveUp lets an hour pass in which nothing is heard of the node, as the sweep counts it.
func (b *bundle) giveUp(t *testing.T, nodeID string) {
	t.Helper()
	b.exec(t, `update node_sessions set connected_at = connected_at - interval '1 hour', disconnected_at = disconnected_at - interval '1 hour' where node_id = $1`, nodeID)
	b.exec(t, `update node_liveness set last_seen = last_seen - interval '1 hour' where node_id = $1`, nodeID)
	b.exec(t, `update liveness_controller set looked_at = now(), hold_until = now(), holder = ''`)
	swept, err := liveness.NewSweeper(b.config.Sessions).Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, swept.Unreachable)
	require.Equal(t, node.Unreachable, one[node.Connectivity](t, b, `select connectivity from nodes where id = $1`, nodeID))
}

// keep is everything of a node but its connectivity, with what comes and goes with it.
const keep = `select jsonb_build_object(
	'node', (select to_jsonb(n) - 'connectivity' - 'connectivity_since' - 'version' - 'changed_by' - 'changed_at' from nodes n where n.id = $1),
	'reasons', (select jsonb_agg(to_jsonb(r) order by reason) from node_reasons r where r.node_id = $1 and reason <> 'unreachable'),
	'labels', (select jsonb_agg(to_jsonb(l) order by key) from node_labels l where l.node_id = $1),
	'drains', (select jsonb_agg(to_jsonb(d) order by id) from node_drains d where d.node_id = $1),
	'allocations', (select jsonb_agg(to_jsonb(a) order by id) from allocations a where a.node_id = $1))`

// burden gives the node a bit of everything that must outlive its sessions.
func (b *bundle) burden(t *testing.T, nodeID string) {
	t.Helper()
	reservation := id.New(id.Reservation)
	b.exec(t, `update nodes set cordoned = true, cordon_by = 'alex', cordon_at = now(), cordon_reason = 'BIOS', maintenance = true where id = $1`, nodeID)
	b.exec(t, `insert into node_reasons (node_id, reason, owner, by, since) values
		($1, 'taint:burn-in', 'operator', 'alex', now()), ($1, 'taint:unreachable', 'operator', 'alex', now()), ($1, 'draining', 'drain-controller', 'alex', now())`, nodeID)
	b.exec(t, `insert into node_drains (id, node_id, state, by, started_at) values ($2, $1, 'DRAINING', 'alex', now())`, nodeID, id.New(id.Drain))
	b.exec(t, `insert into node_labels (node_id, key, value, source) values ($1, 'rack', 'b7', 'OPERATOR')`, nodeID)
	b.exec(t, `insert into reservations (id, tenant_id, created_by, created_at) values ($1, $2, 'alex', now())`, reservation, tenant)
	b.exec(t, `insert into allocations (id, reservation_id, tenant_id, node_id, starts_at, started_at) values ($1, $2, $3, $4, now(), now())`,
		id.New(id.Allocation), reservation, tenant, nodeID)
}

func TestA8(t *testing.T) {
	t.Parallel()
	run := func(name string, back func(t *testing.T, b *bundle, m *machine)) {
		t.Run("A8 cordon, drain, maintenance, taints and an open allocation outlive: "+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			m, nodeID := b.join(t)
			stop := m.run(t)
			b.until(t, "it is adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, nodeID)
			b.burden(t, nodeID)
			before := one[map[string]any](t, b, keep, nodeID)
			stop()
			b.isNow(t, nodeID, node.Disconnected)
			require.Equal(t, before, one[map[string]any](t, b, keep, nodeID), "disconnected")
			b.giveUp(t, nodeID)
			require.Equal(t, before, one[map[string]any](t, b, keep, nodeID), "given up")
			back(t, b, m)
			b.until(t, "only unreachable clears", `select connectivity = 'CONNECTED' and not exists
				(select from node_reasons where node_id = $1 and reason = 'unreachable') from nodes where id = $1`, nodeID)
			require.Equal(t, before, one[map[string]any](t, b, keep, nodeID), "back")
			require.Equal(t, 1, one[int](t, b, `select count(*)::int from nodes`), "it is the same node")
			require.Equal(t, 1, one[int](t, b, `select count(*)::int from events where type = 'node.reconnected'`))
		})
	}
	run("the agent starts again", func(t *testing.T, b *bundle, m *machine) {
		t.Helper()
		b.machine(t, m.stateDir).run(t)
	})
	run("the gateway is lost and back", func(t *testing.T, b *bundle, m *machine) {
		t.Helper()
		require.NoError(t, b.stop())
		b.start(t, b.address)
		b.machine(t, m.stateDir).run(t)
	})
	run("a join anew with the same identity", func(t *testing.T, b *bundle, m *machine) {
		t.Helper()
		credentials, err := filepath.Glob(filepath.Join(m.stateDir, "credential*"))
		require.NoError(t, err)
		require.NotEmpty(t, credentials)
		for _, file := range credentials {
			require.NoError(t, os.Remove(file))
		}
		again := b.machine(t, m.stateDir)
		_, err = again.Join(t.Context(), agent.Join{Token: b.token(t)})
		require.NoError(t, err)
		again.run(t)
	})
	run("it moves to another gateway", func(t *testing.T, b *bundle, m *machine) {
		t.Helper()
		require.NoError(t, b.stop())
		b.config.ID = id.New(id.Gateway)
		b.start(t, "127.0.0.1:0")
		b.machine(t, m.stateDir).run(t)
	})
}

func TestPartition(t *testing.T) {
	t.Parallel()

	t.Run("C9 a partition for an hour: the allocation is whole, and nobody else can book", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, nodeID := b.join(t)
		stop := m.run(t)
		b.until(t, "it is adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, nodeID)
		authority, err := iam.NewAuthority(b.db)
		require.NoError(t, err)
		bookings := &placement.Bookings{DB: b.db, Authority: authority}
		book := func() error {
			_, err := bookings.Create(t.Context(), placement.Booking{Who: iam.System("alex"), TenantID: tenant, NodeID: nodeID})
			return err
		}
		require.NoError(t, book())
		before := one[map[string]any](t, b, keep, nodeID)
		stop()
		b.isNow(t, nodeID, node.Disconnected)
		b.giveUp(t, nodeID)
		require.Equal(t, before, one[map[string]any](t, b, keep, nodeID))
		err = book()
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		require.Contains(t, err.Error(), "unreachable")
		require.Equal(t, "unreachable", b.node(t, nodeID).StatusSentence(time.Now()))

		// C7: what it is made of comes late; until then its session alone makes it no place for work.
		silent := &silentMachine{madeUp: madeUp{"host-1"}, ready: make(chan struct{})}
		b.machine(t, m.stateDir, func(o *agent.Options) { o.Machine = silent; o.Log = slog.New(slog.DiscardHandler) }).run(t)
		b.isNow(t, nodeID, node.Connected)
		require.Equal(t, fault.InvalidState, fault.CodeOf(book()), "C7 connected, its inventory awaited")
		close(silent.ready)
		require.Eventually(t, func() bool { return book() == nil }, patience, 10*time.Millisecond, "C7 placeable with its inventory")
		require.Equal(t, 2, one[int](t, b, `select count(*)::int from allocations where released_at is null and ended_at is null`))
	})
}
