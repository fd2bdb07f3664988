package socket_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	more   = 0x00
	text   = 0x01
	binar  = 0x02
	closes = 0x08
	ping   = 0x09
	pong   = 0x0A
	final  = 0x80
)

// most is how long the messages of these tests may be.
const most = 2 << 20

func limit([]byte) int { return most }

// frame is a masked one, as a machine sends it.
func frame(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := [4]byte{0xA5, 0x01, 0xFE, 0x33}
	b = append(b, mask[:]...)
	for i, x := range payload {
		b = append(b, x^mask[i&3])
	}
	return b
}

// pair gives a machine's end of a connection and the websocket at the other one.
func pair(t testing.TB) (net.Conn, *socket.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	machine, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	conn, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = machine.Close(); _ = conn.Close() })
	began := time.Now()
	return machine, socket.New(conn, func() time.Duration { return time.Since(began) })
}

// send writes without keeping the test from reading.
func send(machine net.Conn, parts ...[]byte) {
	go func() {
		for _, p := range parts {
			if _, err := machine.Write(p); err != nil {
				return
			}
		}
	}()
}

func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// A message is read as it was sent, whatever its length, its pieces and the pieces that the network makes of it.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 15, 16, 17, 89, 90, 95, 96, 97, 125, 126, 127, 4095, 4096, 4097, 65535, 65536, 1 << 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			machine, conn := pair(t)
			sent := random(n)
			send(machine, frame(final|binar, sent), frame(final|binar, []byte("next")))
			got, err := conn.Next(limit)
			require.NoError(t, err)
			require.True(t, bytes.Equal(sent, got))
			got, err = conn.Next(limit)
			require.NoError(t, err)
			require.Equal(t, "next", string(got))
		})
	}
	t.Run("byte by byte, in pieces, with pings between them", func(t *testing.T) {
		t.Parallel()
		machine, conn := pair(t)
		pinged := 0
		conn.Pinged = func() { pinged++ }
		sent := random(300)
		all := bytes.Join([][]byte{
			frame(binar, sent[:1]), frame(final|ping, []byte("are you there")), frame(more, nil), frame(more, sent[1:200]), frame(final|pong, nil),
			frame(final|more, sent[200:]), frame(final|binar, sent[:40]),
		}, nil)
		var bites [][]byte
		for i := range all {
			bites = append(bites, all[i:i+1])
		}
		send(machine, bites...)
		got, err := conn.Next(limit)
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got))
		conn.Free()
		got, err = conn.Next(limit)
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent[:40], got))
		require.Equal(t, 2, pinged)
		answer := make([]byte, 15)
		_, err = io.ReadFull(machine, answer)
		require.NoError(t, err)
		require.Equal(t, "\x8a\x0dare you there", string(answer), "a ping is answered with its own bytes")
	})
	t.Run("what is written is one frame, not masked", func(t *testing.T) {
		t.Parallel()
		for _, n := range []int{0, 1, 28, 29, 125, 126, 65535, 65536} {
			machine, conn := pair(t)
			sent := random(n)
			done := make(chan error, 1)
			go func() { done <- conn.Write(sent) }()
			want := frame(final|binar, sent)
			head := len(want) - n - 4 // without the mask
			want[1] &^= 0x80
			got := make([]byte, head+n)
			_, err := io.ReadFull(machine, got)
			require.NoError(t, err)
			require.NoError(t, <-done)
			require.Equal(t, want[:head], got[:head])
			require.True(t, bytes.Equal(sent, got[head:]))
			require.Zero(t, conn.Writing(time.Hour))
		}
	})
}

