package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
)

// joiner is a machine that is ready to join: its keys and its request are made before anything is measured.
type joiner struct {
	token    wire.Token
	identity ed25519.PrivateKey
	key      *ecdsa.PrivateKey
	csr      []byte
	request  []byte // all of it, with a proof of zeros
	proof    int    // where in the request it stands
}

// prepare writes the request. Only the proof, which belongs to the connection, is not known yet.
func (j *joiner) prepare() error {
	public, ok := j.identity.Public().(ed25519.PublicKey)
	if !ok {
		return errors.New("no Ed25519 key")
	}
	body, err := json.Marshal(wire.JoinRequest{
		Token: j.token.Text(), CSR: j.csr, IdentityKey: public, Proof: make([]byte, ed25519.SignatureSize),
		Print: wire.JoinPrint{MachineID: j.token.ID(), BootID: "boot"}, Hostname: "bench", AgentVersion: "bench", Clock: time.Now(),
	})
	if err != nil {
		return err
	}
	j.request = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", wire.JoinPath, len(body), body)
	const before = `"proof":"`
	j.proof = bytes.Index(j.request, []byte(before)) + len(before)
	return nil
}

// joiners makes machines, with a token for each.
func (r *rig) joiners(ctx context.Context, n int) ([]joiner, error) {
	made := make([]joiner, n)
	ids, hashes := make([]string, n), make([][]byte, n)
	for i := range made {
		j := &made[i]
		var err error
		if j.token, err = wire.NewToken(id.New(id.JoinToken)); err != nil {
			return nil, err
		}
		hash := j.token.SecretHash()
		ids[i], hashes[i] = j.token.ID(), hash[:]
		if _, j.identity, err = ed25519.GenerateKey(rand.Reader); err != nil {
			return nil, err
		}
		if j.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
		if j.csr, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, j.key); err != nil {
			return nil, err
		}
		if err := j.prepare(); err != nil {
			return nil, err
		}
	}
	_, err := r.pool.Exec(ctx, `
		insert into join_tokens (id, tenant_id, pool_id, secret_hash, created_by, created_at, expires_at)
		select x.id, $1, (select id from pools where tenant_id = $1 limit 1), x.hash, 'bench', now(), now() + interval '1 day'
		from unnest($2::text[], $3::bytea[]) as x (id, hash)`, tenant, ids, hashes)
	return made, err
}

// door is how machines reach the gateway.
type door struct {
	address string
	roots   *x509.CertPool
	name    string
	leaf    atomic.Pointer[x509.Certificate] // the gateway's, once it was checked
}

func (r *rig) door(ctx context.Context) (*door, error) {
	text, err := os.ReadFile(filepath.Join(r.data(), "pki", "root.crt"))
	if err != nil {
		return nil, err
	}
	d := &door{address: r.gateway, roots: x509.NewCertPool()}
	if !d.roots.AppendCertsFromPEM(text) {
		return nil, errors.New("root.crt holds no certificate")
	}
	var domain string
	err = r.pool.QueryRow(ctx, `select trust_domain from cas where retired_at is null`).Scan(&domain)
	d.name = wire.GatewayName(domain)
	return d, err
}

// dial connects and shakes hands. A context that can end would cost a goroutine for each of the two.
func (d *door) dial(ctx context.Context, certificates ...tls.Certificate) (*tls.Conn, error) {
	ctx = context.WithoutCancel(ctx)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", d.address)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: d.name, Certificates: certificates,
		InsecureSkipVerify: true, VerifyConnection: d.verify, //nolint:gosec // verify does it
	})
	return secured, secured.HandshakeContext(ctx)
}

// verify checks the gateway's certificate at its first sight. What the machines of a fleet do on CPUs of their own must not be the measure of one gateway
// that shares a CPU with all of them here.
func (d *door) verify(state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0]
	if known := d.leaf.Load(); known != nil && known.Equal(leaf) {
		return nil
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: d.roots, Intermediates: between, DNSName: d.name})
	if err == nil {
		d.leaf.Store(leaf)
	}
	return err
}

// oneConnection gives a client that uses this connection.
func oneConnection(conn net.Conn) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }, DisableKeepAlives: true, DisableCompression: true,
	}}
}

// join is a machine's whole join: connection, proof, request, answer. It does itself only what the gateway can't be asked without, and does not say
// goodbye to a gateway that has done so: a machine has a CPU of its own, and what it does there, like reading the answer, must not be the measure of a
// gateway that shares a CPU with all of them here.
func (d *door) join(ctx context.Context, j joiner) (answer []byte, err error) {
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.NetConn().Close()
	state := conn.ConnectionState()
	exporter, err := state.ExportKeyingMaterial(wire.JoinExporterLabel, nil, wire.ExporterSize)
	if err != nil {
		return nil, err
	}
	base64.StdEncoding.Encode(j.request[j.proof:], ed25519.Sign(j.identity, wire.JoinProof(exporter, j.csr, j.token.ID())))
	if _, err := conn.Write(j.request); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte("BEGIN CERTIFICATE")):
		return nil, fmt.Errorf("join: %s: %s", resp.Status, answer)
	}
	return answer, nil
}

