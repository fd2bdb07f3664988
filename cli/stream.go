package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/better-compute/better-compute/fault"
)

const (
	subprotocol = "graphql-transport-ws"
	// pingEvery and quietFor: the server answers our ping at once, so a connection on which nothing came for that long is dead, whatever the
	// kernel believes.
	pingEvery = 10 * time.Second
	quietFor  = 25 * time.Second
	// settle is when the first ping goes out: by its answer the server has had the time to refuse the subscription.
	settle       = 250 * time.Millisecond
	writeTimeout = 5 * time.Second
	// largestFrame bounds one event with its data.
	largestFrame = 8 << 20
)

// The times between two tries to come back: a random share of a span that doubles up to the longest.
const (
	firstReturn   = 200 * time.Millisecond
	longestReturn = 2 * time.Second
	// mostFaults is how often in a row a server may answer with a fault of its own: one that is starting or stopping does, a broken one goes on.
	mostFaults = 5
)

type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// errEnough is given back by a consumer that wants no more.
var errEnough = errors.New("enough")

// subscribe runs one subscription over one connection of its own until that ends. live is called once, when the server has taken it; next gets
// the data of each message. Every end but the consumer's own is an error; one after which another try may help is a passing one.
func (c *client) subscribe(ctx context.Context, op operation, variables map[string]any, live func(), next func(json.RawMessage) error) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	if err := c.open(ctx, conn, op, variables); err != nil {
		return err
	}

	pings, stop := context.WithCancel(ctx)
	var pinging sync.WaitGroup
	pinging.Go(func() { c.ping(pings, conn) })
	defer pinging.Wait()
	defer stop()

	once := sync.OnceFunc(live)
	for {
		message, err := c.receive(ctx, conn)
		if err != nil {
			return err
		}
		switch message.Type {
		case "ping":
			if err := c.send(ctx, conn, frame{Type: "pong"}); err != nil {
				return err
			}
		case "pong":
			once()
		case "next":
			once()
			var a answer
			if err := json.Unmarshal(message.Payload, &a); err != nil {
				return &Error{Code: string(fault.Internal), Message: "the server's message can't be read: " + err.Error(), cause: err}
			}
			if len(a.Errors) > 0 {
				return refusal(a.Errors)
			}
			if err := next(a.Data); err != nil {
				return err
			}
		case "error":
			var errs []apiError
			if err := json.Unmarshal(message.Payload, &errs); err != nil || len(errs) == 0 {
				return &Error{Code: string(fault.Internal), Message: "the server ended the subscription without saying why"}
			}
			return refusal(errs)
		case "complete":
			return unavailable(nil, "the server ended the subscription")
		}
	}
}

// dial opens the websocket. A refusal comes as an HTTP answer.
func (c *client) dial(ctx context.Context) (*websocket.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	conn, response, err := websocket.Dial(bounded, "ws"+strings.TrimPrefix(c.endpoint, "http"), &websocket.DialOptions{
		HTTPClient:   c.http,
		HTTPHeader:   http.Header{"Authorization": {"Bearer " + c.token}},
		Subprotocols: []string{subprotocol},
	})
	if err != nil {
		if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			return nil, c.byStatus(response.StatusCode, text)
		}
		return nil, c.unreached(ctx, err)
	}
	if conn.Subprotocol() != subprotocol {
		_ = conn.CloseNow()
		return nil, &Error{Code: string(fault.Unavailable), Message: c.endpoint + " does not speak " + subprotocol}
	}
	conn.SetReadLimit(largestFrame)
	return conn, nil
}

// open signs in and subscribes.
func (c *client) open(ctx context.Context, conn *websocket.Conn, op operation, variables map[string]any) error {
	proof, err := json.Marshal(map[string]string{"Authorization": "Bearer " + c.token})
	if err != nil {
		return fmt.Errorf("write the sign-in: %w", err)
	}
	if err := c.send(ctx, conn, frame{Type: "connection_init", Payload: proof}); err != nil {
		return err
	}
	for {
		message, err := c.receive(ctx, conn)
		if err != nil {
			return err
		}
		if message.Type == "ping" {
			if err := c.send(ctx, conn, frame{Type: "pong"}); err != nil {
				return err
			}
			continue
		}
		if message.Type == "connection_ack" {
			break
		}
		return &Error{Code: string(fault.Unauthenticated), Message: "the server refused the sign-in of the stream"}
	}
	payload, err := json.Marshal(map[string]any{"query": op.text, "operationName": op.name, "variables": variables})
	if err != nil {
		return fmt.Errorf("write the subscription: %w", err)
	}
	return c.send(ctx, conn, frame{ID: "1", Type: "subscribe", Payload: payload})
}

// ping keeps asking whether the server is there. A write that fails closes the connection, and so ends the read.
func (c *client) ping(ctx context.Context, conn *websocket.Conn) {
	for pause := settle; rest(ctx, pause) == nil; pause = pingEvery {
		if c.send(ctx, conn, frame{Type: "ping"}) != nil {
			return
		}
	}
}

