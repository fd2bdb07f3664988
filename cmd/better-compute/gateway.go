package main

import (
	"context"
	"log/slog"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/pki"
)

// gateway takes machines in until ctx ends, and keeps its certificate good.
func (s *settings) gateway(ctx context.Context, g *errgroup.Group, r *rooms, o *ops, l net.Listener, log *slog.Logger) error {
	log = log.With("part", "gateway")
	gatewayID, err := gateway.OpenID(s.dataDir)
	if err != nil {
		return err
	}
	certificate, err := pki.NewGatewayCertificate(ctx, r.pki.Issuer, log)
	if err != nil {
		return err
	}
	var feed *pki.RevocationFeed
	if s.revocationPoll > 0 {
		feed = pki.NewRevocationFeed(r.db, pki.FeedOptions{Poll: s.revocationPoll, GiveUp: s.revocationGiveUp, Log: log})
		feed.Watch(r.log)
	} else {
		log.WarnContext(ctx, "the revocation feed is off: a revoked certificate keeps its session until it runs out")
	}
	machines := gateway.New(gateway.Config{
		ID: gatewayID, GetCertificate: certificate.GetCertificate, Root: r.pki.Issuer.Root(), Identities: r.pki,
		Sessions: &liveness.Store{DB: r.db, Nodes: r.nodes, Log: log},
		Health:   &health.Store{DB: r.db, Nodes: r.nodes, Log: log},
		Feed:     feed,
		Log:      log,
	})
	o.metrics.gateway(machines, r.signer.NotAfter)
	o.ready.add("gateway", gatewayReady(machines))
	g.Go(func() error {
		if err := certificate.Run(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	})
	g.Go(func() error { return machines.Serve(ctx, l) })
	return nil
}
