package pki

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"sync/atomic"
	"time"
)

// GatewayCertificate is the certificate of this process's gateway. It is made at the start, with a key that never leaves memory, and made anew
// by Run when two thirds of its life are over; handshakes under way keep the one that they began with.
//
// The chain that it presents is the leaf, the intermediate and the root, so that a machine that has pinned the root's fingerprint, and holds
// nothing else yet, finds the root in the first handshake.
type GatewayCertificate struct {
	issuer   Issuer
	log      *slog.Logger
	now      func() time.Time
	lifetime time.Duration
	current  atomic.Pointer[tls.Certificate]
}

// NewGatewayCertificate makes the first certificate; an issuer that does not answer is its error.
func NewGatewayCertificate(ctx context.Context, issuer Issuer, log *slog.Logger) (*GatewayCertificate, error) {
	g := &GatewayCertificate{issuer: issuer, log: log, now: time.Now}
	if err := g.Renew(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

// GetCertificate is what tls.Config.GetCertificate takes.
func (g *GatewayCertificate) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c := g.current.Load()
	if c == nil {
		return nil, errors.New("the gateway has no certificate yet")
	}
	return c, nil
}

// NotAfter is when the present certificate ends.
func (g *GatewayCertificate) NotAfter() time.Time { return g.current.Load().Leaf.NotAfter }

// Renew makes a new key and certificate and puts it in the place of the present one. An error leaves the present one.
func (g *GatewayCertificate) Renew(ctx context.Context) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the gateway's key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return fmt.Errorf("make the gateway's request: %w", err)
	}
	csr, err := ParseCSR(der)
	if err != nil {
		return fmt.Errorf("make the gateway's request: %w", err)
	}
	chain, err := g.issuer.SignGateway(ctx, csr, GatewayProfile{Lifetime: g.lifetime})
	if err != nil {
		return fmt.Errorf("sign the gateway's certificate: %w", err)
	}
	c := &tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, link := range chain {
		c.Certificate = append(c.Certificate, link.Raw)
	}
	c.Certificate = append(c.Certificate, g.issuer.Root().Raw)
	g.current.Store(c)
	return nil
}

// Run renews until the context ends. A failed attempt is logged and tried again after a minute; the present certificate has a third of its
// life left then.
func (g *GatewayCertificate) Run(ctx context.Context) error {
	for {
		wait := g.untilRenewal()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		if err := g.Renew(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			g.log.ErrorContext(ctx, "the gateway's certificate was not renewed; trying again in a minute", "error", err, "notAfter", g.NotAfter())
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
			}
			continue
		}
		g.log.InfoContext(ctx, "the gateway's certificate was renewed", "notAfter", g.NotAfter())
	}
}

// untilRenewal is the time until two thirds of the certificate's life are over, within a tenth of it, so that gateways that started together
// don't renew together.
func (g *GatewayCertificate) untilRenewal() time.Duration {
	leaf := g.current.Load().Leaf
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	jitter, err := rand.Int(rand.Reader, big.NewInt(int64(life)/10+1))
	if err != nil {
		jitter = new(big.Int)
	}
	return max(leaf.NotBefore.Add(life*2/3).Sub(g.now())-time.Duration(jitter.Int64()), time.Second)
}
