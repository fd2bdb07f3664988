package agent

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jaypipes/ghw"
	"github.com/shirou/gopsutil/v4/common"
	"github.com/shirou/gopsutil/v4/cpu"
	mounts "github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/better-compute/better-compute/gateway/wire"
)

// Host is the real machine, read from /proc, /sys, /etc and the GPU driver. In a container many facts are missing; they stay absent.
type Host struct {
	root string
	gpus gpuLibrary
}

// NewHost makes the real machine.
func NewHost() *Host { return &Host{root: "/", gpus: newGPULibrary()} }

// gpuLibrary is the GPU driver's library.
type gpuLibrary interface {
	// list gives the GPUs, their driver (nil when there is none) and, when nothing could be listed, why.
	list(ctx context.Context) (gpus []*wire.Gpu, driver *wire.GpuDriver, note string)
	// running gives the UUIDs of the GPUs with compute processes. loaded is false when there is no library or driver to ask, known is false when
	// it does not answer for every GPU.
	running(ctx context.Context) (uuids []string, loaded, known bool)
}

// Print tells this machine from others.
func (h *Host) Print(context.Context) *wire.Print {
	return &wire.Print{
		MachineId: h.text("etc/machine-id"), ProductUuid: strings.ToLower(h.smbios("product_uuid")), BootId: h.text("proc/sys/kernel/random/boot_id"),
	}
}

// Hostname is the machine's name.
func (h *Host) Hostname(context.Context) string { return h.text("proc/sys/kernel/hostname") }

// Inventory reads what the machine is made of.
func (h *Host) Inventory(ctx context.Context) *wire.Inventory {
	ctx = h.rooted(ctx)
	i := &wire.Inventory{CollectedUnixMs: time.Now().UnixMilli()}
	note := func(format string, args ...any) { i.Notes = append(i.Notes, fmt.Sprintf(format, args...)) }
	i.System = h.system(ctx)
	i.Kernel = &wire.Kernel{Name: h.text("proc/sys/kernel/ostype"), Release: h.text("proc/sys/kernel/osrelease")}
	i.Os = h.os()
	i.Cpu = h.cpu(ctx, note)
	if memory, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		i.Memory = &wire.Memory{TotalBytes: memory.Total}
	} else {
		note("the memory could not be read: %v", err)
	}
	i.Disks = h.disks(note)
	i.FileSystems = h.fileSystems(ctx, note)
	i.Nics = h.nics(note)
	var why string
	i.Gpus, i.GpuDriver, why = h.gpus.list(ctx)
	switch {
	case why != "" && len(i.GetGpus()) == 0:
		note("no GPUs are listed: %s", why)
	case why != "":
		note("some GPUs are missing: %s", why)
	}
	if sound(i.ProtoReflect()) {
		note("a list is longer than %d and was cut", maxList)
	}
	return i
}

// Running gives the devices with compute processes. Where there is no GPU driver, the PCI bus tells whether there is a GPU that one would be needed for:
// if there is none, nothing runs on any, and that is known.
func (h *Host) Running(ctx context.Context) (uuids []string, known bool) {
	uuids, loaded, known := h.gpus.running(ctx)
	if !loaded {
		present, looked := h.gpuOnBus()
		return nil, looked && !present
	}
	return uuids, known
}

// gpuOnBus says whether the PCI bus shows a GPU of the maker whose driver bcd speaks to.
func (h *Host) gpuOnBus() (present, looked bool) {
	const nvidia, display = "0x10de", "0x03"
	devices, err := os.ReadDir(filepath.Join(h.root, "sys/bus/pci/devices"))
	if err != nil {
		return false, false
	}
	for _, device := range devices {
		dir := filepath.Join("sys/bus/pci/devices", device.Name())
		if h.text(filepath.Join(dir, "vendor")) == nvidia && strings.HasPrefix(h.text(filepath.Join(dir, "class")), display) {
			return true, true
		}
	}
	return false, true
}

func (h *Host) system(ctx context.Context) *wire.System {
	print := h.Print(ctx)
	s := &wire.System{
		Hostname: h.Hostname(ctx), ProductUuid: print.GetProductUuid(), Vendor: h.smbios("sys_vendor"), Model: h.smbios("product_name"),
		Serial: h.smbios("product_serial"), MachineId: print.GetMachineId(), BootId: print.GetBootId(),
	}
	if booted, err := host.BootTimeWithContext(ctx); err == nil {
		s.BootedUnixMs = time.Unix(int64(booted), 0).UnixMilli()
	}
	if kind, role, err := host.VirtualizationWithContext(ctx); err == nil && role == "guest" {
		s.Virtualization = kind
	}
	return s
}

