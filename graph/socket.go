package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"
)

const (
	// subprotocol is the only one: without it gqlgen would fall back to the legacy one.
	subprotocol = "graphql-transport-ws"
	// writeBound is how long a frame may take to leave. gqlgen writes under a lock, so a peer that stopped reading would hold that lock for ever.
	writeBound = 5 * time.Second
	// unsent is how much of a stream the kernel takes beyond what the peer has room for. By itself it takes megabytes, and until they are full a peer that
	// does not read costs as much as one that reads.
	unsent = 16 << 10
	// readLimit bounds a message from the client.
	readLimit = maxBody
	// pingEvery is how often a peer is asked whether it is there; one that does not answer twice is closed, so within half a minute.
	pingEvery = 10 * time.Second
)

// Close codes of our own beside those of the protocol.
const (
	closeMalformed     = 4400 // a message that isn't the protocol's: connecting again to say the same is pointless
	closeUnauthorized  = 4401 // no valid token at the beginning: connecting again with the same one is pointless
	closeExpired       = 4403 // the token ended while the socket was open: sign in again and resume
	closeNoSubprotocol = 4406
	closeSilent        = 4408 // no connection_init within the time for it
	closeTaken         = 4409 // an operation under the id of one that runs
	closeTwice         = 4429 // a second connection_init
	closeGoingAway     = 1012 // the server restarts: come back
	closeTryLater      = 1013 // the database does not answer: come back
)

type connKey struct{}

// ConnContext keeps a connection for what is to be set on it; it is for [http.Server]'s field of that name.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// boundUnsent bounds what the kernel takes for the connection that a request came by. Where that can't be set, the bound on a write's time remains.
func boundUnsent(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*net.TCPConn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(setUnsent)
		}
	}
}

// sockets is how gqlgen gets its websockets: with bounded writes, one subprotocol, and close codes that tell a restart from an ended token.
type sockets struct {
	stopping context.Context //nolint:containedctx // says whether the process stops
	open     *sync.WaitGroup // holds, beside the requests, the good-byes that are under way
}

// Accept upgrades the request. Origin and host were checked before.
func (s sockets) Accept(w http.ResponseWriter, r *http.Request, _ transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{subprotocol}, CompressionMode: websocket.CompressionDisabled, InsecureSkipVerify: true, // checked by the guard, for all requests
	})
	if err != nil {
		return nil, err
	}
	boundUnsent(r.Context())
	// The handler's context can end before the last frames are written; the socket's own ends with the socket.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	c := &socket{conn: conn, ctx: ctx, cancel: cancel, stopping: s.stopping, open: s.open, life: lifeOf(r.Context())}
	c.life.opened(c)
	return c, nil
}

type socket struct {
	conn     *websocket.Conn
	ctx      context.Context //nolint:containedctx // of the socket, which gqlgen's adapter methods take no context for
	cancel   context.CancelFunc
	stopping context.Context //nolint:containedctx // says whether the process stops
	open     *sync.WaitGroup
	life     *life
	names    names

	mu        sync.Mutex
	timer     *time.Timer
	closed    bool
	malformed bool // the last message is none that gqlgen understands
}

// Subprotocol gives the one that was agreed on. Where there is none, gqlgen would take the legacy one; another name makes it close the socket.
func (c *socket) Subprotocol() string {
	if p := c.conn.Subprotocol(); p != "" {
		return p
	}
	return "none"
}

func (c *socket) SetReadLimit(limit int64) { c.conn.SetReadLimit(limit) }

// NextReader gives the next message.
func (c *socket) NextReader() (int, io.Reader, error) {
	kind, data, err := c.conn.Read(c.ctx)
	if err != nil {
		switch websocket.CloseStatus(err) {
		case websocket.StatusNormalClosure, websocket.StatusNoStatusRcvd, websocket.StatusGoingAway:
			return int(kind), nil, transport.ErrWebsocketClosed
		}
		return int(kind), nil, err
	}
	data, known, no := c.names.read(data)
	if no.code != 0 {
		_ = c.WriteClose(no.code, no.reason)
		return int(kind), nil, transport.ErrWebsocketClosed
	}
	c.mu.Lock()
	c.malformed = !known // gqlgen ends the socket over it the same way as when all is well
	c.mu.Unlock()
	return int(kind), bytes.NewReader(data), nil
}

// WriteJSON writes a message within the bound; a peer that does not take it is cut off, and resumes by its cursor.
func (c *socket) WriteJSON(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if data = c.names.write(data); data == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, writeBound)
	defer cancel()
	if err := c.conn.Write(ctx, websocket.MessageText, data); err != nil {
		_ = c.conn.CloseNow()
		return err
	}
	return nil
}

// WriteClose says goodbye. gqlgen says 1000 whatever the cause, which clients take for «connect again at once».
func (c *socket) WriteClose(code int, message string) error {
	if c.conn.Subprotocol() != subprotocol {
		code, message = closeNoSubprotocol, "speak "+subprotocol
	}
	if message == "connection initialisation timeout" { // gqlgen's words
		code = closeSilent
	}
	if code == transport.WebsocketCloseNormalClosure {
		switch {
		case c.stopping.Err() != nil:
			code, message = closeGoingAway, "the server restarts"
		case c.life.expired():
			code, message = closeExpired, "the token has ended; sign in again"
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.malformed && (code == transport.WebsocketCloseNormalClosure || code == transport.WebsocketCloseProtocolError) {
		code, message = closeMalformed, "not a message of "+subprotocol
	}
	c.open.Go(func() {
		defer c.cancel()
		_ = c.conn.Close(websocket.StatusCode(code), message) // bounded by the library: 5 s
	})
	return nil
}

// Close cuts the socket off, unless a goodbye is under way.
func (c *socket) Close() error {
	_ = c.SetReadDeadline(time.Time{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.cancel()
	return c.conn.CloseNow()
}

// SetReadDeadline cuts the socket off at that time; the zero time takes it back.
func (c *socket) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if !at.IsZero() {
		c.timer = time.AfterFunc(max(0, time.Until(at)), func() { _ = c.conn.CloseNow() })
	}
	return nil
}

// life is when the token that a socket was opened with ends. It is made with the request, and known when the client has shown its token.
type life struct {
	from string // the address that the request came from

	mu        sync.Mutex
	expiresAt time.Time
	open      int // subscriptions that run
	socket    *socket
}

func (l *life) opened(c *socket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.socket = c
}

// left says goodbye to a socket that nobody reads any more, unless it has ended already.
func (l *life) left() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != nil {
		_ = l.socket.WriteClose(closeMalformed, "not a message of "+subprotocol)
	}
}

func (l *life) set(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiresAt = at
}

func (l *life) expired() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.expiresAt.IsZero() && !time.Now().Before(l.expiresAt)
}

// maxOpen bounds the subscriptions of one socket.
const maxOpen = 64

// begin counts a subscription, unless the socket has too many.
func (l *life) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= maxOpen {
		return false
	}
	l.open++
	return true
}

func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

type lifeKey struct{}

func withLife(ctx context.Context, from string) context.Context {
	return context.WithValue(ctx, lifeKey{}, &life{from: from})
}

func lifeOf(ctx context.Context) *life {
	l, _ := ctx.Value(lifeKey{}).(*life)
	return l
}
