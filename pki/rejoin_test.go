package pki_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/pki"
)

func TestRejoin(t *testing.T) {
	t.Parallel()
	t.Run("D5 a token of another pool does not re-attach a node, and stays unused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		first := b.joined(t, m)
		other := b.tokenFor(t, b.newPool(t, "other"))
		m.newKey(t)
		_, err := b.join(t, m, other.Secret)
		refused(t, err)
		b.unused(t, other)
		require.Equal(t, b.pool, one[string](t, b, `select pool_id from nodes where id = $1`, first.NodeID))
		_, err = b.store.Admit(t.Context(), leafOf(t, first.Certificate))
		require.NoError(t, err, "the old certificate goes on")
	})
	t.Run("D5 a token for one node is refused to every other machine and stays unused, and that node comes back by it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, other := newMachine(t, "m1"), newMachine(t, "m2")
		a := b.joined(t, m)
		theirs := b.joined(t, other)
		bound, err := b.store.JoinTokenCreate(t.Context(), operator, pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool, NodeID: a.NodeID})
		require.NoError(t, err)
		require.Equal(t, a.NodeID, *bound.Token.NodeID)
		other.newKey(t)
		_, err = b.join(t, other, bound.Secret)
		refused(t, err)
		_, err = b.join(t, newMachine(t, "m3"), bound.Secret)
		refused(t, err)
		b.unused(t, bound)
		require.Equal(t, 2, one[int](t, b, `select count(*) from nodes`))
		m.newKey(t)
		again, err := b.join(t, m, bound.Secret)
		require.NoError(t, err)
		require.Equal(t, a.NodeID, again.NodeID)

		// A node that is not of that pool, is deleted, or is none, gets no token.
		b.exec(t, `update nodes set deleted_at = now() where id = $1`, theirs.NodeID)
		for nodeID, code := range map[string]fault.Code{
			theirs.NodeID: fault.NotFound, id.New(id.Node): fault.NotFound, "node_x": fault.InvalidInput,
		} {
			_, err := b.store.JoinTokenCreate(t.Context(), operator, pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool, NodeID: nodeID})
			require.Equal(t, code, fault.CodeOf(err), nodeID)
		}
		_, err = b.store.JoinTokenCreate(t.Context(), operator,
			pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.newPool(t, "second"), NodeID: a.NodeID})
		require.Equal(t, fault.NotFound, fault.CodeOf(err))
	})
	t.Run("one identity joins by two tokens at once: one node", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		var wg sync.WaitGroup
		answers, errs := make([]wire.JoinAnswer, 4), make([]error, 4)
		for i := range answers {
			mine := *m
			mine.newKey(t)
			secret := b.token(t).Secret
			wg.Go(func() { answers[i], errs[i] = b.store.Join(t.Context(), mine.request(secret), mine.exporter) })
		}
		wg.Wait()
		for i := range answers {
			require.NoError(t, errs[i])
			require.Equal(t, answers[0].NodeID, answers[i].NodeID)
		}
		require.Equal(t, 1, one[int](t, b, `select count(*) from nodes`))
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs where state = 'ACTIVE'`))
		require.Equal(t, 3, one[int](t, b, `select count(*) from node_certs where state = 'REVOKED'`))
		require.Len(t, b.events(t, "node.joined"), 1)
		require.Len(t, b.events(t, "node.rejoined"), 3)
	})
	t.Run("D13 credential lost, identity kept, fresh token: the same node, the old certificate refused for ever", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		first := b.joined(t, m)
		b.exec(t, `insert into node_labels (node_id, key, value, source) values ($1, 'rack', 'b7', 'OPERATOR')`, first.NodeID)
		version := one[int](t, b, `select version from nodes where id = $1`, first.NodeID)
		old := leafOf(t, first.Certificate)
		_, err := b.store.Admit(t.Context(), old)
		require.NoError(t, err)

		m.newKey(t)
		m.print.BootID = "b2"
		second := b.joined(t, m)
		require.Equal(t, first.NodeID, second.NodeID)
		require.Equal(t, first.Key, second.Key)
		require.NotEqual(t, first.Serial, second.Serial)
		require.Equal(t, "ACTIVE 1, REVOKED 1", one[string](t, b,
			`select string_agg(state||' '||n, ', ' order by state) from (select state, count(*) n from node_certs where node_id = $1 group by state) x`, first.NodeID))
		require.Equal(t, "joined again", one[string](t, b, `select reason from node_certs where serial = $1`, first.Serial))
		require.Equal(t, version, one[int](t, b, `select version from nodes where id = $1`, first.NodeID), "certificates don't move the version")
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_labels where node_id = $1 and key = 'rack'`, first.NodeID), "history and labels stay")
		again := b.events(t, "node.rejoined")
		require.Len(t, again, 1)
		require.Equal(t, "b2", again[0]["print"].(map[string]any)["bootId"])
		require.Equal(t, "b1", again[0]["previousPrint"].(map[string]any)["bootId"])
		require.Equal(t, []any{first.Serial}, again[0]["revokedSerials"])

		_, err = b.store.Admit(t.Context(), leafOf(t, second.Certificate))
		require.NoError(t, err)
		for range 3 {
			_, err = b.store.Admit(t.Context(), old)
			reason(t, err, pki.RefusedRevoked)
		}
	})
	t.Run("a revoked credential comes back by joining again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		first := b.joined(t, m)
		b.exec(t, `update node_certs set state = 'REVOKED', ended_at = now(), ended_by = 'alex', reason = 'stolen' where serial = $1`, first.Serial)
		b.exec(t, `update nodes set credential = 'REVOKED' where id = $1`, first.NodeID)
		_, err := b.store.Admit(t.Context(), leafOf(t, first.Certificate))
		reason(t, err, pki.RefusedRevoked)
		m.newKey(t)
		second := b.joined(t, m)
		require.Equal(t, first.NodeID, second.NodeID)
		require.Equal(t, "TRUSTED", one[string](t, b, `select credential from nodes where id = $1`, first.NodeID))
		_, err = b.store.Admit(t.Context(), leafOf(t, second.Certificate))
		require.NoError(t, err)
		_, err = b.store.Admit(t.Context(), leafOf(t, first.Certificate))
		reason(t, err, pki.RefusedRevoked)
	})
	t.Run("a token that was made before the certificate was revoked does not bring the machine back, and stays unused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		first := b.joined(t, m)
		before := b.token(t)
		b.exec(t, `update node_certs set state = 'REVOKED', ended_at = clock_timestamp(), ended_by = 'alex', reason = 'stolen' where serial = $1`, first.Serial)
		b.exec(t, `update nodes set credential = 'REVOKED', credential_since = clock_timestamp() where id = $1`, first.NodeID)
		m.newKey(t)
		_, err := b.join(t, m, before.Secret)
		refused(t, err)
		b.unused(t, before)
		require.Equal(t, "REVOKED", one[string](t, b, `select credential from nodes where id = $1`, first.NodeID))
		require.Equal(t, 0, one[int](t, b, `select count(*) from node_certs where node_id = $1 and state = 'ACTIVE'`, first.NodeID))
		require.Equal(t, first.NodeID, b.joined(t, m).NodeID, "one that was made after it does")

		// Revoked between the look at the token and its claim: the same.
		late := b.token(t)
		m.newKey(t)
		revoke := func() {
			_, err := b.db.Pool().Exec(context.WithoutCancel(t.Context()),
				`update nodes set credential = 'REVOKED', credential_since = clock_timestamp() where id = $1`, first.NodeID)
			if err != nil {
				t.Error(err)
			}
		}
		b.issuer.during.Store(&revoke)
		_, err = b.join(t, m, late.Secret)
		refused(t, err)
		b.unused(t, late)
	})
	t.Run("D1 one identity comes back by one token many times at once: one certificate", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		first := b.joined(t, m)
		token := b.token(t)
		const n = 20
		machines := make([]*machine, n)
		for i := range machines {
			machines[i] = &machine{identity: m.identity, print: m.print, exporter: m.exporter}
			machines[i].newKey(t) // each asks for another key, so none is the lost answer of another
		}
		errs := make(chan error, n)
		for _, m := range machines {
			go func() {
				_, err := b.store.Join(t.Context(), m.request(token.Secret), m.exporter)
				errs <- err
			}()
		}
		joined := 0
		for range n {
			if err := <-errs; err == nil {
				joined++
			} else {
				refused(t, err)
			}
		}
		require.Equal(t, 1, joined)
		require.Equal(t, 2, one[int](t, b, `select count(*) from node_certs where node_id = $1`, first.NodeID))
		require.Len(t, b.events(t, "node.rejoined"), 1)
	})
	t.Run("D14 identity lost too: a new node, the old row as it was", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.joined(t, newMachine(t, "m1"))
		second := b.joined(t, newMachine(t, "m1")) // the same machine as its print says, another identity
		require.NotEqual(t, first.NodeID, second.NodeID)
		require.Equal(t, 2, one[int](t, b, `select count(*) from nodes where deleted_at is null and credential = 'TRUSTED'`))
		_, err := b.store.Admit(t.Context(), leafOf(t, first.Certificate))
		require.NoError(t, err)
		require.Empty(t, b.events(t, "node.rejoined"))
	})
	t.Run("D15 another machine's identity key without its private half is refused, and nothing of that node changes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		victim := newMachine(t, "m1")
		first := b.joined(t, victim)
		token := b.token(t)
		thief := newMachine(t, "m2")
		r := thief.request(token.Secret)
		r.IdentityKey = victim.public()
		_, err := b.store.Join(t.Context(), r, thief.exporter)
		reason(t, err, "proof")
		// A proof that the victim once gave, for another token, does not help either.
		r.Proof = victim.request(b.token(t).Secret).Proof
		_, err = b.store.Join(t.Context(), r, victim.exporter)
		reason(t, err, "proof")
		b.unused(t, token)
		require.Equal(t, 1, one[int](t, b, `select count(*) from nodes`))
		_, err = b.store.Admit(t.Context(), leafOf(t, first.Certificate))
		require.NoError(t, err)
	})
	t.Run("an identity that may not come back is told why, and the token stays unused", func(t *testing.T) {
		t.Parallel()
		for want, change := range map[pki.Refusal]string{
			"distrusted":  `update identity_keys set state = 'DISTRUSTED' where node_id = $1`,
			"quarantined": `update nodes set credential = 'QUARANTINED' where id = $1`,
			"deleted":     `update nodes set deleted_at = now() where id = $1`,
			"duplicate": `insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
				values ($1, 'ses', 1, 'gw', 'b', '1', '{"machineId":"m2"}', 0, now())`,
		} {
			b := setup(t)
			m := newMachine(t, "m1")
			first := b.joined(t, m)
			b.exec(t, change, first.NodeID)
			token := b.token(t)
			m.newKey(t)
			_, err := b.join(t, m, token.Secret)
			reason(t, err, want)
			b.unused(t, token)
			require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs`), string(want))
		}
	})
	t.Run("a session that another machine opens while the certificate is signed is a duplicate too", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		first := b.joined(t, m)
		token := b.token(t)
		m.newKey(t)
		open := sync.OnceFunc(func() {
			b.exec(t, `insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
				values ($1, 'ses', 1, 'gw', 'b', '1', '{"machineId":"m2"}', 0, now())`, first.NodeID)
		})
		b.issuer.during.Store(&open)
		_, err := b.join(t, m, token.Secret)
		reason(t, err, "duplicate")
		b.unused(t, token)
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs`))
	})
	t.Run("a session that ended, is stale, or is the machine's own is no duplicate", func(t *testing.T) {
		t.Parallel()
		for _, session := range []string{
			`'{"machineId":"m2"}', now(), now()`,
			`'{"machineId":"m2"}', now() - interval '1 hour', null`,
			`'{"machineId":"m1","bootId":"b0"}', now(), null`,
			`'{}', now(), null`,
		} {
			b := setup(t)
			m := newMachine(t, "m1")
			first := b.joined(t, m)
			b.exec(t, `update node_liveness set last_seen = now() - interval '1 hour' where node_id = $1`, first.NodeID)
			b.exec(t, `insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, clock_skew_ms, print, connected_at, disconnected_at)
				values ($1, 'ses', 1, 'gw', 'b', '1', 0, `+session+`)`, first.NodeID)
			m.newKey(t)
			require.Equal(t, first.NodeID, b.joined(t, m).NodeID, session)
		}
	})
	t.Run("a freed identity, as delete leaves it, becomes a new node", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		first := b.joined(t, m)
		b.exec(t, `update nodes set deleted_at = now() where id = $1`, first.NodeID)
		b.exec(t, `update identity_keys set state = 'FREED' where node_id = $1`, first.NodeID)
		second := b.joined(t, m)
		require.NotEqual(t, first.NodeID, second.NodeID)
		_, err := b.store.Admit(t.Context(), leafOf(t, first.Certificate))
		reason(t, err, pki.RefusedDeleted)
	})
	t.Run("what changed while we signed is looked at again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		first := b.joined(t, m)
		m.newKey(t)
		token := b.token(t)
		var once sync.Once
		raise := func() {
			once.Do(func() {
				if _, err := b.db.Pool().Exec(context.WithoutCancel(t.Context()), `update nodes set identity_generation = 5 where id = $1`, first.NodeID); err != nil {
					t.Error(err)
				}
			})
		}
		b.issuer.during.Store(&raise)
		second, err := b.join(t, m, token.Secret)
		require.NoError(t, err)
		require.Equal(t, int64(5), second.Generation)
		require.Equal(t, 2, one[int](t, b, `select count(*) from node_certs where node_id = $1`, first.NodeID), "what was signed for generation 1 is not on record")
	})
}
