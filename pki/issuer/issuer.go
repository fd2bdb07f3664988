// Package issuer signs certificates with smallstep's certificate authority. It is the only package that links it.
//
// Of that library it uses the part that signs, the one in which a certificate comes to be in step-ca too: it takes a template and a key. All that lies
// above it there decides who may have which certificate, and this system decides that by its own rows. The part that signs checks nothing, so every
// certificate passes three looks: the profile, which is the template to its last field and takes nothing from the request but the key; the guard, which
// knows nothing of the profile and refuses all but the two kinds there are; and the signed bytes, read back before they leave this package.
package issuer

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/smallstep/certificates/cas"
	casapi "github.com/smallstep/certificates/cas/apiv1"
	"github.com/smallstep/certificates/cas/softcas"
	"go.step.sm/crypto/kms/apiv1"
	"go.step.sm/crypto/kms/softkms"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/pki"
)

// Issuer is pki.Issuer on smallstep's authority. The zero value is not usable.
type Issuer struct {
	now     func() time.Time
	current atomic.Pointer[signer]
}

var _ pki.Issuer = (*Issuer)(nil)

// signer is the library's authority with the one intermediate that it signs by. They are swapped together.
type signer struct {
	authority signing
	ca        *pki.CA
}

// signing is all that is ever called of the library's authority, so that nobody can reach for the rest of it: its renewing carries whatever a
// certificate says into the next one, and its revoking does nothing.
type signing interface {
	CreateCertificate(*casapi.CreateCertificateRequest) (*casapi.CreateCertificateResponse, error)
}

// New makes an issuer that signs with the authority's intermediate.
func New(ca *pki.CA) (*Issuer, error) { return newAt(ca, time.Now) }

func newAt(ca *pki.CA, now func() time.Time) (*Issuer, error) {
	i := &Issuer{now: now}
	s, err := newSigner(ca, now())
	if err != nil {
		return nil, err
	}
	i.current.Store(s)
	return i, nil
}

func newSigner(ca *pki.CA, now time.Time) (*signer, error) {
	if err := ca.Check(now); err != nil {
		return nil, err
	}
	return &signer{authority: &softcas.SoftCAS{CertificateChain: []*x509.Certificate{ca.Intermediate}, Signer: ca.Signer}, ca: ca}, nil
}

// Swap goes on with another intermediate under the same root, while others sign: each certificate is wholly the old one's or the new one's.
// Certificates of the old one stay good until they end, since each carries its intermediate.
func (i *Issuer) Swap(ca *pki.CA) error {
	if old := i.current.Load().ca; !ca.Root.Equal(old.Root) || ca.TrustDomain != old.TrustDomain {
		return errors.New("another root or trust domain cannot be swapped in: every machine has pinned the present one")
	}
	s, err := newSigner(ca, i.now())
	if err != nil {
		return err
	}
	i.current.Store(s)
	return nil
}

// TrustDomain is the domain that every name lies in.
func (i *Issuer) TrustDomain() string { return i.current.Load().ca.TrustDomain }

// Root is the certificate that machines pin.
func (i *Issuer) Root() *x509.Certificate { return i.current.Load().ca.Root }

// NotAfter is when the intermediate ends, and with it all signing.
func (i *Issuer) NotAfter() time.Time { return i.current.Load().ca.Intermediate.NotAfter }

// SignNode signs a node's certificate; see pki.Issuer.
func (i *Issuer) SignNode(ctx context.Context, csr *x509.CertificateRequest, p pki.NodeProfile) ([]*x509.Certificate, error) {
	s := i.current.Load()
	leaf, err := pki.NodeLeaf(s.ca.TrustDomain, p, i.now(), s.ca.Intermediate)
	if err != nil {
		return nil, err
	}
	chain, err := s.sign(ctx, csr, leaf)
	if err != nil {
		return nil, err
	}
	nodeID, generation, err := pki.NodeFromCertificate(s.ca.TrustDomain, chain[0])
	if err != nil || nodeID != p.NodeID || generation != p.Generation {
		return nil, fmt.Errorf("what was signed is not what was asked for (node %q, generation %d): %w", nodeID, generation, errors.Join(err, errMismatch))
	}
	return chain, nil
}

// SignGateway signs a gateway's certificate; see pki.Issuer.
func (i *Issuer) SignGateway(ctx context.Context, csr *x509.CertificateRequest, p pki.GatewayProfile) ([]*x509.Certificate, error) {
	s := i.current.Load()
	leaf, err := pki.GatewayLeaf(s.ca.TrustDomain, p, i.now(), s.ca.Intermediate)
	if err != nil {
		return nil, err
	}
	chain, err := s.sign(ctx, csr, leaf)
	if err != nil {
		return nil, err
	}
	if err := chain[0].VerifyHostname(pki.GatewayName(s.ca.TrustDomain)); err != nil {
		return nil, fmt.Errorf("what was signed is not what was asked for: %w", errors.Join(err, errMismatch))
	}
	return chain, nil
}

var errMismatch = errors.New("the certificate does not match its profile")

