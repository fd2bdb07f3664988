package iam_test

import (
	"context"
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is a database with two tenants and the one decision point on it.
type bundle struct {
	*testing.T

	db        *db.DB
	authority *iam.Authority
	issuer    *iam.Issuer
	key       ed25519.PrivateKey
}

func setup(t *testing.T, options ...dbtest.Option) *bundle {
	t.Helper()
	d := dbtest.New(t, options...)
	authority, err := iam.NewAuthority(d)
	require.NoError(t, err)
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	b := &bundle{T: t, db: d, authority: authority, issuer: iam.NewIssuer(d, key), key: key}
	b.exec(`insert into tenants (id) values ('acme'), ('other')`)
	b.exec(`insert into pools (id, tenant_id, name) values ($1, 'acme', 'gpus')`, pool)
	return b
}

var pool = id.New(id.Pool)

func (b *bundle) exec(sql string, args ...any) {
	b.Helper()
	_, err := b.db.Pool().Exec(b.Context(), sql, args...)
	require.NoError(b, err)
}

func (b *bundle) do(fn func(ctx context.Context, tx *db.Tx) error) db.Committed {
	b.Helper()
	done, err := b.db.Do(b.Context(), fn)
	require.NoError(b, err)
	return done
}

// signedIn gives who shows a fresh token of a principal.
func (b *bundle) signedIn(name string) iam.Actor {
	b.Helper()
	token, _, err := b.issuer.Issue(b.Context(), name, time.Hour)
	require.NoError(b, err)
	who, err := b.issuer.Verify(token)
	require.NoError(b, err)
	return who
}

func (b *bundle) grant(name, tenant, role string) {
	b.Helper()
	b.do(func(ctx context.Context, tx *db.Tx) error { return iam.GrantTx(ctx, tx, name, tenant, role) })
}

// node makes a node's row, which the tenants see by these relations.
func (b *bundle) node(relations map[string][]iam.Relation) string {
	b.Helper()
	nodeID := id.New(id.Node)
	b.exec(`insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, changed_by) values ($1, $1, 'acme', $2, 'h', 'ADOPTED', 'test')`,
		nodeID, pool)
	b.do(func(ctx context.Context, tx *db.Tx) error {
		for tenant, all := range relations {
			for _, r := range all {
				if err := iam.ProjectTx(ctx, tx, tenant, nodeID, r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return nodeID
}

func code(err error) fault.Code { return fault.CodeOf(err) }
