package model_test

import (
	"maps"
	"slices"
	"strings"
)

// The rules: what a node is, and what each verb does to it, in the words of the guide "Operating nodes". Nothing here knows the code that it judges.

func unchanged() answer { return answer{} }

func refused(code string, details map[string]any) answer {
	return answer{Code: code, Details: details}
}

// do is a call by somebody. A call that changes nothing, or is refused, leaves the machine as it was.
func (m *machine) do(c call, made made) answer {
	switch c.Verb {
	case "book":
		return m.book(c, made)
	case "release":
		return m.release(c)
	}
	switch {
	case m.Deleted && c.Verb == "delete":
		return unchanged()
	case m.Deleted:
		return refused("NOT_FOUND", nil)
	case c.Version != 0 && c.Version != m.Version:
		return refused("CONFLICT", map[string]any{"expected": c.Version, "actual": m.Version, "by": m.ChangedBy})
	}
	switch c.Verb {
	case "cordon":
		return m.cordon(c)
	case "uncordon":
		return m.uncordon(c)
	case "drain":
		return m.drain(c, made)
	case "taint":
		return m.taint(c)
	case "label":
		return m.label(c)
	case "adopt":
		return m.adopt(c, made)
	case "delete":
		return m.delete(c)
	}
	panic("the model has no verb " + c.Verb)
}

func (m *machine) cordon(c call) answer {
	held := m.Cordon
	switch {
	case c.Update && held == nil:
		return m.wrongState()
	case c.Update && held.Reason == c.Reason, !c.Update && held != nil:
		return unchanged()
	case c.Update: // its holder stays
		m.Cordon = &cordon{By: held.By, Reason: c.Reason}
		return m.changed(c, "node.cordon-updated", nil)
	}
	m.Cordon = &cordon{By: c.Who, Reason: c.Reason}
	return m.changed(c, "node.cordoned", nil)
}

// uncordon clears the cordon and ends a drain in progress.
func (m *machine) uncordon(c call) answer {
	switch {
	case m.Cordon == nil:
		return unchanged()
	case c.IfBy != "" && c.IfBy != m.Cordon.By:
		return refused("CONFLICT", map[string]any{"expected": c.IfBy, "actual": m.Cordon.By})
	}
	m.Cordon = nil
	told := map[string]any{}
	if m.draining() {
		told["cancelledDrainId"] = m.LastDrain.ID
		m.endDrain("CANCELLED", c.Who, "uncordoned")
	}
	return m.changed(c, "node.uncordoned", told)
}

// drain cordons, unless somebody did, and adds the draining reason.
func (m *machine) drain(c call, made made) answer {
	if m.draining() {
		return unchanged()
	}
	if m.Cordon == nil {
		m.Cordon = &cordon{By: c.Who, Reason: c.Reason}
	}
	m.Drains = append(m.Drains, drain{ID: made.ID, State: "DRAINING", By: c.Who, Reason: c.Reason})
	m.LastDrain = &m.Drains[len(m.Drains)-1]
	m.Reasons[draining] = reason{Owner: controllers, By: c.Who, Message: c.Reason}
	return m.changed(c, "node.draining", map[string]any{"drainId": made.ID})
}

// taint moves operators' taints only. Whom the node is dedicated to sees it.
func (m *machine) taint(c call) answer {
	added, removed := []any{}, []any{}
	var guests []string
	for _, key := range c.Add {
		if _, has := m.Reasons[taintPrefix+key]; has {
			continue
		}
		m.Reasons[taintPrefix+key] = reason{Owner: "operator", By: c.Who, Message: c.Reason}
		added = append(added, key)
		if tenant, ok := strings.CutPrefix(key, dedicated); ok {
			guests = append(guests, tenant)
		}
	}
	for _, key := range c.Remove {
		if _, has := m.Reasons[taintPrefix+key]; has {
			delete(m.Reasons, taintPrefix+key)
			removed = append(removed, key)
		}
	}
	if len(added)+len(removed) == 0 {
		return unchanged()
	}
	out := m.changed(c, "node.tainted", map[string]any{"taintsAdded": added, "taintsRemoved": removed}, guests...)
	for _, tenant := range guests {
		m.see(tenant, "DEDICATED")
	}
	for _, key := range c.Remove {
		if tenant, ok := strings.CutPrefix(key, dedicated); ok {
			m.unsee(tenant, "DEDICATED")
		}
	}
	return out
}

// label moves operators' labels only. A key that inventory owns is refused in set and left in remove.
func (m *machine) label(c call) answer {
	for _, key := range slices.Sorted(maps.Keys(c.Set)) {
		if had, has := m.Labels[key]; has && had.Source != "OPERATOR" {
			return refused("INVALID_INPUT", map[string]any{"argument": "set", "key": key, "owner": had.Source})
		}
	}
	set, removed := map[string]any{}, map[string]any{}
	for key, value := range c.Set {
		if want := (label{value, "OPERATOR"}); m.Labels[key] != want {
			m.Labels[key] = want
			set[key] = value
		}
	}
	for _, key := range c.Remove {
		if had, has := m.Labels[key]; has && had.Source == "OPERATOR" {
			delete(m.Labels, key)
			removed[key] = had.Value
		}
	}
	if len(set)+len(removed) == 0 {
		return unchanged()
	}
	return m.changed(c, "node.labeled", map[string]any{"set": set, "removed": removed})
}

