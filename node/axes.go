package node

import (
	"reflect"
	"slices"
	"strings"
)

// Axes is a set of the node's independent axes.
type Axes uint16

// The axes. Each is moved by its own control or controller and no other.
const (
	AxisProvision Axes = 1 << iota
	AxisCordon
	AxisDrain
	AxisTaints
	AxisConditions
	AxisUnreachable
	AxisMaintenance
	AxisConnectivity
	AxisIdentity
	AxisOperatorLabels
	AxisOtherLabels
	AxisHostname
	AxisDeleted
)

// versioned are the axes that move the version: design.md §4.
const versioned = AxisProvision | AxisCordon | AxisDrain | AxisTaints | AxisConditions | AxisUnreachable | AxisMaintenance | AxisIdentity |
	AxisOperatorLabels | AxisDeleted

// Has says whether all axes of o are in a.
func (a Axes) Has(o Axes) bool { return a&o == o }

func (a Axes) String() string {
	names := []string{
		"provision", "cordon", "drain", "taints", "conditions", "unreachable", "maintenance", "connectivity", "identity", "operator labels",
		"other labels", "hostname", "deleted",
	}
	var in []string
	for i, name := range names {
		if a&(1<<i) != 0 {
			in = append(in, name)
		}
	}
	return strings.Join(in, ", ")
}

// Moved says on which axes two states of one node differ.
func Moved(before, after *Node) Axes {
	var moved Axes
	add := func(axis Axes, same bool) {
		if !same {
			moved |= axis
		}
	}
	add(AxisProvision, before.ProvisionState == after.ProvisionState && reflect.DeepEqual(before.Failure, after.Failure) &&
		before.AcceptanceRun == after.AcceptanceRun && (before.AdoptedAt == nil) == (after.AdoptedAt == nil))
	add(AxisCordon, reflect.DeepEqual(before.Cordon, after.Cordon))
	add(AxisDrain, reflect.DeepEqual(before.LastDrain, after.LastDrain))
	for axis, of := range map[Axes]func(Reason) bool{
		AxisDrain:       func(r Reason) bool { return r.Name == ReasonDraining },
		AxisTaints:      func(r Reason) bool { return strings.HasPrefix(r.Name, PrefixTaint) },
		AxisConditions:  func(r Reason) bool { return strings.HasPrefix(r.Name, PrefixCondition) },
		AxisUnreachable: func(r Reason) bool { return r.Name == ReasonUnreachable },
	} {
		add(axis, slices.Equal(those(before.Reasons, of), those(after.Reasons, of)))
	}
	add(AxisMaintenance, before.Maintenance == after.Maintenance)
	add(AxisConnectivity, before.Connectivity == after.Connectivity && reflect.DeepEqual(before.ConnectivitySince, after.ConnectivitySince))
	add(AxisIdentity, before.IdentityGeneration == after.IdentityGeneration && before.Credential == after.Credential &&
		before.CredentialSince.Equal(after.CredentialSince))
	operators := func(l Label) bool { return l.Source == FromOperator }
	others := func(l Label) bool { return l.Source != FromOperator }
	add(AxisOperatorLabels, slices.Equal(those(before.Labels, operators), those(after.Labels, operators)))
	add(AxisOtherLabels, slices.Equal(those(before.Labels, others), those(after.Labels, others)))
	add(AxisHostname, before.Hostname == after.Hostname)
	add(AxisDeleted, (before.DeletedAt == nil) == (after.DeletedAt == nil))
	return moved
}

func those[T any](in []T, of func(T) bool) []T {
	var out []T
	for _, v := range in {
		if of(v) {
			out = append(out, v)
		}
	}
	return out
}
