package pki_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/pki"
)

// person is a principal with a live token, an admin of the tenants.
func (b *bundle) person(t *testing.T, name string, tenants ...string) iam.Actor {
	t.Helper()
	who := iam.Actor{Name: name, TokenID: id.New(id.Token), ExpiresAt: time.Now().Add(time.Hour)}
	b.exec(t, `insert into principals (name) values ($1)`, name)
	b.exec(t, `insert into api_tokens (jti, principal, expires_at) values ($1, $2, now() + interval '1 hour')`, who.TokenID, name)
	_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		for _, of := range tenants {
			if err := iam.GrantTx(ctx, tx, name, of, "admin"); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	return who
}

func TestJoinTokens(t *testing.T) {
	t.Parallel()
	t.Run("made once, shown without its secret ever after", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		who := b.person(t, "alex", tenant)
		made, err := b.store.JoinTokenCreate(t.Context(), who, pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool})
		require.NoError(t, err)
		text, err := wire.ParseToken(made.Secret)
		require.NoError(t, err)
		require.Equal(t, made.Token.ID, text.ID())
		require.Equal(t, pki.Fingerprint(b.issuer.CA.Root), made.Trust.Fingerprint)
		require.Equal(t, b.issuer.CA.TrustDomain, made.Trust.TrustDomain)
		require.Equal(t, pki.TokenTTL, made.Token.ExpiresAt.Sub(made.Token.CreatedAt))
		require.Equal(t, "alex", made.Token.CreatedBy)
		created := b.events(t, "join-token.created")
		require.Len(t, created, 1)
		require.Equal(t, made.Token.ID, created[0]["joinTokenId"])
		head, err := events.Head(t.Context(), b.db.Pool())
		require.NoError(t, err)
		require.Equal(t, head, made.Cursor, "the cursor is that of its own commit")

		list, more, err := b.store.JoinTokens(t.Context(), who, tenant, 50, "")
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, []pki.JoinToken{made.Token}, list)
	})
	t.Run("a token's labels are the new node's, as its operator's; one that comes back keeps its own", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		withLabels := func(labels map[string]string) string {
			made, err := b.store.JoinTokenCreate(t.Context(), operator, pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool, Labels: labels})
			require.NoError(t, err)
			require.Equal(t, labels, made.Token.Labels)
			return made.Secret
		}
		const labelled = `select coalesce(jsonb_object_agg(key, value || ' ' || source), '{}') from node_labels where node_id = $1`
		m := newMachine(t, "m1")
		a, err := b.join(t, m, withLabels(map[string]string{"rack": "b7", "fabric/rail": "3"}))
		require.NoError(t, err)
		want := map[string]string{"rack": "b7 OPERATOR", "fabric/rail": "3 OPERATOR"}
		require.Equal(t, want, one[map[string]string](t, b, labelled, a.NodeID))
		require.Equal(t, 1, one[int](t, b, `select version from nodes where id = $1`, a.NodeID))
		m.newKey(t)
		again, err := b.join(t, m, withLabels(map[string]string{"rack": "c1", "row": "2"}))
		require.NoError(t, err)
		require.Equal(t, a.NodeID, again.NodeID)
		require.Equal(t, want, one[map[string]string](t, b, labelled, a.NodeID))
		for _, labels := range []map[string]string{{"bc.dev/driver": "x"}, {"": "x"}, {"k": "a b"}} {
			_, err := b.store.JoinTokenCreate(t.Context(), operator, pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool, Labels: labels})
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			require.Equal(t, "labels", fault.From(err).Details["argument"])
		}
		require.Equal(t, 2, one[int](t, b, `select count(*) from join_tokens`))
	})
	t.Run("a repeated request id makes one token and shows no secret again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		in := pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool, RequestID: "r1"}
		first, err := b.store.JoinTokenCreate(t.Context(), operator, in)
		require.NoError(t, err)
		again, err := b.store.JoinTokenCreate(t.Context(), operator, in)
		require.NoError(t, err)
		require.Empty(t, again.Secret)
		require.Equal(t, first.Token, again.Token)
		require.Equal(t, first.Cursor, again.Cursor)
		require.Equal(t, 1, one[int](t, b, `select count(*) from join_tokens`))
		in.TTL = time.Minute
		_, err = b.store.JoinTokenCreate(t.Context(), operator, in)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	})
	t.Run("revoked once, not after its use", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.token(t)
		in := pki.JoinTokenRevokeInput{TenantID: tenant, JoinTokenID: token.Token.ID, RequestID: "r1"}
		r, err := b.store.JoinTokenRevoke(t.Context(), operator, in)
		require.NoError(t, err)
		require.True(t, r.Changed)
		require.Equal(t, "alex", *r.Token.RevokedBy)
		require.Len(t, b.events(t, "join-token.revoked"), 1)
		again, err := b.store.JoinTokenRevoke(t.Context(), operator, in)
		require.NoError(t, err)
		require.True(t, again.Changed, "the stored answer")
		require.Equal(t, r.Cursor, again.Cursor)
		in.RequestID = ""
		again, err = b.store.JoinTokenRevoke(t.Context(), operator, in)
		require.NoError(t, err)
		require.False(t, again.Changed)
		require.Len(t, b.events(t, "join-token.revoked"), 1)

		used := b.token(t)
		_, err = b.join(t, newMachine(t, "m1"), used.Secret)
		require.NoError(t, err)
		_, err = b.store.JoinTokenRevoke(t.Context(), operator, pki.JoinTokenRevokeInput{TenantID: tenant, JoinTokenID: used.Token.ID})
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		require.NotEmpty(t, fault.From(err).Details["usedBy"])
	})
	t.Run("H1 who may not, and what is malformed, is refused by its code and changes nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		alex, guest := b.person(t, "alex", tenant), b.person(t, "guest", "other")
		nobody := iam.Actor{Name: "alex", TokenID: "tok_gone"}
		good := pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool}
		with := func(change func(in *pki.JoinTokenCreateInput)) pki.JoinTokenCreateInput {
			in := good
			change(&in)
			return in
		}
		for _, c := range []struct {
			name string
			who  iam.Actor
			in   pki.JoinTokenCreateInput
			want fault.Code
		}{
			{"no live token", nobody, good, fault.Unauthenticated},
			{"no grant in the tenant", guest, good, fault.Forbidden},
			{"another tenant's pool", guest, with(func(in *pki.JoinTokenCreateInput) { in.TenantID = "other" }), fault.NotFound},
			{"no such pool", alex, with(func(in *pki.JoinTokenCreateInput) { in.PoolID = id.New(id.Pool) }), fault.NotFound},
			{"a malformed pool", alex, with(func(in *pki.JoinTokenCreateInput) { in.PoolID = "pool_x" }), fault.InvalidInput},
			{"a malformed tenant", alex, with(func(in *pki.JoinTokenCreateInput) { in.TenantID = "Acme" }), fault.InvalidInput},
			{"too short", alex, with(func(in *pki.JoinTokenCreateInput) { in.TTL = time.Millisecond }), fault.InvalidInput},
			{"negative", alex, with(func(in *pki.JoinTokenCreateInput) { in.TTL = -time.Second }), fault.InvalidInput},
			{"longer than 7 days", alex, with(func(in *pki.JoinTokenCreateInput) { in.TTL = 7*24*time.Hour + 1 }), fault.InvalidInput},
		} {
			_, err := b.store.JoinTokenCreate(t.Context(), c.who, c.in)
			require.Equal(t, c.want, fault.CodeOf(err), c.name)
		}
		require.Zero(t, one[int](t, b, `select count(*) from join_tokens`))

		token := b.token(t)
		_, err := b.store.JoinTokenRevoke(t.Context(), guest, pki.JoinTokenRevokeInput{TenantID: tenant, JoinTokenID: token.Token.ID})
		require.Equal(t, fault.Forbidden, fault.CodeOf(err))
		_, err = b.store.JoinTokenRevoke(t.Context(), guest, pki.JoinTokenRevokeInput{TenantID: "other", JoinTokenID: token.Token.ID})
		require.Equal(t, fault.NotFound, fault.CodeOf(err))
		_, err = b.store.JoinTokenRevoke(t.Context(), alex, pki.JoinTokenRevokeInput{TenantID: tenant, JoinTokenID: "jt_x"})
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
		_, _, err = b.store.JoinTokens(t.Context(), guest, tenant, 50, "")
		require.Equal(t, fault.Forbidden, fault.CodeOf(err))
		_, _, err = b.store.JoinTokens(t.Context(), alex, tenant, 501, "")
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
		b.unused(t, token)
	})
	t.Run("listed newest first, page by page", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var want []string
		for range 5 {
			want = append([]string{b.token(t).Token.ID}, want...)
		}
		var got []string
		after := ""
		for {
			page, more, err := b.store.JoinTokens(t.Context(), operator, tenant, 2, after)
			require.NoError(t, err)
			for _, token := range page {
				got = append(got, token.ID)
			}
			if !more {
				break
			}
			after = got[len(got)-1]
		}
		require.Equal(t, want, got)
	})
	t.Run("before there is an authority there are no tokens", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(t, `delete from cas`)
		_, err := b.store.JoinTokenCreate(t.Context(), operator, pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool})
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
	})
}
