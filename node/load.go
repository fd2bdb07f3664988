package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
)

// columns are the node's own, in the order of scan.
const columns = `n.id, n.key, n.owner_tenant_id, n.pool_id, n.hostname, n.version, n.provision_state, n.failure_phase, n.failure_message, n.failure_at,
	n.cordon_reason, n.cordon_by, n.cordon_at, n.maintenance, n.connectivity, n.connectivity_since, n.identity_generation, n.credential,
	n.credential_since, n.changed_by, n.changed_at, n.created_at, n.deleted_at,
	n.cordon_until, coalesce(n.cordon_until <= clock_timestamp(), false), coalesce(n.acceptance_run, ''), n.adopted_at`

// scan reads one row of columns; more destinations may follow.
func scan(row pgx.CollectableRow, more ...any) (*Node, error) {
	var n Node
	var failurePhase, failureMessage, cordonReason, cordonBy *string
	var failureAt, cordonAt, cordonUntil *time.Time
	var overdue bool
	err := row.Scan(append([]any{
		&n.ID, &n.Key, &n.TenantID, &n.PoolID, &n.Hostname, &n.Version, &n.ProvisionState, &failurePhase, &failureMessage, &failureAt,
		&cordonReason, &cordonBy, &cordonAt, &n.Maintenance, &n.Connectivity, &n.ConnectivitySince, &n.IdentityGeneration, &n.Credential,
		&n.CredentialSince, &n.ChangedBy, &n.ChangedAt, &n.CreatedAt, &n.DeletedAt,
		&cordonUntil, &overdue, &n.AcceptanceRun, &n.AdoptedAt,
	}, more...)...)
	if err != nil {
		return nil, err
	}
	if failurePhase != nil {
		n.Failure = &Failure{Phase: *failurePhase, Message: deref(failureMessage), At: deref(failureAt)}
	}
	if cordonAt != nil {
		n.Cordon = &Cordon{Reason: Text(deref(cordonReason)), By: deref(cordonBy), At: *cordonAt, Until: cordonUntil, Overdue: overdue}
	}
	return &n, nil
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// parts are the queries that fill a node's lists, by node id ($1, an array). queueParts and readParts run them in that order.
const (
	reasonsSQL = `select node_id, reason, owner, coalesce(by, ''), coalesce(message, ''), since
		from node_reasons where node_id = any($1) order by node_id, reason collate "C"`
	labelsSQL = `select node_id, key, value, source from node_labels where node_id = any($1) order by node_id, key collate "C"`
	drainsSQL = `select distinct on (node_id) ` + drainColumns + ` from node_drains where node_id = any($1) order by node_id, started_at desc, id desc`
)

// drainColumns are a drain's, in the order of Drain's fields.
const drainColumns = `id, node_id, state, coalesce(reason, ''), by, started_at, ended_at, coalesce(ended_by, ''), coalesce(cause, ''), confirmed_by_node,
	deadline, coalesce(state = 'DRAINING' and deadline <= clock_timestamp(), false)`

func queueParts(b *pgx.Batch, ids []string) {
	queueByID(b, reasonsSQL, ids)
	queueByID(b, labelsSQL, ids)
	queueByID(b, drainsSQL, ids)
}

// queueByID queues a statement that looks for ids by "= any($1)". For a single one it asks by "= $1": how long an array is PostgreSQL can't know
// ahead, so it would plan many of these statements anew each time, which costs more than they do.
func queueByID(b *pgx.Batch, sql string, ids []string) {
	if len(ids) == 1 {
		b.Queue(strings.Replace(sql, "= any($1)", "= $1", 1), ids[0])
		return
	}
	b.Queue(sql, ids)
}

func readParts(results pgx.BatchResults, nodes map[string]*Node) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	var id string
	var r Reason
	_, err = pgx.ForEachRow(rows, []any{&id, &r.Name, &r.Owner, &r.By, &r.Message, &r.Since}, func() error {
		if n := nodes[id]; n != nil {
			n.Reasons = append(n.Reasons, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if rows, err = results.Query(); err != nil {
		return err
	}
	var l Label
	_, err = pgx.ForEachRow(rows, []any{&id, &l.Key, &l.Value, &l.Source}, func() error {
		if n := nodes[id]; n != nil {
			n.Labels = append(n.Labels, l)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if rows, err = results.Query(); err != nil {
		return err
	}
	drains, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Drain])
	if err != nil {
		return err
	}
	for _, d := range drains {
		if n := nodes[d.NodeID]; n != nil {
			n.LastDrain = &d
		}
	}
	return nil
}

// locked is what lock gives: the nodes in the order of their ids, who sees them, and the database's time after the last lock was got.
type locked struct {
	nodes     []*Node
	audiences map[string]events.Audience
	now       time.Time
}

// lock locks and loads nodes in one round trip, in the order of their ids. With skip, those that others hold are left out. more, if there is one, adds
// reads whose results are taken by their own functions.
func lock(ctx context.Context, tx *db.Tx, ids []string, skip bool, more func(*pgx.Batch)) (locked, error) {
	if err := tx.Locks(db.LockNode); err != nil {
		return locked{}, err
	}
	query := "select " + columns + " from nodes n where n.id = any($1) order by n.id for no key update"
	if skip {
		query += " skip locked"
	}
	b := &pgx.Batch{}
	queueByID(b, query, ids)
	b.Queue("select clock_timestamp()")
	queueParts(b, ids)
	queueByID(b, iam.AudienceSQL, ids)
	if more != nil {
		more(b)
	}
	results := tx.SendBatch(ctx, b)
	out, err := readLocked(results)
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return locked{}, fmt.Errorf("lock the node: %w", err)
	}
	return out, nil
}

func readLocked(results pgx.BatchResults) (locked, error) {
	var out locked
	rows, err := results.Query()
	if err != nil {
		return out, err
	}
	out.nodes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Node, error) { return scan(row) })
	if err != nil {
		return out, err
	}
	if err := results.QueryRow().Scan(&out.now); err != nil {
		return out, err
	}
	byID := make(map[string]*Node, len(out.nodes))
	for _, n := range out.nodes {
		byID[n.ID] = n
	}
	if err := readParts(results, byID); err != nil {
		return out, err
	}
	if rows, err = results.Query(); err != nil {
		return out, err
	}
	out.audiences, err = iam.ScanAudiences(rows)
	return out, err
}

// ownParts selects a node's lists beside its columns, so that one statement, and with it one moment, gives the whole node: read apart, a version could
// stand beside the lists of the next.
const ownParts = `
	(select json_agg(json_build_array(r.reason, r.owner, coalesce(r.by, ''), coalesce(r.message, ''), r.since) order by r.reason collate "C")
	 from node_reasons r where r.node_id = n.id),
	(select json_agg(json_build_array(b.key, b.value, b.source) order by b.key collate "C") from node_labels b where b.node_id = n.id),
	(select json_build_object('ID', d.id, 'NodeID', d.node_id, 'State', d.state, 'Reason', coalesce(d.reason, ''), 'By', d.by,
		'StartedAt', d.started_at, 'EndedAt', d.ended_at, 'EndedBy', coalesce(d.ended_by, ''), 'Cause', coalesce(d.cause, ''),
		'ConfirmedByNode', d.confirmed_by_node, 'Deadline', d.deadline, 'Overdue', d.state = 'DRAINING' and d.deadline <= clock_timestamp())
	 from node_drains d where d.node_id = n.id order by d.started_at desc, d.id desc limit 1)`

// parts are what ownParts gives, as it comes.
type parts struct{ reasons, labels, drain []byte }

// into puts the lists into the node.
func (p parts) into(n *Node) error {
	var reasons []reasonParts
	var labels []labelParts
	for _, part := range []struct {
		text []byte
		into any
	}{{p.reasons, &reasons}, {p.labels, &labels}, {p.drain, &n.LastDrain}} {
		if part.text == nil {
			continue
		}
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return fmt.Errorf("read the node's lists: %w", err)
		}
	}
	for _, r := range reasons {
		n.Reasons = append(n.Reasons, Reason(r))
	}
	for _, l := range labels {
		n.Labels = append(n.Labels, Label(l))
	}
	if d := n.LastDrain; d != nil {
		d.StartedAt = d.StartedAt.UTC()
		if d.EndedAt != nil {
			*d.EndedAt = d.EndedAt.UTC()
		}
		if d.Deadline != nil {
			*d.Deadline = d.Deadline.UTC()
		}
	}
	return nil
}

type (
	reasonParts Reason
	labelParts  Label
)

// UnmarshalJSON reads a reason from its array.
func (r *reasonParts) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &[]any{&r.Name, &r.Owner, &r.By, &r.Message, &r.Since}); err != nil {
		return err
	}
	r.Since = r.Since.UTC()
	return nil
}

// UnmarshalJSON reads a label from its array.
func (l *labelParts) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&l.Key, &l.Value, &l.Source})
}
