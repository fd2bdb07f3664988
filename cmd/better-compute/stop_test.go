package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"
)

// A stop says so first, then ends streams with codes that say «come back», and is over in under ten seconds with nothing left running: the package's
// TestMain looks for goroutines.
func TestStop(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	conn := b.socket()
	sse := b.post(follow, "text/event-stream")
	defer func() { _ = sse.Body.Close() }()
	require.Equal(t, http.StatusOK, sse.StatusCode)
	require.Eventually(t, func() bool {
		_, text, err := b.get("/metrics", b.token)
		return err == nil && strings.Contains(text, "\nbc_api_subscriptions 2\n")
	}, 10*time.Second, 10*time.Millisecond)

	began := time.Now()
	b.stop()
	// While it is being said, everything goes on: the load balancer that asks is still answered.
	require.Eventually(t, func() bool {
		status, text, err := b.get("/readyz", "")
		return err == nil && status == http.StatusServiceUnavailable && strings.Contains(text, `"process":"the process stops"`)
	}, 250*time.Millisecond, 2*time.Millisecond)

	// The socket's code alone tells its client to come back; a message for each subscription may stand before it.
	var err error
	for err == nil {
		var last map[string]any
		err = wsjson.Read(t.Context(), conn, &last)
	}
	require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(err), "%v", err)
	rest, err := io.ReadAll(sse.Body)
	require.NoError(t, err)
	require.Contains(t, string(rest), `"UNAVAILABLE"`)

	require.NoError(t, b.end())
	require.Less(t, time.Since(began), 10*time.Second)
	_, _, err = b.get("/readyz", "")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NotContains(t, b.log.String(), `"level":"ERROR"`)
}

// A peer that never reads or answers holds nobody up.
func TestStopWithDeafPeer(t *testing.T) {
	t.Parallel()
	b := start(t, func(s *settings) { s.shutdownDelay = 0 })
	b.socket() // reads no more, so that it never answers the good-bye
	began := time.Now()
	b.stop()
	require.NoError(t, b.end())
	require.Less(t, time.Since(began), 10*time.Second)
}

// Streams that are open, a request that waits for a lock, one whose body does not come and one that was never said hold nobody up: each ends or is cut
// off, and nothing of them is left half done.
func TestStopWithSlowRequests(t *testing.T) {
	t.Parallel()
	b := start(t, func(s *settings) { s.shutdownDelay = 0 })
	for range 5 {
		b.socket()
		sse := b.post(follow, "text/event-stream")
		defer func() { _ = sse.Body.Close() }()
	}
	holder, err := b.db.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "lock table pools in exclusive mode")
	require.NoError(t, err)
	answered := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/graphql",
			strings.NewReader(`{"query": "mutation { poolCreate(input: { tenantId: \"default\", name: \"slow\" }) { changed } }"}`))
		if err != nil {
			answered <- err
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+b.token)
		_, _, err = answer(client.Do(req))
		answered <- err
	}()
	for _, text := range []string{"POST /graphql HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", "GET / HTTP/1.1\r\n", ""} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, strings.ReplaceAll(text, "HOST", conn.RemoteAddr().String()))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		var waiting int
		err := b.db.Pool().QueryRow(t.Context(), "select count(*) from pg_locks where not granted and relation = 'pools'::regclass").Scan(&waiting)
		return err == nil && waiting > 0
	}, 20*time.Second, 5*time.Millisecond)

	began := time.Now()
	b.stop()
	require.NoError(t, b.end())
	require.Less(t, time.Since(began), 10*time.Second)
	<-answered // with an answer or a connection that was cut
	require.NoError(t, holder.Rollback(t.Context()))
	var made int
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), "select count(*) from pools where name = 'slow'").Scan(&made))
	require.Zero(t, made)
}
