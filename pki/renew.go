package pki

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// Renew signs a new certificate for the node of a session, from the database's row and never from the old certificate. serial is the one that the
// session was opened with. The new one is pending until its first use, so that an agent that cannot write it goes on with the old one; asking
// again with the same key gives the same bytes, with another key a new certificate in the pending one's place.
//
// Codes: INVALID_INPUT for the request; UNAUTHENTICATED with the refusal in details.reason when the session's certificate no longer counts,
// also when it stopped counting while we signed; UNAVAILABLE.
func (s *Store) Renew(ctx context.Context, nodeID, serial string, csrDER []byte) (Renewed, error) {
	csr, err := ParseCSR(csrDER)
	if err != nil {
		return Renewed{}, err
	}
	key := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	csrKey := hex.EncodeToString(key[:])
	var generation int64
	var chain *string
	err = s.DB.Pool().QueryRow(ctx, `
		select n.identity_generation, (select chain from node_certs p where p.node_id = n.id and p.state = 'PENDING' and p.key_fingerprint = $3
			and p.generation = n.identity_generation)
		from node_certs c join nodes n on n.id = c.node_id where `+renewable, serial, nodeID, csrKey).Scan(&generation, &chain)
	if errors.Is(err, pgx.ErrNoRows) {
		return Renewed{}, s.whyNot(ctx, nodeID, serial)
	}
	if err != nil {
		return Renewed{}, fmt.Errorf("renew a certificate: %w", err)
	}
	if chain != nil {
		return renewedFrom(*chain)
	}
	signed, err := s.Issuer.SignNode(ctx, csr, NodeProfile{NodeID: nodeID, Generation: generation})
	if err != nil {
		return Renewed{}, err
	}
	p := renewal{node: nodeID, serial: serial, csrKey: csrKey, csrHash: sha256.Sum256(csrDER), made: cert{node: nodeID, generation: generation, chain: signed}}
	_, err = s.DB.Do(ctx, p.record)
	if errors.Is(err, errMoved) {
		return Renewed{}, s.whyNot(ctx, nodeID, serial)
	}
	if err != nil {
		return Renewed{}, err
	}
	return Renewed{Chain: string(ChainPEM(signed)), Serial: p.made.serial(), NotAfter: signed[0].NotAfter}, nil
}

// renewal is a certificate that was signed to follow the one with the serial, and is not on record yet.
type renewal struct {
	node, serial string
	csrKey       string
	csrHash      [sha256.Size]byte
	made         cert
}

// record writes the row, in the place of a pending one. It is errMoved when what the certificate was signed for no longer holds.
func (p renewal) record(ctx context.Context, tx *db.Tx) error {
	if err := tx.Locks(db.LockNode); err != nil {
		return err
	}
	// The lock waits for whoever revokes, deletes or renews, and makes them wait: no certificate of an old generation is ever left counting. It goes out
	// with what follows; whether what the certificate was signed for still holds shows where it is recorded.
	tx.Send(`select 1 from nodes where id = $1 for no key update`, p.node)
	if err := tx.Locks(db.LockNodePart); err != nil {
		return err
	}
	tx.Send(`
		update node_certs set state = 'SUPERSEDED', ended_at = clock_timestamp(), ended_by = $1, reason = 'renewed again before its first use',
		  chain = null
		where node_id = $1 and state = 'PENDING'`, p.node)
	leaf := p.made.chain[0]
	var recorded string
	err := tx.QueryRow(ctx, `
		insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, chain, print, issued_at, not_before, not_after)
		select $4, n.id, 'PENDING', $3, $5, $6, $7, c.print, clock_timestamp(), $8, $9
		from node_certs c join nodes n on n.id = c.node_id where `+renewable+` and n.identity_generation = $3 returning serial`,
		p.serial, p.node, p.made.generation, p.made.serial(), p.csrKey, p.csrHash[:], string(ChainPEM(p.made.chain)), leaf.NotBefore, leaf.NotAfter).
		Scan(&recorded)
	if errors.Is(err, pgx.ErrNoRows) {
		return errMoved
	}
	if err != nil {
		return fmt.Errorf("record the certificate: %w", err)
	}
	return nil
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

func renewedFrom(chain string) (Renewed, error) {
	parsed, err := parseChain(chain)
	if err != nil {
		return Renewed{}, err
	}
	return Renewed{Chain: chain, Serial: SerialText(parsed[0].SerialNumber), NotAfter: parsed[0].NotAfter}, nil
}
