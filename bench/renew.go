package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"

	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
)

// renewers is how many renewals are under way at one time.
const renewers = 8

// renew measures the server's CPU for a certificate that a machine renews over its session: the frame, the look, the signature, the rows and the answer.
// The floor parses the same requests, checks them and signs. Each session renews once a round, since a gateway lets none do it all the time.
func renew(ctx context.Context, r *rig, s size) ([]Row, error) {
	d, certificates, err := r.joined(ctx, s.n)
	if err != nil {
		return nil, err
	}
	conns, err := d.sessions(ctx, certificates)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range conns {
			_ = c.CloseNow()
		}
	}()
	ca, err := newFloorCA()
	if err != nil {
		return nil, err
	}
	requests, err := newCSRs(s.n * (s.rounds + 1)) // a new key each time, as bcd makes one
	if err != nil {
		return nil, err
	}
	next := 0
	work := func(ctx context.Context) (round, error) {
		mine := requests[next*s.n : (next+1)*s.n]
		next++
		return together(renewers, s.n/renewers, func(ctx context.Context, c, i int) error {
			at := c*(s.n/renewers) + i
			if err := wire.WriteUp(ctx, conns[at].Conn, &wire.Up{Body: &wire.Up_Renew{Renew: &wire.Renew{Csr: mine[at]}}}); err != nil {
				return err
			}
			down, err := wire.ReadDown(ctx, conns[at].Conn)
			if err == nil && down.GetRenewed() == nil {
				err = fmt.Errorf("renew: the gateway answered %T", down.GetBody())
			}
			return err
		})(ctx)
	}
	floor := func(ctx context.Context) (round, error) {
		mine := requests[(next-1)*s.n : next*s.n]
		return together(renewers, s.n/renewers, func(_ context.Context, c, i int) error {
			_, err := ca.sign(mine[c*(s.n/renewers)+i], id.New(id.Node))
			return err
		})(ctx)
	}
	row, err := pairs(ctx, "renew", s.rounds, cpuEach, side{r.cpu, r.dbCPU, work}, side{ownCPU, zero, floor})
	return []Row{row}, err
}

func newCSR() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}
