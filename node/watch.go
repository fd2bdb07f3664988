package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/events"
)

// Matching gives, by id, those of the nodes that the tenant sees now and that the filter lets through, for what already decided that the caller may
// read them.
func (s *Store) Matching(ctx context.Context, tenant string, f *Filter, ids []string) (map[string]*View, error) {
	q := f.query(tenant)
	q.and("n.id = any(" + q.arg(ids) + ")")
	views, err := s.collect(ctx, tenant, seeing{owned: "seen.owned"}, seenNodes+q.where(), q.args)
	if err != nil {
		return nil, err
	}
	out := make(map[string]*View, len(views))
	for _, v := range views {
		out[v.ID] = v
	}
	return out, nil
}

// MatchingIDs gives the ids of the nodes that the tenant sees now and that the filter lets through, and of each whether the tenant owns it; no more
// of them than most.
func (s *Store) MatchingIDs(ctx context.Context, tenant string, f *Filter, most int) (map[string]bool, error) {
	q := f.query(tenant)
	limit := q.arg(most)
	rows, err := s.DB.Pool().Query(ctx, "select n.id, seen.owned from "+allSeenNodes+allUndeleted+q.where()+" limit "+limit, q.args)
	if err != nil {
		return nil, fmt.Errorf("read which nodes match: %w", err)
	}
	out := map[string]bool{}
	var nodeID string
	var owned bool
	if _, err := pgx.ForEachRow(rows, []any{&nodeID, &owned}, func() error {
		out[nodeID] = owned
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read which nodes match: %w", err)
	}
	return out, nil
}

// SightMark gives a text that differs when the nodes that the tenant sees, or how it sees them, differ. Sight can change without an event that the
// tenant sees, and this is cheaper to read again and again than the nodes.
func (s *Store) SightMark(ctx context.Context, tenant string) (string, error) {
	var mark string
	err := s.DB.Pool().QueryRow(ctx, `
		select count(*) || ':' || coalesce(sum(hashtextextended(node_id || relation, 0)), 0) from node_projection where tenant_id = $1`, tenant).Scan(&mark)
	if err != nil {
		return "", fmt.Errorf("read what the tenant sees: %w", err)
	}
	return mark, nil
}

// DrainView is a drain as a tenant sees it, with its node. It need not be the node's newest.
type DrainView struct {
	*Drain
	Node *View
}

// Drains gives those of the drains whose nodes the tenant sees now, or owned before they were deleted, in the order of their ids; for what already decided that the caller may read them.
func (s *Store) Drains(ctx context.Context, tenant string, ids []string) ([]DrainView, error) {
	rows, err := s.DB.Pool().Query(ctx, "select "+drainColumns+" from node_drains where id = any($1) order by id", ids)
	if err != nil {
		return nil, fmt.Errorf("read the drains: %w", err)
	}
	return s.viewDrains(ctx, tenant, rows)
}

// DrainListing says which drains to list.
type DrainListing struct {
	// Active lists those that run, else those that have ended.
	Active bool
	PoolID *string
	First  int
	// After is the id of the last entry of the page before; empty for the first page.
	After string
}

// ListDrains lists the drains of nodes that the tenant sees now, the newest first, and says whether there are more; for what already decided that the
// caller may read them.
func (s *Store) ListDrains(ctx context.Context, tenant string, l DrainListing) (list []DrainView, more bool, err error) {
	rows, err := s.DB.Pool().Query(ctx, `
		select `+drainColumns+` from node_drains d
		where (state = 'DRAINING') = $2 and ($3 = '' or id < $3)
		  and exists (select from node_projection p where p.tenant_id = $1 and p.node_id = d.node_id)
		  and exists (select from nodes n where n.id = d.node_id and n.deleted_at is null and ($4::text is null or n.pool_id = $4))
		order by id desc limit $5`, tenant, l.Active, l.After, l.PoolID, l.First+1)
	if err != nil {
		return nil, false, fmt.Errorf("list the drains: %w", err)
	}
	if list, err = s.viewDrains(ctx, tenant, rows); err != nil {
		return nil, false, err
	}
	if len(list) > l.First {
		list, more = list[:l.First], true
	}
	return list, more, nil
}

func (s *Store) viewDrains(ctx context.Context, tenant string, rows pgx.Rows) ([]DrainView, error) {
	drains, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[Drain])
	if err != nil {
		return nil, fmt.Errorf("read the drains: %w", err)
	}
	nodes := make([]string, len(drains))
	for i, d := range drains {
		nodes[i] = d.NodeID
	}
	views, err := s.Past(ctx, tenant, slices.Compact(slices.Sorted(slices.Values(nodes))))
	if err != nil {
		return nil, err
	}
	out := make([]DrainView, 0, len(drains))
	for _, d := range drains {
		v := views[d.NodeID]
		if v == nil {
			continue
		}
		if !v.Full {
			d.reduce()
		}
		out = append(out, DrainView{Drain: d, Node: v})
	}
	return out, nil
}