// certificate is the joined machine's, for its sessions.
func (j joiner) certificate(text []byte) (tls.Certificate, error) {
	var answer wire.JoinAnswer
	c := tls.Certificate{PrivateKey: j.key}
	if err := json.Unmarshal(text, &answer); err != nil {
		return c, err
	}
	for block, rest := pem.Decode([]byte(answer.Certificate)); block != nil; block, rest = pem.Decode(rest) {
		c.Certificate = append(c.Certificate, block.Bytes)
	}
	return c, nil
}

// join measures how many machines a second join over n connections at once, each by a whole HTTPS request of its own. The floor is a loop that checks
// the request, signs, and writes the same rows with the clock's and the event's in one pipelined transaction. It shakes hands with nobody, has no proof
// to check, and reads nothing before it writes; both ends of the handshakes run on the machine that is measured.
func join(ctx context.Context, r *rig, s size) ([]Row, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the keys of all machines lie in this process, and to go through them again and again is nobody's work
	each := s.n * s.each
	machines, err := r.joiners(ctx, 2*each*(s.rounds+1))
	if err != nil {
		return nil, err
	}
	d, err := r.door(ctx)
	if err != nil {
		return nil, err
	}
	ca, err := newFloorCA()
	if err != nil {
		return nil, err
	}
	next := 0
	batch := func() []joiner {
		next += each
		return machines[next-each : next]
	}
	work := func(ctx context.Context) (round, error) {
		mine := batch()
		return together(s.n, s.each, func(ctx context.Context, c, i int) error {
			_, err := d.join(ctx, mine[c*s.each+i])
			return err
		})(ctx)
	}
	floor := func(ctx context.Context) (round, error) {
		mine := batch()
		return together(s.n, s.each, func(ctx context.Context, c, i int) error { return r.bareJoin(ctx, ca, mine[c*s.each+i]) })(ctx)
	}
	row, err := pairs(ctx, "join", s.rounds, perSecond, side{r.cpu, r.dbCPU, work}, side{ownCPU, r.dbCPU, floor})
	return []Row{row}, err
}

// floorCA signs as the gateway's authority does, without its checks.
type floorCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newFloorCA() (*floorCA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &floorCA{cert: cert, key: key}, err
}

func (ca *floorCA) sign(csrDER []byte, nodeID string) ([]byte, error) {
	csr, err := x509.ParseCertificateRequest(csrDER)
	if err != nil {
		return nil, err
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, NotBefore: time.Now(), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{{Scheme: "spiffe", Host: "bench", Path: "/node/" + nodeID}},
	}, ca.cert, csr.PublicKey, ca.key)
}

func (r *rig) bareJoin(ctx context.Context, ca *floorCA, j joiner) error {
	nodeID := id.New(id.Node)
	der, err := ca.sign(j.csr, nodeID)
	if err != nil {
		return err
	}
	public, ok := j.identity.Public().(ed25519.PublicKey)
	if !ok {
		return errors.New("no Ed25519 key")
	}
	hash, serial := j.token.SecretHash(), sha256.Sum256(der)
	fingerprint := wire.Fingerprint(public)
	// As many bytes as the product stores: the leaf with its intermediate, what the machine looks like, and what the event says.
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})...)
	seen := map[string]string{"machineId": j.token.ID(), "productUuid": "", "ekHash": "", "bootId": "boot"}
	data := map[string]any{
		"key": fingerprint, "generation": 1, "serial": hex.EncodeToString(serial[:16]), "joinTokenId": j.token.ID(), "hostname": "bench", "print": seen,
	}
	b := &pgx.Batch{} // a batch is one transaction
	b.Queue(`update join_tokens set used_at = clock_timestamp(), used_by = $2 where id = $1 and secret_hash = $3 and used_at is null`, j.token.ID(), nodeID, hash[:])
	b.Queue(`insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
		select $1, $2, $3, id, 'bench', 'ADOPTING', 'TRUSTED', 'bench' from pools where tenant_id = $3 limit 1`, nodeID, fingerprint, tenant)
	b.Queue(`insert into node_projection (tenant_id, node_id, relation) values ($1, $2, 'OWNER')`, tenant, nodeID)
	b.Queue(`insert into node_liveness (node_id, last_seen, gateway_id, session_number) values ($1, now(), '', 0)`, nodeID)
	b.Queue(`insert into identity_keys (node_id, fingerprint, public_key, state) values ($1, $2, $3, 'TRUSTED')`, nodeID, fingerprint, []byte(public))
	b.Queue(`insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, chain, token_id, issued_at, not_before, not_after, print)
		values ($1, $2, 'ACTIVE', 1, $3, $4, $5, $6, now(), now(), now() + interval '1 day', $7)`,
		hex.EncodeToString(serial[:16]), nodeID, fingerprint, serial[:], string(chain), j.token.ID(), seen)
	b.Queue(`
		with clock as (
		  update event_clock set position = position + 1, at = greatest(clock_timestamp(), at + interval '1 microsecond') returning position, at
		)
		insert into events (position, at, id, type, tenant_id, node_id, actor, data, full_for, reduced_for)
		select position, at, $3::text, 'node.joined', $2::text, $1::text, $1::text, $4::jsonb, array[$2::text], '{}' from clock`, nodeID, tenant, id.New(id.Event), data)
	return r.pool.SendBatch(ctx, b).Close()
}
