package dbtest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// Proxy stands between a test and its database, on the loopback, and can cut what goes through it.
type Proxy struct {
	listener net.Listener
	network  string
	address  string
	url      string

	work   sync.WaitGroup
	mu     sync.Mutex
	links  map[*link]struct{}
	down   bool
	marker []byte
	let    bool
}

type link struct {
	client, server net.Conn
	swallow        bool // the server's next answer is not passed on, and the link is cut
}

// NewProxy makes a proxy before the database of that URL. It ends with the test.
func NewProxy(t testing.TB, databaseURL string) *Proxy {
	t.Helper()
	c, err := pgconn.ParseConfig(databaseURL)
	require.NoError(t, err)
	p := &Proxy{links: map[*link]struct{}{}, network: "tcp", address: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
	if strings.HasPrefix(c.Host, "/") {
		p.network, p.address = "unix", filepath.Join(c.Host, fmt.Sprintf(".s.PGSQL.%d", c.Port))
	}
	var lc net.ListenConfig
	p.listener, err = lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u := url.URL{Scheme: "postgres", Host: p.listener.Addr().String(), Path: "/" + c.Database, RawQuery: "sslmode=disable"}
	u.User = url.User(c.User)
	if c.Password != "" {
		u.User = url.UserPassword(c.User, c.Password)
	}
	p.url = u.String()
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.Cut()
		p.work.Wait()
	})
	return p
}

// URL is the database's, by way of the proxy.
func (p *Proxy) URL() string { return p.url }

// Cut breaks every connection that goes through now, without a word to either side.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Down breaks every connection, and each new one at once, until Up.
func (p *Proxy) Down() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.Cut()
}

// Up lets connections through again.
func (p *Proxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// CutAt breaks the connection over which the client next sends the marker. Either the server never gets it, or (through) it gets and does it, and
// the client never hears of that.
func (p *Proxy) CutAt(marker string, through bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marker, p.let = []byte(marker), through
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.work.Go(func() { p.carry(client) })
	}
}

func (p *Proxy) carry(client net.Conn) {
	var d net.Dialer
	server, err := d.Dial(p.network, p.address)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	if p.down {
		l.close()
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.copy(l, client, server, true) })
	both.Go(func() { p.copy(l, server, client, false) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *Proxy) copy(l *link, from, to net.Conn, sending bool) {
	defer l.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || p.cuts(l, buf[:n], sending) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) cuts(l *link, b []byte, sending bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !sending {
		return l.swallow
	}
	if len(p.marker) == 0 || !bytes.Contains(b, p.marker) {
		return false
	}
	p.marker = nil
	l.swallow = p.let
	return !p.let
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
