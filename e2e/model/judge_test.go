package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
)

// The judge replays the log through the model, each entry by the call that was told its place or by a controller, and holds every answer and everything
// that was read of the database against what the model had been at that very position.
type judge struct {
	position int64 // of the newest entry that was replayed
	at       int64
	owed     string              // the node whose drain has to be over with the next entry
	before   int                 // its version before the entry that owes it
	pasts    map[string][]moment // by node, oldest first
	recent   []event
	seen     map[string]bool // ids that were given out
	counts   map[string]int  // what was judged, for the report
}

// moment is a node from a position on.
type moment struct {
	position int64
	at       int64
	m        *machine
}

// step is a call with its answer. Everything that had been committed up to from was there before it began, and nothing after to has touched it.
type step struct {
	call call

	from, to int64
	got      answer
	position int64 // that the answer names; 0 where it was refused
	shown    *axes // the node in the answer, where there is one

	reservation, run string // that the answer names
}

func (s step) String() string {
	c, _ := json.Marshal(s.call)
	return fmt.Sprintf("%s\n  answer: %q changed=%t position=%d details=%v, between positions %d and %d",
		c, s.got.Code, s.got.Changed, s.position, s.got.Details, s.from, s.to)
}

// reading is what the database held of a node at a position.
type reading struct {
	node     string
	position int64
	m        *machine
}

func newJudge() *judge {
	return &judge{pasts: map[string][]moment{}, seen: map[string]bool{}, counts: map[string]int{}}
}

// born begins the past of a node that nobody has called anything on yet.
func (j *judge) born(node string, position int64, m *machine) {
	j.pasts[node] = []moment{{position: position, m: m}}
}

// judge goes through what happened since the last time: the log's new entries, the calls in any order, and the readings.
func (j *judge) judge(log []event, steps []step, readings []reading) error {
	told := map[int64][]*step{}
	for i := range steps {
		if steps[i].got.Changed {
			told[steps[i].position] = append(told[steps[i].position], &steps[i])
		}
	}
	for _, e := range log {
		if err := j.replay(e, told[e.Position]); err != nil {
			return fmt.Errorf("%w\nby: %v\n%s", err, told[e.Position], j.lately(e.Node))
		}
		delete(told, e.Position)
	}
	for position, s := range told {
		return fmt.Errorf("a call was told that it is at %d, where the log has nothing new:\n%s", position, s[0])
	}
	for _, s := range steps {
		if err := j.answered(s); err != nil {
			return fmt.Errorf("%w\n%s\n%s", err, s, j.lately(s.call.Node))
		}
	}
	for _, r := range readings {
		if err := j.read(r); err != nil {
			return fmt.Errorf("%w\n%s", err, j.lately(r.node))
		}
	}
	j.forget()
	return nil
}

// replay takes one entry of the log through the model.
func (j *judge) replay(e event, by []*step) error {
	if e.Position != j.position+1 {
		return fmt.Errorf("the log has a gap: %d comes after %d", e.Position, j.position)
	}
	if e.At < j.at {
		return fmt.Errorf("the log's time goes back at %d", e.Position)
	}
	if j.owed != "" && (e.Type != "node.drained" || e.Node != j.owed) {
		return fmt.Errorf("%s at %d: the node %s was empty, so its drain had to be over in the same transaction", e.Type, e.Position, j.owed)
	}
	together := j.owed != "" // of one transaction with the entry before, and the version moves once for both
	j.position, j.at, j.owed = e.Position, e.At, ""
	j.recent = append(j.recent, e)
	past, known := j.pasts[e.Node]
	if !known {
		return fmt.Errorf("%s at %d names the node %s, which is not known", e.Type, e.Position, e.Node)
	}
	if e.Position <= past[0].position {
		return nil // of its birth
	}
	m := past[len(past)-1].m.clone()
	want, err := j.cause(m, e, by)
	if err != nil {
		return err
	}
	if together && past[len(past)-1].m.Version != j.before {
		m.Version--
	}
	want.Position, want.At, want.Node = e.Position, e.At, e.Node
	if err := same(want, e); err != nil {
		return fmt.Errorf("%s at %d is another than the model's: %w", e.Type, e.Position, err)
	}
	if (e.Type == "node.draining" || e.Type == "reservation.released") && m.draining() && m.open() == 0 {
		j.owed, j.before = e.Node, past[len(past)-1].m.Version
	}
	j.pasts[e.Node] = append(past, moment{e.Position, e.At, m})
	j.counts[e.Type]++
	return nil
}

