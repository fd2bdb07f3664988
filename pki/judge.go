package pki

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// Refusal says why a certificate that our CA signed does not open a session: details.reason of the error.
type Refusal string

// The refusals, each with its own thing to do.
const (
	// RefusedUnknown: we have no record of it, or the record names another node, key or generation.
	RefusedUnknown Refusal = "unknown"
	// RefusedExpired: it ran out.
	RefusedExpired Refusal = "expired"
	// RefusedSuperseded: a newer one of the node was used since.
	RefusedSuperseded Refusal = "superseded"
	// RefusedRevoked: it was taken back.
	RefusedRevoked Refusal = "revoked"
	// RefusedGeneration: the node's identity was revoked since it was signed.
	RefusedGeneration Refusal = "generation"
	// RefusedQuarantined: two machines used the node's identity.
	RefusedQuarantined Refusal = "quarantined"
	// RefusedDeleted: the node was deleted.
	RefusedDeleted Refusal = "deleted"
)

func (r Refusal) sentence() string {
	switch r {
	case RefusedExpired:
		return "the certificate ran out; join again"
	case RefusedSuperseded:
		return "a newer certificate of this node is in use; use that one, or join again with a new token"
	case RefusedRevoked:
		return "the certificate was revoked; an operator must make a new join token"
	case RefusedGeneration:
		return "the node's identity was revoked; an operator must make a new join token"
	case RefusedQuarantined:
		return "two machines used this node's certificate; an operator must say which one stays"
	case RefusedDeleted:
		return "the node was deleted; join with --reset --yes to come back as a new one"
	case RefusedUnknown:
	}
	return "the certificate is not known here; join again with a new token"
}

func (r Refusal) err() error {
	return fault.New(fault.Unauthenticated, fault.Details{"reason": string(r)}, "%s", r.sentence())
}

// RefusalOf gives why a certificate was refused; "" when the error says nothing about one.
func RefusalOf(err error) Refusal {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Unauthenticated {
		return ""
	}
	reason, _ := f.Details["reason"].(string)
	return Refusal(reason)
}

// Verdict is the database's judgement of a certificate that counts.
type Verdict struct {
	NodeID     string
	TenantID   string
	PoolID     string
	Generation int64
	Serial     string
	NotBefore  time.Time
	NotAfter   time.Time
	// FirstUse says that the certificate has not been used before; Admit notes it, and with a pending one puts it in the old one's place.
	FirstUse bool
	// pending says that the certificate is a renewed one that was not used yet.
	pending bool
	// told says that a use after its end was told of within the last hour.
	told bool
}

// Judge looks at a client certificate that TLS has verified against our root, and says by the database whether it counts: its serial is on record
// for that node, key and generation, it is active or pending, the node is there, trusted and of that generation. A certificate that does not
// count is UNAUTHENTICATED with the refusal in details.reason. It changes nothing.
func (s *Store) Judge(ctx context.Context, q db.Querier, leaf *x509.Certificate) (Verdict, error) {
	v, refusal, err := s.judge(ctx, q, leaf)
	if err != nil {
		return Verdict{}, err
	}
	if refusal != "" {
		return Verdict{}, refusal.err()
	}
	return v, nil
}

func (s *Store) judge(ctx context.Context, q db.Querier, leaf *x509.Certificate) (Verdict, Refusal, error) {
	nodeID, generation, err := NodeFromCertificate(s.Issuer.TrustDomain(), leaf)
	if err != nil {
		s.Log.InfoContext(ctx, "a certificate of ours is no node's", "error", err)
		return Verdict{}, RefusedUnknown, nil
	}
	v := Verdict{NodeID: nodeID, Generation: generation, Serial: SerialText(leaf.SerialNumber), NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}
	var state, keyFingerprint string
	var recorded, current int64
	var credential node.Credential
	var expired, deleted, matches bool
	err = q.QueryRow(ctx, `
		select c.node_id = $2, c.state, c.generation, c.key_fingerprint, c.not_after <= clock_timestamp(), c.first_used_at is null,
		       coalesce(c.seen_again_at > clock_timestamp() - interval '1 hour', false),
		       n.identity_generation, n.credential, n.deleted_at is not null, n.owner_tenant_id, n.pool_id
		from node_certs c join nodes n on n.id = c.node_id where c.serial = $1`, v.Serial, nodeID).
		Scan(&matches, &state, &recorded, &keyFingerprint, &expired, &v.FirstUse, &v.told, &current, &credential, &deleted, &v.TenantID, &v.PoolID)
	if errors.Is(err, pgx.ErrNoRows) {
		return v, RefusedUnknown, nil
	}
	if err != nil {
		return Verdict{}, "", fmt.Errorf("judge a certificate: %w", err)
	}
	v.pending = state == "PENDING"
	switch {
	case !matches || recorded != generation || keyFingerprint != KeyFingerprint(leaf):
		return v, RefusedUnknown, nil
	case deleted:
		return v, RefusedDeleted, nil
	case credential == node.Quarantined:
		return v, RefusedQuarantined, nil
	case state == "REVOKED" || credential == node.Revoked:
		return v, RefusedRevoked, nil
	case current != generation:
		return v, RefusedGeneration, nil
	case state == "SUPERSEDED":
		return v, RefusedSuperseded, nil
	case expired:
		return v, RefusedExpired, nil
	case credential != node.Trusted:
		return v, RefusedUnknown, nil
	}
	return v, "", nil
}

