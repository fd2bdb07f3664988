package main

import (
	"context"
	"time"
)

// wholeFleet measures what the console asks about a whole fleet, its counts and its first page, with n nodes and then with ten times as many, against
// PostgreSQL counting the same rows.
func wholeFleet(ctx context.Context, r *rig, s size) ([]Row, error) {
	var rows []Row
	for _, at := range []struct {
		n    int
		name string
	}{{s.n, ""}, {10 * s.n, "-10x"}} {
		var have int
		if err := r.pool.QueryRow(ctx, `select count(*) from nodes`).Scan(&have); err != nil {
			return nil, err
		}
		if _, err := r.labelled(ctx, max(at.n-have, 1)); err != nil {
			return nil, err
		}
		if _, err := r.pool.Exec(ctx, `analyze nodes, node_projection, node_labels, node_reasons`); err != nil {
			return nil, err
		}
		for _, q := range []struct{ name, query string }{
			{"fleet-summary", `query($t: ID!) { fleetSummary(tenantId: $t) { total cordoned } }`},
			{"fleet-page", `query($t: ID!) { nodes(tenantId: $t, first: 50) { nodes { id hostname provisionState cordoned connectivity statusSentence } } }`},
		} {
			work := timed(s.each, func(ctx context.Context) (time.Duration, error) {
				began := time.Now()
				err := r.call(ctx, q.query, map[string]any{"t": tenant}, nil)
				return time.Since(began), err
			})
			floor := timed(s.each, func(ctx context.Context) (time.Duration, error) {
				began := time.Now()
				_, err := r.pool.Exec(ctx, `select count(*) from nodes where deleted_at is null`)
				return time.Since(began), err
			})
			row, err := pairs(ctx, q.name+at.name, s.rounds, median, side{r.cpu, r.dbCPU, work}, side{zero, r.dbCPU, floor})
			if err != nil {
				return nil, err
			}
			row.More = map[string]float64{"nodes": float64(max(at.n, have+1))}
			rows = append(rows, row)
		}
	}
	return rows, nil
}
