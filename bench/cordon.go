package main

import (
	"context"
	"time"
)

// bareWrite is the floor of a control: one statement that changes the row, moves the clock and writes the event, over one connection, with fsync.
const bareWrite = `
with n as (
  update nodes set cordoned = not cordoned, cordon_by = case when cordoned then null else 'bench' end,
    cordon_at = case when cordoned then null else now() end, version = version + 1 where id = $1 returning id
), clock as (
  update event_clock set position = position + 1, at = greatest(clock_timestamp(), at + interval '1 microsecond') returning position, at
)
insert into events (position, at, id, type, tenant_id, node_id, actor, data, full_for, reduced_for)
select clock.position, clock.at, 'evt_bench', 'bench.written', 'bench', n.id, 'bench', '{}', '{}', '{}' from n, clock`

func (r *rig) bare(ctx context.Context, nodeID string) error {
	_, err := r.pool.Exec(ctx, bareWrite, nodeID)
	return err
}

// bareOne is the floor's round of a benchmark of single operations.
func (r *rig) bareOne(each int, nodeID string) side {
	return side{zero, zero, timed(each, func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		err := r.bare(ctx, nodeID)
		return time.Since(began), err
	})}
}

// toggle cordons the node, or uncordons it.
func (r *rig) toggle(ctx context.Context, nodeID string, on bool) error {
	query, variables := toggling(nodeID, on)
	return r.call(ctx, query, variables, nil)
}

func toggling(nodeID string, on bool) (query string, variables map[string]any) {
	query = "mutation($i: NodeCordonInput!) { nodeCordon(input: $i) { changed cursor } }"
	if !on {
		query = "mutation($i: NodeUncordonInput!) { nodeUncordon(input: $i) { changed cursor } }"
	}
	return query, map[string]any{"i": map[string]any{"tenantId": tenant, "nodeId": nodeID, "reason": "bench"}}
}

// cordon measures from sending the mutation until a websocket subscriber in another process has the event.
func cordon(ctx context.Context, r *rig, s size) ([]Row, error) {
	ids, err := r.nodes(ctx, 2)
	if err != nil {
		return nil, err
	}
	seen, err := r.watch(ctx, "node.cordoned", "node.uncordoned")
	if err != nil {
		return nil, err
	}
	defer seen.close()
	on := false
	work := func(ctx context.Context) (time.Duration, error) {
		on = !on
		query, variables := toggling(ids[0], on)
		return r.until(ctx, seen, ids[0], query, variables)
	}
	row, err := pairs(ctx, "cordon", s.rounds, median, side{r.cpu, r.dbCPU, timed(s.each, work)}, r.bareOne(s.each, ids[1]))
	return []Row{row}, err
}

// cordon16 measures how many mutations a second 16 clients get, each on a node of its own. The floor is the same changes as bare statements over 16
// connections; its clock row orders the commits just as the log's does.
func cordon16(ctx context.Context, r *rig, s size) ([]Row, error) {
	ids, err := r.nodes(ctx, 2*s.n)
	if err != nil {
		return nil, err
	}
	on := make([]bool, s.n)
	work := together(s.n, s.each, func(ctx context.Context, c, _ int) error {
		on[c] = !on[c]
		return r.toggle(ctx, ids[c], on[c])
	})
	floor := together(s.n, s.each, func(ctx context.Context, c, _ int) error { return r.bare(ctx, ids[s.n+c]) })
	row, err := pairs(ctx, "cordon-16", s.rounds, perSecond, side{r.cpu, r.dbCPU, work}, side{zero, zero, floor})
	return []Row{row}, err
}
