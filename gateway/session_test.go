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
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
	"github.com/better-compute/better-compute/placement"
)

func TestSession(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("a machine joins, connects, and the node is CONNECTED with what its Hello said", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n1.example")
		require.Equal(t, node.Pending, one[node.Connectivity](t, b, `select connectivity from nodes where id = $1`, m.nodeID))
		l := m.open(t)
		b.isNow(t, m.nodeID, node.Connected)
		told := b.told(t, m.nodeID, "node.connected")
		require.Equal(t, b.config.ID, told["gateway"])
		require.Equal(t, "boot-1", told["bootId"])
		require.Equal(t, "1.0.0", told["agentVersion"])
		require.Contains(t, told, "clockSkewMs")
		sessions, err := liveness.SessionsOf(t.Context(), b.db.Pool(), []string{m.nodeID})
		require.NoError(t, err)
		s := sessions[m.nodeID]
		require.Equal(t, told["sessionId"], s.ID)
		require.Equal(t, int64(1), s.Number)
		require.Nil(t, s.EndedAt)
		require.Less(t, time.Duration(s.ClockSkewMs)*time.Millisecond, time.Minute)
		l.leave(t)
	})

	t.Run("C8 bcd is stopped: DISCONNECTED, and nothing else moves", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n2.example")
		l := m.open(t)
		l.send(t, inventory())
		b.until(t, "the node must be adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, m.nodeID)
		before := mustNode(t, b, m.nodeID)
		l.leave(t)
		b.isNow(t, m.nodeID, node.Disconnected)
		after := mustNode(t, b, m.nodeID)
		require.Equal(t, node.AxisConnectivity, node.Moved(before, after))
		require.Equal(t, before.Version, after.Version)
		require.Equal(t, liveness.EndedByNode, b.told(t, m.nodeID, "node.disconnected")["reason"])
		require.NotNil(t, one[*time.Time](t, b, `select disconnected_at from node_sessions where node_id = $1`, m.nodeID))
	})

	t.Run("a connection that breaks is DISCONNECTED too", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n3.example")
		l := m.open(t)
		require.NoError(t, l.CloseNow())
		b.isNow(t, m.nodeID, node.Disconnected)
		require.Equal(t, liveness.EndedLost, b.told(t, m.nodeID, "node.disconnected")["reason"])
	})

	t.Run("the newest session wins, and the end of the old one changes nothing", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n4.example")
		old := m.open(t)
		fresh := m.open(t)
		require.Equal(t, wire.Close_SUPERSEDED, old.closed(t).GetReason())
		fresh.beat(t, 1)
		require.Equal(t, uint64(1), fresh.next(t).GetBeatAck().GetSeq())
		_, err := wire.ReadDown(t.Context(), old.Conn)
		require.Error(t, err, "the old connection must be gone")
		require.Equal(t, int64(2), one[int64](t, b, `select number from node_sessions where node_id = $1 and disconnected_at is null`, m.nodeID))
		// The end of an old session, told late, is passed over.
		sessions := &liveness.Store{DB: b.db, Nodes: b.nodes}
		require.NoError(t, sessions.End(t.Context(), []liveness.Ended{{NodeID: m.nodeID, SessionID: "ses_old", Number: 1, Reason: liveness.EndedLost}}))
		require.Equal(t, node.Connected, one[node.Connectivity](t, b, `select connectivity from nodes where id = $1`, m.nodeID))
		require.Equal(t, []string{"node.connected", "node.connected"}, without(b.history(t, m.nodeID), "node.joined"))
		fresh.leave(t)
		b.isNow(t, m.nodeID, node.Disconnected)
	})

	t.Run("beats are acknowledged, touch memory, and reach the database by the flush alone", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n5.example")
		l := m.open(t)
		seen := one[time.Time](t, b, `select last_seen from node_liveness where node_id = $1`, m.nodeID)
		for seq := uint64(1); seq <= 3; seq++ {
			l.beat(t, seq)
			require.Equal(t, seq, l.next(t).GetBeatAck().GetSeq())
		}
		b.until(t, "the age must be flushed", `select last_seen > $2 from node_liveness where node_id = $1`, m.nodeID, seen)
		last, err := liveness.SessionsOf(t.Context(), b.db.Pool(), []string{m.nodeID, "node_none"})
		require.NoError(t, err)
		require.Len(t, last, 1)
		require.True(t, last[m.nodeID].LastSeen.After(seen))
		require.Equal(t, []string{"node.connected"}, without(b.history(t, m.nodeID), "node.joined"))
		l.leave(t)
	})

	t.Run("a node that was given up comes back: the reason goes, and it is told", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n6.example")
		b.exec(t, `update nodes set connectivity = 'UNREACHABLE', connectivity_since = now() where id = $1`, m.nodeID)
		b.exec(t, `insert into node_reasons (node_id, reason, owner, since) values ($1, 'unreachable', 'liveness', now()), ($1, 'taint:unreachable', 'operator', now())`, m.nodeID)
		l := m.open(t)
		reasons := `select array_agg(reason order by reason) from node_reasons where node_id = $1`
		require.Equal(t, []string{"taint:unreachable", "unreachable"}, one[[]string](t, b, reasons, m.nodeID), "C7 Hello alone is not enough")
		require.Equal(t, []string{"node.connected"}, without(b.history(t, m.nodeID), "node.joined"))
		l.send(t, &wire.Up{Body: &wire.Up_Inventory{Inventory: &wire.Inventory{}}})
		b.until(t, "C7 with its inventory it is back", `select not exists (select from node_reasons where node_id = $1 and reason = 'unreachable')`, m.nodeID)
		require.Equal(t, []string{"taint:unreachable"}, one[[]string](t, b, reasons, m.nodeID), "A3")
		require.Contains(t, b.history(t, m.nodeID), "node.reconnected")
		require.Equal(t, "UNREACHABLE", b.told(t, m.nodeID, "node.reconnected")["was"])
		l.leave(t)
	})

	t.Run("what runs on the node is stored when it is told", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n7.example")
		l := m.open(t)
		l.send(t, &wire.Up{Body: &wire.Up_Report{Report: &wire.Report{Known: true, RunningDeviceUuids: []string{"GPU-2", "GPU-1"}}}})
		b.until(t, "the report must be stored", `select devices = '{GPU-1,GPU-2}' and known and session_number = 1 from node_running where node_id = $1`, m.nodeID)
		l.send(t, &wire.Up{Body: &wire.Up_Report{Report: &wire.Report{Known: true}}})
		b.until(t, "the set must become empty", `select devices = '{}' from node_running where node_id = $1`, m.nodeID)
		confirmed := func() bool {
			var ok bool
			batch := &pgx.Batch{}
			liveness.QueueConfirmsEmpty(batch, m.nodeID, &ok)
			require.NoError(t, b.db.Pool().SendBatch(t.Context(), batch).Close())
			return ok
		}
		require.True(t, confirmed())
		l.leave(t)
		b.isNow(t, m.nodeID, node.Disconnected)
		require.False(t, confirmed(), "a session that ended confirms nothing")
	})

	t.Run("a certificate is renewed over the session, and the next session uses it", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n8.example")
		l := m.open(t)
		key, csr := pkitest.CSR(t)
		l.send(t, &wire.Up{Body: &wire.Up_Renew{Renew: &wire.Renew{Csr: csr}}})
		chain := l.next(t).GetRenewed().GetChainPem()
		require.NotEmpty(t, chain)
		old := m.certificate
		m.certificate = tls.Certificate{PrivateKey: key, Certificate: chainOf(t, string(chain))}
		fresh := m.open(t)
		require.Equal(t, wire.Close_SUPERSEDED, l.closed(t).GetReason())
		_, status, refusal := m.dial(t, old)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, wire.ReasonSuperseded, refusal.Details["reason"])
		fresh.leave(t)
	})

	t.Run("a machine that uses its new certificate and then says no Hello is disconnected, not forgotten as connected", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n17.example")
		l := m.open(t)
		key, csr := pkitest.CSR(t)
		l.send(t, &wire.Up{Body: &wire.Up_Renew{Renew: &wire.Renew{Csr: csr}}})
		chain := l.next(t).GetRenewed().GetChainPem()
		_, status, _ := m.dial(t, tls.Certificate{PrivateKey: key, Certificate: chainOf(t, string(chain))})
		require.Equal(t, http.StatusSwitchingProtocols, status)
		require.Equal(t, wire.Close_SUPERSEDED, l.closed(t).GetReason())
		b.isNow(t, m.nodeID, node.Disconnected)
		require.Equal(t, liveness.EndedSuperseded, b.told(t, m.nodeID, "node.disconnected")["reason"])
	})

	t.Run("whose session it is stands in the certificate, whatever a Hello says", func(t *testing.T) {
		t.Parallel()
		a, other := b.join(t, "n9.example"), b.join(t, "n10.example")
		l := a.open(t, func(h *wire.Hello) {
			h.Hostname, h.Print = other.hostname, &wire.Print{MachineId: other.print.MachineID, BootId: other.print.BootID}
		})
		b.isNow(t, a.nodeID, node.Connected)
		require.Equal(t, node.Pending, one[node.Connectivity](t, b, `select connectivity from nodes where id = $1`, other.nodeID))
		l.leave(t)
	})

	t.Run("D19 a Hello that names node B over node A's certificate is refused and told; neither node is touched", func(t *testing.T) {
		t.Parallel()
		a, other := b.join(t, "d19a.example"), b.join(t, "d19b.example")
		const state = `select jsonb_agg(to_jsonb(n) order by id) from nodes n where id = any($1)`
		before := one[[]map[string]any](t, b, state, []string{a.nodeID, other.nodeID})
		for range 3 {
			l, status, _ := a.dial(t, a.certificate)
			require.Equal(t, http.StatusSwitchingProtocols, status)
			l.send(t, &wire.Up{Body: &wire.Up_Hello{Hello: &wire.Hello{BootId: "boot-1", NodeId: other.nodeID}}})
			require.Equal(t, wire.Close_PROTOCOL, l.next(t).GetClose().GetReason(), "no Welcome comes first")
			_ = l.CloseNow()
		}
		require.Equal(t, before, one[[]map[string]any](t, b, state, []string{a.nodeID, other.nodeID}))
		require.Equal(t, 0, one[int](t, b, `select count(*) from node_sessions where node_id = any($1)`, []string{a.nodeID, other.nodeID}))
		require.Equal(t, 1, count(b.history(t, a.nodeID), "security.node.identity-mismatch"), "one an hour, however often it tries")
		require.Equal(t, other.nodeID, b.told(t, a.nodeID, "security.node.identity-mismatch")["claimed"])
		require.Equal(t, []string{"node.joined"}, b.history(t, other.nodeID))
		l := a.open(t, func(h *wire.Hello) { h.NodeId = a.nodeID })
		l.leave(t)
	})

	t.Run("a name that is none and odd text do not get in", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n11.example")
		l := m.open(t, func(h *wire.Hello) {
			h.Hostname, h.AgentVersion, h.BootId = "no name\n", "1\x00"+strings.Repeat("x", 500), "b\r\n"
			h.ClockUnixMs = -1 << 63
		})
		require.Equal(t, "n11.example", one[string](t, b, `select hostname from nodes where id = $1`, m.nodeID))
		require.Equal(t, 63, len(one[string](t, b, `select agent_version from node_sessions where node_id = $1`, m.nodeID)))
		l.leave(t)
	})
}

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

