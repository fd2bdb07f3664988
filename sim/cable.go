package sim

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// errNoPower is what a machine without power finds.
var errNoPower = errors.New("the simulated machine has no power")

// cable is a machine's network. Without power its connections stay as they are at the other end: nothing comes, nothing goes, and nobody says so.
type cable struct {
	mu    sync.Mutex
	cut   bool
	lines map[*line]struct{}
}

func newCable() *cable { return &cable{lines: map[*line]struct{}{}} }

// dial is the agent's way to a gateway.
func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	if cut {
		return nil, errNoPower
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn, cable: c, closed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		_ = conn.Close()
		return nil, errNoPower
	}
	c.lines[l] = struct{}{}
	return l, nil
}

// lose takes the power away.
func (c *cable) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for l := range c.lines {
		// A read that waits wakes, and finds the line dead.
		_ = l.SetReadDeadline(time.Unix(1, 0))
	}
}

// regain gives the power back. What was open is reset, as a machine does that boots and knows of no connection.
func (c *cable) regain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
	for l := range c.lines {
		if tcp, ok := l.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = l.Conn.Close()
		delete(c.lines, l)
	}
}

func (c *cable) dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// line is one connection by a cable.
type line struct {
	net.Conn

	cable  *cable
	once   sync.Once
	closed chan struct{}
}

// Read gives what comes; on a dead line nothing does until it is closed.
func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if l.cable.dead() {
		<-l.closed
		return 0, net.ErrClosed
	}
	return n, err
}

// Write sends; on a dead line it seems to, as into a socket's buffer.
func (l *line) Write(b []byte) (int, error) {
	if l.cable.dead() {
		return len(b), nil
	}
	return l.Conn.Write(b)
}

// Close closes the line; a dead one stays open for the other end until the power is back.
func (l *line) Close() error {
	l.once.Do(func() { close(l.closed) })
	l.cable.mu.Lock()
	defer l.cable.mu.Unlock()
	if l.cable.cut {
		return nil
	}
	delete(l.cable.lines, l)
	return l.Conn.Close()
}
