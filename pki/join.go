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
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/iam"
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
	hostnameRule = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?$`)
	printRule    = regexp.MustCompile(`^[A-Za-z0-9._:-]{0,128}$`)
	versionRule  = regexp.MustCompile(`^[A-Za-z0-9._+~:-]{0,64}$`)
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
	case !hostnameRule.MatchString(req.Hostname):
		return nil, fault.Invalid("hostname", "must be 1 to 253 letters, digits and . _ -", len(req.Hostname))
	case !versionRule.MatchString(req.AgentVersion):
		return nil, fault.Invalid("agentVersion", "must be at most 64 letters, digits and . _ + ~ : -", len(req.AgentVersion))
	}
	for name, part := range map[string]string{
		"machineId": req.Print.MachineID, "productUuid": req.Print.ProductUUID, "ekHash": req.Print.EKHash, "bootId": req.Print.BootID,
	} {
		if !printRule.MatchString(part) {
			return nil, fault.Invalid("print."+name, "must be at most 128 letters, digits and . _ : -", len(part))
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
	usedBy   *string
	ageOfUse *time.Duration
	open     bool // neither used, revoked nor expired, by the database's clock
}

// holder is the live node that an identity key belongs to.
type holder struct {
	nodeID     string
	keyState   string
	pool       string
	generation int64
	credential node.Credential
	deleted    bool
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
	made := cert{node: nodeID, generation: generation, chain: chain}
	_, err = s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error { return s.record(ctx, tx, j, h, &made) })
	if errors.Is(err, errLate) {
		if t, _, err = s.look(ctx, j); err != nil {
			return wire.JoinAnswer{}, err
		}
		return s.again(ctx, j, t)
	}
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	s.Log.InfoContext(ctx, "a machine joined", "node", nodeID, "again", h != nil, "token", j.token.ID(), "serial", made.serial())
	return s.answer(j, made.chain, nodeID, generation, made.issuedAt), nil
}

// look reads the token and who holds the identity, nil for nobody. A token that is unknown, or whose secret is another, is refused; the
// comparison takes the same time for both.
func (s *Store) look(ctx context.Context, j *joining) (tokenRow, *holder, error) {
	var t tokenRow
	var tokenTenant, tokenPool *string
	var open *bool
	var nodeID, keyState, pool *string
	var generation *int64
	var credential *node.Credential
	var deleted *bool
	err := s.DB.Pool().QueryRow(ctx, `
		select t.secret_hash, t.tenant_id, t.pool_id, t.used_by, clock_timestamp() - t.used_at,
		       t.used_at is null and t.revoked_at is null and t.expires_at > clock_timestamp(),
		       h.id, h.state, h.pool_id, h.identity_generation, h.credential, h.deleted
		from (select) as always
		left join join_tokens t on t.id = $1
		left join (select n.id, k.state, n.pool_id, n.identity_generation, n.credential, n.deleted_at is not null as deleted
		           from identity_keys k join nodes n on n.id = k.node_id where k.fingerprint = $2 and k.state <> 'FREED') h on true`,
		j.token.ID(), j.fingerprint).
		Scan(&t.hash, &tokenTenant, &tokenPool, &t.usedBy, &t.ageOfUse, &open, &nodeID, &keyState, &pool, &generation, &credential, &deleted)
	if err != nil {
		return tokenRow{}, nil, fmt.Errorf("read the join token: %w", err)
	}
	hash, stored := j.token.SecretHash(), make([]byte, sha256.Size)
	copy(stored, t.hash)
	if subtle.ConstantTimeCompare(hash[:], stored) != 1 || tokenTenant == nil {
		s.Log.InfoContext(ctx, "join refused: no such token, or another secret", "token", j.token.ID())
		return tokenRow{}, nil, errRefused()
	}
	t.tenant, t.pool, t.open = *tokenTenant, *tokenPool, *open
	if nodeID == nil {
		return t, nil, nil
	}
	return t, &holder{nodeID: *nodeID, keyState: *keyState, pool: *pool, generation: *generation, credential: *credential, deleted: *deleted}, nil
}

// mayAttach says whether the token's machine may be the node that its identity belongs to.
func (s *Store) mayAttach(ctx context.Context, j *joining, t tokenRow, h *holder) error {
	switch {
	case h == nil:
		return nil
	case h.keyState == "DISTRUSTED":
		return identityRefused("distrusted", "this machine's identity was revoked for ever; have it checked, then join with --reset --yes")
	case h.deleted:
		return identityRefused("deleted", "this machine's node was deleted; join with --reset --yes to come back as a new one")
	case h.credential == node.Quarantined:
		return identityRefused("quarantined", "two machines used this identity; an operator must say which one stays")
	case h.pool != t.pool:
		s.Log.InfoContext(ctx, "join refused: the token is for another pool than the machine's node", "token", j.token.ID(), "node", h.nodeID)
		return errRefused()
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

// errLate says that the token was claimed, revoked or expired between the look and the claim.
var errLate = errors.New("the token no longer counts")

// cert is a certificate that is about to be recorded, or was.
type cert struct {
	node       string
	generation int64
	chain      []*x509.Certificate
	issuedAt   time.Time
}

func (c cert) serial() string { return SerialText(c.chain[0].SerialNumber) }

// record is the join's one transaction: claim, node, key, certificate, event.
func (s *Store) record(ctx context.Context, tx *db.Tx, j *joining, h *holder, made *cert) error {
	if err := tx.Locks(db.LockJoinToken); err != nil {
		return err
	}
	hash := j.token.SecretHash()
	var tenant, pool string
	err := tx.QueryRow(ctx, `
		update join_tokens set used_at = clock_timestamp(), used_by = $2
		where id = $1 and secret_hash = $3 and used_at is null and revoked_at is null and expires_at > clock_timestamp()
		returning tenant_id, pool_id`, j.token.ID(), made.node, hash[:]).Scan(&tenant, &pool)
	if errors.Is(err, pgx.ErrNoRows) {
		return errLate
	}
	if err != nil {
		return fmt.Errorf("claim the join token: %w", err)
	}
	if h == nil {
		err = s.recordNew(ctx, tx, j, pool, made)
	} else {
		err = s.recordAgain(ctx, tx, j, h, pool, made)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "23505" || fault.CodeOf(err) == fault.Conflict {
		return errMoved // another join by the same identity came first; this one re-attaches what it made
	}
	return err
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

func (j *joining) data(made *cert) joinData {
	return joinData{
		Key: j.fingerprint, Generation: made.generation, Serial: made.serial(), JoinTokenID: j.token.ID(), Hostname: j.Hostname, Print: j.print,
	}
}

func (s *Store) recordNew(ctx context.Context, tx *db.Tx, j *joining, pool string, made *cert) error {
	n, err := node.CreateTx(ctx, tx, node.New{ID: made.node, Key: j.fingerprint, PoolID: pool, Hostname: j.Hostname, By: j.token.ID()})
	if err != nil {
		return err
	}
	if err := tx.Locks(db.LockNodePart); err != nil {
		return err
	}
	if err := j.recordCert(ctx, tx, made, true); err != nil {
		return err
	}
	return events.Append(tx, events.Entry{
		Type: "node.joined", TenantID: n.TenantID, NodeID: n.ID, Actor: iam.NodeActor(n.ID).Name, Data: j.data(made),
		Audience: events.Audience{Full: []string{n.TenantID}}, // its owner, to whom alone CreateTx has shown it
	})
}

func (s *Store) recordAgain(ctx context.Context, tx *db.Tx, j *joining, h *holder, pool string, made *cert) error {
	data := j.data(made)
	who := iam.NodeActor(h.nodeID)
	rejoin := node.Control{
		Name: "rejoin", Axes: node.AxisIdentity | node.AxisHostname,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			if n.PoolID != pool || int64(n.IdentityGeneration) != made.generation || n.Credential == node.Quarantined || n.Key != j.fingerprint {
				return nil, errMoved
			}
			n.Hostname = j.Hostname
			if n.Credential != node.Trusted {
				n.Credential, n.CredentialSince = node.Trusted, a.Now
			}
			return &node.Fact{Type: "node.rejoined", Data: &data}, nil
		},
		Follow: func(ctx context.Context, tx *db.Tx, n *node.Node) error {
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
			if data.PreviousPrint, err = lastPrint(ctx, tx, n.ID); err != nil {
				return err
			}
			if data.RevokedSerials, err = revokeLive(ctx, tx, n.ID, who.Name, "joined again"); err != nil {
				return err
			}
			return j.recordCert(ctx, tx, made, false)
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

// recordCert writes the certificate's row and, for a new node, its identity key's.
func (j *joining) recordCert(ctx context.Context, tx *db.Tx, made *cert, withKey bool) error {
	leaf := made.chain[0]
	err := tx.QueryRow(ctx, `
		with identity as (
		  insert into identity_keys (node_id, fingerprint, public_key, state) select $2, $11, $12, 'TRUSTED' where $13
		)
		insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, chain, print, token_id, issued_at, not_before, not_after)
		values ($1, $2, 'ACTIVE', $3, $4, $5, $6, $7, $8, clock_timestamp(), $9, $10) returning issued_at`,
		made.serial(), made.node, made.generation, KeyFingerprint(leaf), j.csrHash[:], string(ChainPEM(made.chain)), string(j.print), j.token.ID(),
		leaf.NotBefore, leaf.NotAfter, j.fingerprint, j.IdentityKey, withKey).Scan(&made.issuedAt)
	if err != nil {
		return fmt.Errorf("record the certificate: %w", err)
	}
	return nil
}

// again answers a join by a token that does not count any more: the same answer when it only got lost, else the one refusal. A second use by
// somebody else is the best sign of a stolen token that there is, so it is told to the owner, once a minute at most.
func (s *Store) again(ctx context.Context, j *joining, t tokenRow) (wire.JoinAnswer, error) {
	if t.usedBy == nil {
		s.Log.InfoContext(ctx, "join refused: the token is expired or revoked", "token", j.token.ID())
		return wire.JoinAnswer{}, errRefused()
	}
	if t.ageOfUse != nil && *t.ageOfUse < answerAgain {
		answer, err := s.lostAnswer(ctx, j)
		if err == nil || !errors.Is(err, pgx.ErrNoRows) {
			return answer, err
		}
	}
	s.Log.WarnContext(ctx, "join refused: the token was used before", "token", j.token.ID(), "usedBy", *t.usedBy, "key", j.fingerprint)
	if err := s.tellReuse(ctx, j, t); err != nil {
		return wire.JoinAnswer{}, err
	}
	return wire.JoinAnswer{}, errRefused()
}

// lostAnswer gives the answer of the join that used the token, if this is the same machine asking for the same and the certificate was never
// used; otherwise pgx.ErrNoRows.
func (s *Store) lostAnswer(ctx context.Context, j *joining) (wire.JoinAnswer, error) {
	var chain, nodeID string
	var generation int64
	var issuedAt time.Time
	err := s.DB.Pool().QueryRow(ctx, `
		select c.chain, c.node_id, c.generation, c.issued_at
		from node_certs c join nodes n on n.id = c.node_id join identity_keys k on k.node_id = n.id and k.state = 'TRUSTED'
		where c.token_id = $1 and c.state = 'ACTIVE' and c.first_used_at is null and c.chain is not null and c.key_fingerprint = $2
		  and k.fingerprint = $3 and n.deleted_at is null and n.credential = 'TRUSTED' and n.identity_generation = c.generation`,
		j.token.ID(), j.csrKey, j.fingerprint).Scan(&chain, &nodeID, &generation, &issuedAt)
	if err != nil {
		return wire.JoinAnswer{}, fmt.Errorf("look for the answer that was given: %w", err)
	}
	parsed, err := parseChain(chain)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	s.Log.InfoContext(ctx, "a join's answer is given again", "node", nodeID, "token", j.token.ID())
	return s.answer(j, parsed, nodeID, generation, issuedAt), nil
}

// reuseData is what security.join-token.reused says: both machines, as far as they are known.
type reuseData struct {
	JoinTokenID string          `json:"joinTokenId"`
	UsedBy      string          `json:"usedBy"`
	FirstKey    string          `json:"firstKey"`
	FirstPrint  json.RawMessage `json:"firstPrint"`
	Key         string          `json:"key"`
	Print       json.RawMessage `json:"print"`
	Hostname    string          `json:"hostname"`
}

func (s *Store) tellReuse(ctx context.Context, j *joining, t tokenRow) error {
	_, err := s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.Locks(db.LockJoinToken); err != nil {
			return err
		}
		data := reuseData{JoinTokenID: j.token.ID(), UsedBy: *t.usedBy, Key: j.fingerprint, Print: j.print, Hostname: j.Hostname}
		err := tx.QueryRow(ctx, `
			update join_tokens t set reuse_seen_at = clock_timestamp()
			from nodes n
			where t.id = $1 and n.id = t.used_by and (t.reuse_seen_at is null or t.reuse_seen_at < clock_timestamp() - interval '1 minute')
			returning n.key, coalesce((select print from node_certs c where c.token_id = t.id order by issued_at limit 1), '{}')`, j.token.ID()).
			Scan(&data.FirstKey, &data.FirstPrint)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // told within the last minute
		}
		if err != nil {
			return fmt.Errorf("note the second use of a join token: %w", err)
		}
		return events.Append(tx, events.Entry{
			Type: "security.join-token.reused", TenantID: t.tenant, NodeID: *t.usedBy, Actor: iam.System("join").Name, Data: data,
			Audience: events.Audience{Full: []string{t.tenant}},
		})
	})
	return err
}

func (s *Store) answer(j *joining, chain []*x509.Certificate, nodeID string, generation int64, at time.Time) wire.JoinAnswer {
	return wire.JoinAnswer{
		NodeID: nodeID, Key: j.fingerprint, Certificate: string(ChainPEM(chain)), Root: string(ChainPEM([]*x509.Certificate{s.Issuer.Root()})),
		Serial: SerialText(chain[0].SerialNumber), Generation: generation, NotBefore: chain[0].NotBefore, NotAfter: chain[0].NotAfter,
		TrustDomain: s.Issuer.TrustDomain(), Time: at,
	}
}
