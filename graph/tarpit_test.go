package graph

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTarpit(t *testing.T) {
	t.Parallel()
	// Who is refused again and again waits for each further refusal; another caller, and one who leaves, doesn't.
	p := newTarpit(0)
	began := time.Now()
	for range refusedAtOnce {
		p.hold(t.Context(), "a@1")
	}
	require.Less(t, time.Since(began), refusedWait)
	held := 0
	for range 3 {
		began = time.Now()
		if p.hold(t.Context(), "a@1"); time.Since(began) >= refusedWait {
			held++
		}
		for p.takes("a@1") { // what the pause gave back
		}
	}
	require.Equal(t, 3, held)
	began = time.Now()
	p.hold(t.Context(), "b@1")
	left, leave := context.WithCancel(t.Context())
	leave()
	p.hold(left, "a@1")
	require.Less(t, time.Since(began), refusedWait)
	for i := range 2 * maxCallers {
		p.takes(string(rune(i)))
	}
	require.LessOrEqual(t, len(p.of), maxCallers)
}