// What the protocol forbids ends the reading with the code that a close frame has to say, at the first byte that shows it.
func TestBroken(t *testing.T) {
	t.Parallel()
	masked := []byte{1, 2, 3, 4}
	bare := func(b ...byte) []byte { return b }
	for name, c := range map[string]struct {
		sent []byte
		code socket.Code
	}{
		"not masked":                       {bare(final|binar, 1, 'a'), socket.Protocol},
		"an extension's bit":               {frame(final|0x40|binar, nil), socket.Protocol},
		"another extension's bits":         {frame(final|0x30|binar, nil), socket.Protocol},
		"an unknown kind":                  {frame(final|3, nil), socket.Protocol},
		"an unknown kind of control":       {frame(final|0xB, nil), socket.Protocol},
		"text":                             {frame(final|text, []byte("{}")), socket.Unsupported},
		"text in pieces":                   {frame(text, []byte("{}")), socket.Unsupported},
		"a continuation of nothing":        {frame(final|more, nil), socket.Protocol},
		"a message inside of a message":    {append(frame(binar, []byte("a")), frame(final|binar, []byte("b"))...), socket.Protocol},
		"a ping in pieces":                 {frame(ping, nil), socket.Protocol},
		"a long ping":                      {frame(final|ping, random(126)), socket.Protocol},
		"a length with a byte too many":    {append(bare(final|binar, 0x80|126, 0, 125), masked...), socket.Protocol},
		"a length with six bytes too many": {append(bare(final|binar, 0x80|127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF), masked...), socket.Protocol},
		"a negative length":                {append(bare(final|binar, 0x80|127, 0x80, 0, 0, 0, 0, 0, 0, 0), masked...), socket.Protocol},
		"half a status":                    {frame(final|closes, []byte{3}), socket.Protocol},
		"a status that is never sent":      {frame(final|closes, []byte{0x03, 0xED}), socket.Protocol},
		"a status of nothing":              {frame(final|closes, []byte{0, 1}), socket.Protocol},
		"an exabyte":                       {append(append(bare(final|binar, 0x80|127, 0x10, 0, 0, 0, 0, 0, 0, 0), masked...), random(64)...), socket.TooBig},
		"a byte too many": {
			append(append(bare(final|binar, 0x80|127), binary.BigEndian.AppendUint64(nil, most+1)...), random(64)...), socket.TooBig,
		},
	} {
		t.Run("H2 "+name, func(t *testing.T) {
			t.Parallel()
			machine, conn := pair(t)
			send(machine, c.sent)
			_, err := conn.Next(limit)
			var broken *socket.Broken
			require.ErrorAs(t, err, &broken)
			require.Equal(t, c.code, broken.Code, broken.Rule)
		})
	}
	t.Run("H2 a message of too many pieces", func(t *testing.T) {
		t.Parallel()
		machine, conn := pair(t)
		pieces := [][]byte{frame(binar, random(1000))}
		for range most / 1000 {
			pieces = append(pieces, frame(more, random(1000)))
		}
		send(machine, pieces...)
		_, err := conn.Next(limit)
		var broken *socket.Broken
		require.ErrorAs(t, err, &broken)
		require.Equal(t, socket.TooBig, broken.Code)
	})
	t.Run("the limit is asked by the message's own beginning", func(t *testing.T) {
		t.Parallel()
		machine, conn := pair(t)
		sent := random(5000)
		send(machine, frame(binar, sent[:3]), frame(more, sent[3:100]), frame(final|more, sent[100:]))
		asked := []byte(nil)
		got, err := conn.Next(func(beginning []byte) int {
			asked = bytes.Clone(beginning)
			return len(sent)
		})
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got))
		require.Equal(t, sent[:socket.Ask], asked)
	})
}

// A connection that ends inside of a frame, at whatever byte, is an error and never a shorter message; only between frames it can end in order.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, all := range [][]byte{
		frame(final|binar, random(10)), frame(final|binar, random(130)), frame(final|binar, random(20000))[:9000],
		append(frame(binar, random(40)), frame(final|more, random(40))...), frame(final|ping, random(4)),
	} {
		for n := range min(len(all), 200) {
			machine, conn := pair(t)
			_, err := machine.Write(all[:n])
			require.NoError(t, err)
			require.NoError(t, machine.Close())
			got, err := conn.Next(limit)
			require.Error(t, err, "%d bytes gave %d", n, len(got))
			require.Equal(t, n == 0, errors.Is(err, io.EOF), "%d: %v", n, err)
		}
	}
}

// Who closes first is told the same, nothing is sent after a close frame, and the reason is cut to what fits.
func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("the machine closes", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			sent []byte
			code socket.Code
			echo string
		}{
			"with a status":          {[]byte{0x03, 0xE8, 'b', 'y', 'e'}, socket.Normal, "\x88\x02\x03\xe8"},
			"with one of its own":    {[]byte{0x0F, 0xA0}, 4000, "\x88\x02\x0f\xa0"},
			"without one: no status": {nil, 1005, "\x88\x00"},
		} {
			machine, conn := pair(t)
			send(machine, frame(final|closes, c.sent))
			_, err := conn.Next(limit)
			var closed *socket.Closed
			require.ErrorAs(t, err, &closed, name)
			require.Equal(t, c.code, closed.Code, name)
			require.ErrorIs(t, conn.Write([]byte("late")), net.ErrClosed)
			require.NoError(t, conn.End())
			got, err := io.ReadAll(machine)
			require.NoError(t, err)
			require.Equal(t, c.echo, string(got), name)
		}
	})
	t.Run("this side closes, and waits until the machine has gone", func(t *testing.T) {
		t.Parallel()
		machine, conn := pair(t)
		require.NoError(t, conn.Close(socket.Policy, strings.Repeat("x", 200)))
		require.ErrorIs(t, conn.Close(socket.Normal, ""), net.ErrClosed)
		waited := make(chan struct{})
		go func() { conn.Await(); close(waited) }()
		got := make([]byte, 2+125)
		_, err := io.ReadFull(machine, got)
		require.NoError(t, err)
		require.Equal(t, "\x88\x7d\x03\xf0x", string(got[:5]))
		_, err = machine.Write(frame(final|binar, random(100)))
		require.NoError(t, err)
		select {
		case <-waited:
			require.Fail(t, "the machine is still there")
		default:
		}
		require.NoError(t, machine.Close())
		<-waited
	})
	t.Run("a write that nobody takes tells how long it has taken, and ends with the connection", func(t *testing.T) {
		t.Parallel()
		_, conn := pair(t)
		done := make(chan error, 1)
		go func() { done <- conn.Write(make([]byte, 64<<20)) }()
		require.Eventually(t, func() bool { return conn.Writing(time.Hour) > 30*time.Minute }, 10*time.Second, time.Millisecond)
		require.NoError(t, conn.End())
		require.Error(t, <-done)
	})
}

