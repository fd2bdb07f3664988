package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/gateway/wire"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("D1 100 joins at once with one token: one node, one certificate, 99 equal refusals", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.token(t)
		var all sync.WaitGroup
		var mu sync.Mutex
		answers := map[int]map[string]int{}
		for range 100 {
			m := b.newMachine(t, "n1.example")
			all.Go(func() {
				status, body := m.tryJoin(t, token)
				mu.Lock()
				defer mu.Unlock()
				if answers[status] == nil {
					answers[status] = map[string]int{}
				}
				answers[status][string(body)]++
			})
		}
		all.Wait()
		require.Len(t, answers, 2)
		require.Len(t, answers[http.StatusOK], 1)
		require.Len(t, answers[http.StatusUnauthorized], 1, "the refusals must be equal")
		for _, n := range answers[http.StatusUnauthorized] {
			require.Equal(t, 99, n)
		}
		require.Equal(t, int64(1), one[int64](t, b, `select count(*) from nodes`))
		require.Equal(t, int64(1), one[int64](t, b, `select count(*) from node_certs`))
	})

	t.Run("D3 a bad body is refused with a rule, before the token is touched", func(t *testing.T) {
		t.Parallel()
		token := b.token(t)
		for name, bad := range map[string]struct {
			kind, body, argument string
		}{
			"not JSON":          {"application/json", "{", "body"},
			"another type":      {"text/plain", "{}", "Content-Type"},
			"no type":           {"", "{}", "Content-Type"},
			"two values":        {"application/json", "{} {}", "body"},
			"a list":            {"application/json", "[]", "body"},
			"too long":          {"application/json", `{"hostname":"` + strings.Repeat("x", wire.MaxJoinBody) + `"}`, "body"},
			"no request at all": {"application/json", `{"token":"` + token.Text() + `"}`, "csr"},
		} {
			conn, err := tls.Dial("tcp", b.address, b.tls())
			require.NoError(t, err)
			status, answer := post(t, conn, bad.kind, []byte(bad.body))
			require.Equal(t, http.StatusBadRequest, status, name)
			var refusal wire.ErrorBody
			require.NoError(t, json.Unmarshal(answer, &refusal), name)
			require.Equal(t, fault.InvalidInput, refusal.Code, name)
			require.Equal(t, bad.argument, refusal.Details["argument"], name)
			require.NotContains(t, string(answer), token.Text()[31:], "D6")
		}
		require.True(t, one[bool](t, b, `select used_at is null from join_tokens where id = $1`, token.ID()))
	})

	t.Run("a body of 1 MB is refused when it passes its bound, and not waited for", func(t *testing.T) {
		t.Parallel()
		token := b.token(t)
		conn, err := tls.Dial("tcp", b.address, b.tls())
		require.NoError(t, err)
		defer conn.Close()
		began := time.Now()
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"token\":%q,\"hostname\":\"%s",
			wire.JoinPath, 1<<20, token.Text(), strings.Repeat("x", 2*wire.MaxJoinBody)) // the rest never comes
		require.NoError(t, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusBadRequest, res.StatusCode)
		require.Less(t, time.Since(began), wire.JoinTimeout/2)
		var refusal wire.ErrorBody
		require.NoError(t, json.NewDecoder(res.Body).Decode(&refusal))
		require.Equal(t, "body", refusal.Details["argument"])
		require.True(t, one[bool](t, b, `select used_at is null from join_tokens where id = $1`, token.ID()))
	})

	t.Run("a proof of another connection is refused", func(t *testing.T) {
		t.Parallel()
		m, token := b.newMachine(t, "n2.example"), b.token(t)
		first, err := tls.Dial("tcp", b.address, b.tls())
		require.NoError(t, err)
		defer first.Close()
		second, err := tls.Dial("tcp", b.address, b.tls())
		require.NoError(t, err)
		status, body := post(t, second, "application/json", m.request(t, token, first))
		require.Equal(t, http.StatusUnauthorized, status, string(body))
		require.True(t, one[bool](t, b, `select used_at is null from join_tokens where id = $1`, token.ID()))
	})

	t.Run("a lost answer is given again, the same bytes", func(t *testing.T) {
		t.Parallel()
		m, token := b.newMachine(t, "n3.example"), b.token(t)
		status, first := m.tryJoin(t, token)
		require.Equal(t, http.StatusOK, status, string(first))
		status, again := m.tryJoin(t, token)
		require.Equal(t, http.StatusOK, status, string(again))
		var one, two wire.JoinAnswer
		require.NoError(t, json.Unmarshal(first, &one))
		require.NoError(t, json.Unmarshal(again, &two))
		require.Equal(t, one.Certificate, two.Certificate)
		require.Equal(t, one.NodeID, two.NodeID)
	})

	t.Run("D2 an authority that is away: UNAVAILABLE, with how long to wait, and the token is unused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, token := b.newMachine(t, "n4.example"), b.token(t)
		var down error = fault.New(fault.Unavailable, nil, "the authority is away")
		b.issuer.Down.Store(&down)
		status, body := m.tryJoin(t, token)
		require.Equal(t, http.StatusServiceUnavailable, status)
		var refusal wire.ErrorBody
		require.NoError(t, json.Unmarshal(body, &refusal))
		require.Equal(t, fault.Unavailable, refusal.Code)
		require.Positive(t, refusal.RetryAfterMs)
		b.issuer.Down.Store(nil)
		status, body = m.tryJoin(t, token)
		require.Equal(t, http.StatusOK, status, string(body))
	})

	t.Run("a defect is INTERNAL with a neutral sentence", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.newMachine(t, "n5.example")
		token := b.token(t)
		secret := errors.New("the secret cause")
		b.issuer.Down.Store(&secret)
		status, body := m.tryJoin(t, token)
		require.Equal(t, http.StatusInternalServerError, status)
		require.NotContains(t, string(body), "secret")
	})

	t.Run("other paths and methods are answered in the same form", func(t *testing.T) {
		t.Parallel()
		client := b.client(t)
		for _, c := range []struct {
			method, path string
			status       int
		}{
			{http.MethodGet, "/", http.StatusNotFound},
			{http.MethodGet, wire.JoinPath, http.StatusMethodNotAllowed},
			{http.MethodPost, wire.SessionPath, http.StatusMethodNotAllowed},
		} {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "https://gateway"+c.path, nil)
			require.NoError(t, err)
			res, err := client.Do(req)
			require.NoError(t, err)
			var refusal wire.ErrorBody
			require.NoError(t, json.NewDecoder(res.Body).Decode(&refusal))
			require.NoError(t, res.Body.Close())
			require.Equal(t, c.status, res.StatusCode)
			require.NotEmpty(t, refusal.Code)
			require.NotEmpty(t, refusal.Message)
		}
	})

	t.Run("plain HTTP on this port is answered with one clear line", func(t *testing.T) {
		t.Parallel()
		conn, err := net.Dial("tcp", b.address)
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(answer), "HTTP request to an HTTPS server")
	})

	t.Run("only TLS 1.3 and HTTP/1.1 are spoken, and no tickets are given", func(t *testing.T) {
		t.Parallel()
		old := b.tls()
		old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		_, err := tls.Dial("tcp", b.address, old)
		require.Error(t, err)
		both := b.tls()
		both.NextProtos = []string{"h2", "http/1.1"}
		conn, err := tls.Dial("tcp", b.address, both)
		require.NoError(t, err)
		defer conn.Close()
		require.Equal(t, "http/1.1", conn.ConnectionState().NegotiatedProtocol)
	})
}

