package main

import "context"

// fill makes so many nodes with labels, every tenth cordoned, in parts, before the rows are measured.
func (r *rig) fill(ctx context.Context, n int) error {
	const part = 20_000
	for ; n > 0; n -= part {
		if _, err := r.labelled(ctx, min(n, part)); err != nil {
			return err
		}
	}
	_, err := r.pool.Exec(ctx, `vacuum analyze`)
	return err
}

// held says what so many nodes take: bytes in the database each, and the server's memory after the rows were measured.
func held(ctx context.Context, r *rig, n int) (Row, error) {
	var bytes float64
	err := r.pool.QueryRow(ctx, `
		select sum(pg_total_relation_size(c.oid))::float8 from pg_class c
		where c.relname in ('nodes', 'node_projection', 'node_labels', 'node_reasons') and c.relkind = 'r'`).Scan(&bytes)
	if err != nil {
		return Row{}, err
	}
	memory, err := memoryOf(r.server.Process.Pid)
	return Row{Name: "held", N: n, Unit: "bytes a node", Value: tidy(bytes / float64(n)), Holds: true, More: map[string]float64{"server_mb": tidy(memory / 1e6)}}, err
}
