package graph

import (
	"context"
	"time"

	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

type queries struct{ *API }

// Viewer tells who asks.
func (q queries) Viewer(ctx context.Context) (*Viewer, error) {
	tenants, err := q.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	who, err := actor(ctx)
	return &Viewer{Name: who.Name, Tenants: tenants}, err
}

// Tenants lists where the caller holds grants.
func (q queries) Tenants(ctx context.Context) ([]*iam.Tenant, error) {
	who, err := q.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	list, err := q.Authority.Tenants(ctx, who)
	return pointers(list), err
}

// signedIn gives who asks after the database confirmed the token: for what needs no grant in a tenant.
func (q queries) signedIn(ctx context.Context) (iam.Actor, error) {
	who, err := actor(ctx)
	if err != nil {
		return iam.Actor{}, err
	}
	return who, q.Issuer.Live(ctx, who)
}

// on gives who asks after an action on the tenant was decided.
func (a *API) on(ctx context.Context, action iam.Action, tenant string) (iam.Actor, error) {
	who, err := actor(ctx)
	if err != nil {
		return iam.Actor{}, err
	}
	if err := id.Tenant("tenantId", tenant); err != nil {
		return iam.Actor{}, err
	}
	return who, a.Authority.OnTenant(ctx, a.DB.Pool(), who, action, tenant)
}

// Log tells where the log stands.
func (q queries) Log(ctx context.Context, tenantID string) (*LogPosition, error) {
	if _, err := q.on(ctx, iam.NodesEvents, tenantID); err != nil {
		return nil, err
	}
	span, err := events.Extent(ctx, q.DB.Pool())
	return &LogPosition{Head: span.Head.String(), Oldest: span.Oldest.String()}, err
}

// Node gives one node.
func (q queries) Node(ctx context.Context, tenantID, nodeID string) (*Node, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	v, err := q.API.Nodes.Get(ctx, who, tenantID, nodeID)
	if err != nil {
		return nil, err
	}
	return q.oneNode(who, v), nil
}

// Nodes lists nodes.
func (q queries) Nodes(ctx context.Context, tenantID string, filter *node.Filter, orderBy node.Order, first int, after *string) (*ComputeNodeConnection, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	l := node.Listing{Tenant: tenantID, Order: orderBy, First: first, Count: selected(ctx, "ComputeNodeConnection", "totalCount")}
	if filter != nil {
		l.Filter = *filter
	}
	if after != nil {
		l.After = *after
	}
	listed, err := q.API.Nodes.List(ctx, who, l)
	if err != nil {
		return nil, err
	}
	out := &ComputeNodeConnection{
		Nodes: q.newPage(who, tenantID, listed.Views), Edges: make([]*ComputeNodeEdge, len(listed.Views)),
		PageInfo: &PageInfo{HasNextPage: listed.More}, TotalCount: listed.Total, AsOf: listed.AsOf.String(),
	}
	for i, n := range out.Nodes {
		out.Edges[i] = &ComputeNodeEdge{Cursor: listed.Cursors[i], Node: n}
		out.PageInfo.EndCursor = &listed.Cursors[i]
	}
	return out, nil
}

// Events lists the log.
func (q queries) Events(ctx context.Context, tenantID string, nodeID *string, types []string, by *string, since, until *time.Time,
	order events.Order, first int, after *string,
) (*EventConnection, error) {
	f := events.ListFilter{Filter: events.Filter{Tenant: tenantID, Types: types}, Since: since, Until: until, Order: order, First: first}
	if by != nil {
		f.Actor = *by
	}
	who, err := q.onEvents(ctx, iam.NodesEvents, tenantID, nodeID, &f.Filter)
	if nodeID != nil && fault.CodeOf(err) == fault.NotFound {
		err = q.API.Nodes.MayReadPast(ctx, who, tenantID, *nodeID, err)
	}
	if err != nil {
		return nil, err
	}
	return q.history(ctx, who, f, after)
}

// onEvents decides reading the log, and puts the node into the filter. A node that the tenant does not see now is NOT_FOUND.
func (a *API) onEvents(ctx context.Context, action iam.Action, tenantID string, nodeID *string, f *events.Filter) (iam.Actor, error) {
	if nodeID == nil {
		return a.on(ctx, action, tenantID)
	}
	who, err := actor(ctx)
	if err != nil {
		return iam.Actor{}, err
	}
	if err := id.Tenant("tenantId", tenantID); err != nil {
		return iam.Actor{}, err
	}
	if err := id.Check(id.Node, "nodeId", *nodeID); err != nil {
		return iam.Actor{}, err
	}
	f.NodeID = *nodeID
	_, err = a.Authority.OnNode(ctx, a.DB.Pool(), who, action, tenantID, *nodeID)
	return who, err
}

// Pools lists the tenant's pools.
func (q queries) Pools(ctx context.Context, tenantID string) ([]*node.Pool, error) {
	if _, err := q.on(ctx, iam.PoolsRead, tenantID); err != nil {
		return nil, err
	}
	list, err := node.Pools(ctx, q.DB.Pool(), tenantID)
	return pointers(list), err
}

// Pool gives one pool.
func (q queries) Pool(ctx context.Context, tenantID, poolID string) (*node.Pool, error) {
	if _, err := q.on(ctx, iam.PoolsRead, tenantID); err != nil {
		return nil, err
	}
	p, err := node.PoolOf(ctx, q.DB.Pool(), tenantID, poolID)
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// Reservations lists the tenant's reservations.
func (q queries) Reservations(ctx context.Context, tenantID string, filter *ReservationFilter, first int, after *string) (*ReservationConnection, error) {
	if _, err := q.on(ctx, iam.ReservationsRead, tenantID); err != nil {
		return nil, err
	}
	p, err := pageOf(id.Reservation, first, after)
	if err != nil {
		return nil, err
	}
	var f placement.Filter
	if filter != nil {
		f.Active = filter.Active
		if filter.NodeID != nil {
			if err := id.Check(id.Node, "filter.nodeId", *filter.NodeID); err != nil {
				return nil, err
			}
			f.NodeID = *filter.NodeID
		}
	}
	list, more, err := placement.List(ctx, q.DB.Pool(), tenantID, f, p)
	if err != nil {
		return nil, err
	}
	out := &ReservationConnection{Nodes: q.reservations(list), PageInfo: &PageInfo{HasNextPage: more}, Edges: []*ReservationEdge{}}
	for _, r := range out.Nodes {
		cursor := listCursor(r.ID)
		out.Edges = append(out.Edges, &ReservationEdge{Cursor: cursor, Node: r})
		out.PageInfo.EndCursor = &cursor
	}
	return out, nil
}

// Reservation gives one reservation.
func (q queries) Reservation(ctx context.Context, tenantID, reservationID string) (*Reservation, error) {
	if _, err := q.on(ctx, iam.ReservationsRead, tenantID); err != nil {
		return nil, err
	}
	r, err := placement.Get(ctx, q.DB.Pool(), tenantID, reservationID)
	if err != nil {
		return nil, err
	}
	return q.reservations([]placement.Reservation{r})[0], nil
}

func pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}
