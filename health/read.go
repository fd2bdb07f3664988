package health

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/node"
)

// Inventory is a node's newest inventory as it is shown. A fact that the machine doesn't give is nil or empty.
type Inventory struct {
	NodeID string
	// ReportedAt is when it came, by the database's clock.
	ReportedAt time.Time
	// Stale says that it is not of the node's present live session.
	Stale bool
	// OS is the operating system's name and version.
	OS node.Text
	// Kernel is the kernel's version.
	Kernel node.Text
	// Vendor made the machine.
	Vendor node.Text
	// Model is the machine's.
	Model node.Text
	// Serial is the machine's.
	Serial node.Text
	// CPUModel is the processor's model.
	CPUModel node.Text
	// CPUArch is its architecture, like amd64.
	CPUArch node.Text
	// CPUCores are the physical cores.
	CPUCores *int
	// CPUThreads are the hardware threads.
	CPUThreads *int
	// MemoryBytes is the memory, as text since it passes 32 bits.
	MemoryBytes node.Text
	// GPUs are the accelerators.
	GPUs []Gpu
	// GPUNote says why none was found.
	GPUNote node.Text
	// Facts are all of it.
	Facts Facts
	// Roots are the file systems that any inventory of the node showed, by path; those that are missing now too.
	Roots []StoredRoot
}

// Gpu is an accelerator as it is shown.
type Gpu struct {
	UUID        string
	Model       string
	MemoryBytes string
}

// InventoryOf gives the newest inventory of each of the nodes that ever reported one, by node id.
func InventoryOf(ctx context.Context, q db.Querier, nodeIDs []string) (map[string]Inventory, error) {
	rows, err := q.Query(ctx, `
		select i.node_id, i.reported_at, s.number is distinct from i.session_number or s.disconnected_at is not null, i.facts,
		       coalesce(`+rootsJSON+`, '[]')
		from node_inventory i left join node_sessions s on s.node_id = i.node_id where i.node_id = any($1)`, nodeIDs)
	if err != nil {
		return nil, fmt.Errorf("read the inventory: %w", err)
	}
	out := make(map[string]Inventory, len(nodeIDs))
	var i Inventory
	var facts, roots []byte
	_, err = pgx.ForEachRow(rows, []any{&i.NodeID, &i.ReportedAt, &i.Stale, &facts, &roots}, func() error {
		shown := i
		for _, part := range []struct {
			text []byte
			into any
		}{{facts, &shown.Facts}, {roots, &shown.Roots}} {
			if err := json.Unmarshal(part.text, part.into); err != nil {
				return err
			}
		}
		shown.show()
		out[i.NodeID] = shown
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the inventory: %w", err)
	}
	return out, nil
}

func (i *Inventory) show() {
	f := i.Facts
	i.OS, i.Kernel = node.Text(osName(f.OS)), node.Text(f.Kernel.Release)
	i.Vendor, i.Model, i.Serial = node.Text(f.System.Vendor), node.Text(f.System.Model), node.Text(f.System.Serial)
	i.CPUModel, i.CPUArch, i.CPUCores, i.CPUThreads = node.Text(f.CPU.Model), node.Text(f.CPU.Arch), known(f.CPU.Cores), known(f.CPU.Threads)
	if f.MemoryBytes > 0 {
		i.MemoryBytes = node.Text(strconv.FormatUint(f.MemoryBytes, 10))
	}
	i.GPUs = []Gpu{}
	for _, g := range f.GPUs {
		i.GPUs = append(i.GPUs, Gpu{UUID: g.UUID, Model: g.Model, MemoryBytes: strconv.FormatUint(g.MemoryBytes, 10)})
	}
	if at := slices.IndexFunc(f.Notes, func(note string) bool { return strings.Contains(strings.ToLower(note), "gpu") }); at >= 0 {
		i.GPUNote = node.Text(f.Notes[at])
	}
}

func osName(o OS) string {
	if o.Name != "" {
		return o.Name
	}
	return strings.TrimSpace(o.ID + " " + o.Version)
}

// known gives nil for a number that is not known.
func known(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
