package graph

import (
	"context"
	"strconv"
	"time"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/placement"
)

// Node is a node in an answer: what the tenant sees of it, and the page it stands on.
type Node struct {
	*node.View

	page *page
}

// Pool gives the node's pool.
func (n *Node) Pool(ctx context.Context) (*node.Pool, error) { return n.page.poolOf(ctx, n.View) }

// Drain gives the running drain, or the ended one while its cordon still holds.
func (n *Node) Drain() *Drain { return n.drain(n.View.Drain()) }

// LastDrain gives the newest drain.
func (n *Node) LastDrain() *Drain { return n.drain(n.View.LastDrain) }

func (n *Node) drain(d *node.Drain) *Drain {
	if d == nil {
		return nil
	}
	return &Drain{Drain: d, Node: n}
}

// LastSeen gives when the node was last heard of.
func (n *Node) LastSeen(ctx context.Context) (*time.Time, error) {
	sessions, err := n.page.sessions(ctx)
	if s, ok := sessions[n.ID]; ok && err == nil {
		return &s.LastSeen, nil
	}
	return nil, err
}

// Session gives the newest session, to the owner.
func (n *Node) Session(ctx context.Context) (*liveness.Session, error) {
	if !n.Full {
		return nil, nil //nolint:nilnil // a guest sees none
	}
	sessions, err := n.page.sessions(ctx)
	if s, ok := sessions[n.ID]; ok && err == nil {
		return &s, nil
	}
	return nil, err
}

// Placeable gives the gate's answer for a tenant; a guest asks for itself only, also when it names nobody: its view of the node is cut, and the gate
// would judge another by what is left of it.
func (n *Node) Placeable(tenantID *string) (*node.Placeability, error) {
	tenant := n.Seer
	if tenantID != nil {
		if err := id.Tenant("tenantId", *tenantID); err != nil {
			return nil, err
		}
		tenant = *tenantID
	}
	if !n.Full && tenant != n.Seer {
		return nil, fault.New(fault.Forbidden, nil, "a tenant that does not own the node asks for itself only")
	}
	p := node.Gate(n.Node(), tenant, node.Device, time.Now())
	return &p, nil
}

// Node gives the node itself.
func (n *Node) Node() *node.Node { return n.View.Node }

// StatusSentence says in words why the node is out.
func (n *Node) StatusSentence() string { return n.View.StatusSentence(time.Now()) }

// ControlState is whether a control is offered.
type ControlState struct {
	Control string
	Action  string
	Enabled bool
	Because node.Text
}

// Controls judges the controls for the caller, by the decisions that they themselves use.
func (n *Node) Controls(ctx context.Context) ([]ControlState, error) {
	var rights iam.Rights // a guest has none
	if n.Full {
		var err error
		if rights, err = n.page.may(ctx, n.Rights); err != nil {
			return nil, err
		}
	}
	live, err := n.LiveAllocationCount(ctx)
	if err != nil {
		return nil, err
	}
	offers := controls.Offers(n.Node(), rights, live)
	states := make([]ControlState, len(offers))
	for i, o := range offers {
		states[i] = ControlState{Control: o.Control, Action: string(o.Action), Enabled: o.Enabled, Because: node.Text(o.Because)}
	}
	return states, nil
}

// Allocations gives the node's allocations, newest first: all to the owner, others' reduced; its own to a guest.
func (n *Node) Allocations(ctx context.Context, live bool, first int, after *string) (*AllocationConnection, error) {
	p, err := pageOf(id.Allocation, first, after)
	if err != nil {
		return nil, err
	}
	s := placement.Slice{Live: live, Page: p}
	if !n.Full {
		s.Tenant = n.Seer
	}
	by, err := n.page.allocationsOf(ctx, n.ID, s)
	if err != nil {
		return nil, err
	}
	list := by[n.ID]
	out := &AllocationConnection{PageInfo: &PageInfo{HasNextPage: len(list) > first}, Nodes: []*Allocation{}, Edges: []*AllocationEdge{}}
	for _, a := range list[:min(first, len(list))] {
		view, cursor := allocation(a, n.Seer), listCursor(a.ID)
		out.Nodes = append(out.Nodes, view)
		out.Edges = append(out.Edges, &AllocationEdge{Cursor: cursor, Node: view})
		out.PageInfo.EndCursor = &cursor
	}
	return out, nil
}

// LiveAllocationCount counts the live allocations.
func (n *Node) LiveAllocationCount(ctx context.Context) (int, error) {
	counts, err := n.page.liveCounts(ctx)
	return counts[n.ID], err
}

