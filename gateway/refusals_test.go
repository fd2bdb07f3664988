package gateway_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) { c.HelloTimeout = 300 * time.Millisecond })
	a := b.join(t, "a.example")

	quiet := func(t *testing.T, m *machine) {
		t.Helper()
		require.Equal(t, int64(0), one[int64](t, b, `select count(*) from node_sessions where node_id = $1`, m.nodeID))
		require.Equal(t, []string{"node.joined"}, b.history(t, m.nodeID))
	}

	t.Run("I2 without a certificate: 401 with the reason", func(t *testing.T) {
		t.Parallel()
		_, status, refusal := a.dial(t)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, wire.ReasonUnknown, refusal.Details["reason"])
		require.NotEmpty(t, refusal.Message)
	})

	t.Run("I2 a gateway's certificate, one of another trust domain, and one that nobody recorded are refused", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "i2.example")
		server, err := b.config.GetCertificate(nil)
		require.NoError(t, err)
		foreign := pkitest.NewIssuer(t)
		for name, certificate := range map[string]tls.Certificate{"a gateway's": *server, "another authority's": signed(t, foreign, m.nodeID)} {
			settings := b.tls()
			// A certificate that the gateway does not ask for is shown all the same.
			settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
			conn, err := tls.Dial("tcp", b.address, settings)
			if err == nil {
				// TLS 1.3 tells the refusal on the first read.
				_, err = conn.Read(make([]byte, 1))
				_ = conn.Close()
			}
			require.ErrorContains(t, err, "certificate", name)
		}
		_, status, refusal := m.dial(t, signed(t, b.issuer, m.nodeID))
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, wire.ReasonUnknown, refusal.Details["reason"])
		quiet(t, m)
	})

	t.Run("I1 a node's public certificate without its key opens nothing", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "i1.example")
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		settings := b.tls()
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: m.certificate.Certificate, PrivateKey: key}, nil
		}
		conn, err := tls.Dial("tcp", b.address, settings)
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		require.Error(t, err)
		quiet(t, m)
		require.True(t, one[bool](t, b, `select first_used_at is null from node_certs where node_id = $1`, m.nodeID))
	})

	t.Run("a first frame that is no Hello, and none in time", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "h1.example")
		l, _, _ := m.dial(t, m.certificate)
		l.beat(t, 1)
		require.Equal(t, wire.Close_PROTOCOL, l.closed(t).GetReason())
		l, _, _ = m.dial(t, m.certificate)
		require.Equal(t, wire.Close_PROTOCOL, l.closed(t).GetReason())
		quiet(t, m)
	})

	t.Run("garbage, text, a long frame, a second Hello and a flood end the session", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "g1.example")
		hello := &wire.Up{Body: &wire.Up_Hello{Hello: &wire.Hello{}}}
		for name, misbehave := range map[string]func(*link) error{
			"garbage": func(l *link) error { return l.Write(t.Context(), websocket.MessageBinary, []byte{0xff, 0xff, 0xff}) },
			"text":    func(l *link) error { return l.Write(t.Context(), websocket.MessageText, []byte("{}")) },
			"too long": func(l *link) error {
				return l.Write(t.Context(), websocket.MessageBinary, make([]byte, wire.MaxFrame+1))
			},
			"oversized inventory": func(l *link) error {
				// An inventory begins with its field's tag; this one says that more than a megabyte follows.
				return l.Write(t.Context(), websocket.MessageBinary, append([]byte{0x1a, 0x80, 0x80, 0x80, 0x01}, make([]byte, wire.MaxInventory)...))
			},
			"a second Hello": func(l *link) error { return wire.WriteUp(t.Context(), l.Conn, hello) },
			"a flood": func(l *link) error {
				ping := bytes.Repeat([]byte{0}, 1)
				for range 1000 {
					if err := l.Write(t.Context(), websocket.MessageBinary, ping[:0]); err != nil {
						return nil //nolint:nilerr // it was closed, as it should
					}
				}
				return nil
			},
		} {
			l := m.open(t)
			require.NoError(t, misbehave(l), name)
			require.Equal(t, wire.Close_PROTOCOL, l.closed(t).GetReason(), name)
			_ = l.CloseNow()
			b.until(t, name+": the end must be told", `select data ->> 'reason' = 'PROTOCOL' from events where node_id = $1 order by position desc limit 1`, m.nodeID)
		}
	})

	t.Run("H2 each malformed frame ends its own session with a word and a status, and no other", func(t *testing.T) {
		t.Parallel()
		m, other := b.join(t, "h1.example"), b.join(t, "h2.example")
		bystander := other.open(t)
		for name, c := range map[string]struct {
			sent   string
			status websocket.StatusCode
		}{
			"not masked":                {"\x82\x04\x12\x02\x08\x01", websocket.StatusProtocolError},
			"an extension's bit":        {"\xc2\x80\x00\x00\x00\x00", websocket.StatusProtocolError},
			"an unknown kind":           {"\x83\x80\x00\x00\x00\x00", websocket.StatusProtocolError},
			"a continuation of nothing": {"\x80\x80\x00\x00\x00\x00", websocket.StatusProtocolError},
			"a ping in pieces":          {"\x09\x80\x00\x00\x00\x00", websocket.StatusProtocolError},
			"a wasteful length":         {"\x82\xfe\x00\x01\x00\x00\x00\x00\x00", websocket.StatusProtocolError},
			"a status that is no one's": {"\x88\x82\x00\x00\x00\x00\x00\x01", websocket.StatusProtocolError},
			"text":                      {"\x81\x82\x00\x00\x00\x00{}", websocket.StatusUnsupportedData},
			"an exabyte":                {"\x82\xff\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("x", 64), websocket.StatusMessageTooBig},
			"half a message of ours":    {"\x82\x83\x00\x00\x00\x00\x0a\x7f\x01", websocket.StatusUnsupportedData},
		} {
			l := m.open(t)
			_, err := io.WriteString(l.raw(), c.sent)
			require.NoError(t, err)
			require.Equal(t, wire.Close_PROTOCOL, l.closed(t).GetReason(), name)
			_, err = wire.ReadDown(t.Context(), l.Conn)
			require.Equal(t, c.status, websocket.CloseStatus(err), "%s: %v", name, err)
			b.until(t, name+": the end must be told", `select data ->> 'reason' = 'PROTOCOL' from events where node_id = $1 order by position desc limit 1`, m.nodeID)
		}
		bystander.beat(t, 3)
		require.Equal(t, uint64(3), bystander.next(t).GetBeatAck().GetSeq())
		bystander.leave(t)
	})

	t.Run("a machine that dies inside of a frame leaves no half of it behind", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "h3.example")
		l := m.open(t)
		frame, err := proto.Marshal(inventory())
		require.NoError(t, err)
		// The first part of a message in pieces is a whole inventory by itself; the last one never comes.
		_, err = l.raw().Write(append([]byte{0x02, 0x80 | 126, byte(len(frame) >> 8), byte(len(frame)), 0, 0, 0, 0}, frame...))
		require.NoError(t, err)
		require.NoError(t, l.raw().Close())
		b.isNow(t, m.nodeID, node.Disconnected)
		require.NotContains(t, b.history(t, m.nodeID), "node.inventory")
	})

	t.Run("frames that this gateway doesn't know are passed over", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "u1.example")
		l := m.open(t)
		require.NoError(t, l.Write(t.Context(), websocket.MessageBinary, []byte{0xfa, 0x07, 0x01, 0x61})) // field 127
		l.beat(t, 7)
		require.Equal(t, uint64(7), l.next(t).GetBeatAck().GetSeq())
		l.leave(t)
	})

	t.Run("C11 a deleted node's session is closed with that word, and no row is touched", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "d1.example")
		l := m.open(t)
		b.exec(t, `update nodes set deleted_at = now() where id = $1`, m.nodeID)
		require.Equal(t, wire.Close_DELETED, l.closed(t).GetReason())
		require.Equal(t, node.Connected, one[node.Connectivity](t, b, `select connectivity from nodes where id = $1`, m.nodeID))
		_, status, refusal := m.dial(t, m.certificate)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, wire.ReasonDeleted, refusal.Details["reason"])
	})

	t.Run("F1 a node that is deleted while it holds a session is closed, and its machine joins again by the same identity as a new one", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "d2.example")
		l := m.open(t)
		c := &controls.Controls{Nodes: b.nodes}
		edit := node.Edit{Who: iam.System("alex"), TenantID: tenant, NodeID: m.nodeID}
		_, err := c.Taint(t.Context(), edit, controls.Taints{Add: []string{"rma"}})
		require.NoError(t, err)
		_, err = c.Label(t.Context(), edit, controls.Labels{Set: map[string]string{"rack": "b7"}})
		require.NoError(t, err)
		_, err = c.Cordon(t.Context(), edit, controls.Cordoning{})
		require.NoError(t, err)
		done, err := c.Delete(t.Context(), edit)
		require.NoError(t, err)
		require.True(t, done.Deleted)
		require.Len(t, done.Warnings, 1)
		require.Equal(t, wire.Close_DELETED, l.closed(t).GetReason())
		old := m.certificate
		before := m.nodeID
		m.key, m.csr = pkitest.CSR(t)
		status, body := m.tryJoin(t, b.token(t))
		require.Equal(t, http.StatusOK, status, string(body))
		m.joined(t, body)
		require.NotEqual(t, before, m.nodeID)
		require.Equal(t, "0/0/false", one[string](t, b, `select (select count(*) from node_reasons where node_id = n.id) || '/' ||
			(select count(*) from node_labels where node_id = n.id) || '/' || n.cordoned from nodes n where n.id = $1`, m.nodeID))
		_, status, refusal := m.dial(t, old)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, wire.ReasonDeleted, refusal.Details["reason"])
		m.open(t).leave(t)
	})

	t.Run("a revoked certificate ends its session, and is refused with that word", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "r1.example")
		l := m.open(t)
		b.exec(t, `update node_certs set state = 'REVOKED', ended_at = now(), chain = null where node_id = $1`, m.nodeID)
		require.Equal(t, wire.Close_REVOKED, l.closed(t).GetReason())
		_ = l.CloseNow()
		b.isNow(t, m.nodeID, node.Disconnected)
		_, status, refusal := m.dial(t, m.certificate)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, wire.ReasonRevoked, refusal.Details["reason"])
	})

	t.Run("a raised generation ends the session", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "r2.example")
		l := m.open(t)
		b.exec(t, `update nodes set identity_generation = 2 where id = $1`, m.nodeID)
		require.Equal(t, wire.Close_REVOKED, l.closed(t).GetReason())
		_, status, refusal := m.dial(t, m.certificate)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, wire.ReasonGeneration, refusal.Details["reason"])
	})

	t.Run("a session that another gateway took over is closed here", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "s1.example")
		l := m.open(t)
		other := &liveness.Store{DB: b.db, Nodes: b.nodes}
		_, err := other.Open(t.Context(), "gw_other", []liveness.Hello{{NodeID: m.nodeID, SessionID: "ses_other", At: time.Now()}})
		require.NoError(t, err)
		require.Equal(t, wire.Close_SUPERSEDED, l.closed(t).GetReason())
		require.Equal(t, node.Connected, one[node.Connectivity](t, b, `select connectivity from nodes where id = $1`, m.nodeID))
	})
}

// signed gives a certificate for the node that was never recorded.
func signed(t *testing.T, issuer *pkitest.Issuer, nodeID string) tls.Certificate {
	t.Helper()
	key, der := pkitest.CSR(t)
	csr, err := pki.ParseCSR(der)
	require.NoError(t, err)
	chain, err := issuer.SignNode(t.Context(), csr, pki.NodeProfile{NodeID: nodeID, Generation: 1})
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{chain[0].Raw, chain[1].Raw}, PrivateKey: key}
}

// slow judges nobody in time.
type slow struct{ gateway.Identities }

func (slow) Admit(context.Context, *x509.Certificate) (pki.Verdict, error) {
	return pki.Verdict{}, fmt.Errorf("judge a certificate: %w", context.DeadlineExceeded)
}

// A machine that can't be judged now is told to come back, never that it is refused.
func TestNotJudged(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) { c.Identities = slow{c.Identities} })
	m := b.join(t, "n1.example")
	_, status, refusal := m.dial(t, m.certificate)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, fault.Unavailable, refusal.Code)
	require.Positive(t, refusal.RetryAfterMs)
	require.NotContains(t, refusal.Message, "judge")
}
