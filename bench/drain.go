package main

import (
	"context"
	"time"
)

// drain measures until a websocket subscriber in another process has node.drained: from draining an empty node, and from the last release.
func drain(ctx context.Context, r *rig, s size) ([]Row, error) {
	ids, err := r.nodes(ctx, 2)
	if err != nil {
		return nil, err
	}
	seen, end, err := r.subscribe(ctx, "node.drained")
	if err != nil {
		return nil, err
	}
	defer end()
	input := map[string]any{"i": map[string]any{"tenantId": tenant, "nodeId": ids[0]}}
	const start = "mutation($i: NodeDrainInput!) { nodeDrain(input: $i) { changed } }"
	uncordon := func(ctx context.Context) error {
		return r.call(ctx, "mutation($i: NodeUncordonInput!) { nodeUncordon(input: $i) { changed } }", input, nil)
	}
	empty := func(ctx context.Context) (time.Duration, error) {
		took, err := r.until(ctx, seen, ids[0], start, input)
		if err != nil {
			return 0, err
		}
		return took, uncordon(ctx)
	}
	release := func(ctx context.Context) (time.Duration, error) {
		var made struct {
			ReservationCreate struct{ Reservation struct{ ID string } }
		}
		if err := r.call(ctx, "mutation($i: ReservationCreateInput!) { reservationCreate(input: $i) { reservation { id } } }", input, &made); err != nil {
			return 0, err
		}
		if err := r.call(ctx, start, input, nil); err != nil {
			return 0, err
		}
		took, err := r.until(ctx, seen, ids[0], "mutation($i: ReservationReleaseInput!) { reservationRelease(input: $i) { changed } }",
			map[string]any{"i": map[string]any{"tenantId": tenant, "reservationId": made.ReservationCreate.Reservation.ID}})
		if err != nil {
			return 0, err
		}
		return took, uncordon(ctx)
	}
	first, err := pairs(ctx, "drain-empty", s.rounds, median, side{r.cpu, r.dbCPU, timed(s.each, empty)}, r.bareOne(s.each, ids[1]))
	if err != nil {
		return nil, err
	}
	second, err := pairs(ctx, "drain-release", s.rounds, median, side{r.cpu, r.dbCPU, timed(s.each, release)}, r.bareOne(s.each, ids[1]))
	return []Row{first, second}, err
}
