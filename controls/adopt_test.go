package controls_test

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// session gives the node a live session of a boot whose inventory is in.
func (b *bundle) session(nodeID string, number int64, boot string) {
	b.Helper()
	b.exec(`insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
		values ($1, 'ses', $2, 'gw', $3, '1', '{}', 0, now())
		on conflict (node_id) do update set number = excluded.number, boot_id = excluded.boot_id, disconnected_at = null`, nodeID, number, boot)
	b.exec(`update nodes set connectivity = 'CONNECTED' where id = $1`, nodeID)
}

func (b *bundle) reports(nodeID string, number int64, gpus ...string) {
	b.Helper()
	var facts health.Facts
	for i, uuid := range gpus {
		facts.GPUs = append(facts.GPUs, health.GPU{UUID: uuid, Index: i, Model: "H100"})
	}
	store := &health.Store{DB: b.db, Nodes: b.controls.Nodes, Log: slog.New(slog.DiscardHandler)}
	require.NoError(b, store.Report(b.Context(), nodeID, number, facts))
}

func (b *bundle) checks(nodeID string) map[string]health.Check {
	b.Helper()
	by, err := health.ChecksOf(b.Context(), b.db.Pool(), []string{nodeID})
	require.NoError(b, err)
	out := map[string]health.Check{}
	for _, c := range by[nodeID] {
		out[c.Name] = c
	}
	return out
}

