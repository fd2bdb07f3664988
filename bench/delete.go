package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// doom makes a node that can be deleted: adopted, cordoned, with 8 devices, 40 labels, 1,000 past allocations, a certificate and an identity key.
var doom = []string{
	`update nodes set cordoned = true, cordon_by = 'bench', cordon_at = now() where id = $1`,
	`insert into devices (node_id, uuid, kind, slot, model, memory_bytes, serial, pci_address, first_seen_at)
		select $1::text, $1::text || '-' || i, 'GPU', i, 'H100', 1, '', '', now() from generate_series(1, 8) i`,
	`insert into node_labels (node_id, key, value, source) select $1, 'bench-' || i, 'v', 'OPERATOR' from generate_series(1, 40) i`,
	`with r as (insert into reservations (id, tenant_id, created_by, created_at, released_at, released_by)
		select 'res_' || right($1::text, 26), owner_tenant_id, 'bench', now() - interval '1 day', now(), 'bench' from nodes where id = $1::text returning id, tenant_id)
	 insert into allocations (id, reservation_id, tenant_id, node_id, starts_at, started_at, released_at)
		select 'alloc_' || left(right($1::text, 26), 22) || lpad(i::text, 4, '0'), r.id, r.tenant_id, $1::text, now() - interval '1 day', now() - interval '1 day', now()
		from r, generate_series(1, 1000) i`,
	`insert into identity_keys (node_id, fingerprint, public_key, state) select $1::text, encode(sha256(convert_to($1::text, 'UTF8')), 'hex'), sha256(convert_to($1::text, 'UTF8')), 'TRUSTED'`,
	`insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, issued_at, not_before, not_after)
		values ($1, $1, 'ACTIVE', 1, 'key', '', now(), now(), now() + interval '1 day')`,
}

// bareDelete are the statements that the seed's list takes, and nothing else: no decision, no row of the request, no job.
var bareDelete = []string{
	`select id from nodes where id = $1 for no key update`,
	`update nodes set deleted_at = now(), version = version + 1, credential = 'REVOKED', credential_since = now(), changed_by = 'bench', changed_at = now() where id = $1`,
	`delete from node_liveness where node_id = $1`,
	`delete from node_running where node_id = $1`,
	`update node_sessions set disconnected_at = now() where node_id = $1 and disconnected_at is null`,
	`update devices set missing_since = now() where node_id = $1 and missing_since is null`,
	`update node_certs set state = 'REVOKED', ended_at = now(), ended_by = 'bench', reason = 'node-deleted' where node_id = $1 and state in ('PENDING', 'ACTIVE')`,
	`update identity_keys set state = 'FREED', since = now() where node_id = $1 and state = 'TRUSTED'`,
	`delete from node_projection where node_id = $1`,
	`with clock as (update event_clock set position = position + 1, at = greatest(clock_timestamp(), at + interval '1 microsecond') returning position, at)
	 insert into events (position, at, id, type, tenant_id, node_id, actor, data, full_for, reduced_for)
	 select clock.position, clock.at, 'evt_bench', 'bench.written', 'bench', $1, 'bench', '{}', '{}', '{}' from clock`,
}

// batch runs statements on one node in one transaction.
func (r *rig) batch(ctx context.Context, statements []string, nodeID string) error {
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		for _, s := range statements {
			b.Queue(s, nodeID)
		}
		return tx.SendBatch(ctx, b).Close()
	})
}

// remove measures a delete of a node that has been used, by the API, against the bare statements.
func remove(ctx context.Context, r *rig, s size) ([]Row, error) {
	doomed := func(ctx context.Context) (string, error) {
		ids, err := r.nodes(ctx, 1)
		if err != nil {
			return "", err
		}
		return ids[0], r.batch(ctx, doom, ids[0])
	}
	work := func(ctx context.Context) (time.Duration, error) {
		nodeID, err := doomed(ctx)
		if err != nil {
			return 0, fmt.Errorf("make the node: %w", err)
		}
		var answer struct{ NodeDelete struct{ Deleted bool } }
		began := time.Now()
		err = r.call(ctx, "mutation($i: NodeDeleteInput!) { nodeDelete(input: $i) { deleted } }",
			map[string]any{"i": map[string]any{"tenantId": tenant, "nodeId": nodeID, "reason": "bench"}}, &answer)
		took := time.Since(began)
		if err == nil && !answer.NodeDelete.Deleted {
			err = errors.New("the node was not deleted")
		}
		return took, err
	}
	floor := func(ctx context.Context) (time.Duration, error) {
		nodeID, err := doomed(ctx)
		if err != nil {
			return 0, fmt.Errorf("make the node: %w", err)
		}
		began := time.Now()
		err = r.batch(ctx, bareDelete, nodeID)
		return time.Since(began), err
	}
	row, err := pairs(ctx, "delete", s.rounds, median, side{r.cpu, r.dbCPU, timed(s.each, work)}, side{zero, zero, timed(s.each, floor)})
	return []Row{row}, err
}