// Counts is how many of a set of nodes there are, and how many of them stand where on each axis. A value that no node has is absent.
type Counts struct {
	Total           int
	ProvisionStates map[ProvisionState]int
	Connectivity    map[Connectivity]int
	PlaceableFor    map[Placeable]int
	Cordoned        int
	Draining        int
	Maintenance     int
}

func newCounts() *Counts {
	return &Counts{ProvisionStates: map[ProvisionState]int{}, Connectivity: map[Connectivity]int{}, PlaceableFor: map[Placeable]int{}}
}

// kind is what nodes have in common that Summary counts as one.
type kind struct {
	provision                       ProvisionState
	connectivity                    Connectivity
	placeable                       Placeable
	cordoned, draining, maintenance bool
}

func (c *Counts) add(k kind, n int) {
	c.Total += n
	c.ProvisionStates[k.provision] += n
	c.Connectivity[k.connectivity] += n
	c.PlaceableFor[k.placeable] += n
	for count, is := range map[*int]bool{&c.Cordoned: k.cordoned, &c.Draining: k.draining, &c.Maintenance: k.maintenance} {
		if is {
			*count += n
		}
	}
}

// PoolCounts is the counts of one pool's nodes.
type PoolCounts struct {
	Pool Pool
	*Counts
}

// Summary is the counts of the nodes that a tenant sees, together and by pool.
type Summary struct {
	*Counts
	// Pools are those that have any such node, by name.
	Pools []*PoolCounts
	// AsOf is the log's position at which they were counted.
	AsOf events.Cursor
}

// Summary counts the nodes that the tenant sees and that the filter lets through, in one statement, so that all counts are of one moment. It is for
// what already decided that the caller may read them.
func (s *Store) Summary(ctx context.Context, tenant string, f *Filter) (*Summary, error) {
	q := f.query(tenant)
	rows, err := s.DB.Pool().Query(ctx, `
		select c.epoch, c.position, coalesce(k.many, 0), coalesce(k.pool_id, ''), coalesce(k.tenant_id, ''), coalesce(k.name, ''),
		       coalesce(k.created_at, 'epoch'), coalesce(k.provision_state, ''), coalesce(k.connectivity, ''), coalesce(k.placeable, ''),
		       coalesce(k.cordoned, false), coalesce(k.draining, false), coalesce(k.maintenance, false)
		from event_clock c left join (
			select count(*) as many, pool_id, tenant_id, name, created_at, provision_state, connectivity, placeable, cordoned, draining, maintenance
			from (select p.id as pool_id, p.tenant_id, p.name, p.created_at, n.provision_state, n.connectivity, n.cordoned, n.maintenance,
			             `+placeableOfAll+` as placeable, drains.node_id is not null as draining
			      from `+allSeenNodes+heldOfAll+allUndeleted+q.where()+`) as seen_nodes
			group by pool_id, tenant_id, name, created_at, provision_state, connectivity, placeable, cordoned, draining, maintenance
		) as k on true
		order by k.name, k.pool_id`, q.args)
	if err != nil {
		return nil, fmt.Errorf("count the nodes: %w", err)
	}
	out := &Summary{Counts: newCounts(), Pools: []*PoolCounts{}}
	var many int
	var p Pool
	var k kind
	if _, err := pgx.ForEachRow(rows, []any{
		&out.AsOf.Epoch, &out.AsOf.Position, &many, &p.ID, &p.TenantID, &p.Name, &p.CreatedAt, &k.provision, &k.connectivity, &k.placeable,
		&k.cordoned, &k.draining, &k.maintenance,
	}, func() error {
		if many == 0 {
			return nil
		}
		if n := len(out.Pools); n == 0 || out.Pools[n-1].Pool.ID != p.ID {
			out.Pools = append(out.Pools, &PoolCounts{Pool: p, Counts: newCounts()})
		}
		out.add(k, many)
		out.Pools[len(out.Pools)-1].add(k, many)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("count the nodes: %w", err)
	}
	return out, nil
}
