package events

import (
	"slices"
	"strings"
)

// Kind is what the catalogue says of one type of event. The rows are the single source: the API's event types and its eventCatalogue, the events
// guide, the command line's fragment and what a reduced reader gets are made of them, and in tests [Append] refuses what they don't say.
type Kind struct {
	// Type is the dotted name.
	Type string
	// Family is the API's object type that carries it.
	Family string
	// When says when it is written, as a sentence.
	When string
	// Actor says who stands in its actor.
	Actor string
	// Readers says who may read it.
	Readers Readers
	// Fields are what it carries beside what every event has.
	Fields []Field
}

// Field is a fact that a type of event carries in its data.
type Field struct {
	// Name is its key in the data.
	Name string
	// As is its name in the API where that differs: a field's name has one type across all families, and those of every event are taken.
	As string
	// Shape is its type in the API, without the exclamation mark.
	Shape Shape
	// Always says that no such event is written without it.
	Always bool
	// Promised says that the API declares it as never null, which it can't take back. What is not promised may be missing from an event of a
	// version that didn't write it yet. A field's name is promised in each family that has it, or in none.
	Promised bool
	// Reduced says that it is also for tenants that don't own the node.
	Reduced bool
	// Doc says what it is, as a sentence.
	Doc string
	// Example is a value of it.
	Example any
}

// API gives the field's name in the API.
func (f *Field) API() string {
	if f.As != "" {
		return f.As
	}
	return f.Name
}

// Family is an object type of the API that carries one or more types of events.
type Family struct {
	// Name is the type's name.
	Name string
	// Doc says what its events are about, as a sentence.
	Doc string
}

// Shape is the type of a field, by its name in the API.
type Shape string

// The shapes. What the data holds for each: a string for ID, String, DateTime (RFC 3339) and the enums; an object with text values for Labels; an
// object with the parts of a machine's print for Print.
const (
	ShapeID           Shape = "ID"
	ShapeIDs          Shape = "[ID!]"
	ShapeString       Shape = "String"
	ShapeStrings      Shape = "[String!]"
	ShapeInt          Shape = "Int"
	ShapeBoolean      Shape = "Boolean"
	ShapeDateTime     Shape = "DateTime"
	ShapeLabels       Shape = "[LabelPair!]"
	ShapePrint        Shape = "MachinePrint"
	ShapeConnectivity Shape = "Connectivity"
	ShapeTokenRefusal Shape = "JoinTokenRefusal"
)

// Readers says whose events of a type are.
type Readers string

// The readers, with the words of the API.
const (
	// ToOwner: the tenant that owns what the event is about, and nobody else.
	ToOwner Readers = "OWNER"
	// ToNodeTenants: the node's owner the whole; every other tenant that sees the node, reduced.
	ToNodeTenants Readers = "NODE_TENANTS"
	// ToHolder: the whole for the tenant whose booking it is; reduced for the node's owner.
	ToHolder Readers = "HOLDER"
	// ToSecurity: the node's owner, for who holds the action compute:nodes:security-events there.
	ToSecurity Readers = "SECURITY"
)

// Sentence says it in words.
func (r Readers) Sentence() string {
	switch r {
	case ToOwner:
		return "The tenant that owns it, and nobody else."
	case ToNodeTenants:
		return "The node's owner; every other tenant that saw the node then reads it without actor, reason, request id and most fields."
	case ToHolder:
		return "The tenant whose booking it is; the node's owner, where that is another, reads it without actor, reason, request id and fields."
	case ToSecurity:
		return "The node's owner, by who holds compute:nodes:security-events there; nobody else, not even in part."
	}
	return ""
}

// Generic is the family of events without a type of their own.
const Generic = "GenericEvent"

var catalogue = slices.Concat(nodeKinds(), sessionKinds(), bookingKinds(), adminKinds(), securityKinds())

var byType = func() map[string]*Kind {
	m := make(map[string]*Kind, len(catalogue))
	for i := range catalogue {
		m[catalogue[i].Type] = &catalogue[i]
	}
	return m
}()

// Catalogue gives what is known of each type of event, sorted by type. The caller leaves it as it is.
func Catalogue() []*Kind {
	out := make([]*Kind, 0, len(byType))
	for _, k := range byType {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b *Kind) int { return strings.Compare(a.Type, b.Type) })
	return out
}

// Find gives what is known of a type, or nil.
func Find(eventType string) *Kind { return byType[eventType] }

// ReducedFields are the data's keys that a tenant reads of an event about a node that it does not own.
func ReducedFields(eventType string) []string {
	k := byType[eventType]
	if k == nil {
		return nil
	}
	var out []string
	for i := range k.Fields {
		if k.Fields[i].Reduced {
			out = append(out, k.Fields[i].Name)
		}
	}
	return out
}

// FamilyKinds gives the types that a family carries, sorted.
func FamilyKinds(family string) []*Kind {
	return slices.DeleteFunc(Catalogue(), func(k *Kind) bool { return k.Family != family })
}

// FamilyFields gives the fields of a family's kinds together.
func FamilyFields(family string) []Field {
	var out []Field
	for _, k := range FamilyKinds(family) {
		for _, f := range k.Fields {
			if !slices.ContainsFunc(out, func(o Field) bool { return o.API() == f.API() }) {
				out = append(out, f)
			}
		}
	}
	return out
}
