package graph_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/graph"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/placement"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is the real handler on a database of its own.
type bundle struct {
	*testing.T

	db     *db.DB
	api    *graph.API
	issuer *iam.Issuer
	server *httptest.Server
	token  string
	log    *syncBuffer
	stop   context.CancelFunc // of the process, not of the test
	pool   string
	later  sync.WaitGroup // what follows answers

	meter   tally
	sockets sync.WaitGroup
	broken  atomic.Pointer[graph.Part] // makes the process not ready
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func setup(t *testing.T, options ...dbtest.Option) *bundle {
	t.Helper()
	b := &bundle{T: t, db: dbtest.New(t, options...), log: &syncBuffer{}}
	logger := slog.New(graph.LogHandler(slog.NewJSONHandler(b.log, nil)))
	authority, err := iam.NewAuthority(b.db)
	require.NoError(t, err)
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	nodes := &node.Store{DB: b.db, Authority: authority}
	b.issuer = iam.NewIssuer(b.db, key)
	b.api = &graph.API{
		DB: b.db, Log: events.NewLog(b.db, events.Options{Log: logger}), Authority: authority, Issuer: b.issuer, Nodes: nodes,
		Controls: &controls.Controls{Nodes: nodes}, Bookings: &placement.Bookings{DB: b.db, Authority: authority},
		PKI: &pki.Store{DB: b.db, Authority: authority, Nodes: nodes, Log: logger}, GatewayAddress: "gw.example:8443", Slog: logger,
		Later: func(ctx context.Context, _ string, fn func(context.Context) error) {
			b.later.Go(func() { _ = fn(context.WithoutCancel(ctx)) })
		},
	}
	logCtx, stopLog := context.WithCancel(context.WithoutCancel(t.Context()))
	logDone := make(chan struct{})
	go func() {
		defer close(logDone)
		_ = b.api.Log.Run(logCtx)
	}()
	stopping, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	b.stop = stop
	b.server = httptest.NewUnstartedServer(nil)
	hosts, err := graph.NewHosts(b.server.Listener.Addr(), "https://console.example.com")
	require.NoError(t, err)
	b.server.Config.Handler = graph.Handler(b.api, graph.Options{
		Hosts: hosts, Console: http.NotFoundHandler(), Stopping: stopping, Ready: b.ready, Meter: &b.meter, Sockets: &b.sockets, RefusedAtOnce: 1 << 20,
		Jobs:    http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method+" "+r.URL.Path) }),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "bc_figures 1\n") }),
	})
	b.server.Start()
	t.Cleanup(func() {
		stop()
		b.server.CloseClientConnections()
		b.server.Close()
		b.later.Wait()
		stopLog()
		<-logDone
	})
	b.do(func(ctx context.Context, tx *db.Tx) error {
		if err := iam.CreateTenantTx(ctx, tx, "acme"); err != nil {
			return err
		}
		p, err := node.CreatePoolTx(ctx, tx, "acme", "gpus")
		b.pool = p.ID
		return err
	})
	b.token = b.tokenFor("alex", "acme", time.Hour)
	require.Eventually(t, b.api.Log.Ready, 10*time.Second, 5*time.Millisecond)
	return b
}

func (b *bundle) do(fn func(ctx context.Context, tx *db.Tx) error) {
	b.Helper()
	_, err := b.db.Do(b.Context(), fn)
	require.NoError(b, err)
}

func (b *bundle) exec(sql string, args ...any) {
	b.Helper()
	_, err := b.db.Pool().Exec(b.Context(), sql, args...)
	require.NoError(b, err)
}

func (b *bundle) tokenFor(name, tenant string, life time.Duration) string {
	b.Helper()
	b.do(func(ctx context.Context, tx *db.Tx) error {
		if tenant != "" {
			if err := iam.CreateTenantTx(ctx, tx, tenant); err != nil {
				return err
			}
		}
		return iam.GrantTx(ctx, tx, name, tenant, "admin")
	})
	token, _, err := b.issuer.Issue(b.Context(), name, life)
	require.NoError(b, err)
	return token
}

// node makes a node that takes work.
func (b *bundle) node() string {
	b.Helper()
	var nodeID string
	b.do(func(ctx context.Context, tx *db.Tx) error {
		n, err := node.CreateTx(tx, node.New{Key: id.New(id.Session), PoolID: b.pool, Hostname: "gpu-" + id.New(id.Session)[20:], By: "test"})
		if err != nil {
			return err
		}
		nodeID = n
		_, err = tx.Exec(ctx, `update nodes set provision_state = 'ADOPTED' where id = $1`, n)
		return err
	})
	return nodeID
}

type object = map[string]any

type gqlError struct {
	Message    string
	Path       []any
	Extensions struct {
		Code      string
		Details   object
		RequestID string `json:"requestId"`
	}
}

type answer struct {
	Data   object
	Errors []gqlError
}

