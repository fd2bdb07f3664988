package main

import (
	"context"
	"time"
)

// drain measures until a websocket subscriber in another process has node.drained: from draining an empty node, and from the last release.
func drain(ctx context.Context, r *rig, rounds, each int) ([]Row, error) {
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
	uncordon := func() error {
		return r.call(ctx, "mutation($i: NodeUncordonInput!) { nodeUncordon(input: $i) { changed } }", input, nil)
	}
	start := func() error {
		return r.call(ctx, "mutation($i: NodeDrainInput!) { nodeDrain(input: $i) { changed } }", input, nil)
	}
	timed := func(act func() error) (time.Duration, error) {
		began := time.Now()
		failed := make(chan error, 1)
		go func() { failed <- act() }()
		if err := await(ctx, seen, ids[0]); err != nil {
			return 0, err
		}
		took := time.Since(began)
		return took, <-failed
	}
	empty, err := pairs("drain-empty", rounds, each, r.cpu, func() (time.Duration, error) {
		took, err := timed(start)
		if err != nil {
			return 0, err
		}
		return took, uncordon()
	}, r.bare(ctx, ids[1]))
	if err != nil {
		return nil, err
	}
	release, err := pairs("drain-release", rounds, each, r.cpu, func() (time.Duration, error) {
		var made struct {
			ReservationCreate struct{ Reservation struct{ ID string } }
		}
		if err := r.call(ctx, "mutation($i: ReservationCreateInput!) { reservationCreate(input: $i) { reservation { id } } }", input, &made); err != nil {
			return 0, err
		}
		if err := start(); err != nil {
			return 0, err
		}
		took, err := timed(func() error {
			return r.call(ctx, "mutation($i: ReservationReleaseInput!) { reservationRelease(input: $i) { changed } }",
				map[string]any{"i": map[string]any{"tenantId": tenant, "reservationId": made.ReservationCreate.Reservation.ID}}, nil)
		})
		if err != nil {
			return 0, err
		}
		return took, uncordon()
	}, r.bare(ctx, ids[1]))
	return []Row{empty, release}, err
}
