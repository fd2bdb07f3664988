package model_test

import (
	"maps"
	"slices"
	"time"
)

// machine is a node as the model has it.
type machine struct {
	axes

	Drains   []drain             // oldest first
	Bookings map[string]booking  // by reservation
	Sight    map[string][]string // relations by tenant, sorted
}

// axes are what the answer of a control shows.
type axes struct {
	Version   int
	ChangedBy string
	State     string
	Run       string // of acceptance
	Cordon    *cordon
	Reasons   map[string]reason // noScheduleReasons
	Labels    map[string]label
	LastDrain *drain
	Deleted   bool
}

type cordon struct{ By, Reason string }

type reason struct{ Owner, By, Message string }

type label struct{ Value, Source string }

type drain struct {
	ID, State, By, Reason, EndedBy, Cause string
	Confirmed                             *bool
}

// booking is a reservation with its one allocation.
type booking struct {
	Allocation, Tenant, By, Reason string
	Device                         string // empty: a share
	State                          string // ACTIVE, RELEASED, ENDED
	ReleasedBy                     string
	Starts, Ends                   int64 // microseconds since 1970; 0: open-ended
}

// call is one verb as somebody calls it.
type call struct {
	Verb, Node, Who, Tenant, Reason, Request string

	Version     int               // of all but book and release; 0: not said
	Update      bool              // of cordon
	IfBy        string            // of uncordon
	Add, Remove []string          // of taint; Remove of label too
	Set         map[string]string // of label
	Device      string            // of book
	Lasts       time.Duration     // of book; 0: open-ended
	Reservation string            // of release
	Run         string            // of accept
}

// made is what the model can't know: the ids that the system chose, and when it was.
type made struct {
	ID, Allocation string
	Now            int64
}

// answer is what a call gives.
type answer struct {
	Code    string
	Details map[string]any
	Changed bool
	Event   *event
}

// event is one entry of the log.
type event struct {
	Position                                   int64
	At                                         int64 // microseconds
	Type, Tenant, Node, Actor, Reason, Request string
	Data                                       map[string]any
	Full, Reduced                              []string
}

const (
	owner         = "acme"
	guest         = "other"
	draining      = "draining"
	taintPrefix   = "taint:"
	dedicated     = "dedicated="
	controllers   = "drain-controller"
	intervalTimer = "interval-timer"
	health        = "health"
)

func (m *machine) draining() bool { return m.LastDrain != nil && m.LastDrain.State == "DRAINING" }

func (m *machine) endDrain(state, by, cause string) {
	m.LastDrain.State, m.LastDrain.EndedBy, m.LastDrain.Cause = state, by, cause
	delete(m.Reasons, draining)
}

func (m *machine) open() (n int) {
	for _, b := range m.Bookings {
		if b.State == "ACTIVE" {
			n++
		}
	}
	return n
}

func (m *machine) wrongState() answer {
	return refused("INVALID_STATE", map[string]any{"provisionState": m.State, "cordoned": m.Cordon != nil})
}

func (m *machine) see(tenant, relation string) {
	if !slices.Contains(m.Sight[tenant], relation) {
		m.Sight[tenant] = append(slices.Clone(m.Sight[tenant]), relation)
		slices.Sort(m.Sight[tenant])
	}
}

func (m *machine) unsee(tenant, relation string) {
	m.Sight[tenant] = slices.DeleteFunc(slices.Clone(m.Sight[tenant]), func(r string) bool { return r == relation })
	if len(m.Sight[tenant]) == 0 {
		delete(m.Sight, tenant)
	}
}

// leave ends a guest's sight when it holds nothing any more.
func (m *machine) leave(tenant string) {
	for _, b := range m.Bookings {
		if b.State == "ACTIVE" && b.Tenant == tenant {
			return
		}
	}
	if tenant != owner {
		m.unsee(tenant, "ALLOCATED")
	}
}

// changed counts the version up by one and gives the one event, for the owner whole and for those who see the node reduced.
func (m *machine) changed(c call, eventType string, data map[string]any, guests ...string) answer {
	m.Version++
	m.ChangedBy = c.Who
	e := &event{Type: eventType, Tenant: owner, Actor: c.Who, Reason: c.Reason, Request: c.Request, Data: data, Full: []string{owner}, Reduced: []string{}}
	for _, tenant := range append(slices.Sorted(maps.Keys(m.Sight)), guests...) {
		if tenant != owner && !slices.Contains(e.Reduced, tenant) {
			e.Reduced = append(e.Reduced, tenant)
		}
	}
	return answer{Changed: true, Event: e}
}

// ofBooking gives an event about a booking: the whole for whose it is, reduced for the node's owner.
func (m *machine) ofBooking(tenant, actor, eventType, why, request string, data map[string]any) *event {
	e := &event{Type: eventType, Tenant: tenant, Actor: actor, Reason: why, Request: request, Data: data, Full: []string{tenant}, Reduced: []string{}}
	if tenant != owner {
		e.Reduced = []string{owner}
	}
	return e
}

// clone gives a copy that shares nothing that changes.
func (m *machine) clone() *machine {
	c := *m
	c.Reasons, c.Labels, c.Bookings, c.Sight = maps.Clone(m.Reasons), maps.Clone(m.Labels), maps.Clone(m.Bookings), maps.Clone(m.Sight)
	c.Drains = slices.Clone(m.Drains)
	if m.LastDrain != nil {
		c.LastDrain = &c.Drains[len(c.Drains)-1]
	}
	return &c
}
