package gateway_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
)

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
