package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/graph"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// asProgram makes the test's own binary the program itself, so that tests can run it as a process.
const asProgram = "BC_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:]))
	}
	// The signer's logging library starts one when it is linked, and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// server is serve in this process, on a database of its own.
type server struct {
	*testing.T

	db    *db.DB
	url   string
	token string
	log   buffer
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, change func(*settings)) *server {
	t.Helper()
	b := &server{T: t, db: dbtest.New(t), ended: make(chan error, 1)}
	s := &settings{
		dataDir: filepath.Join(t.TempDir(), "data"), listen: "127.0.0.1:0", gatewayListen: "127.0.0.1:0", databaseURL: dbtest.URL(b.db),
		roles: []string{roleAPI, roleGateway, roleJobs}, migrate: "auto", revocationPoll: time.Second, revocationGiveUp: time.Minute,
		logLevel: "info", shutdownDelay: 300 * time.Millisecond, version: "test",
	}
	if change != nil {
		change(s)
	}
	require.NoError(t, s.check())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	b.stop = stop
	go func() {
		log := slog.New(graph.LogHandler(slog.NewJSONHandler(&b.log, &slog.HandlerOptions{Level: s.level()})))
		b.ended <- serve(ctx, s, log, io.Discard)
	}()
	t.Cleanup(func() {
		stop()
		<-b.ended
	})
	require.Eventually(t, func() bool {
		address, err := os.ReadFile(filepath.Join(s.dataDir, addressFile))
		if err != nil {
			return false
		}
		b.url = strings.TrimSpace(string(address))
		status, _, err := b.get("/readyz", "")
		return err == nil && status == http.StatusOK
	}, time.Minute, 10*time.Millisecond, "%s", &b.log)
	token, err := os.ReadFile(filepath.Join(s.dataDir, adminTokenFile))
	require.NoError(t, err)
	b.token = strings.TrimSpace(string(token))
	return b
}

// end gives what serve ended with; a second call gives the same.
func (b *server) end() error {
	b.Helper()
	select {
	case err := <-b.ended:
		b.ended <- err
		return err
	case <-time.After(20 * time.Second):
		b.Fatalf("serve does not end: %s", &b.log)
		return nil
	}
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}

func (b *server) get(path, token string) (int, string, error) {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.url+path, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return answer(client.Do(req))
}

func answer(resp *http.Response, err error) (int, string, error) {
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (b *server) post(query, accept string) *http.Response {
	b.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	require.NoError(b, err)
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.url+"/graphql", bytes.NewReader(body))
	require.NoError(b, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+b.token)
	resp, err := client.Do(req)
	require.NoError(b, err)
	return resp
}

const follow = `subscription { nodeEvents(tenantId: "default") { type } }`

// socket follows events on a websocket.
func (b *server) socket() *websocket.Conn {
	b.Helper()
	return b.socketFor(follow)
}

// socketFor runs a subscription on a websocket of its own.
func (b *server) socketFor(query string) *websocket.Conn {
	b.Helper()
	conn, resp, err := websocket.Dial(b.Context(), "ws"+strings.TrimPrefix(b.url, "http")+"/graphql", &websocket.DialOptions{
		Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: http.Header{"Authorization": {"Bearer " + b.token}},
	})
	require.NoError(b, err)
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	b.Cleanup(func() { _ = conn.CloseNow() })
	var ack map[string]any
	require.NoError(b, wsjson.Write(b.Context(), conn, map[string]any{"type": "connection_init"}))
	require.NoError(b, wsjson.Read(b.Context(), conn, &ack))
	require.Equal(b, "connection_ack", ack["type"])
	require.NoError(b, wsjson.Write(b.Context(), conn, map[string]any{"type": "subscribe", "id": "1", "payload": map[string]any{"query": query}}))
	return conn
}

// A database that goes away makes the process not ready, and names itself; the process goes on and is ready when it is back.
func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	var proxy *dbtest.Proxy
	b := start(t, func(s *settings) {
		proxy = dbtest.NewProxy(t, s.databaseURL)
		s.databaseURL = proxy.URL()
	})
	proxy.Down()
	require.Eventually(t, func() bool {
		status, text, err := b.get("/readyz", "")
		return err == nil && status == http.StatusServiceUnavailable && strings.Contains(text, `"database":"the database does not answer"`)
	}, 20*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool { // what was read before is good for a moment
		status, text, err := b.get("/metrics", "")
		return err == nil && status == http.StatusUnauthorized && text != ""
	}, 20*time.Second, 20*time.Millisecond)
	proxy.Up()
	require.Eventually(t, func() bool {
		status, _, err := b.get("/readyz", "")
		return err == nil && status == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond)
}

// runbook is how an alert names its page.
var runbook = regexp.MustCompile(`runbook_url: \S*(docs/runbooks/[a-z-]+\.md)`)

