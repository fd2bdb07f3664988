package main

import (
	"context"
	"errors"
	"time"

	"github.com/better-compute/better-compute/id"
)

// jobs measures from a drain's transaction to its River job's run, at about 200 drains a second. Both times are the database's: of the
// transaction that inserted the job, and of the fetch that started it. The nodes hold a booking, so that the drains don't end.
func jobs(ctx context.Context, r *rig, s size) (_ []Row, err error) {
	back, err := r.byJob(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, back()) }()
	ids, err := r.nodes(ctx, s.n+1)
	if err != nil {
		return nil, err
	}
	drained := ids[:s.n]
	if err := r.book(ctx, drained); err != nil {
		return nil, err
	}
	var newest int64 // of the jobs that have been counted
	if err := r.pool.QueryRow(ctx, `select coalesce(max(id), 0) from river_job`).Scan(&newest); err != nil {
		return nil, err
	}
	work := func(ctx context.Context) (round, error) {
		pace := time.NewTicker(time.Second / 200)
		defer pace.Stop()
		for i := range s.each {
			input := map[string]any{"i": map[string]any{"tenantId": tenant, "nodeId": drained[i%len(drained)]}}
			select {
			case <-ctx.Done():
				return round{}, ctx.Err()
			case <-pace.C:
			}
			if i >= len(drained) {
				if err := r.call(ctx, "mutation($i: NodeUncordonInput!) { nodeUncordon(input: $i) { changed } }", input, nil); err != nil {
					return round{}, err
				}
			}
			if err := r.call(ctx, "mutation($i: NodeDrainInput!) { nodeDrain(input: $i) { changed } }", input, nil); err != nil {
				return round{}, err
			}
		}
		times, last, err := r.waits(ctx, newest, s.each)
		if err != nil {
			return round{}, err
		}
		newest = last
		for _, nodeID := range drained {
			if err := r.toggle(ctx, nodeID, false); err != nil {
				return round{}, err
			}
		}
		return round{n: s.each, times: times}, nil
	}
	row, err := pairs(ctx, "jobs", s.rounds, median, side{r.cpu, r.dbCPU, work}, r.bareOne(s.each, ids[s.n]))
	return []Row{row}, err
}

// book gives each node an open-ended allocation.
func (r *rig) book(ctx context.Context, nodeIDs []string) error {
	reservation := id.New(id.Reservation)
	allocations := make([]string, len(nodeIDs))
	for i := range allocations {
		allocations[i] = id.New(id.Allocation)
	}
	_, err := r.pool.Exec(ctx, `
		with r as (insert into reservations (id, tenant_id, created_by, created_at) values ($1, $2, 'bench', now()) returning id)
		insert into allocations (id, reservation_id, tenant_id, node_id, starts_at, started_at)
		select a, r.id, $2, n, now(), now() from r, unnest($3::text[], $4::text[]) as x (a, n)`, reservation, tenant, allocations, nodeIDs)
	return err
}

// waits gives how long each of the drains' jobs after the newest counted one waited for its run.
func (r *rig) waits(ctx context.Context, newest int64, n int) ([]time.Duration, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	for {
		var waits []time.Duration
		var last *int64
		err := r.pool.QueryRow(ctx, `
			select coalesce(array_agg(attempted_at - created_at), '{}'), max(id) from river_job
			where kind = 'drain' and id > $1 and attempted_at is not null`, newest).Scan(&waits, &last)
		if err != nil {
			return nil, 0, err
		}
		if len(waits) >= n {
			return waits, *last, nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, 0, err
		}
	}
}
