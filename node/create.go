package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
)

// New is a machine that joins for the first time.
type New struct {
	// ID is the node's id when it had to be known beforehand, since the certificate that names it is signed before the row is written; empty
	// for a fresh one.
	ID string
	// Key is the fingerprint of its identity key.
	Key string
	// PoolID is the pool it joins; its tenant becomes the owner.
	PoolID string
	// Hostname is what the machine calls itself.
	Hostname string
	// Labels are the operator's that it begins with; CheckLabels has seen them.
	Labels map[string]string
	// By is who brought it in.
	By string
}

// CreateTx makes the node's row, in ADOPTING and with a trusted credential, lets its owner see it, and begins its liveness: a machine whose first
// Hello is still queued counts from here. It gives the node's id. The statements go out with the transaction's next one, which fails, as the
// commit would, when a live node has the same key or there is no such pool.
func CreateTx(tx *db.Tx, n New) (string, error) {
	if err := tx.Locks(db.LockNode); err != nil {
		return "", err
	}
	nodeID := n.ID
	if nodeID == "" {
		nodeID = id.New(id.Node)
	}
	tx.Send(`
		insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
		select $1, $2, p.tenant_id, p.id, $4, 'ADOPTING', 'TRUSTED', $5 from pools p where p.id = $3`, nodeID, n.Key, n.PoolID, n.Hostname, n.By)
	if len(n.Labels) > 0 {
		var keys, values []string
		for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
			keys, values = append(keys, key), append(values, n.Labels[key])
		}
		tx.Send(`
			insert into node_labels (node_id, key, value, source)
			select $1, key, value, 'OPERATOR' from unnest($2::text[], $3::text[]) as x(key, value)`, nodeID, keys, values)
	}
	iam.ProjectOwnerTx(tx, nodeID)
	tx.Send(`insert into node_liveness (node_id, last_seen, gateway_id, session_number) values ($1, now(), '', 0)`, nodeID)
	return nodeID, nil
}

// Locked is a node whose row the transaction holds, with who sees it and the database's time after the lock was got.
type Locked struct {
	*Node
	Audience events.Audience
	Now      time.Time
}

// Locks are nodes whose rows the transaction holds.
type Locks struct {
	// Nodes are those that are there and not deleted, by id.
	Nodes map[string]Locked

	seers iam.Seers
}

// ChangeTx has a controller change one of the nodes, with its event, and gives how many changed: a node that is not held stays as it is.
func (l Locks) ChangeTx(ctx context.Context, tx *db.Tx, nodeID string, who iam.Actor, c Control) (int, error) {
	n, held := l.Nodes[nodeID]
	if !held {
		return 0, nil
	}
	changed, _, err := apply(ctx, tx, locked{nodes: []*Node{n.Node}, seers: l.seers}, deed{Control: c, who: who})
	return len(changed), err
}

// LockTx locks nodes in the order of their ids and loads them: for verbs that do not change the node but must not race with what does, like a
// booking with a drain. A node that is absent or deleted is not in the answer.
func LockTx(ctx context.Context, tx *db.Tx, ids ...string) (map[string]Locked, error) {
	got, err := LockAndReadTx(ctx, tx, ids, AllParts, nil)
	return got.Nodes, err
}

// LockAndReadTx is LockTx for what reads only those parts of the nodes, with statements of the caller's, which run in the same round trip after the locks were got.
func LockAndReadTx(ctx context.Context, tx *db.Tx, ids []string, parts Parts, more func(*pgx.Batch)) (Locks, error) {
	got, err := lock(ctx, tx, wanted{ids: ids, parts: parts, more: more})
	if err != nil {
		return Locks{}, err
	}
	out := Locks{Nodes: make(map[string]Locked, len(got.nodes)), seers: got.seers}
	for _, n := range got.nodes {
		if n.DeletedAt == nil {
			out.Nodes[n.ID] = Locked{Node: n, Audience: got.seers.Audiences[n.ID], Now: got.seers.Now}
		}
	}
	return out, nil
}
