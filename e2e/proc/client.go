package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
)

// Client speaks to one or more API processes of one installation; it takes the next when one doesn't answer.
type Client struct {
	URLs  []string
	Token string
	HTTP  *http.Client

	at atomic.Int64
}

// NewClient makes one. Each call may take a few seconds before it is tried at the next address.
func NewClient(token string, urls ...string) *Client {
	return &Client{URLs: urls, Token: token, HTTP: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
}

// Token reads a token file.
func Token(t testing.TB, path string) string {
	t.Helper()
	var text []byte
	require.Eventually(t, func() bool {
		var err error
		text, err = os.ReadFile(path)
		return err == nil && len(text) > 0
	}, time.Minute, 20*time.Millisecond)
	return strings.TrimSpace(string(text))
}

// Ready waits until the API at an address says that it is.
func Ready(t testing.TB, url string) {
	t.Helper()
	require.Eventually(t, func() bool {
		response, err := http.Get(url + "/readyz") //nolint:noctx // bounded by the loop
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond, url)
}

// Once makes one call at one address.
func (c *Client) Once(ctx context.Context, url, query string, variables map[string]any, out any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/graphql", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+c.Token)
	response, err := c.HTTP.Do(request)
	if err != nil {
		return fault.Because(fault.Unavailable, err, nil, "no answer: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fault.Because(fault.Unavailable, err, nil, "the answer was cut off: %v", err)
	}
	var answer struct {
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions struct{ Code fault.Code }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("HTTP %d: %s", response.StatusCode, text)
	}
	if len(answer.Errors) > 0 {
		return fault.New(answer.Errors[0].Extensions.Code, nil, "%s", answer.Errors[0].Message)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer.Data, out)
}

// Do makes a call, at one address after the other, until one answers; with a request id in it a mutation happens once all the same.
func (c *Client) Do(ctx context.Context, query string, variables map[string]any, out any) error {
	for {
		at := int(c.at.Load())
		err := c.Once(ctx, c.URLs[at%len(c.URLs)], query, variables, out)
		if code := fault.CodeOf(err); err == nil || code != fault.Unavailable && code != fault.ResourceExhausted {
			return err
		}
		c.at.Add(1)
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Dial opens a graphql-transport-ws socket that is signed in.
func (c *Client) Dial(ctx context.Context, url string) (*websocket.Conn, error) {
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(url, "http")+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}}) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(16 << 20)
	err = wsjson.Write(ctx, conn, map[string]any{"type": "connection_init", "payload": map[string]string{"Authorization": "Bearer " + c.Token}})
	var ack struct{ Type string }
	if err == nil {
		err = wsjson.Read(ctx, conn, &ack)
	}
	if err == nil && ack.Type != "connection_ack" {
		err = fmt.Errorf("%s in place of connection_ack", ack.Type)
	}
	if err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	return conn, nil
}

// Event is what a follower keeps of one.
type Event struct{ ID, Cursor, Type string }

// Follow reads a tenant's events after a cursor until ctx ends, at one address after the other, each time from the last one that it has. It calls take
// for each event as it comes, from this goroutine.
func (c *Client) Follow(ctx context.Context, tenant, after string, first int, take func(Event)) {
	for at := first; ctx.Err() == nil; at++ {
		_ = c.followAt(ctx, c.URLs[at%len(c.URLs)], tenant, &after, take)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// quiet is how long a stream may say nothing; the server asks every 10 s whether the client is there.
const quiet = 12 * time.Second

func (c *Client) followAt(ctx context.Context, url, tenant string, after *string, take func(Event)) error {
	dialing, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := c.Dial(dialing, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	err = wsjson.Write(dialing, conn, map[string]any{"id": "1", "type": "subscribe", "payload": map[string]any{
		"query":     `subscription($t: ID!, $after: Cursor) { nodeEvents(tenantId: $t, after: $after) { id cursor type } }`,
		"variables": map[string]any{"t": tenant, "after": *after},
	}})
	if err != nil {
		return err
	}
	for {
		reading, cancel := context.WithTimeout(ctx, quiet)
		var m struct {
			Type    string
			Payload json.RawMessage
		}
		err := wsjson.Read(reading, conn, &m)
		cancel()
		if err != nil {
			return err
		}
		switch m.Type {
		case "next":
			var next struct{ Data struct{ NodeEvents *Event } }
			if err := json.Unmarshal(m.Payload, &next); err != nil || next.Data.NodeEvents == nil {
				return fmt.Errorf("%s: %w", m.Payload, err)
			}
			*after = next.Data.NodeEvents.Cursor
			take(*next.Data.NodeEvents)
		case "ping":
			if err := wsjson.Write(ctx, conn, map[string]string{"type": "pong"}); err != nil {
				return err
			}
		case "error", "complete":
			return fmt.Errorf("%s %s", m.Type, m.Payload)
		}
	}
}
