package roles_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/cli"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/e2e/proc"
	"github.com/better-compute/better-compute/id"
)

// desk is where an operator types: one server with all roles, and the settings of the command line.
type desk struct {
	*installation

	server *proc.Process
	url    string
	env    []string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	i := &installation{T: t, db: dbtest.New(t), dir: t.TempDir()}
	listen := proc.Free(t)
	d := &desk{installation: i, url: "http://" + listen}
	d.server = proc.New(t, "all", "serve", "--database-url", dbtest.URL(i.db), "--data-dir", filepath.Join(i.dir, "all"), "--listen", listen,
		"--gateway-listen", proc.Free(t))
	d.server.Start()
	proc.Ready(t, d.url)
	d.env = []string{
		"BETTER_COMPUTE_SERVER=" + d.url, "BETTER_COMPUTE_TOKEN_FILE=" + filepath.Join(i.dir, "all", "admin.token"), "BETTER_COMPUTE_TENANT=default",
	}
	return d
}

// at is the same desk for a part of the test.
func (d *desk) at(t *testing.T) *desk {
	t.Helper()
	i := *d.installation
	i.T = t
	return &desk{installation: &i, server: d.server, url: d.url, env: d.env}
}

// begins types a line, and stays.
func (d *desk) begins(stdin string, args ...string) *proc.Line {
	d.Helper()
	return proc.Type(d.T, d.env, stdin, args...)
}

// types a line, which has to end so.
func (d *desk) types(exit cli.Exit, args ...string) *proc.Line {
	d.Helper()
	return d.begins("", args...).Ends(int(exit))
}

// rack makes a pool with nodes that take work.
func (d *desk) rack(pool string, nodes int) (ids []string) {
	d.Helper()
	d.types(cli.ExitOK, "pools", "create", pool)
	for range nodes {
		ids = append(ids, id.New(id.Node))
	}
	slices.Sort(ids)
	_, err := d.db.Pool().Exec(d.Context(), `
		with made as (
			insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
			select x, x, 'default', (select id from pools where tenant_id = 'default' and name = $2), 'gpu-' || right(x, 6), 'ADOPTED', 'TRUSTED', 'test'
			from unnest($1::text[]) as x returning id)
		insert into node_projection (tenant_id, node_id, relation) select 'default', id, 'OWNER' from made`, ids, pool)
	require.NoError(d, err)
	return ids
}

// cordoned gives who holds the cordon of each node; "" where there is none.
func (d *desk) cordoned(ids ...string) (by []string) {
	d.Helper()
	for _, nodeID := range ids {
		by = append(by, one[string](d.installation, `select coalesce(cordon_by, '') from nodes where id = $1`, nodeID))
	}
	return by
}

// operations counts those that were begun on a node.
func (d *desk) operations(nodeID string) int {
	d.Helper()
	return one[int](d.installation, `select count(distinct operation_id)::int from node_operation_parts where $1 = any(node_ids)`, nodeID)
}

// said are the lines that a command prints in a pipe for nodes with the same result.
func said(result string, ids ...string) (lines []string) {
	for _, nodeID := range ids {
		lines = append(lines, nodeID+"\tgpu-"+nodeID[len(nodeID)-6:]+"\t"+result)
	}
	return lines
}

