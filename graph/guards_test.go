package graph_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/graph"
)

func TestGuards(t *testing.T) {
	t.Parallel()

	t.Run("A6 who is held up for operations that can't be run still uncordons at once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.strict()
		const refused = 30
		quick := false
		for range 3 { // one of them is quick, whatever else the machine does
			require.Equal(t, true, b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon", "changed"))
			var answered atomic.Int32
			var all sync.WaitGroup
			for range refused {
				all.Go(func() {
					if b.query("{ nothing }", nil).code(t) == "INVALID_INPUT" {
						answered.Add(1)
					}
				})
			}
			require.Eventually(t, func() bool { return answered.Load() > 0 }, 20*time.Second, time.Millisecond)
			done := b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": n})
			quick = quick || answered.Load() < refused/2
			require.Equal(t, true, done.at(t, "nodeUncordon", "changed"))
			all.Wait()
			require.EqualValues(t, refused, answered.Load())
		}
		require.True(t, quick, "the uncordon was answered while what can't be run was held up")
	})
}

// strict has the API hold up a caller from the second refusal in a row on.
func (b *bundle) strict() {
	b.Helper()
	server := httptest.NewUnstartedServer(nil)
	hosts, err := graph.NewHosts(server.Listener.Addr(), "")
	require.NoError(b, err)
	stopping, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	server.Config.Handler = graph.Handler(b.api, graph.Options{
		Hosts: hosts, Console: http.NotFoundHandler(), Stopping: stopping, Ready: b.ready, Meter: &b.meter, Sockets: &b.sockets, RefusedAtOnce: 1,
	})
	server.Start()
	before := b.server
	b.server = server
	b.Cleanup(func() {
		stop()
		before.Close()
	})
}
