package pki_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
)

const tokenRefused = "security.join-token.refused"

// shown is a machine that shows a token, and what the event about it must say.
type shown struct {
	cause   pki.JoinTokenRefusal
	machine *machine
	secret  string
	tokenID string
	nodeID  string // that the event is about
	boundTo string
}

// refusable makes a machine and a token for each reason to refuse one.
func (b *bundle) refusable(t *testing.T) []shown {
	t.Helper()
	var all []shown
	add := func(cause pki.JoinTokenRefusal, m *machine, made pki.JoinTokenCreated, nodeID string) *shown {
		m.newKey(t)
		all = append(all, shown{cause: cause, machine: m, secret: made.Secret, tokenID: made.Token.ID, nodeID: nodeID})
		return &all[len(all)-1]
	}
	known, stranger := newMachine(t, "known"), newMachine(t, "stranger")
	its := b.joined(t, known).NodeID

	expired := b.token(t)
	b.exec(t, `update join_tokens set created_at = now() - interval '1 hour', expires_at = now() - interval '1 second' where id = $1`, expired.Token.ID)
	add(pki.TokenExpired, stranger, expired, "")

	// Revoked and past its end: what an operator did says more.
	revoked := b.token(t)
	_, err := b.store.JoinTokenRevoke(t.Context(), operator, pki.JoinTokenRevokeInput{TenantID: tenant, JoinTokenID: revoked.Token.ID})
	require.NoError(t, err)
	b.exec(t, `update join_tokens set created_at = now() - interval '1 hour', expires_at = now() - interval '1 second' where id = $1`, revoked.Token.ID)
	add(pki.TokenRevoked, known, revoked, its)

	guessed, err := wire.NewToken(b.token(t).Token.ID)
	require.NoError(t, err)
	add(pki.TokenWrongSecret, known, pki.JoinTokenCreated{Token: pki.JoinToken{ID: guessed.ID()}, Secret: guessed.Text()}, its)

	add(pki.TokenOtherPool, known, b.tokenFor(t, b.newPool(t, "second")), its)

	bound, err := b.store.JoinTokenCreate(t.Context(), operator, pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool, NodeID: its})
	require.NoError(t, err)
	add(pki.TokenOtherNode, stranger, bound, its).boundTo = its

	taken := newMachine(t, "taken")
	old := b.joined(t, taken).NodeID
	before := b.token(t)
	b.exec(t, `update node_certs set state = 'REVOKED', ended_at = clock_timestamp(), ended_by = 'alex', reason = 'stolen' where node_id = $1`, old)
	b.exec(t, `update nodes set credential = 'REVOKED', credential_since = clock_timestamp() where id = $1`, old)
	add(pki.TokenOutdated, taken, before, old)
	return all
}

// elsewhere is the store of another gateway on the same database.
func (b *bundle) elsewhere(t *testing.T) *pki.Store {
	t.Helper()
	s := &pki.Store{DB: b.db, Authority: b.store.Authority, Nodes: b.store.Nodes, Issuer: b.issuer, Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { s.Told(context.WithoutCancel(t.Context())) })
	return s
}

