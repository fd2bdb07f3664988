package agent_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// accelerated is a machine with two GPUs, on which processes run as the test says.
type accelerated struct {
	madeUp

	busy atomic.Pointer[[]string]
}

func (m *accelerated) Inventory(ctx context.Context) *wire.Inventory {
	i := m.madeUp.Inventory(ctx)
	i.Gpus = []*wire.Gpu{{Uuid: "GPU-1", Model: "H100"}, {Uuid: "GPU-2", Index: 1, Model: "H100"}}
	return i
}

func (m *accelerated) Running(context.Context) ([]string, bool) {
	if busy := m.busy.Load(); busy != nil {
		return *busy, true
	}
	return nil, false
}

func TestDrainConfirmed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	operator := &controls.Controls{Nodes: b.nodes}
	bookings := &placement.Bookings{DB: b.db, Authority: b.nodes.Authority}
	hardware := &accelerated{madeUp: madeUp{"host-1"}}
	m := b.machine(t, filepath.Join(t.TempDir(), "state"), func(o *agent.Options) { o.Machine = hardware })
	joined, err := m.Join(t.Context(), agent.Join{Token: b.token(t)})
	require.NoError(t, err)
	nodeID := joined.Credential.NodeID

	edit := node.Edit{Who: iam.System("alex"), TenantID: tenant, NodeID: nodeID}
	// drained books both GPUs, drains, releases, and says how the drain ended.
	drained := func() node.Drain {
		t.Helper()
		_, err := operator.Uncordon(t.Context(), edit, controls.Uncordoning{})
		require.NoError(t, err)
		out, err := bookings.Create(t.Context(), placement.Booking{Who: edit.Who, TenantID: tenant, NodeID: nodeID, Devices: []string{"GPU-1", "GPU-2"}, Duration: time.Hour})
		require.NoError(t, err)
		_, err = operator.Drain(t.Context(), edit, controls.Draining{})
		require.NoError(t, err)
		look, err := operator.LookAtDrain(t.Context(), nodeID)
		require.NoError(t, err)
		require.False(t, look.Over)
		_, err = operator.Release(t.Context(), placement.Release{Who: edit.Who, TenantID: tenant, ReservationID: out.Reservation.ID})
		require.NoError(t, err)
		d := *b.node(t, nodeID).LastDrain
		require.Equal(t, node.Drained, d.State)
		return d
	}
	inUse := func(uuid string) *bool {
		t.Helper()
		sessions, err := liveness.SessionsOf(t.Context(), b.db.Pool(), []string{nodeID})
		require.NoError(t, err)
		s := sessions[nodeID]
		return s.InUse(uuid)
	}
	// session runs the agent anew, and waits until its report of this session is in.
	session := func(busy *[]string) (stop func()) {
		t.Helper()
		hardware.busy.Store(busy)
		stop = b.machine(t, m.stateDir, func(o *agent.Options) { o.Machine = hardware }).run(t)
		b.until(t, "its report is in, and its age", `
			select n.provision_state = 'ADOPTED' and r.session_number = s.number and r.known = $2 and l.session_number = s.number and s.disconnected_at is null
			from nodes n join node_sessions s on s.node_id = n.id join node_running r on r.node_id = n.id join node_liveness l on l.node_id = n.id
			where n.id = $1`, nodeID, busy != nil)
		return stop
	}
	yes, no := true, false

	// B8: released in the ledger while the node still reports a process.
	stop := session(&[]string{"GPU-2"})
	require.Equal(t, &no, drained().ConfirmedByNode)
	require.Equal(t, []*bool{&no, &yes}, []*bool{inUse("GPU-1"), inUse("GPU-2")}, "the last report tells where it runs")
	stop()

	// B8: the machine can't tell, since its driver does not answer.
	stop = session(nil)
	require.Equal(t, &no, drained().ConfirmedByNode)
	require.Nil(t, inUse("GPU-1"))
	stop()

	// It reports in this session that nothing runs.
	stop = session(&[]string{})
	require.Equal(t, &yes, drained().ConfirmedByNode)
	require.Equal(t, &no, inUse("GPU-2"))

	// B8: it is gone; what it reported before counts no more.
	stop()
	b.isNow(t, nodeID, node.Disconnected)
	require.Equal(t, &no, drained().ConfirmedByNode)
	require.Nil(t, inUse("GPU-2"))
}