func (c *client) send(ctx context.Context, conn *websocket.Conn, f frame) error {
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := conn.Write(bounded, websocket.MessageText, b); err != nil {
		return c.broken(ctx, err)
	}
	return nil
}

func (c *client) receive(ctx context.Context, conn *websocket.Conn) (frame, error) {
	bounded, cancel := context.WithTimeout(ctx, c.quiet)
	defer cancel()
	_, b, err := conn.Read(bounded)
	if err != nil {
		return frame{}, c.broken(ctx, err)
	}
	var f frame
	if err := json.Unmarshal(b, &f); err != nil {
		return frame{}, &Error{Code: string(fault.Internal), Message: "the server's message can't be read: " + err.Error(), cause: err}
	}
	return f, nil
}

// The close codes that say something of the request and not of the connection.
const (
	closeBadRequest   websocket.StatusCode = 4400
	closeUnauthorized websocket.StatusCode = 4401
	closeForbidden    websocket.StatusCode = 4403
)

// broken says why the connection ended.
func (c *client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if closed, ok := errors.AsType[websocket.CloseError](err); ok {
		switch closed.Code {
		case closeUnauthorized, closeForbidden:
			return &Error{Code: string(fault.Unauthenticated), Message: "the server ended the stream: " + orDash(closed.Reason), cause: err}
		case closeBadRequest:
			return &Error{Code: string(fault.Internal), Message: "the server refused a message: " + orDash(closed.Reason), cause: err}
		default: // it says something of the connection
		}
	}
	return unavailable(err, "the stream from %s broke", c.endpoint)
}

// follower reads the log from a position on, over as many connections as it takes, and gives each event once.
type follower struct {
	c      *client
	tenant string
	nodeID string
	types  []string
	// after is the place to go on from. It is never empty: a follower that began without one could miss what happens before its first event.
	after string
	seen  recent
	returning
}

// run gives the events to each, in order, and comes back from the last event's cursor.
func (f *follower) run(ctx context.Context, each func(doc[event]) error) error {
	return f.again(ctx, func(live func()) error {
		variables := map[string]any{"tenantId": f.tenant, "after": f.after}
		if f.nodeID != "" {
			variables["nodeId"] = f.nodeID
		}
		if len(f.types) > 0 {
			variables["types"] = f.types
		}
		return f.c.subscribe(ctx, opNodeEvents, variables, live, func(data json.RawMessage) error { return f.take(data, each) })
	})
}

// returning comes back to a server whose stream broke.
type returning struct {
	// known says that the server has answered before: whatever keeps it from answering now may pass. A server that never did is given up at once
	// when its name or certificate is wrong.
	known bool
	// lost and back, where set, are called when the connection broke, and when the server has taken the subscription again.
	lost func(error)
	back func()
}

// again subscribes, and anew after every passing failure, with full jitter. The subscription says when it is live.
func (r *returning) again(ctx context.Context, subscribe func(live func()) error) error {
	pause, broken, faults := firstReturn, false, 0
	for {
		err := subscribe(func() {
			pause, faults, r.known = firstReturn, 0, true
			if broken && r.back != nil {
				r.back()
			}
			broken = false
		})
		switch {
		case errors.Is(err, errEnough):
			return nil
		case !passing(err) && !r.mayPass(asError(err), &faults):
			return err
		}
		if !broken && r.lost != nil {
			r.lost(err)
		}
		broken = true
		if err := rest(ctx, comeBack(pause, retryAfter(asError(err)))); err != nil {
			return err
		}
		pause = min(2*pause, longestReturn)
	}
}

// mayPass says whether to come back after an end that says of itself that it won't pass.
func (r *returning) mayPass(e *Error, faults *int) bool {
	switch e.Code {
	case string(fault.Unavailable):
		return r.known
	case string(fault.Internal):
		*faults++
		return *faults <= mostFaults
	}
	return false
}

func (f *follower) take(data json.RawMessage, each func(doc[event]) error) error {
	var a struct {
		NodeEvents doc[event] `json:"nodeEvents"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return &Error{Code: string(fault.Internal), Message: "an event can't be read: " + err.Error(), cause: err}
	}
	// The server begins after the cursor that we name, so it sends nothing twice; the ids make sure even where it would.
	if e := a.NodeEvents; !f.seen.add(e.v.ID) {
		f.after = e.v.Cursor
		return nil
	}
	if err := each(a.NodeEvents); err != nil {
		return err
	}
	f.after = a.NodeEvents.v.Cursor
	return nil
}

// recent remembers the last ids, in bounded memory.
type recent struct {
	ring [1024]string
	next int
	held map[string]struct{}
}

// add says whether the id is new.
func (r *recent) add(id string) bool {
	if _, ok := r.held[id]; ok {
		return false
	}
	if r.held == nil {
		r.held = make(map[string]struct{}, len(r.ring))
	}
	delete(r.held, r.ring[r.next])
	r.ring[r.next] = id
	r.held[id] = struct{}{}
	r.next = (r.next + 1) % len(r.ring)
	return true
}
