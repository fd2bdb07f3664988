package graph_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/id"
)

// TestH2NothingGrows: bad input of every kind, two thousand times, leaves neither memory nor goroutines behind. It is not parallel, so that nothing
// else of this process is measured.
func TestH2NothingGrows(t *testing.T) { //nolint:paralleltest // see above
	b := setup(t)
	n := b.node()
	b.server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 1
	cut := b.token[:len(b.token)-4]
	aliases := make([]string, 1000)
	for i := range aliases {
		aliases[i] = fmt.Sprintf("a%d: viewer { name }", i)
	}
	wide := "{ " + strings.Join(aliases, " ") + " }"
	deep := strings.Repeat("{ node ", 100) + strings.Repeat("}", 100)
	large := `{"query":"` + strings.Repeat("x", 10<<20) + `"}`
	first := func(a answer) []string {
		require.NotEmpty(t, a.Errors)
		return []string{a.Errors[0].Extensions.Code}
	}
	header := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + b.token}
	socket := func(frames ...frame) {
		conn, err := b.dial(b.token, nil)
		require.NoError(t, err)
		for _, f := range frames {
			if wsjson.Write(t.Context(), conn, f) != nil {
				break
			}
		}
		require.GreaterOrEqual(t, (&stream{b: b, conn: conn}).closed(), websocket.StatusCode(4400))
	}
	follow := frame{ID: "1", Type: "subscribe", Payload: []byte(`{"query":"subscription { nodeEvents(tenantId: \"acme\") { id } }"}`)}
	refusals := []func(i int) (codes []string){
		func(i int) []string { return first(b.query(fmt.Sprintf("{ nonsense%d }", i), nil)) },
		func(i int) []string {
			return first(b.query(fmt.Sprintf("query q%d($o: NodeOrder!) { nodes(tenantId: \"acme\", orderBy: $o) { totalCount } }", i), object{"o": "BY_MOOD"}))
		},
		func(int) []string { return first(b.query(wide, nil)) },
		func(int) []string { return first(b.query(deep, nil)) },
		func(int) []string { return first(b.as(cut, "{ viewer { name } }", nil)) },
		func(i int) []string {
			return first(b.as(fmt.Sprintf("eyJhbGciOiJub25lIn0.%d.", i), "{ viewer { name } }", nil))
		},
		func(i int) []string {
			return first(b.control("nodeCordon", object{"tenantId": "acme", "nodeId": fmt.Sprintf("node_%d", i)}))
		},
		func(int) []string {
			return first(b.control("nodeCordon", object{"tenantId": "acme", "nodeId": id.New(id.Node), "requestId": id.New("req")}))
		},
		func(int) []string {
			return first(b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n, "version": 99}))
		},
		func(i int) []string {
			_, a := b.send("POST", "/graphql", header, fmt.Sprintf(`[{"query":"%d"}]`, i))
			return first(a)
		},
		func(i int) []string {
			_, a := b.send("GET", fmt.Sprintf("/graphql?query=%d&variables=x", i), header, "")
			return first(a)
		},
		func(int) []string { _, a := b.send("PUT", "/graphql", header, "{}"); return first(a) },
		func(int) []string {
			_, a := b.send("POST", "/session/claim", map[string]string{"Content-Type": "application/json", "Origin": b.server.URL}, `{"secret":"no"}`)
			return first(a)
		},
		func(i int) []string {
			if i%60 == 14 { // each of them costs this test more than all others
				_, a := b.send("POST", "/graphql", header, large)
				return first(a)
			}
			return nil
		},
		func(int) []string { socket(follow, follow); return nil },
		func(int) []string { socket(frame{Type: "nonsense"}); return nil },
	}
	hostile := func(requests int) {
		for i := range requests {
			for _, code := range refusals[i%len(refusals)](i) {
				require.Contains(t, []string{"INVALID_INPUT", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "NOT_FOUND", "CONFLICT"}, code, "request %d", i)
			}
		}
	}
	measure := func() (heap uint64, goroutines int) {
		b.server.Client().CloseIdleConnections()
		var m runtime.MemStats
		least := 1 << 30
		// What ends by itself needs a moment; the least is what stays.
		deadline := time.Now().Add(3 * time.Second)
		for time.Now().Before(deadline) {
			runtime.GC()
			if g := runtime.NumGoroutine(); g < least {
				least = g
			}
			if b.api.Log.Stats().Followers == 0 && least <= 60 {
				break
			}
			<-time.After(20 * time.Millisecond)
		}
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, least
	}
	hostile(1200) // also fills the cache of parsed operations, which holds 500
	heap, goroutines := measure()
	hostile(2000)
	after, left := measure()
	t.Logf("heap %d KiB, then %d KiB; goroutines %d, then %d", heap>>10, after>>10, goroutines, left)
	require.Less(t, int64(after)-int64(heap), int64(6<<20), "memory grows")
	require.LessOrEqual(t, left, goroutines+6, "goroutines stay")
	require.Zero(t, b.api.Log.Stats().Followers)
}
