package graph

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/placement"
)

// page is a set of nodes that one answer shows to one caller. What belongs to the nodes but is read apart is read once for all of them, when the
// first asks: however the nodes are reached, through a list, its edges or events, a page costs one statement for each kind of thing.
type page struct {
	api     *API
	who     iam.Actor
	tenant  string
	ids     []string
	drains  []string // the drains that the answer can show
	pools   lazy[map[string]node.Pool]
	checked lazy[map[string][]health.Check]
	live    lazy[map[string]int]
	ended   lazy[map[string]int]
	holds   lazy[map[string][]placement.Allocation]
	held    lazy[map[string]liveness.Session]
	parts   lazy[map[string]health.Inventory]
	pieces  lazy[map[string][]placement.Device]
	rights  lazy[iam.Rights]

	slices sliced[placement.Slice, placement.Allocation]
	certs  sliced[pki.CertificateSlice, pki.NodeCertificate]
	past   sliced[string, events.Event]
	told   tellings
	reader *iam.Reader
}

// sliced is parts of the nodes' lists, each read once for all nodes.
type sliced[S comparable, T any] struct {
	mu sync.Mutex
	by map[S]*lazy[map[string][]T]
}

func (l *sliced[S, T]) get(ctx context.Context, s S, load func() (map[string][]T, error)) (map[string][]T, error) {
	l.mu.Lock()
	one, ok := l.by[s]
	if !ok {
		if l.by == nil {
			l.by = map[S]*lazy[map[string][]T]{}
		}
		one = &lazy[map[string][]T]{}
		l.by[s] = one
	}
	l.mu.Unlock()
	return one.get(ctx, load)
}

// lazy is a value that is loaded once, by whoever asks first.
type lazy[T any] struct {
	mu   sync.Mutex
	done bool
	v    T
	err  error
}

func (l *lazy[T]) get(ctx context.Context, load func() (T, error)) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done {
		turnOf(ctx).wait(ctx, func() { l.v, l.err = load() })
		l.done = true
	}
	return l.v, l.err
}

// newPage makes the nodes of an answer.
func (a *API) newPage(who iam.Actor, tenant string, views []*node.View) []*Node {
	p := &page{api: a, who: who, tenant: tenant, ids: make([]string, len(views))}
	nodes := make([]*Node, len(views))
	for i, v := range views {
		p.ids[i] = v.ID
		nodes[i] = &Node{View: v, page: p}
		if v.LastDrain != nil {
			p.drains = append(p.drains, v.LastDrain.ID)
		}
	}
	p.told, p.reader = tellings{api: a, who: who, tenant: tenant, ids: p.ids}, a.Authority.Reader(who, tenant, iam.NodesEvents)
	return nodes
}

func (a *API) oneNode(who iam.Actor, v *node.View) *Node {
	return a.newPage(who, v.Seer, []*node.View{v})[0]
}

// poolOf gives a node's pool: the node was read with it, or it came from a control and its pool is read now.
func (p *page) poolOf(ctx context.Context, v *node.View) (*node.Pool, error) {
	if v.Pool.ID != "" {
		return &v.Pool, nil
	}
	pools, err := p.pools.get(ctx, func() (map[string]node.Pool, error) { return node.PoolsOfNodes(ctx, p.api.DB.Pool(), p.ids) })
	if err != nil {
		return nil, err
	}
	pool := pools[v.PoolID]
	return &pool, nil
}

func (p *page) sessions(ctx context.Context) (map[string]liveness.Session, error) {
	return p.held.get(ctx, func() (map[string]liveness.Session, error) { return liveness.SessionsOf(ctx, p.api.DB.Pool(), p.ids) })
}

func (p *page) inventories(ctx context.Context) (map[string]health.Inventory, error) {
	return p.parts.get(ctx, func() (map[string]health.Inventory, error) { return health.InventoryOf(ctx, p.api.DB.Pool(), p.ids) })
}

func (p *page) devicesOf(ctx context.Context) (map[string][]placement.Device, error) {
	return p.pieces.get(ctx, func() (map[string][]placement.Device, error) { return placement.DevicesOf(ctx, p.api.DB.Pool(), p.ids) })
}

func (p *page) checks(ctx context.Context) (map[string][]health.Check, error) {
	return p.checked.get(ctx, func() (map[string][]health.Check, error) { return health.ChecksOf(ctx, p.api.DB.Pool(), p.ids) })
}

func (p *page) liveCounts(ctx context.Context) (map[string]int, error) {
	return p.live.get(ctx, func() (map[string]int, error) { return placement.LiveCounts(ctx, p.api.DB.Pool(), p.ids) })
}

func (p *page) blockers(ctx context.Context) (map[string][]placement.Allocation, error) {
	return p.holds.get(ctx, func() (map[string][]placement.Allocation, error) {
		return placement.Blockers(ctx, p.api.DB.Pool(), p.ids)
	})
}

// endedIn gives, by drain, how many allocations ended while it ran.
func (p *page) endedIn(ctx context.Context) (map[string]int, error) {
	return p.ended.get(ctx, func() (map[string]int, error) { return p.api.Controls.EndedInDrains(ctx, p.drains) })
}

// may gives what the caller may do on nodes that its tenant owns: the same for all of the page.
func (p *page) may(ctx context.Context, known iam.Rights) (iam.Rights, error) {
	if known.Known() {
		return known, nil
	}
	return p.rights.get(ctx, func() (iam.Rights, error) {
		return p.api.Authority.Rights(ctx, p.api.DB.Pool(), p.who, iam.NodesGet, p.tenant)
	})
}

// allocationsOf gives a part of a node's allocations. First pages are read for all nodes at once; a later page is one node's own.
func (p *page) allocationsOf(ctx context.Context, nodeID string, s placement.Slice) (map[string][]placement.Allocation, error) {
	if s.After != "" {
		return placement.OnNodes(ctx, p.api.DB.Pool(), []string{nodeID}, s)
	}
	return p.slices.get(ctx, s, func() (map[string][]placement.Allocation, error) {
		return placement.OnNodes(ctx, p.api.DB.Pool(), p.ids, s)
	})
}

// certificatesOf gives a part of a node's certificates, in the same way.
func (p *page) certificatesOf(ctx context.Context, nodeID string, s pki.CertificateSlice) (map[string][]pki.NodeCertificate, error) {
	if s.After != "" {
		return pki.CertificatesOf(ctx, p.api.DB.Pool(), []string{nodeID}, s)
	}
	return p.certs.get(ctx, s, func() (map[string][]pki.NodeCertificate, error) {
		return pki.CertificatesOf(ctx, p.api.DB.Pool(), p.ids, s)
	})
}

// eventsOf gives the first page of a node's events, read for all nodes at once, with one look whether the caller may read them.
func (p *page) eventsOf(ctx context.Context, nodeID string, types []string, first int) ([]events.Event, error) {
	by, err := p.past.get(ctx, strconv.Itoa(first)+" "+strings.Join(types, " "), func() (map[string][]events.Event, error) {
		if err := p.reader.Check(ctx); err != nil {
			return nil, err
		}
		return events.OfNodes(ctx, p.api.DB.Pool(), p.ids, events.ListFilter{Filter: events.Filter{Tenant: p.tenant, Types: types}, First: first})
	})
	return by[nodeID], err
}
