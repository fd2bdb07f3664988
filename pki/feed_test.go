package pki_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/pki"
)

// The feed's look, which runs every second, reads the certificates that ended of late and not all that ever did.
func TestFeedLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, `
		with made as (
		  insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
		  select id, id, $1, $2, id, 'ADOPTED', 'TRUSTED', 'test' from (select 'node_' || lpad(i::text, 26, '0') as id from generate_series(1, 10) i) x returning id)
		insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, issued_at, not_before, not_after, ended_at, ended_by)
		select id || '-' || i, id, 'SUPERSEDED', 1, 'key', '', now() - interval '9 days', now() - interval '9 days', now() + interval '1 day',
		       now() - interval '8 days', 'test' from made, generate_series(1, 300) i`, tenant, b.pool)
	b.exec(t, `update node_certs set state = 'REVOKED', ended_at = now() where serial like '%-300'`)
	b.exec(t, `analyze`)
	one, err := db.Open(t.Context(), db.Config{URL: dbtest.URL(b.db), MaxConns: 1})
	require.NoError(t, err)
	defer one.Close()
	feed := pki.NewRevocationFeed(one, pki.FeedOptions{Poll: time.Hour, Full: time.Hour})
	read := dbtest.Rows(t, one, "node_certs", func() {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { feed.Run(ctx, func() []pki.Held { return nil }, func(context.Context, []pki.Gone) {}) })
		require.Eventually(t, func() bool {
			_, denied := feed.Denied("node_00000000000000000000000001-300")
			return denied
		}, 20*time.Second, time.Millisecond)
		cancel()
		running.Wait()
	})
	require.Less(t, read, 100)
}
