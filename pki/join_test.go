package pki_test

import (
	"context"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/pki"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	t.Run("a machine becomes a node of the token's pool, with everything in one transaction", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.token(t)
		m := newMachine(t, "m1")
		a, err := b.join(t, m, token.Secret)
		require.NoError(t, err)

		require.NoError(t, id.Check(id.Node, "nodeId", a.NodeID))
		require.Equal(t, wire.Fingerprint(m.public()), a.Key)
		require.Equal(t, int64(1), a.Generation)
		require.Equal(t, b.issuer.CA.TrustDomain, a.TrustDomain)
		require.Equal(t, b.issuer.CA.RootPEM(), a.Root)
		leaf := leafOf(t, a.Certificate)
		require.True(t, m.key.PublicKey.Equal(leaf.PublicKey))
		require.Equal(t, pki.SerialText(leaf.SerialNumber), a.Serial)
		between := x509.NewCertPool()
		require.True(t, between.AppendCertsFromPEM([]byte(a.Certificate)))
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM([]byte(a.Root)))
		_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		require.NoError(t, err)

		require.Equal(t, "ADOPTING TRUSTED acme host-m1", one[string](t, b,
			`select provision_state||' '||credential||' '||owner_tenant_id||' '||hostname from nodes where id = $1 and pool_id = $2 and key = $3`, a.NodeID, b.pool, a.Key))
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_projection where tenant_id = $1 and node_id = $2 and relation = 'OWNER'`, tenant, a.NodeID))
		require.Equal(t, "ACTIVE", one[string](t, b, `select state from node_certs where serial = $1 and node_id = $2 and token_id = $3`, a.Serial, a.NodeID, token.Token.ID))
		require.Equal(t, a.NodeID, one[string](t, b, `select used_by from join_tokens where id = $1`, token.Token.ID))
		joined := b.events(t, "node.joined")
		require.Len(t, joined, 1)
		require.Equal(t, a.Serial, joined[0]["serial"])
		require.Equal(t, "m1", joined[0]["print"].(map[string]any)["machineId"])
	})
	t.Run("the proof holds for the TLS connection that it was made on and for no other", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.token(t)
		m := newMachine(t, "m1")
		here, there := connection(t, b), connection(t, b)
		m.exporter = here.client
		r := m.request(token.Secret)
		_, err := b.store.Join(t.Context(), r, there.server)
		reason(t, err, "proof")
		b.unused(t, token)
		_, err = b.store.Join(t.Context(), r, here.server)
		require.NoError(t, err)
	})
	t.Run("D1 100 concurrent joins with one token", func(t *testing.T) {
		t.Parallel()
		// One node, one certificate, one event; the 99 others all hear the same.
		b := setup(t)
		token := b.token(t)
		var wg sync.WaitGroup
		answers, errs := make([]wire.JoinAnswer, 100), make([]error, 100)
		for i := range 100 {
			m := newMachine(t, fmt.Sprintf("m%d", i))
			wg.Go(func() { answers[i], errs[i] = b.store.Join(t.Context(), m.request(token.Secret), m.exporter) })
		}
		wg.Wait()
		won := ""
		for i, err := range errs {
			if err == nil {
				require.Empty(t, won, "two machines got in by one token")
				won = answers[i].NodeID
				continue
			}
			refused(t, err)
		}
		require.NotEmpty(t, won)
		require.Equal(t, won, one[string](t, b, `select used_by from join_tokens where id = $1`, token.Token.ID))
		for _, table := range []string{"nodes", "node_certs", "identity_keys", "node_projection"} {
			require.Equal(t, 1, one[int](t, b, `select count(*) from `+table), table)
		}
		require.Len(t, b.events(t, "node.joined"), 1)
		require.Len(t, b.events(t, "security.join-token.reused"), 1, "a storm of tries is told once a minute")
	})
	t.Run("D2 the authority fails, or the transaction does: the token is unused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.token(t)
		m := newMachine(t, "m1")
		down := error(fault.New(fault.Unavailable, nil, "away"))
		b.issuer.Down.Store(&down)
		_, err := b.join(t, m, token.Secret)
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		b.unused(t, token)
		b.issuer.Down.Store(nil)

		b.exec(t, `create function fail() returns trigger language plpgsql as $$ begin raise exception 'disk full'; end $$`)
		b.exec(t, `create trigger fail before insert on node_certs for each row execute function fail()`)
		_, err = b.join(t, m, token.Secret)
		require.ErrorContains(t, err, "disk full")
		b.unused(t, token)
		require.Zero(t, one[int](t, b, `select count(*) from nodes`))
		require.Empty(t, b.events(t, "node.joined"))

		// The process dies: its connection ends in the midst of the transaction.
		b.exec(t, `create or replace function fail() returns trigger language plpgsql as $$
			begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(10); return new; end $$`)
		_, err = b.join(t, m, token.Secret)
		require.Error(t, err)
		b.unused(t, token)
		require.Zero(t, one[int](t, b, `select count(*) from nodes`))

		b.exec(t, `drop trigger fail on node_certs`)
		_, err = b.join(t, m, token.Secret)
		require.NoError(t, err)
	})
	t.Run("D2 the database's answer to the commit is lost: the machine asks again and is the one node", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		proxy := dbtest.NewProxy(t, b.db.URL())
		through, err := db.Open(t.Context(), db.Config{URL: proxy.URL(), MaxConns: 1, Strict: true})
		require.NoError(t, err)
		defer through.Close()
		token := b.token(t)
		direct := b.store.DB
		b.store.DB = through
		m := newMachine(t, "m1")
		proxy.CutAt("BEGIN CERTIFICATE", true) // stands in the batch that commits, and in nothing before it
		_, err = b.join(t, m, token.Secret)
		require.Equal(t, fault.Unavailable, fault.CodeOf(err), "%v", err)
		b.store.DB = direct
		require.Equal(t, 1, one[int](t, b, `select count(*) from nodes`), "the commit must have got through, else this shows nothing")
		a, err := b.join(t, m, token.Secret)
		require.NoError(t, err)
		require.Equal(t, a.NodeID, one[string](t, b, `select id from nodes`))
		require.Equal(t, a.Serial, one[string](t, b, `select serial from node_certs`))
		require.Len(t, b.events(t, "node.joined"), 1)
	})
	t.Run("D2 a lost answer is given again, to the same machine alone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.token(t)
		m := newMachine(t, "m1")
		first, err := b.join(t, m, token.Secret)
		require.NoError(t, err)
		m.connect(t) // another connection, another proof
		m.csr = csrWith(t, x509.CertificateRequest{}, m.key)
		again, err := b.join(t, m, token.Secret)
		require.NoError(t, err)
		sameAnswer(t, first, again)
		require.Empty(t, b.events(t, "security.join-token.reused"))

		// The same identity with another key is no lost answer, nor is another identity with the same key: refused, and told.
		other := *m
		other.newKey(t)
		_, err = b.join(t, &other, token.Secret)
		refused(t, err)
		thief := newMachine(t, "thief")
		thief.key, thief.csr = m.key, m.csr
		_, err = b.join(t, thief, token.Secret)
		refused(t, err)
		told := b.events(t, "security.join-token.reused")
		require.Len(t, told, 1)
		require.Equal(t, first.NodeID, told[0]["usedBy"])
		require.Equal(t, "m1", told[0]["firstPrint"].(map[string]any)["machineId"])
		b.exec(t, `update join_tokens set reuse_seen_at = reuse_seen_at - interval '61 seconds'`)
		_, err = b.join(t, thief, token.Secret)
		refused(t, err)
		told = b.events(t, "security.join-token.reused")
		require.Len(t, told, 2)
		require.Equal(t, wire.Fingerprint(thief.public()), told[1]["key"])
		require.Equal(t, first.Key, told[1]["firstKey"])

		// Ten minutes are the end of it, and so is the first use.
		b.exec(t, `update join_tokens set used_at = used_at - interval '10 minutes'`)
		_, err = b.join(t, m, token.Secret)
		refused(t, err)
		b.exec(t, `update join_tokens set used_at = used_at + interval '9 minutes'`)
		again, err = b.join(t, m, token.Secret)
		require.NoError(t, err)
		sameAnswer(t, first, again)
		_, err = b.store.Admit(t.Context(), leafOf(t, first.Certificate))
		require.NoError(t, err)
		_, err = b.join(t, m, token.Secret)
		refused(t, err)
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs`))
	})
	t.Run("D3 a bad body is refused before the token is claimed or anything is signed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.token(t)
		m := newMachine(t, "m1")
		for name, spoil := range map[string]func(r *wire.JoinRequest){
			"csr: no DER":                      func(r *wire.JoinRequest) { r.CSR = []byte("x") },
			"csr: a weak key":                  func(r *wire.JoinRequest) { r.CSR = csrWith(t, x509.CertificateRequest{}, key(t, elliptic.P224())) },
			"csr: names":                       func(r *wire.JoinRequest) { r.CSR = csrWith(t, x509.CertificateRequest{DNSNames: []string{"a"}}, m.key) },
			"identityKey: short":               func(r *wire.JoinRequest) { r.IdentityKey = r.IdentityKey[:31] },
			"identityKey: absent":              func(r *wire.JoinRequest) { r.IdentityKey = nil },
			"identityKey: zero":                func(r *wire.JoinRequest) { r.IdentityKey = make([]byte, 32) },
			"proof: short":                     func(r *wire.JoinRequest) { r.Proof = r.Proof[:63] },
			"hostname: empty":                  func(r *wire.JoinRequest) { r.Hostname = "" },
			"hostname: too long":               func(r *wire.JoinRequest) { r.Hostname = strings.Repeat("a", 254) },
			"hostname: a line break":           func(r *wire.JoinRequest) { r.Hostname = "a\nb" },
			"agentVersion: too long":           func(r *wire.JoinRequest) { r.AgentVersion = strings.Repeat("1", 65) },
			"print.machineId: too long":        func(r *wire.JoinRequest) { r.Print.MachineID = strings.Repeat("a", 129) },
			"print.productUuid: a line break":  func(r *wire.JoinRequest) { r.Print.ProductUUID = "a\n" },
			"print.ekHash: a control sequence": func(r *wire.JoinRequest) { r.Print.EKHash = "\x1b[31m" },
		} {
			r := m.request(token.Secret)
			spoil(&r)
			_, err := b.store.Join(t.Context(), r, m.exporter)
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err), "%s: %v", name, err)
			require.Equal(t, strings.SplitN(name, ":", 2)[0], fault.From(err).Details["argument"])
		}
		b.unused(t, token)
		require.Zero(t, b.issuer.Signed.Load())
	})
	t.Run("keys by which anybody can sign are no identities", func(t *testing.T) {
		t.Parallel()
		// With the neutral point as key, R = the neutral point and S = 0 are a signature of everything.
		b := setup(t)
		token := b.token(t)
		r := newMachine(t, "m1").request(token.Secret)
		r.IdentityKey = append([]byte{1}, make([]byte, 31)...)
		r.Proof = append(append([]byte{1}, make([]byte, 31)...), make([]byte, 32)...)
		require.True(t, ed25519.Verify(r.IdentityKey, []byte("anything"), r.Proof), "the attack must be real")
		_, err := b.store.Join(t.Context(), r, make([]byte, wire.ExporterSize))
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
		r.IdentityKey[31] |= 0x80
		_, err = b.store.Join(t.Context(), r, make([]byte, wire.ExporterSize))
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	})
	t.Run("every token that does not count is refused in the same words", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := newMachine(t, "m1")
		used := b.token(t)
		_, err := b.join(t, newMachine(t, "m0"), used.Secret)
		require.NoError(t, err)
		revoked := b.token(t)
		_, err = b.store.JoinTokenRevoke(t.Context(), operator, pki.JoinTokenRevokeInput{TenantID: tenant, JoinTokenID: revoked.Token.ID})
		require.NoError(t, err)
		expired := b.token(t)
		b.exec(t, `update join_tokens set created_at = now() - interval '1 hour', expires_at = now() - interval '1 second' where id = $1`, expired.Token.ID)
		unknown, err := wire.NewToken(id.New(id.JoinToken))
		require.NoError(t, err)
		good := b.token(t)
		other, err := wire.NewToken(good.Token.ID)
		require.NoError(t, err)
		for name, secret := range map[string]string{
			"used": used.Secret, "revoked": revoked.Secret, "expired": expired.Secret, "unknown": unknown.Text(), "another secret": other.Text(),
			"malformed": "bcj_x", "absent": "",
		} {
			_, err := b.join(t, m, secret)
			require.Error(t, err, name)
			refused(t, err)
		}
		b.unused(t, good)
		require.Equal(t, 1, one[int](t, b, `select count(*) from nodes`))
	})
	t.Run("D4 expiry is decided by the database's clock, at the claim", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.token(t)
		m := newMachine(t, "m1")
		// It runs out between the look and the claim.
		expire := func() {
			_, err := b.db.Pool().Exec(context.WithoutCancel(t.Context()),
				`update join_tokens set created_at = now() - interval '2 hours', expires_at = clock_timestamp() - interval '1 microsecond' where id = $1`, token.Token.ID)
			if err != nil {
				t.Error(err)
			}
		}
		b.issuer.during.Store(&expire)
		_, err := b.join(t, m, token.Secret)
		refused(t, err)
		b.unused(t, token)
		require.Zero(t, one[int](t, b, `select count(*) from nodes`))
		require.Positive(t, b.issuer.Signed.Load(), "the certificate was signed, and is handed to nobody")
		require.Zero(t, one[int](t, b, `select count(*) from node_certs`))
		b.issuer.during.Store(nil)

		b.exec(t, `update join_tokens set expires_at = clock_timestamp() + interval '1 minute' where id = $1`, token.Token.ID)
		_, err = b.join(t, m, token.Secret)
		require.NoError(t, err)
	})
	t.Run("D6 the secret is in no table", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.token(t)
		m := newMachine(t, "m1")
		_, err := b.join(t, m, token.Secret)
		require.NoError(t, err)
		_, err = b.join(t, newMachine(t, "m2"), token.Secret)
		refused(t, err)
		secret := token.Secret[strings.LastIndex(token.Secret, "_")+1:]
		for _, table := range []string{"join_tokens", "node_certs", "identity_keys", "nodes", "events", "requests"} {
			require.Zero(t, one[int](t, b, `select count(*) from `+table+` x where x::text like '%' || $1 || '%'`, secret), table)
		}
	})
	t.Run("D7 two loops of one agent race into joining: one node, the same bytes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.token(t)
		m := newMachine(t, "m1")
		var wg sync.WaitGroup
		answers, errs := make([]wire.JoinAnswer, 8), make([]error, 8)
		for i := range answers {
			wg.Go(func() { answers[i], errs[i] = b.store.Join(t.Context(), m.request(token.Secret), m.exporter) })
		}
		wg.Wait()
		for i := range answers {
			require.NoError(t, errs[i])
			sameAnswer(t, answers[0], answers[i])
		}
		require.Equal(t, 1, one[int](t, b, `select count(*) from nodes`))
	})
	t.Run("every join works with one connection", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		narrow, err := db.Open(t.Context(), db.Config{URL: b.db.URL(), MaxConns: 1, Strict: true})
		require.NoError(t, err)
		defer narrow.Close()
		b.store.DB, b.store.Nodes.DB = narrow, narrow
		m := newMachine(t, "m1")
		token := b.token(t)
		first, err := b.join(t, m, token.Secret)
		require.NoError(t, err)
		m.newKey(t)
		_, err = b.join(t, m, token.Secret)
		refused(t, err)
		second := b.joined(t, m)
		require.Equal(t, first.NodeID, second.NodeID)
		_, err = b.store.Admit(t.Context(), leafOf(t, second.Certificate))
		require.NoError(t, err)
	})
}

