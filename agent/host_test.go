package agent

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/better-compute/better-compute/gateway/wire"
)

// noDriver is a machine without a GPU driver.
type noDriver struct{}

func (noDriver) list(context.Context) ([]*wire.Gpu, *wire.GpuDriver, string) {
	return nil, nil, "no driver"
}

func (noDriver) running(context.Context) (uuids []string, loaded, known bool) {
	return nil, false, false
}

// rooted makes a host whose files are those given, by path.
func rooted(t *testing.T, files map[string]string) *Host {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return &Host{root: root, gpus: noDriver{}}
}

func TestHost(t *testing.T) {
	t.Parallel()

	t.Run("facts come from the machine's files", func(t *testing.T) {
		t.Parallel()
		h := rooted(t, map[string]string{
			"etc/machine-id": "3d1219c7\n", "proc/sys/kernel/random/boot_id": "boot\n", "proc/sys/kernel/hostname": "h7\n",
			"proc/sys/kernel/ostype": "Linux\n", "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
			"sys/class/dmi/id/product_uuid": "4C4C4544-0032\n", "sys/class/dmi/id/sys_vendor": "Supermicro\n",
			"sys/class/dmi/id/product_name": "SYS-421GE \n", "sys/class/dmi/id/product_serial": "S1\n",
			"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME='Debian GNU/Linux 12'\n",
			"proc/meminfo":   "MemTotal:       2048 kB\nMemFree:  1 kB\n",
			"proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nphysical id\t: 0\ncore id\t: 0\n\n" +
				"processor\t: 1\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nphysical id\t: 1\ncore id\t: 0\n\n",
		})
		i := h.Inventory(t.Context())
		want := &wire.System{
			Hostname: "h7", ProductUuid: "4c4c4544-0032", Vendor: "Supermicro", Model: "SYS-421GE", Serial: "S1", MachineId: "3d1219c7", BootId: "boot",
		}
		got, ok := proto.Clone(i.GetSystem()).(*wire.System)
		require.True(t, ok)
		got.BootedUnixMs, got.Virtualization = 0, ""
		require.True(t, proto.Equal(want, got), got)
		require.True(t, proto.Equal(&wire.Print{MachineId: "3d1219c7", ProductUuid: "4c4c4544-0032", BootId: "boot"}, h.Print(t.Context())))
		require.True(t, proto.Equal(&wire.Kernel{Name: "Linux", Release: "6.1.0-18-amd64"}, i.GetKernel()))
		require.True(t, proto.Equal(&wire.OperatingSystem{Id: "debian", Version: "12", Name: "Debian GNU/Linux 12"}, i.GetOs()))
		require.EqualValues(t, 2048<<10, i.GetMemory().GetTotalBytes())
		require.Equal(t, "Xeon", i.GetCpu().GetModel())
		require.EqualValues(t, 2, i.GetCpu().GetSockets())
		require.EqualValues(t, 2, i.GetCpu().GetThreads())
	})

	t.Run("an absent fact stays absent", func(t *testing.T) {
		t.Parallel()
		h := rooted(t, nil)
		i := h.Inventory(t.Context())
		require.True(t, proto.Equal(&wire.Print{}, h.Print(t.Context())))
		require.Empty(t, i.GetSystem().GetProductUuid())
		require.Empty(t, i.GetSystem().GetHostname())
		require.Nil(t, i.GetOs())
		require.Nil(t, i.GetMemory())
		require.Zero(t, i.GetCpu().GetSockets())
		require.Empty(t, i.GetCpu().GetModel())
		require.Equal(t, runtime.GOARCH, i.GetCpu().GetArch())
		require.Empty(t, i.GetDisks())
		require.Empty(t, i.GetFileSystems())
		require.NotEmpty(t, i.GetNotes(), "it says what could not be read")
	})

	t.Run("what a maker left unfilled is no fact", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"To Be Filled By O.E.M.", "Default string", "None", "Not Specified", "00000000-0000-0000-0000-000000000000", " "} {
			h := rooted(t, map[string]string{"sys/class/dmi/id/product_serial": text, "sys/class/dmi/id/product_uuid": text})
			s := h.Inventory(t.Context()).GetSystem()
			require.Empty(t, s.GetSerial(), text)
			require.Empty(t, s.GetProductUuid(), text)
		}
	})

	t.Run("text of the firmware that is not valid still makes a frame", func(t *testing.T) {
		t.Parallel()
		h := rooted(t, map[string]string{"sys/class/dmi/id/product_name": "A\xff\x00B\x1b"})
		i := h.Inventory(t.Context())
		require.Equal(t, "AB", i.GetSystem().GetModel())
		_, err := proto.Marshal(i)
		require.NoError(t, err)
	})

	t.Run("this very machine has a name, a kernel, memory, threads, and no fact that is a library's word for unknown", func(t *testing.T) {
		t.Parallel()
		h := NewHost()
		i := h.Inventory(t.Context())
		require.NotEmpty(t, i.GetSystem().GetHostname())
		require.NotEmpty(t, i.GetSystem().GetBootId())
		require.Equal(t, "Linux", i.GetKernel().GetName())
		require.Positive(t, i.GetMemory().GetTotalBytes())
		require.EqualValues(t, runtime.NumCPU(), max(i.GetCpu().GetThreads(), 1))
		require.Positive(t, i.GetCollectedUnixMs())
		text, err := json.Marshal(i)
		require.NoError(t, err)
		require.NotContains(t, string(text), `"unknown"`)
		again := h.Inventory(t.Context())
		require.True(t, sameInventory(i, again), "two looks at one machine are the same but for their time")
	})
}

func TestRunningWithoutDriver(t *testing.T) {
	t.Parallel()
	// Without a driver the PCI bus decides whether the machine can say that nothing runs on its GPUs.
	device := func(vendor, class string) map[string]string {
		return map[string]string{
			"sys/bus/pci/devices/0000:00:01.0/vendor": vendor + "\n", "sys/bus/pci/devices/0000:00:01.0/class": class + "\n",
		}
	}
	for name, c := range map[string]struct {
		files map[string]string
		known bool
	}{
		"no GPU on the bus":               {device("0x8086", "0x030000"), true},
		"a network card of the GPU maker": {device("0x10de", "0x020000"), true},
		"a GPU without its driver":        {device("0x10de", "0x030200"), false},
		"no bus to look at":               {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uuids, known := rooted(t, c.files).Running(t.Context())
			require.Empty(t, uuids)
			require.Equal(t, c.known, known)
		})
	}
}
