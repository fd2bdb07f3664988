package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

var (
	generationOID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 59999, 1, 1}
	sanOID        = asn1.ObjectIdentifier{2, 5, 29, 17}
)

// handMade signs a leaf as it is, past all profiles, as a stolen key or a defect could.
func handMade(t testing.TB, ca *pki.CA, leaf *x509.Certificate) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf.SerialNumber = big.NewInt(77)
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca.Intermediate, &key.PublicKey, ca.Signer)
	require.NoError(t, err)
	c, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return c
}

func names(t testing.TB, uris ...string) []byte {
	t.Helper()
	var all []asn1.RawValue
	for _, u := range uris {
		all = append(all, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(u)})
	}
	der, err := asn1.Marshal(all)
	require.NoError(t, err)
	return der
}

func TestNodeFromCertificate(t *testing.T) {
	t.Parallel()
	ca := pkitest.NewCA(t)
	node := id.New(id.Node)
	profile := func() *x509.Certificate {
		leaf, err := pki.NodeLeaf(ca.TrustDomain, pki.NodeProfile{NodeID: node, Generation: 1 << 53}, time.Now(), ca.Intermediate)
		require.NoError(t, err)
		return leaf
	}

	t.Run("what we sign is read back", func(t *testing.T) {
		t.Parallel()
		got, generation, err := pki.NodeFromCertificate(ca.TrustDomain, handMade(t, ca, profile()))
		require.NoError(t, err)
		require.Equal(t, node, got)
		require.Equal(t, int64(1<<53), generation)
	})
	t.Run("so it is in domains whose names take longer lengths", func(t *testing.T) {
		t.Parallel()
		for _, labels := range []int{2, 3, 5} {
			domain := strings.Repeat(strings.Repeat("a", 50)+".", labels) + "internal"
			leaf, err := pki.NodeLeaf(domain, pki.NodeProfile{NodeID: node, Generation: 1}, time.Now(), ca.Intermediate)
			require.NoError(t, err)
			got, _, err := pki.NodeFromCertificate(domain, handMade(t, ca, leaf))
			require.NoError(t, err)
			require.Equal(t, node, got)
		}
	})
	t.Run("everything else is refused", func(t *testing.T) {
		t.Parallel()
		uri := pki.NodeURI(ca.TrustDomain, node)
		san := func(c *x509.Certificate, value []byte) {
			c.URIs = nil
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: sanOID, Critical: true, Value: value})
		}
		generation := func(c *x509.Certificate, value ...byte) {
			c.ExtraExtensions = []pkix.Extension{{Id: generationOID, Value: value}}
		}
		for name, change := range map[string]func(c *x509.Certificate){
			"no name":                 func(c *x509.Certificate) { c.URIs = nil },
			"two names":               func(c *x509.Certificate) { san(c, names(t, uri, uri)) },
			"another domain":          func(c *x509.Certificate) { san(c, names(t, pki.NodeURI("bc-0.internal", node))) },
			"a subdomain":             func(c *x509.Certificate) { san(c, names(t, pki.NodeURI("a."+ca.TrustDomain, node))) },
			"another scheme":          func(c *x509.Certificate) { san(c, names(t, strings.Replace(uri, "spiffe", "https", 1))) },
			"upper case":              func(c *x509.Certificate) { san(c, names(t, strings.ToUpper(uri))) },
			"a port":                  func(c *x509.Certificate) { san(c, names(t, strings.Replace(uri, "/node/", ":1/node/", 1))) },
			"a query":                 func(c *x509.Certificate) { san(c, names(t, uri+"?a")) },
			"an empty fragment":       func(c *x509.Certificate) { san(c, names(t, uri+"#")) },
			"a longer path":           func(c *x509.Certificate) { san(c, names(t, uri+"/")) },
			"an escaped path":         func(c *x509.Certificate) { san(c, names(t, strings.Replace(uri, "node_", "node%5F", 1))) },
			"no node":                 func(c *x509.Certificate) { san(c, names(t, pki.NodeURI(ca.TrustDomain, id.New(id.Pool)))) },
			"bytes behind the number": func(c *x509.Certificate) { generation(c, 2, 1, 1, 0) },
			"a number not minimal":    func(c *x509.Certificate) { generation(c, 2, 2, 0, 1) },
			"negative":                func(c *x509.Certificate) { generation(c, 2, 1, 0xff) },
			"zero":                    func(c *x509.Certificate) { generation(c, 2, 1, 0) },
			"over 2^53":               func(c *x509.Certificate) { generation(c, 2, 7, 0x20, 0, 0, 0, 0, 0, 1) },
			"no number":               func(c *x509.Certificate) { generation(c, 4, 1, 1) },
			"nothing in it":           func(c *x509.Certificate) { generation(c) },
			"no generation":           func(c *x509.Certificate) { c.ExtraExtensions = nil },
			"a subject":               func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: node} },
			"an authority":            func(c *x509.Certificate) { c.IsCA = true },
			"a server":                func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
			"a DNS name beside it": func(c *x509.Certificate) {
				c.DNSNames = []string{"gateway." + ca.TrustDomain}
			},
			"a second URI": func(c *x509.Certificate) { c.URIs = append(c.URIs, &url.URL{Scheme: "spiffe", Host: ca.TrustDomain}) },
		} {
			leaf := profile()
			change(leaf)
			_, _, err := pki.NodeFromCertificate(ca.TrustDomain, handMade(t, ca, leaf))
			require.Error(t, err, name)
		}
		// A certificate with an extension twice does not get through the parser; the reader refuses it all the same.
		good := handMade(t, ca, profile())
		for _, e := range good.Extensions {
			if e.Id.Equal(generationOID) {
				good.Extensions = append(good.Extensions, e)
				break
			}
		}
		_, _, err := pki.NodeFromCertificate(ca.TrustDomain, good)
		require.ErrorContains(t, err, "exactly one")
		_, _, err = pki.NodeFromCertificate(ca.TrustDomain, nil)
		require.Error(t, err)
	})
}

