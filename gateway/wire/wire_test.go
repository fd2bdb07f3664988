package wire_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestToken(t *testing.T) {
	t.Parallel()
	fresh, err := wire.NewToken(id.New(id.JoinToken))
	require.NoError(t, err)

	t.Run("a token survives its text", func(t *testing.T) {
		t.Parallel()
		parsed, err := wire.ParseToken(" " + fresh.Text() + "\n")
		require.NoError(t, err)
		require.Equal(t, fresh, parsed)
		require.Equal(t, fresh.SecretHash(), parsed.SecretHash())
	})

	t.Run("two tokens never share a secret", func(t *testing.T) {
		t.Parallel()
		other, err := wire.NewToken(fresh.ID())
		require.NoError(t, err)
		require.NotEqual(t, fresh.SecretHash(), other.SecretHash())
	})

	t.Run("D6 a printed token shows its id alone", func(t *testing.T) {
		t.Parallel()
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			text := fmt.Sprintf(format, fresh)
			require.Contains(t, text, fresh.ID(), format)
			require.NotContains(t, text, fresh.Text()[len("bcj_")+27:], format)
		}
	})

	suffix := strings.TrimPrefix(fresh.ID(), "jt_")
	secret := fresh.Text()[len("bcj_")+27:]
	for name, text := range map[string]string{
		"empty":               "",
		"another prefix":      "bcx_" + suffix + "_" + secret,
		"no secret":           "bcj_" + suffix,
		"an empty secret":     "bcj_" + suffix + "_",
		"a short secret":      "bcj_" + suffix + "_" + secret[:42],
		"a long secret":       "bcj_" + suffix + "_" + strings.Repeat("a", 65),
		"a sign in it":        "bcj_" + suffix + "_" + secret[:50] + "-_",
		"a short id":          "bcj_" + suffix[:25] + "_" + secret,
		"an upper case id":    "bcj_" + strings.ToUpper(suffix) + "_" + secret,
		"a second line":       fresh.Text() + "\n" + fresh.Text(),
		"the id's own prefix": "bcj_" + fresh.ID() + "_" + secret,
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			t.Parallel()
			_, err := wire.ParseToken(text)
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			require.NotContains(t, err.Error(), secret[:20], "the error must not repeat the secret")
		})
	}
}

func FuzzParseToken(f *testing.F) {
	fresh, err := wire.NewToken(id.New(id.JoinToken))
	require.NoError(f, err)
	f.Add(fresh.Text())
	f.Add("bcj__")
	f.Add("bcj_01k5wz6k3vf8g8x2x2j0m4q7ra_" + strings.Repeat("Z", 43))
	f.Fuzz(func(t *testing.T, text string) {
		token, err := wire.ParseToken(text)
		if err != nil {
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			return
		}
		// What is accepted is exactly one token's text, and its id is a valid id.
		require.Equal(t, strings.TrimSpace(text), token.Text())
		require.NoError(t, id.Check(id.JoinToken, "token", token.ID()))
	})
}

func TestJoinProof(t *testing.T) {
	t.Parallel()
	// A proof holds for its own connection, request and token, and for no other.
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	exporter, csr, token := bytes.Repeat([]byte{1}, wire.ExporterSize), []byte("csr"), "jt_01"
	proof := ed25519.Sign(private, wire.JoinProof(exporter, csr, token))
	require.True(t, ed25519.Verify(public, wire.JoinProof(exporter, csr, token), proof))
	require.False(t, ed25519.Verify(public, wire.JoinProof(bytes.Repeat([]byte{2}, wire.ExporterSize), csr, token), proof))
	require.False(t, ed25519.Verify(public, wire.JoinProof(exporter, []byte("other"), token), proof))
	require.False(t, ed25519.Verify(public, wire.JoinProof(exporter, csr, "jt_02"), proof))
	require.True(t, bytes.HasPrefix(wire.JoinProof(exporter, csr, token), []byte("bc-join-v1\x01\x01")))
}

