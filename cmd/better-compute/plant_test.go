package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// plant is a database with real processes of the program on it, which share the key that signs tokens.
type plant struct {
	*testing.T

	db       *db.DB
	bookings *placement.Bookings
	pki      string
	flags    []string // of the processes besides
}

func newPlant(t *testing.T, d *db.DB) *plant {
	t.Helper()
	authority, err := iam.NewAuthority(d)
	require.NoError(t, err)
	p := &plant{T: t, db: d, bookings: &placement.Bookings{DB: d, Authority: authority}, pki: filepath.Join(t.TempDir(), "pki")}
	_, err = signingKey(p.pki)
	require.NoError(t, err)
	require.NoError(t, firstStart(t.Context(), d))
	return p
}

// process is one process of the program.
type process struct {
	*plant

	cmd   *exec.Cmd
	url   string
	token string
	log   buffer
	ended chan struct{}
	once  sync.Once
}

// run starts the program with these roles, and waits until it is ready where it can be asked.
func (p *plant) run(databaseURL, listen string, roles ...string) *process {
	p.Helper()
	dir := filepath.Join(p.TempDir(), "data")
	require.NoError(p, os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(p.pki)))
	require.NoError(p, os.Chmod(filepath.Join(dir, "pki"), 0o700))
	require.NoError(p, os.Chmod(filepath.Join(dir, "pki", signingKeyFile), 0o600))
	r := &process{plant: p, url: "http://" + listen, ended: make(chan struct{})}
	r.cmd = exec.Command(os.Args[0], append([]string{
		"serve", "--data-dir", dir, "--listen", listen, "--gateway-listen", "127.0.0.1:0", "--database-url", databaseURL, "--health-listen", "127.0.0.1:0",
		"--roles", strings.Join(roles, ","), "--shutdown-delay", "0s",
	}, p.flags...)...)
	r.cmd.Env = append(os.Environ(), asProgram+"=1")
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	require.NoError(p, r.cmd.Start())
	go func() {
		_ = r.cmd.Wait()
		close(r.ended)
	}()
	p.Cleanup(func() {
		r.kill()
		if p.Failed() {
			p.Logf("serve --roles %s:\n%s", strings.Join(roles, ","), &r.log)
		}
	})
	if roles[0] != roleAPI {
		return r
	}
	require.Eventually(p, func() bool {
		token, err := os.ReadFile(filepath.Join(dir, adminTokenFile))
		r.token = strings.TrimSpace(string(token))
		return err == nil && r.ready()
	}, time.Minute, 5*time.Millisecond, "%s", &r.log)
	return r
}

func (r *process) ready() bool {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.url+"/readyz", nil)
	if err != nil {
		return false
	}
	status, _, err := answer(client.Do(req))
	return err == nil && status == http.StatusOK
}

// kill is SIGKILL.
func (r *process) kill() {
	r.once.Do(func() { _ = r.cmd.Process.Signal(syscall.SIGKILL) })
	<-r.ended
}

// ask asks the API once.
func (r *process) ask(query string, variables any) (map[string]json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), http.MethodPost, r.url+"/graphql", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var a struct {
		Data   map[string]json.RawMessage
		Errors []struct{ Message string }
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err == nil && len(a.Errors) > 0 {
		err = errors.New(a.Errors[0].Message)
	}
	return a.Data, err
}

const (
	drainIt   = `mutation($i: NodeDrainInput!) { nodeDrain(input: $i) { changed } }`
	releaseIt = `mutation($i: ReservationReleaseInput!) { reservationRelease(input: $i) { changed } }`
)

func draining(nodeID string) map[string]any {
	return map[string]any{"i": map[string]any{"tenantId": defaultName, "nodeId": nodeID, "reason": "replace PSU", "requestId": "drain " + nodeID}}
}

func releasing(reservationID string) map[string]any {
	return map[string]any{"i": map[string]any{"tenantId": defaultName, "reservationId": reservationID, "requestId": "release " + reservationID}}
}

// must asks the API and wants an answer.
func (r *process) must(query string, variables any) {
	r.Helper()
	_, err := r.ask(query, variables)
	require.NoError(r, err)
}

// node makes a node that takes work.
func (p *plant) node() (nodeID string) {
	p.Helper()
	_, err := p.db.Do(p.Context(), func(ctx context.Context, tx *db.Tx) error {
		pools, err := node.Pools(ctx, tx, defaultName)
		if err != nil {
			return err
		}
		n, err := node.CreateTx(tx, node.New{Key: id.New(id.Session), PoolID: pools[0].ID, Hostname: "gpu-1", By: "test"})
		if err != nil {
			return err
		}
		nodeID = n
		_, err = tx.Exec(ctx, `update nodes set provision_state = 'ADOPTED' where id = $1`, n)
		return err
	})
	require.NoError(p, err)
	return nodeID
}

// book books a share of the node; zero lasts for ever.
func (p *plant) book(nodeID string, lasts time.Duration) (reservationID string) {
	p.Helper()
	out, err := p.bookings.Create(p.Context(), placement.Booking{Who: iam.System("test"), TenantID: defaultName, NodeID: nodeID, Duration: lasts})
	require.NoError(p, err)
	return out.Reservation.ID
}

// state gives where the node's newest drain stands; "" without one.
func (p *plant) state(nodeID string) string {
	p.Helper()
	return p.text(`select coalesce((select state from node_drains where node_id = $1 order by started_at desc limit 1), '')`, nodeID)
}

func (p *plant) text(sql string, args ...any) (text string) {
	p.Helper()
	require.NoError(p, p.db.Pool().QueryRow(p.Context(), sql, args...).Scan(&text))
	return text
}

// until waits for the node's drain to stand so.
func (p *plant) until(within time.Duration, nodeID string, state node.DrainState) {
	p.Helper()
	require.Eventually(p, func() bool { return p.state(nodeID) == string(state) }, within, 5*time.Millisecond, "%s must become %s", nodeID, state)
}

// passes waits until the database's clock is past the end of all that the node holds, and a second more.
func (p *plant) passes(nodeID string) {
	p.Helper()
	require.Eventually(p, func() bool {
		return p.text(`select (max(ends_at) < now() - interval '1 second')::text from allocations where node_id = $1`, nodeID) == "true"
	}, 20*time.Second, 20*time.Millisecond)
}

// drainedOnce wants the log of one drain of the node, whole, in order and without a repeat, and the state that belongs to it.
func (p *plant) drainedOnce(nodeID string, types ...string) {
	p.Helper()
	list, more, err := events.List(p.Context(), p.db.Pool(), events.ListFilter{
		Filter: events.Filter{Tenant: defaultName, NodeID: nodeID}, Order: events.OldestFirst, First: 500,
	})
	require.NoError(p, err)
	require.False(p, more)
	var got []string
	for _, e := range list {
		got = append(got, e.Type)
	}
	require.Equal(p, types, got)
	require.Equal(p, "1 true DRAINED 0 0", p.text(`
		select concat_ws(' ', (select count(*) from node_drains where node_id = n.id), n.cordoned::text, (select string_agg(state, ',') from node_drains where node_id = n.id),
		  (select count(*) from node_reasons where node_id = n.id), (select count(*) from allocations a where a.node_id = n.id and a.open))
		from nodes n where n.id = $1`, nodeID), fmt.Sprintf("the end state of %s", nodeID))
}
