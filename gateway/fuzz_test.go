package gateway

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
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

// FuzzOpenID: whatever stands in the file of the gateway's id, it is an id that opens as the same again, or an error, and the file stays as it is.
func FuzzOpenID(f *testing.F) {
	f.Add([]byte(id.New(id.Gateway) + "\n"))
	f.Add([]byte(id.New(id.Node)))
	f.Add([]byte{})
	f.Add([]byte(id.New(id.Gateway) + "\x00"))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, idFile)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		got, err := OpenID(dir)
		if err == nil {
			require.NoError(t, id.Check(id.Gateway, "gateway", got))
			again, err := OpenID(dir)
			require.NoError(t, err)
			require.Equal(t, got, again)
		} else {
			require.ErrorContains(t, err, path)
		}
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, left)
	})
}
