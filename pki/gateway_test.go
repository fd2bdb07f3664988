package pki_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

// gateway listens with the certificate and, for each connection, says hello and answers with the client's verified chain, or none.
func gateway(t *testing.T, g *pki.GatewayCertificate, ca *pki.CA) (addr string, clients <-chan []*x509.Certificate) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion:             tls.VersionTLS13,
		GetCertificate:         g.GetCertificate,
		ClientCAs:              ca.RootPool(),
		ClientAuth:             tls.VerifyClientCertIfGiven,
		SessionTicketsDisabled: true,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	seen := make(chan []*x509.Certificate, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conn := c.(*tls.Conn)
			if conn.HandshakeContext(t.Context()) == nil {
				seen <- conn.ConnectionState().PeerCertificates
				_, _ = io.WriteString(conn, "hello")
			}
			_ = conn.Close()
		}
	}()
	return l.Addr().String(), seen
}

func read(conn net.Conn, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer conn.Close()
	all, err := io.ReadAll(conn)
	return string(all), err
}

func TestGatewayCertificate(t *testing.T) {
	t.Parallel()
	issuer := pkitest.NewIssuer(t)
	ca := issuer.CA
	g, err := pki.NewGatewayCertificate(t.Context(), issuer, slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	t.Run("a machine that knows only the root's fingerprint finds the root", func(t *testing.T) {
		t.Parallel()
		addr, _ := gateway(t, g, ca)
		_, err := read(tls.Dial("tcp", addr, &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "gateway.unknown"}))
		var failed *tls.CertificateVerificationError
		require.ErrorAs(t, err, &failed)
		require.Len(t, failed.UnverifiedCertificates, 3)
		root := failed.UnverifiedCertificates[2]
		require.Equal(t, pki.Fingerprint(ca.Root), pki.Fingerprint(root))

		pool := x509.NewCertPool()
		pool.AddCert(root)
		said, err := read(tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: pki.GatewayName(ca.TrustDomain)}))
		require.NoError(t, err)
		require.Equal(t, "hello", said)
		_, err = read(tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: "other." + ca.TrustDomain}))
		require.Error(t, err)
	})
	t.Run("I2 a node comes in, others do not", func(t *testing.T) {
		t.Parallel()
		addr, clients := gateway(t, g, ca)
		node := id.New(id.Node)
		dial := func(cert *tls.Certificate) (string, error) {
			return read(tls.Dial("tcp", addr, &tls.Config{
				RootCAs: ca.RootPool(), ServerName: pki.GatewayName(ca.TrustDomain),
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil },
			}))
		}
		said, err := dial(clientCertificate(t, issuer, node))
		require.NoError(t, err)
		require.Equal(t, "hello", said)
		got, generation, err := pki.NodeFromCertificate(ca.TrustDomain, (<-clients)[0])
		require.NoError(t, err)
		require.Equal(t, node, got)
		require.Equal(t, int64(1), generation)

		// No certificate is let in by TLS; the session path refuses it later, with a sentence.
		_, err = dial(&tls.Certificate{})
		require.NoError(t, err)
		require.Empty(t, <-clients)

		server, err := g.GetCertificate(nil)
		require.NoError(t, err)
		_, err = dial(server)
		require.ErrorContains(t, err, "bad certificate")
		_, err = dial(clientCertificate(t, pkitest.NewIssuer(t), node))
		require.Error(t, err)
	})
	t.Run("I3 a node's certificate is no gateway's", func(t *testing.T) {
		t.Parallel()
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*clientCertificate(t, issuer, id.New(id.Node))}})
		require.NoError(t, err)
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				_ = c.(*tls.Conn).HandshakeContext(t.Context())
				_ = c.Close()
			}
		}()
		_, err = read(tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: ca.RootPool(), ServerName: pki.GatewayName(ca.TrustDomain)}))
		var failed *tls.CertificateVerificationError
		require.ErrorAs(t, err, &failed)
	})
	t.Run("a renewal that fails leaves the present one", func(t *testing.T) {
		t.Parallel()
		mine := pkitest.NewIssuer(t)
		own, err := pki.NewGatewayCertificate(t.Context(), mine, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		first, err := own.GetCertificate(nil)
		require.NoError(t, err)
		down := errors.New("the authority is away")
		mine.Down.Store(&down)
		require.ErrorIs(t, own.Renew(t.Context()), down)
		still, err := own.GetCertificate(nil)
		require.NoError(t, err)
		require.Same(t, first, still)
		mine.Down.Store(nil)
		require.NoError(t, own.Renew(t.Context()))
		next, err := own.GetCertificate(nil)
		require.NoError(t, err)
		require.NotEqual(t, first.Leaf.SerialNumber, next.Leaf.SerialNumber)
		_, err = pki.NewGatewayCertificate(t.Context(), failing{mine}, slog.New(slog.DiscardHandler))
		require.Error(t, err)
	})
	t.Run("it renews by itself, again and again", func(t *testing.T) {
		t.Parallel()
		mine := pkitest.NewIssuer(t)
		own, err := pki.NewShortGatewayCertificate(t.Context(), mine, time.Second)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- own.Run(ctx) }()
		require.Eventually(t, func() bool { return mine.Signed.Load() >= 3 }, 20*time.Second, 20*time.Millisecond)
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// failing is an issuer that never signs for a gateway.
type failing struct{ *pkitest.Issuer }

func (failing) SignGateway(context.Context, *x509.CertificateRequest, pki.GatewayProfile) ([]*x509.Certificate, error) {
	return nil, errors.New("no")
}

func clientCertificate(t *testing.T, issuer *pkitest.Issuer, node string) *tls.Certificate {
	t.Helper()
	k, der := pkitest.CSR(t)
	csr, err := pki.ParseCSR(der)
	require.NoError(t, err)
	chain, err := issuer.SignNode(t.Context(), csr, pki.NodeProfile{NodeID: node, Generation: 1})
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{chain[0].Raw, chain[1].Raw}, PrivateKey: k, Leaf: chain[0]}
}