func TestRefusedTokensAreTold(t *testing.T) {
	t.Parallel()
	t.Run("each cause is one event that says the truth, and nothing else moves", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		all := b.refusable(t)
		const state = `select jsonb_build_object('tokens', (select jsonb_agg(to_jsonb(x) order by id) from join_tokens x),
			'nodes', (select jsonb_agg(to_jsonb(x) order by id) from nodes x), 'certs', (select jsonb_agg(to_jsonb(x) order by serial) from node_certs x),
			'keys', (select jsonb_agg(to_jsonb(x) order by fingerprint) from identity_keys x),
			'events', (select jsonb_agg(to_jsonb(x) order by position) from events x where type <> 'security.join-token.refused'))`
		before := one[map[string]any](t, b, state)
		for _, s := range all {
			_, err := b.join(t, s.machine, s.secret)
			refused(t, err)
		}
		told := b.events(t, tokenRefused)
		require.Len(t, told, len(all))
		for i, s := range all {
			require.Equal(t, string(s.cause), told[i]["cause"])
			require.Equal(t, s.tokenID, told[i]["joinTokenId"], s.cause)
			require.Equal(t, wire.Fingerprint(s.machine.public()), told[i]["key"], s.cause)
			require.Equal(t, s.machine.print.MachineID, told[i]["print"].(map[string]any)["machineId"], s.cause)
			require.Equal(t, "host-"+s.machine.print.MachineID, told[i]["hostname"], s.cause)
			require.Equal(t, one[string](t, b, `select pool_id from join_tokens where id = $1`, s.tokenID), told[i]["poolId"], s.cause)
			require.Equal(t, s.nodeID, one[string](t, b, `select coalesce(node_id, '') from events where type = $1 order by position offset $2 limit 1`, tokenRefused, i), s.cause)
			if s.boundTo == "" {
				require.NotContains(t, told[i], "boundTo", s.cause)
			} else {
				require.Equal(t, s.boundTo, told[i]["boundTo"], s.cause)
			}
		}
		require.Equal(t, before, one[map[string]any](t, b, state))
		require.True(t, one[bool](t, b, `select bool_and(full_for = '{acme}' and reduced_for = '{}') from events where type = $1`, tokenRefused), "for the owner alone")
	})
	t.Run("another tenant's node is not named to the token's owner", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var foreign node.Pool
		_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			foreign, err = node.CreatePoolTx(ctx, tx, "other", "theirs")
			return err
		})
		require.NoError(t, err)
		made, err := b.store.JoinTokenCreate(t.Context(), operator, pki.JoinTokenCreateInput{TenantID: "other", PoolID: foreign.ID})
		require.NoError(t, err)
		m := newMachine(t, "m1")
		_, err = b.join(t, m, made.Secret)
		require.NoError(t, err)
		m.newKey(t)
		_, err = b.join(t, m, b.token(t).Secret)
		refused(t, err)
		told := b.events(t, tokenRefused)
		require.Len(t, told, 1)
		require.Equal(t, "OTHER_POOL", told[0]["cause"])
		require.True(t, one[bool](t, b, `select node_id is null from events where type = $1`, tokenRefused))
	})
	t.Run("once an hour for each token and cause, by the database's clock", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		all := b.refusable(t)
		again := func() {
			t.Helper()
			for _, s := range all {
				for range 3 {
					_, err := b.join(t, s.machine, s.secret)
					refused(t, err)
					b.store.Told(t.Context())
				}
			}
		}
		again()
		require.Len(t, b.events(t, tokenRefused), len(all))
		b.exec(t, `update join_token_refusals set told_at = told_at - interval '59 minutes'`)
		again()
		require.Len(t, b.events(t, tokenRefused), len(all), "the hour is not over")
		b.exec(t, `update join_token_refusals set told_at = told_at - interval '61 seconds'`)
		again()
		require.Len(t, b.events(t, tokenRefused), 2*len(all))

		// Another cause of the same token is another event, in the same hour.
		guessed, err := wire.NewToken(all[0].tokenID)
		require.NoError(t, err)
		_, err = b.join(t, all[0].machine, guessed.Text())
		refused(t, err)
		require.Len(t, b.events(t, tokenRefused), 2*len(all)+1)
		require.Equal(t, 2, one[int](t, b, `select count(*) from join_token_refusals where token_id = $1`, all[0].tokenID))
	})
	t.Run("two gateways that refuse it at the same moment write one event, and neither lets the machine wait for it", func(t *testing.T) {
		t.Parallel()
		for _, thirdTells := range []bool{false, true} {
			b := setup(t)
			s := b.refusable(t)[0]
			other := b.elsewhere(t)
			tx, err := b.db.Pool().Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), `insert into join_token_refusals values ($1, $2, clock_timestamp())`, s.tokenID, s.cause)
			require.NoError(t, err)
			for _, store := range []*pki.Store{b.store, other} {
				_, err := store.Join(t.Context(), s.machine.request(s.secret), s.machine.exporter)
				refused(t, err) // while neither can write
			}
			require.Eventually(t, func() bool {
				var waiting int
				err := b.db.Pool().QueryRow(t.Context(),
					`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting)
				return err == nil && waiting == 2
			}, 20*time.Second, 5*time.Millisecond, "both wait for the row")
			want := 1
			if thirdTells {
				want = 0
				require.NoError(t, tx.Commit(t.Context()))
			} else {
				require.NoError(t, tx.Rollback(t.Context()))
			}
			other.Told(t.Context())
			require.Len(t, b.events(t, tokenRefused), want)
		}
	})
	t.Run("a storm at two gateways is one event", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		all := b.refusable(t)
		stores := []*pki.Store{b.store, b.elsewhere(t)}
		var wg sync.WaitGroup
		for i := range 200 {
			s := all[i%len(all)]
			m := &machine{identity: s.machine.identity, print: s.machine.print, exporter: s.machine.exporter, csr: s.machine.csr}
			wg.Go(func() {
				if _, err := stores[i%3%2].Join(t.Context(), m.request(s.secret), m.exporter); err == nil {
					t.Errorf("%s was let in", s.cause)
				}
			})
		}
		wg.Wait()
		stores[1].Told(t.Context())
		require.Len(t, b.events(t, tokenRefused), len(all))
	})
	t.Run("a fault while it is written changes no answer and leaves nothing, and the next refusal is told", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		all := b.refusable(t)
		used := b.token(t)
		_, err := b.join(t, newMachine(t, "m0"), used.Secret)
		require.NoError(t, err)
		again := func() {
			t.Helper()
			for _, s := range all {
				_, err := b.join(t, s.machine, s.secret)
				refused(t, err)
			}
			_, err := b.join(t, newMachine(t, "thief"), used.Secret)
			refused(t, err)
		}
		for _, fault := range []string{
			`raise exception 'disk full'`, `perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(10)`,
		} {
			b.exec(t, `create or replace function fail() returns trigger language plpgsql as $$ begin
				if new.type like 'security.join-token.%' then `+fault+`; end if; return new; end $$`)
			b.exec(t, `create or replace trigger fail before insert on events for each row execute function fail()`)
			again()
			require.Empty(t, b.events(t, tokenRefused), fault)
			require.Empty(t, b.events(t, "security.join-token.reused"), fault)
			require.Zero(t, one[int](t, b, `select count(*) from join_token_refusals`), fault)
			require.True(t, one[bool](t, b, `select reuse_seen_at is null from join_tokens where id = $1`, used.Token.ID), fault)
		}
		b.exec(t, `drop trigger fail on events`)
		again()
		require.Len(t, b.events(t, tokenRefused), len(all))
		require.Len(t, b.events(t, "security.join-token.reused"), 1)
	})
	t.Run("nobody is told of a token that nobody made, and of one that is used up only that it was shown again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		unknown, err := wire.NewToken(id.New(id.JoinToken))
		require.NoError(t, err)
		used := b.token(t)
		_, err = b.join(t, newMachine(t, "m0"), used.Secret)
		require.NoError(t, err)
		for _, secret := range []string{unknown.Text(), used.Secret, "bcj_x", used.Secret[:40]} {
			_, err := b.join(t, newMachine(t, "m1"), secret)
			refused(t, err)
		}
		require.Len(t, b.events(t, "security.join-token.reused"), 1)
		require.Empty(t, b.events(t, tokenRefused))
		require.Zero(t, one[int](t, b, `select count(*) from join_token_refusals`))
	})
	t.Run("a good join by a token is not held up by the telling about a bad one, and the other way round", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		good := b.token(t)
		guessed, err := wire.NewToken(good.Token.ID)
		require.NoError(t, err)
		tx, err := b.db.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `insert into join_token_refusals values ($1, 'WRONG_SECRET', clock_timestamp())`, good.Token.ID)
		require.NoError(t, err)
		_, err = b.join(t, newMachine(t, "m1"), guessed.Text())
		refused(t, err)
		_, err = b.join(t, newMachine(t, "m2"), good.Secret)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(t.Context()))
		require.Len(t, b.events(t, tokenRefused), 1)

		next := b.token(t)
		guessed, err = wire.NewToken(next.Token.ID)
		require.NoError(t, err)
		tx, err = b.db.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `update join_tokens set used_at = now(), used_by = (select id from nodes) where id = $1`, next.Token.ID)
		require.NoError(t, err)
		_, err = b.join(t, newMachine(t, "m1"), guessed.Text())
		refused(t, err)
		require.Len(t, b.events(t, tokenRefused), 2, "while the claim is under way")
		require.NoError(t, tx.Rollback(t.Context()))
	})
	t.Run("more machines with dead tokens than one transaction at a time are all told of", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var wg sync.WaitGroup
		const rack = 100
		for i := range rack {
			expired := b.token(t)
			m := newMachine(t, fmt.Sprintf("m%d", i))
			b.exec(t, `update join_tokens set created_at = now() - interval '1 hour', expires_at = now() - interval '1 second' where id = $1`, expired.Token.ID)
			wg.Go(func() { _, _ = b.store.Join(t.Context(), m.request(expired.Secret), m.exporter) })
		}
		wg.Wait()
		require.Len(t, b.events(t, tokenRefused), rack)
	})
}
