package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

// Event is an entry of the log in an answer; its concrete type is that of its family.
type Event interface{ IsEvent() }

// told is what all families share.
type told struct {
	ID        string
	Cursor    events.Cursor
	Type      string
	At        time.Time
	NodeID    node.Text
	Actor     string
	Reason    node.Text
	RequestID node.Text

	of *tellings
}

// IsEvent marks the families.
func (told) IsEvent() {}

// Node gives the node as it is now, or nil when the caller no longer sees it.
func (t told) Node(ctx context.Context) (*Node, error) {
	if t.NodeID == "" {
		return nil, nil //nolint:nilnil // the event is about no node
	}
	return t.of.node(ctx, string(t.NodeID))
}

// GenericEvent is an event without a type of its own.
type GenericEvent struct {
	told `json:"-"`

	Data json.RawMessage
}

// tellings are the events of one answer, whose nodes are read once for all.
type tellings struct {
	api    *API
	who    iam.Actor
	tenant string
	ids    []string

	mu    sync.Mutex
	nodes map[string]*Node
}

func (t *tellings) node(ctx context.Context, nodeID string) (*Node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes == nil {
		var views map[string]*node.View
		var err error
		turnOf(ctx).wait(ctx, func() { views, err = t.api.Nodes.Past(ctx, t.tenant, t.ids) })
		if err != nil {
			return nil, err
		}
		list := make([]*node.View, 0, len(views))
		for _, v := range views {
			list = append(list, v)
		}
		t.nodes = make(map[string]*Node, len(list))
		for _, n := range t.api.newPage(t.who, t.tenant, list) {
			t.nodes[n.ID] = n
		}
	}
	return t.nodes[nodeID], nil
}

// tell makes the events of an answer. What the reader may see of them is cut already.
func (a *API) tell(who iam.Actor, tenant string, list []events.Event) ([]Event, error) {
	return (&tellings{api: a, who: who, tenant: tenant}).tell(list)
}

func (t *tellings) tell(list []events.Event) ([]Event, error) {
	out := make([]Event, len(list))
	for i, e := range list {
		if e.NodeID != "" {
			t.add(e.NodeID)
		}
		var err error
		if out[i], err = typed(e, t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// add has a node read with the others.
func (t *tellings) add(nodeID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes == nil && !slices.Contains(t.ids, nodeID) {
		t.ids = append(t.ids, nodeID)
	}
}

// envelope gives what all families share.
func (t *tellings) envelope(e events.Event) told {
	return told{
		ID: e.ID, Cursor: e.Cursor(), Type: e.Type, At: e.At, NodeID: node.Text(e.NodeID), Actor: e.Actor, Reason: node.Text(e.Reason),
		RequestID: node.Text(e.RequestID), of: t,
	}
}

func read(e events.Event, into any) error {
	if err := json.Unmarshal(e.Data, into); err != nil {
		return fmt.Errorf("read event %s: %w", e.ID, err)
	}
	return nil
}

// history gives a page of the log to a caller.
func (a *API) history(ctx context.Context, who iam.Actor, f events.ListFilter, after *string) (*EventConnection, error) {
	if after != nil {
		c, err := events.ParseCursor("after", *after)
		if err != nil {
			return nil, err
		}
		f.After = &c
	}
	if f.First < 1 || f.First > node.MaxFirst {
		return nil, fault.Invalid("first", "must be between 1 and "+strconv.Itoa(node.MaxFirst), 0)
	}
	if err := events.CheckTypes("types", f.Types); err != nil {
		return nil, err
	}
	reader := a.Authority.Reader(who, f.Tenant, iam.NodesEvents)
	if err := reader.Check(ctx); err != nil {
		return nil, err
	}
	list, more, err := events.List(ctx, a.DB.Pool(), f)
	if err != nil {
		return nil, err
	}
	return a.eventPage(reader, &tellings{api: a, who: who, tenant: f.Tenant}, list, more)
}

// eventPage makes the page of an answer; what the reader may see of the events is cut here.
func (a *API) eventPage(reader *iam.Reader, of *tellings, list []events.Event, more bool) (*EventConnection, error) {
	out := &EventConnection{PageInfo: &PageInfo{HasNextPage: more}, Nodes: []Event{}, Edges: []*EventEdge{}}
	seen := make([]events.Event, 0, len(list))
	for _, e := range list {
		end := e.Cursor().String()
		out.PageInfo.EndCursor = &end
		if v, ok := reader.View(e); ok {
			seen = append(seen, v)
		}
	}
	var err error
	if out.Nodes, err = of.tell(seen); err != nil {
		return nil, err
	}
	for i, e := range seen {
		out.Edges = append(out.Edges, &EventEdge{Cursor: e.Cursor().String(), Node: out.Nodes[i]})
	}
	return out, nil
}
