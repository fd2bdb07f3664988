// Package agenttest is a small gateway for tests of bcd: real TLS on the loopback, a certificate authority that lives as long as the test, single-use
// tokens and sessions in memory. It keeps the rules that bcd relies on and no others, and can be told to misbehave.
package agenttest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/better-compute/better-compute/fault"
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

type token struct {
	secret [sha256.Size]byte
	used   []byte // the request that used it, for its repeat
	answer wire.JoinAnswer
}

type failure struct {
	status int
	body   string
}

// authority is a root and an intermediate that sign for one trust domain.
type authority struct {
	root, intermediate       *x509.Certificate
	rootKey, intermediateKey *ecdsa.PrivateKey
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

func (g *Gateway) join(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.joins++
	if len(g.fail) > 0 {
		next := g.fail[0]
		g.fail = g.fail[1:]
		w.WriteHeader(next.status)
		_, _ = io.WriteString(w, next.body)
		return
	}
	var request wire.JoinRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, wire.MaxJoinBody)).Decode(&request); err != nil {
		answer(w, http.StatusBadRequest, wire.ErrorBody{Code: fault.InvalidInput, Message: "the body is not a join request"})
		return
	}
	joined, err := g.claim(r.TLS, request)
	if err != nil {
		answer(w, http.StatusUnauthorized, wire.ErrorBody{Code: fault.Unauthenticated, Message: "join token refused: it is unknown, used, expired or revoked; ask for a new one"})
		return
	}
	if g.lose > 0 {
		g.lose--
		panic(http.ErrAbortHandler)
	}
	answer(w, http.StatusOK, joined)
}

var errRefused = errors.New("refused")

func (g *Gateway) claim(state *tls.ConnectionState, request wire.JoinRequest) (wire.JoinAnswer, error) {
	given, err := wire.ParseToken(request.Token)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	known := g.tokens[given.ID()]
	if known == nil || known.secret != given.SecretHash() {
		return wire.JoinAnswer{}, errRefused
	}
	exporter, err := state.ExportKeyingMaterial(wire.JoinExporterLabel, nil, wire.ExporterSize)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	if len(request.IdentityKey) != ed25519.PublicKeySize ||
		!ed25519.Verify(request.IdentityKey, wire.JoinProof(exporter, request.CSR, given.ID()), request.Proof) {
		return wire.JoinAnswer{}, errRefused
	}
	if same := append(append([]byte{}, request.CSR...), request.IdentityKey...); known.used != nil {
		if !bytes.Equal(known.used, same) {
			return wire.JoinAnswer{}, errRefused
		}
		return known.answer, nil
	}
	csr, err := x509.ParseCertificateRequest(request.CSR)
	if err != nil || csr.CheckSignature() != nil || len(csr.Subject.Names)+len(csr.Extensions) > 0 {
		return wire.JoinAnswer{}, errRefused
	}
	key := wire.Fingerprint(request.IdentityKey)
	nodeID := g.nodes[key]
	if nodeID == "" {
		nodeID = id.New(id.Node)
	}
	leaf, chain, err := g.sign(nodeID, csr.PublicKey)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	g.nodes[key] = nodeID
	known.used = append(append([]byte{}, request.CSR...), request.IdentityKey...)
	known.answer = wire.JoinAnswer{
		NodeID: nodeID, Key: key, Certificate: chain, Root: encode(g.ca.root), Serial: leaf.SerialNumber.Text(16), Generation: 1,
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, TrustDomain: g.TrustDomain, Time: time.Now().UTC(),
	}
	return known.answer, nil
}

// Sign gives a certificate for a node and the key of a request, with its intermediate, PEM.
func (g *Gateway) Sign(nodeID string, csrDER []byte) (string, error) {
	csr, err := x509.ParseCertificateRequest(csrDER)
	if err != nil {
		return "", err
	}
	_, chain, err := g.sign(nodeID, csr.PublicKey)
	return chain, err
}

// sign makes a node's certificate and gives it with its intermediate.
func (g *Gateway) sign(nodeID string, key any) (*x509.Certificate, string, error) {
	generation, err := asn1.Marshal(1)
	if err != nil {
		return nil, "", err
	}
	life := g.options.Life
	if life == 0 {
		life = 24 * time.Hour
	}
	begin := time.Now().Add(-g.options.Age).Add(-time.Minute)
	leaf, err := g.ca.leaf(&x509.Certificate{
		NotBefore: begin, NotAfter: begin.Add(life), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:            []*url.URL{{Scheme: "spiffe", Host: g.TrustDomain, Path: "/node/" + nodeID}},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 59999, 1, 1}, Value: generation}},
	}, key)
	if err != nil {
		return nil, "", err
	}
	return leaf, encode(leaf) + encode(g.ca.intermediate), nil
}

// session upgrades one session, or refuses it.
func (g *Gateway) session(w http.ResponseWriter, r *http.Request) {
	if len(r.TLS.VerifiedChains) == 0 {
		refuse(w, wire.ReasonUnknown)
		return
	}
	leaf := r.TLS.VerifiedChains[0][0]
	serial := leaf.SerialNumber.Text(16)
	g.mu.Lock()
	reason := g.refused[serial]
	g.mu.Unlock()
	if reason != "" {
		refuse(w, reason)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		return
	}
	wire.Prepare(conn)
	s := &Session{
		NodeID: leaf.URIs[0].Path[len("/node/"):], Serial: serial, Inventories: make(chan *wire.Inventory, 64), Reports: make(chan *wire.Report, 64),
		Done: make(chan struct{}), conn: conn, gateway: g,
	}
	g.open.Go(func() { s.serve(g.life) })
}

