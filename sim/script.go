package sim

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// What can happen.
const (
	Book     = "book"
	Release  = "release"
	Cordon   = "cordon"
	Drain    = "drain"
	Uncordon = "uncordon"
	GPUFails = "gpu-fails"
	GPUBack  = "gpu-back"
	RackOff  = "rack-off"
	RackOn   = "rack-on"
)

// Act is one thing that happens, at a time after the beginning.
type Act struct {
	At   time.Duration
	Kind string
	// Machine is whose; of a rack, its first.
	Machine int
	// Booking is the number of the booking that is made or released.
	Booking int
	// GPUs are the slots that are booked or fail; none: a share of the node.
	GPUs []int
	// For is how long a booking lasts; 0: until it is released.
	For time.Duration
	// Reason is the text that goes with it.
	Reason string
}

// Script gives the acts of a fleet one after another, without an end. It knows nothing of the control plane: equal seeds and numbers give equal acts.
type Script struct {
	r        *rand.Rand
	machines []Hardware
	at       time.Duration
	made     int
	bookings int
	later    acts
	open     []Act         // bookings without an end
	taken    map[int][]int // GPUs of open bookings by machine; those with an end go at theirs
	held     map[int]bool  // cordoned machines
	off      int           // the rack without power, -1 for none
	calm     time.Duration // until when no rack loses power again
}

// NewScript begins the script of a fleet.
func NewScript(seed uint64, machines []Hardware) *Script {
	return &Script{
		r: rand.New(rand.NewPCG(seed, 0x5c217)), machines: machines, taken: map[int][]int{}, held: map[int]bool{}, off: -1, calm: time.Minute, //nolint:gosec // a play, no secret
	}
}

// pause is the mean time between two acts: about one a second for 200 machines, never more than five a second nor fewer than one in five seconds. A
// fleet that starts is booked four times as fast.
func (s *Script) pause() time.Duration {
	mean := min(max(200*time.Second/time.Duration(max(len(s.machines), 1)), 200*time.Millisecond), 5*time.Second)
	if s.made < len(s.machines)/2 {
		mean /= 4
	}
	return mean/2 + time.Duration(s.r.Int64N(int64(mean)))
}

// Next gives the next act.
func (s *Script) Next() Act {
	for {
		next := s.at + s.pause()
		if len(s.later) > 0 && s.later[0].At <= next {
			act, _ := heap.Pop(&s.later).(Act)
			s.at = act.At
			if s.due(act) {
				return act
			}
			continue
		}
		s.at = next
		s.made++
		if act, ok := s.choose(); ok {
			act.At = s.at
			return act
		}
	}
}

// due has the effects of an act that was set for later; false: nothing is to be done for it.
func (s *Script) due(a Act) bool {
	switch a.Kind {
	case Release: // the end of a booking's interval, which the control plane knows by itself
		s.free(a)
		return false
	case RackOn:
		s.off = -1
	case Uncordon:
		if !s.held[a.Machine] {
			return false
		}
		delete(s.held, a.Machine)
	}
	return true
}

// choose makes up something; false: nothing of that kind can happen now.
func (s *Script) choose() (Act, bool) {
	m := s.r.IntN(len(s.machines))
	switch n := s.r.IntN(200); {
	case n < 120, n < 160 && s.made < len(s.machines)/2:
		return s.book(m)
	case n < 170:
		return s.release()
	case n < 180:
		return s.hold(m, Cordon, "BIOS update window", "fabric cable is replaced", "burn-in repeats", "waits for a spare part")
	case n < 188:
		return s.hold(m, Drain, "replace PSU", "firmware update", "rack move", "GPU swap")
	case n < 196:
		return s.lift()
	case n < 199:
		return s.gpu(m)
	default:
		return s.rack(m)
	}
}