// measured gives what the daemon measured; nil before it did, and for a guest.
func (n *Node) measured(ctx context.Context) (*health.Inventory, error) {
	if !n.Full {
		return nil, nil //nolint:nilnil // a guest sees none
	}
	all, err := n.page.inventories(ctx)
	if err != nil {
		return nil, err
	}
	if i, ok := all[n.ID]; ok {
		return &i, nil
	}
	return nil, nil //nolint:nilnil // none reported yet
}

// Checks gives the acceptance checks, to the owner.
func (n *Node) Checks(ctx context.Context) ([]*health.Check, error) {
	out := []*health.Check{}
	if !n.Full {
		return out, nil
	}
	all, err := n.page.checks(ctx)
	list := all[n.ID]
	for i := range list {
		out = append(out, &list[i])
	}
	return out, err
}

// Inventory gives what the daemon measured, to the owner.
func (n *Node) Inventory(ctx context.Context) (*Inventory, error) {
	i, err := n.measured(ctx)
	if err != nil || i == nil {
		return nil, err
	}
	return inventory(*i), nil
}

// Devices gives what can be booked by itself: to a guest without what tells the very piece of hardware, and with its own bookings only.
func (n *Node) Devices(ctx context.Context) ([]*Device, error) {
	by, err := n.page.devicesOf(ctx)
	list := by[n.ID]
	out := make([]*Device, len(list))
	for at := range list {
		out[at] = &Device{Device: &list[at], node: n}
	}
	return out, err
}

// Device is a part of a node in an answer.
type Device struct {
	*placement.Device

	node *Node
}

// Allocations gives the live allocations that name it: all to the owner, others' reduced; its own to a guest.
func (d *Device) Allocations() []*Allocation {
	out := []*Allocation{}
	for _, a := range d.Booked {
		if d.node.Full || a.TenantID == d.node.Seer {
			out = append(out, allocation(a, d.node.Seer))
		}
	}
	return out
}

// InUse says whether the daemon reports compute processes on it, to the owner; nil when that is not known.
func (d *Device) InUse(ctx context.Context) (*bool, error) {
	if !d.node.Full {
		return nil, nil //nolint:nilnil // a guest is not told
	}
	sessions, err := d.node.page.sessions(ctx)
	if s, ok := sessions[d.NodeID]; ok && err == nil {
		return s.InUse(d.UUID), nil
	}
	return nil, err
}

// MemoryBytes gives its memory as text.
func (d *Device) MemoryBytes() string { return strconv.FormatInt(d.Device.MemoryBytes, 10) }

// Serial gives its serial number, if it has one, to the owner.
func (d *Device) Serial() node.Text { return d.toOwner(d.Device.Serial) }

// PciAddress gives where it is plugged in, if that is known, to the owner.
func (d *Device) PciAddress() node.Text { return d.toOwner(d.PCIAddress) }

func (d *Device) toOwner(text string) node.Text {
	if !d.node.Full {
		return ""
	}
	return node.Text(text)
}

// StorageRoots gives the file systems, to the owner.
func (n *Node) StorageRoots(ctx context.Context) ([]StorageRoot, error) {
	i, err := n.measured(ctx)
	out := []StorageRoot{}
	if err != nil || i == nil {
		return out, err
	}
	for _, r := range i.Roots {
		out = append(out, StorageRoot{
			Path: r.Path, UUID: node.Text(r.UUID), FsType: r.FsType, Device: node.Text(r.Device), SizeBytes: strconv.FormatInt(r.SizeBytes, 10),
			MissingSince: r.MissingSince,
		})
	}
	return out, nil
}

// ScalarResource is something that a node has by amount.
type ScalarResource struct{ Name, Amount, Unit string }

// ScalarResources gives processor and memory as far as they are known, to the owner.
func (n *Node) ScalarResources(ctx context.Context) ([]ScalarResource, error) {
	out := []ScalarResource{}
	i, err := n.Inventory(ctx)
	if i == nil || err != nil {
		return out, err
	}
	if i.CPUThreads != nil {
		out = append(out, ScalarResource{Name: "cpu", Amount: strconv.Itoa(*i.CPUThreads), Unit: "threads"})
	}
	if i.MemoryBytes != "" {
		out = append(out, ScalarResource{Name: "memory", Amount: string(i.MemoryBytes), Unit: "bytes"})
	}
	return out, nil
}

