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

// ProjectManyTx is ProjectTx for many nodes. The statement goes out with the transaction's next one.
func ProjectManyTx(tx *db.Tx, tenant string, nodeIDs []string, relation Relation) {
	tx.Send(`
		insert into node_projection (tenant_id, node_id, relation) select $1, id, $3 from unnest($2::text[]) as x (id) on conflict do nothing`, tenant, nodeIDs, relation)
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

// WithdrawManyTx is WithdrawTx for many nodes. The statement goes out with the transaction's next one.
func WithdrawManyTx(tx *db.Tx, tenant string, nodeIDs []string, relation Relation) {
	tx.Send(`delete from node_projection where tenant_id = $1 and node_id = any($2) and relation = $3`, tenant, nodeIDs, relation)
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
	// Audiences are who sees each node; a node that nobody sees is not in it. They may share what they hold.
	Audiences map[string]events.Audience
	// Crowd, if there is one, is told what its tenant sees.
	Crowd *Crowd
}

// Read reads the rows.
func (s *Seers) Read(rows pgx.Rows) error {
	s.Audiences = map[string]events.Audience{}
	first := map[seer]events.Audience{} // of a node that nobody else sees, as most are
	for rows.Next() {
		if s.Now.IsZero() {
			if err := rows.Scan(&s.Now, nil, nil, nil); err != nil {
				return err
			}
		}
		raw := rows.RawValues() // texts, which need no more than to be taken
		if raw[1] == nil {
			continue
		}
		nodeID, by := string(raw[1]), seer{string(raw[2]), Relation(raw[3])}
		s.Crowd.sees(by.tenant, nodeID, by.relation)
		a, ok := s.Audiences[nodeID]
		if ok {
			s.Audiences[nodeID] = see(a, by.tenant, by.relation == Owner)
			continue
		}
		if a, ok = first[by]; !ok {
			a = see(events.Audience{Full: []string{}, Reduced: []string{}}, by.tenant, by.relation == Owner)
			first[by] = a
		}
		s.Audiences[nodeID] = a
	}
	return rows.Err()
}

// seer is a tenant that sees a node, and by what.
type seer struct {
	tenant   string
	relation Relation
}

// see adds what one row says, and keeps the names in order. A tenant has a row for each relation, and the owner sees the whole whatever else it is. What
// the audience holds already may be another's too, and stays as it is.
func see(a events.Audience, tenant string, owner bool) events.Audience {
	switch {
	case owner && !slices.Contains(a.Full, tenant):
		a.Full = with(a.Full, tenant)
		a.Reduced = slices.DeleteFunc(slices.Clone(a.Reduced), func(t string) bool { return t == tenant })
	case !owner && !slices.Contains(a.Full, tenant) && !slices.Contains(a.Reduced, tenant):
		a.Reduced = with(a.Reduced, tenant)
	}
	return a
}

func with(names []string, name string) []string {
	all := append(slices.Clone(names), name)
	slices.Sort(all)
	return all
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