// cause moves the machine by who did it, and gives the event that the model has for that.
func (j *judge) cause(m *machine, e event, by []*step) (event, error) {
	// Several calls can have deleted the node together; the log tells of one of them.
	if len(by) > 1 && slices.ContainsFunc(by, func(s *step) bool { return s.call.Verb != "delete" }) {
		return event{}, fmt.Errorf("%s at %d: several calls were told that it is theirs", e.Type, e.Position)
	}
	i := slices.IndexFunc(by, func(s *step) bool {
		return s.call.Node == e.Node && (len(by) == 1 || s.call.Who == e.Actor && s.call.Reason == e.Reason && s.call.Request == e.Request)
	})
	if i < 0 {
		want, may := m.act(e)
		if !may {
			return event{}, fmt.Errorf("%s at %d by %s: no call was told of it, and nobody may do it by itself now", e.Type, e.Position, e.Actor)
		}
		return want, nil
	}
	fresh, err := j.made(e)
	if err != nil {
		return event{}, err
	}
	want := m.do(by[i].call, fresh)
	if !want.Changed {
		return event{}, fmt.Errorf("%s at %d: the model says that nothing changes (%q %v)", e.Type, e.Position, want.Code, want.Details)
	}
	return *want.Event, nil
}

// made takes from an event what the system chose, and holds that it is new.
func (j *judge) made(e event) (made, error) {
	out := made{Now: e.At}
	switch e.Type {
	case "node.draining":
		out.ID, _ = e.Data["drainId"].(string)
	case "node.adopting":
		out.ID, _ = e.Data["runId"].(string)
	case "reservation.created":
		out.ID, _ = e.Data["reservationId"].(string)
		if ids, ok := e.Data["allocationIds"].([]any); ok && len(ids) == 1 {
			out.Allocation, _ = ids[0].(string)
		}
		starts, _ := e.Data["startsAt"].(string)
		now, err := time.Parse(time.RFC3339Nano, starts)
		if out.Now = now.UnixMicro(); err != nil || out.Now > e.At {
			return made{}, fmt.Errorf("%s at %d begins at %q, and was written at %d", e.Type, e.Position, starts, e.At)
		}
	default:
		return out, nil
	}
	if out.ID == "" || j.seen[out.ID] {
		return made{}, fmt.Errorf("%s at %d has the id %q, which is none or not new", e.Type, e.Position, out.ID)
	}
	j.seen[out.ID] = true
	return out, nil
}

// answered holds an answer against the model.
func (j *judge) answered(s step) error {
	j.counts[verdict(s)]++
	switch {
	case slices.Contains([]string{"look", "accept", "turn"}, s.call.Verb):
		return j.looked(s)
	case s.got.Code != "":
		return j.refused(s)
	case s.position < s.from || s.position > s.to || s.got.Changed && s.position == s.from:
		return errors.New("the answer names a position that is not of its time")
	}
	then := j.then(s.call.Node, s.position)
	if then == nil {
		return errors.New("the answer names a position from before the node")
	}
	if s.call.Verb == "drain" && !s.got.Changed && then.m.draining() && s.shown != nil && s.shown.LastDrain != nil && s.shown.LastDrain.State == "DRAINED" {
		return j.joined(s, then.m.LastDrain.ID)
	}
	if !s.got.Changed { // the position is that at which it was looked
		if want := then.m.clone().do(s.call, made{}); want.Code != "" || want.Changed {
			return fmt.Errorf("the answer is that nothing changed, and the model's is %q changed=%t", want.Code, want.Changed)
		}
	}
	if s.call.Verb == "book" && s.got.Changed && s.call.Tenant != owner && !slices.ContainsFunc(j.between(s), func(m moment) bool { return len(m.m.Sight[s.call.Tenant]) > 0 }) {
		return errors.New("a tenant booked that never saw the node")
	}
	if s.shown == nil {
		return nil
	}
	if err := same(then.m.axes, *s.shown); err != nil {
		return fmt.Errorf("the answer shows another node than the model: %w", err)
	}
	return nil
}

// joined: one that waited for a drain of the empty node, which began and ended meanwhile, is told where that began, and shows the node as it was then seen.
func (j *judge) joined(s step, drainID string) error {
	if s.shown.LastDrain.ID != drainID {
		return errors.New("the answer shows another drain than the one that began at its position")
	}
	for _, m := range j.between(s) {
		if same(m.m.axes, *s.shown) == nil {
			return nil
		}
	}
	return errors.New("the answer shows the node as it was at no moment of the call")
}

// refused looks for a moment of the call at which the model refuses it so.
func (j *judge) refused(s step) error {
	var last string
	for _, then := range j.between(s) {
		want := then.m.clone().do(s.call, made{Now: then.at})
		if s.call.Verb == "book" && len(then.m.Sight[s.call.Tenant]) == 0 && s.got.Code == "NOT_FOUND" {
			return nil
		}
		if want.Code == s.got.Code && within(want.Details, s.got.Details) {
			return nil
		}
		last = fmt.Sprintf("%q changed=%t %v", want.Code, want.Changed, want.Details)
	}
	return fmt.Errorf("the call was refused, and at no moment of it does the model refuse it so; at the last its answer is %s", last)
}

