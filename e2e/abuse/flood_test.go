package abuse_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/e2e/proc"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
)

// counts counts by what came.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[what]++
}

func TestJoinFlood(t *testing.T) {
	t.Parallel()
	t.Run("a flood of joins with bad tokens is refused with codes, and bounded for its address alone", func(t *testing.T) {
		t.Parallel()
		v := setup(t)
		var answers counts
		flood := newFlooder(t, v.gateway)
		v.withstand(int64(size(120, 60))*mib, func(ctx context.Context) {
			crowd(ctx, size(64, 8), func(ctx context.Context) {
				for ctx.Err() == nil {
					answers.add(flood.join(ctx))
				}
			})
		})
		t.Logf("answers: %v", answers.of)
		for answer := range answers.of {
			require.Contains(t, []string{"400 INVALID_INPUT", "401 UNAUTHENTICATED", "429 RESOURCE_EXHAUSTED", "cut off"}, answer)
		}
		require.Positive(t, answers.of["401 UNAUTHENTICATED"]+answers.of["429 RESOURCE_EXHAUSTED"])
	})
}

// flooder joins with everything right but the token, so that each try costs the gateway as much as it can.
type flooder struct {
	gateway string
	token   wire.Token
	csr     []byte
	key     ed25519.PrivateKey
}

func newFlooder(t *testing.T, gateway string) *flooder {
	t.Helper()
	token, err := wire.ParseToken("bcj_" + strings.TrimPrefix(id.New(id.JoinToken), string(id.JoinToken)+"_") + "_" + strings.Repeat("a", 52))
	require.NoError(t, err)
	certified, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, certified)
	require.NoError(t, err)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return &flooder{gateway: gateway, token: token, csr: csr, key: key}
}

