package iam

import (
	"encoding/json"

	"github.com/better-compute/better-compute/events"
)

// reduce keeps of an event's data what a tenant that does not own the node may read: the fields that the catalogue names. A type that it doesn't
// know gives none.
func reduce(eventType string, data json.RawMessage) json.RawMessage {
	kept := map[string]json.RawMessage{}
	var all map[string]json.RawMessage
	if fields := events.ReducedFields(eventType); len(fields) > 0 && json.Unmarshal(data, &all) == nil {
		for _, f := range fields {
			if v, ok := all[f]; ok {
				kept[f] = v
			}
		}
	}
	out, err := json.Marshal(kept)
	if err != nil {
		return json.RawMessage("{}")
	}
	return out
}
