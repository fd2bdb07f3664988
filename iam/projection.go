package iam

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// Withdrawal is the statement that ends that relation, unless a select of the caller's, with the tenant as $1 and the node as $2, finds what it comes
// from. What other relations give stays.
func Withdrawal(tenant, nodeID string, relation Relation, unless string) (sql string, args []any) {
	return `delete from node_projection where tenant_id = $1 and node_id = $2 and relation = $3 and not exists (` + unless + `)`, []any{tenant, nodeID, relation}
}

// SeersSQL selects, by node id ($1, an array), who sees the nodes, and the database's time as it reads. There is one row at least, so that the time is
// known of nodes that nobody sees. Other rooms put it into a batch of theirs.
const SeersSQL = seersOf + `(unnest($1::text[]) as asked (id) join node_projection p on p.node_id = asked.id) on true`

// SeersOneSQL is SeersSQL of one node ($1, its id).
const SeersOneSQL = seersOf + `node_projection p on p.node_id = $1`

// An array of ids is joined, and not looked for by "= any": that would compare each row of the table with each of the ids, once the plan is one for all.
const seersOf = `
	select clock.now, p.node_id, p.tenant_id, p.relation from (select clock_timestamp() as now offset 0) as clock left join `

// Seers is what SeersSQL gives.
type Seers struct {
	// Now is the database's time as it read.
	Now time.Time
	// Audiences are who sees each node; a node that nobody sees is not in it.
	Audiences map[string]events.Audience
}

// Read reads the rows.
func (s *Seers) Read(rows pgx.Rows) error {
	s.Audiences = map[string]events.Audience{}
	var nodeID, tenant *string
	var relation *Relation
	_, err := pgx.ForEachRow(rows, []any{&s.Now, &nodeID, &tenant, &relation}, func() error {
		if nodeID == nil {
			return nil
		}
		a, ok := s.Audiences[*nodeID]
		if !ok {
			a = events.Audience{Full: []string{}, Reduced: []string{}}
		}
		s.Audiences[*nodeID] = see(a, *tenant, *relation == Owner)
		return nil
	})
	for _, a := range s.Audiences {
		slices.Sort(a.Full)
		slices.Sort(a.Reduced)
	}
	return err
}

// see adds what one row says. A tenant has a row for each relation, and the owner sees the whole whatever else it is.
func see(a events.Audience, tenant string, owner bool) events.Audience {
	switch {
	case owner && !slices.Contains(a.Full, tenant):
		a.Full = append(a.Full, tenant)
		a.Reduced = slices.DeleteFunc(a.Reduced, func(t string) bool { return t == tenant })
	case !owner && !slices.Contains(a.Full, tenant) && !slices.Contains(a.Reduced, tenant):
		a.Reduced = append(a.Reduced, tenant)
	}
	return a
}

// Audiences gives who sees each of the nodes now.
func Audiences(ctx context.Context, q db.Querier, nodeIDs []string) (map[string]events.Audience, error) {
	rows, err := q.Query(ctx, SeersSQL, nodeIDs)
	if err != nil {
		return nil, fmt.Errorf("read who sees the nodes: %w", err)
	}
	var s Seers
	if err := s.Read(rows); err != nil {
		return nil, fmt.Errorf("read who sees the nodes: %w", err)
	}
	return s.Audiences, nil
}

// ForgetNodeTx takes the node out of every tenant's projection.
func ForgetNodeTx(tx *db.Tx, nodeID string) {
	tx.Send(`delete from node_projection where node_id = $1`, nodeID)
}