// bogus are texts that makers leave in SMBIOS where a fact belongs.
var bogus = []string{
	"", "none", "n/a", "na", "null", "unknown", "default string", "not specified", "not available", "not applicable", "to be filled by o.e.m.",
	"to be filled by oem", "system serial number", "system product name", "system manufacturer", "o.e.m.", "oem", "0", "0123456789", "123456789",
	"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "03000200-0400-0500-0006-000700080009",
}

// smbios reads one SMBIOS fact; what the maker left unfilled is absent. Some can be read by root alone.
func (h *Host) smbios(name string) string {
	text := h.text("sys/class/dmi/id/" + name)
	if slices.Contains(bogus, strings.ToLower(text)) {
		return ""
	}
	return text
}

func (h *Host) os() *wire.OperatingSystem {
	for _, path := range []string{"etc/os-release", "usr/lib/os-release"} {
		content, err := os.ReadFile(filepath.Join(h.root, path))
		if err != nil {
			continue
		}
		facts := map[string]string{}
		for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
			if name, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), "="); ok {
				facts[name] = clean(strings.Trim(value, `"'`))
			}
		}
		return &wire.OperatingSystem{Id: facts["ID"], Version: facts["VERSION_ID"], Name: facts["PRETTY_NAME"]}
	}
	return nil
}

func (h *Host) cpu(ctx context.Context, note func(string, ...any)) *wire.Cpu {
	c := &wire.Cpu{Arch: runtime.GOARCH}
	infos, err := cpu.InfoWithContext(ctx)
	if err != nil {
		note("the processors could not be read: %v", err)
		return c
	}
	packages := map[string]bool{}
	for _, info := range infos {
		if info.PhysicalID != "" {
			packages[info.PhysicalID] = true
		}
	}
	c.Sockets = uint32(len(packages))
	if len(infos) > 0 {
		c.Model, c.Vendor = clean(infos[0].ModelName), clean(infos[0].VendorID)
	}
	if n, err := cpu.CountsWithContext(ctx, false); err == nil && n > 0 {
		c.Cores = uint32(n)
	}
	if n, err := cpu.CountsWithContext(ctx, true); err == nil && n > 0 {
		c.Threads = uint32(n)
	}
	return c
}

// disks lists whole block devices that can hold data.
func (h *Host) disks(note func(string, ...any)) []*wire.Disk {
	block, err := ghw.Block(ghw.WithChroot(h.root), ghw.WithDisableWarnings(), ghw.WithDisableTools())
	if err != nil {
		note("the disks could not be read: %v", err)
		return nil
	}
	var disks []*wire.Disk
	for _, d := range block.Disks {
		kind := strings.ToLower(d.DriveType.String())
		if d.SizeBytes == 0 || kind == "fdd" || kind == "odd" || hasAnyPrefix(d.Name, "loop", "ram", "zram") {
			continue
		}
		vendor := known(d.Vendor)
		if d.StorageController == ghw.StorageControllerVirtIO {
			// The kernel calls such a disk a spinning one, since it knows no better, and has a bus number where a maker's name belongs.
			kind, vendor = "virtual", ""
		}
		disks = append(disks, &wire.Disk{
			Name: d.Name, SizeBytes: d.SizeBytes, Kind: known(kind), Vendor: vendor, Model: known(d.Model), Serial: known(d.SerialNumber),
			Wwn: known(d.WWN),
		})
	}
	slices.SortFunc(disks, func(a, b *wire.Disk) int { return strings.Compare(a.GetName(), b.GetName()) })
	return disks
}

