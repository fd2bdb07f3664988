package gateway

import (
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/health"
)

// facts gives what a machine's inventory says in the words of the health room. The time of the reading stays behind: it is by the machine's clock.
func facts(i *wire.Inventory) health.Facts {
	system, cpu, os := i.GetSystem(), i.GetCpu(), i.GetOs()
	f := health.Facts{
		System: health.System{
			Hostname: system.GetHostname(), ProductUUID: system.GetProductUuid(), Vendor: system.GetVendor(), Model: system.GetModel(),
			Serial: system.GetSerial(), MachineID: system.GetMachineId(), BootID: system.GetBootId(), Virtualization: system.GetVirtualization(),
		},
		CPU: health.CPU{
			Model: cpu.GetModel(), Vendor: cpu.GetVendor(), Arch: cpu.GetArch(),
			Sockets: int(cpu.GetSockets()), Cores: int(cpu.GetCores()), Threads: int(cpu.GetThreads()),
		},
		MemoryBytes: i.GetMemory().GetTotalBytes(),
		Kernel:      health.Kernel{Name: i.GetKernel().GetName(), Release: i.GetKernel().GetRelease()},
		OS:          health.OS{ID: os.GetId(), Version: os.GetVersion(), Name: os.GetName()},
		Notes:       i.GetNotes(),
	}
	for _, d := range i.GetDisks() {
		f.Disks = append(f.Disks, health.Disk{
			Name: d.GetName(), SizeBytes: d.GetSizeBytes(), Kind: d.GetKind(), Vendor: d.GetVendor(), Model: d.GetModel(), Serial: d.GetSerial(), WWN: d.GetWwn(),
		})
	}
	for _, s := range i.GetFileSystems() {
		f.FileSystems = append(f.FileSystems, health.FileSystem{
			Path: s.GetPath(), UUID: s.GetUuid(), Kind: s.GetKind(), Device: s.GetDevice(), SizeBytes: s.GetSizeBytes(),
		})
	}
	for _, n := range i.GetNics() {
		f.NICs = append(f.NICs, health.NIC{
			Name: n.GetName(), MAC: n.GetMac(), Addresses: n.GetAddresses(), MTU: int(n.GetMtu()), SpeedMbps: int(n.GetSpeedMbps()), Up: n.GetUp(),
		})
	}
	for _, g := range i.GetGpus() {
		f.GPUs = append(f.GPUs, health.GPU{
			UUID: g.GetUuid(), Index: int(g.GetIndex()), Model: g.GetModel(), Architecture: g.GetArchitecture(),
			ComputeCapability: g.GetComputeCapability(), MemoryBytes: g.GetMemoryBytes(), Serial: g.GetSerial(), PCIAddress: g.GetPciAddress(),
			VBIOSVersion: g.GetVbiosVersion(),
		})
	}
	if d := i.GetGpuDriver(); d != nil {
		f.GPUDriver = &health.GPUDriver{Version: d.GetVersion(), CUDAVersion: d.GetCudaVersion()}
	}
	return f
}