// Every figure that the design names is there, and every alert is about figures that are there, and links a page that is there.
func TestMetrics(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		pools, err := node.Pools(ctx, tx, defaultName)
		if err != nil {
			return err
		}
		_, err = node.CreateTx(tx, node.New{Key: id.New(id.Session), PoolID: pools[0].ID, Hostname: "gpu-1", By: "test"})
		return err
	})
	require.NoError(t, err)
	status, _, err := answer(b.post(`{ viewer { name } }`, "application/json"), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)

	status, text, err := b.get("/metrics", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status)
	require.NotContains(t, text, "bc_nodes")
	require.Eventually(t, func() bool { // a reading from before the node was made is good for a moment
		status, text, err = b.get("/metrics", b.token)
		return err == nil && status == http.StatusOK && strings.Contains(text, "bc_nodes{")
	}, 20*time.Second, 50*time.Millisecond)
	for _, want := range []string{
		`bc_nodes{connectivity="PENDING",placeable="NONE",pool="default/default",provision_state="`,
		`bc_drains{state="DRAINING"} 0`, "bc_drain_oldest_seconds 0", "bc_drains_overdue 0", "bc_cordons_overdue 0", "bc_log_head ", "bc_follow_lag_seconds ", `bc_river_oldest_job_seconds{kind="drain"} `,
		"bc_gateway_sessions 0", "bc_flush_age_seconds ", "bc_ca_not_after_seconds ", `bc_api_operations_total{code="OK",type="query"} 1`,
		`bc_api_operation_seconds_bucket{type="query",le="10"} 1`, "bc_api_subscriptions 0", "bc_database_up 1", "go_goroutines ", "process_open_fds ",
	} {
		require.Contains(t, text, want)
	}

	there := map[string]bool{}
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(strings.TrimSpace(name), " ")
			there[name] = true
			if kind == "histogram" {
				there[name+"_bucket"], there[name+"_count"], there[name+"_sum"] = true, true, true
			}
		}
	}
	alerts, err := os.ReadFile("../../deploy/alerts.yml")
	require.NoError(t, err)
	rules := strings.Split(string(alerts), "- alert: ")[1:]
	require.NotEmpty(t, rules)
	for _, rule := range rules {
		name, _, _ := strings.Cut(rule, "\n")
		used := regexp.MustCompile(`\bbc_[a-z_]+`).FindAllString(rule, -1)
		require.NotEmpty(t, used, "%s is about no figure of ours", name)
		for _, figure := range used {
			require.True(t, there[figure], "%s is about %s, which is not there", name, figure)
		}
		page := runbook.FindStringSubmatch(rule)
		require.NotNil(t, page, "%s links no runbook", name)
		require.FileExists(t, filepath.Join("../..", page[1]))
	}
}

// The program itself, with a database of its own: it stops with 0 in under ten seconds, and neither it nor its PostgreSQL says that anything went
// wrong.
func TestProgram(t *testing.T) {
	t.Parallel()
	// As root PostgreSQL runs as another user, who can't reach t.TempDir.
	dir, err := os.MkdirTemp("/var/tmp", "bc-serve-") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711))
	data := filepath.Join(dir, "data")
	var stderr buffer
	cmd := exec.Command(os.Args[0], "serve", "--data-dir", data, "--listen", free(t), "--gateway-listen", free(t), "--log-level", "info")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	said := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "Sign in") {
				close(said)
			}
		}
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	select {
	case <-said:
	case err := <-ended:
		t.Fatalf("it ended: %v\n%s", err, &stderr)
	case <-time.After(time.Minute):
		t.Fatalf("it does not start:\n%s", &stderr)
	}
	address, err := os.ReadFile(filepath.Join(data, addressFile))
	require.NoError(t, err)
	b := &server{T: t, url: strings.TrimSpace(string(address))}
	require.Eventually(t, func() bool {
		status, _, err := b.get("/readyz", "")
		return err == nil && status == http.StatusOK
	}, 30*time.Second, 10*time.Millisecond)

	began := time.Now()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-ended, "%s", &stderr)
	require.Less(t, time.Since(began), 10*time.Second)
	require.NotContains(t, stderr.String(), `"level":"ERROR"`)
	require.NotContains(t, stderr.String(), "FATAL")
	require.NoFileExists(t, filepath.Join(data, "pg", "postmaster.pid"))
}

// free is an address that nobody listens on right now.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestSettings(t *testing.T) {
	t.Parallel()
	// Each refusal names the setting, and nothing was started.
	for flag, value := range map[string]string{
		"log-level": "loud", "shutdown-delay": "10s", "roles": "queen", "migrate": "maybe", "listen": "0.0.0.0:80", "health-listen": "0.0.0.0:81", "revocation-poll": "1ms",
	} {
		cmd := newServe("test")
		require.NoError(t, cmd.Flags().Set("data-dir", filepath.Join(t.TempDir(), "data")))
		require.NoError(t, cmd.Flags().Set(flag, value))
		err := cmd.RunE(cmd, nil)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err), "--%s %s: %v", flag, value, err)
		require.Equal(t, flag, fault.From(err).Details["argument"])
	}
}

// What serve ends with has a code and a sentence that says what to do.
func TestExplain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code fault.Code
		says string
	}{
		{nil, "", ""},
		{fault.New(fault.Conflict, nil, "mine"), fault.Conflict, "mine"},
		{&pgconn.PgError{Code: "42501", Message: "permission denied for schema public"}, fault.InvalidState, "permission denied for schema public"},
		{&pgconn.PgError{Code: "25006", Message: "cannot execute in a read-only transaction"}, fault.Unavailable, "takes no writes"},
		{io.ErrUnexpectedEOF, fault.Unavailable, "does not answer"},
		{&fs.PathError{Op: "open", Path: "/data/gateway-id", Err: fs.ErrPermission}, fault.InvalidState, "/data/gateway-id cannot be used: permission denied"},
		{context.Canceled, fault.Internal, "canceled"},
		{errors.New("a defect"), fault.Internal, "a defect"},
	} {
		got := explain(c.err)
		require.Equal(t, c.code, fault.CodeOf(got))
		if c.err != nil {
			require.ErrorContains(t, got, c.says)
		}
	}
}
