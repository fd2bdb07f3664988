package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// ErrProtocol is in the chain of every error that means that the other side sent what the protocol does not allow. A gateway answers it with
// Close PROTOCOL; every other error of a read means that the connection is gone.
var ErrProtocol = errors.New("the other side broke the session protocol")

// The numbers of the fields that frames are told apart by: beat and inventory of Up, beat_ack of Down, seq of Beat and of BeatAck.
const (
	beatField      = 2
	inventoryField = 3 // the one that may make a frame longer than MaxFrame
	ackField       = 2
	seqField       = 1
)

// frames keeps read buffers. Beats are tiny and many; a buffer that an inventory made large is let go.
var frames = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Prepare sets the limits of a connection; call it once, before the first read.
func Prepare(c *websocket.Conn) {
	// One byte more than is ever allowed: read finds the excess itself and says which rule it broke.
	c.SetReadLimit(MaxInventory + 1)
}

// ReadUp reads the machine's next frame. It waits as long as ctx allows; when ctx ends, the connection is closed.
func ReadUp(ctx context.Context, c *websocket.Conn) (*Up, error) {
	up := new(Up)
	if err := read(ctx, c, up, MaxInventory); err != nil {
		return nil, err
	}
	return up, nil
}

// ReadDown reads the gateway's next frame. It waits as long as ctx allows; when ctx ends, the connection is closed.
func ReadDown(ctx context.Context, c *websocket.Conn) (*Down, error) {
	down := new(Down)
	if err := read(ctx, c, down, MaxFrame); err != nil {
		return nil, err
	}
	return down, nil
}

// WriteUp sends one frame to the gateway, within WriteTimeout.
func WriteUp(ctx context.Context, c *websocket.Conn, up *Up) error {
	limit := MaxFrame
	if up.GetInventory() != nil {
		limit = MaxInventory
	}
	return write(ctx, c, up, limit, WriteTimeout)
}

// WriteDown sends one frame to the machine, within WriteTimeout.
func WriteDown(ctx context.Context, c *websocket.Conn, down *Down) error {
	return write(ctx, c, down, MaxFrame, WriteTimeout)
}

// LimitUp gives how long a frame of the machine may be that begins with these bytes: long only when it begins as an inventory does, so that nobody
// makes the reader hold a megabyte for nothing.
func LimitUp(beginning []byte) int {
	if firstField(beginning) == inventoryField {
		return MaxInventory
	}
	return MaxFrame
}

// DecodeUp reads an encoded Up. Nearly every frame is a beat, and one that says nothing but its number is given as that number, with a nil Up and no
// message made for it.
func DecodeUp(frame []byte) (up *Up, seq uint64, err error) {
	if seq, ok := beatOf(frame); ok {
		return nil, seq, nil
	}
	up = new(Up)
	if err := proto.Unmarshal(frame, up); err != nil {
		return nil, 0, fmt.Errorf("read a frame: %w: %w", ErrProtocol, err)
	}
	return up, 0, nil
}

// beatOf reads an encoded Up that is a Beat with a number, and nothing else. Whatever is spelled otherwise is for the decoder.
func beatOf(frame []byte) (seq uint64, ok bool) {
	field, kind, n := protowire.ConsumeTag(frame)
	if n < 0 || field != beatField || kind != protowire.BytesType {
		return 0, false
	}
	beat, m := protowire.ConsumeBytes(frame[n:])
	if m < 0 || n+m != len(frame) {
		return 0, false
	}
	field, kind, n = protowire.ConsumeTag(beat)
	if n < 0 || field != seqField || kind != protowire.VarintType {
		return 0, false
	}
	seq, m = protowire.ConsumeVarint(beat[n:])
	return seq, m > 0 && n+m == len(beat)
}

// AppendAck adds to b the frame that answers the beat of that number: an encoded Down with a BeatAck.
func AppendAck(b []byte, seq uint64) []byte {
	size := 0
	if seq > 0 { // a number that is 0 is not written
		size = protowire.SizeTag(seqField) + protowire.SizeVarint(seq)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, ackField, protowire.BytesType), uint64(size))
	if seq > 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, seqField, protowire.VarintType), seq)
	}
	return b
}

// EncodeDown gives the frame of a message to the machine.
func EncodeDown(down *Down) ([]byte, error) { return encode(down, MaxFrame) }

func encode(m proto.Message, limit int) ([]byte, error) {
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write a frame: %w", err)
	}
	if len(b) > limit {
		return nil, fmt.Errorf("write a frame: %d bytes are more than %d", len(b), limit)
	}
	return b, nil
}

func read(ctx context.Context, c *websocket.Conn, into proto.Message, limit int64) error {
	kind, r, err := c.Reader(ctx)
	if err != nil {
		return fmt.Errorf("read a frame: %w", err)
	}
	if kind != websocket.MessageBinary {
		return fmt.Errorf("read a frame: a text message: %w", ErrProtocol)
	}
	return decode(r, into, limit)
}

// decode reads a frame's bytes, as many as it may have and not one more.
func decode(r io.Reader, into proto.Message, limit int64) error {
	buf, _ := frames.Get().(*bytes.Buffer)
	buf.Reset()
	defer func() {
		if buf.Cap() <= MaxFrame {
			frames.Put(buf)
		}
	}()
	// A frame may be long only when it begins as an inventory does, so that nobody makes the reader hold a megabyte for nothing.
	if _, err := buf.ReadFrom(io.LimitReader(r, MaxFrame)); err != nil {
		return fmt.Errorf("read a frame: %w", err)
	}
	if buf.Len() == MaxFrame {
		allowed := int64(MaxFrame)
		if limit > MaxFrame && firstField(buf.Bytes()) == inventoryField {
			allowed = limit
		}
		if _, err := buf.ReadFrom(io.LimitReader(r, allowed-MaxFrame+1)); err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		if int64(buf.Len()) > allowed {
			return fmt.Errorf("read a frame: longer than %d bytes: %w", allowed, ErrProtocol)
		}
	}
	if err := proto.Unmarshal(buf.Bytes(), into); err != nil {
		return fmt.Errorf("read a frame: %w: %w", ErrProtocol, err)
	}
	return nil
}

// firstField gives the number of the first field of an encoded message, 0 when there is none.
func firstField(b []byte) protowire.Number {
	number, _, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0
	}
	return number
}

func write(ctx context.Context, c *websocket.Conn, m proto.Message, limit int, timeout time.Duration) error {
	b, err := encode(m, limit)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.Write(ctx, websocket.MessageBinary, b); err != nil {
		return fmt.Errorf("write a frame: %w", err)
	}
	return nil
}
