//go:build cgo

package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/better-compute/better-compute/gateway/wire"
)

func newGPULibrary() gpuLibrary { return newNVML(nvml.New()) }

// nvmlLibrary asks the driver through its own library. It is kept open, since opening it can take seconds on a machine whose GPUs sleep; after a fault it
// is closed and opened anew, and while there is none it is looked for each time: a driver may be installed while bcd runs.
//
// A sick driver can hold a call for ever and no call can be broken off. So one call runs at a time, on its own; who waits for it gives up with its
// context, and as long as it hangs every further question is answered with "not known".
type nvmlLibrary struct {
	api  nvml.Interface
	free chan struct{}
	// open belongs to whoever took from free.
	open bool
}

// ready opens the library unless it is open.
func (l *nvmlLibrary) ready() nvml.Return {
	if l.open {
		return nvml.SUCCESS
	}
	ret := l.api.Init()
	l.open = ret == nvml.SUCCESS
	return ret
}

// close closes the library, so that the next look begins afresh: the driver may have been exchanged under it.
func (l *nvmlLibrary) close() {
	_ = l.api.Shutdown()
	l.open = false
}

func newNVML(api nvml.Interface) *nvmlLibrary {
	l := &nvmlLibrary{api: api, free: make(chan struct{}, 1)}
	l.free <- struct{}{}
	return l
}

// ask runs one conversation with the library, or says that it did not come to an end.
func ask[T any](ctx context.Context, l *nvmlLibrary, talk func() T) (answer T, ok bool) {
	select {
	case <-l.free:
	default:
		return answer, false
	}
	answered := make(chan T, 1)
	go func() {
		answer := talk()
		// First free, then answered: who has its answer can ask again at once.
		l.free <- struct{}{}
		answered <- answer
	}()
	ctx, cancel := context.WithTimeout(ctx, gpuPatience)
	defer cancel()
	select {
	case answer = <-answered:
		return answer, true
	case <-ctx.Done():
		return answer, false
	}
}

// maxGPUs is more than any machine has; the server keeps no more of a report.
const maxGPUs = 128

type gpuList struct {
	gpus   []*wire.Gpu
	driver *wire.GpuDriver
	note   string
}

func (l *nvmlLibrary) list(ctx context.Context) ([]*wire.Gpu, *wire.GpuDriver, string) {
	found, ok := ask(ctx, l, l.listNow)
	if !ok {
		return nil, nil, "the GPU driver does not answer"
	}
	return found.gpus, found.driver, found.note
}

func (l *nvmlLibrary) listNow() gpuList {
	if ret := l.ready(); ret != nvml.SUCCESS {
		return gpuList{note: "no NVIDIA driver answers (" + reason(ret) + ")"}
	}
	found := gpuList{driver: &wire.GpuDriver{}}
	if version, ret := l.api.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		found.driver.Version = clean(version)
	}
	if version, ret := l.api.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		found.driver.CudaVersion = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	}
	count, ret := l.api.DeviceGetCount()
	if ret != nvml.SUCCESS {
		l.close()
		found.note = "the driver can't count them (" + reason(ret) + ")"
		return found
	}
	if count < 0 || count > maxGPUs {
		l.close()
		found.note = fmt.Sprintf("the driver says that there are %d, which can't be", count)
		return found
	}
	seen := map[string]bool{}
	for index := range count {
		device, ret := l.api.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			found.note = fmt.Sprintf("GPU %d does not answer (%s)", index, reason(ret))
			continue
		}
		gpu, why := describe(device, index)
		if gpu == nil {
			found.note = why
			continue
		}
		if seen[gpu.GetUuid()] {
			found.note = fmt.Sprintf("GPU %d has the UUID of another", index)
			continue
		}
		seen[gpu.GetUuid()] = true
		found.gpus = append(found.gpus, gpu)
	}
	if found.note != "" {
		l.close()
	}
	return found
}