// adopt re-runs acceptance; the node leaves placement until the checks pass.
func (m *machine) adopt(c call, made made) answer {
	m.State, m.Run = "ADOPTING", made.ID
	return m.changed(c, "node.adopting", map[string]any{"runId": made.ID})
}

// delete takes an adopted node that is cordoned, or one that is adopting, and only when it holds no open allocation.
func (m *machine) delete(c call) answer {
	if m.State == "ADOPTED" && m.Cordon == nil {
		return m.wrongState()
	}
	if open := m.open(); open > 0 {
		return refused("INVALID_STATE", map[string]any{"openAllocations": open})
	}
	if m.draining() {
		m.endDrain("CANCELLED", c.Who, "deleted")
	}
	m.Deleted = true
	out := m.changed(c, "node.deleted", nil)
	m.Sight = map[string][]string{}
	return out
}

// book asks the gate. A device is held by one live allocation at a time.
func (m *machine) book(c call, made made) answer {
	if m.Deleted {
		return refused("NOT_FOUND", nil)
	}
	if !m.takes(c.Tenant) {
		return m.wrongState()
	}
	for id, b := range m.Bookings {
		if c.Device != "" && b.Device == c.Device && b.State == "ACTIVE" && (b.Ends == 0 || b.Ends > made.Now) {
			blocked := map[string]any{"device": c.Device}
			if b.Tenant == c.Tenant {
				blocked["reservationId"] = id
			}
			return refused("INVALID_STATE", map[string]any{"blocked": []any{blocked}})
		}
	}
	b := booking{Allocation: made.Allocation, Tenant: c.Tenant, By: c.Who, Reason: c.Reason, Device: c.Device, State: "ACTIVE", Starts: made.Now}
	if c.Lasts > 0 {
		b.Ends = made.Now + c.Lasts.Microseconds()
	}
	m.Bookings[made.ID] = b
	if c.Tenant != owner {
		m.see(c.Tenant, "ALLOCATED")
	}
	told := map[string]any{"reservationId": made.ID, "allocationIds": []any{made.Allocation}}
	if c.Device != "" {
		told["devices"] = []any{c.Device}
	}
	return answer{Changed: true, Event: m.ofBooking(c.Tenant, c.Who, "reservation.created", c.Reason, c.Request, told)}
}

// release ends an active reservation and leaves any other as it is.
func (m *machine) release(c call) answer {
	b, is := m.Bookings[c.Reservation]
	if !is {
		return refused("NOT_FOUND", nil)
	}
	if b.State != "ACTIVE" {
		return unchanged()
	}
	b.State, b.ReleasedBy = "RELEASED", c.Who
	m.Bookings[c.Reservation] = b
	m.leave(b.Tenant)
	told := map[string]any{"reservationId": c.Reservation, "allocationIds": []any{b.Allocation}}
	return answer{Changed: true, Event: m.ofBooking(b.Tenant, c.Who, "reservation.released", c.Reason, c.Request, told)}
}

// act is what a controller does by itself, when the log says that it did; false when it may not.
func (m *machine) act(e event) (event, bool) {
	switch e.Type {
	case "node.drained": // it waits until the node holds no live allocation
		if !m.draining() || m.open() > 0 {
			return event{}, false
		}
		m.endDrain("DRAINED", controllers, "")
		no := false
		m.LastDrain.Confirmed = &no // no machine reports here
		d := *m.LastDrain
		return *m.changed(call{Who: controllers, Reason: d.Reason}, e.Type, map[string]any{"drainId": d.ID, "confirmedByNode": false}).Event, true
	case "node.adopted": // the machines here pass their checks whenever somebody looks
		if m.Deleted || m.State != "ADOPTING" {
			return event{}, false
		}
		m.State = "ADOPTED"
		return *m.changed(call{Who: health}, e.Type, map[string]any{"runId": m.Run}).Event, true
	case "allocation.ended": // past the end of its interval
		id, _ := e.Data["reservationId"].(string)
		b := m.Bookings[id]
		if b.State != "ACTIVE" || b.Ends == 0 || b.Ends > e.At {
			return event{}, false
		}
		b.State = "ENDED"
		m.Bookings[id] = b
		m.leave(b.Tenant)
		return *m.ofBooking(b.Tenant, intervalTimer, e.Type, "", "", map[string]any{"reservationId": id, "allocationId": b.Allocation}), true
	}
	return event{}, false
}

// takes is the gate: any reason keeps work out, but for one dedication to that very tenant.
func (m *machine) takes(tenant string) bool {
	_, own := m.Reasons[taintPrefix+dedicated+tenant]
	return m.State == "ADOPTED" && m.Cordon == nil && !m.Deleted && (len(m.Reasons) == 0 || len(m.Reasons) == 1 && own)
}
