package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/liveness"
)

// flush measures writing the ages of many nodes by the gateway's own function, against one bare UPDATE of the same rows.
func flush(ctx context.Context, r *rig, s size) ([]Row, error) {
	ids, err := r.nodes(ctx, s.n)
	if err != nil {
		return nil, err
	}
	if _, err := r.pool.Exec(ctx, `
		insert into node_liveness (node_id, last_seen, gateway_id, session_number) select x, now() - interval '1 hour', 'bench', 1 from unnest($1::text[]) as x`,
		ids); err != nil {
		return nil, err
	}
	if _, err := r.pool.Exec(ctx, `vacuum analyze node_liveness`); err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, db.Config{URL: r.postgres.URL()})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	store := &liveness.Store{DB: d, Log: slog.New(slog.DiscardHandler)}
	if _, err := store.StartGateway(ctx, "bench", "bench"); err != nil {
		return nil, err
	}
	// Each flush makes the ages younger, as beats do.
	age := time.Minute
	var wal, updated, hot float64
	work := func(ctx context.Context) (round, error) {
		age -= 10 * time.Millisecond
		ages := make([]liveness.Age, len(ids))
		for i, nodeID := range ids {
			ages[i] = liveness.Age{NodeID: nodeID, Number: 1, Age: age}
		}
		before, err := r.written(ctx)
		if err != nil {
			return round{}, err
		}
		began := time.Now()
		if err := store.Flush(ctx, "bench", "bench", ages); err != nil {
			return round{}, err
		}
		took := time.Since(began)
		after, err := r.written(ctx)
		wal, updated, hot = after[0]-before[0], after[1], after[2]
		return round{n: len(ids), elapsed: took}, err
	}
	numbers, millis := make([]int64, len(ids)), make([]int64, len(ids))
	floor := func(ctx context.Context) (round, error) {
		age -= 10 * time.Millisecond
		for i := range ids {
			numbers[i], millis[i] = 1, age.Milliseconds()
		}
		began := time.Now()
		_, err := r.pool.Exec(ctx, `
			update node_liveness l set last_seen = now() - make_interval(secs => x.ms / 1000.0)
			from unnest($1::text[], $2::bigint[], $3::bigint[]) as x (node_id, number, ms)
			where l.node_id = x.node_id and l.session_number = x.number`, ids, numbers, millis)
		return round{n: len(ids), elapsed: time.Since(began)}, err
	}
	row, err := pairs(ctx, "flush", s.rounds, wholeMs, side{ownCPU, r.dbCPU, work}, side{ownCPU, zero, floor})
	row.More = map[string]float64{"wal_bytes_each": tidy(wal / float64(s.n)), "hot_percent": tidy(100 * hot / max(updated, 1))}
	return []Row{row}, err
}

// written gives how many bytes of WAL there are, how many ages have been updated, and how many of those within their page.
func (r *rig) written(ctx context.Context) ([3]float64, error) {
	var out [3]float64
	err := r.pool.QueryRow(ctx, `
		select pg_current_wal_insert_lsn() - '0/0'::pg_lsn, coalesce(n_tup_upd, 0), coalesce(n_tup_hot_upd, 0)
		from pg_stat_user_tables where relname = 'node_liveness'`).Scan(&out[0], &out[1], &out[2])
	return out, err
}
