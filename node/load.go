package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/iam"
)

// columns are the node's own, in the order of scan.
const columns = `n.id, n.key, n.owner_tenant_id, n.pool_id, n.hostname, n.version, n.provision_state, n.failure_phase, n.failure_message, n.failure_at,
	n.cordon_reason, n.cordon_by, n.cordon_at, n.maintenance, n.connectivity, n.connectivity_since, n.identity_generation, n.credential,
	n.credential_since, n.changed_by, n.changed_at, n.created_at, n.deleted_at,
	n.cordon_until, coalesce(n.cordon_until <= clock_timestamp(), false), coalesce(n.acceptance_run, ''), n.adopted_at`

// nodeRow is a row of columns as it comes.
type nodeRow struct {
	n                                                    Node
	failurePhase, failureMessage, cordonReason, cordonBy *string
	failureAt, cordonAt, cordonUntil                     *time.Time
	overdue                                              bool
}

// into are the destinations of columns.
func (r *nodeRow) into() []any {
	n := &r.n
	return []any{
		&n.ID, &n.Key, &n.TenantID, &n.PoolID, &n.Hostname, &n.Version, &n.ProvisionState, &r.failurePhase, &r.failureMessage, &r.failureAt,
		&r.cordonReason, &r.cordonBy, &r.cordonAt, &n.Maintenance, &n.Connectivity, &n.ConnectivitySince, &n.IdentityGeneration, &n.Credential,
		&n.CredentialSince, &n.ChangedBy, &n.ChangedAt, &n.CreatedAt, &n.DeletedAt,
		&r.cordonUntil, &r.overdue, &n.AcceptanceRun, &n.AdoptedAt,
	}
}

func (r *nodeRow) node() *Node {
	n := &r.n
	if r.failurePhase != nil {
		n.Failure = &Failure{Phase: *r.failurePhase, Message: deref(r.failureMessage), At: deref(r.failureAt)}
	}
	if r.cordonAt != nil {
		n.Cordon = &Cordon{Reason: Text(deref(r.cordonReason)), By: deref(r.cordonBy), At: *r.cordonAt, Until: r.cordonUntil, Overdue: r.overdue}
	}
	return n
}

// scan reads one row of columns; more destinations may follow.
func scan(row pgx.CollectableRow, more ...any) (*Node, error) {
	var r nodeRow
	if err := row.Scan(append(r.into(), more...)...); err != nil {
		return nil, err
	}
	return r.node(), nil
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// drainColumns are a drain's, in the order of Drain's fields.
const drainColumns = `id, node_id, state, coalesce(reason, ''), by, started_at, ended_at, coalesce(ended_by, ''), coalesce(cause, ''), confirmed_by_node,
	deadline, coalesce(state = 'DRAINING' and deadline <= clock_timestamp(), false)`

// The statements of a lock, in their order. What fills a node's lists is read after its row was got.
var (
	lockByID     = db.LookingFor("select " + columns + " from nodes n where n.id = any($1) order by n.id for no key update")
	lockFreeByID = db.LookingFor("select " + columns + " from nodes n where n.id = any($1) order by n.id for no key update skip locked")
	reasonsByID  = db.LookingFor(`select node_id, reason, owner, coalesce(by, ''), coalesce(message, ''), since
		from node_reasons where node_id = any($1) order by node_id, reason collate "C"`)
	labelsByID = db.LookingFor(`select node_id, key, value, source from node_labels where node_id = any($1) order by node_id, key collate "C"`)
	drainsByID = db.LookingFor(`select distinct on (node_id) ` + drainColumns + ` from node_drains where node_id = any($1) order by node_id, started_at desc, id desc`)
	seersByID  = db.LookingForOne(iam.SeersSQL, iam.SeersOneSQL)
)

// lockForSQL locks one node for a caller that sees it, and reads in the same row what the caller may do.
const lockForSQL = "select " + iam.QuestionColumns + ", n.* from " + iam.QuestionSQL + `
	left join lateral (select ` + columns + " from nodes n where n.id = $4 and " + iam.SeesSQL + " for no key update) as n on true"

// locked is what a lock gives: the nodes in the order of their ids, who sees them, and the database's time after the last lock was got.
type locked struct {
	nodes []*Node
	seers iam.Seers
	byID  map[string]*Node
}

// find gives a node that was locked, or nil.
func (l *locked) find(id string) *Node {
	if l.byID == nil {
		l.byID = make(map[string]*Node, len(l.nodes))
		for _, n := range l.nodes {
			l.byID[n.ID] = n
		}
	}
	return l.byID[id]
}

// queueLock adds the lock of nodes to a batch. With skip, those that others hold are left out.
func (l *locked) queueLock(b *pgx.Batch, ids []string, skip bool) {
	statement := lockByID
	if skip {
		statement = lockFreeByID
	}
	statement.Queue(b, ids).Query(func(rows pgx.Rows) (err error) {
		l.nodes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Node, error) { return scan(row) })
		return err
	})
}

