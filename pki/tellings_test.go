package pki

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However many are refused while the database is slow, a bounded number waits, each but once, and all of those are told.
func TestTellingsAreBounded(t *testing.T) {
	t.Parallel()
	var s Store
	began, goOn := make(chan struct{}), make(chan struct{})
	told := map[string]int{}
	tell := func(_ context.Context, x telling) {
		if len(told) == 0 {
			close(began)
			<-goOn
		}
		told[x.name()]++
	}
	s.tellings.add(t.Context(), telling{tokenID: "first"}, tell)
	<-began
	for range 3 {
		s.tellings.add(t.Context(), telling{tokenID: "first"}, tell)
		for i := range 3 * maxTellings {
			s.tellings.add(t.Context(), telling{tokenID: fmt.Sprint(i)}, tell)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	s.Told(short) // gives up: the first is still being told
	require.Error(t, short.Err())
	close(goOn)
	s.Told(t.Context())
	require.Len(t, told, maxTellings+1)
	for name, n := range told {
		require.Equal(t, 1, n, name)
	}
	require.Empty(t, s.tellings.known)
	s.Told(t.Context()) // nothing waits
	s.tellings.add(t.Context(), telling{tokenID: "first"}, tell)
	s.Told(t.Context())
	require.Equal(t, 2, told["first "], "what was told can be told again")
}
