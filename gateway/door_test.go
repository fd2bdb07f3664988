package gateway

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShun(t *testing.T) {
	t.Parallel()
	// An address whose joins were refused too often is left waiting and closed without a handshake; others are let in meanwhile.
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refusals := newAddresses(1)
	door := newDoor(l, 8, func(host string) bool { return !refusals.spent(host, time.Now()) }, func(string) {})
	var entered atomic.Int64
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			entered.Add(1)
			_ = c.Close()
		}
	}()
	defer func() { <-accepting }()
	defer func() { require.NoError(t, door.Close()) }()
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.DialContext(context.WithoutCancel(t.Context()), "tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	const bad, good = "127.0.0.66", "127.0.0.67"
	for range 4 {
		_, ok := refusals.take(bad, time.Now())
		require.True(t, ok)
	}
	require.False(t, refusals.spent(good, time.Now()))
	held := dial(bad)
	require.Eventually(t, func() bool { return len(door.places) == 2 || entered.Load() > 0 }, time.Minute, time.Millisecond)
	require.Zero(t, entered.Load(), "it takes a place of its address, and nobody greets it")
	_, _ = dial(good).Read(make([]byte, 1))
	require.Equal(t, int64(1), entered.Load(), "another one is let in")
	began := time.Now()
	_, err = held.Read(make([]byte, 1))
	require.Error(t, err)
	require.Less(t, time.Since(began), time.Minute, "and it is closed")
	require.Eventually(t, func() bool { _, _ = dial(bad).Read(make([]byte, 1)); return entered.Load() >= 2 }, time.Minute, 10*time.Millisecond,
		"when it has been quiet for a while it is let in again")
}
