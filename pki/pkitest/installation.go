package pkitest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
)

// Installation is as much of a control plane as a machine meets: a database of its own with one tenant and one pool, an authority, and the rooms that
// know nodes and certificates.
type Installation struct {
	DB        *db.DB
	Authority *iam.Authority
	Nodes     *node.Store
	// PKI signs by Issuer; a test may put another one in its place.
	PKI    *pki.Store
	Issuer *Issuer
	// Tenant owns the pool.
	Tenant string
	// Pool is the pool's id.
	Pool string
}

// NewInstallation makes one that ends with the test.
func NewInstallation(t testing.TB) *Installation {
	t.Helper()
	d := dbtest.New(t)
	authority, err := iam.NewAuthority(d)
	if err != nil {
		t.Fatalf("make an authority: %v", err)
	}
	nodes, issuer := &node.Store{DB: d, Authority: authority}, NewIssuer(t)
	in := &Installation{
		DB: d, Authority: authority, Nodes: nodes, Issuer: issuer, Tenant: "acme",
		PKI: &pki.Store{DB: d, Authority: authority, Nodes: nodes, Issuer: issuer, Log: slog.New(slog.DiscardHandler)},
	}
	t.Cleanup(func() { in.PKI.Told(context.WithoutCancel(t.Context())) })
	_, err = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, `insert into cas (fingerprint, trust_domain) values ($1, $2)`, pki.Fingerprint(issuer.CA.Root), issuer.CA.TrustDomain)
		if err != nil {
			return err
		}
		if err := iam.CreateTenantTx(ctx, tx, in.Tenant); err != nil {
			return err
		}
		pool, err := node.CreatePoolTx(ctx, tx, in.Tenant, "default")
		in.Pool = pool.ID
		return err
	})
	if err != nil {
		t.Fatalf("make an installation: %v", err)
	}
	return in
}

// Gateway makes a gateway's certificate, signed by what PKI signs by.
func (in *Installation) Gateway(t testing.TB) *pki.GatewayCertificate {
	t.Helper()
	g, err := pki.NewGatewayCertificate(t.Context(), in.PKI.Issuer, in.PKI.Log)
	if err != nil {
		t.Fatalf("make a gateway's certificate: %v", err)
	}
	return g
}