// mortal lets in with a certificate that ends soon.
type mortal struct {
	gateway.Identities
	left time.Duration
}

func (m mortal) Admit(ctx context.Context, leaf *x509.Certificate) (pki.Verdict, error) {
	v, err := m.Identities.Admit(ctx, leaf)
	v.NotAfter = time.Now().Add(m.left)
	return v, err
}

func TestCertificateEnds(t *testing.T) {
	t.Parallel()
	t.Run("D18 a certificate that nears its end: the machine is asked to renew, and the session closes at the end", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *gateway.Config) { c.Identities = mortal{c.Identities, 2 * time.Second} })
		m := b.join(t, "n1.example")
		l := m.open(t)
		began := time.Now()
		require.NotNil(t, l.next(t).GetRenewNow(), "it must be asked before the end")
		require.Less(t, time.Since(began), 2*time.Second)
		require.Equal(t, wire.Close_EXPIRED, l.closed(t).GetReason())
		_ = l.CloseNow()
		b.isNow(t, m.nodeID, node.Disconnected)
		require.Equal(t, liveness.EndedExpired, b.told(t, m.nodeID, "node.disconnected")["reason"])
	})
}

func TestSilence(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) { c.Lease = 400 * time.Millisecond })
	m := b.join(t, "n1.example")
	_ = m.open(t)
	b.isNow(t, m.nodeID, node.Disconnected)
	require.Equal(t, liveness.EndedSilent, b.told(t, m.nodeID, "node.disconnected")["reason"])
}

