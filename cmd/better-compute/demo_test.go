package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
)

func TestDemo(t *testing.T) {
	t.Parallel()

	t.Run("simulated machines join, live and are marked; the same directory brings the same ones back", func(t *testing.T) {
		t.Parallel()
		const machines = 32
		dir := filepath.Join(t.TempDir(), "data")
		var url string
		demo := func(s *settings) {
			s.demo, s.demoSeed, s.dataDir = machines, 7, dir
			if url != "" {
				s.databaseURL = url
			}
		}
		b := start(t, demo)
		url = dbtest.URL(b.db)
		until := func(what, sql string, args ...any) {
			t.Helper()
			require.Eventually(t, func() bool {
				var ok bool
				return b.db.Pool().QueryRow(t.Context(), sql, args...).Scan(&ok) == nil && ok
			}, time.Minute, 20*time.Millisecond, what)
		}
		live := `select count(*) = $1 from nodes where connectivity = 'CONNECTED' and provision_state = 'ADOPTED'`
		until("all live", live, machines)
		until("tenants book", `select count(*) > 5 from allocations where released_at is null`)
		var marked, tenants, gpus int
		require.NoError(t, b.db.Pool().QueryRow(t.Context(), `
			select count(*) filter (where n.hostname like 'sim-%' and p.name like 'sim-%' and l.value = 'true' and s.agent_version = 'sim'
			  and i.facts->'system'->>'vendor' = 'Simulated'), count(distinct owner_tenant_id), (select count(*) from devices)
			from nodes n join pools p on p.id = n.pool_id join node_labels l on l.node_id = n.id and l.key = 'simulated'
			join node_sessions s on s.node_id = n.id join node_inventory i on i.node_id = n.id`).Scan(&marked, &tenants, &gpus))
		require.Equal(t, machines, marked, "nobody mistakes one for a real machine")
		require.Equal(t, 3, tenants)
		// One can fail before its machine's first report; a second would take longer than the slowest start.
		require.Contains(t, []int{8 * machines, 8*machines - 1}, gpus)
		b.stop()
		require.NoError(t, b.end())

		first := b
		b = start(t, demo)
		b.db = first.db
		until("all live again", live, machines)
		var nodes int
		require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select count(*) from nodes`).Scan(&nodes))
		require.Equal(t, machines, nodes)
		require.NotContains(t, first.log.String()+b.log.String(), `"level":"ERROR"`)
	})

	t.Run("a control plane that is no demo, another seed and a database with nodes are refused, and nothing is written", func(t *testing.T) {
		t.Parallel()
		s := &settings{
			dataDir: filepath.Join(t.TempDir(), "data"), listen: "127.0.0.1:0", gatewayListen: "127.0.0.1:0", databaseURL: dbtest.URL(dbtest.New(t)),
			roles: []string{roleAPI, roleGateway}, migrate: "auto", revocationPoll: time.Second, revocationGiveUp: time.Minute, logLevel: "info", demo: 2,
		}
		refused := func(code fault.Code, change func(*settings)) {
			t.Helper()
			c := *s
			change(&c)
			err := c.check()
			if err == nil {
				err = serve(t.Context(), &c, slog.New(slog.DiscardHandler), io.Discard)
			}
			require.Equal(t, code, fault.CodeOf(err), "%v", err)
		}
		refused(fault.InvalidInput, func(c *settings) { c.demo = -1 })
		refused(fault.InvalidInput, func(c *settings) { c.roles = []string{roleAPI} })
		d := dbtest.New(t)
		_, err := d.Pool().Exec(t.Context(), `insert into tenants (id) values ('acme');
			insert into pools (id, tenant_id, name) values ('pool_00000000000000000000000001', 'acme', 'p');
			insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, changed_by)
			values ('node_00000000000000000000000001', 'k', 'acme', 'pool_00000000000000000000000001', 'n', 'ADOPTED', 'test')`)
		require.NoError(t, err)
		refused(fault.InvalidState, func(c *settings) { c.databaseURL = dbtest.URL(d) })
		require.NoDirExists(t, s.demoDir())
		require.NoFileExists(t, filepath.Join(s.dataDir, adminTokenFile))
		// A demo that is marked, and then another seed.
		require.NoError(t, s.claimDemo(t.Context(), dbtest.New(t), slog.New(slog.DiscardHandler)))
		refused(fault.InvalidState, func(c *settings) { c.demoSeed = 9 })
		require.NoError(t, os.RemoveAll(s.demoDir()))
		require.NoError(t, os.WriteFile(filepath.Join(s.dataDir, adminTokenFile), []byte("x"), 0o600))
		refused(fault.InvalidState, func(*settings) {})
	})
}
