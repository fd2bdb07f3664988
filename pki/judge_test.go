package pki_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	t.Run("a certificate counts while its row says so", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		a := b.joined(t, newMachine(t, "m1"))
		leaf := leafOf(t, a.Certificate)
		v, err := b.store.Judge(t.Context(), b.db.Pool(), leaf)
		require.NoError(t, err)
		require.Equal(t, a.NodeID, v.NodeID)
		require.Equal(t, tenant, v.TenantID)
		require.Equal(t, b.pool, v.PoolID)
		require.Equal(t, a.Serial, v.Serial)
		require.True(t, v.FirstUse)
		v, err = b.store.Admit(t.Context(), leaf)
		require.NoError(t, err)
		require.True(t, v.FirstUse)
		require.True(t, one[bool](t, b, `select first_used_at is not null and chain is null and state = 'ACTIVE' from node_certs where serial = $1`, a.Serial))
		used := one[time.Time](t, b, `select first_used_at from node_certs where serial = $1`, a.Serial)
		v, err = b.store.Admit(t.Context(), leaf)
		require.NoError(t, err)
		require.False(t, v.FirstUse)
		require.Equal(t, used, one[time.Time](t, b, `select first_used_at from node_certs where serial = $1`, a.Serial))
	})
	t.Run("each state that does not count has its own refusal", func(t *testing.T) {
		t.Parallel()
		for want, change := range map[pki.Refusal]string{
			pki.RefusedUnknown:     `update node_certs set generation = 2 where node_id = $1`,
			pki.RefusedExpired:     `update node_certs set not_after = clock_timestamp() where node_id = $1`,
			pki.RefusedSuperseded:  `update node_certs set state = 'SUPERSEDED', ended_at = now() where node_id = $1`,
			pki.RefusedRevoked:     `update node_certs set state = 'REVOKED', ended_at = now() where node_id = $1`,
			pki.RefusedGeneration:  `update nodes set identity_generation = 2 where id = $1`,
			pki.RefusedQuarantined: `update nodes set credential = 'QUARANTINED' where id = $1`,
			pki.RefusedDeleted:     `update nodes set deleted_at = now() where id = $1`,
		} {
			b := setup(t)
			a := b.joined(t, newMachine(t, "m1"))
			b.exec(t, change, a.NodeID)
			_, err := b.store.Admit(t.Context(), leafOf(t, a.Certificate))
			reason(t, err, want)
			require.True(t, one[bool](t, b, `select first_used_at is null from node_certs where serial = $1`, a.Serial), "a refusal has no effect: %s", want)
		}
	})
	t.Run("a certificate that is not on record does not count, whatever its signature", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		a := b.joined(t, newMachine(t, "m1"))
		// Signed by our CA for the node, but never recorded.
		_, der := pkitest.CSR(t)
		csr, err := pki.ParseCSR(der)
		require.NoError(t, err)
		stray, err := b.issuer.SignNode(t.Context(), csr, pki.NodeProfile{NodeID: a.NodeID, Generation: 1})
		require.NoError(t, err)
		_, err = b.store.Admit(t.Context(), stray[0])
		reason(t, err, pki.RefusedUnknown)
		// The recorded serial with another key, and with another node.
		serial, ok := new(big.Int).SetString(a.Serial, 16)
		require.True(t, ok)
		for _, nodeID := range []string{a.NodeID, id.New(id.Node)} {
			leaf, err := pki.NodeLeaf(b.issuer.CA.TrustDomain, pki.NodeProfile{NodeID: nodeID, Generation: 1}, time.Now(), b.issuer.CA.Intermediate)
			require.NoError(t, err)
			forged := handMade(t, b.issuer.CA, leaf)
			forged.SerialNumber = serial
			_, err = b.store.Admit(t.Context(), forged)
			reason(t, err, pki.RefusedUnknown)
		}
		// A gateway's certificate is no node's.
		g, err := pki.NewGatewayCertificate(t.Context(), b.issuer, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		var server *tls.Certificate
		server, err = g.GetCertificate(nil)
		require.NoError(t, err)
		_, err = b.store.Admit(t.Context(), server.Leaf)
		reason(t, err, pki.RefusedUnknown)
		_, err = b.store.Admit(t.Context(), (*x509.Certificate)(nil))
		require.Error(t, err)
	})
}

