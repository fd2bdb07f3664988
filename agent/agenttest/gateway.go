// Package agenttest is a small gateway for tests of bcd: real TLS on the loopback, a certificate authority that lives as long as the test, single-use
// tokens and sessions in memory. It keeps the rules that bcd relies on and no others, and can be told to misbehave.
package agenttest

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
)

// Options change what a Gateway does. The zero value behaves.
type Options struct {
	// NotBefore and NotAfter bound the validity of the gateway's own certificate; zero means around now.
	NotBefore, NotAfter time.Time
	// Life is how long the certificates of nodes are valid; zero means a day.
	Life time.Duration
	// Age is how long ago they began to be valid.
	Age time.Duration
	// BeatInterval is told in Welcome; zero means 10 ms.
	BeatInterval time.Duration
	// Lease is told in Welcome; zero means a minute.
	Lease time.Duration
	// Silent leaves beats unanswered.
	Silent bool
	// ClientLeaf presents a certificate like that of a node in the place of the gateway's own.
	ClientLeaf bool
	// Address is where to listen; empty means a free port.
	Address string
}

// Gateway is a gateway on the loopback.
type Gateway struct {
	// Address is host:port of the TLS listener.
	Address string
	// CAFingerprint is the SHA-256 of the root certificate in hex.
	CAFingerprint string
	// TrustDomain names it.
	TrustDomain string
	// Sessions delivers every session after its Hello.
	Sessions chan *Session

	options  Options
	ca       *authority
	server   *http.Server
	open     sync.WaitGroup
	life     context.Context
	stop     context.CancelFunc
	listener *countingListener

	mu      sync.Mutex
	tokens  map[string]*token
	nodes   map[string]string
	refused map[string]string
	joins   int
	lose    int
	fail    []failure
}

// New starts a gateway that ends with the test.
func New(t testing.TB, o Options) *Gateway {
	t.Helper()
	g, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// Start starts a gateway that lives until Close, also when ctx has ended.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	return start(ctx, o, ca, "bc-"+hex.EncodeToString(random(8))+".internal", map[string]*token{}, map[string]string{})
}

// Again starts a gateway after this one was closed, with its authority, tokens and nodes, at its address.
func (g *Gateway) Again(t testing.TB) *Gateway {
	t.Helper()
	o := g.options
	o.Address = g.Address
	again, err := start(t.Context(), o, g.ca, g.TrustDomain, g.tokens, g.nodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	return again
}

func start(
	ctx context.Context, o Options, ca *authority, trustDomain string, tokens map[string]*token, nodes map[string]string,
) (*Gateway, error) {
	sum := sha256.Sum256(ca.root.Raw)
	g := &Gateway{
		CAFingerprint: hex.EncodeToString(sum[:]), TrustDomain: trustDomain, Sessions: make(chan *Session, 64),
		options: o, ca: ca, tokens: tokens, nodes: nodes, refused: map[string]string{},
	}
	g.life, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	certificate, err := g.ownCertificate()
	if err != nil {
		return nil, err
	}
	address := o.Address
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	g.Address = listener.Addr().String()
	g.listener = &countingListener{Listener: listener}
	clients := x509.NewCertPool()
	clients.AddCert(ca.root)
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients, SessionTicketsDisabled: true,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+wire.JoinPath, g.join)
	mux.HandleFunc("GET "+wire.SessionPath, g.session)
	g.server = &http.Server{Handler: mux, ReadHeaderTimeout: wire.JoinTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	g.open.Go(func() { _ = g.server.Serve(tls.NewListener(g.listener, config)) })
	return g, nil
}

// Close ends the gateway and all its sessions at once, as a dying process does.
func (g *Gateway) Close() {
	g.stop()
	_ = g.server.Close()
	g.open.Wait()
}

// Token makes a join token that works once.
func (g *Gateway) Token() wire.Token {
	t, err := wire.NewToken(id.New(id.JoinToken))
	if err != nil {
		panic(err) // a fresh id is always a good one
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tokens[t.ID()] = &token{secret: t.SecretHash()}
	return t
}

// Joins counts the join requests that arrived.
func (g *Gateway) Joins() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.joins
}

// Nodes counts the nodes that machines have become.
func (g *Gateway) Nodes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.nodes)
}

// Dials counts the connections that arrived, whatever became of them.
func (g *Gateway) Dials() int { return g.listener.count() }

// LoseAnswers makes the next n joins succeed and their answers get lost.
func (g *Gateway) LoseAnswers(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lose = n
}

// FailJoin makes the next join fail with this status and body, before anything is claimed. Calls add up.
func (g *Gateway) FailJoin(status int, body string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = append(g.fail, failure{status, body})
}

// Refuse makes further sessions of a certificate, by its serial in hex, fail with 401 and this reason; an empty reason lets them in again.
func (g *Gateway) Refuse(serial, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused[serial] = reason
}

// countingListener counts what it accepts.
type countingListener struct {
	net.Listener
	mu sync.Mutex
	n  int
}

// Accept waits for the next connection.
func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.n++
		l.mu.Unlock()
	}
	return conn, err
}

func (l *countingListener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
