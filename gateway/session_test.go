package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
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
			var ok map[string]bool
			batch := &pgx.Batch{}
			liveness.QueueConfirmsEmpty(batch, []string{m.nodeID}, &ok)
			require.NoError(t, b.db.Pool().SendBatch(t.Context(), batch).Close())
			return ok[m.nodeID]
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
		require.NotNil(t, l.next(t).GetRenewNow(), "it must be asked before the end")
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