func TestFingerprints(t *testing.T) {
	t.Parallel()
	// Each is the lower-case hex SHA-256 of what it says.
	ca := pkitest.NewCA(t)
	sum := sha256.Sum256(ca.Root.Raw)
	require.Equal(t, hex.EncodeToString(sum[:]), pki.Fingerprint(ca.Root))
	sum = sha256.Sum256(ca.Root.RawSubjectPublicKeyInfo)
	require.Equal(t, hex.EncodeToString(sum[:]), pki.KeyFingerprint(ca.Root))
	require.Equal(t, "ff", pki.SerialText(big.NewInt(255)))
}

func FuzzNodeFromCertificate(f *testing.F) {
	ca := pkitest.NewCA(f)
	node := id.New(id.Node)
	leaf, err := pki.NodeLeaf(ca.TrustDomain, pki.NodeProfile{NodeID: node, Generation: 9}, time.Now(), ca.Intermediate)
	require.NoError(f, err)
	good := handMade(f, ca, leaf)
	f.Add(names(f, pki.NodeURI(ca.TrustDomain, node)), []byte{2, 1, 9})
	f.Add(names(f, pki.NodeURI(ca.TrustDomain, node), "x"), []byte{2, 2, 0, 9})
	f.Add([]byte{0x30, 0}, []byte{2, 7, 0x20, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, san, generation []byte) {
		// Nothing makes the reader panic, and whatever it takes is, byte for byte, what we would have written.
		c := *good
		c.Extensions = []pkix.Extension{{Id: sanOID, Value: san}, {Id: generationOID, Value: generation}}
		got, g, err := pki.NodeFromCertificate(ca.TrustDomain, &c)
		if err != nil {
			return
		}
		require.NoError(t, id.Check(id.Node, "nodeId", got))
		require.Equal(t, names(t, pki.NodeURI(ca.TrustDomain, got)), san)
		require.True(t, g >= 1 && g <= 1<<53)
		want, err := asn1.Marshal(g)
		require.NoError(t, err)
		require.Equal(t, want, generation)
	})
}
