package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

// everything is all that the database holds of a node; seen is left out, because a live session moves it.
func (b *bundle) everything(t *testing.T, nodeID string) map[string]any {
	t.Helper()
	return one[map[string]any](t, b, `select jsonb_build_object(
		'node', (select to_jsonb(n) from nodes n where id = $1),
		'certs', (select jsonb_agg(to_jsonb(c) order by serial) from node_certs c where node_id = $1),
		'keys', (select jsonb_agg(to_jsonb(k) order by fingerprint) from identity_keys k where node_id = $1),
		'sessions', (select jsonb_agg(to_jsonb(s) order by id) from node_sessions s where node_id = $1),
		'reasons', (select jsonb_agg(to_jsonb(r) order by reason) from node_reasons r where node_id = $1),
		'labels', (select jsonb_agg(to_jsonb(l) order by key) from node_labels l where node_id = $1),
		'projection', (select jsonb_agg(to_jsonb(p) order by tenant_id) from node_projection p where node_id = $1),
		'events', (select jsonb_agg(to_jsonb(e) order by position) from events e where node_id = $1))`, nodeID)
}

func (b *bundle) unused(t *testing.T, token wire.Token) {
	t.Helper()
	require.True(t, one[bool](t, b, `select used_at is null and used_by is null from join_tokens where id = $1`, token.ID()), "the token must be unused")
}

// TestRequestsRefused sends every kind of bad certificate request over a real connection, each with a good proof and a good token.
func TestRequestsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, signed := b.token(t), b.issuer.Signed.Load()
	made := func(template x509.CertificateRequest, key crypto.Signer) []byte {
		t.Helper()
		der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
		require.NoError(t, err)
		return der
	}
	ec := func(curve elliptic.Curve) *ecdsa.PrivateKey {
		t.Helper()
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		require.NoError(t, err)
		return key
	}
	p256 := ec(elliptic.P256())
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	isCA, err := asn1.Marshal(struct{ CA bool }{true})
	require.NoError(t, err)
	_, good := pkitest.CSR(t)
	forged := bytes.Clone(good)
	forged[len(forged)-1] ^= 1
	extension := func(id asn1.ObjectIdentifier, value []byte) x509.CertificateRequest {
		return x509.CertificateRequest{ExtraExtensions: []pkix.Extension{{Id: id, Critical: true, Value: value}}}
	}
	for name, csr := range map[string][]byte{
		"nothing":                 {},
		"no DER":                  []byte("-----BEGIN CERTIFICATE REQUEST-----"),
		"cut":                     good[:len(good)-1],
		"a byte more":             append(bytes.Clone(good), 0),
		"another key's signature": forged,
		"P-224":                   made(x509.CertificateRequest{}, ec(elliptic.P224())),
		"P-521":                   made(x509.CertificateRequest{}, ec(elliptic.P521())),
		"RSA":                     made(x509.CertificateRequest{}, rsaKey),
		"Ed25519":                 made(x509.CertificateRequest{}, ed),
		"a common name":           made(x509.CertificateRequest{Subject: pkix.Name{CommonName: "node"}}, p256),
		"a DNS name":              made(x509.CertificateRequest{DNSNames: []string{pki.GatewayName(b.issuer.CA.TrustDomain)}}, p256),
		"another node's URI":      made(x509.CertificateRequest{URIs: []*url.URL{{Scheme: "spiffe", Host: b.issuer.CA.TrustDomain, Path: "/node/" + id.New(id.Node)}}}, p256),
		"an extension":            made(extension(asn1.ObjectIdentifier{1, 2, 3}, []byte{5, 0}), p256),
		"CA:true":                 made(extension(asn1.ObjectIdentifier{2, 5, 29, 19}, isCA), p256),
		"a generation":            made(extension(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 59999, 1, 1}, []byte{2, 1, 9}), p256),
	} {
		m := b.newMachine(t, "csr.example")
		m.csr = csr
		status, body := m.tryJoin(t, token)
		require.Equal(t, http.StatusBadRequest, status, "D3 %s: %s", name, body)
		var refusal wire.ErrorBody
		require.NoError(t, json.Unmarshal(body, &refusal), name)
		require.Equal(t, fault.InvalidInput, refusal.Code, name)
		require.Equal(t, "csr", refusal.Details["argument"], name)
		require.NotContains(t, strings.TrimSpace(refusal.Message), "\n", name)
	}
	b.unused(t, token)
	require.Equal(t, signed, b.issuer.Signed.Load(), "nothing was signed")
	require.Zero(t, one[int](t, b, `select count(*) from nodes`))
	status, body := b.newMachine(t, "csr.example").tryJoin(t, token)
	require.Equal(t, http.StatusOK, status, string(body))
}