func TestInventory(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("inventory is stored, gives labels, and has the node adopted", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n1.example")
		l := m.open(t)
		require.Equal(t, node.Adopting, one[node.ProvisionState](t, b, `select provision_state from nodes where id = $1`, m.nodeID))
		b.exec(t, `insert into node_labels (node_id, key, value, source) values
			($1, 'rack', 'b7', 'OPERATOR'), ($1, 'gpu.model', 'mine', 'OPERATOR'), ($1, 'bc.dev/gpu', 'yes', 'SYSTEM'), ($1, 'os.name', 'set', 'SYSTEM'),
			($1, 'old', 'x', 'INVENTORY')`, m.nodeID)
		l.send(t, inventory())
		b.until(t, "the node must be adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, m.nodeID)
		labels := map[string]string{}
		for _, label := range mustNode(t, b, m.nodeID).Labels {
			labels[label.Key] = string(label.Source) + " " + label.Value
		}
		require.Equal(t, map[string]string{
			"rack": "OPERATOR b7", "bc.dev/gpu": "SYSTEM yes", "os.name": "SYSTEM set", "gpu.model": "INVENTORY NVIDIA-A100-SXM4-40GB",
			"gpu.count": "INVENTORY 1", "gpu.memory.gib": "INVENTORY 40", "gpu.driver": "INVENTORY 570.1", "cpu.arch": "INVENTORY amd64",
			"cpu.model": "INVENTORY EPYC-7543-32-cores", "cpu.cores": "INVENTORY 32", "cpu.threads": "INVENTORY 64", "cpu.sockets": "INVENTORY 1",
			"mem.gib": "INVENTORY 63", "kernel.version": "INVENTORY 6.1.0", "os.version": "INVENTORY 12", "system.vendor": "INVENTORY Maker",
			"system.model": "INVENTORY M-1",
		}, labels)
		require.Equal(t, []string{"node.connected", "node.inventory", "node.labeled", "node.adopted"}, without(b.history(t, m.nodeID), "node.joined"))
		require.Equal(t, map[string]any{"gpu.model": "mine"}, b.told(t, m.nodeID, "node.labeled")["displaced"])
		found, err := health.InventoryOf(t.Context(), b.db.Pool(), []string{m.nodeID})
		require.NoError(t, err)
		i := found[m.nodeID]
		require.False(t, i.Stale)
		require.Equal(t, node.Text("Debian 12"), i.OS)
		require.Equal(t, 64, *i.CPUThreads)
		require.Equal(t, node.Text("67345000000"), i.MemoryBytes)
		require.Equal(t, []health.Gpu{{UUID: "GPU-1", Model: "NVIDIA A100-SXM4-40GB", MemoryBytes: fmt.Sprint(40 << 30)}}, i.GPUs)
		require.Len(t, i.Roots, 1)
		require.Equal(t, []any{"/", "ext4", int64(1 << 40)}, []any{i.Roots[0].Path, i.Roots[0].FsType, i.Roots[0].SizeBytes})
		require.Nil(t, i.Roots[0].MissingSince)

		l.leave(t)
		b.isNow(t, m.nodeID, node.Disconnected)
		found, err = health.InventoryOf(t.Context(), b.db.Pool(), []string{m.nodeID})
		require.NoError(t, err)
		require.True(t, found[m.nodeID].Stale, "an inventory of a session that ended is stale")

		version := mustNode(t, b, m.nodeID).Version
		l = m.open(t)
		l.send(t, inventory())
		b.until(t, "the inventory must be of the new session", `select session_number = 2 from node_inventory where node_id = $1`, m.nodeID)
		require.Equal(t, 1, count(b.history(t, m.nodeID), "node.inventory"), "an inventory that says nothing new makes no event")
		require.Equal(t, version, mustNode(t, b, m.nodeID).Version)
		l.leave(t)
	})

	t.Run("devices and file systems are known by the hardware's own id: they outlive a restart and a join anew", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "dev1.example")
		devices := func() []placement.Device {
			t.Helper()
			got, err := placement.DevicesOf(t.Context(), b.db.Pool(), []string{m.nodeID})
			require.NoError(t, err)
			return got[m.nodeID]
		}
		roots := func() []health.StoredRoot {
			t.Helper()
			got, err := health.StorageRootsOf(t.Context(), b.db.Pool(), []string{m.nodeID})
			require.NoError(t, err)
			return got[m.nodeID]
		}
		gpu := func(uuid string, slot uint32) *wire.Gpu {
			return &wire.Gpu{Uuid: uuid, Index: slot, Model: "A100", MemoryBytes: 40 << 30, PciAddress: "0000:07:00.0"}
		}
		report := func(l *link, gpus []*wire.Gpu, systems ...*wire.FileSystem) {
			t.Helper()
			l.send(t, inventory(func(i *wire.Inventory) { i.Gpus, i.FileSystems = gpus, systems }))
		}
		root := &wire.FileSystem{Path: "/", Uuid: "fs-1", Kind: "ext4", Device: "/dev/sda1", SizeBytes: 1 << 40}
		data := &wire.FileSystem{Path: "/data", Uuid: "fs-2", Kind: "xfs", Device: "/dev/sdb1", SizeBytes: 1 << 41}
		l := m.open(t)
		report(l, []*wire.Gpu{gpu("GPU-1", 0), gpu("GPU-2", 1), gpu("GPU-2", 2), gpu("", 3)}, root, data, root)
		b.until(t, "two devices", `select count(*) = 2 from devices where node_id = $1`, m.nodeID)
		first := devices()
		require.Equal(t, "GPU-2", first[1].UUID)
		require.Equal(t, 1, first[1].Slot, "of two with one id the first counts")
		require.Equal(t, int64(40<<30), first[0].MemoryBytes)
		require.Len(t, roots(), 2)
		firstRoots := roots()
		l.leave(t)

		// The credential is lost, the identity is not: the same node, the same devices, though the driver now counts them another way.
		again := b.newMachine(t, "dev1.example")
		again.identity = m.identity
		status, body := again.tryJoin(t, b.token(t))
		require.Equal(t, http.StatusOK, status, string(body))
		again.joined(t, body)
		require.Equal(t, m.nodeID, again.nodeID)
		require.Equal(t, first, devices(), "joining anew touches none")
		l = again.open(t)
		report(l, []*wire.Gpu{gpu("GPU-2", 0), gpu("GPU-1", 1)}, root, data)
		b.until(t, "the driver's numbers have changed", `select slot = 1 from devices where node_id = $1 and uuid = 'GPU-1'`, m.nodeID)
		now := devices()
		require.Len(t, now, 2)
		require.Equal(t, first[0].FirstSeenAt, now[1].FirstSeenAt, "GPU-1 is the same device")
		require.Equal(t, firstRoots, roots())

		// A device that is gone is missing and not forgotten, and may come back.
		report(l, []*wire.Gpu{gpu("GPU-2", 0)}, root)
		b.until(t, "GPU-1 is missing", `select missing_since is not null from devices where node_id = $1 and uuid = 'GPU-1'`, m.nodeID)
		require.Nil(t, devices()[0].MissingSince)
		require.Equal(t, "/data", roots()[1].Path)
		require.NotNil(t, roots()[1].MissingSince)
		report(l, []*wire.Gpu{gpu("GPU-2", 0), gpu("GPU-1", 1)}, root, data)
		b.until(t, "GPU-1 is back", `select missing_since is null from devices where node_id = $1 and uuid = 'GPU-1'`, m.nodeID)
		require.Equal(t, now, devices())
		require.Equal(t, firstRoots, roots())
		l.leave(t)

		// The same hardware under another node is that node's.
		other := b.join(t, "dev2.example")
		l = other.open(t)
		report(l, []*wire.Gpu{gpu("GPU-1", 0)}, root)
		b.until(t, "one device", `select count(*) = 1 from devices where node_id = $1`, other.nodeID)
		require.Equal(t, now, devices())
		l.leave(t)
	})

	t.Run("D21 a machine whose clock is off joins and connects; it waits, with the skew as its condition, and is adopted when the clock is right", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n2.example")
		l := m.open(t, func(h *wire.Hello) { h.ClockUnixMs = 0 })
		l.send(t, inventory())
		b.until(t, "the condition must come", `select owner = 'health' from node_reasons where node_id = $1 and reason = 'condition:clock-skew'`, m.nodeID)
		n := mustNode(t, b, m.nodeID)
		require.Equal(t, node.Adopting, n.ProvisionState)
		require.Contains(t, n.StatusSentence(time.Now()), "clock")
		require.Equal(t, true, b.told(t, m.nodeID, "node.condition")["active"])
		l.leave(t)
		l = m.open(t)
		l.send(t, inventory())
		b.until(t, "the node must be adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, m.nodeID)
		require.Empty(t, mustNode(t, b, m.nodeID).Reasons)
		require.Equal(t, false, b.told(t, m.nodeID, "node.condition")["active"])
		l.leave(t)
	})

	t.Run("A1 A5 a condition that comes and goes leaves cordon, maintenance, taints, operator labels and what is booked", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n3.example")
		l := m.open(t)
		l.send(t, inventory())
		b.until(t, "the node must be adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, m.nodeID)
		l.leave(t)
		b.exec(t, `update nodes set cordoned = true, cordon_by = 'alex', cordon_reason = 'bios', cordon_at = now(), maintenance = true where id = $1`, m.nodeID)
		b.exec(t, `insert into node_reasons (node_id, reason, owner, by, since) values ($1, 'taint:rma', 'operator', 'alex', now())`, m.nodeID)
		b.exec(t, `insert into node_labels (node_id, key, value, source) values ($1, 'rack', 'b7', 'OPERATOR')`, m.nodeID)
		b.exec(t, `insert into reservations (id, tenant_id, created_by, created_at) values ('res_' || right($1, 26), $2, 'alex', now())`, m.nodeID, tenant)
		b.exec(t, `insert into allocations (id, reservation_id, tenant_id, node_id, starts_at, started_at)
			values ('alloc_' || right($1, 26), 'res_' || right($1, 26), $2, $1, now(), now())`, m.nodeID, tenant)
		booked := func() string {
			return one[string](t, b, `select jsonb_agg(to_jsonb(a) || to_jsonb(r))::text from allocations a join reservations r on r.id = a.reservation_id where node_id = $1`, m.nodeID)
		}
		before, held := mustNode(t, b, m.nodeID), booked()
		for _, skew := range []time.Duration{-time.Hour, 0} {
			l = m.open(t, func(h *wire.Hello) { h.ClockUnixMs = time.Now().Add(skew).UnixMilli() })
			l.send(t, inventory())
			b.until(t, "the condition must come and go", `select $2 = exists (select from node_reasons where node_id = $1 and reason = 'condition:clock-skew')`,
				m.nodeID, skew != 0)
			require.Equal(t, held, booked())
			require.True(t, mustNode(t, b, m.nodeID).Cordoned() && mustNode(t, b, m.nodeID).Maintenance)
			l.leave(t)
			b.isNow(t, m.nodeID, node.Disconnected)
		}
		require.Equal(t, node.AxisConnectivity, node.Moved(before, mustNode(t, b, m.nodeID)))
	})

	t.Run("the facts of an odd machine are bounded and made sound", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n4.example")
		l := m.open(t)
		l.send(t, inventory(func(i *wire.Inventory) {
			i.Cpu.Model = "x\x00" + strings.Repeat("é", 5000)
			i.System.Hostname = "not a name\x01"
			for range 2000 {
				i.Disks = append(i.Disks, &wire.Disk{Name: "sd\x00a"})
			}
		}))
		b.until(t, "the node must be adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, m.nodeID)
		require.Equal(t, 1024, one[int](t, b, `select jsonb_array_length(facts -> 'disks') from node_inventory where node_id = $1`, m.nodeID))
		require.Equal(t, "n4.example", mustNode(t, b, m.nodeID).Hostname)
		l.leave(t)
	})
}

