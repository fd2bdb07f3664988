package graph_test

import (
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"
)

func TestAdmission(t *testing.T) {
	t.Parallel()
	t.Run("G7 more subscriptions than may begin at once: the first wait and go on, the rest are told when to come back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		const atOnce, more = 16, 4
		var sockets []*websocket.Conn
		for range atOnce + more {
			conn, err := b.dial(b.token, nil)
			require.NoError(t, err)
			sockets = append(sockets, conn)
		}
		held, err := b.db.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = held.Exec(t.Context(), "lock table grants") // what each asks before it is live
		require.NoError(t, err)

		var streams []*stream
		for _, conn := range sockets {
			streams = append(streams, b.subscribeOn(conn, "1", `subscription { nodeEvents(tenantId: "acme", types: ["node.cordoned"]) { nodeId } }`, nil))
		}
		type said struct {
			from *stream
			f    frame
			err  error
		}
		first := make(chan said, 2*(atOnce+more))
		var readers sync.WaitGroup
		defer readers.Wait()
		defer func() {
			for _, conn := range sockets {
				_ = conn.CloseNow()
			}
		}()
		for _, s := range streams {
			readers.Go(func() {
				for {
					var f frame
					err := wsjson.Read(t.Context(), s.conn, &f)
					if err == nil && f.Type == "ping" {
						err = wsjson.Write(t.Context(), s.conn, frame{Type: "pong"})
						if err == nil {
							continue
						}
					}
					first <- said{s, f, err}
					return
				}
			})
		}
		turnedAway := map[*stream]bool{}
		for range more {
			one := <-first
			require.NoError(t, one.err)
			turnedAway[one.from] = true
			require.Contains(t, string(one.f.Payload), `"code":"RESOURCE_EXHAUSTED"`)
			require.Contains(t, string(one.f.Payload), `"retryAfterMs":3000`)
			require.Equal(t, "complete", one.from.next().Type)
		}
		require.NoError(t, held.Rollback(t.Context()))
		// Those who waited are live once they were let in; who was turned away is let in when it comes back.
		for s := range turnedAway {
			b.subscribeOn(s.conn, "2", `subscription { nodeEvents(tenantId: "acme", types: ["node.cordoned"]) { nodeId } }`, nil)
			readers.Go(func() { first <- said{s, s.next(), nil} })
		}
		require.Eventually(t, func() bool { return b.api.Log.Stats().Followers == atOnce+more }, 10*time.Second, 5*time.Millisecond)
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon")
		for range atOnce + more {
			one := <-first
			require.NoError(t, one.err)
			require.Equal(t, "next", one.f.Type)
			require.Contains(t, string(one.f.Payload), n)
		}
	})
}
