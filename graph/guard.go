package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// Hosts are the names by which browsers may reach the server. A page of a foreign site that rebinds its name to our address is refused by it.
type Hosts struct{ allowed map[string]bool }

// NewHosts allows the address that is listened on, the loopback's names with its port, and a public URL's host if there is one.
func NewHosts(listen net.Addr, public string) (Hosts, error) {
	h := Hosts{allowed: map[string]bool{}}
	host, port, err := net.SplitHostPort(listen.String())
	if err != nil {
		return Hosts{}, fault.New(fault.InvalidInput, nil, "the listening address %s cannot be read", listen)
	}
	for _, name := range []string{host, "127.0.0.1", "localhost", "::1"} {
		h.allowed[net.JoinHostPort(name, port)] = true
	}
	if public != "" {
		u, err := url.Parse(public)
		if err != nil || u.Host == "" {
			return Hosts{}, fault.Invalid("public-url", "must be a URL like https://console.example.com", len(public))
		}
		h.allowed[strings.ToLower(u.Host)] = true
	}
	return h, nil
}

func (h Hosts) has(host string) bool { return h.allowed[strings.ToLower(host)] }

// same says whether an Origin header names this very server.
func (h Hosts) same(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host) && h.has(u.Host)
}

// guard is before everything: known host, no foreign origin, security headers, a request id.
func guard(hosts Hosts, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, request := withRequestID(r.Context())
		r = r.WithContext(ctx)
		if r.ContentLength != 0 {
			// Also for what takes no body: the server reads it to its end before it answers. A POST's reader takes the bound back.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyBound))
		}
		header := w.Header()
		header.Set("X-Request-Id", request)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
		switch origin := r.Header.Get("Origin"); {
		case !hosts.has(r.Host):
			refuse(w, r, http.StatusMisdirectedRequest, fault.New(fault.Forbidden, nil, "this server is not called %q; use its own address or set --public-url", r.Host))
		case origin != "" && !hosts.same(r, origin):
			refuse(w, r, http.StatusForbidden, fault.New(fault.Forbidden, nil, "requests from pages of other sites are refused"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// refuse answers outside GraphQL, in GraphQL's shape.
func refuse(w http.ResponseWriter, r *http.Request, status int, f *fault.Error) {
	body, err := json.Marshal(map[string]any{
		"data": nil,
		"errors": []any{map[string]any{
			"message": f.Message, "extensions": map[string]any{"code": f.Code, "details": f.Details, "requestId": requestID(r.Context())},
		}},
	})
	if err != nil {
		body = []byte(`{"errors":[{"message":"refused"}]}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

const (
	// bodyBound is how long a request's body may take.
	bodyBound = 10 * time.Second
	// answerBound is how long a query or mutation over HTTP may take.
	answerBound = 30 * time.Second
)

// asked sees to what comes with a request to the API itself: gqlgen would answer these faults without a code.
func asked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			r.Header.Del("Upgrade") // of another protocol, like h2c: the request goes on as it is
		}
		switch {
		case r.Header.Get("Upgrade") != "":
		case r.Method == http.MethodPost:
			if !asksStream(r) {
				r = r.WithContext(context.WithValue(r.Context(), oneAnswerKey{}, true))
			}
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", "GET, POST")
			refuse(w, r, http.StatusMethodNotAllowed, fault.Invalid("method", "must be POST, or GET for queries", 0))
			return
		default:
			values, err := url.ParseQuery(r.URL.RawQuery)
			for _, name := range []string{"variables", "extensions"} {
				if text := values.Get(name); text != "" && !isObject([]byte(text)) {
					err = errors.New(name)
				}
			}
			if err != nil {
				refuse(w, r, http.StatusBadRequest, fault.Invalid("query", "must be query=, and JSON objects as variables= and extensions=, all escaped", 0))
				return
			}
			r = r.WithContext(context.WithValue(r.Context(), readOnlyKey{}, true))
		}
		next.ServeHTTP(w, r)
	})
}

type readOnlyKey struct{}

// readOnly says that the request came by GET, which a foreign page or a link can send.
func readOnly(ctx context.Context) bool { return ctx.Value(readOnlyKey{}) != nil }

type oneAnswerKey struct{}

// oneAnswer says that the request is a POST that takes one answer. A subscription would end with its first event, or hang without one.
func oneAnswer(ctx context.Context) bool { return ctx.Value(oneAnswerKey{}) != nil }

// asksStream says that the request takes its answer as server-sent events.
func asksStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

func isObject(text []byte) bool {
	var o map[string]json.RawMessage
	return !nests(text) && json.Unmarshal(text, &o) == nil
}

// maxNested is how deep the JSON of a request may nest: far deeper than any argument.
const maxNested = 64

// nests says whether JSON nests deeper than that. What gqlgen does with variables grows with the square of their depth, before anybody is asked who
// he is.
func nests(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxNested {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// isRequest says whether a body has the shape of one operation. gqlgen would show a body of another shape in its answer.
func isRequest(body []byte) bool {
	var r struct {
		Query         *string                    `json:"query"`
		OperationName *string                    `json:"operationName"`
		Variables     map[string]json.RawMessage `json:"variables"`
		Extensions    map[string]json.RawMessage `json:"extensions"`
	}
	return !nests(body) && json.Unmarshal(body, &r) == nil
}

// bodies reads a POST's body within its bounds in size and time, and sees that it is what is expected, before gqlgen has it: gqlgen would read
// without a bound, and log a body that it can't parse.
func bodies(valid func([]byte) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			refuse(w, r, http.StatusUnsupportedMediaType, fault.Invalid("Content-Type", "must be application/json", 0))
			return
		}
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(bodyBound))
		most := maxBody
		if _, err := actor(r.Context()); err != nil {
			most = maxStranger
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(most)))
		if err == nil {
			_ = control.SetReadDeadline(time.Time{}) // else it stays, since the server reads on before it answers
		}
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			refuse(w, r, http.StatusRequestEntityTooLarge, fault.New(fault.ResourceExhausted, fault.Details{"limit": most}, "the body is larger than the %d bytes that its sender may send", most))
			return
		case err != nil:
			refuse(w, r, http.StatusRequestTimeout, fault.Invalid("body", "did not arrive within 10 s", len(body)))
			return
		case !valid(body):
			refuse(w, r, http.StatusBadRequest, fault.Invalid("body", "must be one JSON object with query and variables, which nests at most 64 deep", len(body)))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// streams guards what gqlgen writes. Its SSE transport has a goroutine that may write after the handler returned, which takes the process down; and
// no write has a deadline. After ServeHTTP nothing is written any more, and each write has its bound. A stream ends when the process stops.
func streams(stopping context.Context, open *sync.WaitGroup, next http.Handler) http.Handler {
	restart := fault.New(fault.Unavailable, fault.Details{"retryAfterMs": 1000}, "the server restarts; resume by your last cursor")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(withAddress(r.Context(), addressOf(r)))
		socket, sse := r.Header.Get("Upgrade") != "", asksStream(r)
		if socket || sse {
			ctx, cancel := context.WithCancelCause(withLife(r.Context(), addressOf(r)))
			defer cancel(nil)
			defer context.AfterFunc(stopping, func() { cancel(restart) })()
			r = r.WithContext(ctx)
		}
		if socket {
			open.Add(1)
			defer open.Done()
			// gqlgen leaves some sockets open that it stops reading, as after an init that it can't decode.
			defer lifeOf(r.Context()).left()
			next.ServeHTTP(w, r)
			return
		}
		g := &guarded{ResponseWriter: w, control: http.NewResponseController(w)}
		defer g.close()
		if sse {
			boundUnsent(r.Context())
			w.Header().Set("X-Accel-Buffering", "no")
			next.ServeHTTP(g, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), answerBound)
		defer cancel()
		next.ServeHTTP(g, r.WithContext(ctx))
	})
}

type guarded struct {
	http.ResponseWriter

	control *http.ResponseController

	mu     sync.Mutex
	closed bool
}

func (g *guarded) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return len(b), nil
	}
	_ = g.control.SetWriteDeadline(time.Now().Add(writeBound))
	return g.ResponseWriter.Write(b)
}

func (g *guarded) WriteHeader(status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.ResponseWriter.WriteHeader(status)
	}
}

// Flush sends what was written.
func (g *guarded) Flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		_ = g.control.SetWriteDeadline(time.Now().Add(writeBound))
		_ = g.control.Flush()
	}
}

func (g *guarded) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	_ = g.control.SetWriteDeadline(time.Time{})
}