func mustNode(t *testing.T, b *bundle, nodeID string) *node.Node {
	t.Helper()
	v, err := b.nodes.Get(t.Context(), iam.System("test"), tenant, nodeID)
	require.NoError(t, err)
	return v.Node
}

func count(all []string, what string) int {
	n := 0
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}

func TestStop(t *testing.T) {
	t.Parallel()

	t.Run("a gateway that stops tells its sessions to go, spread over time, and ends them", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.join(t, "n1.example")
		l := m.open(t)
		closed := make(chan *wire.Close, 1)
		go func() {
			for {
				down, err := wire.ReadDown(context.WithoutCancel(t.Context()), l.Conn)
				if err != nil {
					return
				}
				if c := down.GetClose(); c != nil {
					closed <- c
				}
			}
		}()
		began := time.Now()
		require.NoError(t, b.stop())
		require.Less(t, time.Since(began), 5*time.Second)
		said := <-closed
		require.Equal(t, wire.Close_GO_AWAY, said.GetReason())
		require.Positive(t, said.GetRetryAfterMs())
		b.isNow(t, m.nodeID, node.Disconnected)
		require.Equal(t, liveness.EndedGoAway, b.told(t, m.nodeID, "node.disconnected")["reason"])
		require.Zero(t, b.gateway.Stats().Connections)
	})

	t.Run("what a killed process left open is ended when the gateway starts again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, other := b.join(t, "n1.example"), b.join(t, "n2.example")
		require.NoError(t, b.stop())
		dead := &liveness.Store{DB: b.db, Nodes: b.nodes}
		_, err := dead.Open(t.Context(), b.config.ID, []liveness.Hello{{NodeID: m.nodeID, SessionID: "ses_1", At: time.Now()}})
		require.NoError(t, err)
		_, err = dead.Open(t.Context(), "gw_elsewhere", []liveness.Hello{{NodeID: other.nodeID, SessionID: "ses_2", At: time.Now()}})
		require.NoError(t, err)
		b.start(t)
		b.isNow(t, m.nodeID, node.Disconnected)
		require.Equal(t, liveness.EndedGatewayLost, b.told(t, m.nodeID, "node.disconnected")["reason"])
		require.Equal(t, node.Connected, one[node.Connectivity](t, b, `select connectivity from nodes where id = $1`, other.nodeID), "another gateway's session is not ours")
		l := m.open(t)
		b.isNow(t, m.nodeID, node.Connected)
		l.leave(t)
	})

	t.Run("a second process under the same id makes the first one stop", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.join(t, "n1.example")
		first := b.ended
		b.start(t)
		require.ErrorIs(t, <-first, liveness.ErrTakenOver)
		l := m.open(t)
		b.isNow(t, m.nodeID, node.Connected)
		l.leave(t)
	})
}

