package placement_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/placement"
)

func TestMissingDevicesAreBounded(t *testing.T) {
	t.Parallel()
	// A machine that shows other devices with each inventory must not fill the database; what went missing last is kept, and what is there.
	b := setup(t)
	nodeID, bystander := b.node(), b.node()
	see := func(nodeID, round string, n int) {
		devices := []placement.Device{{UUID: "stays", Kind: placement.KindGPU}}
		for i := range n {
			devices = append(devices, placement.Device{UUID: fmt.Sprintf("%s-%04d", round, i), Kind: placement.KindGPU, Slot: i})
		}
		b.do(func(ctx context.Context, tx *db.Tx) error { return placement.SeeDevicesTx(ctx, tx, nodeID, devices) })
	}
	count := func(nodeID, uuid string) (here, missing int) {
		require.NoError(t, b.db.Pool().QueryRow(t.Context(), `
			select count(*) filter (where missing_since is null), count(*) filter (where missing_since is not null)
			from devices where node_id = $1 and uuid like $2`, nodeID, uuid).Scan(&here, &missing))
		return here, missing
	}
	expect := func(uuid string, here, missing int) {
		t.Helper()
		h, m := count(nodeID, uuid)
		require.Equal(t, []int{here, missing}, []int{h, m}, uuid)
	}
	see(bystander, "a", 700)
	see(bystander, "b", 0)
	see(nodeID, "a", 700)
	see(nodeID, "b", 700)
	expect("a-%", 0, 700)
	see(nodeID, "c", 700)
	expect("a-%", 0, placement.MaxMissing-700)
	expect("b-%", 0, 700)
	expect("c-%", 700, 0)
	see(nodeID, "d", 1100)
	see(nodeID, "e", 0)
	expect("d-%", 0, placement.MaxMissing)
	expect("%", 1, placement.MaxMissing)
	expect("stays", 1, 0)
	see(nodeID, "d", 700)
	expect("d-%", 700, placement.MaxMissing-700)
	_, missing := count(bystander, "%")
	require.Equal(t, 700, missing, "another node's stay")
}
