package graph_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/graph"
	"github.com/better-compute/better-compute/iam"
)

// tally is the meter of the tests.
type tally struct {
	mu            sync.Mutex
	operations    map[string]int // by type and code
	subscriptions int
	refused       int
}

func (c *tally) Operation(kind, code string, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.operations == nil {
		c.operations = map[string]int{}
	}
	c.operations[kind+" "+code]++
}

func (c *tally) Subscriptions(delta int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscriptions += delta
}

func (c *tally) SignInRefused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
}

func (c *tally) of(kind, code string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.operations[kind+" "+code]
}

func (c *tally) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subscriptions
}

func (b *bundle) ready(context.Context) []graph.Part {
	parts := []graph.Part{{Name: "database"}}
	if p := b.broken.Load(); p != nil {
		parts = append(parts, *p)
	}
	return parts
}

// lines gives the log's records with that message.
func (b *bundle) lines(msg string) []object {
	var found []object
	for line := range strings.Lines(b.log.String()) {
		var o object
		require.NoError(b, json.Unmarshal([]byte(line), &o), line)
		if o["msg"] == msg {
			found = append(found, o)
		}
	}
	return found
}

func TestObserved(t *testing.T) {
	t.Parallel()

	t.Run("each operation is counted once by its type and code", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.query(`{ viewer { name } }`, nil).at(t, "viewer")
		b.query(`{ viewer { nonsense } }`, nil).code(t)
		b.query(`{ viewer {`, nil).code(t)
		b.as("", `{ viewer { name } }`, nil).code(t)
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": "node_01k5w0000nfj6v7gq0w6vbn9dd"}).code(t)
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": b.node()}).at(t, "nodeCordon")
		for key, want := range map[[2]string]int{
			{"query", "OK"}: 1, {"query", "UNAUTHENTICATED"}: 1, {"invalid", "INVALID_INPUT"}: 2,
			{"mutation", "NOT_FOUND"}: 1, {"mutation", "OK"}: 1,
		} {
			require.Equal(t, want, b.meter.of(key[0], key[1]), "%v of %v", key, b.meter.operations)
		}
	})

	t.Run("subscriptions are counted while they run", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		s := b.subscribe(nodeEvents, nil)
		require.Eventually(t, func() bool { return b.meter.open() == 1 }, 10*time.Second, 5*time.Millisecond)
		require.Equal(t, 1, b.meter.of("subscription", "OK"))
		require.NoError(t, s.conn.Close(websocket.StatusNormalClosure, ""))
		require.Eventually(t, func() bool { return b.meter.open() == 0 }, 10*time.Second, 5*time.Millisecond)
		b.sockets.Wait()
	})

	t.Run("a mutation leaves one line with who, what, outcome and request id, and none of its words", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n, "reason": "canary-3f9a"}).at(t, "nodeCordon")
		failed := b.query(`mutation Canary7b($i: NodeCordonInput!) { again: nodeCordon(input: $i) { changed } }`,
			object{"i": object{"tenantId": "acme", "nodeId": n, "version": 99, "reason": "canary-3f9a"}})
		require.Equal(t, "CONFLICT", failed.code(t))
		b.query(`{ viewer { name } }`, nil)
		lines := b.lines("mutation")
		require.Len(t, lines, 2)
		for i, code := range []string{"OK", "CONFLICT"} {
			require.Equal(t, "nodeCordon", lines[i]["operation"])
			require.Equal(t, code, lines[i]["code"])
			require.Equal(t, "alex", lines[i]["actor"])
			require.Greater(t, lines[i]["ms"], 0.0)
			require.Regexp(t, `^req_[0-9a-z]{26}$`, lines[i]["request_id"])
		}
		require.Equal(t, failed.Errors[0].Extensions.RequestID, lines[1]["request_id"])
		for _, word := range []string{"canary-3f9a", "Canary7b", b.token} {
			require.NotContains(t, b.log.String(), word)
		}
	})

	t.Run("a refused sign-in warns without what was shown, and many of them do not fill the log", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		const bad = "eyJhbGciOiJub25lIn0.canary"
		for range 200 {
			require.Equal(t, "UNAUTHENTICATED", b.as(bad, `{ viewer { name } }`, nil).code(t))
		}
		resp, _ := b.send(http.MethodPost, "/session/claim", map[string]string{"Content-Type": "application/json"}, `{"secret":"canary-link"}`)
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		lines := b.lines("sign-in refused")
		require.NotEmpty(t, lines)
		require.Less(t, len(lines), 100)
		require.Equal(t, "127.0.0.1", lines[0]["from"])
		require.NotEmpty(t, lines[0]["request_id"])
		require.NotContains(t, b.log.String(), "canary")
		require.Equal(t, 201, b.meter.refused)
	})
}

func TestMetricsAndHealth(t *testing.T) {
	t.Parallel()
	b := setup(t)
	get := func(path, token string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+path, nil)
		require.NoError(t, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := b.server.Client().Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}

	// Figures of all tenants are for who holds a grant in every one.
	b.do(func(ctx context.Context, tx *db.Tx) error { return iam.GrantTx(ctx, tx, "root", "", "admin") })
	everywhere, _, err := b.issuer.Issue(t.Context(), "root", time.Hour)
	require.NoError(t, err)
	for _, c := range []struct {
		token  string
		status int
		text   string
	}{
		{"", http.StatusUnauthorized, "UNAUTHENTICATED"},
		{"nonsense", http.StatusUnauthorized, "UNAUTHENTICATED"},
		{b.token, http.StatusForbidden, "FORBIDDEN"},
		{everywhere, http.StatusOK, "bc_figures 1"},
	} {
		status, text := get("/metrics", c.token)
		require.Equal(t, c.status, status, text)
		require.Contains(t, text, c.text)
	}

	// Readiness names the part that is not ready, and needs no token.
	status, text := get("/readyz", "")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"status":"ready","parts":{"database":"ok"}}`, text)
	b.broken.Store(&graph.Part{Name: "log", Err: fault.New(fault.Unavailable, nil, "it is behind")})
	status, text = get("/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.JSONEq(t, `{"status":"not ready","parts":{"database":"ok","log":"it is behind"}}`, text)
	status, _ = get("/healthz", "")
	require.Equal(t, http.StatusOK, status)
}
