package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// watcher is a websocket subscriber whose frames are read by whoever waits for one, for the same reason as [client]: what is measured is the server, and
// not how a library of this process wakes its goroutines.
type watcher struct {
	conn  net.Conn
	in    *bufio.Reader
	frame []byte
}

// watch follows the events of those types.
func (r *rig) watch(ctx context.Context, types ...string) (_ *watcher, err error) {
	after, err := r.head(ctx)
	if err != nil {
		return nil, err
	}
	address := strings.TrimPrefix(r.url, "http://")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	w := &watcher{conn: conn, in: bufio.NewReader(conn)}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := conn.SetDeadline(time.Now().Add(callBound)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "GET /graphql HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n",
		address, r.token, base64.StdEncoding.EncodeToString([]byte("sixteen bytes..."))); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("no websocket but status %d", resp.StatusCode)
	}
	if err := w.send(message{Type: "connection_init"}); err != nil {
		return nil, err
	}
	if err := w.until("connection_ack"); err != nil {
		return nil, err
	}
	payload, err := subscription(after, types)
	if err != nil {
		return nil, err
	}
	return w, w.send(message{ID: "1", Type: "subscribe", Payload: payload})
}

func (w *watcher) close() { _ = w.conn.Close() }

// await waits for the event of a node.
func (w *watcher) await(nodeID string) error {
	if err := w.conn.SetDeadline(time.Now().Add(callBound)); err != nil {
		return err
	}
	return w.until(nodeID)
}

// until reads until a message holds that word.
func (w *watcher) until(word string) error {
	for {
		opcode, err := w.read()
		switch {
		case err != nil:
			return err
		case opcode == opClose:
			return errors.New("the subscription ended")
		case opcode == opPing:
			err = w.write(opPong, w.frame)
		case bytes.Contains(w.frame, []byte(`"type":"ping"`)):
			err = w.send(message{Type: "pong"})
		case bytes.Contains(w.frame, []byte(`"`+word+`"`)):
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// The opcodes of RFC 6455 that matter here.
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

// read reads one frame. The server sends each message in one.
func (w *watcher) read() (opcode byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(w.in, head[:2]); err != nil {
		return 0, err
	}
	if head[0]&0x80 == 0 {
		return 0, errors.New("a message in parts")
	}
	opcode = head[0] & 0x0f
	length := uint64(head[1])
	switch length {
	case 126:
		if _, err := io.ReadFull(w.in, head[:2]); err != nil {
			return 0, err
		}
		length = uint64(binary.BigEndian.Uint16(head[:2]))
	case 127:
		if _, err := io.ReadFull(w.in, head[:8]); err != nil {
			return 0, err
		}
		length = binary.BigEndian.Uint64(head[:8])
	}
	if length > 1<<20 {
		return 0, fmt.Errorf("a frame of %d bytes", length)
	}
	w.frame = append(w.frame[:0], make([]byte, length)...)
	_, err = io.ReadFull(w.in, w.frame)
	return opcode, err
}

func (w *watcher) send(m message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return w.write(opText, text)
}

// write sends a frame. Its mask is zero, which leaves the text as it is.
func (w *watcher) write(opcode byte, text []byte) error {
	frame := []byte{0x80 | opcode, 0x80 | 126, byte(len(text) >> 8), byte(len(text)), 0, 0, 0, 0}
	if len(text) < 126 {
		frame = []byte{0x80 | opcode, 0x80 | byte(len(text)), 0, 0, 0, 0}
	}
	_, err := w.conn.Write(append(frame, text...))
	return err
}
