package wire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// FuzzFrame: whatever comes over the wire, either way, is refused as a breach of the protocol or is a frame; no more than a frame's length is read
// of it, and only an inventory may be long.
func FuzzFrame(f *testing.F) {
	for _, m := range []proto.Message{
		&Up{Body: &Up_Hello{Hello: &Hello{Hostname: "h", BootId: "b"}}}, &Up{Body: &Up_Inventory{Inventory: &Inventory{Notes: []string{"n"}}}},
		&Down{Body: &Down_Close{Close: &Close{Reason: Close_REVOKED, Message: "m", RetryAfterMs: 5}}}, &Down{Body: &Down_Welcome{Welcome: &Welcome{}}},
	} {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(b, uint16(0))
	}
	f.Add([]byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f}, uint16(1))
	f.Add([]byte{0x0a}, uint16(MaxFrame-1))
	f.Fuzz(func(t *testing.T, b []byte, pad uint16) {
		b = append(bytes.Clone(b), make([]byte, pad)...) // to reach the limits without long inputs
		for _, into := range []proto.Message{new(Up), new(Down)} {
			r := bytes.NewReader(b)
			err := decode(r, into, 2*MaxFrame)
			require.LessOrEqual(t, len(b)-r.Len(), 2*MaxFrame+1, "it reads no more than the limit")
			if err != nil {
				require.ErrorIs(t, err, ErrProtocol)
				continue
			}
			require.LessOrEqual(t, len(b), 2*MaxFrame)
			again, err := proto.Marshal(into)
			require.NoError(t, err)
			second := into.ProtoReflect().New().Interface()
			require.NoError(t, decode(bytes.NewReader(again), second, int64(len(again))+MaxFrame))
			require.True(t, proto.Equal(into, second))
		}
	})
}