// looked: a controller that looked has left nothing undone that was there to do all the time.
func (j *judge) looked(s step) error {
	if s.got.Code != "" {
		return fmt.Errorf("the look was refused with %s", s.got.Code)
	}
	began := int64(0)
	for _, then := range j.between(s) {
		m, undone := then.m, false
		if began == 0 {
			began = then.at
		}
		switch s.call.Verb {
		case "look":
			undone = m.draining() && m.open() == 0
		case "accept":
			undone = !m.Deleted && m.State == "ADOPTING" && m.Run == s.call.Run
		case "turn":
			for _, b := range m.Bookings {
				undone = undone || b.State == "ACTIVE" && b.Ends != 0 && b.Ends <= began
			}
		}
		if !undone {
			return nil
		}
	}
	return errors.New("the look left undone what was there to do all the time")
}

// read holds everything that the database has of a node against the model.
func (j *judge) read(r reading) error {
	j.counts["compared whole"]++
	then := j.then(r.node, r.position)
	if then == nil {
		return fmt.Errorf("the node %s was read at %d, before the model has it", r.node, r.position)
	}
	if err := same(*then.m, *r.m); err != nil {
		return fmt.Errorf("at %d the database has another node %s than the model: %w", r.position, r.node, err)
	}
	return nil
}

// then gives the node as it was at a position.
func (j *judge) then(node string, position int64) *moment {
	past := j.pasts[node]
	for i := len(past) - 1; i >= 0; i-- {
		if past[i].position <= position {
			return &past[i]
		}
	}
	return nil
}

// between gives the moments of a call, the first being what it found.
func (j *judge) between(s step) []moment {
	var out []moment
	for _, m := range j.pasts[s.call.Node] {
		switch {
		case m.position <= s.from:
			m.at = max(m.at, j.timeOf(s.from))
			out = []moment{m}
		case m.position <= s.to:
			out = append(out, m)
		}
	}
	return out
}

// timeOf is when a position was written, or 0 for one that is forgotten.
func (j *judge) timeOf(position int64) int64 {
	i, ok := slices.BinarySearchFunc(j.recent, position, func(e event, p int64) int { return int(e.Position - p) })
	if !ok {
		return 0
	}
	return j.recent[i].At
}

// forget leaves of each past what a later call can still have found, which is its end: nothing is under way now.
func (j *judge) forget() {
	for node, past := range j.pasts {
		j.pasts[node] = past[len(past)-1:]
	}
	j.recent = slices.Clone(j.recent[max(0, len(j.recent)-200):])
}

// lately gives the newest entries about a node, and the model's.
func (j *judge) lately(node string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the log of %s lately:\n", node)
	mine := slices.DeleteFunc(slices.Clone(j.recent), func(e event) bool { return e.Node != node })
	for _, e := range mine[max(0, len(mine)-12):] {
		data, _ := json.Marshal(e.Data)
		fmt.Fprintf(&b, "  %6d %-22s %-16s %q %s\n", e.Position, e.Type, e.Actor, e.Reason, data)
	}
	if past := j.pasts[node]; len(past) > 0 {
		shown, _ := json.Marshal(past[len(past)-1].m.axes)
		fmt.Fprintf(&b, "the model has: %s", shown)
	}
	return b.String()
}

func verdict(s step) string {
	switch {
	case s.got.Code != "":
		return s.call.Verb + " " + s.got.Code
	case s.got.Changed:
		return s.call.Verb + " changed"
	}
	return s.call.Verb + " unchanged"
}

// same compares, and says where two values differ. Of an event's data only what the model has counts.
func same(want, got any) error {
	if w, ok := want.(event); ok {
		g := got.(event)
		if !within(w.Data, g.Data) {
			return fmt.Errorf("the data are %v, and the model's are %v", g.Data, w.Data)
		}
		w.Data, g.Data = nil, nil
		want, got = w, g
	}
	if reflect.DeepEqual(want, got) {
		return nil
	}
	var t diff
	assert.Equal(&t, want, got)
	return errors.New(t.text)
}

// diff takes what assert has to say.
type diff struct{ text string }

func (d *diff) Errorf(format string, args ...any) { d.text += fmt.Sprintf(format, args...) }

// within says that got holds each of want's keys, with the same value once both are JSON.
func within(want, got map[string]any) bool {
	for key, value := range want {
		w, err := json.Marshal(value)
		if err != nil {
			return false
		}
		if g, err := json.Marshal(got[key]); err != nil || string(w) != string(g) {
			return false
		}
	}
	return true
}