func TestAddressLimit(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) { c.JoinsPerSecond = 1 })
	// Four are let through at once; what is sent beyond is told how long to wait.
	var limited wire.ErrorBody
	for range 8 {
		conn, err := tls.Dial("tcp", b.address, b.tls())
		require.NoError(t, err)
		status, body := post(t, conn, "application/json", []byte("{}"))
		if status == http.StatusTooManyRequests {
			require.NoError(t, json.Unmarshal(body, &limited))
			break
		}
		require.Equal(t, http.StatusUnauthorized, status, string(body))
	}
	require.Equal(t, fault.ResourceExhausted, limited.Code)
	require.Positive(t, limited.RetryAfterMs)
}

func TestDoor(t *testing.T) { //nolint:tparallel // each needs the door to itself
	t.Parallel()
	b := setup(t, func(c *gateway.Config) { c.MaxPending = 8 })

	t.Run("one address may have all places but the last quarter, which is for others; sessions need none", func(t *testing.T) {
		m := b.join(t, "n1.example")
		l := m.open(t)
		idle := make([]net.Conn, 6) // three quarters of the places
		for i := range idle {
			var err error
			idle[i], err = net.Dial("tcp", b.address)
			require.NoError(t, err)
			defer idle[i].Close()
		}
		require.Eventually(t, func() bool {
			conn, err := net.Dial("tcp", b.address)
			if err != nil {
				return false
			}
			defer conn.Close()
			if conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)) != nil {
				return false
			}
			_, err = conn.Read(make([]byte, 1))
			var timeout net.Error
			return err != nil && (!errors.As(err, &timeout) || !timeout.Timeout())
		}, patience, 10*time.Millisecond, "one more must be closed at once")
		for range 3 {
			other := tls.Dialer{Config: b.tls(), NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}}
			conn, err := other.DialContext(t.Context(), "tcp", b.address)
			require.NoError(t, err, "another address must get in")
			require.NoError(t, conn.Close())
		}
		l.beat(t, 1)
		require.Equal(t, uint64(1), l.next(t).GetBeatAck().GetSeq())
		for _, c := range idle {
			require.NoError(t, c.Close())
		}
		require.Eventually(t, func() bool {
			d := tls.Dialer{Config: b.tls()}
			conn, err := d.DialContext(t.Context(), "tcp", b.address)
			if err != nil {
				return false
			}
			return conn.Close() == nil
		}, patience, 10*time.Millisecond, "the places must be free again")
		l.leave(t)
	})

	t.Run("a header that never ends is cut off", func(t *testing.T) {
		conn, err := tls.Dial("tcp", b.address, b.tls())
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "POST "+wire.JoinPath+" HTTP/1.1\r\nHost: gateway\r\nX-Slow: ")
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		_, err = io.ReadAll(conn)
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the gateway must end it")
	})
}

