package gateway_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
)

func TestReconnects(t *testing.T) {
	t.Parallel()
	t.Run("D20 one machine's hundred reconnects, reboots and addresses, over two gateways, are suspected of nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, bystander := b.join(t, "roaming.example"), b.join(t, "bystander.example")
		quiet := bystander.open(t)
		second := *b
		second.config.ID, second.config.Feed = id.New(id.Gateway), pki.NewRevocationFeed(b.db, pki.FeedOptions{Log: b.config.Log})
		second.start(t)
		t.Cleanup(func() { require.NoError(t, second.stop()) })
		gateways := []*bundle{b, &second}
		var last *link
		for i := range 100 {
			m.b = gateways[i/2%2]
			m.b.from = fmt.Sprintf("127.0.%d.%d", 1+i/10, 1+i)
			if i%3 == 0 {
				m.print.BootID = fmt.Sprintf("boot-%d", i)
			}
			if last != nil && i%5 != 0 { // each fifth time the old session is still there, and gives way
				_ = last.CloseNow()
			}
			last = m.open(t)
		}
		b.isNow(t, m.nodeID, node.Connected)
		for _, l := range []*link{last, quiet} {
			l.beat(t, 1)
			require.EqualValues(t, 1, l.next(t).GetBeatAck().GetSeq(), "its session goes on")
			require.Equal(t, string(node.Trusted), one[string](t, b, `select credential from nodes where id = $1`, l.m.nodeID))
		}
		require.Zero(t, one[int](t, b, `select count(*) from events where type like 'security.%'`))
		require.Zero(t, one[int](t, b, `select count(*) from node_certs where state not in ('ACTIVE', 'PENDING')`))
	})
}
