package graph_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
)

// statements keeps what a pool sends.
type statements struct {
	mu  sync.Mutex
	sql []string
}

func (s *statements) trace(c *db.Config) { c.Tracer = s }

func (s *statements) add(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sql = append(s.sql, sql)
}

// take gives what was sent since the last call.
func (s *statements) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sql := s.sql
	s.sql = nil
	return sql
}

// TraceQueryStart keeps a statement, unless it goes over one of the log's own connections: those speak whenever they like.
func (s *statements) TraceQueryStart(ctx context.Context, conn *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(conn.Config().RuntimeParams["application_name"], " log ") {
		s.add(d.SQL)
	}
	return ctx
}
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	s.add(d.SQL)
}
func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

const nodeEvents = `subscription($n: ID, $types: [String!], $after: Cursor) { nodeEvents(tenantId: "acme", nodeId: $n, types: $types, after: $after) {
	id cursor type actor reason node { id version } ... on NodeDrained { drainId confirmedByNode } ... on NodeDraining { drainId } } }`

func TestSubscriptions(t *testing.T) {
	t.Parallel()

	t.Run("B4 an empty node drained: a subscriber from before gets both, one with a cursor gets both", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		before := b.query(`{ log(tenantId: "acme") { head } }`, nil).at(t, "log", "head")
		s := b.subscribe(nodeEvents, object{"n": n})
		b.started(s)
		b.control("nodeDrain", object{"tenantId": "acme", "nodeId": n, "reason": "PSU"}).at(t, "nodeDrain")
		late := b.subscribe(nodeEvents, object{"n": n, "after": before})
		for _, one := range []*stream{s, late} {
			draining, drained := one.event("nodeEvents"), one.event("nodeEvents")
			require.Equal(t, []any{"node.draining", "node.drained"}, []any{draining["type"], drained["type"]})
			require.Equal(t, draining["drainId"], drained["drainId"])
			require.Equal(t, false, drained["confirmedByNode"])
			require.Equal(t, "PSU", drained["reason"])
			require.Equal(t, n, drained["node"].(object)["id"])
		}
	})

	t.Run("The cursor of a mutation: what follows after it misses nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		cursor := b.control("nodeDrain", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeDrain", "cursor")
		s := b.subscribe(`subscription($n: ID!, $after: Cursor) { nodeDrained(tenantId: "acme", nodeId: $n, after: $after) { type drainId } }`,
			object{"n": n, "after": cursor})
		require.Equal(t, "node.drained", s.event("nodeDrained")["type"])
	})

	t.Run("G1 a client that is cut again and again and resumes by its cursor has each event once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		after := b.query(`{ log(tenantId: "acme") { head } }`, nil).at(t, "log", "head")
		const total = 60
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := range total {
				name := "nodeCordon"
				if i%2 == 1 {
					name = "nodeUncordon"
				}
				b.control(name, object{"tenantId": "acme", "nodeId": n}).at(t, name)
			}
		})
		var got []string
		for len(got) < total {
			s := b.subscribe(nodeEvents, object{"n": n, "after": after})
			for range min(7, total-len(got)) {
				e := s.event("nodeEvents")
				got, after = append(got, e["type"].(string)), e["cursor"]
			}
			require.NoError(t, s.conn.CloseNow())
		}
		writer.Wait()
		for i, kind := range got {
			require.Equal(t, []string{"node.cordoned", "node.uncordoned"}[i%2], kind)
		}
	})

	t.Run("CURSOR_EXPIRED for another log's cursor and one ahead of the head, INVALID_INPUT for a list's", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		head, err := events.Head(t.Context(), b.db.Pool())
		require.NoError(t, err)
		for cursor, code := range map[string]string{
			events.Cursor{Epoch: head.Epoch + 1, Position: 0}.String():             "CURSOR_EXPIRED",
			events.Cursor{Epoch: head.Epoch, Position: head.Position + 9}.String(): "CURSOR_EXPIRED",
			"N.abc": "INVALID_INPUT",
		} {
			require.Equal(t, code, b.subscribe(nodeEvents, object{"after": cursor}).refusal(), cursor)
		}
	})

	t.Run("Another tenant's subscriber gets nothing, and its node is NOT_FOUND", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		conn, err := b.dial(b.tokenFor("eve", "other", time.Hour), nil)
		require.NoError(t, err)
		s := b.subscribeOn(conn, "1", `subscription($n: ID!) { nodeEvents(tenantId: "other", nodeId: $n) { id } }`, object{"n": n})
		require.Equal(t, "NOT_FOUND", s.refusal())
		s = b.subscribeOn(conn, "2", `subscription { nodeEvents(tenantId: "acme") { id } }`, nil)
		require.Equal(t, "FORBIDDEN", s.refusal())
	})

	t.Run("G3 sight that is lost ends the flow, and sight that is gained opens no past", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		eve := b.tokenFor("eve", "other", time.Hour)
		before := b.query(`{ log(tenantId: "acme") { head } }`, nil).at(t, "log", "head")
		sight := func(fn func(ctx context.Context, tx *db.Tx, tenant, nodeID string, r iam.Relation) error) {
			b.do(func(ctx context.Context, tx *db.Tx) error { return fn(ctx, tx, "other", n, iam.Shared) })
		}
		act := func(name, reason string) {
			b.control(name, object{"tenantId": "acme", "nodeId": n, "reason": reason}).at(t, name)
		}
		const query = `subscription($after: Cursor) { nodeEvents(tenantId: "other", after: $after) { type actor reason cursor } }`
		follow := func() *stream {
			conn, err := b.dial(eve, nil)
			require.NoError(t, err)
			return b.subscribeOn(conn, "1", query, object{"after": before})
		}
		open := follow()
		b.started(open)
		act("nodeCordon", "unseen")
		sight(iam.ProjectTx)
		act("nodeUncordon", "seen")
		sight(iam.WithdrawTx)
		act("nodeCordon", "unseen")
		act("nodeUncordon", "unseen")
		sight(iam.ProjectTx)
		act("nodeDrain", "seen")
		for name, s := range map[string]*stream{"that was there": open, "from before": follow()} {
			var got []string
			for range 3 {
				e := s.event("nodeEvents")
				require.Equal(t, "operator", e["actor"], name)
				require.Nil(t, e["reason"], name)
				got = append(got, e["type"].(string))
			}
			require.Equal(t, []string{"node.uncordoned", "node.draining", "node.drained"}, got, name)
		}
	})

	t.Run("G4 a token that ends ends the stream with UNAUTHENTICATED, and the socket with 4403", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		conn, err := b.dial(b.tokenFor("alex", "acme", 2*time.Second), nil)
		require.NoError(t, err)
		s := b.subscribeOn(conn, "1", nodeEvents, nil)
		require.Equal(t, "UNAUTHENTICATED", s.refusal())
		require.Equal(t, websocket.StatusCode(4403), s.closed())
	})

	t.Run("G4 a token that is revoked ends the stream with UNAUTHENTICATED", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.tokenFor("alex", "acme", time.Hour)
		conn, err := b.dial(token, nil)
		require.NoError(t, err)
		s := b.subscribeOn(conn, "1", nodeEvents, nil)
		b.started(s)
		who, err := b.issuer.Verify(token)
		require.NoError(t, err)
		require.NoError(t, b.issuer.RevokeToken(t.Context(), who.TokenID))
		require.Equal(t, "UNAUTHENTICATED", s.refusal())
	})

	t.Run("Without a token a socket is closed with 4401", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		conn := b.raw("graphql-transport-ws")
		require.NoError(t, wsjson.Write(t.Context(), conn, frame{Type: "connection_init"}))
		require.Equal(t, websocket.StatusCode(4401), (&stream{b: b, conn: conn}).closed())
	})

	t.Run("A message that is not the protocol's closes the socket with 4400, also one that gqlgen would leave open and unread", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, text := range []string{"hello", "[]", "null", "{}", `{"type":"next"}`, `{"type":"subscribe","id":5}`, strings.Repeat("[", 100_000)} {
			conn, err := b.dial(b.token, nil)
			require.NoError(t, err)
			require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(text)))
			require.Equal(t, websocket.StatusCode(4400), (&stream{b: b, conn: conn}).closed(), text[:min(len(text), 20)])
		}
		for _, text := range []string{"hello", `{"type":"connection_init","payload":5}`, `{"type":"connection_init","payload":"x"}`} {
			conn := b.raw("graphql-transport-ws")
			require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(text)))
			require.Equal(t, websocket.StatusCode(4400), (&stream{b: b, conn: conn}).closed(), text)
		}
	})

	t.Run("The legacy subprotocol is refused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		conn := b.raw("graphql-ws")
		require.Equal(t, websocket.StatusCode(4406), (&stream{b: b, conn: conn}).closed())
	})

	t.Run("A server that stops says so: one error UNAVAILABLE or the close code 1012", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		s := b.subscribe(nodeEvents, nil)
		b.started(s)
		b.stop()
		require.Equal(t, websocket.StatusCode(1012), s.closed())
	})

	t.Run("A socket runs at most 64 subscriptions", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		conn, err := b.dial(b.token, nil)
		require.NoError(t, err)
		for i := range 65 {
			b.subscribeOn(conn, string(rune('A'+i)), nodeEvents, nil)
		}
		require.Equal(t, "RESOURCE_EXHAUSTED", (&stream{b: b, conn: conn}).refusal())
	})

	t.Run("G2 a subscriber that stops reading is cut off, and others are not disturbed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		for range 5 {
			// What it is sent is large, and it never reads.
			b.subscribe(`subscription { nodeEvents(tenantId: "acme") { id cursor type actor reason node { id key hostname statusSentence holds { reason message } } } }`, nil)
		}
		good := b.subscribe(nodeEvents, object{"n": n, "after": b.query(`{ log(tenantId: "acme") { head } }`, nil).at(t, "log", "head")})
		reason := strings.Repeat("x", 256)
		deadline := time.Now().Add(60 * time.Second)
		for b.api.Log.Stats().Followers > 1 && time.Now().Before(deadline) {
			for _, name := range []string{"nodeCordon", "nodeUncordon"} {
				b.control(name, object{"tenantId": "acme", "nodeId": n, "reason": reason}).at(t, name)
				require.Equal(t, reason, good.event("nodeEvents")["reason"])
			}
		}
		require.LessOrEqual(t, b.api.Log.Stats().Followers, 1, "those that never read hold nothing any more")
	})
}