// What an operator types about many nodes does to each of them what its result says, on a real server, and the exit is the table's.
func TestBulkLines(t *testing.T) {
	t.Parallel()
	whole := newDesk(t)

	t.Run("Several ids are one operation, with a line and an event for each node", func(t *testing.T) {
		t.Parallel()
		d := whole.at(t)
		ids := d.rack("several", 3)
		c := d.types(cli.ExitOK, append([]string{"nodes", "cordon", "--reason", "BIOS"}, ids...)...)
		require.Equal(t, said("Done", ids...), c.Lines())
		require.Contains(t, c.Stderr(), "3 of 3 done, 0 unchanged, 0 refused, 0 left")
		require.Equal(t, []string{"admin", "admin", "admin"}, d.cordoned(ids...))
		c = d.types(cli.ExitOK, append([]string{"nodes", "cordon", "-o", "name"}, ids...)...)
		require.Equal(t, ids, c.Lines(), "what is done already is not refused")
		require.Contains(t, c.Stderr(), "0 of 3 done, 3 unchanged")
		require.Equal(t, 2, d.operations(ids[0]))
		require.Equal(t, 3, one[int](d.installation, `select count(*)::int from events where type = 'node.cordoned' and node_id = any($1)`, ids))
		d.types(cli.ExitUsage, "nodes", "uncordon", ids[0], ids[0])
		require.Equal(t, 2, d.operations(ids[0]))
	})

	t.Run("What one line prints is what the next reads from standard input, each once", func(t *testing.T) {
		t.Parallel()
		d := whole.at(t)
		ids := d.rack("piped", 3)
		d.types(cli.ExitOK, "nodes", "cordon", ids[0], ids[2])
		listed := d.types(cli.ExitOK, "nodes", "list", "--cordoned", "--pool", "piped", "-o", "name")
		c := d.begins(listed.Stdout()+"\n"+ids[0]+"\n", "nodes", "uncordon", "-").Ends(0)
		require.Equal(t, said("Done", ids[0], ids[2]), c.Lines())
		require.Equal(t, []string{"", "", ""}, d.cordoned(ids...))
		c = d.begins("", "nodes", "cordon", "-").Ends(0)
		require.Contains(t, c.Stderr(), "nothing to do")
		c = d.begins(ids[1]+"\ngpu-01\n", "nodes", "cordon", "-").Ends(int(cli.ExitUsage))
		require.Contains(t, c.Stderr(), `"gpu-01" is no node id`)
		require.Zero(t, d.operations(ids[1]))
	})

	t.Run("A filter that lets another number through than is expected changes nothing", func(t *testing.T) {
		t.Parallel()
		d := whole.at(t)
		ids := d.rack("filtered", 4)
		d.types(cli.ExitOK, "nodes", "label", ids[0], ids[1], ids[2], "--set", "shelf=f1")
		begun := d.operations(ids[0])
		c := d.types(cli.ExitConflict, "nodes", "cordon", "--filter", "pool=filtered,label=shelf=f1", "--expect-count", "4")
		require.Contains(t, c.Stderr(), "3 nodes match and not 4")
		require.Contains(t, c.Stderr(), "--expect-count 3")
		require.Empty(t, c.Stdout())
		require.Equal(t, begun, d.operations(ids[0]))
		require.Equal(t, []string{"", "", "", ""}, d.cordoned(ids...))
		c = d.types(cli.ExitOK, "nodes", "cordon", "--filter", "pool=filtered,label=shelf=f1", "--expect-count", "3")
		require.Equal(t, said("Done", ids[:3]...), c.Lines())
		require.Equal(t, []string{"admin", "admin", "admin", ""}, d.cordoned(ids...))
		d.types(cli.ExitOK, "nodes", "uncordon", "--filter", "pool=filtered,cordoned=false,text="+ids[0], "--expect-count", "0")
	})

	t.Run("One that is refused is told with its code, the others are done, and the exit is 11", func(t *testing.T) {
		t.Parallel()
		d := whole.at(t)
		ids := d.rack("refused", 2)
		ghost := id.New(id.Node)
		c := d.types(cli.ExitPartlyFailed, "nodes", "taint", ids[0], ghost, ids[1], "--add", "rma-pending", "-o", "ndjson")
		codes := map[string]string{}
		for _, line := range c.Lines() {
			var r struct{ NodeID, Outcome, Code string }
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			codes[r.NodeID] = r.Outcome + r.Code
		}
		require.Equal(t, map[string]string{ids[0]: "DONE", ids[1]: "DONE", ghost: "REFUSEDNOT_FOUND"}, codes)
		require.Contains(t, c.Stderr(), `"exitCode":11`)
		require.Contains(t, c.Stderr(), `"refused":1`)
		require.Equal(t, 2, one[int](d.installation, `select count(*)::int from nodes where id = any($1) and version = 2`, ids))
	})

	t.Run("Of several cordons only one's own are lifted, unless the line says otherwise", func(t *testing.T) {
		t.Parallel()
		d := whole.at(t)
		ids := d.rack("owned", 3)
		_, err := d.db.Pool().Exec(t.Context(), `update nodes set cordoned = true, cordon_by = 'sam', cordon_at = now() where id = any($1)`, ids[1:])
		require.NoError(t, err)
		d.types(cli.ExitOK, "nodes", "cordon", ids[0])
		c := d.types(cli.ExitPartlyFailed, "nodes", "uncordon", ids[0], ids[1], ids[2])
		require.Equal(t, said("Done", ids[0]), c.Lines()[:1])
		require.Contains(t, c.Lines()[1], "Refused\tCONFLICT: the cordon is held by sam and not by admin")
		require.Equal(t, []string{"", "sam", "sam"}, d.cordoned(ids...))
		d.types(cli.ExitOK, "nodes", "uncordon", ids[0], ids[1], "--if-cordoned-by", "sam")
		d.types(cli.ExitOK, "nodes", "uncordon", ids[1], ids[2], "--anyone")
		require.Equal(t, []string{"", "", ""}, d.cordoned(ids...))
	})

	t.Run("Two lines at the same time never have more drains run in a pool than each of them allows", func(t *testing.T) {
		t.Parallel()
		d := whole.at(t)
		ids := d.rack("limited", 4)
		for _, nodeID := range ids {
			d.types(cli.ExitOK, "reservations", "create", "--node", nodeID)
		}
		first := d.begins("", "nodes", "drain", ids[0], ids[1], "--max-per-pool", "1")
		second := d.begins("", "nodes", "drain", ids[2], ids[3], "--max-per-pool", "1")
		first.Says("1 drain runs in pool")
		second.Says("1 drain runs in pool")
		for n := range ids {
			d.until(time.Minute, "another drain begins", `
				select count(*) = $2 + 1 and count(*) filter (where state = 'DRAINING') = 1 from node_drains where node_id = any($1)`, ids, n)
			d.types(cli.ExitOK, "reservations", "release", one[string](d.installation, `
				select a.reservation_id from allocations a join node_drains d using (node_id) where node_id = any($1) and d.state = 'DRAINING'`, ids))
		}
		require.Equal(t, said("Done", ids[:2]...), first.Ends(0).Lines())
		require.Equal(t, said("Done", ids[2:]...), second.Ends(0).Lines())
		d.until(time.Minute, "the last drain ends", `select count(*) = 4 from events where type = 'node.drained' and node_id = any($1)`, ids)
		require.Equal(t, 1, one[int](d.installation, `
			select max(running)::int from (select sum(case type when 'node.draining' then 1 else -1 end) over (order by position) as running
				from events where type in ('node.draining', 'node.drained') and node_id = any($1)) as log`, ids))
	})

	t.Run("A line whose operation somebody stops ends with 7, and what was done can be seen again", func(t *testing.T) {
		t.Parallel()
		d := whole.at(t)
		ids := d.rack("stopped", 2)
		for _, nodeID := range ids {
			d.types(cli.ExitOK, "reservations", "create", "--node", nodeID) // a drain of an empty node is over at once and waits for no other
		}
		c := d.begins("", "nodes", "drain", ids[0], ids[1], "--max-per-pool", "1")
		c.Says("1 drain runs in pool")
		operation, _, _ := strings.Cut(c.Stderr(), ":")
		require.Equal(t, operation+"\n", d.types(cli.ExitOK, "operations", "list", "--active", "--jq", `.operations[] | select(.id == "`+operation+`") | .id`).Stdout())
		d.types(cli.ExitOK, "operations", "stop", operation)
		require.Contains(t, c.Ends(int(cli.ExitInvalidState)).Stderr(), "stopped by admin")
		require.Equal(t, said("Done", ids[0]), d.types(cli.ExitInvalidState, "operations", "watch", operation).Lines())
	})
}