// A machine that sends all of 1 MB before it reads gets the answer too, and the gateway has read little of it.
func TestLongBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.token(t)
	conn, err := tls.Dial("tcp", b.address, b.tls())
	require.NoError(t, err)
	defer conn.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			wire.JoinPath, 1<<20, strings.Repeat(" ", 1<<20))
		sent <- err
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	var refusal wire.ErrorBody
	require.NoError(t, json.NewDecoder(res.Body).Decode(&refusal))
	require.Equal(t, "body", refusal.Details["argument"])
	require.NoError(t, conn.Close())
	<-sent
	b.unused(t, token)
}

// answerTo sends a join's body over a connection and gives every byte that comes back until it closes, but for the hour on the wall.
func answerTo(t *testing.T, conn *tls.Conn, body []byte) string {
	t.Helper()
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", wire.JoinPath, len(body), body)
	require.NoError(t, err)
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	return regexp.MustCompile(`(?m)^Date: .*\r\n`).ReplaceAllString(string(all), "")
}

// TestOneRefusal shows every token that does not count at the door: whoever holds one learns nothing of why, and its owner learns the truth.
func TestOneRefusal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	created := func(in pki.JoinTokenCreateInput) wire.Token {
		t.Helper()
		in.TenantID = tenant
		made, err := b.pki.JoinTokenCreate(t.Context(), iam.System("alex"), in)
		require.NoError(t, err)
		token, err := wire.ParseToken(made.Secret)
		require.NoError(t, err)
		return token
	}
	known, taken, late := b.join(t, "known.example"), b.join(t, "taken.example"), b.newMachine(t, "late.example")
	used := b.token(t)
	status, body := b.newMachine(t, "first.example").tryJoin(t, used)
	require.Equal(t, http.StatusOK, status, string(body))
	revoked, expired, outdated, good := b.token(t), b.token(t), b.token(t), b.token(t)
	_, err := b.pki.JoinTokenRevoke(t.Context(), iam.System("alex"), pki.JoinTokenRevokeInput{TenantID: tenant, JoinTokenID: revoked.ID()})
	require.NoError(t, err)
	b.exec(t, `update join_tokens set created_at = now() - interval '1 hour', expires_at = now() - interval '1 second' where id = $1`, expired.ID())
	b.exec(t, `update node_certs set state = 'REVOKED', ended_at = clock_timestamp(), ended_by = 'alex', reason = 'stolen' where node_id = $1`, taken.nodeID)
	b.exec(t, `update nodes set credential = 'REVOKED', credential_since = clock_timestamp() where id = $1`, taken.nodeID)
	var second node.Pool
	_, err = b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		second, err = node.CreatePoolTx(ctx, tx, tenant, "second")
		return err
	})
	require.NoError(t, err)
	elsewhere := created(pki.JoinTokenCreateInput{PoolID: second.ID})
	bound := created(pki.JoinTokenCreateInput{PoolID: b.pool, NodeID: known.nodeID})
	unknown, err := wire.NewToken(id.New(id.JoinToken))
	require.NoError(t, err)
	guessed, err := wire.NewToken(good.ID())
	require.NoError(t, err)
	nodes := one[int](t, b, `select count(*) from nodes`)
	answers := map[string][]string{}
	shown := []struct {
		cause   string // what the owner is told: "" for nothing
		machine *machine
		token   wire.Token
		nodeID  string
	}{
		{"USED", late, used, ""},
		{"REVOKED", late, revoked, ""},
		{"EXPIRED", known, expired, known.nodeID},
		{"WRONG_SECRET", late, guessed, ""},
		{"OTHER_POOL", known, elsewhere, known.nodeID},
		{"OTHER_NODE", late, bound, known.nodeID},
		{"OUTDATED", taken, outdated, taken.nodeID},
		{"", late, unknown, ""},
		{"", late, good, ""}, // cut in copying
	}
	for range 3 { // the first of each writes an event, the others don't
		for _, s := range shown {
			conn, err := tls.Dial("tcp", b.address, b.tls())
			require.NoError(t, err)
			request := s.machine.request(t, s.token, conn)
			if s.token == good {
				request = bytes.Replace(request, []byte(good.Text()), []byte(good.Text()[:40]), 1)
			}
			answer := answerTo(t, conn, request)
			answers[answer] = append(answers[answer], s.cause)
			require.NoError(t, conn.Close())
		}
	}
	require.Len(t, answers, 1, "one answer to all of them, byte for byte")
	for answer := range answers {
		require.Contains(t, answer, "HTTP/1.1 401 ")
		require.Contains(t, answer, "ask for a new one")
	}
	require.Equal(t, nodes, one[int](t, b, `select count(*) from nodes`))
	for _, token := range []wire.Token{good, bound, elsewhere, outdated} {
		b.unused(t, token)
	}
	b.pki.Told(t.Context())
	told := 0
	for _, s := range shown {
		switch s.cause {
		case "":
		case "USED":
			require.Equal(t, 1, one[int](t, b, `select count(*) from events where type = 'security.join-token.reused' and data ->> 'joinTokenId' = $1`, s.token.ID()))
		default:
			told++
			require.Equal(t, s.cause+" "+s.machine.hostname+" "+s.nodeID, one[string](t, b, `
				select string_agg(concat_ws(' ', data ->> 'cause', data ->> 'hostname', coalesce(node_id, '')), ', ') from events
				where type = 'security.join-token.refused' and data ->> 'joinTokenId' = $1`, s.token.ID()))
		}
	}
	require.Equal(t, told, one[int](t, b, `select count(*) from events where type = 'security.join-token.refused'`))
}

