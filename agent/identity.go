package agent

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
)

// Identity is the key by which the control plane knows the machine for as long as it lives. Printed or logged it shows its fingerprint alone.
type Identity struct {
	key ed25519.PrivateKey
}

// Public is the public half, 32 bytes.
func (i Identity) Public() ed25519.PublicKey {
	public, _ := i.key.Public().(ed25519.PublicKey)
	return public
}

// Fingerprint is the identity's name in the control plane (ComputeNode.key).
func (i Identity) Fingerprint() string { return wire.Fingerprint(i.Public()) }

// String shows the fingerprint.
func (i Identity) String() string { return i.Fingerprint() }

// GoString shows the fingerprint.
func (i Identity) GoString() string { return i.Fingerprint() }

// LogValue shows the fingerprint.
func (i Identity) LogValue() slog.Value { return slog.StringValue(i.Fingerprint()) }

// prove signs a join's proof.
func (i Identity) prove(exporter, csrDER []byte, tokenID string) []byte {
	return ed25519.Sign(i.key, wire.JoinProof(exporter, csrDER, tokenID))
}

func newIdentity() (Identity, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("make the identity key: %w", err)
	}
	return Identity{key: key}, nil
}

// identityJSON is the identity's record.
type identityJSON struct {
	Seed   []byte    `json:"seed"`
	MadeAt time.Time `json:"madeAt"`
}

func (i Identity) record(now time.Time) identityJSON {
	return identityJSON{Seed: i.key.Seed(), MadeAt: now.UTC()}
}

func (j identityJSON) identity() (Identity, error) {
	if len(j.Seed) != ed25519.SeedSize {
		return Identity{}, fmt.Errorf("the identity's seed has %d bytes, not %d", len(j.Seed), ed25519.SeedSize)
	}
	return Identity{key: ed25519.NewKeyFromSeed(j.Seed)}, nil
}

// Credential is the certificate by which the machine opens sessions, and what belongs to it. Printed or logged it shows the node alone.
type Credential struct {
	// NodeID is the node that the machine is.
	NodeID string
	// Key is the fingerprint of the identity that it was given to.
	Key string
	// TrustDomain names the control plane.
	TrustDomain string
	// Generation is the identity generation that the certificate carries.
	Generation int64
	// Servers are the gateways that were known at the join; bcd's configuration comes before them.
	Servers []string
	// JoinedAt is when the machine joined, by its own clock.
	JoinedAt time.Time

	leaf         *x509.Certificate
	intermediate []*x509.Certificate
	root         *x509.Certificate
	key          *ecdsa.PrivateKey
}

// NotBefore is when the certificate begins to be valid.
func (c *Credential) NotBefore() time.Time { return c.leaf.NotBefore }

// NotAfter is when the certificate runs out.
func (c *Credential) NotAfter() time.Time { return c.leaf.NotAfter }

// Serial is the certificate's serial number in hex, as the control plane shows it.
func (c *Credential) Serial() string { return c.leaf.SerialNumber.Text(16) }

// RootFingerprint is the SHA-256 of the control plane's root certificate in hex: what ca_fingerprint names.
func (c *Credential) RootFingerprint() string { return fingerprint(c.root) }

// String shows the node.
func (c *Credential) String() string { return c.NodeID }

// GoString shows the node.
func (c *Credential) GoString() string { return c.NodeID }

// LogValue shows the node.
func (c *Credential) LogValue() slog.Value { return slog.StringValue(c.NodeID) }

// tls gives the credential as TLS shows it.
func (c *Credential) tls() tls.Certificate {
	chain := [][]byte{c.leaf.Raw}
	for _, cert := range c.intermediate {
		chain = append(chain, cert.Raw)
	}
	return tls.Certificate{Certificate: chain, PrivateKey: c.key, Leaf: c.leaf}
}

// credentialJSON is the credential's record.
type credentialJSON struct {
	NodeID      string    `json:"nodeId"`
	Key         string    `json:"key"`
	TrustDomain string    `json:"trustDomain"`
	Generation  int64     `json:"generation"`
	Servers     []string  `json:"servers,omitempty"`
	JoinedAt    time.Time `json:"joinedAt"`
	Certificate string    `json:"certificate"`
	Root        string    `json:"root"`
	PrivateKey  []byte    `json:"privateKey"`
}