func TestAdopt(t *testing.T) {
	t.Parallel()

	t.Run("An adopted node leaves placement until the checks of this run pass, and keeps what it holds", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.session(n, 1, "boot-1")
		b.reports(n, 1, "GPU-1")
		r := b.book(n, time.Hour)
		done, err := b.controls.Adopt(t.Context(), b.edit(b.alex, n, "GPU replaced"))
		require.NoError(t, err)
		require.Equal(t, node.Adopting, done.Node.ProvisionState)
		_, err = b.bookings.Create(t.Context(), placement.Booking{Who: b.alex, TenantID: "acme", NodeID: n})
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		require.True(t, r.State() == placement.Active)
		run := done.Node.AcceptanceRun
		for _, c := range b.checks(n) {
			require.Equal(t, health.CheckPending, c.Status)
			require.EqualValues(t, run, c.RunID)
		}
		// A look for an older run is a look for nothing.
		again, err := b.controls.Adopt(t.Context(), b.edit(b.sam, n, ""))
		require.NoError(t, err)
		require.True(t, again.Changed)
		require.NotEqual(t, run, again.Node.AcceptanceRun)
		require.NoError(t, b.controls.LookAtAcceptance(t.Context(), n, run))
		require.Equal(t, node.Adopting, b.get(n).ProvisionState)
		require.Equal(t, health.CheckPending, b.checks(n)["session"].Status)
		for range 2 {
			require.NoError(t, b.controls.LookAtAcceptance(t.Context(), n, again.Node.AcceptanceRun))
		}
		v := b.get(n)
		require.Equal(t, node.Adopted, v.ProvisionState)
		require.NotNil(t, v.AdoptedAt)
		got := b.checks(n)
		require.Len(t, got, 4)
		for name, c := range got {
			require.Equal(t, health.CheckPassed, c.Status, name)
			require.NotNil(t, c.DurationMs(), name)
			require.EqualValues(t, "boot-1", c.BootID, name)
		}
		require.Contains(t, got["session"].Evidence, "boot=boot-1")
		require.Equal(t, []string{"node.adopting", "node.adopting", "node.adopted"}, without(b.log(n), "node.inventory", "reservation.created"))
	})

	t.Run("The net looks where nobody did", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, silent := b.node(), b.node()
		b.session(n, 1, "boot-1")
		b.reports(n, 1)
		for _, nodeID := range []string{n, silent} {
			_, err := b.controls.Adopt(t.Context(), b.edit(b.alex, nodeID, ""))
			require.NoError(t, err)
		}
		require.NoError(t, b.controls.CatchAdopting(t.Context()))
		require.Equal(t, node.Adopted, b.get(n).ProvisionState)
		require.Equal(t, node.Adopting, b.get(silent).ProvisionState, "a node without a session waits")
		require.Contains(t, b.get(silent).StatusSentence(time.Now()), "adopting")
	})

	t.Run("A booked device that is not there fails it, with phase and sentence; by another boot its checks count anew", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.session(n, 1, "boot-1")
		b.reports(n, 1, "GPU-1", "GPU-2")
		_, err := b.bookings.Create(t.Context(), placement.Booking{Who: b.alex, TenantID: "acme", NodeID: n, Devices: []string{"GPU-2"}})
		require.NoError(t, err)
		b.exec(`update nodes set adopted_at = now() where id = $1`, n)
		b.reports(n, 1, "GPU-1")
		require.Equal(t, node.Adopted, b.get(n).ProvisionState, "nobody asked for acceptance")
		done, err := b.controls.Adopt(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, b.controls.LookAtAcceptance(t.Context(), n, done.Node.AcceptanceRun))
		}
		v := b.get(n)
		require.Equal(t, node.Failed, v.ProvisionState)
		require.Equal(t, node.PhaseAcceptance, v.Failure.Phase)
		require.Contains(t, v.Failure.Message, "GPU-2")
		require.Equal(t, health.CheckFailed, b.checks(n)["devices"].Status)
		require.Equal(t, []string{"missing=GPU-2"}, b.checks(n)["devices"].Evidence)
		require.Equal(t, 1, b.count(n, "node.adoption-failed"))
		var told health.AdoptionFailed
		all := b.events(n)
		require.NoError(t, json.Unmarshal(all[len(all)-1].Data, &told))
		require.Equal(t, []string{done.Node.AcceptanceRun, "ACCEPTANCE", "devices"}, []string{told.RunID, told.Phase, told.Check})
		// It can't be adopted by hand now, and the same boot changes nothing; the repaired machine's next boot does.
		_, err = b.controls.Adopt(t.Context(), b.edit(b.alex, n, ""))
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		b.reports(n, 1, "GPU-1", "GPU-2")
		require.Equal(t, node.Failed, b.get(n).ProvisionState)
		b.session(n, 2, "boot-2")
		b.reports(n, 2, "GPU-1", "GPU-2")
		require.Equal(t, node.Adopted, b.get(n).ProvisionState)
		require.EqualValues(t, "boot-2", b.checks(n)["devices"].BootID)
	})

	t.Run("Before the first adoption a failure is one of enrollment", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.session(n, 1, "boot-1")
		b.reports(n, 1, "GPU-1")
		_, err := b.bookings.Create(t.Context(), placement.Booking{Who: b.alex, TenantID: "acme", NodeID: n, Devices: []string{"GPU-1"}})
		require.NoError(t, err)
		b.exec(`update nodes set provision_state = 'ADOPTING', adopted_at = null where id = $1`, n)
		b.reports(n, 1)
		require.Equal(t, node.PhaseEnrollment, b.get(n).Failure.Phase)
	})

	t.Run("Every other state is INVALID_STATE", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, state := range []node.ProvisionState{node.Enrolling, node.Provisioning, node.Retiring, node.Retired} {
			n := b.node()
			b.state(n, state, "")
			_, err := b.controls.Adopt(t.Context(), b.edit(b.alex, n, ""))
			require.Equal(t, fault.InvalidState, fault.CodeOf(err))
			require.Equal(t, state, fault.From(err).Details["provisionState"])
			require.Empty(t, b.log(n))
		}
	})

	t.Run("A9 A5 cordon, taints and labels stay through a run", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.taint(n, []string{"rma"}, nil)
		_, err := b.cordon(t.Context(), b.edit(b.alex, n, "mine"))
		require.NoError(t, err)
		_, err = b.controls.Label(t.Context(), b.edit(b.alex, n, ""), controls.Labels{Set: map[string]string{"rack": "b7"}})
		require.NoError(t, err)
		before := b.get(n)
		b.session(n, 1, "boot-1")
		b.reports(n, 1)
		done, err := b.controls.Adopt(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		require.NoError(t, b.controls.LookAtAcceptance(t.Context(), n, done.Node.AcceptanceRun))
		after := b.get(n)
		require.Equal(t, node.Adopted, after.ProvisionState)
		require.Equal(t, []any{before.Cordon, before.Reasons, before.Labels}, []any{after.Cordon, after.Reasons, after.Labels})
	})
}

// without gives the types that are none of these.
func without(types []string, these ...string) (out []string) {
	for _, t := range types {
		drop := false
		for _, other := range these {
			drop = drop || t == other
		}
		if !drop {
			out = append(out, t)
		}
	}
	return out
}