// A request becomes a websocket only when it says all that belongs to one; web pages are refused.
func TestAccept(t *testing.T) {
	t.Parallel()
	good := func() *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		for name, value := range map[string]string{
			"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket", "Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "other, bc.test",
		} {
			r.Header.Set(name, value)
		}
		return r
	}
	require.NoError(t, socket.Check(good(), "bc.test"))
	for name, value := range map[string]string{
		"Connection": "close", "Upgrade": "h2c", "Sec-WebSocket-Version": "8", "Sec-WebSocket-Key": "c2hvcnQ=", "Sec-WebSocket-Protocol": "other",
	} {
		for _, v := range []string{value, ""} {
			r := good()
			r.Header.Set(name, v)
			err := socket.Check(r, "bc.test")
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err), name)
			require.Equal(t, name, fault.From(err).Details["argument"])
		}
	}
	twice := good()
	twice.Header.Add("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	require.Equal(t, fault.InvalidInput, fault.CodeOf(socket.Check(twice, "bc.test")))
	page := good()
	page.Header.Set("Origin", "https://example.com")
	require.Equal(t, fault.Forbidden, fault.CodeOf(socket.Check(page, "bc.test")))
	post := good()
	post.Method = http.MethodPost
	require.Equal(t, fault.InvalidInput, fault.CodeOf(socket.Check(post, "bc.test")))

	// The proof is RFC 6455's own example, and what a machine sends too early is read all the same.
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := socket.Accept(w, r, "bc.test", func() time.Duration { return 1 })
		if err != nil {
			got <- err.Error()
			return
		}
		message, err := conn.Next(limit)
		got <- fmt.Sprint(string(message), err)
		_ = conn.End()
	}))
	defer server.Close()
	machine, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer machine.Close()
	var request bytes.Buffer
	require.NoError(t, good().Write(&request))
	_, err = machine.Write(append(request.Bytes(), frame(final|binar, []byte("early"))...))
	require.NoError(t, err)
	require.Equal(t, "early<nil>", <-got)
	answer, err := io.ReadAll(machine)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP/1.1 101 ")
	require.Contains(t, string(answer), "Sec-Websocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n")
	require.Contains(t, string(answer), "Sec-Websocket-Protocol: bc.test\r\n")
}

// quiet is a connection that has said all, and takes what is written.
type quiet struct {
	net.Conn
	io.Reader
}

func (q quiet) Read(b []byte) (int, error)  { return q.Reader.Read(b) }
func (q quiet) Write(b []byte) (int, error) { return len(b), nil }

func FuzzNext(f *testing.F) {
	f.Add(frame(final|binar, []byte("beat")))
	f.Add(append(frame(binar, random(20)), frame(final|more, random(200))...))
	f.Add(append(frame(final|ping, []byte("x")), frame(final|closes, []byte{3, 232})...))
	f.Add([]byte{0x82, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, sent []byte) {
		// Nothing makes it panic or read on for ever; no message is longer than what was sent or allowed; bytes that end do not end in order
		// but between frames.
		conn := socket.New(quiet{Reader: bytes.NewReader(sent)}, func() time.Duration { return 1 })
		total := 0
		for {
			message, err := conn.Next(func([]byte) int { return 1000 })
			if err != nil {
				break
			}
			total += len(message) + 6
			require.LessOrEqual(t, len(message), 1000)
			require.LessOrEqual(t, total, len(sent))
		}
	})
}

// A large announcement takes no memory before its bytes come.
func TestAnnounced(t *testing.T) { //nolint:paralleltest // it counts memory
	head := append(binary.BigEndian.AppendUint64([]byte{final | binar, 0x80 | 127}, most), random(4+64)...)
	conn := socket.New(quiet{Reader: bytes.NewReader(head)}, func() time.Duration { return 1 })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := conn.Next(limit)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
}

// What a beat costs beside TLS: no memory at all.
func TestNoMemory(t *testing.T) { //nolint:paralleltest // it counts allocations
	sent := frame(final|binar, []byte{0x12, 2, 8, 5})
	r := bytes.NewReader(nil)
	conn := socket.New(quiet{Reader: r}, func() time.Duration { return 1 })
	got := testing.AllocsPerRun(1000, func() {
		r.Reset(sent)
		if _, err := conn.Next(limit); err != nil {
			t.Fatal(err)
		}
		if err := conn.Write(sent[:8]); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, got)
}
