package gateway_test

import (
	"context"
	"crypto/x509"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
)

// never is a pause that no test waits for.
const never = time.Hour

// withFeed gives the gateway a feed of the test's own.
func withFeed(t *testing.T, o pki.FeedOptions) *bundle {
	t.Helper()
	return setup(t, func(c *gateway.Config) {
		o.Log = c.Log
		c.Feed = pki.NewRevocationFeed(c.Sessions.DB, o)
	})
}

const revoke = `update node_certs set state = 'REVOKED', ended_at = clock_timestamp(), ended_by = 'alex', reason = 'stolen', chain = null where node_id = $1`

func TestFeed(t *testing.T) {
	t.Parallel()

	t.Run("a revocation by another process closes the session by the log's NOTIFY, long before any look", func(t *testing.T) {
		t.Parallel()
		b := withFeed(t, pki.FeedOptions{Poll: never, Full: never})
		log := events.NewLog(b.db, events.Options{Look: never})
		b.config.Feed.Watch(log)
		running(t, log)

		// The other process has its own pool and its own log, which sends the NOTIFY.
		other, err := db.Open(t.Context(), db.Config{URL: dbtest.URL(b.db)})
		require.NoError(t, err)
		t.Cleanup(other.Close)
		running(t, events.NewLog(other, events.Options{}))

		m := b.join(t, "n1.example")
		l := m.open(t)
		_, err = other.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, revoke, m.nodeID); err != nil {
				return err
			}
			return events.Append(tx, events.Entry{
				Type: "security.test.identity-revoked", TenantID: tenant, NodeID: m.nodeID, Actor: "alex", Audience: events.Audience{Full: []string{tenant}},
			})
		})
		require.NoError(t, err)
		committed := time.Now()
		require.Equal(t, wire.Close_REVOKED, l.closed(t).GetReason())
		t.Logf("closed %s after the commit", time.Since(committed))
	})

	t.Run("a machine that joins again closes its node's old session", func(t *testing.T) {
		t.Parallel()
		b := withFeed(t, pki.FeedOptions{Poll: never, Full: never})
		log := events.NewLog(b.db, events.Options{Look: never})
		b.config.Feed.Watch(log)
		running(t, log)
		m := b.join(t, "n1.example")
		old := m.open(t)
		again := b.newMachine(t, "n1.example")
		again.identity = m.identity
		status, body := again.tryJoin(t, b.token(t))
		require.Equal(t, http.StatusOK, status, string(body))
		again.joined(t, body)
		require.Equal(t, m.nodeID, again.nodeID)
		require.Equal(t, wire.Close_REVOKED, old.closed(t).GetReason())
		l := again.open(t)
		b.isNow(t, m.nodeID, node.Connected)
		l.leave(t)
	})

	t.Run("a revocation that commits long after its row was stamped is found by the next look", func(t *testing.T) {
		t.Parallel()
		b := withFeed(t, pki.FeedOptions{Poll: 20 * time.Millisecond, Full: never})
		m := b.join(t, "n1.example")
		l := m.open(t)
		other := b.join(t, "n2.example")
		second := other.open(t)
		_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, revoke, m.nodeID); err != nil {
				return err
			}
			// Meanwhile a later-stamped one commits and is seen.
			b.exec(t, revoke, other.nodeID)
			require.Equal(t, wire.Close_REVOKED, second.closed(t).GetReason())
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, wire.Close_REVOKED, l.closed(t).GetReason())
	})

	t.Run("a certificate that is revoked between its judgement and its Hello opens no session", func(t *testing.T) {
		t.Parallel()
		var b *bundle
		late := &lateRevocation{}
		b = setup(t, func(c *gateway.Config) {
			c.Feed = pki.NewRevocationFeed(c.Sessions.DB, pki.FeedOptions{Poll: 20 * time.Millisecond, Full: never, Log: c.Log})
			late.Identities, late.feed, late.db = c.Identities, c.Feed, c.Sessions.DB
			c.Identities = late
		})
		m := b.join(t, "n1.example")
		l, status, _ := m.dial(t, m.certificate)
		require.Equal(t, http.StatusSwitchingProtocols, status)
		l.send(t, &wire.Up{Body: &wire.Up_Hello{Hello: &wire.Hello{BootId: "boot-1"}}})
		down := l.next(t)
		require.Equal(t, wire.Close_REVOKED, down.GetClose().GetReason(), "no Welcome comes first")
		_ = l.CloseNow()
		b.isNow(t, m.nodeID, node.Disconnected)
	})

	t.Run("the full check finds what no certificate's row tells", func(t *testing.T) {
		t.Parallel()
		b := withFeed(t, pki.FeedOptions{Poll: 20 * time.Millisecond, Full: 40 * time.Millisecond})
		for change, want := range map[string]wire.Close_Reason{
			`update nodes set identity_generation = 2 where id = $1`:       wire.Close_REVOKED,
			`update nodes set credential = 'QUARANTINED' where id = $1`:    wire.Close_QUARANTINED,
			`delete from node_certs where node_id = $1`:                    wire.Close_REVOKED,
			`update nodes set credential = 'REVOKED' where id = $1`:        wire.Close_REVOKED,
			`update nodes set deleted_at = now() where id = $1`:            wire.Close_DELETED,
			`update node_certs set generation = 1 where node_id = $1`:      wire.Close_REASON_UNSPECIFIED,
			`update node_liveness set gateway_id = '' where node_id = $1`:  wire.Close_REASON_UNSPECIFIED,
			`update node_certs set reason = 'a word' where node_id = $1`:   wire.Close_REASON_UNSPECIFIED,
			`update node_certs set seen_again_at = now() where node_id=$1`: wire.Close_REASON_UNSPECIFIED,
		} {
			m := b.join(t, "n1.example")
			l := m.open(t)
			b.exec(t, change, m.nodeID)
			if want != wire.Close_REASON_UNSPECIFIED {
				require.Equal(t, want, l.closed(t).GetReason(), change)
				continue
			}
			require.Never(t, func() bool { return b.gateway.Stats().Sessions == 0 }, 150*time.Millisecond, 10*time.Millisecond, change)
			l.beat(t, 1)
			require.Equal(t, uint64(1), l.next(t).GetBeatAck().GetSeq(), change)
			l.leave(t)
			b.isNow(t, m.nodeID, node.Disconnected)
		}
	})

	t.Run("without a feed a revoked certificate keeps its session until it runs out, and opens no other", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *gateway.Config) {
			c.Feed = nil
			c.Identities = mortal{c.Identities, 3 * time.Second}
		})
		m := b.join(t, "n1.example")
		l := m.open(t)
		b.exec(t, revoke, m.nodeID)
		_, status, refusal := m.dial(t, m.certificate)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, wire.ReasonRevoked, refusal.Details["reason"])
		for seq := uint64(1); seq <= 10; seq++ { // some looks of the gateway
			l.beat(t, seq)
			require.Equal(t, wire.Close_REASON_UNSPECIFIED, l.acked(t, seq))
		}
		require.Equal(t, wire.Close_EXPIRED, l.closed(t).GetReason())
	})
}

