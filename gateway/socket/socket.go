// Package socket is the gateway's end of a websocket (RFC 6455), cut down to what a session is: binary messages from a machine that masks them, no
// extensions, small messages that cost no memory, and one system call for each that is read or written. docs/adr/0021 says why it is our own.
package socket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Code is a websocket's status code for its end.
type Code uint16

// The codes that are said here.
const (
	Normal      Code = 1000
	GoingAway   Code = 1001
	Protocol    Code = 1002
	Unsupported Code = 1003
	Policy      Code = 1008
	TooBig      Code = 1009

	noCode Code = 1005 // a close frame without one; never sent
)

// Broken says that the other side sent what this protocol does not allow.
type Broken struct {
	// Code is what the close frame has to say.
	Code Code
	// Rule is the one that was broken.
	Rule string
}

// Error is the rule.
func (b *Broken) Error() string { return "the other side broke the websocket protocol: " + b.Rule }

func broken(rule string) error { return &Broken{Code: Protocol, Rule: rule} }

// Closed says that the other side closed in order.
type Closed struct{ Code Code }

// Error tells the code.
func (c *Closed) Error() string {
	return fmt.Sprintf("the other side closed the websocket with %d", c.Code)
}

const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA

	maxControl = 125
)

// Conn is a websocket. One goroutine reads; any may write.
type Conn struct {
	conn net.Conn
	// Pinged, if there is one, is called for each ping and pong that came.
	Pinged func()

	in         [96]byte // what was read and not taken yet is in[from:to]
	from, to   int
	long       *bytes.Buffer // the last message, when it was a long one
	closedByUs bool          // guarded by turn

	now     func() time.Duration
	writing atomic.Int64 // since when a frame is being sent; 0 while none is

	turn sync.Mutex
	out  [32]byte // guarded by turn
}

// New makes a websocket of a connection that has been upgraded already. now is a monotone clock, which says how long a write takes.
func New(conn net.Conn, now func() time.Duration) *Conn { return &Conn{conn: conn, now: now} }

// long messages' buffers; one that grew very large is let go.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keepBuffer = 64 << 10

// Limit says how long a message that begins with these bytes may be. It is asked for messages that don't fit into a few bytes, with as much of the
// beginning as the first frame has, up to Ask bytes.
type Limit func(beginning []byte) int

// Ask is how much of a message is read before its limit is asked for.
const Ask = 16

// Next gives the next binary message. It is good until the next call, or until Free. Pings are answered and pongs passed over. The end is *Closed when the other side
// closes in order, *Broken when it broke the protocol; every other error is the connection's.
func (c *Conn) Next(limit Limit) ([]byte, error) {
	c.Free()
	for {
		h, err := c.header()
		if err != nil {
			return nil, err
		}
		switch {
		case h.op >= opClose:
			if err := c.control(h); err != nil {
				return nil, err
			}
		case h.op == opText:
			return nil, &Broken{Code: Unsupported, Rule: "a message of text"}
		case h.op == opContinuation:
			return nil, broken("a continuation of nothing")
		case h.final && h.size <= uint64(len(c.in)):
			return c.small(h)
		default:
			return c.large(h, limit)
		}
	}
}

// Free gives the memory of a long message back, for a reader that has done with it and may wait long for the next.
func (c *Conn) Free() {
	if c.long != nil && c.long.Cap() <= keepBuffer {
		c.long.Reset()
		buffers.Put(c.long)
	}
	c.long = nil
}

// header is a frame's.
type header struct {
	op    byte
	final bool
	mask  [4]byte
	size  uint64
}

// header reads a frame's header.
func (c *Conn) header() (header, error) {
	var h header
	b, err := c.take(2)
	if err != nil {
		return h, err
	}
	h.final, h.op = b[0]&0x80 != 0, b[0]&0x0F
	masked, short := b[1]&0x80 != 0, b[1]&0x7F
	switch {
	case b[0]&0x70 != 0:
		return h, broken("bits that are reserved for extensions")
	case !masked:
		return h, broken("a frame that is not masked")
	case h.op > opBinary && h.op < opClose || h.op > opPong:
		return h, broken("a frame of an unknown kind")
	case h.op >= opClose && (!h.final || short > maxControl):
		return h, broken("a control frame in pieces or too long")
	}
	switch h.size = uint64(short); short {
	case 126:
		if b, err = c.take(2); err != nil {
			return h, within(err)
		}
		if h.size = uint64(binary.BigEndian.Uint16(b)); h.size < 126 {
			return h, broken("a length in more bytes than it needs")
		}
	case 127:
		if b, err = c.take(8); err != nil {
			return h, within(err)
		}
		if h.size = binary.BigEndian.Uint64(b); h.size < 1<<16 || h.size >= 1<<63 {
			return h, broken("a length in more bytes than it needs, or beyond all measure")
		}
	}
	if b, err = c.take(4); err != nil {
		return h, within(err)
	}
	copy(h.mask[:], b)
	return h, nil
}

// take gives the next n bytes, of which there is room for in the buffer. They are good until the next call.
func (c *Conn) take(n int) ([]byte, error) {
	if c.from == c.to {
		c.from, c.to = 0, 0
	} else if c.from+n > len(c.in) {
		c.to = copy(c.in[:], c.in[c.from:c.to])
		c.from = 0
	}
	for c.to-c.from < n {
		m, err := c.conn.Read(c.in[c.to:])
		c.to += m
		if err != nil && c.to-c.from < n {
			if c.to > c.from {
				err = within(err)
			}
			return nil, err //nolint:wrapcheck // Next's errors are the connection's
		}
	}
	b := c.in[c.from : c.from+n]
	c.from += n
	return b, nil
}

