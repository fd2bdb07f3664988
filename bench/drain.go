package main

import (
	"context"
	"errors"
	"time"
)

// drains are the two ways by which a drain ends, each measured until a websocket subscriber in another process has node.drained: from draining an empty
// node, and from the last release.
type drains struct {
	rig    *rig
	seen   *watcher
	nodeID string
}

func (d drains) input() map[string]any {
	return map[string]any{"i": map[string]any{"tenantId": tenant, "nodeId": d.nodeID}}
}

const startDrain = "mutation($i: NodeDrainInput!) { nodeDrain(input: $i) { changed } }"

func (d drains) uncordon(ctx context.Context) error {
	return d.rig.call(ctx, "mutation($i: NodeUncordonInput!) { nodeUncordon(input: $i) { changed } }", d.input(), nil)
}

func (d drains) empty(ctx context.Context) (time.Duration, error) {
	took, err := d.rig.until(ctx, d.seen, d.nodeID, startDrain, d.input())
	if err != nil {
		return 0, err
	}
	return took, d.uncordon(ctx)
}

func (d drains) release(ctx context.Context) (time.Duration, error) {
	var made struct {
		ReservationCreate struct{ Reservation struct{ ID string } }
	}
	const book = "mutation($i: ReservationCreateInput!) { reservationCreate(input: $i) { reservation { id } } }"
	if err := d.rig.call(ctx, book, d.input(), &made); err != nil {
		return 0, err
	}
	if err := d.rig.call(ctx, startDrain, d.input(), nil); err != nil {
		return 0, err
	}
	took, err := d.rig.until(ctx, d.seen, d.nodeID, "mutation($i: ReservationReleaseInput!) { reservationRelease(input: $i) { changed } }",
		map[string]any{"i": map[string]any{"tenantId": tenant, "reservationId": made.ReservationCreate.Reservation.ID}})
	if err != nil {
		return 0, err
	}
	return took, d.uncordon(ctx)
}

// drain measures both ways.
func drain(ctx context.Context, r *rig, s size) ([]Row, error) {
	ids, err := r.nodes(ctx, 2)
	if err != nil {
		return nil, err
	}
	seen, err := r.watch(ctx, "node.drained")
	if err != nil {
		return nil, err
	}
	defer seen.close()
	d := drains{r, seen, ids[0]}
	first, err := pairs(ctx, "drain-empty", s.rounds, median, side{r.cpu, r.dbCPU, timed(s.each, d.empty)}, r.bareOne(s.each, ids[1]))
	if err != nil {
		return nil, err
	}
	second, err := pairs(ctx, "drain-release", s.rounds, median, side{r.cpu, r.dbCPU, timed(s.each, d.release)}, r.bareOne(s.each, ids[1]))
	return []Row{first, second}, err
}

// byJob starts the server anew as one that looks at no drain by itself, so that each has a job at once; back starts it as it was.
func (r *rig) byJob(ctx context.Context) (back func() error, err error) {
	r.halt()
	return func() error {
		r.halt()
		return r.serve(ctx, nil)
	}, r.serve(ctx, []string{"--drains-by-job"})
}

// drainJob measures both ways in turn on a server that looks at no drain by itself after its answers: the River jobs do.
func drainJob(ctx context.Context, r *rig, s size) (_ []Row, err error) {
	back, err := r.byJob(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, back()) }()
	ids, err := r.nodes(ctx, 2)
	if err != nil {
		return nil, err
	}
	seen, err := r.watch(ctx, "node.drained")
	if err != nil {
		return nil, err
	}
	defer seen.close()
	d, turn := drains{r, seen, ids[0]}, 0
	work := func(ctx context.Context) (time.Duration, error) {
		if turn++; turn%2 == 0 {
			return d.release(ctx)
		}
		return d.empty(ctx)
	}
	row, err := pairs(ctx, "drain-job", s.rounds, median, side{r.cpu, r.dbCPU, timed(s.each, work)}, r.bareOne(s.each, ids[1]))
	return []Row{row}, err
}
