package pki

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/node"
)

// Renewed is a certificate that was signed anew for a session.
type Renewed struct {
	// Chain is the leaf and its intermediate, PEM.
	Chain    string
	Serial   string
	NotAfter time.Time
}

// Renew signs a new certificate for the node of a session that the certificate of v opened. It is signed for the generation that the session was let
// in with, and recorded only if that is still the node's by the database: the old certificate is never asked. The new one is pending until its first
// use, so that an agent that cannot write it goes on with the old one; asking again with the same key gives the same bytes, with another key a new
// certificate in the pending one's place.
//
// Codes: INVALID_INPUT for the request; UNAUTHENTICATED with the refusal in details.reason when the session's certificate no longer counts,
// also when it stopped counting while we signed; UNAVAILABLE.
func (s *Store) Renew(ctx context.Context, v Verdict, csrDER []byte) (Renewed, error) {
	csr, err := ParseCSR(csrDER)
	if err != nil {
		return Renewed{}, err
	}
	chain, err := s.Issuer.SignNode(ctx, csr, NodeProfile{NodeID: v.NodeID, Generation: v.Generation})
	if err != nil {
		return Renewed{}, err
	}
	r := renewal{
		cert: cert{node: v.NodeID, generation: v.Generation, chain: chain, text: s.chainText(chain)}, of: v.Serial,
		csrKey: KeyFingerprint(chain[0]), csrHash: sha256.Sum256(csrDER),
	}
	_, err = s.DB.Do(ctx, r.record)
	switch {
	case unrecorded(err):
		return Renewed{}, s.whyNot(ctx, v.NodeID, v.Serial)
	case taken(err):
		return s.renewedBefore(ctx, r)
	case err != nil:
		return Renewed{}, err
	}
	return Renewed{Chain: r.text, Serial: r.serial(), NotAfter: chain[0].NotAfter}, nil
}

// renewal is a certificate that was signed to follow another one, and is not on record yet.
type renewal struct {
	cert

	of      string // the serial of the one that it follows
	csrKey  string
	csrHash [sha256.Size]byte
}

// record writes the row, in the place of a pending one for another key. All of it goes to the database as one batch with its COMMIT, which fails as
// [unrecorded] says when what the certificate was signed for no longer holds, and as [taken] says when one for the same key is pending.
func (r renewal) record(_ context.Context, tx *db.Tx) error {
	if err := tx.Locks(db.LockNode); err != nil {
		return err
	}
	// The lock waits for whoever revokes, deletes or renews, and makes them wait: no certificate of an old generation is ever left counting. What the
	// statements after it see is what is true under the lock.
	tx.Send(`select 1 from nodes where id = $1 for no key update`, r.node)
	if err := tx.Locks(db.LockNodePart); err != nil {
		return err
	}
	leaf := r.chain[0]
	tx.Send(`
		with old as (
		  select c.node_id, c.print from node_certs c join nodes n on n.id = c.node_id where `+renewable+` and n.identity_generation = $3
		), ended as (
		  update node_certs set state = 'SUPERSEDED', ended_at = clock_timestamp(), ended_by = $2, reason = 'renewed again before its first use',
		    chain = null
		  where node_id = $2 and state = 'PENDING' and (key_fingerprint <> $5 or generation <> $3) returning true
		)
		insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, chain, print, issued_at, not_before, not_after)
		select $4, old.node_id, 'PENDING', $3, $5, $6, $7, coalesce(old.print, '{}'), clock_timestamp(), $8, $9
		from (select count(*) from ended) first left join old on true`,
		r.of, r.node, r.generation, r.serial(), r.csrKey, r.csrHash[:], r.text, leaf.NotBefore, leaf.NotAfter)
	return nil
}

// renewedBefore gives the certificate that is pending for the same key: its answer got lost.
func (s *Store) renewedBefore(ctx context.Context, r renewal) (Renewed, error) {
	var chain string
	err := s.DB.Pool().QueryRow(ctx, `
		select p.chain from node_certs c join nodes n on n.id = c.node_id join node_certs p on p.node_id = n.id
		where `+renewable+` and n.identity_generation = $4 and p.state = 'PENDING' and p.key_fingerprint = $3 and p.generation = $4`,
		r.of, r.node, r.csrKey, r.generation).Scan(&chain)
	if errors.Is(err, pgx.ErrNoRows) {
		return Renewed{}, s.whyNot(ctx, r.node, r.of)
	}
	if err != nil {
		return Renewed{}, fmt.Errorf("renew a certificate: %w", err)
	}
	parsed, err := parseChain(chain)
	if err != nil {
		return Renewed{}, err
	}
	return Renewed{Chain: chain, Serial: SerialText(parsed[0].SerialNumber), NotAfter: parsed[0].NotAfter}, nil
}

// renewable is the condition under which the certificate $1 of the node $2 may be renewed.
const renewable = `c.serial = $1 and c.node_id = $2 and c.state = 'ACTIVE' and c.not_after > clock_timestamp()
	and c.generation = n.identity_generation and n.deleted_at is null and n.credential = 'TRUSTED'`

// whyNot finds the refusal for a session's certificate that can't be renewed.
func (s *Store) whyNot(ctx context.Context, nodeID, serial string) error {
	var state string
	var same, deleted, expired bool
	var credential node.Credential
	err := s.DB.Pool().QueryRow(ctx, `
		select c.state, c.generation = n.identity_generation, n.deleted_at is not null, n.credential, c.not_after <= clock_timestamp()
		from node_certs c join nodes n on n.id = c.node_id where c.serial = $1 and c.node_id = $2`, serial, nodeID).
		Scan(&state, &same, &deleted, &credential, &expired)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return RefusedUnknown.err()
	case err != nil:
		return fmt.Errorf("renew a certificate: %w", err)
	case deleted:
		return RefusedDeleted.err()
	case credential == node.Quarantined:
		return RefusedQuarantined.err()
	case state == "REVOKED" || credential == node.Revoked:
		return RefusedRevoked.err()
	case !same:
		return RefusedGeneration.err()
	case state == "SUPERSEDED":
		return RefusedSuperseded.err()
	case expired:
		return RefusedExpired.err()
	case state == "PENDING":
		return RefusedUnknown.err() // never opened a session
	}
	return fault.New(fault.Unavailable, nil, "the node changed while its certificate was renewed; try again")
}