func TestSessionNeedsItsProtocol(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := b.join(t, "n1.example")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://gateway"+wire.SessionPath, nil)
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		req.Header.Set(name, value)
	}
	res, err := b.client(t, m.certificate).Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	require.True(t, bytes.Contains(body, []byte(wire.Subprotocol)), string(body))
	require.True(t, one[bool](t, b, `select first_used_at is null from node_certs where node_id = $1`, m.nodeID))
}

func TestFull(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) { c.MaxSessions = 1 })
	first, second := b.join(t, "n1.example"), b.join(t, "n2.example")
	l := first.open(t)
	_, status, refusal := second.dial(t, second.certificate)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Positive(t, refusal.RetryAfterMs)
	l.leave(t)
	require.Eventually(t, func() bool { return b.gateway.Stats().Connections == 0 }, patience, 10*time.Millisecond)
	second.open(t).leave(t)
}

// While the database doesn't answer, sessions live on, and what they told and how they ended is written when it is back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	staying, leaving := b.join(t, "n1.example"), b.join(t, "n2.example")
	l, left := staying.open(t), leaving.open(t)
	release := b.hold(t, leaving.nodeID, staying.nodeID)
	l.send(t, inventory())
	left.leave(t)
	for seq := uint64(1); seq <= 3; seq++ {
		l.beat(t, seq)
		require.Equal(t, seq, l.next(t).GetBeatAck().GetSeq(), "a slow database must not hold up beats")
	}
	release()
	b.until(t, "the inventory must be stored", `select provision_state = 'ADOPTED' from nodes where id = $1`, staying.nodeID)
	b.until(t, "the end must be written", `select connectivity = 'DISCONNECTED' from nodes where id = $1`, leaving.nodeID)
	l.leave(t)
}

// hold locks nodes in a transaction of its own until release.
func (b *bundle) hold(t *testing.T, nodeIDs ...string) (release func()) {
	t.Helper()
	tx, err := b.db.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `select from nodes where id = any($1) for update`, nodeIDs)
	require.NoError(t, err)
	return func() {
		t.Helper()
		require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context())))
	}
}

func TestOpenID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := gateway.OpenID(dir)
	require.NoError(t, err)
	again, err := gateway.OpenID(dir)
	require.NoError(t, err)
	require.Equal(t, first, again, "a gateway keeps its id across restarts")
	other, err := gateway.OpenID(t.TempDir())
	require.NoError(t, err)
	require.NotEqual(t, first, other)
	path := filepath.Join(dir, "gateway-id")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.WriteFile(path, []byte("garbage\n"), 0o600))
	_, err = gateway.OpenID(dir)
	require.ErrorContains(t, err, "remove it")
	_, err = gateway.OpenID(filepath.Join(dir, "absent"))
	require.Error(t, err)
}

// The reader of the answer sees JSON and one line, whatever was wrong.
func FuzzJoin(f *testing.F) {
	f.Add([]byte(`{"token":"bcj_x","csr":"","identityKey":"","proof":"","print":{},"hostname":"","agentVersion":"","clock":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := gateway.ReadJoin(body)
		if err != nil {
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			require.NotContains(t, err.Error(), "\n")
		}
	})
}
