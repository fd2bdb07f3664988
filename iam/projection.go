package iam

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
)

// ProjectTx lets the tenant see the node by that relation; a row that is there stays as it is.
func ProjectTx(ctx context.Context, tx *db.Tx, tenant, nodeID string, relation Relation) error {
	_, err := tx.Exec(ctx, `
		insert into node_projection (tenant_id, node_id, relation) values ($1, $2, $3) on conflict do nothing`, tenant, nodeID, relation)
	if err != nil {
		return fmt.Errorf("project the node: %w", err)
	}
	return nil
}

// ProjectOwnerTx lets the owner that a node's row names see the node. The statement goes out with the transaction's next one.
func ProjectOwnerTx(tx *db.Tx, nodeID string) {
	tx.Send(`insert into node_projection (tenant_id, node_id, relation) select owner_tenant_id, id, 'OWNER' from nodes where id = $1`, nodeID)
}

// WithdrawTx ends that relation. What other rows give stays.
func WithdrawTx(ctx context.Context, tx *db.Tx, tenant, nodeID string, relation Relation) error {
	_, err := tx.Exec(ctx, `
		delete from node_projection where tenant_id = $1 and node_id = $2 and relation = $3`, tenant, nodeID, relation)
	if err != nil {
		return fmt.Errorf("withdraw the node: %w", err)
	}
	return nil
}

// AudienceSQL selects, by node id ($1, an array), who sees each node: node_id, full, reduced. Other rooms put it into a batch of theirs.
const AudienceSQL = `
	select node_id,
	       coalesce(array_agg(distinct tenant_id) filter (where owned), '{}') as full,
	       coalesce(array_agg(distinct tenant_id) filter (where not owned), '{}') as reduced
	from (select node_id, tenant_id, bool_or(relation = 'OWNER') as owned
	      from node_projection where node_id = any($1) group by node_id, tenant_id) as seen
	group by node_id`

// ScanAudiences reads what AudienceSQL gives.
func ScanAudiences(rows pgx.Rows) (map[string]events.Audience, error) {
	out := map[string]events.Audience{}
	var nodeID string
	var a events.Audience
	_, err := pgx.ForEachRow(rows, []any{&nodeID, &a.Full, &a.Reduced}, func() error {
		out[nodeID] = events.Audience{Full: a.Full, Reduced: a.Reduced}
		a = events.Audience{}
		return nil
	})
	return out, err
}

// Audiences gives who sees each of the nodes now.
func Audiences(ctx context.Context, q db.Querier, nodeIDs []string) (map[string]events.Audience, error) {
	rows, err := q.Query(ctx, AudienceSQL, nodeIDs)
	if err != nil {
		return nil, fmt.Errorf("read who sees the nodes: %w", err)
	}
	return ScanAudiences(rows)
}

// ForgetNodeTx takes the node out of every tenant's projection.
func ForgetNodeTx(tx *db.Tx, nodeID string) {
	tx.Send(`delete from node_projection where node_id = $1`, nodeID)
}
