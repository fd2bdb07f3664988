// Package pkitest gives tests of other packages an authority and an issuer that sign by the same profiles with the standard library, so that
// they need not link the real one. What it makes is good for every check of package pki.
package pkitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/better-compute/better-compute/pki"
)

// NewCA makes an authority with a fresh trust domain.
func NewCA(t testing.TB) *pki.CA {
	t.Helper()
	ca, err := makeCA(time.Now())
	if err != nil {
		t.Fatalf("make an authority: %v", err)
	}
	return ca
}

func makeCA(now time.Time) (*pki.CA, error) {
	domain := pki.NewTrustDomain()
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := pki.RootTemplate(domain, now)
	root, err := create(template, template, &rootKey.PublicKey, rootKey)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	intermediate, err := create(pki.IntermediateTemplate(domain, now, root), root, &key.PublicKey, rootKey)
	if err != nil {
		return nil, err
	}
	ca := &pki.CA{TrustDomain: domain, Root: root, Intermediate: intermediate, Signer: key, RootKey: rootKey}
	return ca, ca.Check(now)
}

func create(template, parent *x509.Certificate, pub *ecdsa.PublicKey, key any) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Issuer signs with the standard library. Down makes it refuse.
type Issuer struct {
	CA *pki.CA
	// Down, when it holds an error, is what every signing answers.
	Down atomic.Pointer[error]
	// Signed counts the certificates.
	Signed atomic.Int64
}

var _ pki.Issuer = (*Issuer)(nil)

// NewIssuer makes an issuer with an authority of its own.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	return &Issuer{CA: NewCA(t)}
}

// TrustDomain is the authority's.
func (i *Issuer) TrustDomain() string { return i.CA.TrustDomain }

// Root is the authority's.
func (i *Issuer) Root() *x509.Certificate { return i.CA.Root }

// SignNode signs by pki.NodeLeaf.
func (i *Issuer) SignNode(_ context.Context, csr *x509.CertificateRequest, p pki.NodeProfile) ([]*x509.Certificate, error) {
	leaf, err := pki.NodeLeaf(i.CA.TrustDomain, p, time.Now(), i.CA.Intermediate)
	if err != nil {
		return nil, err
	}
	return i.sign(csr, leaf)
}

// SignGateway signs by pki.GatewayLeaf.
func (i *Issuer) SignGateway(_ context.Context, csr *x509.CertificateRequest, p pki.GatewayProfile) ([]*x509.Certificate, error) {
	leaf, err := pki.GatewayLeaf(i.CA.TrustDomain, p, time.Now(), i.CA.Intermediate)
	if err != nil {
		return nil, err
	}
	return i.sign(csr, leaf)
}

func (i *Issuer) sign(csr *x509.CertificateRequest, leaf *x509.Certificate) ([]*x509.Certificate, error) {
	if down := i.Down.Load(); down != nil {
		return nil, *down
	}
	if err := pki.CheckCSR(csr); err != nil {
		return nil, err
	}
	leaf.PublicKey = csr.PublicKey
	if err := pki.GuardLeaf(i.CA.TrustDomain, leaf, i.CA.Intermediate); err != nil {
		return nil, err
	}
	c, err := create(leaf, i.CA.Intermediate, csr.PublicKey.(*ecdsa.PublicKey), i.CA.Signer)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	i.Signed.Add(1)
	return []*x509.Certificate{c, i.CA.Intermediate}, nil
}

// CSR makes a key and the request for it that pki.ParseCSR accepts.
func CSR(t testing.TB) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	return key, der
}
