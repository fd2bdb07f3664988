package node_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// full is a node with something in every field.
func full() *node.Node {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	nodeID := id.New(id.Node)
	n := &node.Node{
		ID: nodeID, Key: "key", TenantID: "acme", PoolID: id.New(id.Pool), Hostname: "gpu-1", Version: 3, ProvisionState: node.Failed,
		Failure:       &node.Failure{Phase: "ACCEPTANCE", Message: "no inventory", At: at},
		AcceptanceRun: "adp", AdoptedAt: new(at),
		Cordon:      &node.Cordon{Reason: "BIOS", By: "alex", At: at, Until: new(at)},
		Maintenance: true, Connectivity: node.Connected, ConnectivitySince: new(at), IdentityGeneration: 2, Credential: node.Trusted, CredentialSince: at,
		LastDrain: &node.Drain{
			ID: id.New(id.Drain), NodeID: nodeID, State: node.Drained, Reason: "PSU", By: "alex", StartedAt: at, EndedAt: new(at), EndedBy: "drain-controller",
			ConfirmedByNode: new(true), Deadline: new(at),
		},
		ChangedBy: "alex", ChangedAt: at, CreatedAt: at, DeletedAt: new(at),
	}
	for _, r := range []string{"taint:rma", "draining", "condition:clock-skew", "unreachable"} {
		n.AddReason(node.Reason{Name: r, Owner: "o", By: "b", Message: "m", Since: at})
	}
	n.SetLabel(node.Label{Key: "rack", Value: "b7", Source: node.FromOperator})
	n.SetLabel(node.Label{Key: "gpu.model", Value: "H100", Source: node.FromInventory})
	n.SetLabel(node.Label{Key: "bc.dev/driver", Value: "1", Source: node.FromSystem})
	return n
}

// moves are changes, each of one thing, and the axis that it moves.
var moves = map[string]struct {
	field  string // of Node
	axis   node.Axes
	change func(n *node.Node)
}{
	"state":                {"ProvisionState", node.AxisProvision, func(n *node.Node) { n.ProvisionState = node.Adopting }},
	"failure":              {"Failure", node.AxisProvision, func(n *node.Node) { n.Failure.Message = "x" }},
	"run of acceptance":    {"AcceptanceRun", node.AxisProvision, func(n *node.Node) { n.AcceptanceRun = "x" }},
	"first adoption":       {"AdoptedAt", node.AxisProvision, func(n *node.Node) { n.AdoptedAt = nil }},
	"cordon":               {"Cordon", node.AxisCordon, func(n *node.Node) { n.Cordon = nil }},
	"cordon's reason":      {"Cordon", node.AxisCordon, func(n *node.Node) { n.Cordon.Reason = "x" }},
	"cordon's end":         {"Cordon", node.AxisCordon, func(n *node.Node) { n.Cordon.Until = nil }},
	"drain's deadline":     {"LastDrain", node.AxisDrain, func(n *node.Node) { n.LastDrain.Deadline = nil }},
	"cordon's author":      {"Cordon", node.AxisCordon, func(n *node.Node) { n.Cordon.By = "x" }},
	"drain":                {"LastDrain", node.AxisDrain, func(n *node.Node) { n.LastDrain = nil }},
	"drain's state":        {"LastDrain", node.AxisDrain, func(n *node.Node) { n.LastDrain.State = node.Cancelled }},
	"drain's confirmation": {"LastDrain", node.AxisDrain, func(n *node.Node) { n.LastDrain.ConfirmedByNode = nil }},
	"draining":             {"Reasons", node.AxisDrain, func(n *node.Node) { n.RemoveReason(node.ReasonDraining) }},
	"taint":                {"Reasons", node.AxisTaints, func(n *node.Node) { n.RemoveReason("taint:rma") }},
	"A3 a taint named as a controller's reason": {"Reasons", node.AxisTaints, func(n *node.Node) {
		n.AddReason(node.Reason{Name: "taint:unreachable"})
	}},
	"condition":             {"Reasons", node.AxisConditions, func(n *node.Node) { n.RemoveReason("condition:clock-skew") }},
	"unreachable":           {"Reasons", node.AxisUnreachable, func(n *node.Node) { n.RemoveReason(node.ReasonUnreachable) }},
	"maintenance":           {"Maintenance", node.AxisMaintenance, func(n *node.Node) { n.Maintenance = false }},
	"connectivity":          {"Connectivity", node.AxisConnectivity, func(n *node.Node) { n.Connectivity = node.Lost }},
	"connectivity's begin":  {"ConnectivitySince", node.AxisConnectivity, func(n *node.Node) { n.ConnectivitySince = nil }},
	"generation":            {"IdentityGeneration", node.AxisIdentity, func(n *node.Node) { n.IdentityGeneration++ }},
	"credential":            {"Credential", node.AxisIdentity, func(n *node.Node) { n.Credential = node.Revoked }},
	"credential's begin":    {"CredentialSince", node.AxisIdentity, func(n *node.Node) { n.CredentialSince = time.Now() }},
	"operator's label":      {"Labels", node.AxisOperatorLabels, func(n *node.Node) { n.SetLabel(node.Label{Key: "rack", Value: "x", Source: node.FromOperator}) }},
	"inventory's label":     {"Labels", node.AxisOtherLabels, func(n *node.Node) { n.SetLabel(node.Label{Key: "gpu.model", Value: "x", Source: node.FromInventory}) }},
	"system's label":        {"Labels", node.AxisOtherLabels, func(n *node.Node) { n.SetLabel(node.Label{Key: "bc.dev/driver", Value: "x", Source: node.FromSystem}) }},
	"label changes hands":   {"Labels", node.AxisOtherLabels | node.AxisOperatorLabels, func(n *node.Node) { n.SetLabel(node.Label{Key: "rack", Value: "b7", Source: node.FromInventory}) }},
	"host name":             {"Hostname", node.AxisHostname, func(n *node.Node) { n.Hostname = "x" }},
	"deleted":               {"DeletedAt", node.AxisDeleted, func(n *node.Node) { n.DeletedAt = nil }},
	"nothing, by a new now": {"DeletedAt", 0, func(n *node.Node) { n.DeletedAt = new(time.Now()) }},
}

