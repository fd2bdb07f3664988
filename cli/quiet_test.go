package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"
)

// TestQuietServer: a peer that vanished without a word must not hold a stream for ever; one that only has nothing to say must not end it.
func TestQuietServer(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, answer func(conn *websocket.Conn, f frame)) *client {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}})
			if err != nil {
				return
			}
			defer func() { _ = conn.CloseNow() }()
			for {
				var f frame
				if wsjson.Read(r.Context(), conn, &f) != nil {
					return
				}
				if f.Type == "connection_init" {
					_ = wsjson.Write(r.Context(), conn, frame{Type: "connection_ack"})
				}
				answer(conn, f)
			}
		}))
		t.Cleanup(server.Close)
		c, err := newClient(server.URL, "t")
		require.NoError(t, err)
		t.Cleanup(c.http.CloseIdleConnections)
		return c
	}
	nothing := func(json.RawMessage) error { return nil }

	t.Run("G6 a server that falls silent is given up", func(t *testing.T) {
		t.Parallel()
		c := serve(t, func(*websocket.Conn, frame) {})
		c.quiet = 100 * time.Millisecond
		live := false
		err := c.subscribe(t.Context(), opNodeEvents, nil, func() { live = true }, nothing)
		require.True(t, passing(err), "%v", err)
		require.False(t, live, "it never took the subscription")
	})

	t.Run("pings are answered both ways and keep it alive", func(t *testing.T) {
		t.Parallel()
		var pongs atomic.Int32
		c := serve(t, func(conn *websocket.Conn, f frame) {
			switch f.Type {
			case "ping": // ours comes a quarter of a second after the subscription
				_ = wsjson.Write(t.Context(), conn, frame{Type: "pong"})
				_ = wsjson.Write(t.Context(), conn, frame{Type: "ping"})
			case "pong":
				pongs.Add(1)
				_ = wsjson.Write(t.Context(), conn, frame{Type: "next", ID: "1", Payload: json.RawMessage(`{"data":{}}`)})
			}
		})
		live := false
		err := c.subscribe(t.Context(), opNodeEvents, nil, func() { live = true }, func(json.RawMessage) error { return errEnough })
		require.ErrorIs(t, err, errEnough)
		require.True(t, live)
		require.Equal(t, int32(1), pongs.Load())
	})

	t.Run("a refused sign-in ends it with the code for it", func(t *testing.T) {
		t.Parallel()
		c := serve(t, func(conn *websocket.Conn, f frame) {
			if f.Type == "subscribe" {
				_ = conn.Close(closeForbidden, "the token has expired")
			}
		})
		err := c.subscribe(t.Context(), opNodeEvents, nil, func() {}, nothing)
		require.Equal(t, ExitUnauthenticated, asError(err).Exit())
		require.Contains(t, err.Error(), "the token has expired")
	})
}

// TestHangingServer: a server that takes a call and never answers is given up after a bound.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	c, err := newClient(server.URL, "t")
	require.NoError(t, err)
	t.Cleanup(c.http.CloseIdleConnections)
	c.patience = 100 * time.Millisecond

	err = c.do(t.Context(), opTenants, nil, &struct{}{})
	require.Equal(t, ExitUnreachable, asError(err).Exit())
	require.Contains(t, err.Error(), "does not answer")
	require.Positive(t, calls.Load())

	err = c.subscribe(t.Context(), opNodeEvents, nil, func() {}, func(json.RawMessage) error { return nil })
	require.Equal(t, ExitUnreachable, asError(err).Exit())
}

// TestRecent: the memory for ids is bounded, and forgets the oldest first.
func TestRecent(t *testing.T) {
	t.Parallel()
	var r recent
	for i := range 5000 {
		require.True(t, r.add(strconv.Itoa(i)))
		require.False(t, r.add(strconv.Itoa(max(0, i-1000))))
	}
	require.Len(t, r.held, len(r.ring))
	require.True(t, r.add("0"))
}
