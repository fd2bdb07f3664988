package issuer

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"log"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

func newTestIssuer(t *testing.T) (*Issuer, *pki.CA) {
	t.Helper()
	ca, err := NewCA(t.Context(), pki.NewTrustDomain())
	require.NoError(t, err)
	i, err := New(ca)
	require.NoError(t, err)
	return i, ca
}

func request(t *testing.T) *x509.CertificateRequest {
	t.Helper()
	_, der := pkitest.CSR(t)
	csr, err := pki.ParseCSR(der)
	require.NoError(t, err)
	return csr
}

func verify(ca *pki.CA, chain []*x509.Certificate, usage x509.ExtKeyUsage) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: ca.RootPool(), Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestSignNode(t *testing.T) {
	t.Parallel()
	// A node's certificate says the node, the generation and a day, is good for a client and for nothing else.
	i, ca := newTestIssuer(t)
	node := id.New(id.Node)
	csr := request(t)
	before := time.Now()
	chain, err := i.SignNode(t.Context(), csr, pki.NodeProfile{NodeID: node, Generation: 7})
	require.NoError(t, err)
	require.Len(t, chain, 2)
	require.True(t, chain[1].Equal(ca.Intermediate))
	leaf := chain[0]

	got, generation, err := pki.NodeFromCertificate(ca.TrustDomain, leaf)
	require.NoError(t, err)
	require.Equal(t, node, got)
	require.Equal(t, int64(7), generation)
	require.Equal(t, csr.PublicKey, leaf.PublicKey)
	point, err := csr.PublicKey.(*ecdsa.PublicKey).Bytes()
	require.NoError(t, err)
	sum := sha256.Sum256(point)
	require.Equal(t, sum[:20], leaf.SubjectKeyId)
	require.Empty(t, leaf.Subject.String())
	require.False(t, leaf.IsCA)
	require.Len(t, leaf.Extensions, 7, "key usage, extended usage, basic constraints, two key ids, the name, the generation")
	require.WithinDuration(t, before.Add(pki.NodeLifetime), leaf.NotAfter, 2*time.Second)
	require.NoError(t, verify(ca, chain, x509.ExtKeyUsageClientAuth))
	require.Error(t, verify(ca, chain, x509.ExtKeyUsageServerAuth))

	again, err := i.SignNode(t.Context(), csr, pki.NodeProfile{NodeID: node, Generation: 7})
	require.NoError(t, err)
	require.NotEqual(t, leaf.SerialNumber, again[0].SerialNumber)
}

func TestSignGateway(t *testing.T) {
	t.Parallel()
	// A gateway's certificate has the one name of all gateways and is good for a server and for nothing else.
	i, ca := newTestIssuer(t)
	chain, err := i.SignGateway(t.Context(), request(t), pki.GatewayProfile{})
	require.NoError(t, err)
	require.Equal(t, []string{"gateway." + ca.TrustDomain}, chain[0].DNSNames)
	require.NoError(t, verify(ca, chain, x509.ExtKeyUsageServerAuth))
	require.Error(t, verify(ca, chain, x509.ExtKeyUsageClientAuth))
	_, _, err = pki.NodeFromCertificate(ca.TrustDomain, chain[0])
	require.Error(t, err)
}

func TestProfilesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	// A node id, a generation or a lifetime outside its rule is refused before anything is signed.
	i, _ := newTestIssuer(t)
	node := id.New(id.Node)
	for _, p := range []pki.NodeProfile{
		{NodeID: "", Generation: 1},
		{NodeID: "node_{{.}}", Generation: 1},
		{NodeID: id.New(id.Pool), Generation: 1},
		{NodeID: node + "/x", Generation: 1},
		{NodeID: node, Generation: 0},
		{NodeID: node, Generation: -1},
		{NodeID: node, Generation: 1<<53 + 1},
		{NodeID: node, Generation: 1, Lifetime: -time.Hour},
		{NodeID: node, Generation: 1, Lifetime: 25 * time.Hour},
	} {
		_, err := i.SignNode(t.Context(), request(t), p)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err), "%+v", p)
	}
	_, err := i.SignGateway(t.Context(), request(t), pki.GatewayProfile{Lifetime: 8 * 24 * time.Hour})
	require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
}

type watched struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func TestLibraryIsQuiet(t *testing.T) {
	t.Parallel()
	// P16: the library starts and signs without a word on the process's standard log.
	var w watched
	old := log.Writer()
	log.SetOutput(&w)
	t.Cleanup(func() { log.SetOutput(old) })
	i, _ := newTestIssuer(t)
	_, err := i.SignNode(t.Context(), request(t), pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
	require.NoError(t, err)
	require.Empty(t, w.String())
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	// D3: a weak or foreign kind of key, a broken signature, anything beside the key: refused by the issuer itself, with the rule.
	i, _ := newTestIssuer(t)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for name, key := range map[string]crypto.Signer{"P-384": p384, "RSA": weak, "Ed25519": ed} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		require.NoError(t, err)
		csr, err := x509.ParseCertificateRequest(der)
		require.NoError(t, err)
		_, err = i.SignNode(t.Context(), csr, pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err), name)
	}
	broken := *request(t)
	broken.Signature = bytes.Clone(broken.Signature)
	broken.Signature[len(broken.Signature)-1] ^= 1
	_, err = i.SignNode(t.Context(), &broken, pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
	require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	_, err = i.SignNode(t.Context(), nil, pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
	require.Equal(t, fault.InvalidInput, fault.CodeOf(err))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = i.SignNode(ended, request(t), pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
	require.ErrorIs(t, err, context.Canceled)
}

func TestSwapWhileSigning(t *testing.T) {
	t.Parallel()
	// While intermediates are swapped, each chain is wholly one or wholly the other, and every one verifies.
	i, ca := newTestIssuer(t)
	next, err := Renew(t.Context(), ca.TrustDomain, ca.Root, ca.RootKey)
	require.NoError(t, err)
	var wg sync.WaitGroup
	errs := make(chan error, 400)
	for range 4 {
		csr := request(t)
		wg.Go(func() {
			for range 50 {
				chain, err := i.SignNode(t.Context(), csr, pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
				if err == nil {
					err = chain[0].CheckSignatureFrom(chain[1])
				}
				errs <- err
			}
		})
	}
	for n := range 50 {
		require.NoError(t, i.Swap([]*pki.CA{next, ca}[n%2]))
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func TestCAOnDisk(t *testing.T) {
	t.Parallel()
	// What was made is read back and signs; a new intermediate made from the root key on disk takes its place.
	ca, err := NewCA(t.Context(), pki.NewTrustDomain())
	require.NoError(t, err)
	require.Len(t, pki.Fingerprint(ca.Root), 64)
	dir := t.TempDir() + "/pki"
	require.NoError(t, pki.WriteCA(dir, ca))
	read, err := pki.ReadCA(dir, time.Now())
	require.NoError(t, err)
	i, err := New(read)
	require.NoError(t, err)

	root, key, err := pki.ReadRootKey(dir)
	require.NoError(t, err)
	next, err := Renew(t.Context(), read.TrustDomain, root, key)
	require.NoError(t, err)
	require.NoError(t, pki.WriteIntermediate(dir, next))
	read, err = pki.ReadCA(dir, time.Now())
	require.NoError(t, err)
	require.True(t, read.Intermediate.Equal(next.Intermediate))
	require.NoError(t, i.Swap(read))
}
