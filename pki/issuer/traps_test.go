package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net"
	"net/url"
	"reflect"
	"testing"
	"time"

	casapi "github.com/smallstep/certificates/cas/apiv1"
	"github.com/smallstep/certificates/cas/softcas"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/pki"
)

// evil is a request that asks for everything it should not get.
func evil(t *testing.T) *x509.CertificateRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	constraints, err := asn1.Marshal(struct {
		CA bool
	}{true})
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:         pkix.Name{Organization: []string{"system:masters"}, CommonName: "admin"},
		DNSNames:        []string{"gateway.example.com"},
		IPAddresses:     []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: constraints}},
	}, key)
	require.NoError(t, err)
	csr, err := x509.ParseCertificateRequest(der)
	require.NoError(t, err)
	return csr
}

func TestTraps(t *testing.T) {
	t.Parallel()
	i, ca := newTestIssuer(t)
	s := i.current.Load()
	good, err := pki.NodeLeaf(ca.TrustDomain, pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1}, time.Now(), ca.Intermediate)
	require.NoError(t, err)
	// with signs past our policy, with a leaf that change has spoiled.
	with := func(csr *x509.CertificateRequest, change func(c *x509.Certificate)) (*x509.Certificate, error) {
		leaf := *good
		change(&leaf)
		return s.create(csr.PublicKey, leaf)
	}

	t.Run("P1 a request is never copied", func(t *testing.T) {
		t.Parallel()
		// The policy refuses it; past the policy the library never sees it, and of it only the key is in the certificate.
		_, err := i.SignNode(t.Context(), evil(t), pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
		require.ErrorContains(t, err, "empty subject")

		leaf, err := with(evil(t), func(*x509.Certificate) {})
		require.NoError(t, err)
		require.False(t, leaf.IsCA)
		require.Empty(t, leaf.Subject.String())
		require.Empty(t, leaf.DNSNames)
		require.Empty(t, leaf.IPAddresses)
		require.Len(t, leaf.URIs, 1)

		var asked *casapi.CreateCertificateRequest
		heard := &signer{ca: ca, authority: library(func(r *casapi.CreateCertificateRequest) (*casapi.CreateCertificateResponse, error) {
			asked = r
			return s.authority.CreateCertificate(r)
		})}
		_, err = heard.sign(t.Context(), request(t), good)
		require.NoError(t, err)
		require.Nil(t, asked.CSR)
		require.Nil(t, asked.Provisioner)
	})
	t.Run("P2 a certificate without times is refused, not issued expired", func(t *testing.T) {
		t.Parallel()
		_, err := with(request(t), func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Time{}, time.Time{} })
		require.ErrorContains(t, err, "end after it begins")
		_, err = with(request(t), func(c *x509.Certificate) { c.NotAfter = c.NotBefore })
		require.ErrorContains(t, err, "end after it begins")
	})
	t.Run("P3 no leaf outlives its issuer", func(t *testing.T) {
		t.Parallel()
		_, err := with(request(t), func(c *x509.Certificate) { c.NotAfter = ca.Intermediate.NotAfter.Add(time.Second) })
		require.ErrorContains(t, err, "outlive")
		_, err = with(request(t), func(c *x509.Certificate) { c.NotBefore = ca.Intermediate.NotBefore.Add(-time.Second) })
		require.ErrorContains(t, err, "outlive")

		// Near its end an issuer signs for what is left; past its end, nothing.
		late := ca.Intermediate.NotAfter.Add(-time.Hour)
		at := late
		old, err := newAt(ca, func() time.Time { return at })
		require.NoError(t, err)
		chain, err := old.SignNode(t.Context(), request(t), pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
		require.NoError(t, err)
		require.Equal(t, ca.Intermediate.NotAfter, chain[0].NotAfter)
		at = ca.Intermediate.NotAfter.Add(time.Second)
		_, err = old.SignNode(t.Context(), request(t), pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		_, err = old.SignGateway(t.Context(), request(t), pki.GatewayProfile{})
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		_, err = newAt(ca, func() time.Time { return at })
		require.ErrorContains(t, err, "make a new one")
	})
	t.Run("P4 P5 P8 P10 nothing of the library but signing can be called", func(t *testing.T) {
		t.Parallel()
		// Its renewing would carry an old generation forward, its revoking and its tokens know nothing of our rows.
		kind := reflect.TypeFor[signing]()
		require.Equal(t, 1, kind.NumMethod())
		require.Equal(t, "CreateCertificate", kind.Method(0).Name)
	})
	t.Run("P6 P7 P9 P11 P12 the library stores nothing", func(t *testing.T) {
		t.Parallel()
		// What signs has two fields, the chain and the key; the parts of the library that store are kept out by the linter's list of imports.
		require.Equal(t, &softcas.SoftCAS{CertificateChain: []*x509.Certificate{ca.Intermediate}, Signer: ca.Signer}, s.authority)
	})
	t.Run("P13 an intermediate is swapped together with its constraints", func(t *testing.T) {
		t.Parallel()
		mine, own := newTestIssuer(t)
		next, err := Renew(t.Context(), own.TrustDomain, own.Root, own.RootKey)
		require.NoError(t, err)
		require.Nil(t, next.RootKey)
		before, err := mine.SignNode(t.Context(), request(t), pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
		require.NoError(t, err)
		require.NoError(t, mine.Swap(next))
		after, err := mine.SignNode(t.Context(), request(t), pki.NodeProfile{NodeID: id.New(id.Node), Generation: 1})
		require.NoError(t, err)
		require.True(t, after[1].Equal(next.Intermediate))
		require.NoError(t, verify(own, before, x509.ExtKeyUsageClientAuth), "what the old one signed stays good")
		require.NoError(t, verify(own, after, x509.ExtKeyUsageClientAuth))

		require.Error(t, mine.Swap(ca), "another root is never swapped in")
	})
	t.Run("P14 the guard looks after every enforcer", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(c *x509.Certificate){
			"an authority":   func(c *x509.Certificate) { c.IsCA = true },
			"a subject":      func(c *x509.Certificate) { c.Subject = pkix.Name{Organization: []string{"system:masters"}} },
			"a raw subject":  func(c *x509.Certificate) { c.RawSubject = ca.Root.RawSubject },
			"two names":      func(c *x509.Certificate) { c.URIs = append([]*url.URL{c.URIs[0]}, c.URIs[0]) },
			"a DNS name":     func(c *x509.Certificate) { c.DNSNames = []string{"gateway." + ca.TrustDomain} },
			"an address":     func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} },
			"a mail address": func(c *x509.Certificate) { c.EmailAddresses = []string{"nobody@" + ca.TrustDomain} },
			"another path": func(c *x509.Certificate) {
				c.URIs = []*url.URL{{Scheme: "spiffe", Host: ca.TrustDomain, Path: "/gateway/a"}}
			},
			"a query":             func(c *x509.Certificate) { u := *c.URIs[0]; u.RawQuery = "x"; c.URIs = []*url.URL{&u} },
			"both usages":         func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage[:1:1], x509.ExtKeyUsageServerAuth) },
			"any usage":           func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} },
			"a signing key usage": func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign },
			"no generation":       func(c *x509.Certificate) { c.ExtraExtensions = nil },
			"a server's name for a client": func(c *x509.Certificate) {
				c.URIs, c.DNSNames = nil, []string{"gateway." + ca.TrustDomain}
			},
			"generation 0": func(c *x509.Certificate) {
				c.ExtraExtensions = []pkix.Extension{{Id: c.ExtraExtensions[0].Id, Value: []byte{2, 1, 0}}}
			},
			"two days":           func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(48 * time.Hour) },
			"a name constraint":  func(c *x509.Certificate) { c.PermittedURIDomains = []string{ca.TrustDomain} },
			"a serial":           func(c *x509.Certificate) { c.SerialNumber = ca.Root.SerialNumber },
			"a weaker signature": func(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA1 },
		} {
			_, err := with(request(t), change)
			require.ErrorContains(t, err, "the certificate to be signed", name)
		}
		p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		require.NoError(t, err)
		_, err = s.create(p384.Public(), *good)
		require.ErrorContains(t, err, "P-256")
	})
	t.Run("what the library signed is looked at before it goes out", func(t *testing.T) {
		t.Parallel()
		profile := pki.NodeProfile{NodeID: id.New(id.Node), Generation: 7}
		other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		for name, change := range map[string]func(c *x509.Certificate){
			"another key":        func(c *x509.Certificate) { c.PublicKey = other.Public() },
			"a longer life":      func(c *x509.Certificate) { c.NotAfter = c.NotAfter.Add(time.Hour) },
			"an earlier begin":   func(c *x509.Certificate) { c.NotBefore = c.NotBefore.Add(-time.Hour) },
			"another node":       func(c *x509.Certificate) { c.URIs = good.URIs },
			"another generation": func(c *x509.Certificate) { c.ExtraExtensions = good.ExtraExtensions },
			"no generation":      func(c *x509.Certificate) { c.ExtraExtensions = nil },
			"an authority":       func(c *x509.Certificate) { c.IsCA = true },
		} {
			wrong, err := New(ca)
			require.NoError(t, err)
			wrong.current.Store(&signer{ca: ca, authority: library(func(r *casapi.CreateCertificateRequest) (*casapi.CreateCertificateResponse, error) {
				change(r.Template)
				return s.authority.CreateCertificate(r)
			})})
			_, err = wrong.SignNode(t.Context(), request(t), profile)
			require.ErrorIs(t, err, errMismatch, name)
		}
	})
	t.Run("D2 a library that fails is UNAVAILABLE", func(t *testing.T) {
		t.Parallel()
		away := &signer{ca: ca, authority: library(func(*casapi.CreateCertificateRequest) (*casapi.CreateCertificateResponse, error) {
			return nil, errors.New("the key store does not answer")
		})}
		_, err := away.sign(t.Context(), request(t), good)
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
	})
	t.Run("P15 the times are the profile's, whatever backdate the library has", func(t *testing.T) {
		t.Parallel()
		leaf, err := with(request(t), func(*x509.Certificate) {})
		require.NoError(t, err)
		require.Equal(t, good.NotBefore, leaf.NotBefore)
		require.Equal(t, good.NotAfter, leaf.NotAfter)
	})
	t.Run("a foreign trust domain is refused at issue and at verification", func(t *testing.T) {
		t.Parallel()
		foreign := []*url.URL{{Scheme: "spiffe", Host: "bc-0000000000000000.internal", Path: good.URIs[0].Path}}
		_, err := with(request(t), func(c *x509.Certificate) { c.URIs = foreign })
		require.Error(t, err)
		// Even whoever holds the intermediate's key cannot name what lies outside.
		for name, change := range map[string]func(c *x509.Certificate){
			"uri":     func(c *x509.Certificate) { c.URIs = foreign },
			"dns":     func(c *x509.Certificate) { c.DNSNames = []string{"gateway.example.com"} },
			"address": func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} },
			"mail":    func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.com"} },
		} {
			leaf := *good
			change(&leaf)
			leaf.SerialNumber = ca.Root.SerialNumber
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			require.NoError(t, err)
			der, err := x509.CreateCertificate(rand.Reader, &leaf, ca.Intermediate, &key.PublicKey, ca.Signer)
			require.NoError(t, err)
			c, err := x509.ParseCertificate(der)
			require.NoError(t, err)
			require.Error(t, verify(ca, []*x509.Certificate{c, ca.Intermediate}, x509.ExtKeyUsageClientAuth), name)
		}
	})
	t.Run("the intermediate signs no further authority", func(t *testing.T) {
		t.Parallel()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		below := pki.IntermediateTemplate(ca.TrustDomain, time.Now(), ca.Root)
		below.SerialNumber = ca.Root.SerialNumber
		der, err := x509.CreateCertificate(rand.Reader, below, ca.Intermediate, &key.PublicKey, ca.Signer)
		require.NoError(t, err)
		sub, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		leaf := *good
		leaf.SerialNumber = ca.Root.SerialNumber
		der, err = x509.CreateCertificate(rand.Reader, &leaf, sub, &key.PublicKey, key)
		require.NoError(t, err)
		c, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		require.Error(t, verify(ca, []*x509.Certificate{c, sub, ca.Intermediate}, x509.ExtKeyUsageClientAuth))
	})
}

// library is an authority of the library's that tests make up.
type library func(*casapi.CreateCertificateRequest) (*casapi.CreateCertificateResponse, error)

func (l library) CreateCertificate(r *casapi.CreateCertificateRequest) (*casapi.CreateCertificateResponse, error) {
	return l(r)
}
