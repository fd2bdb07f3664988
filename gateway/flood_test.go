package gateway_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway"
)

func TestFloods(t *testing.T) {
	t.Parallel()

	t.Run("a machine that connects again and again is told to wait before the database is asked, others connect, and it is let in later", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *gateway.Config) { c.ConnectsPerSecond = 1 })
		m, other := b.join(t, "n1.example"), b.join(t, "n2.example")
		in, told := 0, 0
		began := time.Now()
		for range 40 {
			l, status, refusal := m.dial(t, m.certificate)
			if status == http.StatusSwitchingProtocols {
				in++
				_ = l.CloseNow()
				continue
			}
			require.Equal(t, http.StatusTooManyRequests, status)
			require.Equal(t, fault.ResourceExhausted, refusal.Code)
			require.Positive(t, refusal.RetryAfterMs)
			told++
		}
		require.LessOrEqual(t, in, 4+int(time.Since(began).Seconds())+1)
		require.Positive(t, told)
		require.NotNil(t, other.open(t))
		require.Eventually(t, func() bool {
			l, status, _ := m.dial(t, m.certificate)
			return status == http.StatusSwitchingProtocols && l.CloseNow() == nil
		}, patience, 500*time.Millisecond)
	})

	t.Run("handshakes that nothing follows brake their address, and a machine behind the same one still comes in by trying again", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *gateway.Config) { c.RefusalsPerSecond, c.GreetedPerSecond = 2, 20 })
		m := b.join(t, "n.example")
		ctx, stop := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		defer flood.Wait()
		defer stop()
		var mu sync.Mutex
		greeted, braked := 0, 0
		began := time.Now()
		settings := b.tls()
		for range 4 {
			flood.Go(func() {
				for ctx.Err() == nil {
					bounded, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
					conn, err := (&tls.Dialer{Config: settings}).DialContext(bounded, "tcp", b.address)
					cancel()
					mu.Lock()
					if err == nil {
						greeted++
						_ = conn.Close()
					} else {
						braked++
					}
					mu.Unlock()
				}
			})
		}
		braking := func() bool { mu.Lock(); defer mu.Unlock(); return braked >= 8 }
		require.Eventually(t, braking, patience, 10*time.Millisecond)
		require.Eventually(t, func() bool {
			conn, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: 2 * time.Second}, Config: b.tls(m.certificate)}).DialContext(t.Context(), "tcp", b.address)
			return err == nil && conn.Close() == nil
		}, patience, 20*time.Millisecond, "one of the few that are greeted is the machine's")
		stop()
		flood.Wait()
		took := time.Since(began).Seconds()
		require.LessOrEqual(t, float64(greeted), 8+80+22*(took+1), "the flood gets no more handshakes than it may")
	})
}
