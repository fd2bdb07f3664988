package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// client is one connection to the API that is kept open. It has no goroutine: a request goes out in one write, and its answer is read when the caller
// asks for it, so that what is measured is the server and not Go's transport.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

// callBound is how long an operation may take.
const callBound = 20 * time.Second

// request gives the bytes of a GraphQL operation.
func (r *rig) request(query string, variables map[string]any) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("POST /graphql HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		strings.TrimPrefix(r.url, "http://"), r.token, len(body))
	return append([]byte(head), body...), nil
}

// take gives a connection that nobody uses.
func (r *rig) take(ctx context.Context) (*client, error) {
	select {
	case c := <-r.clients:
		return c, nil
	default:
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, in: bufio.NewReader(conn)}, nil
}

// give takes a connection back for the next.
func (r *rig) give(c *client) {
	select {
	case r.clients <- c:
	default:
		_ = c.conn.Close()
	}
}

// hangUp closes the connections that nobody uses: those of a server that is no more.
func (r *rig) hangUp() {
	for {
		select {
		case c := <-r.clients:
			_ = c.conn.Close()
		default:
			return
		}
	}
}

// asked is an operation that was sent.
type asked struct {
	rig *rig
	c   *client
}

// send sends a request and does not wait for its answer, which is to be read all the same.
func (r *rig) send(ctx context.Context, request []byte) (asked, error) {
	c, err := r.take(ctx)
	if err != nil {
		return asked{}, err
	}
	if err := c.conn.SetDeadline(time.Now().Add(callBound)); err != nil {
		return asked{}, err
	}
	if _, err := c.conn.Write(request); err != nil {
		_ = c.conn.Close()
		return asked{}, err
	}
	return asked{r, c}, nil
}

// answer reads the whole answer, and its data into what is given.
func (a asked) answer(into any) error {
	text, err := a.c.read()
	if err != nil {
		_ = a.c.conn.Close()
		return err
	}
	a.rig.give(a.c)
	var answer struct {
		Data   json.RawMessage
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	if len(answer.Errors) > 0 {
		return errors.New(answer.Errors[0].Message)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer.Data, into)
}

func (c *client) read() ([]byte, error) {
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	}
	if resp.Close {
		return nil, errors.New("the server closes the connection")
	}
	return text, nil
}

// call runs a GraphQL operation.
func (r *rig) call(ctx context.Context, query string, variables map[string]any, into any) error {
	request, err := r.request(query, variables)
	if err != nil {
		return err
	}
	a, err := r.send(ctx, request)
	if err != nil {
		return err
	}
	return a.answer(into)
}

// until gives the time from sending an operation until the node's event is there; then it reads the operation's answer.
func (r *rig) until(ctx context.Context, events *watcher, nodeID, query string, variables map[string]any) (time.Duration, error) {
	request, err := r.request(query, variables)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	a, err := r.send(ctx, request)
	if err != nil {
		return 0, err
	}
	missed := events.await(nodeID)
	took := time.Since(began)
	return took, errors.Join(missed, a.answer(nil))
}
