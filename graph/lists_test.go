package graph_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/iam"
)

func TestLists(t *testing.T) {
	t.Parallel()

	t.Run("Pages give each node once, in every order, through nodes and edges", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		want := map[string]bool{}
		for range 23 {
			want[b.node()] = true
		}
		for _, order := range []string{"HOSTNAME_ASC", "CREATED_DESC", "LAST_SEEN_ASC", "OUT_SINCE_ASC"} {
			got := map[string]bool{}
			var after any
			for {
				page := b.query(`query($o: NodeOrder!, $a: Cursor) { nodes(tenantId: "acme", orderBy: $o, first: 5, after: $a) {
					totalCount asOf nodes { id } edges { cursor node { id } } pageInfo { hasNextPage endCursor } } }`, object{"o": order, "a": after}).at(t, "nodes").(object)
				require.Equal(t, 23.0, page["totalCount"])
				for i, e := range page["edges"].([]any) {
					nodeID := e.(object)["node"].(object)["id"].(string)
					require.Equal(t, nodeID, page["nodes"].([]any)[i].(object)["id"])
					require.False(t, got[nodeID], "%s twice", nodeID)
					got[nodeID] = true
				}
				info := page["pageInfo"].(object)
				after = info["endCursor"]
				if info["hasNextPage"] == false {
					break
				}
			}
			require.Equal(t, want, got, order)
		}
	})

	t.Run("Filters", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		plain, cordoned := b.node(), b.cordoned()
		draining := b.node()
		b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { changed } }`, object{"n": draining}).at(t, "reservationCreate")
		b.control("nodeDrain", object{"tenantId": "acme", "nodeId": draining}).at(t, "nodeDrain")
		dedicated, tainted := b.node(), b.node()
		b.exec(`insert into node_labels values ($1, 'rack', 'Row-B7-North', 'OPERATOR')`, plain)
		b.exec(`insert into node_reasons (node_id, reason, owner, since) values ($1, 'taint:dedicated=other', 'operator', now())`, dedicated)
		b.exec(`insert into node_reasons (node_id, reason, owner, since)
			values ($1, 'taint:dedicated=other', 'operator', now()), ($1, 'taint:rma-pending', 'operator', now())`, tainted)
		b.exec(`update nodes set cordon_at = '2020-01-01' where id = $1`, cordoned)
		b.exec(`update node_liveness set last_seen = '2020-01-01' where node_id = any($1)`, []string{plain, draining})
		b.exec(`insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
			values ($1, 'ses', 1, 'gw', 'boot', '1.2.3', '{}', 0, now())`, draining)
		for name, c := range map[string]struct {
			filter object
			want   []string
		}{
			"none":            {object{}, []string{plain, cordoned, draining, dedicated, tainted}},
			"cordoned":        {object{"cordoned": true}, []string{cordoned, draining}},
			"not cordoned":    {object{"cordoned": false}, []string{plain, dedicated, tainted}},
			"draining":        {object{"draining": true}, []string{draining}},
			"reasons":         {object{"reasons": []string{"draining"}}, []string{draining}},
			"live":            {object{"liveAllocations": true}, []string{draining}},
			"ids":             {object{"nodeIds": []string{plain, draining}}, []string{plain, draining}},
			"no ids":          {object{"nodeIds": []string{}}, nil},
			"text of a label": {object{"text": "row-b7-n"}, []string{plain}},
			"text of an id":   {object{"text": cordoned}, []string{cordoned}},
			"label":           {object{"labels": []object{{"key": "rack", "values": []string{"Row-B7-North", "B8"}}}}, []string{plain}},
			"label exists":    {object{"labels": []object{{"key": "rack"}}}, []string{plain}},
			"connectivity":    {object{"connectivity": []string{"CONNECTED"}}, nil},
			"states":          {object{"provisionStates": []string{"ADOPTED"}}, []string{plain, cordoned, draining, dedicated, tainted}},
			"for all":         {object{"placeableFor": []string{"ALL"}}, []string{plain}},
			"for nobody":      {object{"placeableFor": []string{"NONE"}}, []string{cordoned, draining, tainted}},
			"for one":         {object{"placeableFor": []string{"ONE_TENANT"}}, []string{dedicated}},
			"dedicated to":    {object{"dedicatedTo": "other"}, []string{dedicated, tainted}},
			"to another":      {object{"dedicatedTo": "acme"}, nil},
			"taints":          {object{"taints": []string{"rma-pending", "nothing"}}, []string{tainted}},
			"a taint's key":   {object{"taints": []string{"dedicated=other"}}, []string{dedicated, tainted}},
			"no taints":       {object{"taints": []string{}}, nil},
			"cordoned before": {object{"cordonedBefore": "2020-01-02T00:00:00Z"}, []string{cordoned}},
			"seen before":     {object{"lastSeenBefore": "2020-01-02T00:00:00Z"}, []string{plain}},
			"agents":          {object{"agentVersions": []string{"1.2.3"}}, []string{draining}},
			"not":             {object{"not": object{"cordoned": true}}, []string{plain, dedicated, tainted}},
			"not, of a null":  {object{"not": object{"cordonedBefore": "2020-01-02T00:00:00Z"}}, []string{plain, draining, dedicated, tainted}},
			"not everything":  {object{"not": object{}}, nil},
			"or":              {object{"or": []object{{"taints": []string{"rma-pending"}}, {"placeableFor": []string{"ALL"}}}}, []string{plain, tainted}},
			"or, and":         {object{"cordoned": true, "or": []object{{"draining": true}, {"nodeIds": []string{plain}}}}, []string{draining}},
			"or of nothing":   {object{"or": []object{}}, nil},
			"not in or":       {object{"or": []object{{"not": object{"or": []object{{"cordoned": false}}}}}}, []string{cordoned, draining}},
			"pool":            {object{"poolId": b.pool, "cordoned": true}, []string{cordoned, draining}},
		} {
			nodes := b.query(`query($f: NodeFilter) { nodes(tenantId: "acme", filter: $f) { totalCount nodes { id } } }`, object{"f": c.filter}).at(t, "nodes").(object)
			var got []string
			for _, n := range nodes["nodes"].([]any) {
				got = append(got, n.(object)["id"].(string))
			}
			require.ElementsMatch(t, c.want, got, name)
			require.Equal(t, float64(len(c.want)), nodes["totalCount"], name)
		}
	})

	t.Run("H1 the bounds of a filter", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		deep := object{"cordoned": true}
		for range 3 {
			deep = object{"not": deep}
		}
		list := func(filter object) answer {
			return b.query(`query($f: NodeFilter) { nodes(tenantId: "acme", filter: $f) { totalCount } }`, object{"f": filter})
		}
		list(deep).at(t, "nodes")
		require.Equal(t, "INVALID_INPUT", list(object{"not": deep}).code(t), "4 deep")
		wide := slices.Repeat([]object{{"cordoned": true}}, 31)
		list(object{"or": wide}).at(t, "nodes")
		require.Equal(t, "INVALID_INPUT", list(object{"or": append(wide, object{})}).code(t), "33 filters")
		for name, filter := range map[string]object{
			"filter.or.nodeIds": {"or": []object{{"nodeIds": []string{"node_x"}}}}, "filter.not.taints": {"not": object{"taints": []string{"a\x00"}}},
			"filter.dedicatedTo": {"dedicatedTo": "Acme"}, "filter.agentVersions": {"agentVersions": slices.Repeat([]string{"1"}, 501)},
		} {
			a := list(filter)
			require.Equal(t, "INVALID_INPUT", a.code(t))
			require.Equal(t, name, a.Errors[0].Extensions.Details["argument"])
		}
	})

	t.Run("placeableFor of a filter is what the gate says, whoever looks", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		other := b.tokenFor("eve", "other", time.Hour)
		reasons := [][]string{{}, {"taint:dedicated=other"}, {"taint:dedicated=third"}, {"taint:dedicated=other", "unreachable"}, {"draining"}}
		for _, with := range reasons {
			for _, change := range []string{"", "maintenance = true", "credential = 'REVOKED'", "provision_state = 'ADOPTING'"} {
				n := b.node()
				if change != "" {
					b.exec(`update nodes set `+change+` where id = $1`, n)
				}
				b.exec(`insert into node_reasons (node_id, reason, owner, since) select $1, unnest($2::text[]), 'test', now()`, n, with)
				b.do(func(ctx context.Context, tx *db.Tx) error { return iam.ProjectTx(ctx, tx, "other", n, iam.Shared) })
			}
		}
		for token, tenant := range map[string]string{b.token: "acme", other: "other"} {
			found := 0
			for _, answer := range []string{"ALL", "ONE_TENANT", "NONE"} {
				list := b.as(token, `query($t: ID!, $p: [PlaceableFor!]) { nodes(tenantId: $t, filter: { placeableFor: $p }) { nodes { placeableFor } } }`,
					object{"t": tenant, "p": []string{answer}}).at(t, "nodes", "nodes").([]any)
				found += len(list)
				for _, n := range list {
					require.Equal(t, answer, n.(object)["placeableFor"], tenant)
				}
			}
			require.Equal(t, 20, found, "each node has one answer")
		}
	})

	t.Run("A full page with all its lists takes at most 12 statements, through edges too", func(t *testing.T) {
		t.Parallel()
		counter := &statements{}
		b := setup(t, dbtest.With(counter.trace))
		for range 40 {
			n := b.node()
			b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { changed } }`, object{"n": n}).at(t, "reservationCreate")
			b.control("nodeDrain", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeDrain")
		}
		const fields = `{ id pool { name } cordon { by } holds { reason } labels { key } drain { id blockers { endsAt } expectedAt endedAllocationCount } lastDrain { state } lastSeen
			session { gateway } placeable { because } placeableFor statusSentence outSince controls { enabled } liveAllocationCount inventory { os } devices { uuid held inUse allocations { endsAt devices } } storageRoots { path } scalarResources { name } certificates(first: 4) { nodes { serial } }
			allocations(first: 8) { nodes { endsAt devices } } }`
		for _, shape := range []string{"nodes " + fields, "edges { node " + fields + " }"} {
			b.later.Wait()
			counter.take()
			b.query(`{ nodes(tenantId: "acme", first: 500) { totalCount asOf `+shape+` } }`, nil).at(t, "nodes")
			sent := counter.take()
			require.LessOrEqual(t, len(sent), 12, "%s:\n%s", shape, strings.Join(sent, "\n--\n"))
			require.NotEmpty(t, sent)
		}
	})
}
