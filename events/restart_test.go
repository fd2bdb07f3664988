package events_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/embedded"
	"github.com/better-compute/better-compute/events"
)

func TestRestartedDatabase(t *testing.T) {
	t.Parallel()
	// PostgreSQL itself is stopped and started again under live followers, one waiting and one in the middle of its catching up: no stream ends, each
	// event comes once, and the cursor from before is good after.
	// Not t.TempDir: PostgreSQL's user has to get there too.
	dir, err := os.MkdirTemp("", "bc-restart-") //nolint:usetesting // see above
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	start := func() *embedded.Server {
		s, err := embedded.Start(t.Context(), embedded.Config{DataDir: dir, Settings: map[string]string{"fsync": "off", "max_connections": "50"}})
		require.NoError(t, err)
		return s
	}
	s := start()
	t.Cleanup(func() { require.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) })
	require.NoError(t, db.Migrate(t.Context(), s.URL(), slog.New(slog.DiscardHandler)))
	d := openDB(t, s.URL())
	l := running(t, d, events.Options{Ring: 32, Page: 40})
	begin := head(t, d)
	waiting := follow(t, l, events.Filter{Tenant: "acme", NodeID: "node_b"}, nil)
	burst := make([]events.Entry, 200)
	for i := range burst {
		burst[i] = entry("acme", "node_a", "node.tainted")
	}
	write(t, d, burst...)
	behind := follow(t, l, events.Filter{Tenant: "acme"}, &begin)
	for i := range int64(15) {
		require.Equal(t, begin.Position+1+i, next(t, behind).Position)
	}
	require.Eventually(t, behind.Lagging, 10*time.Second, time.Millisecond)

	require.NoError(t, s.Stop(t.Context()))
	_, err = writeErr(t.Context(), d, entry("acme", "node_b", "node.drained"))
	require.Error(t, err)
	s = start()
	d.Pool().Reset() // of the sessions that the server took with it: whoever is given one is told UNAVAILABLE
	c := write(t, d, entry("acme", "node_b", "node.drained"))
	require.Equal(t, begin.Position+201, c.Position)

	require.Equal(t, c.Position, next(t, waiting).Position)
	for i := range int64(186) {
		require.Equal(t, begin.Position+16+i, next(t, behind).Position)
	}
	nothing(t, behind, c.Position)
	again := follow(t, l, events.Filter{Tenant: "acme"}, &begin)
	require.Equal(t, begin.Position+1, next(t, again).Position)
}
