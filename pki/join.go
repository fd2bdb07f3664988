package pki

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// Join lets a machine in by a single-use token. exporter is the TLS exporter value of the very connection that the request came over
// (wire.JoinExporterLabel), so that a proof can be neither replayed nor relayed.
//
// The body is checked before anything is claimed, and the certificate is signed before the transaction that claims the token, makes or
// re-attaches the node and records key, certificate and event; so a bad request, a CA that is away or a process that dies leaves the token
// unused, and a certificate that was not recorded is never handed out.
//
// An identity key that belongs to a live node of the token's pool re-attaches that node: its older certificates are revoked, and it is the same
// node with the same history (node.rejoined). An unknown key makes a new one (node.joined). A lost answer is given again, the same bytes, for ten
// minutes to the same token, CSR key and identity key, while the certificate was never used.
//
// Codes: INVALID_INPUT for a body that breaks a rule; UNAUTHENTICATED for a proof that does not fit, for an identity that may not come back
// (details.reason), and, always in the same words, for every token that does not count; UNAVAILABLE.
func (s *Store) Join(ctx context.Context, req wire.JoinRequest, exporter []byte) (wire.JoinAnswer, error) {
	j, err := s.readJoin(req, exporter)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	for range joinAttempts {
		answer, err := s.join(ctx, j)
		if !errors.Is(err, errMoved) {
			return answer, err
		}
	}
	return wire.JoinAnswer{}, fault.New(fault.Unavailable, nil, "the node changed again and again while it joined; try again")
}

// What was read before signing can have moved when the transaction looks again; then all of it is done anew, with a new certificate.
const joinAttempts = 4

var errMoved = errors.New("what the certificate was signed for has changed meanwhile")

// How long after its use a token gives the same answer again.
const answerAgain = 10 * time.Minute

// joining is a request that was read and found sound.
type joining struct {
	wire.JoinRequest
	token       wire.Token
	csr         *x509.CertificateRequest
	csrHash     [sha256.Size]byte
	csrKey      string // fingerprint of the key that asks for the certificate
	fingerprint string // of the identity key
	print       []byte // JSON
}

var (
	printRule   = regexp.MustCompile(`^[A-Za-z0-9._:-]{0,128}$`)
	versionRule = regexp.MustCompile(`^[A-Za-z0-9._+~:-]{0,64}$`)
)

func (s *Store) readJoin(req wire.JoinRequest, exporter []byte) (*joining, error) {
	token, err := wire.ParseToken(req.Token)
	if err != nil {
		return nil, errRefused() // a token cut short in copying is told nothing else than a wrong one
	}
	req.Token = "" // nothing below needs the secret's text
	csr, err := ParseCSR(req.CSR)
	if err != nil {
		return nil, err
	}
	switch {
	case len(req.IdentityKey) != ed25519.PublicKeySize || weakKey(req.IdentityKey):
		return nil, fault.Invalid("identityKey", "must be an Ed25519 public key of 32 bytes", len(req.IdentityKey))
	case len(req.Proof) != ed25519.SignatureSize:
		return nil, fault.Invalid("proof", "must be an Ed25519 signature of 64 bytes", len(req.Proof))
	case len(exporter) != wire.ExporterSize:
		return nil, fmt.Errorf("join: the exporter has %d bytes, not %d", len(exporter), wire.ExporterSize)
	case !node.HostnameRule.MatchString(req.Hostname):
		return nil, fault.Invalid("hostname", "must be 1 to 253 letters, digits and . _ -", len(req.Hostname))
	case !versionRule.MatchString(req.AgentVersion):
		return nil, fault.Invalid("agentVersion", "must be at most 64 letters, digits and . _ + ~ : -", len(req.AgentVersion))
	}
	for _, part := range [...]struct{ name, text string }{
		{"machineId", req.Print.MachineID}, {"productUuid", req.Print.ProductUUID}, {"ekHash", req.Print.EKHash}, {"bootId", req.Print.BootID},
	} {
		if !printRule.MatchString(part.text) {
			return nil, fault.Invalid("print."+part.name, "must be at most 128 letters, digits and . _ : -", len(part.text))
		}
	}
	if !ed25519.Verify(req.IdentityKey, wire.JoinProof(exporter, req.CSR, token.ID()), req.Proof) {
		return nil, identityRefused("proof", "the proof does not fit this connection and this request: "+
			"the machine must talk to the gateway directly, without anything in between that ends TLS")
	}
	printed, err := json.Marshal(req.Print)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	key := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	return &joining{
		JoinRequest: req, token: token, csr: csr, csrHash: sha256.Sum256(req.CSR), csrKey: hex.EncodeToString(key[:]),
		fingerprint: wire.Fingerprint(req.IdentityKey), print: printed,
	}, nil
}

