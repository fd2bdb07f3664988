// Package gateway is where machines come in: one TLS listener on which they join and hold their sessions.
//
// A session is one websocket over mutual TLS. Whose it is stands in the certificate that TLS has verified and the database honours, and nowhere else.
// The read loop of a session is its one lasting goroutine; beats touch memory alone, and every 15 seconds the ages of all sessions are flushed by one
// statement. A node's newest session wins, here by the registry and between gateways by the number that the database gave it.
package gateway

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/pki"
)

// Identities is what the gateway asks about certificates; *pki.Store is it.
type Identities interface {
	// Join lets a machine in by a token; exporter ties the request to its TLS connection.
	Join(ctx context.Context, req wire.JoinRequest, exporter []byte) (wire.JoinAnswer, error)
	// Admit judges by the database a certificate that TLS has verified, and has the effects of its use. A certificate that does not count is
	// UNAUTHENTICATED with the reason in details.reason.
	Admit(ctx context.Context, leaf *x509.Certificate) (pki.Verdict, error)
	// Renew signs a new certificate for the node of a session that was let in with v.
	Renew(ctx context.Context, v pki.Verdict, csrDER []byte) (pki.Renewed, error)
	// TellMismatch tells the owner that a machine with this certificate calls itself another node.
	TellMismatch(ctx context.Context, v pki.Verdict, claimed string) error
}

// Config says what a gateway works with. Durations and bounds that are 0 have the value that their comment names.
type Config struct {
	// ID names the gateway across restarts: see OpenID.
	ID string
	// GetCertificate gives the gateway's own certificate for each handshake.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Root is the certificate that machines' certificates must chain to.
	Root *x509.Certificate
	// Identities judges certificates and joins.
	Identities Identities
	// Sessions keeps sessions and ages.
	Sessions *liveness.Store
	// Health takes inventories.
	Health *health.Store
	// Feed tells which certificates of live sessions were revoked; nil lets a revoked one keep its session until it runs out.
	Feed *pki.RevocationFeed
	// Log must not be nil.
	Log *slog.Logger

	// BeatInterval is what machines are told: 10 s.
	BeatInterval time.Duration
	// Lease is how long a session may be silent: 40 s.
	Lease time.Duration
	// HelloTimeout is how long a session may take to say Hello: 10 s.
	HelloTimeout time.Duration
	// FlushEvery is how often ages are written: 15 s.
	FlushEvery time.Duration
	// LookEvery is how often sessions are looked at, in memory and in the database: 1 s.
	LookEvery time.Duration
	// Gather is how long the first Hello of a batch waits for others: 15 ms.
	Gather time.Duration
	// MaxSessions bounds the sessions: 20,000.
	MaxSessions int
	// MaxPending bounds the connections that hold no session yet; the last quarter of them is for addresses that have less than a quarter: 1,024.
	MaxPending int
	// HellosPerSecond is how many sessions may begin each second in the long run, as many again at once: 2,000. Who comes beyond waits a little, and is
	// told to come back when that would not do.
	HellosPerSecond int
	// JoinsPerSecond is how many joins one address may try in the long run, four times as many at once: 500.
	JoinsPerSecond int
	// RefusalsPerSecond is how many connections of one address may come to nothing in the long run, four times as many at once: 50. Those are joins that
	// are refused for what they show, sessions without a certificate or too soon, and handshakes that nothing follows. Then its new connections are left
	// waiting and closed, without a handshake, until it has become fewer, but for GreetedPerSecond.
	RefusalsPerSecond int
	// GreetedPerSecond is how many new connections of such an address are greeted all the same, whichever come, four times as many at once: 20. Others may
	// be behind the same address, and come through by trying again.
	GreetedPerSecond int
	// ConnectsPerSecond is how many sessions may begin with one certificate in the long run, four times as many at once: 2.
	ConnectsPerSecond int
}

