package pki_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

// bundle is an installation with a tenant, a pool and an authority.
type bundle struct {
	db     *db.DB
	store  *pki.Store
	issuer *hooked
	pool   string
}

const tenant = "acme"

var operator = iam.System("alex")

// hooked is an issuer that lets a test do something between a join's look and its transaction.
type hooked struct {
	*pkitest.Issuer
	during atomic.Pointer[func()]
}

func (h *hooked) SignNode(ctx context.Context, csr *x509.CertificateRequest, p pki.NodeProfile) ([]*x509.Certificate, error) {
	if f := h.during.Load(); f != nil {
		(*f)()
	}
	return h.Issuer.SignNode(ctx, csr, p)
}

func setup(t testing.TB) *bundle {
	t.Helper()
	in := pkitest.NewInstallation(t)
	b := &bundle{db: in.DB, store: in.PKI, issuer: &hooked{Issuer: in.Issuer}, pool: in.Pool}
	b.store.Issuer = b.issuer
	b.exec(t, `insert into tenants (id) values ('other')`)
	return b
}

func (b *bundle) newPool(t testing.TB, name string) string {
	t.Helper()
	var pool node.Pool
	_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		var err error
		pool, err = node.CreatePoolTx(ctx, tx, tenant, name)
		return err
	})
	require.NoError(t, err)
	return pool.ID
}

func (b *bundle) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	_, err := b.db.Pool().Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// one reads one value.
func one[T any](t *testing.T, b *bundle, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func (b *bundle) token(t *testing.T) pki.JoinTokenCreated {
	t.Helper()
	return b.tokenFor(t, b.pool)
}

func (b *bundle) tokenFor(t *testing.T, pool string) pki.JoinTokenCreated {
	t.Helper()
	made, err := b.store.JoinTokenCreate(t.Context(), operator, pki.JoinTokenCreateInput{TenantID: tenant, PoolID: pool})
	require.NoError(t, err)
	return made
}

func (b *bundle) unused(t *testing.T, token pki.JoinTokenCreated) {
	t.Helper()
	require.True(t, one[bool](t, b, `select used_at is null and used_by is null from join_tokens where id = $1`, token.Token.ID), "the token must be unused")
}

// events gives the data of those of a type, when what follows refusals is written too.
func (b *bundle) events(t *testing.T, kind string) []map[string]any {
	t.Helper()
	b.store.Told(t.Context())
	rows, err := b.db.Pool().Query(t.Context(), `select data from events where type = $1 order by position`, kind)
	require.NoError(t, err)
	defer rows.Close()
	var out []map[string]any
	for rows.Next() {
		var raw json.RawMessage
		require.NoError(t, rows.Scan(&raw))
		var data map[string]any
		require.NoError(t, json.Unmarshal(raw, &data))
		out = append(out, data)
	}
	require.NoError(t, rows.Err())
	return out
}

// machine is one with an identity on its disk, a key, and the request for that key.
type machine struct {
	identity ed25519.PrivateKey
	key      *ecdsa.PrivateKey
	csr      []byte
	print    wire.JoinPrint
	exporter []byte // of its connection
}

func newMachine(t testing.TB, machineID string) *machine {
	t.Helper()
	_, identity, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	m := &machine{identity: identity, print: wire.JoinPrint{MachineID: machineID, BootID: "b1"}}
	m.connect(t)
	m.newKey(t)
	return m
}

// newKey is what a machine does that lost its credential.
func (m *machine) newKey(t testing.TB) {
	t.Helper()
	m.key, m.csr = pkitest.CSR(t)
}

func (m *machine) connect(t testing.TB) {
	t.Helper()
	m.exporter = make([]byte, wire.ExporterSize)
	_, err := rand.Read(m.exporter)
	require.NoError(t, err)
}

func (m *machine) public() []byte { return m.identity.Public().(ed25519.PublicKey) }

func (m *machine) request(secret string) wire.JoinRequest {
	r := wire.JoinRequest{
		Token: secret, CSR: m.csr, IdentityKey: m.public(), Print: m.print, Hostname: "host-" + m.print.MachineID, AgentVersion: "0.1.0",
	}
	if token, err := wire.ParseToken(secret); err == nil {
		r.Proof = ed25519.Sign(m.identity, wire.JoinProof(m.exporter, m.csr, token.ID()))
	} else {
		r.Proof = make([]byte, ed25519.SignatureSize)
	}
	return r
}

func (b *bundle) join(t *testing.T, m *machine, secret string) (wire.JoinAnswer, error) {
	t.Helper()
	return b.store.Join(t.Context(), m.request(secret), m.exporter)
}

func (b *bundle) joined(t *testing.T, m *machine) wire.JoinAnswer {
	t.Helper()
	a, err := b.join(t, m, b.token(t).Secret)
	require.NoError(t, err)
	return a
}

func leafOf(t *testing.T, chain string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(chain))
	require.NotNil(t, block)
	c, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return c
}

// refused says that an error is the one answer to every token that does not count.
func refused(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, fault.Unauthenticated, fault.CodeOf(err), "%v", err)
	require.Equal(t, "join token refused: it is unknown, used, expired or revoked, or not good for this machine; ask for a new one", fault.From(err).Message)
	require.Empty(t, fault.From(err).Details)
}

func reason(t *testing.T, err error, want pki.Refusal) {
	t.Helper()
	require.Equal(t, fault.Unauthenticated, fault.CodeOf(err), "%v", err)
	require.Equal(t, want, pki.RefusalOf(err))
}

// sameAnswer holds two answers to one join against one another: they differ in their time alone, which is the database's when it answered.
func sameAnswer(t *testing.T, a, b wire.JoinAnswer) {
	t.Helper()
	require.WithinDuration(t, a.Time, b.Time, time.Minute)
	b.Time = a.Time
	require.Equal(t, a, b)
}