// fileSystems lists mounted file systems that live on a device or share. A device that is mounted in several places is listed once, where its path
// is shortest; single files, which containers mount, are left out.
func (h *Host) fileSystems(ctx context.Context, note func(string, ...any)) []*wire.FileSystem {
	partitions, err := mounts.PartitionsWithContext(ctx, false)
	if err != nil {
		note("the file systems could not be read: %v", err)
		return nil
	}
	uuids := h.fileSystemUUIDs()
	byDevice := map[string]*wire.FileSystem{}
	for _, p := range partitions {
		if known := byDevice[p.Device]; known != nil && len(known.GetPath()) <= len(p.Mountpoint) {
			continue
		}
		if info, err := os.Stat(filepath.Join(h.root, p.Mountpoint)); err != nil || !info.IsDir() {
			continue
		}
		fs := &wire.FileSystem{Path: p.Mountpoint, Kind: p.Fstype, Device: p.Device, Uuid: uuids[p.Device]}
		if usage, err := mounts.UsageWithContext(ctx, filepath.Join(h.root, p.Mountpoint)); err == nil {
			fs.SizeBytes = usage.Total
		}
		byDevice[p.Device] = fs
	}
	var list []*wire.FileSystem
	for _, fs := range byDevice {
		list = append(list, fs)
	}
	slices.SortFunc(list, func(a, b *wire.FileSystem) int { return strings.Compare(a.GetPath(), b.GetPath()) })
	return list
}

// fileSystemUUIDs gives the UUID of the file system on each device, as udev has sorted them out.
func (h *Host) fileSystemUUIDs() map[string]string {
	uuids := map[string]string{}
	dir := filepath.Join(h.root, "dev/disk/by-uuid")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return uuids
	}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(dir, entry.Name()))
		if err != nil {
			continue
		}
		uuids["/dev/"+filepath.Base(target)] = entry.Name()
	}
	return uuids
}

// nics lists the interfaces that have hardware behind them. Where none has, as in a container, it lists all but the loopback.
func (h *Host) nics(note func(string, ...any)) []*wire.Nic {
	interfaces, err := net.Interfaces()
	if err != nil {
		note("the network interfaces could not be read: %v", err)
		return nil
	}
	var real, others []*wire.Nic
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		nic := &wire.Nic{
			Name: i.Name, Mac: strings.ToLower(i.HardwareAddr.String()), Mtu: uint32(max(i.MTU, 0)), Up: i.Flags&net.FlagRunning != 0, Addresses: addresses(i),
		}
		dir := "sys/class/net/" + i.Name
		if mbps, err := strconv.ParseUint(h.text(dir+"/speed"), 10, 32); err == nil {
			nic.SpeedMbps = uint32(mbps)
		}
		if _, err := os.Stat(filepath.Join(h.root, dir, "device")); err == nil {
			real = append(real, nic)
		} else {
			others = append(others, nic)
		}
	}
	if len(real) == 0 {
		real = others
	}
	slices.SortFunc(real, func(a, b *wire.Nic) int { return strings.Compare(a.GetName(), b.GetName()) })
	return real
}

func addresses(i net.Interface) []string {
	list, err := i.Addrs()
	if err != nil {
		return nil
	}
	var texts []string
	for _, address := range list {
		if ipNet, ok := address.(*net.IPNet); ok && !ipNet.IP.IsLinkLocalUnicast() {
			texts = append(texts, ipNet.String())
		}
	}
	slices.Sort(texts)
	return texts
}

// text reads a small file below the root as one trimmed text; what can't be read is absent.
func (h *Host) text(path string) string {
	content, err := os.ReadFile(filepath.Join(h.root, path))
	if err != nil {
		return ""
	}
	return clean(string(content))
}

// maxText is how many bytes of a text of firmware, a driver or a file go into a frame. The server keeps 256 characters.
const maxText = 1024

// clean makes a text of firmware, a driver or a file fit for a frame: short, trimmed and printable.
func clean(s string) string { return strings.TrimSpace(printable(s[:min(len(s), maxText)])) }

// printable leaves out characters that are not valid or can't be printed.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

// known drops the library's word for what it does not know.
func known(s string) string {
	s = clean(s)
	if strings.EqualFold(s, "unknown") {
		return ""
	}
	return s
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// rooted tells the library where this machine's files are.
func (h *Host) rooted(ctx context.Context) context.Context {
	if h.root == "/" {
		return ctx
	}
	return context.WithValue(ctx, common.EnvKey, common.EnvMap{
		common.HostProcEnvKey: filepath.Join(h.root, "proc"), common.HostSysEnvKey: filepath.Join(h.root, "sys"),
		common.HostEtcEnvKey: filepath.Join(h.root, "etc"), common.HostVarEnvKey: filepath.Join(h.root, "var"),
		common.HostRunEnvKey: filepath.Join(h.root, "run"), common.HostDevEnvKey: filepath.Join(h.root, "dev"),
		common.HostRootEnvKey: h.root,
	})
}
