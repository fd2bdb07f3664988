package issuer

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

// server is a listener that hands each connection, after its handshake, to whoever asks.
type server struct {
	addr  string
	conns chan *tls.Conn
}

func serve(t *testing.T, ca *pki.CA, g *pki.GatewayCertificate) *server {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: g.GetCertificate, ClientCAs: ca.RootPool(), ClientAuth: tls.VerifyClientCertIfGiven,
		SessionTicketsDisabled: true,
	})
	require.NoError(t, err)
	s := &server{addr: l.Addr().String(), conns: make(chan *tls.Conn, 8)}
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if conn, ok := c.(*tls.Conn); ok && conn.HandshakeContext(t.Context()) == nil {
				s.conns <- conn
			}
		}
	}()
	return s
}

// connect dials as a machine does and gives both ends' views of the connection.
func (s *server) connect(t *testing.T, roots *x509.CertPool, domain string, cert *tls.Certificate) (client, gateway tls.ConnectionState) {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: pki.GatewayName(domain)}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	conn, err := tls.Dial("tcp", s.addr, config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	select {
	case end := <-s.conns:
		t.Cleanup(func() { _ = end.Close() })
		return conn.ConnectionState(), end.ConnectionState()
	case <-time.After(20 * time.Second):
		t.Fatal("the gateway did not take the connection")
		panic("unreachable")
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	// From an empty database and an empty directory: the authority is made, a machine joins over TLS by a token, comes back with its
	// certificate, renews it, and the old one stops counting when the new one is used.
	d := dbtest.New(t)
	dir := filepath.Join(t.TempDir(), "pki")
	ca, err := pki.OpenCA(t.Context(), d, dir, NewCA)
	require.NoError(t, err)
	signer, err := New(ca)
	require.NoError(t, err)
	authority, err := iam.NewAuthority(d)
	require.NoError(t, err)
	store := &pki.Store{
		DB: d, Authority: authority, Nodes: &node.Store{DB: d, Authority: authority}, Issuer: signer, Log: slog.New(slog.DiscardHandler),
	}
	g, err := pki.NewGatewayCertificate(t.Context(), signer, store.Log)
	require.NoError(t, err)
	s := serve(t, ca, g)
	var pool node.Pool
	_, err = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.Exec(ctx, `insert into tenants (id) values ('acme')`); err != nil {
			return err
		}
		pool, err = node.CreatePoolTx(ctx, tx, "acme", "default")
		return err
	})
	require.NoError(t, err)
	token, err := store.JoinTokenCreate(t.Context(), iam.System("alex"), pki.JoinTokenCreateInput{TenantID: "acme", PoolID: pool.ID})
	require.NoError(t, err)
	require.Equal(t, pki.Fingerprint(ca.Root), token.Trust.Fingerprint)

	public, identity, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	key, csr := pkitest.CSR(t)
	parsed, err := wire.ParseToken(token.Secret)
	require.NoError(t, err)
	mine, theirs := s.connect(t, ca.RootPool(), ca.TrustDomain, nil)
	mineValue, err := mine.ExportKeyingMaterial(wire.JoinExporterLabel, nil, wire.ExporterSize)
	require.NoError(t, err)
	theirValue, err := theirs.ExportKeyingMaterial(wire.JoinExporterLabel, nil, wire.ExporterSize)
	require.NoError(t, err)
	answer, err := store.Join(t.Context(), wire.JoinRequest{
		Token: token.Secret, CSR: csr, IdentityKey: public, Proof: ed25519.Sign(identity, wire.JoinProof(mineValue, csr, parsed.ID())),
		Hostname: "gpu1", AgentVersion: "0.1.0",
	}, theirValue)
	require.NoError(t, err)

	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(answer.Root)))
	admit := func(chain string, key *ecdsa.PrivateKey) (pki.Verdict, error) {
		pair := tls.Certificate{PrivateKey: key}
		for rest := []byte(chain); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			pair.Certificate = append(pair.Certificate, block.Bytes)
		}
		_, theirs := s.connect(t, roots, answer.TrustDomain, &pair)
		require.NotEmpty(t, theirs.VerifiedChains)
		return store.Admit(t.Context(), theirs.VerifiedChains[0][0])
	}
	v, err := admit(answer.Certificate, key)
	require.NoError(t, err)
	require.Equal(t, answer.NodeID, v.NodeID)
	require.Equal(t, answer.Serial, v.Serial)

	newKey, csr := pkitest.CSR(t)
	renewed, err := store.Renew(t.Context(), v, csr)
	require.NoError(t, err)
	v, err = admit(renewed.Chain, newKey)
	require.NoError(t, err)
	require.Equal(t, renewed.Serial, v.Serial)
	_, err = admit(answer.Certificate, key)
	require.Equal(t, pki.RefusedSuperseded, pki.RefusalOf(err))
}