// queueLockFor adds the lock of one node for a caller. Its answer is given before anything else that the batch read is looked at; a caller who does not
// see the node has not locked it.
func (l *locked) queueLockFor(b *pgx.Batch, q *iam.Question, nodeID string, parts Parts, answer func() error) {
	b.Queue(lockForSQL, q.Args()...).Query(func(rows pgx.Rows) error {
		_, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
			known := q.Into()
			var r nodeRow
			into := r.into()
			found := row.RawValues()[len(known)] != nil
			if !found {
				clear(into)
			}
			err := row.Scan(append(known, into...)...)
			if found && err == nil {
				l.nodes = []*Node{r.node()}
			}
			return struct{}{}, err
		})
		if err != nil {
			return err
		}
		return answer()
	})
	l.queueParts(b, []string{nodeID}, parts)
}

// queueParts adds what is read of nodes that are locked: who sees them, the time, and their lists.
func (l *locked) queueParts(b *pgx.Batch, ids []string, parts Parts) {
	seersByID.Queue(b, ids).Query(l.seers.Read)
	if parts.has(PartReasons) {
		reasonsByID.Queue(b, ids).Query(func(rows pgx.Rows) error {
			var id string
			var r Reason
			_, err := pgx.ForEachRow(rows, []any{&id, &r.Name, &r.Owner, &r.By, &r.Message, &r.Since}, func() error {
				if n := l.find(id); n != nil {
					n.Reasons = append(n.Reasons, r)
				}
				return nil
			})
			return err
		})
	}
	if parts.has(PartLabels) {
		labelsByID.Queue(b, ids).Query(func(rows pgx.Rows) error {
			var id string
			var a Label
			_, err := pgx.ForEachRow(rows, []any{&id, &a.Key, &a.Value, &a.Source}, func() error {
				if n := l.find(id); n != nil {
					n.Labels = append(n.Labels, a)
				}
				return nil
			})
			return err
		})
	}
	if parts.has(PartDrain) {
		drainsByID.Queue(b, ids).Query(func(rows pgx.Rows) error {
			drains, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Drain])
			for _, d := range drains {
				if n := l.find(d.NodeID); n != nil {
					n.LastDrain = &d
				}
			}
			return err
		})
	}
}

// wanted says what to lock and to read along.
type wanted struct {
	ids []string
	// skip leaves out nodes that others hold.
	skip  bool
	parts Parts
	// before, if there is one, adds statements that run before the locks are waited for.
	before func(*pgx.Batch)
	// more, if there is one, adds statements that run right after the locks were got, before the act's time is read; their results are taken by their own
	// functions.
	more func(*pgx.Batch)
	// crowd, if there is one, decides about the nodes, and reads along.
	crowd *iam.Crowd
}

// lock locks and loads nodes in one round trip, in the order of their ids.
func lock(ctx context.Context, tx *db.Tx, w wanted) (locked, error) {
	if err := tx.Locks(db.LockNode); err != nil {
		return locked{}, err
	}
	var got locked
	b := &pgx.Batch{}
	if w.before != nil {
		w.before(b)
	}
	got.queueLock(b, w.ids, w.skip)
	if w.crowd != nil {
		got.seers.Crowd = w.crowd
		w.crowd.Queue(b)
	}
	if w.more != nil {
		w.more(b)
	}
	got.queueParts(b, w.ids, w.parts)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return locked{}, fmt.Errorf("lock the node: %w", err)
	}
	return got, nil
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