// Admit judges a certificate for a session that begins, and has the effects of that: its first use is noted, a pending one takes the active one's
// place, and one that was superseded tells the owner that somebody still holds it (security.node.superseded-certificate-used, once an hour at
// most). The caller has seen the client prove its key: the TLS handshake is over.
//
// Codes: UNAUTHENTICATED with the refusal in details.reason, UNAVAILABLE.
func (s *Store) Admit(ctx context.Context, leaf *x509.Certificate) (Verdict, error) {
	v, refusal, err := s.judge(ctx, s.DB.Pool(), leaf)
	if err != nil {
		return Verdict{}, err
	}
	if refusal == RefusedSuperseded && !v.told {
		if err := s.tellSuperseded(ctx, v); err != nil {
			return Verdict{}, err
		}
	}
	if refusal != "" {
		return Verdict{}, refusal.err()
	}
	if !v.FirstUse {
		return v, nil
	}
	_, err = s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		locked, err := node.LockTx(ctx, tx, v.NodeID) // revoking and renewing hold it too, so the second look is the last word
		if err != nil {
			return err
		}
		if len(locked) == 0 {
			return RefusedDeleted.err()
		}
		if v, refusal, err = s.judge(ctx, tx, leaf); err != nil {
			return err
		}
		if refusal != "" {
			return refusal.err()
		}
		return firstUse(ctx, tx, v)
	})
	if err != nil {
		return Verdict{}, err
	}
	return v, nil
}

// firstUse notes that a certificate is in use; a pending one becomes the active one. The node is locked.
func firstUse(ctx context.Context, tx *db.Tx, v Verdict) error {
	if err := tx.Locks(db.LockNodePart); err != nil {
		return err
	}
	if v.pending {
		_, err := tx.Exec(ctx, `
			update node_certs set state = 'SUPERSEDED', ended_at = clock_timestamp(), ended_by = $1, reason = 'renewed', chain = null
			where node_id = $1 and state = 'ACTIVE'`, v.NodeID)
		if err != nil {
			return fmt.Errorf("supersede the old certificate: %w", err)
		}
	}
	_, err := tx.Exec(ctx, `
		update node_certs set state = 'ACTIVE', first_used_at = coalesce(first_used_at, clock_timestamp()), chain = null
		where serial = $1 and state in ('PENDING', 'ACTIVE')`, v.Serial)
	if err != nil {
		return fmt.Errorf("note the first use of a certificate: %w", err)
	}
	return nil
}

func (s *Store) tellSuperseded(ctx context.Context, v Verdict) error {
	_, err := s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		tag, err := tx.Exec(ctx, `
			update node_certs set seen_again_at = clock_timestamp()
			where serial = $1 and (seen_again_at is null or seen_again_at < clock_timestamp() - interval '1 hour')`, v.Serial)
		if err != nil {
			return fmt.Errorf("note the use of a superseded certificate: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return events.Append(tx, events.Entry{
			Type: "security.node.superseded-certificate-used", TenantID: v.TenantID, NodeID: v.NodeID, Actor: iam.NodeActor(v.NodeID).Name,
			Data:     map[string]any{"serial": v.Serial, "generation": v.Generation},
			Audience: events.Audience{Full: []string{v.TenantID}},
		})
	})
	return err
}

// TellMismatch tells the owner of a certificate's node that a machine which holds it calls itself another node
// (security.node.identity-mismatch, once an hour at most): files were mixed up, or somebody tries what a certificate opens. claimed is what the machine
// says, and nothing of that node is looked at or touched.
func (s *Store) TellMismatch(ctx context.Context, v Verdict, claimed string) error {
	if id.Check(id.Node, "nodeId", claimed) != nil {
		claimed = "" // what is no node's id is not repeated
	}
	s.Log.WarnContext(ctx, "a Hello names another node than its certificate", "node", v.NodeID, "claimed", claimed, "serial", v.Serial)
	_, err := s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		tag, err := tx.Exec(ctx, `
			update node_certs set mismatch_seen_at = clock_timestamp()
			where serial = $1 and (mismatch_seen_at is null or mismatch_seen_at < clock_timestamp() - interval '1 hour')`, v.Serial)
		if err != nil {
			return fmt.Errorf("note that a machine calls itself another node: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return events.Append(tx, events.Entry{
			Type: "security.node.identity-mismatch", TenantID: v.TenantID, NodeID: v.NodeID, Actor: iam.NodeActor(v.NodeID).Name,
			Data:     map[string]any{"serial": v.Serial, "generation": v.Generation, "claimed": claimed},
			Audience: events.Audience{Full: []string{v.TenantID}},
		})
	})
	return err
}

func parseChain(text string) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read a recorded certificate: %w", err)
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, errors.New("read a recorded certificate: there is none")
	}
	return chain, nil
}
