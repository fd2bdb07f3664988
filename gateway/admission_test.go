package gateway_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/node"
)

func TestAdmission(t *testing.T) {
	t.Parallel()

	t.Run("G7 more machines than may begin: some at once, some after a wait, the rest are told when to come back", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *gateway.Config) { c.HellosPerSecond = 4 })
		var machines []*machine
		for range 30 {
			machines = append(machines, b.join(t, "n.example"))
		}
		var mu sync.Mutex
		in, turned := 0, 0
		var waits []int64
		var dials sync.WaitGroup
		began := time.Now()
		for _, m := range machines {
			dials.Go(func() {
				l, status, refusal := m.dial(t, m.certificate)
				mu.Lock()
				defer mu.Unlock()
				if status == http.StatusSwitchingProtocols {
					in++
					_ = l.CloseNow()
					return
				}
				turned++
				if status != http.StatusTooManyRequests || refusal.Code != fault.ResourceExhausted {
					t.Errorf("HTTP %d %s", status, refusal.Code)
				}
				waits = append(waits, refusal.RetryAfterMs)
			})
		}
		dials.Wait()
		most := 4 + int(4*(time.Since(began).Seconds()+1)) // those at once, and what the seconds allow
		require.LessOrEqual(t, in, most)
		require.GreaterOrEqual(t, in, 4)
		require.Positive(t, turned)
		different := map[int64]bool{}
		for _, ms := range waits {
			require.Greater(t, ms, int64(2000))
			different[ms] = true
		}
		if turned > 3 {
			require.Greater(t, len(different), 1, "they are not all told the same time")
		}
		// One that comes back later is let in.
		require.Eventually(t, func() bool {
			l, status, _ := machines[0].dial(t, machines[0].certificate)
			if status != http.StatusSwitchingProtocols {
				return false
			}
			return l.CloseNow() == nil
		}, patience, 200*time.Millisecond)
	})

	t.Run("a full queue before the database: RESOURCE_EXHAUSTED with how long to wait", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := gateway.OpenFull(ctx)
		require.Equal(t, fault.ResourceExhausted, fault.CodeOf(err))
		require.Positive(t, fault.From(err).Details["retryAfterMs"])
	})

	t.Run("a gateway that stops does not keep those who wait for their turn", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *gateway.Config) { c.HellosPerSecond = 1 })
		first, second := b.join(t, "n1.example"), b.join(t, "n2.example")
		l := first.open(t)
		client := b.client(t, second.certificate)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			// What it gets depends on how far it has come; that it gets an end is what counts.
			conn, _, err := websocket.Dial(t.Context(), "wss://gateway"+wire.SessionPath,
				&websocket.DialOptions{HTTPClient: client, Subprotocols: []string{wire.Subprotocol}})
			if err == nil {
				_ = conn.CloseNow()
			}
		}()
		b.isNow(t, first.nodeID, node.Connected)
		stopped := make(chan error, 1)
		began := time.Now()
		go func() { stopped <- b.stop() }()
		require.Equal(t, wire.Close_GO_AWAY, l.closed(t).GetReason())
		_ = l.CloseNow()
		require.NoError(t, <-stopped)
		require.Less(t, time.Since(began), 10*time.Second)
		<-answered
	})
}