// sign makes the certificate that leaf describes for the key of the request.
func (s *signer) sign(ctx context.Context, csr *x509.CertificateRequest, leaf *x509.Certificate) ([]*x509.Certificate, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	if err := pki.CheckCSR(csr); err != nil {
		return nil, err
	}
	made, err := s.create(csr.PublicKey, *leaf)
	if err != nil {
		return nil, err
	}
	key, ok := made.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || !key.Equal(csr.PublicKey):
		return nil, fmt.Errorf("the certificate is for another key: %w", errMismatch)
	case made.NotAfter.After(s.ca.Intermediate.NotAfter) || !made.NotAfter.Equal(leaf.NotAfter) || !made.NotBefore.Equal(leaf.NotBefore):
		return nil, fmt.Errorf("the certificate is good from %s to %s: %w", made.NotBefore, made.NotAfter, errMismatch)
	}
	return []*x509.Certificate{made, s.ca.Intermediate}, nil
}

// create has the library sign what the guard lets through, and nothing else.
func (s *signer) create(key crypto.PublicKey, leaf x509.Certificate) (*x509.Certificate, error) {
	leaf.PublicKey, leaf.PublicKeyAlgorithm = key, x509.ECDSA
	var err error
	if leaf.SubjectKeyId, err = keyID(key); err != nil {
		return nil, err
	}
	if err := pki.GuardLeaf(s.ca.TrustDomain, &leaf, s.ca.Intermediate); err != nil {
		return nil, fmt.Errorf("the certificate to be signed: %w", err)
	}
	// The library asks for a lifetime and goes by it only where the template has no times, which the guard refuses.
	made, err := s.authority.CreateCertificate(&casapi.CreateCertificateRequest{Template: &leaf, Lifetime: leaf.NotAfter.Sub(leaf.NotBefore)})
	if err != nil {
		return nil, fault.Because(fault.Unavailable, err, nil, "the certificate authority did not sign; try again")
	}
	return made.Certificate, nil
}

// keyID names a key as RFC 7093 has it: by the first 160 bits of its SHA-256. Left to itself the library writes the key and parses it again for a name by SHA-1.
func keyID(key crypto.PublicKey) ([]byte, error) {
	public, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("a %T is no key of a leaf: %w", key, errMismatch)
	}
	point, err := public.Bytes()
	if err != nil {
		return nil, fmt.Errorf("the key of a leaf: %w", err)
	}
	sum := sha256.Sum256(point)
	return sum[:20], nil
}

// NewCA makes a certificate authority for a trust domain: a root, and an intermediate bound to the domain. Both keys are in it; pki.WriteCA
// puts them on disk.
func NewCA(ctx context.Context, trustDomain string) (*pki.CA, error) {
	return newCAAt(ctx, trustDomain, time.Now())
}

func newCAAt(ctx context.Context, trustDomain string, now time.Time) (*pki.CA, error) {
	creator, err := newCreator(ctx)
	if err != nil {
		return nil, err
	}
	root, err := creator.CreateCertificateAuthority(&casapi.CreateCertificateAuthorityRequest{
		Type:      casapi.RootCA,
		Template:  pki.RootTemplate(trustDomain, now),
		Lifetime:  pki.RootLifetime,
		CreateKey: &apiv1.CreateKeyRequest{SignatureAlgorithm: apiv1.ECDSAWithSHA256},
	})
	if err != nil {
		return nil, fmt.Errorf("make a root: %w", err)
	}
	return intermediate(creator, trustDomain, root.Certificate, root.Signer, now)
}

// Renew makes a new intermediate under a root that is there already. The answer's RootKey is nil; pki.WriteIntermediate puts it on disk and
// Swap lets a running process go on with it.
func Renew(ctx context.Context, trustDomain string, root *x509.Certificate, rootKey crypto.Signer) (*pki.CA, error) {
	creator, err := newCreator(ctx)
	if err != nil {
		return nil, err
	}
	ca, err := intermediate(creator, trustDomain, root, rootKey, time.Now())
	if err != nil {
		return nil, err
	}
	ca.RootKey = nil
	return ca, nil
}

func newCreator(ctx context.Context) (cas.CertificateAuthorityCreator, error) {
	keys, err := softkms.New(ctx, apiv1.Options{})
	if err != nil {
		return nil, fmt.Errorf("open the key store: %w", err)
	}
	creator, err := cas.NewCreator(ctx, casapi.Options{Type: casapi.SoftCAS, KeyManager: keys, IsCreator: true})
	if err != nil {
		return nil, fmt.Errorf("open the authority's maker: %w", err)
	}
	return creator, nil
}

func intermediate(creator cas.CertificateAuthorityCreator, trustDomain string, root *x509.Certificate, rootKey crypto.Signer, now time.Time) (*pki.CA, error) {
	made, err := creator.CreateCertificateAuthority(&casapi.CreateCertificateAuthorityRequest{
		Type:      casapi.IntermediateCA,
		Template:  pki.IntermediateTemplate(trustDomain, now, root),
		Lifetime:  pki.IntermediateLifetime,
		Parent:    &casapi.CreateCertificateAuthorityResponse{Certificate: root, Signer: rootKey},
		CreateKey: &apiv1.CreateKeyRequest{SignatureAlgorithm: apiv1.ECDSAWithSHA256},
	})
	if err != nil {
		return nil, fmt.Errorf("make an intermediate: %w", err)
	}
	ca := &pki.CA{TrustDomain: trustDomain, Root: root, Intermediate: made.Certificate, Signer: made.Signer, RootKey: rootKey}
	if err := ca.Check(now); err != nil {
		return nil, fmt.Errorf("the authority that was made: %w", err)
	}
	return ca, nil
}