func refuse(w http.ResponseWriter, reason string) {
	answer(w, http.StatusUnauthorized, wire.ErrorBody{
		Code: fault.Unauthenticated, Message: "this certificate is refused: " + reason, Details: fault.Details{"reason": reason},
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// Session is one session that a machine opened.
type Session struct {
	// NodeID and Serial are from the machine's certificate.
	NodeID, Serial string
	// Hello is the machine's first frame.
	Hello *wire.Hello
	// Inventories and Reports deliver what the machine tells.
	Inventories chan *wire.Inventory
	Reports     chan *wire.Report
	// Done is closed when the session is over.
	Done chan struct{}

	conn    *websocket.Conn
	gateway *Gateway

	mu    sync.Mutex
	beats uint64
	ended error
}

// Beats is the number of the newest beat.
func (s *Session) Beats() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beats
}

// Clean says whether the machine closed the session in order; it waits for the end.
func (s *Session) Clean() bool {
	<-s.Done
	s.mu.Lock()
	defer s.mu.Unlock()
	return websocket.CloseStatus(s.ended) == websocket.StatusNormalClosure
}

// Send sends one frame.
func (s *Session) Send(ctx context.Context, down *wire.Down) error {
	return wire.WriteDown(ctx, s.conn, down)
}

// SendClose sends a Close frame and ends the session.
func (s *Session) SendClose(ctx context.Context, c *wire.Close) error {
	err := s.Send(ctx, &wire.Down{Body: &wire.Down_Close{Close: c}})
	// The machine may have closed first.
	_ = s.conn.Close(websocket.StatusPolicyViolation, c.GetReason().String())
	return err
}

// Drop cuts the connection without a word.
func (s *Session) Drop() { _ = s.conn.CloseNow() }

func (s *Session) serve(ctx context.Context) {
	defer close(s.Done)
	defer func() { _ = s.conn.CloseNow() }()
	err := s.listen(ctx)
	s.mu.Lock()
	s.ended = err
	s.mu.Unlock()
}

func (s *Session) listen(ctx context.Context) error {
	up, err := wire.ReadUp(ctx, s.conn)
	if err != nil {
		return err
	}
	if s.Hello = up.GetHello(); s.Hello == nil {
		return errRefused
	}
	o := s.gateway.options
	interval, lease := o.BeatInterval, o.Lease
	if interval == 0 {
		interval = 10 * time.Millisecond
	}
	if lease == 0 {
		lease = time.Minute
	}
	if err := s.Send(ctx, &wire.Down{Body: &wire.Down_Welcome{Welcome: &wire.Welcome{
		NodeId: s.NodeID, Generation: 1, BeatIntervalMs: interval.Milliseconds(), LeaseMs: lease.Milliseconds(),
		ServerTimeUnixMs: time.Now().UnixMilli(),
	}}}); err != nil {
		return err
	}
	s.gateway.Sessions <- s
	for {
		up, err := wire.ReadUp(ctx, s.conn)
		if err != nil {
			return err
		}
		switch body := up.GetBody().(type) {
		case *wire.Up_Beat:
			s.mu.Lock()
			s.beats = body.Beat.GetSeq()
			s.mu.Unlock()
			if !o.Silent {
				err = s.Send(ctx, &wire.Down{Body: &wire.Down_BeatAck{BeatAck: &wire.BeatAck{Seq: body.Beat.GetSeq()}}})
			}
		case *wire.Up_Inventory:
			s.Inventories <- body.Inventory
		case *wire.Up_Report:
			s.Reports <- body.Report
		case *wire.Up_Renew:
			err = s.renew(ctx, body.Renew.GetCsr())
		default:
			err = errRefused
		}
		if err != nil {
			return err
		}
	}
}

func (s *Session) renew(ctx context.Context, der []byte) error {
	chain, err := s.gateway.Sign(s.NodeID, der)
	if err != nil {
		return err
	}
	return s.Send(ctx, &wire.Down{Body: &wire.Down_Renewed{Renewed: &wire.Renewed{ChainPem: []byte(chain)}}})
}

// ownCertificate makes the certificate that the gateway presents: leaf, intermediate and root.
func (g *Gateway) ownCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		NotBefore: g.options.NotBefore, NotAfter: g.options.NotAfter, DNSNames: []string{wire.GatewayName(g.TrustDomain)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if g.options.ClientLeaf {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	leaf, err := g.ca.leaf(template, key.Public())
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{leaf.Raw, g.ca.intermediate.Raw, g.ca.root.Raw}, PrivateKey: key}, nil
}

func newAuthority() (*authority, error) {
	var a authority
	var err error
	if a.rootKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if a.intermediateKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	// The validity is wide, for the tests with clocks that are far off.
	template := x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "root"},
		NotBefore: time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	template.SerialNumber = serial()
	if a.root, err = certify(&template, &template, a.rootKey.Public(), a.rootKey); err != nil {
		return nil, err
	}
	template.SerialNumber, template.Subject.CommonName = serial(), "intermediate"
	a.intermediate, err = certify(&template, a.root, a.intermediateKey.Public(), a.rootKey)
	return &a, err
}

func (a *authority) leaf(template *x509.Certificate, key any) (*x509.Certificate, error) {
	template.SerialNumber, template.KeyUsage, template.BasicConstraintsValid = serial(), x509.KeyUsageDigitalSignature, true
	return certify(template, a.intermediate, key, a.intermediateKey)
}

func certify(template, parent *x509.Certificate, key, signer any) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func encode(cert *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
}

func serial() *big.Int { return new(big.Int).SetBytes(append([]byte{1}, random(15)...)) }

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
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