// NodeCertificate is a certificate of a node in an answer.
type NodeCertificate struct{ *pki.NodeCertificate }

// Certificates gives the node's certificates, newest first, to the owner.
func (n *Node) Certificates(ctx context.Context, live bool, first int, after *string) (*NodeCertificateConnection, error) {
	if first < 1 || first > node.MaxFirst {
		return nil, fault.Invalid("first", "must be between 1 and "+strconv.Itoa(node.MaxFirst), 0)
	}
	s := pki.CertificateSlice{Live: live, First: first}
	if after != nil {
		var err error
		if s.After, err = parseCertificateCursor(*after); err != nil {
			return nil, err
		}
	}
	out := &NodeCertificateConnection{PageInfo: &PageInfo{}, Nodes: []*NodeCertificate{}, Edges: []*NodeCertificateEdge{}}
	if !n.Full {
		return out, nil
	}
	by, err := n.page.certificatesOf(ctx, n.ID, s)
	if err != nil {
		return nil, err
	}
	list := by[n.ID]
	out.PageInfo.HasNextPage = len(list) > first
	for i := range list[:min(first, len(list))] {
		view, cursor := &NodeCertificate{&list[i]}, certificateKind+list[i].Serial
		out.Nodes = append(out.Nodes, view)
		out.Edges = append(out.Edges, &NodeCertificateEdge{Cursor: cursor, Node: view})
		out.PageInfo.EndCursor = &cursor
	}
	return out, nil
}

// Events gives the node's events, newest first.
func (n *Node) Events(ctx context.Context, types []string, first int, after *string) (*EventConnection, error) {
	if after != nil {
		return n.page.api.history(ctx, n.page.who, events.ListFilter{
			Filter: events.Filter{Tenant: n.Seer, NodeID: n.ID, Types: types}, First: first,
		}, after)
	}
	list, err := n.page.eventsOf(ctx, n.ID, types, first)
	if err != nil {
		return nil, err
	}
	return n.page.api.eventPage(n.page.reader, &n.page.told, list[:min(first, len(list))], len(list) > first)
}

// Inventory is what a daemon measured, as the API shows it.
type Inventory struct {
	ReportedAt   time.Time
	Stale        bool
	Os           node.Text
	Kernel       node.Text
	Vendor       node.Text
	Model        node.Text
	Serial       node.Text
	CPUModel     node.Text
	CPUArch      node.Text
	CPUCores     *int
	CPUThreads   *int
	MemoryBytes  node.Text
	Gpus         []GPU
	GpuNote      node.Text
	StorageRoots []StorageRoot
}

// GPU is an accelerator.
type GPU struct{ UUID, Model, MemoryBytes string }

// StorageRoot is a file system of a node.
type StorageRoot struct {
	Path         string
	UUID         node.Text
	FsType       string
	Device       node.Text
	SizeBytes    string
	MissingSince *time.Time
}

// pageOf checks the arguments of a list whose entries are sorted by their ids.
func pageOf(kind id.Kind, first int, after *string) (placement.Page, error) {
	if first < 1 || first > node.MaxFirst {
		return placement.Page{}, fault.Invalid("first", "must be between 1 and "+strconv.Itoa(node.MaxFirst), 0)
	}
	p := placement.Page{First: first}
	if after != nil {
		entry, err := parseListCursor(kind, *after)
		if err != nil {
			return placement.Page{}, err
		}
		p.After = entry
	}
	return p, nil
}

func inventory(i health.Inventory) *Inventory {
	shown := &Inventory{
		ReportedAt: i.ReportedAt, Stale: i.Stale, Os: i.OS, Kernel: i.Kernel, Vendor: i.Vendor, Model: i.Model, Serial: i.Serial,
		CPUModel: i.CPUModel, CPUArch: i.CPUArch, CPUCores: i.CPUCores, CPUThreads: i.CPUThreads, MemoryBytes: i.MemoryBytes, GpuNote: i.GPUNote,
		Gpus: []GPU{}, StorageRoots: []StorageRoot{},
	}
	for _, g := range i.GPUs {
		shown.Gpus = append(shown.Gpus, GPU(g))
	}
	for _, s := range i.Facts.FileSystems {
		shown.StorageRoots = append(shown.StorageRoots, StorageRoot{
			Path: s.Path, UUID: node.Text(s.UUID), FsType: s.Kind, Device: node.Text(s.Device), SizeBytes: strconv.FormatUint(s.SizeBytes, 10),
		})
	}
	return shown
}
