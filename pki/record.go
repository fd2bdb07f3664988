package pki

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

// cert is a certificate that is about to be recorded.
type cert struct {
	node       string
	generation int64
	chain      []*x509.Certificate
	text       string // the chain, PEM
}

func (c cert) serial() string { return SerialText(c.chain[0].SerialNumber) }

// record is the join's one transaction: claim, node, key, certificate, event. For a new node it goes to the database as one batch with its COMMIT.
func (s *Store) record(ctx context.Context, tx *db.Tx, j *joining, t tokenRow, h *holder, made cert) error {
	if err := tx.Locks(db.LockJoinToken); err != nil {
		return err
	}
	// The claim goes out with what follows; whether it got the token shows where the certificate is recorded, which takes a claimed one.
	hash := j.token.SecretHash()
	tx.Send(`
		update join_tokens set used_at = clock_timestamp(), used_by = $2
		where id = $1 and secret_hash = $3 and used_at is null and revoked_at is null and expires_at > clock_timestamp()`,
		j.token.ID(), made.node, hash[:])
	if h == nil {
		return recordNew(tx, j, t, made)
	}
	return s.recordAgain(ctx, tx, j, h, t.pool, made)
}

// unrecorded says that the database refused a certificate's row because there was nothing that it could belong to: such a row has no node, which the
// table does not take, and the transaction fails with the statement, at its COMMIT too.
func unrecorded(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23502" && pg.TableName == "node_certs" && pg.ColumnName == "node_id"
}

// taken says that somebody else's row is there already.
func taken(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23505"
}

// joinData is what events say of a join.
type joinData struct {
	Key         string          `json:"key"`
	Generation  int64           `json:"generation"`
	Serial      string          `json:"serial"`
	JoinTokenID string          `json:"joinTokenId"`
	Hostname    string          `json:"hostname"`
	Print       json.RawMessage `json:"print"`
	// PreviousPrint and RevokedSerials are there only when a known node came back.
	PreviousPrint  json.RawMessage `json:"previousPrint,omitempty"`
	RevokedSerials []string        `json:"revokedSerials,omitempty"`
}

func (j *joining) data(made cert) joinData {
	return joinData{
		Key: j.fingerprint, Generation: made.generation, Serial: made.serial(), JoinTokenID: j.token.ID(), Hostname: j.Hostname, Print: j.print,
	}
}

func recordNew(tx *db.Tx, j *joining, t tokenRow, made cert) error {
	n := node.New{ID: made.node, Key: j.fingerprint, PoolID: t.pool, Hostname: j.Hostname, Labels: t.labels, By: j.token.ID()}
	if _, err := node.CreateTx(tx, n); err != nil {
		return err
	}
	if err := tx.Locks(db.LockNodePart); err != nil {
		return err
	}
	j.recordCert(tx, made, true)
	return events.Append(tx, events.Entry{
		Type: "node.joined", TenantID: t.tenant, NodeID: n.ID, Actor: iam.NodeActor(n.ID).Name, Data: j.data(made),
		Audience: events.Audience{Full: []string{t.tenant}}, // its owner, to whom alone CreateTx has shown it
	})
}