func (s *Script) book(m int) (Act, bool) {
	free := make([]int, 0, gpusEach)
	for n := range gpusEach {
		if !slices.Contains(s.taken[m], n) {
			free = append(free, n)
		}
	}
	want := []int{1, 1, 2, 4, 8, 8}[s.r.IntN(6)]
	lasts := time.Duration(1+s.r.IntN(20)) * time.Minute
	open := s.r.IntN(4) == 0
	if want > len(free) || s.held[m] || s.out(m) {
		return Act{}, false
	}
	s.bookings++
	a := Act{Kind: Book, Machine: m, Booking: s.bookings, GPUs: free[:want], Reason: []string{"training run", "evaluation", "inference", "fine-tuning"}[s.bookings%4]}
	s.taken[m] = append(s.taken[m], a.GPUs...)
	if open {
		s.open = append(s.open, a)
		return a, true
	}
	a.For = lasts
	end := a
	end.At, end.Kind = s.at+lasts, Release
	heap.Push(&s.later, end)
	return a, true
}

func (s *Script) release() (Act, bool) {
	if len(s.open) == 0 {
		return Act{}, false
	}
	i := s.r.IntN(len(s.open))
	a := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	s.free(a)
	return Act{Kind: Release, Machine: a.Machine, Booking: a.Booking, GPUs: a.GPUs, Reason: "done"}, true
}

func (s *Script) free(a Act) {
	s.taken[a.Machine] = slices.DeleteFunc(s.taken[a.Machine], func(n int) bool { return slices.Contains(a.GPUs, n) })
}

func (s *Script) hold(m int, kind string, reasons ...string) (Act, bool) {
	reason := reasons[s.r.IntN(len(reasons))]
	back := time.Duration(2+s.r.IntN(8)) * time.Minute
	if s.held[m] || len(s.held) > len(s.machines)/10 {
		return Act{}, false
	}
	s.held[m] = true
	heap.Push(&s.later, Act{At: s.at + back, Kind: Uncordon, Machine: m, Reason: "back in service"})
	return Act{Kind: kind, Machine: m, Reason: reason}, true
}

// lift ends the oldest of some holds early.
func (s *Script) lift() (Act, bool) {
	i := slices.IndexFunc(s.later, func(a Act) bool { return a.Kind == Uncordon && s.held[a.Machine] })
	if i < 0 {
		return Act{}, false
	}
	a := s.later[i]
	delete(s.held, a.Machine)
	return Act{Kind: Uncordon, Machine: a.Machine, Reason: "done sooner"}, true
}

func (s *Script) gpu(m int) (Act, bool) {
	gpu := s.r.IntN(gpusEach)
	back := time.Duration(3+s.r.IntN(10)) * time.Minute
	if s.out(m) {
		return Act{}, false
	}
	heap.Push(&s.later, Act{At: s.at + back, Kind: GPUBack, Machine: m, GPUs: []int{gpu}, Reason: "the GPU was swapped"})
	return Act{Kind: GPUFails, Machine: m, GPUs: []int{gpu}, Reason: "a GPU fell off the bus; the machine was booted"}, true
}

// rack takes the power of a whole rack, of one at a time.
func (s *Script) rack(m int) (Act, bool) {
	dark := time.Duration(60+s.r.IntN(90)) * time.Second
	if s.off >= 0 || s.at < s.calm {
		return Act{}, false
	}
	rack := s.machines[m].Rack
	s.off, s.calm = rack, s.at+dark+2*time.Minute
	first := slices.IndexFunc(s.machines, func(h Hardware) bool { return h.Rack == rack })
	heap.Push(&s.later, Act{At: s.at + dark, Kind: RackOn, Machine: first, Reason: "the rack has power again"})
	return Act{Kind: RackOff, Machine: first, Reason: "a rack lost its power"}, true
}

func (s *Script) out(m int) bool { return s.machines[m].Rack == s.off }

// acts is a heap by time; of one time those that were set first come first, by machine.
type acts []Act

func (a acts) Len() int { return len(a) }
func (a acts) Less(i, j int) bool {
	if a[i].At != a[j].At {
		return a[i].At < a[j].At
	}
	return a[i].Machine < a[j].Machine
}
func (a acts) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push adds an act.
func (a *acts) Push(x any) {
	act, _ := x.(Act)
	*a = append(*a, act)
}

// Pop takes the last one.
func (a *acts) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}
