// Command page-when-drained calls a pager for each node of a pool that is drained. It follows the log by websocket (graphql-transport-ws) and keeps
// its place in a file: killed and started again it goes on where it was, so no drain is missed. An event whose page was sent just before a kill
// comes twice; the event's id, which is given to the pager, tells.
//
//	page-when-drained -server http://127.0.0.1:8080 -token-file admin.token -tenant default -pool default -state place -- notify-send
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

const subscription = `subscription ($tenant: ID!, $after: Cursor) {
  nodeDrained(tenantId: $tenant, after: $after) {
    id cursor at reason drainId confirmedByNode
    node { id hostname pool { name } }
  }
}`

// drained is what the subscription gives. The node is null once the tenant no longer sees it.
type drained struct {
	ID              string    `json:"id"`
	Cursor          string    `json:"cursor"`
	At              time.Time `json:"at"`
	Reason          *string   `json:"reason"`
	DrainID         string    `json:"drainId"`
	ConfirmedByNode bool      `json:"confirmedByNode"`
	Node            *struct {
		ID, Hostname string
		Pool         struct{ Name string }
	} `json:"node"`
}

type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// refused is an answer that coming back doesn't change.
type refused struct{ text string }

func (r refused) Error() string { return r.text }

type watch struct {
	server, token, tenant, pool, state string
	pager                              []string
}

func main() {
	var w watch
	var tokenFile string
	flag.StringVar(&w.server, "server", "http://127.0.0.1:8080", "the server's URL")
	flag.StringVar(&tokenFile, "token-file", "", "a file with the bearer token")
	flag.StringVar(&w.tenant, "tenant", "default", "the tenant that asks")
	flag.StringVar(&w.pool, "pool", "default", "the pool, by its name")
	flag.StringVar(&w.state, "state", "page-when-drained.cursor", "the file that keeps the place")
	flag.Parse()
	w.pager = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the whole program's
	defer stop()
	if err := w.run(ctx, tokenFile); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "page-when-drained:", err)
		os.Exit(1) //nolint:gocritic // stop only undoes the signals
	}
}

// run comes back after every loss, a little later each time and never at the same moment as everybody else.
func (w *watch) run(ctx context.Context, tokenFile string) error {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return err
	}
	w.token = strings.TrimSpace(string(token))
	pause := time.Second
	for {
		began := time.Now()
		err := w.begin(ctx)
		if err == nil {
			err = w.follow(ctx)
		}
		if _, no := errors.AsType[refused](err); no || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > time.Minute {
			pause = time.Second
		}
		fmt.Fprintln(os.Stderr, "connection lost:", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(pause)): //nolint:gosec // jitter is no secret
		}
		pause = min(2*pause, 30*time.Second)
	}
}

// begin writes down where the log ends when there is no place yet: a kill before the first drain loses nothing either.
func (w *watch) begin(ctx context.Context) error {
	if w.place() != "" {
		return nil
	}
	body := object(map[string]any{"query": "query ($t: ID!) { log(tenantId: $t) { head } }", "variables": map[string]any{"t": w.tenant}})
	bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(bounded, http.MethodPost, w.server+"/graphql", bytes.NewReader(body))
	if err != nil {
		return refused{err.Error()}
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + w.token}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Log struct{ Head string } `json:"log"`
		} `json:"data"`
		Errors json.RawMessage `json:"errors"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if len(answer.Errors) > 0 {
		return ended(answer.Errors)
	}
	return w.keep(answer.Data.Log.Head)
}

// follow reads one connection until it ends.
func (w *watch) follow(ctx context.Context) error {
	conn, _, err := websocket.Dial(ctx, strings.Replace(w.server, "http", "ws", 1)+"/graphql", &websocket.DialOptions{ //nolint:bodyclose // it has none
		Subprotocols: []string{"graphql-transport-ws"},
	})
	if err != nil {
		return err
	}
	defer conn.CloseNow() //nolint:errcheck // it is over anyway
	if err := wsjson.Write(ctx, conn, message{Type: "connection_init", Payload: object(map[string]any{"Authorization": "Bearer " + w.token})}); err != nil {
		return err
	}
	for {
		var m message
		// The server pings; a connection that says nothing for a minute is none.
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		err := wsjson.Read(bounded, conn, &m)
		cancel()
		if code := websocket.CloseStatus(err); code == 4401 || code == 4403 {
			return refused{"the token is refused"}
		}
		if err != nil {
			return err
		}
		if err := w.take(ctx, conn, m); err != nil {
			return err
		}
	}
}

func (w *watch) take(ctx context.Context, conn *websocket.Conn, m message) error {
	switch m.Type {
	case "connection_ack":
		variables := map[string]any{"tenant": w.tenant, "after": w.place()}
		return wsjson.Write(ctx, conn, message{ID: "1", Type: "subscribe", Payload: object(map[string]any{"query": subscription, "variables": variables})})
	case "ping":
		return wsjson.Write(ctx, conn, message{Type: "pong"})
	case "next":
		var answer struct {
			Data struct {
				NodeDrained drained `json:"nodeDrained"`
			} `json:"data"`
		}
		if err := json.Unmarshal(m.Payload, &answer); err != nil {
			return err
		}
		return w.handle(ctx, &answer.Data.NodeDrained)
	case "error":
		return ended(m.Payload)
	case "complete":
		return errors.New("the server ended the stream")
	}
	return nil
}

// ended says why the server ended the stream. UNAVAILABLE and RESOURCE_EXHAUSTED pass; the rest needs a person.
func ended(payload json.RawMessage) error {
	var list []struct {
		Message    string `json:"message"`
		Extensions struct {
			Code string `json:"code"`
		} `json:"extensions"`
	}
	if err := json.Unmarshal(payload, &list); err != nil || len(list) == 0 {
		return fmt.Errorf("the server ended the stream: %s", payload)
	}
	text := list[0].Extensions.Code + ": " + list[0].Message
	if c := list[0].Extensions.Code; c == "UNAVAILABLE" || c == "RESOURCE_EXHAUSTED" {
		return errors.New(text)
	}
	return refused{text}
}

// handle pages first and moves the place afterwards: what is killed in between is told twice, and never not at all.
func (w *watch) handle(ctx context.Context, e *drained) error {
	if e.Node != nil && e.Node.Pool.Name == w.pool {
		text := fmt.Sprintf("%s is drained: %s (%s)", e.Node.Hostname, e.Node.ID, e.ID)
		if len(w.pager) == 0 {
			fmt.Println(text)
		} else if err := exec.CommandContext(ctx, w.pager[0], append(w.pager[1:], text)...).Run(); err != nil {
			return refused{"the pager failed: " + err.Error()}
		}
	}
	return w.keep(e.Cursor)
}

func (w *watch) place() string {
	b, err := os.ReadFile(w.state)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// keep writes the place beside the old one and puts it in its stead, so that a kill leaves one of the two.
func (w *watch) keep(cursor string) error {
	next := filepath.Join(filepath.Dir(w.state), "."+filepath.Base(w.state)+".next")
	if err := os.WriteFile(next, []byte(cursor+"\n"), 0o600); err != nil {
		return refused{err.Error()}
	}
	return os.Rename(next, w.state)
}

func object(fields map[string]any) json.RawMessage {
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return b
}
