package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

// The private extension that carries a node's identity generation as an ASN.1 INTEGER. It is not critical: who doesn't know it may still
// verify the chain, and our gateways refuse a certificate without it.
var generationOID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 59999, 1, 1}

var sanOID = asn1.ObjectIdentifier{2, 5, 29, 17}

const (
	uriTag       = 0x86    // a URI among the kinds of alternative names
	maxGen int64 = 1 << 53 // what every JSON reader can hold exactly
)

var trustDomainRule = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+$`)

// GatewayName is the one DNS name of every gateway of a trust domain. Machines check it and nothing else, so gateways move freely.
func GatewayName(trustDomain string) string { return "gateway." + trustDomain }

// NodeURI is the one name in a node's certificate.
func NodeURI(trustDomain, nodeID string) string { return "spiffe://" + trustDomain + "/node/" + nodeID }

// Validity gives the span of a certificate made at now: lifetime long, begun a little before, and never outside its issuer's own. An issuer
// that has ended, or not begun, is UNAVAILABLE.
func Validity(now time.Time, lifetime time.Duration, issuer *x509.Certificate) (notBefore, notAfter time.Time, err error) {
	now = now.UTC().Truncate(time.Second) // certificates count whole seconds
	notBefore, notAfter = now.Add(-Backdate), now.Add(lifetime)
	if notBefore.Before(issuer.NotBefore) {
		notBefore = issuer.NotBefore
	}
	if notAfter.After(issuer.NotAfter) {
		notAfter = issuer.NotAfter
	}
	if now.Before(issuer.NotBefore) || !notAfter.After(now) {
		return time.Time{}, time.Time{}, fault.New(fault.Unavailable, nil,
			"the issuing certificate is good from %s to %s only, so nothing was signed; make a new intermediate",
			issuer.NotBefore.Format(time.RFC3339), issuer.NotAfter.Format(time.RFC3339))
	}
	return notBefore, notAfter, nil
}

// NodeLeaf is the whole of a node's certificate but its serial, its issuer and its key: empty subject, one URI, client authentication, the
// generation. Nothing else may ever be in one.
func NodeLeaf(trustDomain string, p NodeProfile, now time.Time, issuer *x509.Certificate) (*x509.Certificate, error) {
	if err := id.Check(id.Node, "nodeId", p.NodeID); err != nil {
		return nil, err
	}
	if p.Generation < 1 || p.Generation > maxGen {
		return nil, fault.Invalid("generation", "must be 1 to 2^53", 0)
	}
	lifetime, err := lifetimeOf(p.Lifetime, NodeLifetime)
	if err != nil {
		return nil, err
	}
	notBefore, notAfter, err := Validity(now, lifetime, issuer)
	if err != nil {
		return nil, err
	}
	generation, err := asn1.Marshal(p.Generation)
	if err != nil {
		return nil, fmt.Errorf("encode the generation: %w", err)
	}
	return &x509.Certificate{
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: trustDomain, Path: "/node/" + p.NodeID}},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		ExtraExtensions:       []pkix.Extension{{Id: generationOID, Value: generation}},
	}, nil
}

// GatewayLeaf is the whole of a gateway's certificate but its serial, its issuer and its key: empty subject, one DNS name, server
// authentication.
func GatewayLeaf(trustDomain string, p GatewayProfile, now time.Time, issuer *x509.Certificate) (*x509.Certificate, error) {
	lifetime, err := lifetimeOf(p.Lifetime, GatewayLifetime)
	if err != nil {
		return nil, err
	}
	notBefore, notAfter, err := Validity(now, lifetime, issuer)
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		DNSNames:              []string{GatewayName(trustDomain)},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}, nil
}

func lifetimeOf(asked, most time.Duration) (time.Duration, error) {
	switch {
	case asked == 0:
		return most, nil
	case asked < time.Second || asked > most:
		return 0, fault.Invalid("lifetime", "must be 1 second to "+most.String(), 0)
	}
	return asked, nil
}

// GuardLeaf looks at a certificate just before it is signed and refuses everything that is not exactly one of the two kinds, or that would
// begin before or end after its issuer. It is the second look: it knows nothing of the profile that filled the fields.
func GuardLeaf(trustDomain string, c, issuer *x509.Certificate) error {
	switch {
	case c.IsCA || !c.BasicConstraintsValid || c.MaxPathLen > 0 || c.MaxPathLenZero:
		return errors.New("a leaf must not be an authority")
	case c.KeyUsage != x509.KeyUsageDigitalSignature || len(c.ExtKeyUsage) != 1 || len(c.UnknownExtKeyUsage) != 0:
		return errors.New("a leaf has digital signature and one extended usage")
	case c.Subject.String() != "" || len(c.RawSubject) > 0 && !bytes.Equal(c.RawSubject, emptyName):
		return errors.New("a leaf has an empty subject")
	case len(c.EmailAddresses)+len(c.IPAddresses) != 0:
		return errors.New("a leaf has neither mail nor network addresses")
	case len(c.Extensions) != 0 || len(c.PolicyIdentifiers)+len(c.Policies) != 0 || len(c.OCSPServer)+len(c.IssuingCertificateURL)+len(c.CRLDistributionPoints) != 0:
		return errors.New("a leaf has no extensions but those of its profile")
	case len(c.PermittedURIDomains)+len(c.PermittedDNSDomains)+len(c.PermittedIPRanges)+len(c.PermittedEmailAddresses) != 0,
		len(c.ExcludedURIDomains)+len(c.ExcludedDNSDomains)+len(c.ExcludedIPRanges)+len(c.ExcludedEmailAddresses) != 0:
		return errors.New("a leaf constrains no names")
	case c.SerialNumber != nil || c.SignatureAlgorithm != 0:
		return errors.New("a leaf gets its serial, and its kind of signature, from who signs it")
	case c.NotBefore.IsZero() || !c.NotAfter.After(c.NotBefore):
		return errors.New("a leaf must end after it begins")
	case c.NotBefore.Before(issuer.NotBefore) || c.NotAfter.After(issuer.NotAfter):
		return errors.New("a leaf must not outlive its issuer")
	}
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Params().Name != "P-256" {
		return errors.New("a leaf is for a key on P-256")
	}
	span := c.NotAfter.Sub(c.NotBefore)
	switch c.ExtKeyUsage[0] {
	case x509.ExtKeyUsageClientAuth:
		if len(c.URIs) != 1 || len(c.DNSNames) != 0 || len(c.ExtraExtensions) != 1 {
			return errors.New("a node's leaf has one URI and the generation")
		}
		uri := c.URIs[0].String()
		nodeID := strings.TrimPrefix(uri, NodeURI(trustDomain, ""))
		if id.Check(id.Node, "nodeId", nodeID) != nil || uri != NodeURI(trustDomain, nodeID) {
			return errors.New("a node's leaf names a node of this trust domain")
		}
		if ext := c.ExtraExtensions[0]; !ext.Id.Equal(generationOID) || ext.Critical {
			return errors.New("a node's leaf has one URI and the generation")
		}
		if _, err := parseGeneration(c.ExtraExtensions[0].Value); err != nil {
			return err
		}
		if span > NodeLifetime+Backdate {
			return errors.New("a node's leaf lives a day at most")
		}
	case x509.ExtKeyUsageServerAuth:
		if len(c.URIs) != 0 || len(c.ExtraExtensions) != 0 || !slices.Equal(c.DNSNames, []string{GatewayName(trustDomain)}) {
			return errors.New("a gateway's leaf has the gateway's name and nothing else")
		}
		if span > GatewayLifetime+Backdate {
			return errors.New("a gateway's leaf lives a week at most")
		}
	default:
		return errors.New("a leaf is for client or for server authentication")
	}
	return nil
}

// NodeFromCertificate reads the node and the generation from a certificate that was verified against our root. It takes only what NodeLeaf
// makes, byte for byte: exactly one name, of this trust domain, and exactly one generation, 1 to 2^53, with nothing behind it. That the
// database still honours the certificate is for Judge to say.
func NodeFromCertificate(trustDomain string, c *x509.Certificate) (nodeID string, generation int64, err error) {
	if c == nil {
		return "", 0, errors.New("there is no certificate")
	}
	if c.IsCA || !bytes.Equal(c.RawSubject, emptyName) {
		return "", 0, errors.New("the certificate is no node's: it has a subject or is an authority")
	}
	if len(c.ExtKeyUsage) != 1 || c.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth || len(c.UnknownExtKeyUsage) != 0 {
		return "", 0, errors.New("the certificate is no node's: it is not for client authentication alone")
	}
	san, err := single(c.Extensions, sanOID)
	if err != nil {
		return "", 0, fmt.Errorf("the certificate's name: %w", err)
	}
	gen, err := single(c.Extensions, generationOID)
	if err != nil {
		return "", 0, fmt.Errorf("the certificate's generation: %w", err)
	}
	if nodeID, err = parseNodeName(trustDomain, san); err != nil {
		return "", 0, err
	}
	if generation, err = parseGeneration(gen); err != nil {
		return "", 0, err
	}
	return nodeID, generation, nil
}

func single(all []pkix.Extension, oid asn1.ObjectIdentifier) ([]byte, error) {
	var found []byte
	n := 0
	for _, e := range all {
		if e.Id.Equal(oid) {
			found = e.Value
			n++
		}
	}
	if n != 1 {
		return nil, fmt.Errorf("there must be exactly one, not %d", n)
	}
	return found, nil
}

// parseNodeName reads the value of a subject alternative name. The node id is what stands at its end, and then the value is made anew from it: only
// equal bytes are taken, so a second name, another spelling of the URI or bytes behind it cannot hide.
func parseNodeName(trustDomain string, san []byte) (string, error) {
	nodeID := string(san[bytes.LastIndexByte(san, '/')+1:])
	if id.Check(id.Node, "nodeId", nodeID) != nil {
		return "", errors.New("the certificate names no node of this trust domain")
	}
	name := NodeURI(trustDomain, nodeID)
	want := appendHeader(make([]byte, 0, len(name)+8), 0x30, len(appendHeader(nil, uriTag, len(name)))+len(name))
	want = append(appendHeader(want, uriTag, len(name)), name...)
	if !bytes.Equal(want, san) {
		return "", errors.New("the certificate must have exactly one name, that of a node of this trust domain, spelled as we spell it")
	}
	return nodeID, nil
}

// appendHeader adds what DER writes before a value that is shorter than 2^16 bytes.
func appendHeader(b []byte, tag byte, size int) []byte {
	switch {
	case size < 0x80:
		return append(b, tag, byte(size))
	case size < 0x100:
		return append(b, tag, 0x81, byte(size))
	default:
		return append(b, tag, 0x82, byte(size>>8), byte(size))
	}
}

func parseGeneration(value []byte) (int64, error) {
	var g int64
	rest, err := asn1.Unmarshal(value, &g)
	if err != nil || len(rest) != 0 || g < 1 || g > maxGen {
		return 0, errors.New("the certificate's generation must be one number, 1 to 2^53")
	}
	return g, nil
}

// Fingerprint is the lower-case hex SHA-256 of a certificate's DER: what machines pin a root by.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// KeyFingerprint is the lower-case hex SHA-256 of a public key in its PKIX form; it ties a certificate's row to the key that was signed.
func KeyFingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// SerialText is a serial number as it is stored, logged and shown: lower-case hex.
func SerialText(serial *big.Int) string { return serial.Text(16) }