func (c *Credential) record() (credentialJSON, error) {
	key, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		return credentialJSON{}, fmt.Errorf("encode the credential's key: %w", err)
	}
	return credentialJSON{
		NodeID: c.NodeID, Key: c.Key, TrustDomain: c.TrustDomain, Generation: c.Generation, Servers: c.Servers, JoinedAt: c.JoinedAt,
		Certificate: encodePEM(append([]*x509.Certificate{c.leaf}, c.intermediate...)...), Root: encodePEM(c.root), PrivateKey: key,
	}, nil
}

func (j credentialJSON) credential() (*Credential, error) {
	key, err := parseKey(j.PrivateKey)
	if err != nil {
		return nil, err
	}
	c := &Credential{
		NodeID: j.NodeID, Key: j.Key, TrustDomain: j.TrustDomain, Generation: j.Generation, Servers: j.Servers, JoinedAt: j.JoinedAt, key: key,
	}
	if err := c.take(j.Certificate, j.Root); err != nil {
		return nil, fmt.Errorf("the stored credential: %w", err)
	}
	return c, nil
}

// take reads certificate and root into the credential and checks that they are of one piece with its key, node and trust domain.
func (c *Credential) take(certificatePEM, rootPEM string) error {
	chain, err := decodePEM(certificatePEM)
	if err != nil {
		return fmt.Errorf("the certificate: %w", err)
	}
	roots, err := decodePEM(rootPEM)
	if err != nil {
		return fmt.Errorf("the root: %w", err)
	}
	if len(roots) != 1 {
		return fmt.Errorf("the root: %d certificates where one belongs", len(roots))
	}
	if err := id.Check(id.Node, "nodeId", c.NodeID); err != nil {
		return err
	}
	c.leaf, c.intermediate, c.root = chain[0], chain[1:], roots[0]
	if !c.key.PublicKey.Equal(c.leaf.PublicKey) {
		return errors.New("the certificate is for another key")
	}
	if want := wire.NodeURI(c.TrustDomain, c.NodeID); len(c.leaf.URIs) != 1 || c.leaf.URIs[0].String() != want {
		return fmt.Errorf("the certificate is not for %s", want)
	}
	options := x509.VerifyOptions{
		Roots: pool(c.root), Intermediates: pool(c.intermediate...), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		// Whether it is valid now is for the gateway to say: this machine's clock may be wrong.
		CurrentTime: c.leaf.NotBefore,
	}
	if _, err := c.leaf.Verify(options); err != nil {
		return fmt.Errorf("the certificate does not lead to the root: %w", err)
	}
	return nil
}

// pendingJSON is the record of a join or renewal that was begun: with the same key it can be repeated until its answer comes.
type pendingJSON struct {
	// TokenID is the join token that it is for; empty for a renewal.
	TokenID string `json:"tokenId,omitempty"`
	// PrivateKey is the new key, PKCS #8.
	PrivateKey []byte `json:"privateKey"`
	// CSR is the request, DER.
	CSR []byte `json:"csr"`
}

func newPending(tokenID string) (pendingJSON, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pendingJSON{}, nil, fmt.Errorf("make a key for the certificate: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return pendingJSON{}, nil, fmt.Errorf("make the certificate request: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pendingJSON{}, nil, fmt.Errorf("encode the key for the certificate: %w", err)
	}
	return pendingJSON{TokenID: tokenID, PrivateKey: der, CSR: csr}, key, nil
}

func parseKey(der []byte) (*ecdsa.PrivateKey, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("read a stored key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a stored key is a %T, not one of P-256", parsed)
	}
	return key, nil
}

func encodePEM(certs ...*x509.Certificate) string {
	var b strings.Builder
	for _, cert := range certs {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	return b.String()
}

// decodePEM reads one or more certificates and nothing else.
func decodePEM(text string) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for rest := []byte(text); len(strings.TrimSpace(string(rest))) > 0; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("not a list of PEM certificates")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read a certificate: %w", err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate")
	}
	return certs, nil
}

func pool(certs ...*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, cert := range certs {
		p.AddCert(cert)
	}
	return p
}

// fingerprint is the lower-case hex SHA-256 of a certificate.
func fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}
