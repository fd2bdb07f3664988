package roles_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/e2e/proc"
	"github.com/better-compute/better-compute/id"
)

// A server that is killed in the middle of an operation goes on with it when it is back: each node has one result and one event.
func TestKilledInAnOperation(t *testing.T) {
	t.Parallel()
	const fleet = 2000
	i := &installation{T: t, db: dbtest.New(t), dir: t.TempDir()}
	listen := proc.Free(t)
	server := proc.New(t, "all", "serve", "--database-url", dbtest.URL(i.db), "--data-dir", filepath.Join(i.dir, "all"), "--listen", listen,
		"--gateway-listen", proc.Free(t))
	server.Start()
	url := "http://" + listen
	proc.Ready(t, url)
	client := proc.NewClient(proc.Token(t, filepath.Join(i.dir, "all", "admin.token")), url)

	ids := make([]string, fleet)
	for n := range ids {
		ids[n] = id.New(id.Node)
	}
	_, err := i.db.Pool().Exec(t.Context(), `
		with made as (
			insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
			select x, x, 'default', (select id from pools where tenant_id = 'default' limit 1), 'gpu-' || x, 'ADOPTED', 'TRUSTED', 'test'
			from unnest($1::text[]) as x returning id)
		insert into node_projection (tenant_id, node_id, relation) select 'default', id, 'OWNER' from made`, ids)
	require.NoError(t, err)

	// Somebody holds a node in the middle, so that the server dies while it waits for it.
	holder, err := i.db.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), `select from nodes where id = (select id from nodes order by id offset $1 limit 1) for update`, fleet/2)
	require.NoError(t, err)
	var begun struct {
		NodesCordon struct{ Operation struct{ ID string } }
	}
	require.NoError(t, client.Do(t.Context(), `mutation($i: NodesControlInput!) { nodesCordon(input: $i) { operation { id } } }`,
		map[string]any{"i": map[string]any{"tenantId": "default", "nodeIds": ids, "requestId": "bulk", "reason": "killed"}}, &begun))
	operation := begun.NodesCordon.Operation.ID
	i.until(time.Minute, "some nodes are done, and somebody waits for the one that is held", `select done > 0 and state = 'RUNNING' and exists (
		select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%for no key update%')
		from node_operations where id = $1`, operation)
	server.Kill()
	done := one[int](i, `select done::int from node_operations where id = $1`, operation)
	require.Less(t, done, fleet)
	require.Equal(t, done, one[int](i, `select count(*)::int from events where type = 'node.cordoned'`), "what is not counted did not happen")
	require.NoError(t, holder.Rollback(t.Context()))

	server.Start()
	i.until(time.Minute, "the operation is done", `select state = 'DONE' and done = $2 from node_operations where id = $1`, operation, fleet)
	require.Equal(t, fleet, one[int](i, `select count(*)::int from nodes where cordoned and cordon_reason = 'killed' and version = 2`))
	require.Equal(t, fleet, one[int](i, `select count(distinct node_id)::int from events where type = 'node.cordoned' and request_id = $1`, operation))
	require.Equal(t, fleet, one[int](i, `select count(*)::int from events where type = 'node.cordoned'`), "each node has one event")
	require.Equal(t, fleet, one[int](i, `select sum(count)::int from node_operation_batches where operation_id = $1`, operation), "and one result")
	require.Zero(t, one[int](i, `select count(*)::int from node_operation_parts where operation_id = $1 and next <> size`, operation))
}
