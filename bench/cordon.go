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

func (r *rig) bare(ctx context.Context, nodeID string) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		began := time.Now()
		_, err := r.pool.Exec(ctx, bareWrite, nodeID)
		return time.Since(began), err
	}
}

// cordon measures from sending the mutation until a websocket subscriber in another process has the event.
func cordon(ctx context.Context, r *rig, rounds, each int) ([]Row, error) {
	ids, err := r.nodes(ctx, 2)
	if err != nil {
		return nil, err
	}
	seen, end, err := r.subscribe(ctx, "node.cordoned", "node.uncordoned")
	if err != nil {
		return nil, err
	}
	defer end()
	on := false
	work := func() (time.Duration, error) {
		on = !on
		query := "mutation($i: NodeCordonInput!) { nodeCordon(input: $i) { changed cursor } }"
		if !on {
			query = "mutation($i: NodeUncordonInput!) { nodeUncordon(input: $i) { changed cursor } }"
		}
		began := time.Now()
		failed := make(chan error, 1)
		go func() {
			failed <- r.call(ctx, query, map[string]any{"i": map[string]any{"tenantId": tenant, "nodeId": ids[0], "reason": "bench"}}, nil)
		}()
		if err := await(ctx, seen, ids[0]); err != nil {
			return 0, err
		}
		took := time.Since(began)
		return took, <-failed
	}
	row, err := pairs("cordon", rounds, each, r.cpu, work, r.bare(ctx, ids[1]))
	return []Row{row}, err
}