func TestVanishedPeer(t *testing.T) {
	t.Parallel()

	t.Run("G6 a peer that vanishes without a close holds nothing after a minute", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		// It reads no more, so it answers no ping either, and nothing says that it is gone: no event, no FIN.
		b.started(b.subscribe(nodeEvents, nil))
		require.Eventually(t, func() bool { return b.api.Log.Stats().Followers == 0 }, time.Minute, 100*time.Millisecond)
	})
}

// started waits until the stream's follower is there, so that what happens next is live for it.
func (b *bundle) started(*stream) {
	b.Helper()
	require.Eventually(b, func() bool { return b.api.Log.Stats().Followers > 0 }, 10*time.Second, time.Millisecond)
}

// refusal gives the code with which a subscription ends.
func (s *stream) refusal() string {
	s.b.Helper()
	for {
		f := s.next()
		var a answer
		switch f.Type {
		case "next":
			require.NoError(s.b, json.Unmarshal(f.Payload, &a))
			if len(a.Errors) == 0 {
				continue
			}
		case "error":
			require.NoError(s.b, json.Unmarshal(f.Payload, &a.Errors))
		case "complete":
			continue // of a subscription that ended before, on the same socket
		default:
			s.b.Fatalf("%s before any error: %s", f.Type, f.Payload)
		}
		return a.code(s.b)
	}
}

