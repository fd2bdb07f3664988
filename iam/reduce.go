package iam

import "encoding/json"

// reducedFields are the data fields, by event type, that a tenant reads of a node that it does not own. A type that is not here gives it none.
func reducedFields(eventType string) []string {
	switch eventType {
	case "node.draining":
		return []string{"drainId"}
	case "node.drained":
		return []string{"drainId", "confirmedByNode"}
	}
	return nil
}

// reduce keeps of an event's data what a tenant that does not own the node may read.
func reduce(eventType string, data json.RawMessage) json.RawMessage {
	kept := map[string]json.RawMessage{}
	var all map[string]json.RawMessage
	if fields := reducedFields(eventType); len(fields) > 0 && json.Unmarshal(data, &all) == nil {
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
