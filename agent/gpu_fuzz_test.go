//go:build cgo

package agent

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/better-compute/better-compute/gateway/wire"
)

// FuzzNVML: whatever the driver says of a GPU, the machine's report can be sent, each GPU in it has a UUID of printable text, no two the same, and a GPU
// that is said to be busy is either one of them or makes the answer not known.
func FuzzNVML(f *testing.F) {
	f.Add(8, 0, "GPU-1", "NVIDIA A100", "550.54", 12040, 7, 8, uint64(40<<30), uint32(0), "1320")
	f.Add(2, 0, "", "\x00\xff", "\n", -1, -1, -1, uint64(1<<63), uint32(1<<31), "")
	f.Add(-1, 0, "GPU-1", "", "", 0, 0, 0, uint64(0), uint32(0), "")
	f.Add(1<<30, 15, "GPU-1", "", "", 0, 0, 0, uint64(0), uint32(0), "")
	f.Add(1, 999, "\x01", "", "", 0, 0, 0, uint64(0), uint32(0), "")
	f.Fuzz(func(t *testing.T, count, ret int, uuid, name, version string, cuda, architecture, major int, memory uint64, domain uint32, serial string) {
		answer := nvml.Return(ret)
		device := &mock.Device{
			GetUUIDFunc: func() (string, nvml.Return) { return uuid, nvml.SUCCESS },
			GetNameFunc: func() (string, nvml.Return) { return name, answer },
			GetArchitectureFunc: func() (nvml.DeviceArchitecture, nvml.Return) {
				return nvml.DeviceArchitecture(architecture), nvml.SUCCESS
			},
			GetCudaComputeCapabilityFunc: func() (int, int, nvml.Return) { return major, major, nvml.SUCCESS },
			GetMemoryInfoFunc:            func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: memory}, answer },
			GetSerialFunc:                func() (string, nvml.Return) { return serial, nvml.SUCCESS },
			GetVbiosVersionFunc:          func() (string, nvml.Return) { return version, answer },
			GetPciInfoFunc: func() (nvml.PciInfo, nvml.Return) {
				return nvml.PciInfo{Domain: domain, Bus: domain, Device: domain}, nvml.SUCCESS
			},
			GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
				return []nvml.ProcessInfo{{Pid: 1}}, answer
			},
		}
		library := newNVML(&mock.Interface{
			InitFunc:                       func() nvml.Return { return nvml.SUCCESS },
			ShutdownFunc:                   func() nvml.Return { return nvml.SUCCESS },
			SystemGetDriverVersionFunc:     func() (string, nvml.Return) { return version, answer },
			SystemGetCudaDriverVersionFunc: func() (int, nvml.Return) { return cuda, answer },
			DeviceGetCountFunc:             func() (int, nvml.Return) { return count, nvml.SUCCESS },
			DeviceGetHandleByIndexFunc:     func(int) (nvml.Device, nvml.Return) { return device, nvml.SUCCESS },
		})
		gpus, driver, note := library.list(t.Context())
		frame, err := proto.Marshal(&wire.Inventory{Gpus: gpus, GpuDriver: driver, Notes: []string{note}})
		require.NoError(t, err)
		require.Less(t, len(frame), wire.MaxInventory)
		listed := map[string]bool{}
		for _, gpu := range gpus {
			require.NotEmpty(t, gpu.GetUuid())
			require.Equal(t, clean(gpu.GetUuid()), gpu.GetUuid())
			require.False(t, listed[gpu.GetUuid()], "two GPUs with one UUID")
			listed[gpu.GetUuid()] = true
		}
		require.True(t, len(gpus) == max(count, 0) || note != "", "some are missing without a note")
		busy, _, known := library.running(t.Context())
		for _, uuid := range busy {
			require.True(t, known)
			require.True(t, listed[uuid], "%q is busy and not listed", uuid)
		}
	})
}
