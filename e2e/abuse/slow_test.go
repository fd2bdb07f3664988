package abuse_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// from dials from one of the loopback's many addresses, as an attacker that is another host.
func from(ctx context.Context, local, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	return d.DialContext(ctx, "tcp", address)
}

const attacker = "127.0.0.66"

// drip sends a text byte by byte, over and over, and says for how long the other end stood it and what it said.
func drip(ctx context.Context, conn net.Conn, head, rest string) (stood time.Duration, said string) {
	began := time.Now()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	answer := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(conn)
		answer <- string(text)
	}()
	if _, err := io.WriteString(conn, head); err == nil {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
			case said = <-answer:
				return time.Since(began), said
			}
			if _, err := conn.Write([]byte{rest[n%len(rest)]}); err != nil {
				break
			}
		}
	}
	return time.Since(began), <-answer
}

// crowd runs n attackers at a time until ctx ends. Who is thrown out comes back after a second.
func crowd(ctx context.Context, n int, one func(ctx context.Context)) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				one(ctx)
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
}

// longest keeps the longest of some times.
type longest struct{ atomic.Int64 }

func (l *longest) take(d time.Duration) {
	for {
		have := l.Load()
		if int64(d) <= have || l.CompareAndSwap(have, int64(d)) {
			return
		}
	}
}

func TestSlow(t *testing.T) {
	t.Parallel()

	t.Run("H2 slow-loris on the API: headers and bodies that drip are cut off within their bounds", func(t *testing.T) {
		t.Parallel()
		v := setup(t)
		address := strings.TrimPrefix(v.url, "http://")
		var headers longest
		v.withstand(int64(size(120, 60))*mib, func(ctx context.Context) {
			crowd(ctx, size(1000, 60), func(ctx context.Context) {
				conn, err := from(ctx, attacker, address)
				if err != nil {
					return
				}
				stood, _ := drip(ctx, conn, "POST /graphql HTTP/1.1\r\nHost: "+address+"\r\nX-A: ", "a")
				headers.take(stood)
			})
		})
		require.Less(t, time.Duration(headers.Load()), 15*time.Second, "headers may take 10 s")
		conn, err := from(t.Context(), attacker, address)
		require.NoError(t, err)
		stood, said := drip(t.Context(), conn, "POST /graphql HTTP/1.1\r\nHost: "+address+"\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n", "{")
		require.Less(t, stood, 20*time.Second, "a body may take 10 s")
		require.Contains(t, said, `"code"`, "and who was slow is told so")
	})

	t.Run("H2 slow-loris on the websocket: a socket that never signs in is closed with a code", func(t *testing.T) {
		t.Parallel()
		v := setup(t)
		address := strings.TrimPrefix(v.url, "http://")
		v.withstand(int64(size(150, 60))*mib, func(ctx context.Context) {
			crowd(ctx, size(1000, 40), func(ctx context.Context) {
				conn, err := from(ctx, attacker, address)
				if err != nil {
					return
				}
				drip(ctx, conn, "GET /graphql HTTP/1.1\r\nHost: "+address+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
					"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n\x81\xfe\x7f\xff\x00\x00\x00\x00", " ")
			})
		})
		conn, _, err := websocket.Dial(t.Context(), "ws://"+address+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
		require.NoError(t, err)
		defer func() { _ = conn.CloseNow() }()
		waiting, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, _, err = conn.Read(waiting)
		require.Greater(t, websocket.CloseStatus(err), websocket.StatusCode(999), "within 10 s, with a code: %v", err)
	})

	t.Run("H2 slow-loris on the join: one address holds a quarter of the places, each for seconds, and another machine joins meanwhile", func(t *testing.T) {
		t.Parallel()
		v := setup(t)
		var stood longest
		v.withstand(int64(size(120, 60))*mib, func(ctx context.Context) {
			crowd(ctx, size(1000, 60), func(ctx context.Context) {
				raw, err := from(ctx, attacker, v.gateway)
				if err != nil {
					return
				}
				conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
				bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
				err = conn.HandshakeContext(bounded)
				cancel()
				if err != nil {
					_ = raw.Close()
					return
				}
				d, _ := drip(ctx, conn, "POST /v1/join HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n", "{")
				stood.take(d)
			})
		})
		require.Less(t, time.Duration(stood.Load()), 20*time.Second, "a join may take 10 s")
	})
}

func TestIdle(t *testing.T) {
	t.Parallel()

	for name, address := range map[string]func(v *victim) string{
		"the API":     func(v *victim) string { return strings.TrimPrefix(v.url, "http://") },
		"the gateway": func(v *victim) string { return v.gateway },
	} {
		t.Run("H2 idle sockets on "+name+" are closed, and what they cost is bounded", func(t *testing.T) {
			t.Parallel()
			v := setup(t)
			var longest longest
			v.withstand(int64(size(150, 60))*mib, func(ctx context.Context) {
				crowd(ctx, size(5000, 200), func(ctx context.Context) {
					began := time.Now()
					conn, err := from(ctx, attacker, address(v))
					if err != nil {
						return
					}
					defer conn.Close()
					defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
					_, _ = conn.Read(make([]byte, 1))
					longest.take(time.Since(began))
				})
			})
			require.Less(t, time.Duration(longest.Load()), 20*time.Second)
		})
	}
}