// A server that dies in the middle of what a line began goes on with it when it is back on the same directory; the line ends by itself with each result once.
func TestBulkLineOutlivesTheServer(t *testing.T) {
	t.Parallel()
	const batch, fleet = 250, 600
	d := newDesk(t)
	ids := d.rack("killed", fleet)

	// Somebody holds a node of the second batch, so that the server dies while it waits for it.
	holder, err := d.db.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), `select from nodes where id = $1 for update`, ids[batch+10])
	require.NoError(t, err)
	ghost := id.New(id.Node)
	c := d.begins(strings.Join(append([]string{ghost}, ids...), "\n"), "nodes", "cordon", "-", "--reason", "killed")
	c.Prints(batch)
	d.until(time.Minute, "somebody waits for the node that is held", `select exists (
		select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%for no key update%')`)
	d.server.Kill()
	c.Says("# connection lost, coming back; the operation goes on")
	printed := len(c.Lines())
	require.Less(t, printed, fleet)
	d.types(cli.ExitUnreachable, "nodes", "uncordon", ids[0], ids[1])
	require.NoError(t, holder.Rollback(t.Context()))

	d.server.Start()
	c.Ends(int(cli.ExitPartlyFailed))
	require.Contains(t, c.Stderr(), "# reconnected, no results missed")
	require.Contains(t, c.Stderr(), "600 of 601 done, 0 unchanged, 1 refused, 0 left")
	refused := "\t-\tRefused\tNOT_FOUND: no node " + ghost + ", or it is not visible to this tenant"
	require.ElementsMatch(t, append(said("Done", ids...), ghost+refused), c.Lines())
	require.Equal(t, fleet, one[int](d.installation, `select count(*)::int from nodes where cordon_by = 'admin' and cordon_reason = 'killed' and version = 2`))
	require.Equal(t, fleet, one[int](d.installation, `select count(*)::int from events where type = 'node.cordoned'`), "each node has one event")
}