// closed gives the code with which the socket ends.
func (s *stream) closed() websocket.StatusCode {
	s.b.Helper()
	ctx, cancel := context.WithTimeout(s.b.Context(), 20*time.Second)
	defer cancel()
	for {
		var f frame
		if err := wsjson.Read(ctx, s.conn, &f); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	open := func(ctx context.Context, query string) *http.Response {
		body, err := json.Marshal(object{"query": query})
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.server.URL+"/graphql", strings.NewReader(string(body)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Authorization", "Bearer "+b.token)
		resp, err := b.server.Client().Do(req)
		require.NoError(t, err)
		return resp
	}

	t.Run("Events arrive, and the buffering of proxies is turned off", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		cursor := b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon", "cursor").(string)
		b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeUncordon")
		resp := open(t.Context(), `subscription { nodeEvents(tenantId: "acme", nodeId: "`+n+`", after: "`+cursor+`") { type } }`)
		defer func() { _ = resp.Body.Close() }()
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
		require.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if after, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				require.JSONEq(t, `{"data":{"nodeEvents":{"type":"node.uncordoned"}}}`, after)
				return
			}
		}
		t.Fatal("no event")
	})

	t.Run("A refused subscription says its code, and then completes", func(t *testing.T) {
		t.Parallel()
		resp := open(t.Context(), `subscription { nodeEvents(tenantId: "other") { type } }`)
		defer func() { _ = resp.Body.Close() }()
		var text strings.Builder
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
		}
		require.Contains(t, text.String(), `"FORBIDDEN"`)
		require.Contains(t, text.String(), "event: complete")
	})

	t.Run("Streams that come and go leave nothing that writes later", func(t *testing.T) {
		t.Parallel()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for range 10 {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					resp := open(ctx, `subscription { nodeEvents(tenantId: "acme") { type } }`)
					_ = resp.Body.Close()
					cancel()
				}
			})
		}
		all.Wait()
	})
}
