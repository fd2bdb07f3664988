package main

import (
	"context"
	"errors"
	"time"
)

// bareBulk is the floor of a control of many nodes: one statement that changes the rows, moves the clock and writes the events, with fsync.
const bareBulk = `
with n as (
  update nodes set cordoned = not cordoned, cordon_by = case when cordoned then null else 'bench' end,
    cordon_at = case when cordoned then null else now() end, version = version + 1 where id = any($1) returning id
), clock as (
  update event_clock set position = position + cardinality($1::text[]), at = greatest(clock_timestamp(), at + interval '1 microsecond') returning position, at
)
insert into events (position, at, id, type, tenant_id, node_id, actor, data, full_for, reduced_for)
select clock.position - cardinality($1::text[]) + row_number() over (order by n.id), clock.at, 'evt_bench', 'bench.written', 'bench', n.id, 'bench', '{}', '{}', '{}'
from n, clock`

// fleet is nodes that are cordoned and uncordoned together.
type fleet struct {
	r    *rig
	ids  []string
	on   bool
	seen <-chan string
}

// turn selects the fleet, and then cordons or uncordons it by the selection: it gives the time from sending the mutation until a subscriber in another
// process has the event of each node.
func (f *fleet) turn(ctx context.Context) (time.Duration, error) {
	var selected struct {
		NodeSelectionCreate struct{ Selection struct{ ID string } }
	}
	err := f.r.call(ctx, "mutation($i: NodeSelectionCreateInput!) { nodeSelectionCreate(input: $i) { selection { id } } }",
		map[string]any{"i": map[string]any{"tenantId": tenant, "nodeIds": f.ids}}, &selected)
	if err != nil {
		return 0, err
	}
	f.on = !f.on
	query := "mutation($i: NodesControlInput!) { nodesCordon(input: $i) { operation { id } } }"
	if !f.on {
		query = "mutation($i: NodesControlInput!) { nodesUncordon(input: $i) { operation { id } } }"
	}
	began := time.Now()
	err = f.r.call(ctx, query, map[string]any{"i": map[string]any{"tenantId": tenant, "selectionId": selected.NodeSelectionCreate.Selection.ID, "reason": "bench"}}, nil)
	if err != nil {
		return 0, err
	}
	left := make(map[string]bool, len(f.ids))
	for _, nodeID := range f.ids {
		left[nodeID] = true
	}
	for len(left) > 0 {
		select {
		case nodeID, ok := <-f.seen:
			if !ok {
				return 0, errors.New("the subscription ended")
			}
			delete(left, nodeID)
		case <-time.After(30 * time.Second):
			return 0, errors.New("the nodes did not all change within 30 s")
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return time.Since(began), nil
}

// singles toggles a node of its own, one call after the other, until it is told to stop, and gives how long each took.
func singles(ctx context.Context, r *rig, nodeID string, stop <-chan struct{}, most int) ([]time.Duration, error) {
	var times []time.Duration
	for on := true; len(times) < most; on = !on {
		select {
		case <-stop:
			return times, nil
		default:
		}
		began := time.Now()
		if err := r.toggle(ctx, nodeID, on); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// unlimited is more calls than any round makes.
const unlimited = 1 << 30

// bulk measures a cordon of s.n nodes by a selection against one bare statement with its events, and then what a single cordon of another node feels of
// it: its p99 while one bulk follows another, to that of the same calls before and after.
func bulk(ctx context.Context, r *rig, s size) ([]Row, error) {
	ids, err := r.nodes(ctx, 2*s.n+1)
	if err != nil {
		return nil, err
	}
	seen, end, err := r.subscribe(ctx, "node.cordoned", "node.uncordoned")
	if err != nil {
		return nil, err
	}
	defer end()
	f := &fleet{r: r, ids: ids[:s.n], seen: seen}
	bare, single := ids[s.n:2*s.n], ids[2*s.n]
	floor := func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		_, err := r.pool.Exec(ctx, bareBulk, bare)
		return time.Since(began), err
	}
	row, err := pairs(ctx, "bulk", s.rounds, median, side{r.cpu, r.dbCPU, timed(s.each, f.turn)}, side{zero, zero, timed(s.each, floor)})
	if err != nil {
		return nil, err
	}
	var idle, busy []time.Duration
	for range s.rounds {
		quiet, err := singles(ctx, r, single, nil, 20*s.each)
		if err != nil {
			return nil, err
		}
		idle = append(idle, quiet...)
		stop, ended := make(chan struct{}), make(chan error, 1)
		var meanwhile []time.Duration
		go func() {
			var err error
			meanwhile, err = singles(ctx, r, single, stop, unlimited)
			ended <- err
		}()
		for range 2 * s.each {
			if _, err := f.turn(ctx); err != nil {
				close(stop)
				return nil, errors.Join(err, <-ended)
			}
		}
		close(stop)
		if err := <-ended; err != nil {
			return nil, err
		}
		busy = append(busy, meanwhile...)
	}
	if row.More == nil {
		row.More = map[string]float64{}
	}
	before, during := millis(quantile(idle, 0.99)), millis(quantile(busy, 0.99))
	row.More["nodes"] = float64(s.n)
	row.More["cordon_p99_idle_ms"], row.More["cordon_p99_ms"], row.More["cordon_p99_ratio"] = tidy(before), tidy(during), tidy(during/before)
	row.More["cordons"] = float64(len(busy))
	return []Row{row}, nil
}
