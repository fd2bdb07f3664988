package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/better-compute/better-compute/gateway/wire"
)

// FuzzInventory: whatever inventory a machine sends, it is made into facts without a panic, and none of it is lost or made up on the way.
func FuzzInventory(f *testing.F) {
	seed, err := proto.Marshal(&wire.Inventory{
		System: &wire.System{Hostname: "n1", Serial: "S\x001"}, Cpu: &wire.Cpu{Model: "EPYC", Threads: 4294967295},
		Memory: &wire.Memory{TotalBytes: 1 << 63}, Gpus: []*wire.Gpu{{Uuid: "GPU-0", Index: 7}, nil}, Notes: []string{"a note"},
		Nics: []*wire.Nic{{Name: "eth0", Addresses: []string{"::1"}}}, FileSystems: []*wire.FileSystem{{Path: "/"}},
	})
	require.NoError(f, err)
	f.Add(seed)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		inventory := new(wire.Inventory)
		if proto.Unmarshal(b, inventory) != nil {
			return
		}
		got := facts(inventory)
		require.Len(t, got.GPUs, len(inventory.GetGpus()))
		require.Len(t, got.NICs, len(inventory.GetNics()))
		require.Len(t, got.Disks, len(inventory.GetDisks()))
		require.Len(t, got.FileSystems, len(inventory.GetFileSystems()))
		require.Equal(t, inventory.GetSystem().GetHostname(), got.System.Hostname)
	})
}