func (b *bundle) renew(t *testing.T, nodeID, serial string, m *machine) (pki.Renewed, error) {
	t.Helper()
	return b.store.Renew(t.Context(), pki.Verdict{NodeID: nodeID, Serial: serial, Generation: 1}, m.csr)
}

func TestRenew(t *testing.T) {
	t.Parallel()
	t.Run("D12 a renewed certificate is pending until its first use, and the old one goes on", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		a := b.joined(t, m)
		old := leafOf(t, a.Certificate)
		_, err := b.store.Admit(t.Context(), old)
		require.NoError(t, err)

		m.newKey(t)
		r, err := b.renew(t, a.NodeID, a.Serial, m)
		require.NoError(t, err)
		leaf := leafOf(t, r.Chain)
		require.True(t, m.key.PublicKey.Equal(leaf.PublicKey))
		require.Equal(t, r.Serial, pki.SerialText(leaf.SerialNumber))
		_, err = b.store.Admit(t.Context(), old)
		require.NoError(t, err, "the new one could not be written: the old one goes on")

		again, err := b.renew(t, a.NodeID, a.Serial, m)
		require.NoError(t, err)
		require.Equal(t, r, again, "the same key gets the same bytes")
		m.newKey(t)
		third, err := b.renew(t, a.NodeID, a.Serial, m)
		require.NoError(t, err)
		require.NotEqual(t, r.Serial, third.Serial)
		require.Equal(t, "SUPERSEDED", one[string](t, b, `select state from node_certs where serial = $1`, r.Serial))

		v, err := b.store.Admit(t.Context(), leafOf(t, third.Chain))
		require.NoError(t, err)
		require.Equal(t, third.Serial, v.Serial)
		require.Equal(t, "ACTIVE", one[string](t, b, `select state from node_certs where serial = $1`, third.Serial))
		require.Equal(t, "SUPERSEDED", one[string](t, b, `select state from node_certs where serial = $1`, a.Serial))

		for range 3 {
			_, err = b.store.Admit(t.Context(), old)
			reason(t, err, pki.RefusedSuperseded)
		}
		told := b.events(t, "security.node.superseded-certificate-used")
		require.Len(t, told, 1, "once an hour")
		require.Equal(t, a.Serial, told[0]["serial"])
		b.exec(t, `update node_certs set seen_again_at = seen_again_at - interval '61 minutes' where serial = $1`, a.Serial)
		_, err = b.store.Admit(t.Context(), old)
		reason(t, err, pki.RefusedSuperseded)
		require.Len(t, b.events(t, "security.node.superseded-certificate-used"), 2)
		_, err = b.renew(t, a.NodeID, a.Serial, m)
		reason(t, err, pki.RefusedSuperseded)
	})
	t.Run("D17 what no longer counts is not renewed, also when it ends while we sign", func(t *testing.T) {
		t.Parallel()
		for want, change := range map[pki.Refusal]string{
			pki.RefusedExpired:     `update node_certs set not_after = clock_timestamp() where node_id = $1`,
			pki.RefusedRevoked:     `update node_certs set state = 'REVOKED', ended_at = now() where node_id = $1`,
			pki.RefusedGeneration:  `update nodes set identity_generation = 2 where id = $1`,
			pki.RefusedQuarantined: `update nodes set credential = 'QUARANTINED' where id = $1`,
			pki.RefusedDeleted:     `update nodes set deleted_at = now() where id = $1`,
		} {
			for _, whileSigning := range []bool{false, true} {
				b := setup(t)
				m := newMachine(t, "m1")
				a := b.joined(t, m)
				m.newKey(t)
				act := func() {
					if _, err := b.db.Pool().Exec(context.WithoutCancel(t.Context()), change, a.NodeID); err != nil {
						t.Error(err)
					}
				}
				if whileSigning {
					b.issuer.during.Store(&act)
				} else {
					act()
				}
				_, err := b.renew(t, a.NodeID, a.Serial, m)
				reason(t, err, want)
				require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs`), "what was signed is not on record")
			}
		}
		b := setup(t)
		m := newMachine(t, "m1")
		a := b.joined(t, m)
		_, err := b.renew(t, a.NodeID, "ff", m)
		reason(t, err, pki.RefusedUnknown)
		_, err = b.renew(t, id.New(id.Node), a.Serial, m)
		reason(t, err, pki.RefusedUnknown)
		// A session that is of another generation than the database says gets nothing, whatever its certificate's row says.
		_, err = b.store.Renew(t.Context(), pki.Verdict{NodeID: a.NodeID, Serial: a.Serial, Generation: 2}, m.csr)
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs`))
		_, err = b.store.Renew(t.Context(), pki.Verdict{NodeID: a.NodeID, Serial: a.Serial, Generation: 1}, []byte("x"))
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	})
	t.Run("D17 revoking races renewing and first use 60 times: no certificate of the old generation counts afterwards", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for range 60 {
			m := newMachine(t, "m1")
			a := b.joined(t, m)
			m.newKey(t)
			var wg sync.WaitGroup
			var renewed pki.Renewed
			var renewErr, admitErr, revokeErr error
			wg.Go(func() { renewed, renewErr = b.renew(t, a.NodeID, a.Serial, m) })
			wg.Go(func() { _, admitErr = b.store.Admit(t.Context(), leafOf(t, a.Certificate)) })
			wg.Go(func() {
				_, revokeErr = b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					if _, err := node.LockTx(ctx, tx, a.NodeID); err != nil {
						return err
					}
					if _, err := tx.Exec(ctx, `update nodes set identity_generation = identity_generation + 1, credential = 'REVOKED' where id = $1`, a.NodeID); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, `update node_certs set state = 'REVOKED', ended_at = now() where node_id = $1 and state in ('PENDING', 'ACTIVE')`, a.NodeID)
					return err
				})
			})
			wg.Wait()
			require.NoError(t, revokeErr)
			for _, err := range []error{renewErr, admitErr} {
				if err != nil {
					require.Equal(t, fault.Unauthenticated, fault.CodeOf(err), "%v", err)
				}
			}
			require.Zero(t, one[int](t, b, `select count(*) from node_certs where node_id = $1 and state in ('PENDING', 'ACTIVE')`, a.NodeID))
			if renewErr == nil {
				_, err := b.store.Admit(t.Context(), leafOf(t, renewed.Chain))
				reason(t, err, pki.RefusedRevoked)
			}
		}
	})
	t.Run("many renewals of one node at once leave one pending certificate", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		a := b.joined(t, newMachine(t, "m1"))
		var wg sync.WaitGroup
		errs := make([]error, 16)
		for i := range errs {
			m := newMachine(t, "m1")
			wg.Go(func() { _, errs[i] = b.renew(t, a.NodeID, a.Serial, m) })
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs where state = 'PENDING'`))
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs where state = 'ACTIVE'`))
	})
}

// trips counts what is sent to the database.
type trips struct{ n atomic.Int64 }

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	// A join of a new machine is two round trips, the look at the token and the transaction; a renewal is one.
	b := setup(t)
	sent := &trips{}
	counted, err := db.Open(t.Context(), db.Config{URL: b.db.URL(), Strict: true, Tracer: sent})
	require.NoError(t, err)
	t.Cleanup(counted.Close)
	token, m := b.token(t), newMachine(t, "m1")
	b.store.DB = counted
	before := sent.n.Load()
	a, err := b.join(t, m, token.Secret)
	require.NoError(t, err)
	require.Equal(t, int64(2), sent.n.Load()-before, "a join")
	m.newKey(t)
	before = sent.n.Load()
	_, err = b.renew(t, a.NodeID, a.Serial, m)
	require.NoError(t, err)
	require.Equal(t, int64(1), sent.n.Load()-before, "a renewal")
}
