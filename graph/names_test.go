package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"
)

const followAll = `subscription($t: ID!, $after: Cursor) { nodeEvents(tenantId: $t, after: $after) { nodeId } }`

func TestSocketProtocol(t *testing.T) {
	t.Parallel()
	b := setup(t)
	acme := object{"t": "acme"}

	// Each fault of a client's has the close code that graphql-transport-ws gives it, and ends what ran on the socket.
	for name, c := range map[string]struct {
		frames []frame
		code   websocket.StatusCode
	}{
		"a second operation under the id of a subscription that runs": {[]frame{{ID: "1", Type: "subscribe"}, {ID: "1", Type: "subscribe"}}, 4409},
		"a long id twice":                 {[]frame{{ID: strings.Repeat("é", 300), Type: "subscribe"}, {ID: strings.Repeat("é", 300), Type: "subscribe"}}, 4409},
		"a subscription without an id":    {[]frame{{Type: "subscribe"}}, 4400},
		"a second connection_init":        {[]frame{{Type: "connection_init"}}, 4429},
		"a message that nests 9,000 deep": {[]frame{{ID: "1", Type: "subscribe", Payload: []byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000))}}, 4400},
		"a message of the server's":       {[]frame{{ID: "1", Type: "next"}}, 4400},
	} {
		t.Run(name+" closes the socket", func(t *testing.T) {
			t.Parallel()
			conn, err := b.dial(b.token, nil)
			require.NoError(t, err)
			for _, f := range c.frames {
				if f.Type == "subscribe" && f.Payload == nil {
					b.subscribeOn(conn, f.ID, followAll, acme)
					continue
				}
				require.NoError(t, wsjson.Write(t.Context(), conn, f))
			}
			require.Equal(t, c.code, (&stream{b: b, conn: conn}).closed())
		})
	}

	t.Run("subscribe before connection_init closes the socket", func(t *testing.T) {
		t.Parallel()
		conn := b.raw("graphql-transport-ws")
		b.subscribeOn(conn, "1", followAll, acme)
		require.Equal(t, websocket.StatusCode(4401), (&stream{b: b, conn: conn}).closed())
	})

	t.Run("a client that says nothing is closed with 4408", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		require.Equal(t, websocket.StatusCode(4408), (&stream{b: b, conn: b.raw("graphql-transport-ws")}).closed())
		require.Less(t, time.Since(began), 20*time.Second)
	})

	t.Run("an id is free again when its operation is over, whoever ended it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		conn, err := b.dial(b.token, nil)
		require.NoError(t, err)
		// The server ended it: a query, and a refusal.
		for range 3 {
			s := b.subscribeOn(conn, "1", `{ viewer { name } }`, nil)
			require.Equal(t, "next", s.next().Type)
			require.Equal(t, frame{ID: "1", Type: "complete"}, s.next())
			require.Equal(t, "INVALID_INPUT", b.subscribeOn(conn, "1", `subscription { noSuchField }`, nil).refusal())
			require.Equal(t, frame{ID: "1", Type: "complete"}, s.next())
		}
		// The client ended it, and used the id again at once, again and again: nothing that is said of the ones before reaches the last, which lives, and
		// can be ended in its turn.
		s := &stream{b: b, conn: conn}
		for range 50 {
			b.subscribeOn(conn, "1", followAll, acme)
			require.NoError(t, wsjson.Write(t.Context(), conn, frame{ID: "1", Type: "complete"}))
		}
		node := b.node()
		head := b.query(`{ log(tenantId: "acme") { head } }`, nil).at(t, "log", "head")
		b.subscribeOn(conn, "1", followAll, object{"t": "acme", "after": head})
		b.subscribeOn(conn, "mark", `{ viewer { name } }`, nil)
		require.Equal(t, "mark", s.next().ID)
		require.Equal(t, frame{ID: "mark", Type: "complete"}, s.next())
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": node}).at(t, "nodeCordon")
		f := s.next()
		require.Equal(t, "1", f.ID)
		require.JSONEq(t, fmt.Sprintf(`{"data":{"nodeEvents":{"nodeId":%q}}}`, node), string(f.Payload))
		require.NoError(t, wsjson.Write(t.Context(), conn, frame{ID: "1", Type: "complete"}))
		require.Eventually(t, func() bool { return b.meter.open() == 0 }, 10*time.Second, 5*time.Millisecond, "each of them ends")
	})
}
