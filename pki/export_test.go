package pki

import (
	"context"
	"log/slog"
	"time"
)

// NewShortGatewayCertificate is NewGatewayCertificate with a lifetime short enough to see renewals.
func NewShortGatewayCertificate(ctx context.Context, issuer Issuer, lifetime time.Duration) (*GatewayCertificate, error) {
	g := &GatewayCertificate{issuer: issuer, log: slog.New(slog.DiscardHandler), now: time.Now, lifetime: lifetime}
	return g, g.Renew(ctx)
}
