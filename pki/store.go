package pki

import (
	"log/slog"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

// Store is the room's verbs on the database. Those that sign need an Issuer and run where the gateway runs; the others do without.
type Store struct {
	DB        *db.DB
	Authority *iam.Authority
	Nodes     *node.Store
	// Issuer signs; nil in a process without a gateway.
	Issuer Issuer
	// Log takes the truth about refusals, of which the caller is told one sentence; never a secret.
	Log *slog.Logger
}