// describe reads one GPU. Without a UUID it can't be told from others and is left out; every other fact may be missing.
func describe(device nvml.Device, index int) (*wire.Gpu, string) {
	uuid, ret := uuidOf(device)
	if ret != nvml.SUCCESS {
		return nil, fmt.Sprintf("GPU %d gives no UUID (%s)", index, reason(ret))
	}
	gpu := &wire.Gpu{Uuid: uuid, Index: uint32(index)}
	if name, ret := device.GetName(); ret == nvml.SUCCESS {
		gpu.Model = clean(name)
	}
	if architecture, ret := device.GetArchitecture(); ret == nvml.SUCCESS {
		gpu.Architecture = architectures[architecture]
	}
	if major, minor, ret := device.GetCudaComputeCapability(); ret == nvml.SUCCESS {
		gpu.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
	}
	if memory, ret := device.GetMemoryInfo(); ret == nvml.SUCCESS {
		gpu.MemoryBytes = memory.Total
	}
	if serial, ret := device.GetSerial(); ret == nvml.SUCCESS {
		gpu.Serial = clean(serial)
	}
	if vbios, ret := device.GetVbiosVersion(); ret == nvml.SUCCESS {
		gpu.VbiosVersion = clean(vbios)
	}
	if pci, ret := device.GetPciInfo(); ret == nvml.SUCCESS {
		gpu.PciAddress = pciAddress(pci)
	}
	return gpu, ""
}

// uuidOf gives the UUID as it is listed, which is never empty.
func uuidOf(device nvml.Device) (string, nvml.Return) {
	uuid, ret := device.GetUUID()
	uuid = clean(uuid)
	if ret == nvml.SUCCESS && uuid == "" {
		ret = nvml.ERROR_NOT_FOUND
	}
	return uuid, ret
}

// pciAddress gives the address as the kernel spells it; the library pads the domain to eight digits.
func pciAddress(pci nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
}

var architectures = map[nvml.DeviceArchitecture]string{
	nvml.DEVICE_ARCH_KEPLER: "kepler", nvml.DEVICE_ARCH_MAXWELL: "maxwell", nvml.DEVICE_ARCH_PASCAL: "pascal", nvml.DEVICE_ARCH_VOLTA: "volta",
	nvml.DEVICE_ARCH_TURING: "turing", nvml.DEVICE_ARCH_AMPERE: "ampere", nvml.DEVICE_ARCH_ADA: "ada", nvml.DEVICE_ARCH_HOPPER: "hopper",
	nvml.DEVICE_ARCH_BLACKWELL: "blackwell",
}

type gpusRunning struct {
	uuids         []string
	loaded, known bool
}

func (l *nvmlLibrary) running(ctx context.Context) (uuids []string, loaded, known bool) {
	found, ok := ask(ctx, l, l.runningNow)
	if !ok {
		return nil, true, false
	}
	return found.uuids, found.loaded, found.known
}

func (l *nvmlLibrary) runningNow() gpusRunning {
	if ret := l.ready(); ret != nvml.SUCCESS {
		return gpusRunning{}
	}
	uuids, ok := l.busy()
	if !ok {
		l.close()
		return gpusRunning{loaded: true}
	}
	return gpusRunning{uuids: uuids, loaded: true, known: true}
}

// busy gives the GPUs that have a compute process; ok is false when one of them does not say.
func (l *nvmlLibrary) busy() (uuids []string, ok bool) {
	count, ret := l.api.DeviceGetCount()
	if ret != nvml.SUCCESS || count < 0 || count > maxGPUs {
		return nil, false
	}
	for index := range count {
		device, ret := l.api.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			return nil, false
		}
		uuid, ret := uuidOf(device)
		if ret != nvml.SUCCESS {
			return nil, false
		}
		processes, ret := device.GetComputeRunningProcesses()
		if ret != nvml.SUCCESS {
			return nil, false
		}
		if len(processes) > 0 {
			uuids = append(uuids, uuid)
		}
	}
	slices.Sort(uuids)
	return slices.Compact(uuids), true
}

// reason gives the library's word for what went wrong. It must not call the library, which may not be there.
func reason(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "its library is not installed"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "its kernel module is not loaded"
	default:
		return strings.ToLower(ret.Error())
	}
}
