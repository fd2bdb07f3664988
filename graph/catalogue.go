package graph

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/better-compute/better-compute/events"
)

// LabelPair is a label in an event.
type LabelPair struct{ Key, Value string }

// pairs gives labels by key; none are null.
func pairs(labels map[string]string) []*LabelPair {
	if labels == nil {
		return nil
	}
	out := make([]*LabelPair, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, &LabelPair{Key: key, Value: labels[key]})
	}
	return out
}

// MachinePrint is what tells a machine from others.
type MachinePrint struct {
	MachineID   string `json:"machineId"`
	ProductUUID string `json:"productUuid"`
	EkHash      string `json:"ekHash"`
	BootID      string `json:"bootId"`
}

// EventKind is a row of the catalogue.
type EventKind struct{ *events.Kind }

// Fields gives what it carries beside what every event has.
func (k EventKind) Fields() []*EventField {
	out := make([]*EventField, len(k.Kind.Fields))
	for i := range k.Kind.Fields {
		out[i] = &EventField{&k.Kind.Fields[i]}
	}
	return out
}

// Example gives an event of the type by the names of the API.
func (k EventKind) Example() (string, error) {
	e := map[string]any{"type": k.Type}
	for _, f := range k.Kind.Fields {
		e[f.API()] = f.Example
		if labels, ok := f.Example.(map[string]any); ok && f.Shape == events.ShapeLabels {
			list := []map[string]any{}
			for _, key := range slices.Sorted(maps.Keys(labels)) {
				list = append(list, map[string]any{"key": key, "value": labels[key]})
			}
			e[f.API()] = list
		}
	}
	b, err := json.Marshal(e)
	return string(b), err
}

// EventField is a field of a type of event.
type EventField struct{ *events.Field }

// Name gives its name in the family.
func (f EventField) Name() string { return f.API() }

// Type gives its type.
func (f EventField) Type() string { return string(f.Shape) }

// Description says what it is.
func (f EventField) Description() string { return f.Doc }

// EventCatalogue gives what is known of each type of event.
func (q queries) EventCatalogue(ctx context.Context) ([]*EventKind, error) {
	if _, err := q.signedIn(ctx); err != nil {
		return nil, err
	}
	var out []*EventKind
	for _, k := range events.Catalogue() {
		out = append(out, &EventKind{k})
	}
	return out, nil
}