func TestManySessions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 100
	machines := make([]*machine, n)
	links := make([]*link, n)
	var all sync.WaitGroup
	for i := range machines {
		machines[i] = b.join(t, fmt.Sprintf("n%d.example", i))
	}
	for i, m := range machines {
		all.Go(func() {
			links[i] = m.open(t)
			links[i].send(t, inventory())
			for seq := uint64(1); seq <= 5; seq++ {
				links[i].beat(t, seq)
				if links[i].next(t).GetBeatAck().GetSeq() != seq {
					t.Errorf("beat %d of %s was not acknowledged", seq, m.nodeID)
				}
			}
		})
	}
	all.Wait()
	b.until(t, "all must be adopted and connected", `select count(*) = 100 from nodes where provision_state = 'ADOPTED' and connectivity = 'CONNECTED'`)
	require.Equal(t, n, b.gateway.Stats().Sessions)
	require.Equal(t, int64(n), one[int64](t, b, `select count(*) from events where type = 'node.connected'`))
	require.Equal(t, int64(n), one[int64](t, b, `select count(*) from events where type = 'node.adopted'`))
	for _, l := range links {
		all.Go(func() { _ = l.Close(websocket.StatusNormalClosure, "") })
	}
	all.Wait()
	b.until(t, "all must be disconnected", `select count(*) = 100 from nodes where connectivity = 'DISCONNECTED'`)
	require.Eventually(t, func() bool { return b.gateway.Stats().Connections == 0 }, patience, 10*time.Millisecond)
	require.Equal(t, int64(n), one[int64](t, b, `select count(*) from events where type = 'node.disconnected'`))
}
