package pki

import (
	"context"
	"crypto/x509"
	"time"
)

// How long certificates live, and how far before its making one begins, so that gateways whose clocks differ a little agree on a fresh one.
const (
	// NodeLifetime is the life of a node's certificate.
	NodeLifetime = 24 * time.Hour
	// GatewayLifetime is the life of a gateway's certificate.
	GatewayLifetime = 7 * 24 * time.Hour
	// Backdate lies between a certificate's begin and its making.
	Backdate = 5 * time.Minute
)

// NodeProfile is what a node's certificate says.
type NodeProfile struct {
	// NodeID is the node that the certificate is for.
	NodeID string
	// Generation is the node's identity generation, 1 to 2^53. Raising it at the node makes every older certificate worthless.
	Generation int64
	// Lifetime is how long the certificate lives; 0 is NodeLifetime, more than that is refused.
	Lifetime time.Duration
}

// GatewayProfile is what a gateway's certificate says beside the name that the trust domain gives it.
type GatewayProfile struct {
	// Lifetime is how long the certificate lives; 0 is GatewayLifetime, more than that is refused.
	Lifetime time.Duration
}

// Issuer signs the two kinds of certificates there are. The request contributes its public key alone: names, extensions and times are the
// profile's. The chain is the leaf and the intermediate that signed it; the root is not in it.
//
// Both return INVALID_INPUT for a request that CheckCSR refuses or a profile that makes no sense, and UNAVAILABLE when the issuing
// certificate has ended or does not answer. An implementation never signs a leaf that begins before or ends after its issuer.
type Issuer interface {
	SignNode(ctx context.Context, csr *x509.CertificateRequest, p NodeProfile) ([]*x509.Certificate, error)
	SignGateway(ctx context.Context, csr *x509.CertificateRequest, p GatewayProfile) ([]*x509.Certificate, error)
	// TrustDomain is the domain that every name it signs lies in.
	TrustDomain() string
	// Root is the certificate that machines pin.
	Root() *x509.Certificate
}