// fixed are the fields that no control moves: what the node is, and what the write path keeps itself.
var fixed = []string{"ID", "Key", "TenantID", "PoolID", "Version", "ChangedBy", "ChangedAt", "CreatedAt"}

func TestMoved(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{}
	for _, f := range fixed {
		covered[f] = true
	}
	for name, m := range moves {
		before := full()
		after := before.Clone()
		m.change(after)
		require.Equal(t, m.axis, node.Moved(before, after), name)
		require.Equal(t, m.axis, node.Moved(after, before), "%s, back", name)
		covered[m.field] = true
	}
	n := full()
	require.Zero(t, node.Moved(n, n.Clone()))
	// A field that a node gets later is on an axis, or somebody says here that it is on none.
	for f := range reflect.TypeFor[node.Node]().Fields() {
		require.True(t, covered[f.Name], "the field %s is on no axis", f.Name)
	}
}

func TestClone(t *testing.T) {
	t.Parallel()
	// What pointers and lists of a copy lead to is the copy's own.
	n := full()
	shared := map[uintptr]string{}
	pointers(reflect.ValueOf(n).Elem(), "Node", func(path string, p uintptr) { shared[p] = path })
	require.GreaterOrEqual(t, len(shared), 9, "the walk finds the pointers and lists")
	c := n.Clone()
	pointers(reflect.ValueOf(c).Elem(), "Node", func(path string, p uintptr) {
		require.Empty(t, shared[p], "%s of a copy is the first's", path)
	})
	require.Equal(t, n, c)
}

// pointers gives every pointer and list below a value; what is inside a time is the time's.
func pointers(v reflect.Value, path string, say func(path string, p uintptr)) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			pointers(v.Field(i), path+"."+v.Type().Field(i).Name, say)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		say(path, v.Pointer())
		pointers(v.Elem(), path, say)
	case v.Kind() == reflect.Slice && v.Len() > 0:
		say(path, v.Pointer())
	}
}

func TestAxesNames(t *testing.T) {
	t.Parallel()
	// Each axis has a name of its own, for the sentence that says which a control must not move.
	seen := map[string]bool{}
	for a := node.AxisProvision; a <= node.AxisDeleted; a <<= 1 {
		name := a.String()
		require.NotEmpty(t, name)
		require.False(t, seen[name] || strings.Contains(name, ","), name)
		seen[name] = true
	}
	require.Equal(t, "cordon, drain", (node.AxisDrain | node.AxisCordon).String())
}
