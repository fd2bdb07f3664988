//go:build cgo

package agent

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	mock "github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/stretchr/testify/require"
)

// dgx is a made-up machine with eight GPUs; busy says which have a process.
func dgx(t *testing.T, busy ...int) *mock.Server {
	t.Helper()
	server := dgxa100.New()
	for index := range server.Devices {
		device, ok := server.Devices[index].(*mock.Device)
		require.True(t, ok)
		device.GetSerialFunc = func() (string, nvml.Return) { return "", nvml.ERROR_NOT_SUPPORTED }
		device.GetVbiosVersionFunc = func() (string, nvml.Return) { return "92.00.19.00.01", nvml.SUCCESS }
		device.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			if slices.Contains(busy, index) {
				return []nvml.ProcessInfo{{Pid: 1}}, nvml.SUCCESS
			}
			return nil, nvml.SUCCESS
		}
	}
	return server
}

func listedUUID(t *testing.T, server *mock.Server, index int) string {
	t.Helper()
	uuid, ret := server.Devices[index].GetUUID()
	require.Equal(t, nvml.SUCCESS, ret)
	return uuid
}

func TestGPUs(t *testing.T) {
	t.Parallel()

	t.Run("a machine with eight GPUs lists eight", func(t *testing.T) {
		t.Parallel()
		server := dgx(t)
		h := rooted(t, nil)
		h.gpus = newNVML(server)
		i := h.Inventory(t.Context())
		require.Len(t, i.GetGpus(), 8)
		seen := map[string]bool{}
		for index, gpu := range i.GetGpus() {
			require.EqualValues(t, index, gpu.GetIndex())
			require.Equal(t, listedUUID(t, server, index), gpu.GetUuid())
			require.Equal(t, "ampere", gpu.GetArchitecture())
			require.Equal(t, "8.0", gpu.GetComputeCapability())
			require.Contains(t, gpu.GetModel(), "A100")
			require.EqualValues(t, 40<<30, gpu.GetMemoryBytes())
			require.Empty(t, gpu.GetSerial(), "what the driver does not tell stays absent")
			require.Equal(t, "92.00.19.00.01", gpu.GetVbiosVersion())
			seen[gpu.GetUuid()] = true
		}
		require.Len(t, seen, 8)
		require.Equal(t, "550.54.15", i.GetGpuDriver().GetVersion())
		require.Equal(t, "12.4", i.GetGpuDriver().GetCudaVersion())
	})

	t.Run("B8 the GPUs with a process are named", func(t *testing.T) {
		t.Parallel()
		server := dgx(t, 2, 5)
		h := rooted(t, nil)
		h.gpus = newNVML(server)
		uuids, known := h.Running(t.Context())
		require.True(t, known)
		require.ElementsMatch(t, []string{listedUUID(t, server, 2), listedUUID(t, server, 5)}, uuids)
		h.gpus = newNVML(dgx(t))
		uuids, known = h.Running(t.Context())
		require.True(t, known)
		require.Empty(t, uuids)
	})

	t.Run("one GPU that does not answer makes the whole answer not known", func(t *testing.T) {
		t.Parallel()
		server := dgx(t, 2)
		sick, ok := server.Devices[7].(*mock.Device)
		require.True(t, ok)
		sick.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_GPU_IS_LOST }
		h := rooted(t, nil)
		h.gpus = newNVML(server)
		uuids, known := h.Running(t.Context())
		require.False(t, known)
		require.Empty(t, uuids)
		sick.GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
		i := h.Inventory(t.Context())
		require.Len(t, i.GetGpus(), 7)
		require.Contains(t, i.GetNotes()[len(i.GetNotes())-1], "GPU 7 gives no UUID")
	})

	t.Run("the library stays open between looks, and is opened anew after a fault", func(t *testing.T) {
		t.Parallel()
		server := dgx(t)
		opened := 0
		server.InitFunc = func() nvml.Return { opened++; return nvml.SUCCESS }
		library := newNVML(server)
		for range 3 {
			_, _, known := library.running(t.Context())
			require.True(t, known)
			gpus, _, _ := library.list(t.Context())
			require.Len(t, gpus, 8)
		}
		require.Equal(t, 1, opened)
		counts := server.DeviceGetCountFunc
		server.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_LIB_RM_VERSION_MISMATCH }
		_, loaded, known := library.running(t.Context())
		require.True(t, loaded)
		require.False(t, known)
		server.DeviceGetCountFunc = counts
		_, _, known = library.running(t.Context())
		require.True(t, known)
		require.Equal(t, 2, opened)
	})

	t.Run("a machine without a driver says why it lists none", func(t *testing.T) {
		t.Parallel()
		server := dgx(t)
		server.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
		h := rooted(t, map[string]string{"sys/bus/pci/devices/x/vendor": "0x8086"})
		h.gpus = newNVML(server)
		i := h.Inventory(t.Context())
		require.Empty(t, i.GetGpus())
		require.Nil(t, i.GetGpuDriver())
		require.Contains(t, i.GetNotes(), "no GPUs are listed: no NVIDIA driver answers (its library is not installed)")
		uuids, known := h.Running(t.Context())
		require.True(t, known)
		require.Empty(t, uuids)
	})

	t.Run("a driver that hangs holds nothing up and makes the answer not known", func(t *testing.T) {
		t.Parallel()
		server := dgx(t)
		hang, begun := make(chan struct{}), make(chan struct{}, 1)
		server.InitFunc = func() nvml.Return {
			begun <- struct{}{}
			<-hang
			return nvml.SUCCESS
		}
		library := newNVML(server)
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan bool)
		go func() {
			_, _, known := library.running(ctx)
			answered <- known
		}()
		receive(t, begun)
		cancel()
		require.False(t, receive(t, answered))
		_, _, note := library.list(t.Context())
		require.Equal(t, "the GPU driver does not answer", note)
		close(hang)
		eventually(t, func() bool {
			select {
			case <-begun:
			default:
			}
			_, _, known := library.running(t.Context())
			return known
		}, "it is asked again when it has come back")
	})

	t.Run("the real library can be looked for without harm", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		gpus, driver, note := newGPULibrary().list(ctx)
		if driver == nil {
			require.Empty(t, gpus)
			require.NotEmpty(t, note)
		}
	})
}

var _ Machine = (*Host)(nil)
