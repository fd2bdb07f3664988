package sim

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/better-compute/better-compute/gateway/wire"
)

// Hardware is one made-up machine. Equal seeds make equal ones.
type Hardware struct {
	// Index counts the fleet's machines from 0.
	Index int
	// Hostname begins with sim-.
	Hostname string
	// Rack is the number of its rack, Slot its place there.
	Rack, Slot int
	// Tenant says whose it is: 0 the main tenant's, else that of the guest with that number.
	Tenant int

	kind        *kind
	machineID   string
	productUUID string
	serial      string
	gpus        []string // their UUIDs
	disks       []string // their serial numbers
	volumes     []string // the UUIDs of the file systems
	mac         uint64
}

const (
	// rackSize is how many machines a rack holds: eight-GPU servers take the power of one.
	rackSize = 4
	// guests are the tenants beside the main one.
	guests = 2
	// gpusEach is how many GPUs a machine has.
	gpusEach = 8
	gib      = 1 << 30
)

// kind is a model of machine.
type kind struct {
	name, gpu, architecture, capability string
	gpuMemory                           uint64
	vbios, cpu, cpuVendor               string
	sockets, cores                      uint32
	memory                              uint64
	data                                int // how many data disks
	fabric                              uint32
}

var kinds = []kind{
	{
		name: "h100", gpu: "NVIDIA H100 80GB HBM3", architecture: "Hopper", capability: "9.0", gpuMemory: 85_520_809_984, vbios: "96.00.99.00.01",
		cpu: "Intel(R) Xeon(R) Platinum 8480C", cpuVendor: "GenuineIntel", sockets: 2, cores: 112, memory: 2048 * gib, data: 8, fabric: 400_000,
	},
	{
		name: "b200", gpu: "NVIDIA B200", architecture: "Blackwell", capability: "10.0", gpuMemory: 191_503_532_032, vbios: "97.00.82.00.1A",
		cpu: "Intel(R) Xeon(R) Platinum 8570", cpuVendor: "GenuineIntel", sockets: 2, cores: 112, memory: 4096 * gib, data: 8, fabric: 400_000,
	},
	{
		name: "a100", gpu: "NVIDIA A100-SXM4-80GB", architecture: "Ampere", capability: "8.0", gpuMemory: 85_899_345_920, vbios: "92.00.45.00.05",
		cpu: "AMD EPYC 7742 64-Core Processor", cpuVendor: "AuthenticAMD", sockets: 2, cores: 128, memory: 2048 * gib, data: 4, fabric: 200_000,
	},
	{
		name: "l40s", gpu: "NVIDIA L40S", architecture: "Ada", capability: "8.9", gpuMemory: 48_305_799_168, vbios: "95.02.66.00.02",
		cpu: "AMD EPYC 9354 32-Core Processor", cpuVendor: "AuthenticAMD", sockets: 2, cores: 64, memory: 768 * gib, data: 2, fabric: 100_000,
	},
}

// Machines makes the hardware of a fleet. A bigger fleet of the same seed begins with the machines of a smaller one.
func Machines(seed uint64, n int) []Hardware {
	machines := make([]Hardware, n)
	for i := range machines {
		rack := i / rackSize
		// Of its own stream, so that a rack and a machine are the same in a fleet of any size.
		r := rand.New(rand.NewPCG(seed, uint64(rack)<<1|1)) //nolint:gosec // made-up hardware, no secret
		k := &kinds[[]int{0, 0, 1, 2, 2, 3}[r.IntN(6)]]
		tenant := max(rack%8-5, 0)
		r = rand.New(rand.NewPCG(seed, uint64(i)<<1)) //nolint:gosec // the same
		h := Hardware{
			Index: i, Hostname: fmt.Sprintf("sim-r%02d-%s-%d", rack+1, k.name, i%rackSize+1), Rack: rack, Slot: i % rackSize, Tenant: tenant, kind: k,
			machineID: hexText(r, 16), productUUID: uuid(r), serial: "SIM" + strings.ToUpper(hexText(r, 4)), mac: r.Uint64() & 0xffff_ffff,
		}
		for range gpusEach {
			h.gpus = append(h.gpus, "GPU-"+uuid(r))
		}
		for range 2 + k.data {
			h.disks = append(h.disks, "SIMD"+strings.ToUpper(hexText(r, 5)))
		}
		h.volumes = []string{uuid(r), uuid(r)}
		machines[i] = h
	}
	return machines
}

