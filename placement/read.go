package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/id"
)

// Get gives one reservation of the tenant; another tenant's is NOT_FOUND like one that does not exist.
func Get(ctx context.Context, q db.Querier, tenant, reservationID string) (Reservation, error) {
	if err := id.Check(id.Reservation, "reservationId", reservationID); err != nil {
		return Reservation{}, err
	}
	return one(ctx, q, tenant, reservationID)
}

// Page says which part of a list is wanted: up to First entries, older than the entry After.
type Page struct {
	First int
	After string
}

// Filter says which reservations to list.
type Filter struct {
	// NodeID keeps those with an allocation on that node.
	NodeID string
	// Active keeps the active ones, or the others; nil keeps both.
	Active *bool
}

// List gives a tenant's reservations, newest first, and whether there are more.
func List(ctx context.Context, q db.Querier, tenant string, f Filter, p Page) ([]Reservation, bool, error) {
	rows, err := q.Query(ctx, `
		select `+reservationColumns+` from reservations r
		where r.tenant_id = $1 and ($2 = '' or r.id < $2)
		  and ($3 = '' or exists (select from allocations a where a.reservation_id = r.id and a.node_id = $3))
		  and ($4::boolean is null or (r.released_at is null and r.ended_at is null) = $4)
		order by r.id desc limit $5`, tenant, p.After, f.NodeID, f.Active, p.First+1)
	if err != nil {
		return nil, false, fmt.Errorf("list the reservations: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Reservation])
	if err != nil {
		return nil, false, fmt.Errorf("list the reservations: %w", err)
	}
	if len(list) > p.First {
		return list[:p.First], true, nil
	}
	return list, false, nil
}

// ByReservation gives the allocations of reservations, by reservation id.
func ByReservation(ctx context.Context, q db.Querier, ids []string) (map[string][]Allocation, error) {
	return byReservation(ctx, q, ids)
}

const byReservationSQL = "select " + allocationColumns + " from allocations a where a.reservation_id = any($1) order by a.id"

func byReservation(ctx context.Context, q db.Querier, ids []string) (map[string][]Allocation, error) {
	rows, err := q.Query(ctx, byReservationSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("read the allocations: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Allocation])
	if err != nil {
		return nil, fmt.Errorf("read the allocations: %w", err)
	}
	out := make(map[string][]Allocation, len(ids))
	for _, a := range list {
		out[a.ReservationID] = append(out[a.ReservationID], a)
	}
	return out, nil
}

// Slice says which allocations of nodes are wanted.
type Slice struct {
	// Tenant keeps one tenant's; empty keeps all.
	Tenant string
	// Live keeps those that are neither released nor ended.
	Live bool
	// Page is the part of each node's list.
	Page
}

// OnNodes gives allocations of nodes, newest first. Where a node has more than the page, there is one more entry than asked for.
func OnNodes(ctx context.Context, q db.Querier, nodeIDs []string, s Slice) (map[string][]Allocation, error) {
	rows, err := q.Query(ctx, `
		select a.* from unnest($1::text[]) as n(id) cross join lateral (
			select `+allocationColumns+` from allocations a
			where a.node_id = n.id and ($2 = '' or a.id < $2) and (not $3 or (`+liveCondition+`)) and ($5 = '' or a.tenant_id = $5)
			order by a.id desc limit $4) as a`, nodeIDs, s.After, s.Live, s.First+1, s.Tenant)
	if err != nil {
		return nil, fmt.Errorf("read the nodes' allocations: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Allocation])
	if err != nil {
		return nil, fmt.Errorf("read the nodes' allocations: %w", err)
	}
	out := make(map[string][]Allocation, len(nodeIDs))
	for _, a := range list {
		out[a.NodeID] = append(out[a.NodeID], a)
	}
	return out, nil
}

// maxBlockers bounds how many blockers of one drain are read.
const maxBlockers = 500

// Blockers gives, by node, the live allocations that a drain waits for: the open-ended first, then those that end last. Up to 500 for each node.
func Blockers(ctx context.Context, q db.Querier, nodeIDs []string) (map[string][]Allocation, error) {
	rows, err := q.Query(ctx, `
		select a.* from unnest($1::text[]) as n(id) cross join lateral (
			select `+allocationColumns+` from allocations a where a.node_id = n.id and `+liveCondition+`
			order by a.ends_at desc nulls first, a.id limit $2) as a`, nodeIDs, maxBlockers)
	if err != nil {
		return nil, fmt.Errorf("read the blockers: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Allocation])
	if err != nil {
		return nil, fmt.Errorf("read the blockers: %w", err)
	}
	out := make(map[string][]Allocation, len(nodeIDs))
	for _, a := range list {
		out[a.NodeID] = append(out[a.NodeID], a)
	}
	return out, nil
}

// LiveCounts gives how many live allocations each node holds.
func LiveCounts(ctx context.Context, q db.Querier, nodeIDs []string) (map[string]int, error) {
	rows, err := q.Query(ctx, `select a.node_id, count(*) from allocations a where a.node_id = any($1) and `+liveCondition+` group by a.node_id`, nodeIDs)
	if err != nil {
		return nil, fmt.Errorf("count the live allocations: %w", err)
	}
	out := make(map[string]int, len(nodeIDs))
	var nodeID string
	var count int
	_, err = pgx.ForEachRow(rows, []any{&nodeID, &count}, func() error {
		out[nodeID] = count
		return nil
	})
	return out, err
}

// Held says how a node is held: how many live allocations, and how long until the earliest of their ends by the database's clock.
type Held struct {
	Live int
	// NextEnd is how long until the earliest end; nil when all are open-ended. It is not negative.
	NextEnd *time.Duration
}

// QueueHolding reads how the node is held, as a part of a batch: into has it when the batch's results are closed.
func QueueHolding(b *pgx.Batch, nodeID string, into *Held) {
	*into = Held{}
	queueHolding(b, []string{nodeID}, func(_ string, h Held) { *into = h })
}

// QueueHoldings is QueueHolding for many nodes: into has an entry for each that is held.
func QueueHoldings(b *pgx.Batch, nodeIDs []string, into *map[string]Held) {
	*into = map[string]Held{}
	queueHolding(b, nodeIDs, func(nodeID string, h Held) { (*into)[nodeID] = h })
}

var heldByNode = db.LookingFor(`
	select a.node_id, count(*), extract(epoch from min(a.ends_at) - clock_timestamp())::float8
	from allocations a where a.node_id = any($1) and ` + liveCondition + ` group by a.node_id`)

func queueHolding(b *pgx.Batch, nodeIDs []string, each func(nodeID string, h Held)) {
	heldByNode.Queue(b, nodeIDs).Query(func(rows pgx.Rows) error {
		var nodeID string
		var live int
		var seconds *float64
		if _, err := pgx.ForEachRow(rows, []any{&nodeID, &live, &seconds}, func() error {
			h := Held{Live: live}
			if seconds != nil {
				d := max(0, time.Duration(*seconds*float64(time.Second)))
				h.NextEnd = &d
			}
			each(nodeID, h)
			return nil
		}); err != nil {
			return fmt.Errorf("read how the node is held: %w", err)
		}
		return nil
	})
}
