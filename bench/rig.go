package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/better-compute/better-compute/db/embedded"
	"github.com/better-compute/better-compute/id"
)

// rig is what a benchmark runs on: a PostgreSQL with fsync, the server in a process of its own, a subscriber in this one, and bare connections for
// the floors.
type rig struct {
	dir      string
	program  string
	postgres *embedded.Server
	server   *exec.Cmd
	url      string
	gateway  string
	token    string
	pool     *pgxpool.Pool
	clients  chan *client // connections that nobody uses
}

const tenant = "default"

// connections is how many there are to the API, and to the database for the floors.
const connections = 20

func start(ctx context.Context, program string) (_ *rig, err error) {
	base := "/var/lib"
	if os.Geteuid() != 0 {
		base = "" // the user's own temporary folder
	}
	dir, err := os.MkdirTemp(base, "bc-bench-")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, program: program, clients: make(chan *client, connections)}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the database's user passes through
		return nil, err
	}
	r.postgres, err = embedded.Start(ctx, embedded.Config{DataDir: filepath.Join(dir, "db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(r.postgres.URL())
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	if r.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if r.gateway, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	return r, r.serve(ctx, nil)
}

// freeAddress gives one that nobody listens on. The gateway tells its own only in its log.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (r *rig) data() string { return filepath.Join(r.dir, "data") }

// serve starts the server and waits until it is ready. Flags and settings of its environment may be added.
func (r *rig) serve(ctx context.Context, flags []string, env ...string) error {
	_ = os.Remove(filepath.Join(r.data(), "address"))
	r.server = exec.CommandContext(ctx, r.program, append([]string{
		"serve", "--data-dir", r.data(), "--database-url", r.postgres.URL(), "--listen", "127.0.0.1:0", "--gateway-listen", r.gateway,
	}, flags...)...)
	r.server.Cancel = func() error { return r.server.Process.Signal(syscall.SIGTERM) }
	r.server.WaitDelay = 10 * time.Second
	r.server.Env = append(os.Environ(), env...)
	if os.Getenv("BENCH_LOG") != "" {
		r.server.Stderr = os.Stderr
	}
	if err := r.server.Start(); err != nil {
		return err
	}
	for range 300 {
		address, _ := os.ReadFile(filepath.Join(r.data(), "address"))
		token, _ := os.ReadFile(filepath.Join(r.data(), "admin.token"))
		r.url, r.token = strings.TrimSpace(string(address)), strings.TrimSpace(string(token))
		if r.url != "" && r.ready(ctx) {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("the server did not become ready within 30 s")
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (r *rig) ready(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (r *rig) halt() {
	r.hangUp()
	if r.server != nil && r.server.Process != nil {
		_ = r.server.Process.Signal(syscall.SIGTERM)
		_ = r.server.Wait()
	}
}

func (r *rig) stop() {
	r.halt()
	if r.pool != nil {
		r.pool.Close()
	}
	if r.postgres != nil {
		_ = r.postgres.Stop(context.Background())
	}
	_ = os.RemoveAll(r.dir)
}

// cpu gives how much CPU the server has used.
func (r *rig) cpu() time.Duration { return cpuOf(r.server.Process.Pid)() }

// dbCPU gives how much CPU PostgreSQL has used in all its processes that live.
func (r *rig) dbCPU() time.Duration {
	text, err := os.ReadFile(filepath.Join(r.dir, "db", "pg", "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	children, err := os.ReadFile("/proc/" + first + "/task/" + first + "/children")
	if err != nil {
		return 0
	}
	var sum time.Duration
	for child := range strings.FieldsSeq(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			sum += cpuOf(pid)()
		}
	}
	return sum
}

// zero is the clock of a side whose CPU does not count.
func zero() time.Duration { return 0 }

// nodes makes adopted nodes without machines.
func (r *rig) nodes(ctx context.Context, n int) ([]string, error) {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = id.New(id.Node)
	}
	_, err := r.pool.Exec(ctx, `
		with made as (
			insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
			select x, x, $2, (select id from pools where tenant_id = $2 limit 1), 'bench-' || x, 'ADOPTED', 'TRUSTED', 'bench'
			from unnest($1::text[]) as x returning id)
		insert into node_projection (tenant_id, node_id, relation) select $2, id, 'OWNER' from made`, ids, tenant)
	return ids, err
}

// message is one of graphql-transport-ws.
type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// head gives where the log stands. A subscription that begins after it misses nothing, however late the server takes it up.
func (r *rig) head(ctx context.Context) (string, error) {
	var answer struct{ Log struct{ Head string } }
	err := r.call(ctx, "query($t: ID!) { log(tenantId: $t) { head } }", map[string]any{"t": tenant}, &answer)
	return answer.Log.Head, err
}

// follow opens a websocket that follows the events of those types, over a client of its own if there is one.
func (r *rig) follow(ctx context.Context, client *http.Client, after string, types ...string) (*websocket.Conn, error) {
	conn, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(r.url, "http")+"/graphql", &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + r.token}}, Subprotocols: []string{"graphql-transport-ws"},
	})
	if err != nil {
		return nil, err
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	conn.SetReadLimit(1 << 20)
	if err := wsjson.Write(ctx, conn, message{Type: "connection_init"}); err != nil {
		return nil, err
	}
	var m message
	if err := wsjson.Read(ctx, conn, &m); err != nil || m.Type != "connection_ack" {
		return nil, fmt.Errorf("no connection_ack but %s: %w", m.Type, err)
	}
	payload, err := subscription(after, types)
	if err != nil {
		return nil, err
	}
	return conn, wsjson.Write(ctx, conn, message{ID: "1", Type: "subscribe", Payload: payload})
}

// subscription is the payload that follows the events of those types.
func subscription(after string, types []string) (json.RawMessage, error) {
	return json.Marshal(map[string]any{
		"query":     "subscription($t: ID!, $types: [String!], $after: Cursor) { nodeEvents(tenantId: $t, types: $types, after: $after) { nodeId type } }",
		"variables": map[string]any{"t": tenant, "types": types, "after": after},
	})
}

// subscribe follows the events of those types and gives the node id of each.
func (r *rig) subscribe(ctx context.Context, types ...string) (<-chan string, func(), error) {
	after, err := r.head(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn, err := r.follow(ctx, nil, after, types...)
	if err != nil {
		return nil, nil, err
	}
	out := make(chan string, 1024)
	go func() {
		defer close(out)
		for {
			var m message
			if err := wsjson.Read(ctx, conn, &m); err != nil {
				return
			}
			switch m.Type {
			case "ping":
				_ = wsjson.Write(ctx, conn, message{Type: "pong"})
			case "next":
				var p struct {
					Data struct {
						NodeEvents struct{ NodeID string }
					}
				}
				if json.Unmarshal(m.Payload, &p) == nil {
					out <- p.Data.NodeEvents.NodeID
				}
			}
		}
	}()
	return out, func() { _ = conn.CloseNow() }, nil
}
