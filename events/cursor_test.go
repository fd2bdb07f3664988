package events_test

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
)

func TestCursor(t *testing.T) {
	t.Parallel()
	// A cursor's text gives the same cursor back, at the edges too; anything else is INVALID_INPUT naming the argument.
	for _, c := range []events.Cursor{
		{}, {Epoch: 1, Position: 1}, {Epoch: -1, Position: math.MaxInt64}, {Epoch: math.MinInt64}, {Epoch: math.MaxInt64, Position: 1 << 40},
	} {
		back, err := events.ParseCursor("after", c.String())
		require.NoError(t, err)
		require.Equal(t, c, back)
		var fromGraph events.Cursor
		require.NoError(t, fromGraph.UnmarshalGQL(c.String()))
		require.Equal(t, c, fromGraph)
		var text strings.Builder
		c.MarshalGQL(&text)
		require.Equal(t, `"`+c.String()+`"`, text.String())
	}
	good := events.Cursor{Epoch: 7, Position: 9}.String()
	negative := append([]byte("L"), make([]byte, 16)...)
	negative[9] = 0x80
	for _, bad := range []string{
		"", " ", good[1:], good + "A", good[:len(good)-1], good + "=", " " + good, good + "\n", "M" + good[1:], strings.Repeat("A", 100_000),
		base64.RawURLEncoding.EncodeToString(negative), base64.RawURLEncoding.EncodeToString(append([]byte("N"), make([]byte, 16)...)),
	} {
		_, err := events.ParseCursor("after", bad)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err), "%.40q", bad)
		require.Equal(t, "after", fault.From(err).Details["argument"])
	}
	var c events.Cursor
	require.Equal(t, fault.InvalidInput, fault.CodeOf(c.UnmarshalGQL(5)))
}

func FuzzParseCursor(f *testing.F) {
	f.Add(events.Cursor{Epoch: 7, Position: 9}.String())
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		// No input makes it panic, and what it accepts is written the same way again.
		if c, err := events.ParseCursor("after", s); err == nil && c.String() != s {
			t.Fatalf("%q is read as %q", s, c.String())
		}
	})
}