// weakKey says that a key is one of the few points of small order, by which anybody can sign anything: a proof by it would prove nothing.
func weakKey(key []byte) bool {
	point := bytes.Clone(key)
	point[31] &= 0x7f // the sign of x
	for _, small := range smallOrder {
		if bytes.Equal(point, small) {
			return true
		}
	}
	return false
}

// The y coordinates of the points of small order, and those that are not reduced: 0, 1, the two of order 8, p-1, p, p+1.
var smallOrder = func() [][]byte {
	var out [][]byte
	for _, s := range []string{
		strings.Repeat("00", 32),
		"01" + strings.Repeat("00", 31),
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ec" + strings.Repeat("ff", 30) + "7f",
		"ed" + strings.Repeat("ff", 30) + "7f",
		"ee" + strings.Repeat("ff", 30) + "7f",
	} {
		b, err := hex.DecodeString(s)
		if err != nil {
			panic("pki: " + err.Error())
		}
		out = append(out, b)
	}
	return out
}()

// errRefused is the one answer to every token that does not count.
func errRefused() error {
	return fault.New(fault.Unauthenticated, nil,
		"join token refused: it is unknown, used, expired or revoked, or not good for this machine; ask for a new one")
}

// identityRefused refuses an identity, not a token; the token stays unused.
func identityRefused(reason, sentence string) error {
	return fault.New(fault.Unauthenticated, fault.Details{"reason": reason}, "join refused: %s", sentence)
}

// tokenRow is a token as a join looks at it.
type tokenRow struct {
	hash     []byte
	tenant   string
	pool     string
	labels   map[string]string // that a new node begins with
	node     *string           // the only node that it is for
	usedBy   *string
	ageOfUse *time.Duration
	revoked  bool
	open     bool // neither used, revoked nor expired, by the database's clock
}

// holder is the live node that an identity key belongs to.
type holder struct {
	nodeID     string
	keyState   string
	pool       string
	generation int64
	credential node.Credential
	since      time.Time // of the credential's state
	deleted    bool
	// outdated says that the token was made before the node's credential was revoked: it may be in the hands of whoever that was meant for.
	outdated bool
}

func (s *Store) join(ctx context.Context, j *joining) (wire.JoinAnswer, error) {
	t, h, err := s.look(ctx, j)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	if !t.open {
		return s.again(ctx, j, t)
	}
	if err := s.mayAttach(ctx, j, t, h); err != nil {
		return wire.JoinAnswer{}, err
	}
	nodeID, generation := id.New(id.Node), int64(1)
	if h != nil {
		nodeID, generation = h.nodeID, h.generation
	}
	chain, err := s.Issuer.SignNode(ctx, j.csr, NodeProfile{NodeID: nodeID, Generation: generation})
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	made := cert{node: nodeID, generation: generation, chain: chain, text: s.chainText(chain)}
	done, err := s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error { return s.record(ctx, tx, j, t, h, made) })
	switch {
	case unrecorded(err): // the token was claimed, revoked or expired since the look
		if t, _, err = s.look(ctx, j); err != nil {
			return wire.JoinAnswer{}, err
		}
		return s.again(ctx, j, t)
	case taken(err):
		return wire.JoinAnswer{}, errMoved // another join by the same identity came first; this one re-attaches what it made
	case err != nil:
		return wire.JoinAnswer{}, err
	}
	s.Log.InfoContext(ctx, "a machine joined", "node", nodeID, "again", h != nil, "token", j.token.ID(), "serial", made.serial())
	return s.answer(j, chain[0], made.text, nodeID, generation, done.At), nil
}

