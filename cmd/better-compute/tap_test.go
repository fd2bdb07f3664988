package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
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

// trip is one round trip to the database: what a client sent up to where it waits for the answer.
type trip struct {
	sql  []string // the statements, in order
	sent []byte
	// reply is nil before the database has it; afterwards it is what the client would hear.
	reply []byte
}

func (tr trip) String() string {
	var words []string
	for _, sql := range tr.sql {
		words = append(words, strings.Join(strings.Fields(sql)[:min(4, len(strings.Fields(sql)))], " "))
	}
	when := "before"
	if tr.reply != nil {
		when = "after"
	}
	return when + " " + strings.Join(words, ", ")
}

// has says whether one of the texts stands in what was sent or answered.
func (tr trip) has(texts ...string) bool {
	for _, text := range texts {
		if bytes.Contains(tr.sent, []byte(text)) || bytes.Contains(tr.reply, []byte(text)) {
			return true
		}
	}
	return false
}

// does says whether one of the statements begins so.
func (tr trip) does(sql string) bool {
	for _, s := range tr.sql {
		if strings.HasPrefix(strings.TrimSpace(s), sql) {
			return true
		}
	}
	return false
}

// tap stands between processes and their database and understands what goes through it, so that a test can stop the world at a chosen step: it is
// asked before the database gets a round trip and before the client gets the answer.
type tap struct {
	listener        net.Listener
	network, target string
	url             string
	work            sync.WaitGroup

	mu    sync.Mutex
	stops func(trip) bool // says that the world ends here; nil lets all through
	stop  func()
	links map[net.Conn]struct{}
}

func newTap(t *testing.T, databaseURL string) *tap {
	t.Helper()
	c, err := pgconn.ParseConfig(databaseURL)
	require.NoError(t, err)
	p := &tap{network: "tcp", target: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), links: map[net.Conn]struct{}{}}
	if strings.HasPrefix(c.Host, "/") {
		p.network, p.target = "unix", filepath.Join(c.Host, fmt.Sprintf(".s.PGSQL.%d", c.Port))
	}
	p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u := url.URL{Scheme: "postgres", User: url.User(c.User), Host: p.listener.Addr().String(), Path: "/" + c.Database, RawQuery: "sslmode=disable"}
	if c.Password != "" {
		u.User = url.UserPassword(c.User, c.Password)
	}
	p.url = u.String()
	p.work.Go(func() {
		for {
			client, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.carry(client) })
		}
	})
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.cut()
		p.work.Wait()
	})
	return p
}

// arm has stop called, once, at the first trip for which stops says so; nothing of that trip goes on, and all connections are cut.
func (p *tap) arm(stops func(trip) bool, stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stops, p.stop = stops, stop
}

func (p *tap) disarm() { p.arm(nil, nil) }

// judge says whether the trip goes on.
func (p *tap) judge(tr trip) bool {
	p.mu.Lock()
	if p.stops == nil || !p.stops(tr) {
		p.mu.Unlock()
		return true
	}
	stop := p.stop
	p.stops, p.stop = nil, nil
	stop()
	p.mu.Unlock()
	p.cut()
	return false
}

func (p *tap) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.links {
		_ = c.Close()
	}
}

func (p *tap) carry(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial(p.network, p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	p.mu.Lock()
	p.links[client], p.links[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.links, client)
		delete(p.links, server)
		p.mu.Unlock()
	}()
	l := &tapped{p: p, client: client, server: server, names: map[string]string{}}
	var down sync.WaitGroup
	down.Go(func() {
		l.down()
		_ = client.Close()
	})
	l.up()
	_ = server.Close()
	down.Wait()
}

// tapped is one connection.
type tapped struct {
	p              *tap
	client, server net.Conn
	names          map[string]string // prepared statements by name

	mu      sync.Mutex
	waiting []trip // sent and not answered
}

// message reads one message of the protocol; the very first of a client has no type.
func message(r io.Reader, typed bool) (kind byte, whole []byte, err error) {
	head := make([]byte, 4)
	if typed {
		head = make([]byte, 5)
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	length := head[len(head)-4:]
	whole = append(head, make([]byte, int(binary.BigEndian.Uint32(length))-4)...)
	_, err = io.ReadFull(r, whole[len(head):])
	return whole[0], whole, err
}

func (l *tapped) up() {
	r := bufio.NewReader(l.client)
	_, first, err := message(r, false)
	if err != nil {
		return
	}
	if _, err := l.server.Write(first); err != nil {
		return
	}
	var tr trip
	for {
		kind, m, err := message(r, true)
		if err != nil {
			return
		}
		tr.sent = append(tr.sent, m...)
		switch kind {
		case 'P':
			name, rest, _ := bytes.Cut(m[5:], []byte{0})
			sql, _, _ := bytes.Cut(rest, []byte{0})
			l.names[string(name)] = string(sql)
			continue
		case 'B':
			_, rest, _ := bytes.Cut(m[5:], []byte{0})
			name, _, _ := bytes.Cut(rest, []byte{0})
			tr.sql = append(tr.sql, l.names[string(name)])
			continue
		case 'Q':
			tr.sql = append(tr.sql, string(bytes.TrimRight(m[5:], "\x00")))
		case 'S':
		case 'p', 'X': // a password, or the end: nothing to wait for
			if _, err := l.server.Write(tr.sent); err != nil {
				return
			}
			tr = trip{}
			continue
		default:
			continue
		}
		if !l.p.judge(tr) {
			return
		}
		l.mu.Lock()
		l.waiting = append(l.waiting, tr)
		l.mu.Unlock()
		if _, err := l.server.Write(tr.sent); err != nil {
			return
		}
		tr = trip{}
	}
}

func (l *tapped) down() {
	r := bufio.NewReader(l.server)
	var reply []byte
	for {
		kind, m, err := message(r, true)
		if err != nil {
			return
		}
		reply = append(reply, m...)
		l.mu.Lock()
		waits := len(l.waiting) > 0
		var tr trip
		if waits && kind == 'Z' {
			tr, l.waiting = l.waiting[0], l.waiting[1:]
		}
		l.mu.Unlock()
		if waits && kind != 'Z' {
			continue
		}
		if waits {
			tr.reply = reply
			if !l.p.judge(tr) {
				return
			}
		}
		if _, err := l.client.Write(reply); err != nil {
			return
		}
		reply = nil
	}
}
