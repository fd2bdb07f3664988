package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

func key(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	return k
}

func csrWith(t testing.TB, template x509.CertificateRequest, k crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, k)
	require.NoError(t, err)
	return der
}

func TestParseCSR(t *testing.T) {
	t.Parallel()
	t.Run("a key and nothing else is taken", func(t *testing.T) {
		t.Parallel()
		k, der := pkitest.CSR(t)
		csr, err := pki.ParseCSR(der)
		require.NoError(t, err)
		require.True(t, k.PublicKey.Equal(csr.PublicKey))
	})
	t.Run("D3 everything else is refused with the rule", func(t *testing.T) {
		t.Parallel()
		_, good := pkitest.CSR(t)
		rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		_, ed, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		authority, err := asn1.Marshal(struct{ CA bool }{true})
		require.NoError(t, err)
		p256 := key(t, elliptic.P256())
		for name, der := range map[string][]byte{
			"nothing":            nil,
			"no DER":             []byte("-----BEGIN CERTIFICATE REQUEST-----"),
			"cut":                good[:len(good)-1],
			"a byte more":        append(bytes.Clone(good), 0),
			"too long":           make([]byte, 2049),
			"P-384":              csrWith(t, x509.CertificateRequest{}, key(t, elliptic.P384())),
			"P-224":              csrWith(t, x509.CertificateRequest{}, key(t, elliptic.P224())),
			"RSA":                csrWith(t, x509.CertificateRequest{}, rsaKey),
			"Ed25519":            csrWith(t, x509.CertificateRequest{}, ed),
			"SHA-384":            csrWith(t, x509.CertificateRequest{SignatureAlgorithm: x509.ECDSAWithSHA384}, p256),
			"a subject":          csrWith(t, x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"system:masters"}}}, p256),
			"a common name":      csrWith(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "node"}}, p256),
			"a DNS name":         csrWith(t, x509.CertificateRequest{DNSNames: []string{"gateway.example.com"}}, p256),
			"an address":         csrWith(t, x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(1, 2, 3, 4)}}, p256),
			"a URI":              csrWith(t, x509.CertificateRequest{URIs: []*url.URL{{Scheme: "spiffe", Host: "x"}}}, p256),
			"a mail address":     csrWith(t, x509.CertificateRequest{EmailAddresses: []string{"a@example.com"}}, p256),
			"an extension":       csrWith(t, x509.CertificateRequest{ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}}}}, p256),
			"an authority's":     csrWith(t, x509.CertificateRequest{ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: authority}}}, p256),
			"challenge password": withAttribute(t, p256),
			"another version":    signedRequest(t, p256, func(r *tbsRequest) { r.Version = 1 }),
		} {
			_, err := pki.ParseCSR(der)
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err), name)
			require.Equal(t, "csr", fault.From(err).Details["argument"], name)
		}
	})
	t.Run("D3 a signature of another key is refused where the request is signed", func(t *testing.T) {
		t.Parallel()
		_, der := pkitest.CSR(t)
		der[len(der)-1] ^= 1
		csr, err := pki.ParseCSR(der)
		require.NoError(t, err)
		err = pki.CheckCSR(csr)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
		require.Equal(t, "csr", fault.From(err).Details["argument"])
	})
}

// tbsRequest is the part of a request that is signed.
type tbsRequest struct {
	Version    int
	Subject    asn1.RawValue
	PublicKey  asn1.RawValue
	Attributes []asn1.RawValue `asn1:"tag:0,set"`
}

// withAttribute makes a request with a challenge password, an attribute that the standard library does not show.
func withAttribute(t testing.TB, k *ecdsa.PrivateKey) []byte {
	t.Helper()
	attribute, err := asn1.Marshal(struct {
		ID     asn1.ObjectIdentifier
		Values []string `asn1:"set"`
	}{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 7}, []string{"secret"}})
	require.NoError(t, err)
	return signedRequest(t, k, func(r *tbsRequest) { r.Attributes = []asn1.RawValue{{FullBytes: attribute}} })
}

// signedRequest makes a request that is sound but for what change does to it.
func signedRequest(t testing.TB, k *ecdsa.PrivateKey, change func(*tbsRequest)) []byte {
	t.Helper()
	plain, err := x509.ParseCertificateRequest(csrWith(t, x509.CertificateRequest{}, k))
	require.NoError(t, err)
	var tbs tbsRequest
	_, err = asn1.Unmarshal(plain.RawTBSCertificateRequest, &tbs)
	require.NoError(t, err)
	change(&tbs)
	signed, err := asn1.Marshal(tbs)
	require.NoError(t, err)
	h := crypto.SHA256.New()
	h.Write(signed)
	signature, err := k.Sign(rand.Reader, h.Sum(nil), crypto.SHA256)
	require.NoError(t, err)
	der, err := asn1.Marshal(struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{asn1.RawValue{FullBytes: signed}, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}}, asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}})
	require.NoError(t, err)
	csr, err := x509.ParseCertificateRequest(der)
	require.NoError(t, err, "the hand-made request must be sound but for what was changed")
	require.NoError(t, csr.CheckSignature())
	return der
}

func FuzzParseCSR(f *testing.F) {
	_, good := pkitest.CSR(f)
	f.Add(good)
	f.Add(csrWith(f, x509.CertificateRequest{DNSNames: []string{"a"}}, key(f, elliptic.P256())))
	f.Fuzz(func(t *testing.T, der []byte) {
		// Nothing makes it panic; what it takes is a P-256 key without any name; what it refuses is INVALID_INPUT.
		csr, err := pki.ParseCSR(der)
		if err != nil {
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			return
		}
		require.Empty(t, csr.Extensions)
		require.Empty(t, csr.Subject.String())
	})
}