// look reads the token and who holds the identity, nil for nobody. A token that is unknown, or whose secret is another, is refused; the
// comparison takes the same time for both.
func (s *Store) look(ctx context.Context, j *joining) (tokenRow, *holder, error) {
	var t tokenRow
	var held bool
	err := s.DB.Pool().QueryRow(ctx, `
		select secret_hash, tenant_id, pool_id, labels, node_id, used_by, clock_timestamp() - used_at, revoked_at is not null,
		       used_at is null and revoked_at is null and expires_at > clock_timestamp(),
		       exists (select from identity_keys where fingerprint = $2 and state <> 'FREED')
		from join_tokens where id = $1`, j.token.ID(), j.fingerprint).
		Scan(&t.hash, &t.tenant, &t.pool, &t.labels, &t.node, &t.usedBy, &t.ageOfUse, &t.revoked, &t.open, &held)
	unknown := errors.Is(err, pgx.ErrNoRows)
	if err != nil && !unknown {
		return tokenRow{}, nil, fmt.Errorf("read the join token: %w", err)
	}
	hash, stored := j.token.SecretHash(), make([]byte, sha256.Size)
	copy(stored, t.hash)
	switch same := subtle.ConstantTimeCompare(hash[:], stored) == 1; {
	case unknown: // by everyone, so there is nobody to tell
		s.Log.InfoContext(ctx, "join refused: no such token", "token", j.token.ID(), "key", j.fingerprint)
		return tokenRow{}, nil, errRefused()
	case !same:
		return tokenRow{}, nil, s.refused(ctx, j, t, TokenWrongSecret)
	}
	if !held { // as by nearly every machine that joins, so the rest is not read with the token
		return t, nil, nil
	}
	var h holder
	err = s.DB.Pool().QueryRow(ctx, `
		select n.id, k.state, n.pool_id, n.identity_generation, n.credential, n.credential_since, n.deleted_at is not null,
		       n.credential = 'REVOKED' and n.credential_since >= t.created_at
		from identity_keys k join nodes n on n.id = k.node_id, join_tokens t
		where k.fingerprint = $2 and k.state <> 'FREED' and t.id = $1`, j.token.ID(), j.fingerprint).
		Scan(&h.nodeID, &h.keyState, &h.pool, &h.generation, &h.credential, &h.since, &h.deleted, &h.outdated)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, nil, nil // freed since
	}
	if err != nil {
		return tokenRow{}, nil, fmt.Errorf("read who holds an identity: %w", err)
	}
	return t, &h, nil
}

// mayAttach says whether the token's machine may be the node that its identity belongs to.
func (s *Store) mayAttach(ctx context.Context, j *joining, t tokenRow, h *holder) error {
	switch {
	case t.node != nil && (h == nil || h.nodeID != *t.node):
		return s.refused(ctx, j, t, TokenOtherNode)
	case h == nil:
		return nil
	case h.keyState == "DISTRUSTED":
		return identityRefused("distrusted", "this machine's identity was revoked for ever; have it checked, then join with --reset --yes")
	case h.deleted:
		return identityRefused("deleted", "this machine's node was deleted; join with --reset --yes to come back as a new one")
	case h.credential == node.Quarantined:
		return identityRefused("quarantined", "two machines used this identity; an operator must say which one stays")
	case h.pool != t.pool:
		return s.refused(ctx, j, t, TokenOtherPool)
	case h.outdated:
		return s.refused(ctx, j, t, TokenOutdated)
	}
	other, err := liveElsewhere(ctx, s.DB.Pool(), h.nodeID, j.Print)
	if err != nil {
		return err
	}
	if other {
		s.Log.WarnContext(ctx, "join refused: the identity is in use on another machine right now", "token", j.token.ID(), "node", h.nodeID)
		return identityRefused("duplicate", "this identity is in use on another machine right now; stop that one, or join with --reset --yes")
	}
	return nil
}

// liveElsewhere says whether the node has a session that lives, under another machine's print.
func liveElsewhere(ctx context.Context, q db.Querier, nodeID string, mine wire.JoinPrint) (bool, error) {
	var theirs wire.JoinPrint
	err := q.QueryRow(ctx, `
		select s.print from node_sessions s left join node_liveness l on l.node_id = s.node_id
		where s.node_id = $1 and s.disconnected_at is null
		  and greatest(s.connected_at, l.last_seen) > clock_timestamp() - interval '40 seconds'`, nodeID).Scan(&theirs)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a live session: %w", err)
	}
	return !SameMachine(mine, theirs), nil
}

// SameMachine compares two prints by the strongest part that both have: the TPM, then the board, then the installed system. Prints with nothing in
// common don't tell, and count as the same.
func SameMachine(a, b wire.JoinPrint) bool {
	for _, part := range [][2]string{{a.EKHash, b.EKHash}, {a.ProductUUID, b.ProductUUID}, {a.MachineID, b.MachineID}} {
		if part[0] != "" && part[1] != "" {
			return part[0] == part[1]
		}
	}
	return true
}

func (s *Store) answer(j *joining, leaf *x509.Certificate, chain, nodeID string, generation int64, at time.Time) wire.JoinAnswer {
	return wire.JoinAnswer{
		NodeID: nodeID, Key: j.fingerprint, Certificate: chain, Root: s.texts.of(s.Issuer.Root()),
		Serial: SerialText(leaf.SerialNumber), Generation: generation, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		TrustDomain: s.Issuer.TrustDomain(), Time: at,
	}
}