func TestClaims(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("D15 over the wire: another node's public identity, its name and its print are claims; nothing of that node moves", func(t *testing.T) {
		t.Parallel()
		victim := b.join(t, "d15.example")
		l := victim.open(t)
		before := b.everything(t, victim.nodeID)

		token := b.token(t)
		conn, err := tls.Dial("tcp", b.address, b.tls())
		require.NoError(t, err)
		thief := b.newMachine(t, victim.hostname)
		thief.print = victim.print
		var request wire.JoinRequest
		require.NoError(t, json.Unmarshal(thief.request(t, token, conn), &request))
		request.IdentityKey = victim.identity.Public().(ed25519.PublicKey) // signed by the thief's own
		text, err := json.Marshal(request)
		require.NoError(t, err)
		status, body := post(t, conn, "application/json", text)
		require.Equal(t, http.StatusUnauthorized, status, string(body))
		b.unused(t, token)
		require.Equal(t, before, b.everything(t, victim.nodeID))

		// By its own identity it is a new node, whatever it calls itself.
		status, body = thief.tryJoin(t, token)
		require.Equal(t, http.StatusOK, status, string(body))
		thief.joined(t, body)
		require.NotEqual(t, victim.nodeID, thief.nodeID)
		thief.open(t).leave(t)
		require.Equal(t, before, b.everything(t, victim.nodeID))
		l.beat(t, 1)
		require.Equal(t, uint64(1), l.next(t).GetBeatAck().GetSeq(), "its session goes on")
		l.leave(t)
	})

	t.Run("I1 a foreign key with a node's public certificate, again and again while its session is up: no row, count, session or event moves", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "i1.example")
		l := m.open(t)
		before := b.everything(t, m.nodeID)
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		settings := b.tls()
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: m.certificate.Certificate, PrivateKey: key}, nil
		}
		for range 20 {
			conn, err := tls.Dial("tcp", b.address, settings)
			if err == nil {
				_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: gateway\r\n\r\n", wire.SessionPath)
				var got [1]byte
				_, err = conn.Read(got[:])
				_ = conn.Close()
			}
			require.Error(t, err)
		}
		require.Equal(t, before, b.everything(t, m.nodeID))
		l.beat(t, 1)
		require.Equal(t, uint64(1), l.next(t).GetBeatAck().GetSeq(), "its session goes on")
		l.leave(t)
		m.open(t).leave(t)
	})
}

// Until its certificate ends a session goes on, and then no longer.
func TestCertificateEndsAtItsEnd(t *testing.T) {
	t.Parallel()
	const left = 2 * time.Second
	b := setup(t, func(c *gateway.Config) { c.Identities = mortal{c.Identities, left} })
	m := b.join(t, "d18.example")
	began := time.Now()
	l := m.open(t)
	opened := time.Now()
	asked := 0
	pace := time.NewTicker(20 * time.Millisecond) // more would be a flood
	defer pace.Stop()
	for seq := uint64(1); ; seq++ {
		<-pace.C
		require.Less(t, time.Since(opened), left+patience/3, "D18 not long after")
		l.beat(t, seq)
		down := l.next(t)
		if down.GetRenewNow() != nil {
			asked++
			down = l.next(t)
		}
		if closing := down.GetClose(); closing != nil {
			require.Equal(t, wire.Close_EXPIRED, closing.GetReason(), "D18")
			break
		}
		require.NotNil(t, down.GetBeatAck())
	}
	require.GreaterOrEqual(t, time.Since(began), left, "D18 not before")
	require.Equal(t, 1, asked, "D18 asked before, once")
}
