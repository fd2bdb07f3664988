package health

import (
	"slices"
	"strconv"
	"strings"

	"github.com/better-compute/better-compute/node"
)

// systemPrefix begins the keys that only the system writes.
const systemPrefix = "bc.dev/"

// inventory is the decision: the labels that come from inventory become exactly those of the facts, and the host name the machine's. A key that an
// operator had set is displaced, and given back for the event; one of the system's is never touched.
func inventory(n *node.Node, facts Facts, changed bool) (fact *node.Fact, displaced map[string]string) {
	before := n.Clone()
	want := labels(facts)
	displaced = map[string]string{}
	n.Labels = slices.DeleteFunc(n.Labels, func(l node.Label) bool {
		return l.Source == node.FromInventory && !slices.ContainsFunc(want, func(w node.Label) bool { return w.Key == l.Key })
	})
	for _, l := range want {
		i := slices.IndexFunc(n.Labels, func(o node.Label) bool { return o.Key == l.Key })
		switch {
		case i >= 0 && n.Labels[i].Source == node.FromSystem:
			continue
		case i >= 0 && n.Labels[i].Source == node.FromOperator:
			displaced[l.Key] = n.Labels[i].Value
		}
		n.SetLabel(l)
	}
	if node.HostnameRule.MatchString(facts.System.Hostname) {
		n.Hostname = facts.System.Hostname
	}
	if !changed && node.Moved(before, n) == 0 {
		return nil, displaced
	}
	return &node.Fact{Type: "node.inventory", Data: Reported{
		GPUs: len(facts.GPUs), CPUThreads: facts.CPU.Threads, MemoryBytes: facts.MemoryBytes, Labels: len(want),
	}}, displaced
}

// labels gives what facts say of a node for placement, sorted by key. What is not known has no label.
func labels(f Facts) []node.Label {
	var out []node.Label
	add := func(key, value string) {
		if value = labelValue(value); value != "" && !strings.HasPrefix(key, systemPrefix) {
			out = append(out, node.Label{Key: key, Value: value, Source: node.FromInventory})
		}
	}
	count := func(key string, n uint64) {
		if n > 0 {
			add(key, strconv.FormatUint(n, 10))
		}
	}
	add("cpu.arch", f.CPU.Arch)
	count("cpu.cores", uint64(max(f.CPU.Cores, 0)))
	add("cpu.model", f.CPU.Model)
	count("cpu.sockets", uint64(max(f.CPU.Sockets, 0)))
	count("cpu.threads", uint64(max(f.CPU.Threads, 0)))
	add("cpu.vendor", f.CPU.Vendor)
	if len(f.GPUs) > 0 || f.GPUDriver != nil {
		add("gpu.count", strconv.Itoa(len(f.GPUs)))
	}
	if f.GPUDriver != nil {
		add("gpu.driver", f.GPUDriver.Version)
	}
	if len(f.GPUs) > 0 {
		var models []string
		least := f.GPUs[0].MemoryBytes
		for _, g := range f.GPUs {
			models = append(models, labelValue(g.Model))
			least = min(least, g.MemoryBytes)
		}
		slices.Sort(models)
		add("gpu.model", strings.Join(slices.Compact(models), "+"))
		count("gpu.memory.gib", gib(least))
	}
	add("kernel.version", f.Kernel.Release)
	count("mem.gib", gib(f.MemoryBytes))
	add("os.name", f.OS.ID)
	add("os.version", f.OS.Version)
	add("system.model", f.System.Model)
	add("system.vendor", f.System.Vendor)
	add("system.virtualization", f.System.Virtualization)
	return out
}

// gib rounds to whole GiB: a machine of 64 GiB shows a little less to its kernel.
func gib(bytes uint64) uint64 { return bytes>>30 + bytes>>29&1 }

// labelValue makes a value that selectors can match: what may not stand in one becomes a single sign, and no more than 256 characters stay.
func labelValue(s string) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() == 256 {
			break
		}
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/@+=-", r)) {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-")
}
