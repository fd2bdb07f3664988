package agenttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net/url"
	"time"

	"github.com/better-compute/better-compute/gateway/wire"
)

// authority is a root and an intermediate that sign for one trust domain.
type authority struct {
	root, intermediate       *x509.Certificate
	rootKey, intermediateKey *ecdsa.PrivateKey
}

// Sign gives a certificate for a node and the key of a request, with its intermediate, PEM.
func (g *Gateway) Sign(nodeID string, csrDER []byte) (string, error) {
	csr, err := x509.ParseCertificateRequest(csrDER)
	if err != nil {
		return "", err
	}
	_, chain, err := g.sign(nodeID, csr.PublicKey)
	return chain, err
}

// sign makes a node's certificate and gives it with its intermediate.
func (g *Gateway) sign(nodeID string, key any) (*x509.Certificate, string, error) {
	generation, err := asn1.Marshal(1)
	if err != nil {
		return nil, "", err
	}
	life := g.options.Life
	if life == 0 {
		life = 24 * time.Hour
	}
	begin := time.Now().Add(-g.options.Age).Add(-time.Minute)
	leaf, err := g.ca.leaf(&x509.Certificate{
		NotBefore: begin, NotAfter: begin.Add(life), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:            []*url.URL{{Scheme: "spiffe", Host: g.TrustDomain, Path: "/node/" + nodeID}},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 59999, 1, 1}, Value: generation}},
	}, key)
	if err != nil {
		return nil, "", err
	}
	return leaf, encode(leaf) + encode(g.ca.intermediate), nil
}

// ownCertificate makes the certificate that the gateway presents: leaf, intermediate and root.
func (g *Gateway) ownCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		NotBefore: g.options.NotBefore, NotAfter: g.options.NotAfter, DNSNames: []string{wire.GatewayName(g.TrustDomain)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if g.options.ClientLeaf {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	leaf, err := g.ca.leaf(template, key.Public())
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{leaf.Raw, g.ca.intermediate.Raw, g.ca.root.Raw}, PrivateKey: key}, nil
}

func newAuthority() (*authority, error) {
	var a authority
	var err error
	if a.rootKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if a.intermediateKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	// The validity is wide, for the tests with clocks that are far off.
	template := x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "root"},
		NotBefore: time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	template.SerialNumber = serial()
	if a.root, err = certify(&template, &template, a.rootKey.Public(), a.rootKey); err != nil {
		return nil, err
	}
	template.SerialNumber, template.Subject.CommonName = serial(), "intermediate"
	a.intermediate, err = certify(&template, a.root, a.intermediateKey.Public(), a.rootKey)
	return &a, err
}

func (a *authority) leaf(template *x509.Certificate, key any) (*x509.Certificate, error) {
	template.SerialNumber, template.KeyUsage, template.BasicConstraintsValid = serial(), x509.KeyUsageDigitalSignature, true
	return certify(template, a.intermediate, key, a.intermediateKey)
}

func certify(template, parent *x509.Certificate, key, signer any) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func encode(cert *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
}

func serial() *big.Int { return new(big.Int).SetBytes(append([]byte{1}, random(15)...)) }

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
}