// join tries once and says what came of it.
func (f *flooder) join(ctx context.Context) string {
	const cut = "cut off"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	raw, err := from(ctx, attacker, f.gateway)
	if err != nil {
		return cut
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	if conn.HandshakeContext(ctx) != nil {
		return cut
	}
	state := conn.ConnectionState()
	exporter, err := state.ExportKeyingMaterial(wire.JoinExporterLabel, nil, wire.ExporterSize)
	if err != nil {
		return err.Error()
	}
	body, err := json.Marshal(wire.JoinRequest{
		Token: f.token.Text(), CSR: f.csr, IdentityKey: f.key.Public().(ed25519.PublicKey), //nolint:forcetypeassert // it is one
		Proof: ed25519.Sign(f.key, wire.JoinProof(exporter, f.csr, f.token.ID())), Hostname: "flood",
	})
	if err != nil {
		return err.Error()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+f.gateway+wire.JoinPath, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Content-Type", "application/json")
	if request.Write(conn) != nil {
		return cut
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return cut
	}
	defer func() { _ = response.Body.Close() }()
	var refusal wire.ErrorBody
	_ = json.NewDecoder(response.Body).Decode(&refusal)
	return fmt.Sprint(response.StatusCode, " ", refusal.Code)
}

func TestBombs(t *testing.T) {
	t.Parallel()
	t.Run("H2 query bombs are refused with a code each", func(t *testing.T) {
		t.Parallel()
		v := setup(t)
		aliases := &strings.Builder{}
		for i := range 1000 {
			fmt.Fprintf(aliases, "a%d: nodes(tenantId: \"sim\", first: 500) { nodes { id } } ", i)
		}
		fragments := "{ ...f0 } "
		for i := range 40 {
			fragments += fmt.Sprintf("fragment f%d on Query { ...f%d ...f%d } ", i, i+1, i+1)
		}
		fragments += "fragment f40 on Query { viewer { principal } }"
		bombs := map[string]string{
			"deep":      "{ __schema { types " + strings.Repeat("{ fields { type ", 100) + "{ name }" + strings.Repeat("} }", 100) + " } }",
			"aliases":   "{ " + aliases.String() + "}",
			"costly":    `{ nodes(tenantId: "sim", first: 500) { nodes { events(first: 500) { nodes { id node { events(first: 500) { nodes { id } } } } } } } }`,
			"fragments": fragments,
			"circle":    "{ ...a } fragment a on Query { ...b } fragment b on Query { ...a }",
			"tokens":    "{ " + strings.Repeat("viewer { principal } ", 5000) + "}",
			"garbage":   strings.Repeat("{", 100_000),
		}
		var codes counts
		hostile := proc.NewClient(v.client.Token, v.url)
		hostile.HTTP.Transport = &http.Transport{MaxIdleConnsPerHost: 64, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return from(ctx, attacker, address)
		}}
		v.withstand(int64(size(200, 100))*mib, func(ctx context.Context) {
			var all sync.WaitGroup
			for name, bomb := range bombs {
				all.Go(func() {
					crowd(ctx, size(2, 1), func(ctx context.Context) {
						for ctx.Err() == nil {
							err := hostile.Once(ctx, v.url, bomb, nil, nil)
							if ctx.Err() == nil {
								codes.add(name + " " + string(fault.CodeOf(err)))
							}
						}
					})
				})
			}
			all.Go(func() {
				crowd(ctx, size(32, 8), func(ctx context.Context) {
					request, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url+"/graphql", io.LimitReader(endless{}, 10<<20))
					if err != nil {
						return
					}
					request.Header.Set("Content-Type", "application/json")
					request.Header.Set("Authorization", "Bearer "+v.client.Token)
					response, err := hostile.HTTP.Do(request)
					if err != nil {
						if ctx.Err() == nil {
							codes.add("body cut off")
						}
						return
					}
					_ = response.Body.Close()
					codes.add(fmt.Sprint("body ", response.StatusCode))
				})
			})
			all.Wait()
		})
		t.Logf("answers: %v", codes.of)
		for name := range bombs {
			refused := codes.of[name+" "+string(fault.ResourceExhausted)] + codes.of[name+" "+string(fault.InvalidInput)]
			require.Positive(t, refused, name)
			require.Zero(t, codes.of[name+" "], "%s ran", name)
			require.Zero(t, codes.of[name+" "+string(fault.Internal)], name)
		}
	})
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func TestSubscribers(t *testing.T) {
	t.Parallel()
	t.Run("G2 subscribers that never read are ended, others' streams go on, and they resume by cursor", func(t *testing.T) {
		t.Parallel()
		v := setup(t)
		n := size(1000, 40)
		var head struct{ Log struct{ Head string } }
		require.NoError(t, v.client.Do(t.Context(), `query($t: ID!) { log(tenantId: $t) { head } }`, map[string]any{"t": tenant}, &head))
		reading, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var got atomic.Int64
		var streams sync.WaitGroup
		streams.Go(func() {
			v.client.Follow(reading, tenant, head.Log.Head, 0, func(proc.Event) { got.Add(1) })
		})
		defer streams.Wait()
		defer cancel()
		reason := strings.Repeat("x", 256)
		toggles := 0
		// Until the kernel's buffers are full each of them is a subscriber like others, to whom events are sent; from then on they must cost nothing.
		v.reason = reason
		var deaf net.Conn
		open := func() {
			for range n {
				conn, under, err := v.deaf(t.Context())
				require.NoError(t, err)
				t.Cleanup(func() { _ = conn.CloseNow() })
				deaf = under
			}
			require.Eventually(t, func() bool { return v.metric("bc_api_subscriptions") == float64(n+1) }, patience, 50*time.Millisecond)
		}
		v.after(int64(size(300, 80))*mib, open, func(ctx context.Context) { <-ctx.Done() })
		for began := time.Now(); v.metric("bc_api_subscriptions") > 1; toggles++ {
			require.Less(t, time.Since(began), patience, "each is ended, though none ever reads that it is")
			require.NoError(t, v.toggle(toggles, reason))
		}
		require.NoError(t, deaf.SetReadDeadline(time.Now().Add(5*time.Second)))
		kept, err := io.Copy(io.Discard, deaf)
		t.Logf("%d KB were sent to one of them, %v", kept/1024, err)
		require.Less(t, kept, int64(256<<10), "the kernel takes no more than a little for who does not read")
		last := one(t, v, head.Log.Head)
		require.Eventually(t, func() bool { return got.Load() >= last }, patience, 50*time.Millisecond, "who reads has all of it")
	})
}

// one counts what a client gets that resumes by the cursor from before.
func one(t *testing.T, v *victim, cursor string) int64 {
	t.Helper()
	var head struct {
		Events struct{ Nodes []struct{ ID string } }
	}
	require.NoError(t, v.client.Do(t.Context(), `query($t: ID!) { events(tenantId: $t, first: 1) { nodes { id } } }`, map[string]any{"t": tenant}, &head))
	reading, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	var n int64
	v.client.Follow(reading, tenant, cursor, 0, func(e proc.Event) {
		if n++; e.ID == head.Events.Nodes[0].ID {
			cancel()
		}
	})
	require.ErrorIs(t, context.Cause(reading), context.Canceled, "it resumes to the end of the log")
	return n
}

// metric reads one figure of the server.
func (v *victim) metric(name string) float64 {
	v.Helper()
	request, err := http.NewRequestWithContext(v.Context(), http.MethodGet, v.url+"/metrics", nil)
	require.NoError(v, err)
	request.Header.Set("Authorization", "Bearer "+v.client.Token)
	response, err := v.client.HTTP.Do(request)
	require.NoError(v, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(v, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(v, err)
			return f
		}
	}
	require.Fail(v, "no metric "+name)
	return 0
}

// deaf opens a subscription that is never read, with as small a window as the kernel gives.
func (v *victim) deaf(ctx context.Context) (_ *websocket.Conn, under net.Conn, _ error) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		conn, err := from(ctx, attacker, address)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4096)
		}
		under = conn
		return conn, err
	}}}
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(v.url, "http")+"/graphql",
		&websocket.DialOptions{HTTPClient: client, Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		return nil, nil, err
	}
	err = wsjson.Write(ctx, conn, map[string]any{"type": "connection_init", "payload": map[string]string{"Authorization": "Bearer " + v.client.Token}})
	var ack struct{ Type string }
	if err == nil {
		err = wsjson.Read(ctx, conn, &ack)
	}
	if err == nil {
		err = wsjson.Write(ctx, conn, map[string]any{"id": "1", "type": "subscribe", "payload": map[string]any{
			"query": `subscription { nodeEvents(tenantId: "sim") { id cursor type at actor reason } }`,
		}})
	}
	return conn, under, err
}
