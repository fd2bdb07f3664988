package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

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
	rss, err := residentMB(r.server.Process.Pid)
	return Row{Name: "held", N: n, Unit: "bytes a node", Value: tidy(bytes / float64(n)), More: map[string]float64{"server_mb": rss}}, err
}

// residentMB is how much memory a process has, in MB.
func residentMB(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kb float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kb); err == nil {
			return tidy(kb / 1e3), nil
		}
	}
	return 0, fmt.Errorf("no VmRSS of process %d", pid)
}