func TestJoinRequestNames(t *testing.T) {
	t.Parallel()
	// The names in the JSON are the protocol; renaming a field breaks every machine in the field.
	b, err := json.Marshal(wire.JoinRequest{Token: "t", CSR: []byte{1}, Clock: time.Unix(0, 0).UTC()})
	require.NoError(t, err)
	require.JSONEq(t, `{"token":"t","csr":"AQ==","identityKey":null,"proof":null,
		"print":{"machineId":"","productUuid":"","ekHash":"","bootId":""},"hostname":"","agentVersion":"","clock":"1970-01-01T00:00:00Z"}`, string(b))
}

// pair opens one websocket and gives both of its ends.
func pair(t *testing.T) (machine, gateway *websocket.Conn) {
	t.Helper()
	accepted := make(chan *websocket.Conn, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
		if err == nil {
			accepted <- c
		}
	}))
	t.Cleanup(server.Close)
	machine, _, err := websocket.Dial(t.Context(), server.URL, &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
	require.NoError(t, err)
	gateway = <-accepted
	wire.Prepare(machine)
	wire.Prepare(gateway)
	t.Cleanup(func() { _ = machine.CloseNow(); _ = gateway.CloseNow() })
	return machine, gateway
}

func TestFrames(t *testing.T) {
	t.Parallel()

	t.Run("each side reads what the other wrote", func(t *testing.T) {
		t.Parallel()
		machine, gateway := pair(t)
		up := &wire.Up{Body: &wire.Up_Hello{Hello: &wire.Hello{Hostname: "h1", Print: &wire.Print{MachineId: "m"}}}}
		require.NoError(t, wire.WriteUp(t.Context(), machine, up))
		gotUp, err := wire.ReadUp(t.Context(), gateway)
		require.NoError(t, err)
		require.True(t, proto.Equal(up, gotUp))
		down := &wire.Down{Body: &wire.Down_Close{Close: &wire.Close{Reason: wire.Close_GO_AWAY, RetryAfterMs: 5}}}
		require.NoError(t, wire.WriteDown(t.Context(), gateway, down))
		gotDown, err := wire.ReadDown(t.Context(), machine)
		require.NoError(t, err)
		require.True(t, proto.Equal(down, gotDown))
	})

	// send writes raw bytes as one frame while the gateway reads, and gives what the read answered.
	send := func(t *testing.T, kind websocket.MessageType, b []byte) (*wire.Up, error) {
		t.Helper()
		machine, gateway := pair(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = machine.Write(t.Context(), kind, b) // fails when the reader gave up; the reader's error is what counts
		}()
		up, err := wire.ReadUp(t.Context(), gateway)
		_ = gateway.CloseNow()
		<-done
		return up, err
	}
	bytesField := func(number protowire.Number, n int) []byte {
		// The whole field takes n bytes; its content begins with no valid message but is of an unknown field, so the length alone matters.
		b := protowire.AppendTag(nil, number, protowire.BytesType)
		for size := n; ; size-- {
			full := protowire.AppendBytes(b, make([]byte, size))
			if len(full) <= n {
				return full
			}
		}
	}
	inventory := func(n int) []byte {
		note := strings.Repeat("x", n)
		for {
			b, err := proto.Marshal(&wire.Up{Body: &wire.Up_Inventory{Inventory: &wire.Inventory{Notes: []string{note}}}})
			require.NoError(t, err)
			if len(b) <= n {
				return b
			}
			note = note[:len(note)-(len(b)-n)]
		}
	}

	t.Run("an unknown field is ignored", func(t *testing.T) {
		t.Parallel()
		up, err := send(t, websocket.MessageBinary, bytesField(99, 10))
		require.NoError(t, err)
		require.Nil(t, up.GetBody())
	})
	t.Run("a frame of exactly the limit is read", func(t *testing.T) {
		t.Parallel()
		b := bytesField(99, wire.MaxFrame)
		require.Len(t, b, wire.MaxFrame)
		_, err := send(t, websocket.MessageBinary, b)
		require.NoError(t, err)
	})
	t.Run("an inventory of exactly its limit is read", func(t *testing.T) {
		t.Parallel()
		b := inventory(wire.MaxInventory)
		require.Len(t, b, wire.MaxInventory)
		up, err := send(t, websocket.MessageBinary, b)
		require.NoError(t, err)
		require.NotNil(t, up.GetInventory())
	})
	for name, frame := range map[string][]byte{
		"a frame longer than the limit":       bytesField(99, wire.MaxFrame+1),
		"a hello as long as an inventory":     bytesField(1, wire.MaxInventory),
		"an inventory longer than its limit":  inventory(wire.MaxInventory + 1),
		"garbage":                             {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"a truncated hello":                   {0x0a, 0x7f, 0x01},
		"a text that is not valid characters": {0x0a, 0x03, 0x0a, 0x01, 0xff},
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			t.Parallel()
			_, err := send(t, websocket.MessageBinary, frame)
			require.ErrorIs(t, err, wire.ErrProtocol)
		})
	}
	t.Run("refused: a text message", func(t *testing.T) {
		t.Parallel()
		_, err := send(t, websocket.MessageText, []byte("hello"))
		require.ErrorIs(t, err, wire.ErrProtocol)
	})

	t.Run("a lost connection is no protocol error", func(t *testing.T) {
		t.Parallel()
		machine, gateway := pair(t)
		_ = machine.CloseNow()
		_, err := wire.ReadUp(t.Context(), gateway)
		require.Error(t, err)
		require.False(t, errors.Is(err, wire.ErrProtocol))
	})
	t.Run("a read ends with its context", func(t *testing.T) {
		t.Parallel()
		_, gateway := pair(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := wire.ReadUp(ctx, gateway)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// An answer to a beat is what the encoder makes, and a beat is read without a message; every other spelling of one is read by the decoder.
func TestBeats(t *testing.T) {
	t.Parallel()
	for _, seq := range []uint64{0, 1, 127, 128, 1<<32 - 1, math.MaxUint64} {
		want, err := proto.Marshal(&wire.Down{Body: &wire.Down_BeatAck{BeatAck: &wire.BeatAck{Seq: seq}}})
		require.NoError(t, err)
		require.Equal(t, want, wire.AppendAck(nil, seq))
		beat, err := proto.Marshal(&wire.Up{Body: &wire.Up_Beat{Beat: &wire.Beat{Seq: seq}}})
		require.NoError(t, err)
		up, got, err := wire.DecodeUp(beat)
		require.NoError(t, err)
		if seq == 0 {
			require.NotNil(t, up.GetBeat()) // a number that is 0 is not written
			continue
		}
		require.Nil(t, up)
		require.Equal(t, seq, got)
		newer := append(beat, 0xfa, 0x07, 0x01, 0x61) // a field of a newer bcd beside it
		up, _, err = wire.DecodeUp(newer)
		require.NoError(t, err)
		require.Equal(t, seq, up.GetBeat().GetSeq())
	}
}

func FuzzUp(f *testing.F) {
	hello, err := proto.Marshal(&wire.Up{Body: &wire.Up_Hello{Hello: &wire.Hello{Hostname: "h"}}})
	require.NoError(f, err)
	f.Add(hello)
	f.Add([]byte{0x12, 2, 8, 5})
	f.Add([]byte{0x12, 4, 8, 5, 8, 6})
	f.Fuzz(func(t *testing.T, b []byte) {
		// Whatever a machine sends either is refused or survives being written and read again; the short way to read a beat agrees with the decoder.
		up := new(wire.Up)
		decoded := proto.Unmarshal(b, up)
		got, seq, err := wire.DecodeUp(b)
		if decoded != nil {
			require.ErrorIs(t, err, wire.ErrProtocol)
			return
		}
		require.NoError(t, err)
		if got == nil {
			require.True(t, proto.Equal(&wire.Up{Body: &wire.Up_Beat{Beat: &wire.Beat{Seq: seq}}}, up))
		} else {
			require.True(t, proto.Equal(got, up))
		}
		again, err := proto.Marshal(up)
		require.NoError(t, err)
		second := new(wire.Up)
		require.NoError(t, proto.Unmarshal(again, second))
		require.True(t, proto.Equal(up, second))
	})
}