// within makes of a connection's end the end inside of a frame: only between frames can one end in order.
func within(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fill reads into b what the next bytes are.
func (c *Conn) fill(b []byte) error {
	n := copy(b, c.in[c.from:c.to])
	c.from += n
	if n == len(b) {
		return nil
	}
	_, err := io.ReadFull(c.conn, b[n:])
	return within(err)
}

// small reads a message of one frame that fits into the buffer.
func (c *Conn) small(h header) ([]byte, error) {
	b, err := c.take(int(h.size))
	if err != nil {
		return nil, within(err)
	}
	unmask(b, h.mask, 0)
	return b, nil
}

// large reads a message that is long or comes in pieces. Its buffer grows with what has come, not with what is announced.
func (c *Conn) large(h header, limit Limit) ([]byte, error) {
	c.long, _ = buffers.Get().(*bytes.Buffer)
	most, asked := uint64(Ask), false
	for {
		left, done := h.size, 0
		for left > 0 {
			if !asked && c.long.Len() >= Ask {
				most, asked = uint64(max(limit(c.long.Bytes()), 0)), true
			}
			if asked && uint64(c.long.Len())+left > most {
				return nil, &Broken{Code: TooBig, Rule: fmt.Sprintf("a message longer than %d bytes", most)}
			}
			n := min(left, 4<<10)
			if !asked {
				n = min(n, Ask-uint64(c.long.Len()))
			}
			c.long.Grow(int(n))
			b := c.long.AvailableBuffer()[:n]
			if err := c.fill(b); err != nil {
				return nil, err
			}
			unmask(b, h.mask, done)
			c.long.Write(b)
			left, done = left-n, done+int(n)
		}
		if h.final {
			return c.long.Bytes(), nil
		}
		var err error
		if h, err = c.more(); err != nil {
			return nil, err
		}
	}
}

// more reads the header of a message's next frame, past control frames in between.
func (c *Conn) more() (header, error) {
	for {
		h, err := c.header()
		switch {
		case err != nil:
			return h, within(err)
		case h.op >= opClose:
			if err := c.control(h); err != nil {
				return h, err
			}
		case h.op != opContinuation:
			return h, broken("a message inside of another one")
		default:
			return h, nil
		}
	}
}

// unmask takes the mask from the part of a frame's payload that begins at the offset.
func unmask(b []byte, mask [4]byte, offset int) {
	key := [8]byte{}
	for i := range key {
		key[i] = mask[(offset+i)&3]
	}
	word := binary.NativeEndian.Uint64(key[:])
	for ; len(b) >= 8; b = b[8:] {
		binary.NativeEndian.PutUint64(b, binary.NativeEndian.Uint64(b)^word)
	}
	for i := range b {
		b[i] ^= key[i&7]
	}
}

// control takes a control frame.
func (c *Conn) control(h header) error {
	var room [maxControl]byte
	b := room[:h.size]
	if err := c.fill(b); err != nil {
		return err
	}
	unmask(b, h.mask, 0)
	if h.op != opClose {
		if c.Pinged != nil {
			c.Pinged()
		}
		if h.op == opPing {
			return c.write(opPong, b)
		}
		return nil
	}
	code := noCode
	switch {
	case len(b) == 1:
		return broken("half a status code")
	case len(b) > 1:
		code = Code(binary.BigEndian.Uint16(b))
		if code < 1000 || code >= 5000 || code >= 1004 && code <= 1006 || code > 1014 && code < 3000 {
			return broken("a status code that may not be sent")
		}
	}
	// Who closes is told the same; it may be gone already.
	_ = c.Close(code, "")
	return &Closed{Code: code}
}

// Write sends one message.
func (c *Conn) Write(message []byte) error { return c.write(opBinary, message) }

// Close sends the close frame, once; after it nothing else is sent. The connection stays open, so that the other side can read why: see [Conn.Await].
func (c *Conn) Close(code Code, reason string) error {
	var b []byte
	if code != noCode {
		b = binary.BigEndian.AppendUint16(make([]byte, 0, maxControl), uint16(code))
		b = append(b, reason[:min(len(reason), maxControl-2)]...)
	}
	return c.write(opClose, b)
}

// Writing says how long the frame that is being sent has taken so far: 0 when there is none. There is no timer for a write: who looks at all
// connections ends one that takes too long.
func (c *Conn) Writing(now time.Duration) time.Duration {
	began := c.writing.Load()
	if began == 0 {
		return 0
	}
	return now - time.Duration(began)
}

func (c *Conn) write(op byte, payload []byte) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.closedByUs {
		return net.ErrClosed
	}
	c.closedByUs = op == opClose
	frame := c.out[:0]
	if n := len(payload); n+4 > cap(frame) {
		frame = make([]byte, 0, n+10)
	}
	frame = append(frame, 0x80|op)
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 127), uint64(n))
	}
	c.writing.Store(int64(max(c.now(), 1)))
	defer c.writing.Store(0)
	if _, err := c.conn.Write(append(frame, payload...)); err != nil {
		return fmt.Errorf("write to the websocket: %w", err)
	}
	return nil
}

// Await reads on after a close frame was sent and throws away what comes, until the other side ends the connection. A connection that is closed with
// bytes unread is reset, and the reason could be lost on the way. The caller bounds it by ending the connection itself.
func (c *Conn) Await() {
	c.from, c.to = 0, 0
	for {
		if _, err := c.conn.Read(c.in[:]); err != nil {
			return
		}
	}
}

// End ends the connection under the websocket.
func (c *Conn) End() error { return c.conn.Close() } //nolint:wrapcheck // it says all
