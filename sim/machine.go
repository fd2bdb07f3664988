package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/gateway/wire"
)

// machine is one simulated machine: hardware that can lose its power and its GPUs, and the agent that runs on it.
type machine struct {
	*Hardware

	cable *cable
	// power is held by who boots the machine or takes its power, one after another.
	power sync.Mutex

	mu     sync.Mutex
	agent  *agent.Agent
	nodeID string
	boots  int
	booted time.Time
	failed map[int]bool
	inUse  map[int]int // bookings that compute on each GPU
	stop   context.CancelFunc
	ended  chan struct{}
}

func newMachine(h *Hardware) *machine {
	return &machine{Hardware: h, cable: newCable(), failed: map[int]bool{}, inUse: map[int]int{}, booted: time.Now()}
}

func (m *machine) bootID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s boot %d %d", m.machineID, m.boots, m.booted.UnixNano()))
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

// Print tells this machine from others.
func (m *machine) Print(context.Context) *wire.Print {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &wire.Print{MachineId: m.machineID, ProductUuid: m.productUUID, BootId: m.bootID()}
}

// Hostname is the machine's name.
func (m *machine) Hostname(context.Context) string { return m.Hardware.Hostname }

// Inventory gives what the machine is made of and what has not failed.
func (m *machine) Inventory(context.Context) *wire.Inventory {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.inventory(m.bootID(), m.booted.UnixMilli(), m.failed)
	i.CollectedUnixMs = time.Now().UnixMilli()
	return i
}

// Running gives the GPUs on which bookings compute.
func (m *machine) Running(context.Context) ([]string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uuids := make([]string, 0, len(m.inUse))
	for _, n := range slices.Sorted(maps.Keys(m.inUse)) {
		uuids = append(uuids, m.gpus[n])
	}
	slices.Sort(uuids)
	return uuids, true
}

// use counts a booking's work on GPUs, or its end.
func (m *machine) use(gpus []int, by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range gpus {
		if m.inUse[n] += by; m.inUse[n] <= 0 {
			delete(m.inUse, n)
		}
	}
}

// begin makes the machine a node with its agent running. Before it no act finds the machine, so none starts it half made.
func (m *machine) begin(ctx context.Context, a *agent.Agent, node string, failed func(*machine, error)) {
	m.mu.Lock()
	m.agent, m.nodeID = a, node
	m.mu.Unlock()
	m.start(ctx, failed)
}

// node is the id that the machine joined as; empty before it runs as that node.
func (m *machine) node() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodeID
}

// start runs the agent until halt, or until ctx ends.
func (m *machine) start(ctx context.Context, failed func(*machine, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		return
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	m.stop, m.ended = stop, ended
	a := m.agent
	go func() {
		defer close(ended)
		defer stop()
		if err := a.Run(running); err != nil {
			failed(m, err)
		}
	}()
}

// halt ends the agent's run and waits until it has. With the cable dead its good-bye goes nowhere.
func (m *machine) halt() {
	m.mu.Lock()
	stop, ended := m.stop, m.ended
	m.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	<-ended
	m.mu.Lock()
	m.stop, m.ended = nil, nil
	m.mu.Unlock()
}

// boot is a start after the power was away: another boot id, and nothing that computes.
func (m *machine) boot(ctx context.Context, failed func(*machine, error)) {
	m.cable.regain()
	m.mu.Lock()
	m.boots++
	m.booted = time.Now()
	clear(m.inUse)
	m.mu.Unlock()
	m.start(ctx, failed)
}

// fail lets a GPU fall off the bus, or brings it back.
func (m *machine) fail(gpu int, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failed {
		m.failed[gpu] = true
	} else {
		delete(m.failed, gpu)
	}
}