// code gives the code of the one error.
func (a answer) code(t testing.TB) string {
	t.Helper()
	require.Len(t, a.Errors, 1, "%+v", a)
	require.NotEmpty(t, a.Errors[0].Message)
	require.NotEmpty(t, a.Errors[0].Extensions.RequestID)
	return a.Errors[0].Extensions.Code
}

// at walks into the data.
func (a answer) at(t testing.TB, path ...string) any {
	t.Helper()
	require.Empty(t, a.Errors)
	var v any = a.Data
	for _, p := range path {
		o, ok := v.(object)
		require.True(t, ok, "%s of %v", p, v)
		v = o[p]
	}
	return v
}

func (b *bundle) send(method, path string, header map[string]string, body string) (*http.Response, answer) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, b.server.URL+path, strings.NewReader(body))
	require.NoError(b, err)
	for k, v := range header {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	resp, err := b.server.Client().Do(req)
	require.NoError(b, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	var a answer
	_ = json.Unmarshal(text, &a)
	return resp, a
}

func (b *bundle) as(token, query string, variables object) answer {
	b.Helper()
	body, err := json.Marshal(object{"query": query, "variables": variables})
	require.NoError(b, err)
	header := map[string]string{"Content-Type": "application/json"}
	if token != "" {
		header["Authorization"] = "Bearer " + token
	}
	_, a := b.send(http.MethodPost, "/graphql", header, string(body))
	return a
}

func (b *bundle) query(query string, variables object) answer {
	b.Helper()
	return b.as(b.token, query, variables)
}

// control runs a mutation that takes one input.
func (b *bundle) control(name string, input object) answer {
	b.Helper()
	kind := strings.ToUpper(name[:1]) + name[1:] + "Input"
	return b.query("mutation($i: "+kind+"!) { "+name+"(input: $i) { changed cursor node { id version cordoned } } }", object{"i": input})
}

// stream is one subscription on a websocket of its own.
type stream struct {
	b    *bundle
	conn *websocket.Conn
}

type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// open opens a socket on which nothing was said yet.
func (b *bundle) open(subprotocol string, header http.Header) (*websocket.Conn, error) {
	conn, resp, err := websocket.Dial(b.Context(), "ws"+strings.TrimPrefix(b.server.URL, "http")+"/graphql", &websocket.DialOptions{
		Subprotocols: []string{subprotocol}, HTTPHeader: header,
	})
	if err != nil {
		return nil, err
	}
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	b.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(8 << 20)
	return conn, nil
}

func (b *bundle) raw(subprotocol string) *websocket.Conn {
	b.Helper()
	conn, err := b.open(subprotocol, nil)
	require.NoError(b, err)
	return conn
}

func (b *bundle) dial(token string, header http.Header) (*websocket.Conn, error) {
	conn, err := b.open("graphql-transport-ws", header)
	if err != nil {
		return nil, err
	}
	init := frame{Type: "connection_init"}
	if token != "" {
		init.Payload, err = json.Marshal(object{"Authorization": "Bearer " + token})
		require.NoError(b, err)
	}
	if err := wsjson.Write(b.Context(), conn, init); err != nil {
		return nil, err
	}
	var ack frame
	if err := wsjson.Read(b.Context(), conn, &ack); err != nil {
		return nil, err
	}
	require.Equal(b, "connection_ack", ack.Type, "%s", ack.Payload)
	return conn, nil
}

func (b *bundle) subscribe(query string, variables object) *stream {
	b.Helper()
	conn, err := b.dial(b.token, nil)
	require.NoError(b, err)
	return b.subscribeOn(conn, "1", query, variables)
}

func (b *bundle) subscribeOn(conn *websocket.Conn, name, query string, variables object) *stream {
	b.Helper()
	payload, err := json.Marshal(object{"query": query, "variables": variables})
	require.NoError(b, err)
	require.NoError(b, wsjson.Write(b.Context(), conn, frame{ID: name, Type: "subscribe", Payload: payload}))
	return &stream{b: b, conn: conn}
}

// next gives the next message that is no ping.
func (s *stream) next() frame {
	s.b.Helper()
	ctx, cancel := context.WithTimeout(s.b.Context(), 20*time.Second)
	defer cancel()
	for {
		var f frame
		require.NoError(s.b, wsjson.Read(ctx, s.conn, &f))
		if f.Type == "ping" {
			require.NoError(s.b, wsjson.Write(ctx, s.conn, frame{Type: "pong"}))
			continue
		}
		return f
	}
}

// event gives the next event.
func (s *stream) event(field string) object {
	s.b.Helper()
	f := s.next()
	require.Equal(s.b, "next", f.Type, "%s", f.Payload)
	var a answer
	require.NoError(s.b, json.Unmarshal(f.Payload, &a))
	e, ok := a.at(s.b, field).(object)
	require.True(s.b, ok)
	return e
}
