package health

import "github.com/better-compute/better-compute/liveness"

// What of a machine's report is kept at most.
const (
	maxText    = 256
	maxList    = 1024
	maxGPUs    = 128
	maxNotes   = 32
	maxNoteLen = 512
)

// sound gives the facts as they can be stored and shown, whatever the machine sent: texts and lists bounded, no control characters.
func (f Facts) sound() Facts {
	plain(
		&f.System.Hostname, &f.System.ProductUUID, &f.System.Vendor, &f.System.Model, &f.System.Serial, &f.System.MachineID, &f.System.BootID,
		&f.System.Virtualization, &f.CPU.Model, &f.CPU.Vendor, &f.CPU.Arch, &f.Kernel.Name, &f.Kernel.Release, &f.OS.ID, &f.OS.Version, &f.OS.Name,
	)
	f.Disks = each(f.Disks, maxList, func(d *Disk) { plain(&d.Name, &d.Kind, &d.Vendor, &d.Model, &d.Serial, &d.WWN) })
	f.FileSystems = each(f.FileSystems, maxList, func(s *FileSystem) {
		s.Path = liveness.Plain(s.Path, 4096)
		plain(&s.UUID, &s.Kind, &s.Device)
	})
	f.NICs = each(f.NICs, maxList, func(n *NIC) {
		plain(&n.Name, &n.MAC)
		n.Addresses = each(n.Addresses, 64, func(a *string) { plain(a) })
	})
	f.GPUs = each(f.GPUs, maxGPUs, func(g *GPU) {
		plain(&g.UUID, &g.Model, &g.Architecture, &g.ComputeCapability, &g.Serial, &g.PCIAddress, &g.VBIOSVersion)
	})
	if f.GPUDriver != nil {
		d := *f.GPUDriver
		plain(&d.Version, &d.CUDAVersion)
		f.GPUDriver = &d
	}
	f.Notes = each(f.Notes, maxNotes, func(n *string) { *n = liveness.Plain(*n, maxNoteLen) })
	return f
}

func plain(texts ...*string) {
	for _, t := range texts {
		*t = liveness.Plain(*t, maxText)
	}
}

// each gives at most so many, each made sound, in a list of its own.
func each[T any](in []T, most int, do func(*T)) []T {
	if len(in) == 0 {
		return nil
	}
	out := append([]T(nil), in[:min(len(in), most)]...)
	for i := range out {
		do(&out[i])
	}
	return out
}