func (s *Store) recordAgain(ctx context.Context, tx *db.Tx, j *joining, h *holder, pool string, made cert) error {
	data := j.data(made)
	who := iam.NodeActor(h.nodeID)
	rejoin := node.Control{
		Name: "rejoin", Axes: node.AxisIdentity | node.AxisHostname,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			if n.PoolID != pool || int64(n.IdentityGeneration) != made.generation || n.Key != j.fingerprint ||
				n.Credential != h.credential || !n.CredentialSince.Equal(h.since) {
				return nil, errMoved
			}
			n.Hostname = j.Hostname
			if n.Credential != node.Trusted {
				n.Credential, n.CredentialSince = node.Trusted, a.Now
			}
			return &node.Fact{Type: "node.rejoined", Data: &data}, nil
		},
		Follow: func(ctx context.Context, tx *db.Tx, nodes []*node.Node) error {
			n := nodes[0] // it is one node's
			if err := tx.Locks(db.LockNodePart); err != nil {
				return err
			}
			var trusted bool
			err := tx.QueryRow(ctx, `select exists (select from identity_keys where node_id = $1 and fingerprint = $2 and state = 'TRUSTED')`,
				n.ID, j.fingerprint).Scan(&trusted)
			if err != nil {
				return fmt.Errorf("look at the identity: %w", err)
			}
			if !trusted {
				return errMoved
			}
			// Sessions open and end under the node's lock, which is held here: this look is the last word.
			other, err := liveElsewhere(ctx, tx, n.ID, j.Print)
			if err != nil {
				return err
			}
			if other {
				return errMoved // the look before the next attempt says what is wrong
			}
			if data.PreviousPrint, err = lastPrint(ctx, tx, n.ID); err != nil {
				return err
			}
			if data.RevokedSerials, err = revokeLive(ctx, tx, n.ID, who.Name, "joined again"); err != nil {
				return err
			}
			j.recordCert(tx, made, false)
			return nil
		},
	}
	changed, err := s.Nodes.ChangeManyTx(ctx, tx, node.Many{IDs: []string{h.nodeID}, Who: who}, rejoin)
	if err != nil {
		return err
	}
	if len(changed) == 0 {
		return errMoved // deleted meanwhile
	}
	return nil
}

// lastPrint gives what the node's machine looked like before: in its newest session, else when it asked for its newest certificate.
func lastPrint(ctx context.Context, q db.Querier, nodeID string) (json.RawMessage, error) {
	var p json.RawMessage
	err := q.QueryRow(ctx, `
		select coalesce((select print from node_sessions where node_id = $1),
		                (select print from node_certs where node_id = $1 order by issued_at desc limit 1), '{}')`, nodeID).Scan(&p)
	if err != nil {
		return nil, fmt.Errorf("read the machine's last print: %w", err)
	}
	return p, nil
}

// revokeLive ends every certificate of the node that counts, for ever, and gives their serials. The node is locked.
func revokeLive(ctx context.Context, tx *db.Tx, nodeID, by, reason string) ([]string, error) {
	rows, err := tx.Query(ctx, `
		update node_certs set state = 'REVOKED', ended_at = clock_timestamp(), ended_by = $2, reason = $3, chain = null
		where node_id = $1 and state in ('PENDING', 'ACTIVE') returning serial`, nodeID, by, reason)
	if err != nil {
		return nil, fmt.Errorf("revoke the old certificates: %w", err)
	}
	serials, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("revoke the old certificates: %w", err)
	}
	return serials, nil
}

// recordCert writes the certificate's row and, for a new node, its identity key's. The transaction fails as [unrecorded] says when it did not get the
// token.
func (j *joining) recordCert(tx *db.Tx, made cert, withKey bool) {
	leaf := made.chain[0]
	tx.Send(`
		with identity as (
		  insert into identity_keys (node_id, fingerprint, public_key, state) select $2, $11, $12, 'TRUSTED' where $13
		)
		insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, chain, print, token_id, issued_at, not_before, not_after)
		select $1, case when t.id is not null then $2 end, 'ACTIVE', $3, $4, $5, $6, $7::jsonb, t.id, clock_timestamp(), $9, $10
		from (select) as always
		left join join_tokens t on t.id = $8 and t.xmin = pg_current_xact_id()::xid -- the claim is this transaction's own`,
		made.serial(), made.node, made.generation, KeyFingerprint(leaf), j.csrHash[:], made.text, string(j.print), j.token.ID(),
		leaf.NotBefore, leaf.NotAfter, j.fingerprint, j.IdentityKey, withKey)
}

// EndNodeTx ends what a deleted node proved itself by: its certificates are revoked for ever, and its identity key is free, so that the machine can join
// again as a new node. A key that is distrusted stays so. The node is locked.
func EndNodeTx(tx *db.Tx, nodeID, by, reason string) {
	tx.Send(`
		update node_certs set state = 'REVOKED', ended_at = clock_timestamp(), ended_by = $2, reason = $3, chain = null
		where node_id = $1 and state in ('PENDING', 'ACTIVE')`, nodeID, by, reason)
	tx.Send(`update identity_keys set state = 'FREED', since = clock_timestamp() where node_id = $1 and state = 'TRUSTED'`, nodeID)
}
