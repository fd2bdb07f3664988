package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/socket"
	"github.com/better-compute/better-compute/gateway/wire"
)

// handler serves the two paths. Sessions live by running, not by their request.
func (g *Gateway) handler(running context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+wire.JoinPath, func(w http.ResponseWriter, r *http.Request) {
		rawOf(r.Context()).asked.Store(true)
		g.join(w, r)
	})
	mux.HandleFunc("GET "+wire.SessionPath, func(w http.ResponseWriter, r *http.Request) {
		rawOf(r.Context()).asked.Store(true)
		g.session(running, w, r)
	})
	mux.HandleFunc(wire.JoinPath, func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusMethodNotAllowed, fault.New(fault.InvalidInput, nil, "%s takes POST", r.URL.Path))
	})
	mux.HandleFunc(wire.SessionPath, func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusMethodNotAllowed, fault.New(fault.InvalidInput, nil, "%s takes GET", r.URL.Path))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, fault.New(fault.NotFound, nil, "this is a gateway for machines: it has %s and %s", wire.JoinPath, wire.SessionPath))
	})
	return mux
}

// join takes a join. The body is read before a place among those that are worked on is taken, so that a slow sender holds up nobody.
func (g *Gateway) join(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), wire.JoinTimeout)
	defer cancel()
	from := hostOf(r.RemoteAddr)
	if wait, ok := g.joins.take(from, time.Now()); !ok {
		g.refuse(ctx, w, busy(wait, "too many joins from this address; try again"))
		return
	}
	req, err := readJoin(w, r)
	if err != nil {
		g.wasted(from)
		g.refuse(ctx, w, err)
		return
	}
	exporter, err := r.TLS.ExportKeyingMaterial(wire.JoinExporterLabel, nil, wire.ExporterSize)
	if err != nil {
		g.refuse(ctx, w, err)
		return
	}
	select {
	case g.joining <- struct{}{}:
		defer func() { <-g.joining }()
	case <-ctx.Done():
		g.refuse(ctx, w, busy(time.Second+jitter(2*time.Second), "too many machines join now; try again"))
		return
	}
	answer, err := g.Identities.Join(ctx, req, exporter)
	if err != nil {
		if code := fault.CodeOf(err); code == fault.Unauthenticated || code == fault.InvalidInput {
			g.wasted(from)
		}
		g.Log.InfoContext(ctx, "a join was refused", "from", from, "code", fault.CodeOf(err), "error", err)
		g.refuse(ctx, w, err)
		return
	}
	g.Log.DebugContext(ctx, "a join was answered", "node", answer.NodeID, "from", from)
	write(w, http.StatusOK, answer)
}

func readJoin(w http.ResponseWriter, r *http.Request) (wire.JoinRequest, error) {
	var req wire.JoinRequest
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return req, fault.Invalid("Content-Type", "must be application/json", 0)
	}
	var body bytes.Buffer
	body.Grow(2 << 10) // more than bcd sends, and not what somebody announces
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, wire.MaxJoinBody))
	if err == nil {
		err = json.Unmarshal(body.Bytes(), &req) // one value and nothing behind it
	}
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return req, fault.Invalid("body", "must be at most 16 KB", 0)
	case err != nil:
		// The decoder's error can quote the body, in which the token stands.
		return req, fault.Invalid("body", "must be the JSON of a join", 0)
	}
	return req, nil
}