type exported struct{ client, server []byte }

// connection makes a real TLS connection to a gateway and gives the exporter values of its two ends.
func connection(t *testing.T, b *bundle) exported {
	t.Helper()
	g, err := pki.NewGatewayCertificate(t.Context(), b.issuer, b.store.Log)
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: g.GetCertificate})
	require.NoError(t, err)
	defer l.Close()
	accepted := make(chan []byte, 1)
	failed := make(chan error, 1)
	export := func(conn net.Conn) ([]byte, error) {
		c, ok := conn.(*tls.Conn)
		if !ok {
			return nil, errors.New("no TLS")
		}
		if err := c.HandshakeContext(t.Context()); err != nil {
			return nil, err
		}
		state := c.ConnectionState()
		return state.ExportKeyingMaterial(wire.JoinExporterLabel, nil, wire.ExporterSize)
	}
	go func() {
		conn, err := l.Accept()
		if err != nil {
			failed <- err
			return
		}
		defer conn.Close()
		value, err := export(conn)
		if err != nil {
			failed <- err
			return
		}
		accepted <- value
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: b.issuer.CA.RootPool(), ServerName: pki.GatewayName(b.issuer.CA.TrustDomain)})
	require.NoError(t, err)
	defer conn.Close()
	client, err := export(conn)
	require.NoError(t, err)
	select {
	case server := <-accepted:
		require.Equal(t, client, server)
		return exported{client, server}
	case err := <-failed:
		require.NoError(t, err)
		return exported{}
	}
}
