package pki

import (
	"crypto/x509"
	"log/slog"
	"sync"

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

	texts    texts
	tellings tellings
}

// chainText gives a chain that was signed just now as PEM. Only the leaf is new.
func (s *Store) chainText(chain []*x509.Certificate) string {
	text := ChainPEM(chain[:1])
	for _, c := range chain[1:] {
		text = append(text, s.texts.of(c)...)
	}
	return string(text)
}

// texts remembers the PEM of the few certificates that stand in every answer: the root and the intermediate.
type texts struct{ known sync.Map }

func (t *texts) of(c *x509.Certificate) string {
	if text, ok := t.known.Load(c); ok {
		return text.(string) //nolint:forcetypeassert // nothing else is put in
	}
	text := string(ChainPEM([]*x509.Certificate{c}))
	t.known.Store(c, text)
	return text
}