// session judges the certificate, upgrades the connection and lets the session run in a goroutine of its own; this handler returns.
func (g *Gateway) session(running context.Context, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	select {
	case <-g.stopping:
		g.refuse(ctx, w, fault.New(fault.Unavailable, fault.Details{"retryAfterMs": (time.Second + jitter(2*time.Second)).Milliseconds()},
			"this gateway stops; try another, or again"))
		return
	default:
	}
	from := hostOf(r.RemoteAddr)
	if len(r.TLS.VerifiedChains) == 0 {
		g.wasted(from)
		g.refuse(ctx, w, fault.New(fault.Unauthenticated, fault.Details{"reason": wire.ReasonUnknown},
			"a session needs the certificate of a node; join first"))
		return
	}
	if err := socket.Check(r, wire.Subprotocol); err != nil {
		g.refuse(ctx, w, err)
		return
	}
	if g.Feed != nil && !g.Feed.Current() {
		g.refuse(ctx, w, fault.New(fault.Unavailable, fault.Details{"retryAfterMs": (5*time.Second + jitter(10*time.Second)).Milliseconds()},
			"this gateway can't see what is revoked now, so it takes no new sessions; try another, or again"))
		return
	}
	leaf := r.TLS.VerifiedChains[0][0]
	if wait, ok := g.connects.take(leaf.SerialNumber.String(), time.Now()); !ok {
		g.wasted(from)
		g.refuse(ctx, w, busy(wait+jitter(2*time.Second), "this machine connects again and again; something ends its sessions, see its log and the gateway's"))
		return
	}
	if err := g.turn(ctx); err != nil {
		g.refuse(ctx, w, err)
		return
	}
	select {
	case g.judging <- struct{}{}:
	case <-ctx.Done():
		g.refuse(ctx, w, busy(time.Second+jitter(5*time.Second), "too many machines connect now; try again"))
		return
	}
	admitted, err := g.Identities.Admit(ctx, leaf)
	<-g.judging
	if err != nil {
		if fault.CodeOf(err) == fault.Unauthenticated {
			g.wasted(from)
		}
		g.Log.InfoContext(ctx, "a session was refused", "from", from, "serial", leaf.SerialNumber.Text(16), "error", err)
		g.refuse(ctx, w, err)
		return
	}
	s := newSession(g, admitted, leaf.NotBefore, from)
	if err := g.registry.add(s, g.MaxSessions, &g.work); err != nil {
		g.refuse(ctx, w, err)
		return
	}
	conn, err := socket.Accept(w, r, wire.Subprotocol, g.now)
	if err != nil {
		g.Log.InfoContext(ctx, "a connection could not become a session", "node", s.NodeID, "from", s.from, "error", err)
		g.registry.remove(s)
		g.work.Done()
		return
	}
	raw := rawOf(r.Context())
	raw.leave()
	s.upgraded(conn, raw)
	go func() {
		defer g.work.Done()
		s.run(running)
	}()
}

// helloWait is how long a machine waits for its turn before it is told to come back; while it waits it takes a place at the door.
const helloWait = 2 * time.Second

// turn waits for a session's turn among those that begin.
func (g *Gateway) turn(ctx context.Context) error {
	r := g.hellos.Reserve()
	wait := r.Delay()
	if wait == 0 {
		return nil
	}
	if wait > helloWait {
		r.Cancel()
		return busy(wait+jitter(2*wait), "too many machines connect now; try again")
	}
	turn := time.NewTimer(wait)
	defer turn.Stop()
	select {
	case <-turn.C:
		return nil
	case <-ctx.Done():
		r.Cancel()
		return busy(time.Second+jitter(5*time.Second), "too many machines connect now; try again")
	case <-g.stopping:
		r.Cancel()
		return fault.New(fault.Unavailable, nil, "this gateway stops; try another, or again")
	}
}

// busy is the refusal for now.
func busy(wait time.Duration, sentence string) error {
	return fault.New(fault.ResourceExhausted, fault.Details{"retryAfterMs": max(wait.Milliseconds(), 1)}, "%s", sentence)
}

var statuses = map[fault.Code]int{
	fault.Unauthenticated: http.StatusUnauthorized, fault.Forbidden: http.StatusForbidden, fault.NotFound: http.StatusNotFound,
	fault.Conflict: http.StatusConflict, fault.InvalidInput: http.StatusBadRequest, fault.InvalidState: http.StatusConflict,
	fault.CursorExpired: http.StatusGone, fault.ResourceExhausted: http.StatusTooManyRequests, fault.Unavailable: http.StatusServiceUnavailable,
	fault.Internal: http.StatusInternalServerError,
}

// refuse answers with an error. One without a code is logged and shown as INTERNAL, but for a database that doesn't answer.
func (g *Gateway) refuse(ctx context.Context, w http.ResponseWriter, err error) {
	f := fault.From(err)
	var noConnection *pgconn.ConnectError
	switch {
	case f.Code != fault.Internal:
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &noConnection):
		g.Log.WarnContext(ctx, "a request could not be served", "error", err)
		f = fault.New(fault.Unavailable, nil, "the control plane does not answer now; try again")
	default:
		g.Log.ErrorContext(ctx, "a request failed", "error", err)
	}
	refuse(w, statuses[f.Code], f)
}

func refuse(w http.ResponseWriter, status int, f *fault.Error) {
	body := wire.ErrorBody{Code: f.Code, Message: f.Message, Details: f.Details}
	switch ms := f.Details["retryAfterMs"].(type) {
	case int64:
		body.RetryAfterMs = ms
	case int:
		body.RetryAfterMs = int64(ms)
	}
	if body.RetryAfterMs == 0 && f.Code == fault.Unavailable {
		body.RetryAfterMs = (time.Second + jitter(4*time.Second)).Milliseconds()
	}
	write(w, status, body)
}

// write answers with JSON, and the connection closes: machines come for one request or for a session.
func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"code":"INTERNAL","message":"something went wrong here","retryAfterMs":0}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Connection", "close")
	text = append(text, '\n')
	h.Set("Content-Length", strconv.Itoa(len(text))) // else it would go in chunks
	w.WriteHeader(status)
	_, _ = w.Write(text) // a caller that is gone has no use for it
}