// Without a good look there are no new sessions after a while, and no sessions at all after a longer one; when looks are good again, all is well.
func TestBlindFeed(t *testing.T) {
	t.Parallel()
	var proxy *dbtest.Proxy
	b := setup(t, func(c *gateway.Config) {
		proxy = dbtest.NewProxy(t, dbtest.URL(c.Sessions.DB))
		d, err := db.Open(t.Context(), db.Config{URL: proxy.URL(), MaxConns: 2})
		require.NoError(t, err)
		t.Cleanup(d.Close)
		c.Feed = pki.NewRevocationFeed(d, pki.FeedOptions{Poll: 20 * time.Millisecond, Patience: 500 * time.Millisecond, GiveUp: 3 * time.Second, Log: c.Log})
	})
	m := b.join(t, "n1.example")
	l := m.open(t)
	proxy.Down()
	second := b.join(t, "n2.example") // joining goes on: what it gives is judged at the door
	require.Eventually(t, func() bool { return !b.config.Feed.Current() }, patience, 10*time.Millisecond)
	l.beat(t, 1)
	require.Equal(t, wire.Close_REASON_UNSPECIFIED, l.acked(t, 1), "a live session goes on for the time being")
	_, status, refusal := second.dial(t, second.certificate)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, fault.Unavailable, refusal.Code)
	require.Positive(t, refusal.RetryAfterMs)
	closed := l.closed(t)
	require.Equal(t, wire.Close_GO_AWAY, closed.GetReason())
	require.Positive(t, closed.GetRetryAfterMs())
	_ = l.CloseNow()
	proxy.Up()
	require.Eventually(t, b.config.Feed.Current, patience, 10*time.Millisecond)
	m.open(t).leave(t)
}

// lateRevocation revokes every certificate just after it was judged good, and lets the feed see it before the session goes on.
type lateRevocation struct {
	gateway.Identities
	feed *pki.RevocationFeed
	db   *db.DB
}

func (r *lateRevocation) Admit(ctx context.Context, leaf *x509.Certificate) (pki.Verdict, error) {
	v, err := r.Identities.Admit(ctx, leaf)
	if err != nil {
		return v, err
	}
	if _, err := r.db.Pool().Exec(ctx, revoke, v.NodeID); err != nil {
		return v, err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, denied := r.feed.Denied(v.Serial); denied {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-tick.C:
		}
	}
}

// running runs a log until the test ends.
func running(t *testing.T, log *events.Log) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = log.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	require.Eventually(t, log.Ready, patience, time.Millisecond)
}

// acked reads until the beat's answer and gives 0, or the reason of a close that came first.
func (l *link) acked(t *testing.T, seq uint64) wire.Close_Reason {
	t.Helper()
	for {
		down := l.next(t)
		if c := down.GetClose(); c != nil {
			return c.GetReason()
		}
		if ack := down.GetBeatAck(); ack != nil && ack.GetSeq() == seq {
			return wire.Close_REASON_UNSPECIFIED
		}
	}
}