func hexText(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return hex.EncodeToString(b)
}

func uuid(r *rand.Rand) string {
	h := hexText(r, 16)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

// Pool is the name of the pool that the machine joins.
func (h *Hardware) Pool() string { return "sim-" + h.kind.name }

// Labels are what the machine's join token gives the node.
func (h *Hardware) Labels() map[string]string {
	return map[string]string{"simulated": "true", "rack": fmt.Sprintf("r%02d", h.Rack+1)}
}

// inventory is what bcd would measure, without the GPUs that failed.
func (h *Hardware) inventory(bootID string, bootedMs int64, failed map[int]bool) *wire.Inventory {
	k := h.kind
	i := &wire.Inventory{
		System: &wire.System{
			Hostname: h.Hostname, ProductUuid: h.productUUID, Vendor: "Simulated", Model: strings.ToUpper(k.name) + " server, 8 GPUs (simulated)",
			Serial: h.serial, MachineId: h.machineID, BootId: bootID, BootedUnixMs: bootedMs, Virtualization: "simulated",
		},
		Cpu: &wire.Cpu{
			Model: k.cpu, Vendor: k.cpuVendor, Arch: "amd64", Sockets: k.sockets, Cores: k.cores, Threads: 2 * k.cores,
		},
		Memory:    &wire.Memory{TotalBytes: k.memory},
		Kernel:    &wire.Kernel{Name: "Linux", Release: "6.8.0-60-generic"},
		Os:        &wire.OperatingSystem{Id: "ubuntu", Version: "24.04", Name: "Ubuntu 24.04.2 LTS"},
		GpuDriver: &wire.GpuDriver{Version: "570.133.20", CudaVersion: "12.8"},
		FileSystems: []*wire.FileSystem{
			{Path: "/", Uuid: h.volumes[0], Kind: "ext4", Device: "/dev/md0", SizeBytes: 1920 * 1e9},
			{Path: "/data", Uuid: h.volumes[1], Kind: "xfs", Device: "/dev/md1", SizeBytes: uint64(k.data) * 7680 * 1e9},
		},
	}
	for n, serial := range h.disks {
		d := &wire.Disk{Name: fmt.Sprintf("nvme%dn1", n), SizeBytes: 7_681_501_126_656, Kind: "ssd", Vendor: "Simulated", Model: "SIM-NVME-7T68", Serial: serial}
		if n < 2 {
			d.SizeBytes, d.Model = 1_920_383_410_176, "SIM-NVME-1T92"
		}
		i.Disks = append(i.Disks, d)
	}
	for n := range uint64(3) {
		nic := &wire.Nic{Name: "eno1", Mtu: 1500, SpeedMbps: 10_000, Up: true}
		if n > 0 {
			nic.Name, nic.Mtu, nic.SpeedMbps = fmt.Sprintf("ens%df0", n), 9000, k.fabric
		}
		mac := h.mac<<2 | n
		nic.Mac = fmt.Sprintf("02:51:%02x:%02x:%02x:%02x", byte(mac>>24), byte(mac>>16), byte(mac>>8), byte(mac))
		nic.Addresses = []string{fmt.Sprintf("10.%d.%d.%d/16", 100+n, h.Index>>8&0xff, h.Index&0xff)}
		i.Nics = append(i.Nics, nic)
	}
	for n, gpu := range h.gpus {
		if failed[n] {
			continue
		}
		i.Gpus = append(i.Gpus, &wire.Gpu{
			Uuid: gpu, Index: uint32(n), Model: k.gpu, Architecture: k.architecture, ComputeCapability: k.capability, MemoryBytes: k.gpuMemory,
			Serial: fmt.Sprintf("%s%d", h.serial, n), PciAddress: fmt.Sprintf("0000:%02x:00.0", 0x18+0x14*n), VbiosVersion: k.vbios,
		})
	}
	return i
}
