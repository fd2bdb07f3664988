package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// connKey is where a request's context holds its connection.
type connKey struct{}

// door bounds the connections that hold no session: in the handshake, in a request, or silent. When there are too many, further ones wait in the
// kernel's queue. One address may have as many as there are, since a rack comes by one: but the last quarter of the places is for those that have less
// than a quarter, and what another one opens then is closed, so that nobody can shut out all others.
type door struct {
	net.Listener

	// greet says whether a connection from there is greeted now.
	greet func(host string) bool
	// wasted is told of each connection that was greeted and asked for nothing.
	wasted func(host string)

	places chan struct{}
	each   int
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	from map[string]int
}

func newDoor(l net.Listener, places int, greet func(host string) bool, wasted func(host string)) *door {
	return &door{
		Listener: l, greet: greet, wasted: wasted, places: make(chan struct{}, places), each: max(places/4, 1), closed: make(chan struct{}), from: map[string]int{},
	}
}

// Accept takes the next connection for which there is a place.
func (d *door) Accept() (net.Conn, error) {
	for {
		select {
		case d.places <- struct{}{}:
		case <-d.closed:
			return nil, net.ErrClosed
		}
		c, err := d.Listener.Accept()
		if err != nil {
			<-d.places
			return nil, err
		}
		host := hostOf(c.RemoteAddr().String())
		if !d.enter(host) {
			<-d.places
			_ = c.Close()
			continue
		}
		p := &pending{Conn: c}
		p.leave = sync.OnceFunc(func() {
			if d.left(host); !p.asked.Load() {
				d.wasted(host)
			}
		})
		if !d.greet(host) {
			p.asked.Store(true) // it had no chance to
			// Left alone for a while and then closed: whoever is closed at once comes back at once, and a handshake is what costs.
			time.AfterFunc(shunFor, func() { _ = p.Close() })
			continue
		}
		return p, nil
	}
}

// shunFor is how long a connection of a shunned address is left waiting, in one of the places of its address.
const shunFor = 2 * time.Second

// Close closes the listener.
func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Listener.Close()
}

func (d *door) enter(host string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if scarce := cap(d.places)-len(d.places) < d.each; scarce && d.from[host] >= d.each {
		return false
	}
	d.from[host]++
	return true
}

func (d *door) left(host string) {
	d.mu.Lock()
	if d.from[host]--; d.from[host] <= 0 {
		delete(d.from, host)
	}
	d.mu.Unlock()
	<-d.places
}

// pending is a connection that takes a place at the door until it closes or holds a session.
type pending struct {
	net.Conn

	leave func()
	asked atomic.Bool // it came as far as a request
	begun bool        // something was read; the goroutine that greets reads first, and alone
}

// Read reads from the connection. What comes first begins a handshake, in a goroutine that net/http has begun for it.
func (p *pending) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if !p.begun && n > 0 {
		p.begun = true
		roomy()
	}
	return n, err
}

// roomy makes the stack of a goroutine that has only begun as large as a handshake and signing need it. Left to itself it grows by and by, and each time
// all that is under way on it is gone through and copied.
//
//go:noinline
func roomy() {
	var room [20 << 10]byte
	runtime.KeepAlive(&room)
}

// Close closes the connection and frees its place.
func (p *pending) Close() error {
	p.leave()
	return p.Conn.Close()
}

// rawOf gives the connection below TLS that a request came by.
func rawOf(ctx context.Context) *pending {
	c, _ := ctx.Value(connKey{}).(*tls.Conn)
	return c.NetConn().(*pending) //nolint:forcetypeassert // the listener makes no other
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// addresses is a token bucket for each address.
type addresses struct {
	every rate.Limit
	burst int

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	limiter *rate.Limiter
	used    time.Time
}

// maxBuckets bounds the memory; when there are more, those that are full again go.
const maxBuckets = 10_000

func newAddresses(perSecond int) *addresses {
	return &addresses{every: rate.Limit(perSecond), burst: 4 * perSecond, buckets: map[string]*bucket{}}
}

// take says whether the address may go on now and, if not, after how long.
func (a *addresses) take(host string, now time.Time) (wait time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.buckets[host]
	if b == nil {
		if len(a.buckets) >= maxBuckets {
			a.forget(now)
		}
		b = &bucket{limiter: rate.NewLimiter(a.every, a.burst)}
		a.buckets[host] = b
	}
	b.used = now
	r := b.limiter.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, false
	}
	return 0, true
}

// spent says whether the address has nothing left, and takes nothing.
func (a *addresses) spent(host string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.buckets[host]
	return b != nil && b.limiter.TokensAt(now) < 1
}

func (a *addresses) forget(now time.Time) {
	full := time.Duration(float64(a.burst) / float64(a.every) * float64(time.Second))
	for host, b := range a.buckets {
		if now.Sub(b.used) > full {
			delete(a.buckets, host)
		}
	}
	// Under an attack from many addresses none is full; then all begin anew, which costs less than an unbounded map.
	if len(a.buckets) >= maxBuckets {
		clear(a.buckets)
	}
}