func (c *Config) defaults() {
	def(&c.BeatInterval, wire.BeatInterval)
	def(&c.Lease, wire.Lease)
	def(&c.HelloTimeout, wire.HelloTimeout)
	def(&c.FlushEvery, 15*time.Second)
	def(&c.LookEvery, time.Second)
	def(&c.Gather, 15*time.Millisecond)
	def(&c.MaxSessions, 20_000)
	def(&c.MaxPending, 1024)
	def(&c.HellosPerSecond, 2000)
	def(&c.JoinsPerSecond, 500)
	def(&c.RefusalsPerSecond, 50)
	def(&c.GreetedPerSecond, 20)
	def(&c.ConnectsPerSecond, 2)
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Gateway is one process's gateway. New makes it, Serve runs it once.
type Gateway struct {
	Config

	instance string
	tls      *tls.Config
	epoch    time.Time // of the monotonic clock that ages are counted by
	registry registry
	opens    opener
	ends     ender
	hellos   *rate.Limiter
	joins    *addresses
	refusals *addresses
	greeted  *addresses // those of addresses that were refused too often
	connects *addresses // by certificate
	joining  chan struct{}
	judging  chan struct{}
	telling  chan struct{}
	serving  atomic.Bool
	flushed  atomic.Int64 // when ages were written last, since epoch
	beats    atomic.Int64 // that came, since the start
	work     sync.WaitGroup
	stopping chan struct{}
}

// New makes a gateway. Its TLS settings are made here, once.
func New(c Config) *Gateway {
	c.defaults()
	roots := x509.NewCertPool()
	roots.AddCert(c.Root)
	g := &Gateway{
		Config:   c,
		instance: rand.Text(),
		tls: &tls.Config{
			MinVersion:             tls.VersionTLS13,
			NextProtos:             []string{"http/1.1"},
			GetCertificate:         c.GetCertificate,
			ClientCAs:              roots,
			ClientAuth:             tls.VerifyClientCertIfGiven,
			SessionTicketsDisabled: true,
		},
		epoch:    time.Now(),
		hellos:   rate.NewLimiter(rate.Limit(c.HellosPerSecond), c.HellosPerSecond),
		joins:    newAddresses(c.JoinsPerSecond),
		refusals: newAddresses(c.RefusalsPerSecond),
		greeted:  newAddresses(c.GreetedPerSecond),
		connects: newAddresses(c.ConnectsPerSecond),
		joining:  make(chan struct{}, 32),
		judging:  make(chan struct{}, 64),
		telling:  make(chan struct{}, 8),
		stopping: make(chan struct{}),
	}
	g.registry = registry{all: map[*session]struct{}{}, byNode: map[string]*session{}}
	g.opens = opener{queue: make(chan hello, 4096)}
	g.ends = ender{nudge: make(chan struct{}, 1)}
	return g
}

// Stats are the gateway's figures.
type Stats struct {
	// Sessions are those that are open.
	Sessions int
	// Connections are the sessions and what has not said Hello yet.
	Connections int
	// Serving says whether machines are taken.
	Serving bool
	// Beats are those that came since the gateway started.
	Beats int64
	// FlushAge is how long ago ages were last written; negative before the first time.
	FlushAge time.Duration
}

// Stats gives them as they are now.
func (g *Gateway) Stats() Stats {
	all, open := g.registry.count()
	s := Stats{Sessions: open, Connections: all, Serving: g.serving.Load(), Beats: g.beats.Load(), FlushAge: -1}
	if at := g.flushed.Load(); at > 0 {
		s.FlushAge = g.now() - time.Duration(at)
	}
	return s
}

// now is the gateway's monotonic clock.
func (g *Gateway) now() time.Duration { return time.Since(g.epoch) }

// How long stopping may take: for requests that are under way, for saying good-bye, and for writing the last ends.
const (
	requestsEnd = 3 * time.Second
	goodbye     = 2 * time.Second
	lastEnds    = 2 * time.Second
)

// Serve runs the gateway on a listener until ctx ends, and then stops it within five seconds: sessions are told to go to another gateway, spread over
// time, and end as DISCONNECTED. It gives nil after that.
//
// Before it takes the first connection it ends the sessions that a process under the same id left open when it was killed. When another process takes
// over the id, it stops and says so.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	left, err := g.Sessions.StartGateway(ctx, g.ID, g.instance)
	switch {
	case ctx.Err() != nil:
		return l.Close()
	case err != nil:
		return errors.Join(err, l.Close())
	}
	if left > 0 {
		g.Log.InfoContext(ctx, "sessions that the process before had left open are ended", "gateway", g.ID, "sessions", left)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// What serves sessions lives on until they have been told to leave.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	server := g.server(running)
	g.work.Add(1) // until those who look at sessions have stopped
	var looking, background sync.WaitGroup
	g.lookAtSessions(ctx, cancel, &looking)
	background.Go(func() { g.openSessions(running) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.endSessions(running)
	}()

	served := make(chan error, 1)
	door := newDoor(l, g.MaxPending, g.greets, g.wasted)
	go func() { served <- server.Serve(tls.NewListener(door, g.tls)) }()
	g.serving.Store(true)
	g.Log.InfoContext(ctx, "the gateway takes machines", "gateway", g.ID, "address", l.Addr().String())

	select {
	case <-ctx.Done():
	case err := <-served:
		cancel(fmt.Errorf("the gateway's listener: %w", err))
		served <- err
	}
	g.serving.Store(false)
	close(g.stopping)
	began := time.Now()
	requests, done := context.WithTimeout(context.WithoutCancel(ctx), requestsEnd)
	defer done()
	background.Go(func() {
		if err := server.Shutdown(requests); err != nil {
			_ = server.Close()
		}
	})
	looking.Wait()
	told := g.dismiss()
	g.work.Done()
	g.work.Wait()
	stop()
	<-ended
	background.Wait()
	<-served
	g.Log.InfoContext(ctx, "the gateway has stopped", "gateway", g.ID, "sessions", told, "took", time.Since(began).Round(time.Millisecond))
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// greets says whether a connection from there gets a handshake: always, unless too many came to nothing; then a few do.
func (g *Gateway) greets(host string) bool {
	now := time.Now()
	if !g.refusals.spent(host, now) {
		return true
	}
	_, ok := g.greeted.take(host, now)
	return ok
}

// wasted counts a connection that came to nothing.
func (g *Gateway) wasted(host string) { g.refusals.take(host, time.Now()) }

// server answers joins and turns connections into sessions, which live by running.
func (g *Gateway) server(running context.Context) *http.Server {
	return &http.Server{
		Handler:           g.handler(running),
		ReadHeaderTimeout: 5 * time.Second, // also the handshake's
		ReadTimeout:       wire.JoinTimeout,
		WriteTimeout:      wire.JoinTimeout + 5*time.Second,
		IdleTimeout:       time.Second,
		MaxHeaderBytes:    8 << 10,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // HTTP/1.1 only
		ErrorLog:          slog.NewLogLogger(g.Log.Handler(), slog.LevelDebug),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
}

// lookAtSessions starts all that looks at the sessions again and again, until ctx ends. What makes the whole gateway stop is given to cancel.
func (g *Gateway) lookAtSessions(ctx context.Context, cancel context.CancelCauseFunc, looking *sync.WaitGroup) {
	looking.Go(func() { g.keep(ctx) })
	looking.Go(func() { g.check(ctx) })
	if g.Feed != nil {
		looking.Go(func() { g.Feed.Run(ctx, g.registry.certificates, g.revoked) })
	}
	looking.Go(func() {
		if err := g.flush(ctx); err != nil {
			cancel(err)
		}
	})
}

// dismiss tells every session to go, and cuts what does not within the time.
func (g *Gateway) dismiss() int {
	all := g.registry.close()
	spread := time.Second + time.Duration(len(all))*2*time.Millisecond // 500 sessions a second come back
	for _, s := range all {
		g.work.Go(func() { s.end(liveness.EndedGoAway, "this gateway stops; connect again", spread/4+jitter(spread)) })
	}
	return len(all)
}

// jitter gives a random part of d.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	n, err := rand.Int(rand.Reader, big.NewInt(int64(d)))
	if err != nil {
		return d / 2
	}
	return time.Duration(n.Int64())
}
