package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/jobs"
)

// manyControls are the mutations that change many nodes, each with what it needs besides the nodes.
var manyControls = map[string]object{
	"nodesCordon":   {},
	"nodesUncordon": {},
	"nodesDrain":    {},
	"nodesTaint":    {"add": []string{"rma-pending"}, "remove": []string{"burn-in"}},
	"nodesLabel":    {"set": []object{{"key": "rack", "value": "b7"}}, "remove": []string{"burn-in"}},
	"nodesAdopt":    {},
}

const operationFields = `id control state by reason maxPerPool count done unchanged refused left waiting endedAt endedBy`

// many runs a control of many nodes.
func (b *bundle) many(token, name string, in object) answer {
	b.Helper()
	return b.as(token, "mutation($i: NodesControlInput!) { "+name+"(input: $i) { changed cursor warnings operation { "+operationFields+" } } }", object{"i": in})
}

// began gives the id of the operation that a control of many nodes began.
func (b *bundle) began(name string, in object) string {
	b.Helper()
	return b.many(b.token, name, input(object{"tenantId": "acme"}, in)).at(b, name, "operation", "id").(string)
}

func (b *bundle) selection(in object) answer {
	b.Helper()
	return b.query(`mutation($i: NodeSelectionCreateInput!) { nodeSelectionCreate(input: $i) { cursor selection { id count createdAt expiresAt } } }`,
		object{"i": input(object{"tenantId": "acme"}, in)})
}

// nodes makes nodes that take work.
func (b *bundle) nodes(n int) []string {
	b.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = id.New(id.Node)
	}
	b.exec(`with made as (
			insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
			select x, x, 'acme', $2, 'gpu-' || right(x, 6), 'ADOPTED', 'TRUSTED', 'test' from unnest($1::text[]) as x returning id)
		insert into node_projection (tenant_id, node_id, relation) select 'acme', id, 'OWNER' from made`, ids, b.pool)
	slices.Sort(ids)
	return ids
}

// work runs the real job client until the test ends.
func (b *bundle) work() {
	b.Helper()
	runner, err := jobs.NewRunner(b.db, jobs.Parts{Controls: b.api.Controls, Bookings: b.api.Bookings}, slog.New(slog.DiscardHandler))
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		require.NoError(b, <-done)
	})
}

const followOperation = `subscription($o: ID!, $after: Cursor) { nodesOperation(tenantId: "acme", operationId: $o, after: $after) {
	` + operationFields + ` cursor newResults { nodeId outcome code message node { hostname cordoned } } } }`

// TestManyRefusedInput holds each form of each argument of the controls of many nodes that is refused: INVALID_INPUT names the argument, nothing is
// selected or begun, and nothing changes.
func TestManyRefusedInput(t *testing.T) { //nolint:tparallel // the group has to end before what follows it
	t.Parallel()
	b := setup(t)
	ids := b.nodes(2)
	before := b.state(ids[0])
	var rows [][4]any
	for name := range manyControls {
		rows = append(rows,
			[4]any{name, "reason", "257 characters", object{"reason": strings.Repeat("ü", 257)}},
			[4]any{name, "reason", "a control sign", object{"reason": "a\nb"}},
			[4]any{name, "tenantId", "malformed", object{"tenantId": "Acme!"}},
			[4]any{name, "requestId", "129 characters", object{"requestId": strings.Repeat("r", 129)}},
			[4]any{name, "nodeIds", "none", object{"nodeIds": []string{}}},
			[4]any{name, "nodeIds", "malformed", object{"nodeIds": []string{ids[0], "node_x"}}},
			[4]any{name, "nodeIds", "another kind's", object{"nodeIds": []string{id.New(id.Pool)}}},
			[4]any{name, "nodeIds", "upper case", object{"nodeIds": []string{strings.ToUpper(ids[0])}}},
			[4]any{name, "nodeIds", "one twice", object{"nodeIds": []string{ids[0], ids[1], ids[0]}}},
			[4]any{name, "nodeIds", "5,001", object{"nodeIds": slices.Repeat([]string{ids[0]}, 5001)}},
			[4]any{name, "selectionId", "neither", object{"nodeIds": nil}},
			[4]any{name, "selectionId", "both", object{"selectionId": id.New(id.Selection)}},
			[4]any{name, "selectionId", "malformed", object{"nodeIds": nil, "selectionId": "sel_x"}},
			[4]any{name, "selectionId", "another kind's", object{"nodeIds": nil, "selectionId": ids[0]}},
		)
		for argument, value := range map[string]any{
			"until": "2027-01-01T00:00:00Z", "ifCordonedBy": "sam", "anyone": true, "deadline": "2027-01-01T00:00:00Z", "maxPerPool": 2,
			"add": []string{"k"}, "set": []object{{"key": "k", "value": "v"}}, "remove": []string{"k"},
		} {
			if !slices.Contains(argumentsOfMany[name], argument) {
				rows = append(rows, [4]any{name, argument, "of another control", object{argument: value}})
			}
		}
	}
	keys := make([]string, 65)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	one := func(key, value string) []object { return []object{{"key": key, "value": value}} }
	rows = append(rows, [][4]any{
		{"nodesCordon", "until", "the past", object{"until": "2020-01-01T00:00:00Z"}},
		{"nodesCordon", "until", "beyond ten years", object{"until": "2191-01-01T00:00:00Z"}},
		{"nodesCordon", "set", "empty, of another control", object{"set": []object{}}},
		{"nodesUncordon", "ifCordonedBy", "nobody", object{"ifCordonedBy": ""}},
		{"nodesUncordon", "ifCordonedBy", "257 characters", object{"ifCordonedBy": strings.Repeat("ü", 257)}},
		{"nodesUncordon", "anyone", "beside an author", object{"ifCordonedBy": "sam", "anyone": true}},
		{"nodesDrain", "deadline", "the past", object{"deadline": "2020-01-01T00:00:00Z"}},
		{"nodesDrain", "maxPerPool", "0", object{"maxPerPool": 0}},
		{"nodesDrain", "maxPerPool", "negative", object{"maxPerPool": -1}},
		{"nodesDrain", "maxPerPool", "20,001", object{"maxPerPool": 20001}},
		{"nodesTaint", "add", "33 keys", object{"add": keys[:33]}},
		{"nodesTaint", "add", "129 characters", object{"add": []string{strings.Repeat("k", 129)}}},
		{"nodesTaint", "add", "a leading sign", object{"add": []string{".a"}}},
		{"nodesTaint", "remove", "a trailing sign", object{"remove": []string{"a:"}}},
		{"nodesTaint", "add", "a key twice", object{"add": []string{"a", "a"}}},
		{"nodesTaint", "remove", "a key in both", object{"add": []string{"a"}, "remove": []string{"a"}}},
		{"nodesTaint", "add", "neither list", object{"add": nil, "remove": nil}},
		{"nodesLabel", "remove", "65 keys", object{"remove": keys}},
		{"nodesLabel", "set", "a key of 129", object{"set": one(strings.Repeat("k", 129), "v")}},
		{"nodesLabel", "set", "a value of 257", object{"set": one("k", strings.Repeat("v", 257))}},
		{"nodesLabel", "set", "bc.dev/", object{"set": one("bc.dev/driver", "1")}},
		{"nodesLabel", "remove", "bc.dev/", object{"remove": []string{"bc.dev/driver"}}},
		{"nodesLabel", "set", "a key twice", object{"set": append(one("k", "1"), one("k", "2")...)}},
		{"nodesLabel", "remove", "a key in both", object{"set": one("k", "v"), "remove": []string{"k"}}},
		{"nodesLabel", "set", "neither list", object{"set": nil, "remove": nil}},
		{"nodesLabel", "set", "two empty lists", object{"set": []object{}, "remove": []string{}}},
	}...)
	t.Run("every one", func(t *testing.T) { // ends when all in it have
		for _, r := range rows {
			name, argument, says, change := r[0].(string), r[1].(string), r[2].(string), r[3].(object)
			t.Run(fmt.Sprintf("H1 %s(%s): %s", name, argument, says), func(t *testing.T) {
				t.Parallel()
				a := b.many(b.token, name, input(object{"tenantId": "acme", "nodeIds": ids}, manyControls[name], change))
				require.Equal(t, "INVALID_INPUT", a.code(t))
				require.Equal(t, argument, a.Errors[0].Extensions.Details["argument"])
				require.NotEmpty(t, a.Errors[0].Extensions.Details["rule"])
			})
		}
		for _, r := range [][3]any{
			{"filter", "neither", object{}},
			{"filter", "both", object{"filter": object{}, "nodeIds": ids}},
			{"filter.includeDeleted", "deleted ones", object{"filter": object{"includeDeleted": true}}},
			{"filter.poolId", "malformed", object{"filter": object{"poolId": "pool_x"}}},
			{"nodeIds", "none", object{"nodeIds": []string{}}},
			{"nodeIds", "malformed", object{"nodeIds": []string{"node_x"}}},
			{"nodeIds", "one twice", object{"nodeIds": []string{ids[0], ids[0]}}},
			{"expectCount", "negative", object{"filter": object{}, "expectCount": -1}},
			{"expectCount", "20,001", object{"filter": object{}, "expectCount": 20001}},
			{"tenantId", "malformed", object{"filter": object{}, "tenantId": "Acme!"}},
			{"requestId", "129 characters", object{"filter": object{}, "requestId": strings.Repeat("r", 129)}},
		} {
			t.Run(fmt.Sprintf("H1 nodeSelectionCreate(%s): %s", r[0], r[1]), func(t *testing.T) {
				t.Parallel()
				a := b.selection(r[2].(object))
				require.Equal(t, "INVALID_INPUT", a.code(t))
				require.Equal(t, r[0], a.Errors[0].Extensions.Details["argument"])
			})
		}
		for says, query := range map[string]string{
			"operationId": `{ nodesOperation(tenantId: "acme", operationId: "nop_x") { id } }`,
			"selectionId": `{ nodeSelection(tenantId: "acme", selectionId: "sel_x") { id } }`,
			"first":       `{ nodesOperations(tenantId: "acme", first: 501) { nodes { id } } }`,
			"after":       `{ nodesOperations(tenantId: "acme", after: "R.1") { nodes { id } } }`,
			"tenantId":    `{ nodesOperation(tenantId: "Acme!", operationId: "nop_x") { id } }`,
		} {
			t.Run("H1 a query's "+says, func(t *testing.T) {
				t.Parallel()
				a := b.query(query, nil)
				require.Equal(t, "INVALID_INPUT", a.code(t))
				require.Equal(t, says, a.Errors[0].Extensions.Details["argument"])
			})
		}
		t.Run("H1 nodesOperationStop", func(t *testing.T) {
			t.Parallel()
			a := b.act(b.token, "nodesOperationStop", object{"tenantId": "acme", "operationId": "nop_x"})
			require.Equal(t, "INVALID_INPUT", a.code(t))
			require.Equal(t, "operationId", a.Errors[0].Extensions.Details["argument"])
		})
	})
	require.Equal(t, before, b.state(ids[0]))
	require.Empty(t, b.query(`{ nodesOperations(tenantId: "acme") { nodes { id } } }`, nil).at(t, "nodesOperations", "nodes"))
	var selections int
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select count(*) from node_selections`).Scan(&selections))
	require.Zero(t, selections)
}

var argumentsOfMany = map[string][]string{
	"nodesCordon": {"until"}, "nodesUncordon": {"ifCordonedBy", "anyone"}, "nodesDrain": {"deadline", "maxPerPool"},
	"nodesTaint": {"add", "remove"}, "nodesLabel": {"set", "remove"},
}

// TestManyOfOthers is about who may not: for who has no sight, what is another's, deleted or never was is one answer, node by node, and a guest controls
// nothing.
func TestManyOfOthers(t *testing.T) { //nolint:tparallel // one after the other: few run in a tenant at a time
	t.Parallel()
	b := setup(t)
	b.work()
	ids := b.nodes(3)
	own, deleted, shared := ids[0], ids[1], ids[2]
	b.exec(`update nodes set deleted_at = now() where id = $1`, deleted)
	b.exec(`delete from node_projection where node_id = $1`, deleted)
	never := id.New(id.Node)
	eve, gus := b.tokenFor("eve", "other", time.Hour), b.tokenFor("gus", "guest", time.Hour)
	b.exec(`insert into node_projection (tenant_id, node_id, relation) values ('guest', $1, 'SHARED')`, shared)
	before := []any{b.state(own), b.state(shared)}
	// wait gives the results by node once the operation has ended.
	wait := func(t *testing.T, token, tenant string, begun answer, name string) map[string]object {
		t.Helper()
		operationID := begun.at(t, name, "operation", "id")
		out := map[string]object{}
		require.Eventually(t, func() bool {
			o := b.as(token, `query($t: ID!, $o: ID!) { nodesOperation(tenantId: $t, operationId: $o) { state results { nodes { nodeId outcome code message node { id } } } } }`,
				object{"t": tenant, "o": operationID}).at(t, "nodesOperation").(object)
			for _, r := range o["results"].(object)["nodes"].([]any) {
				out[r.(object)["nodeId"].(string)] = r.(object)
			}
			return o["state"] == "DONE"
		}, 20*time.Second, 10*time.Millisecond)
		return out
	}
	for name, needs := range manyControls {
		t.Run("H3 "+name+" on what is not seen", func(t *testing.T) {
			a := b.many(eve, name, input(object{"tenantId": "other", "nodeIds": []string{own, deleted, never}}, needs))
			results := wait(t, eve, "other", a, name)
			var said []string
			for _, nodeID := range []string{own, deleted, never} {
				require.Equal(t, []any{"REFUSED", "NOT_FOUND", nil}, []any{results[nodeID]["outcome"], results[nodeID]["code"], results[nodeID]["node"]})
				said = append(said, strings.ReplaceAll(results[nodeID]["message"].(string), nodeID, "X"))
			}
			require.Equal(t, []string{said[0], said[0], said[0]}, said)
			require.Equal(t, "FORBIDDEN", b.many(eve, name, input(object{"tenantId": "acme", "nodeIds": []string{own}}, needs)).code(t), "another's tenant")
			require.Equal(t, "UNAUTHENTICATED", b.many("", name, input(object{"tenantId": "acme", "nodeIds": []string{own}}, needs)).code(t))
			require.Equal(t, "REFUSED", wait(t, gus, "guest", b.many(gus, name, input(object{"tenantId": "guest", "nodeIds": []string{shared}}, needs)), name)[shared]["outcome"])
		})
	}
	require.Equal(t, before, []any{b.state(own), b.state(shared)})
	t.Run("H3 a selection, and an operation, of others is none", func(t *testing.T) {
		mine := b.selection(object{"nodeIds": []string{own}}).at(t, "nodeSelectionCreate", "selection", "id")
		sam := b.tokenFor("sam", "acme", time.Hour)
		for _, token := range []string{sam, eve} {
			tenant := map[string]string{sam: "acme", eve: "other"}[token]
			require.Equal(t, "NOT_FOUND", b.as(token, `query($t: ID!, $s: ID!) { nodeSelection(tenantId: $t, selectionId: $s) { count } }`, object{"t": tenant, "s": mine}).code(t))
			require.Equal(t, "NOT_FOUND", b.many(token, "nodesCordon", object{"tenantId": tenant, "selectionId": mine}).code(t))
		}
		o := b.began("nodesUncordon", object{"selectionId": mine})
		require.Equal(t, "NOT_FOUND", b.as(eve, `query($o: ID!) { nodesOperation(tenantId: "other", operationId: $o) { id } }`, object{"o": o}).code(t))
		require.Equal(t, "NOT_FOUND", b.act(eve, "nodesOperationStop", object{"tenantId": "other", "operationId": o}).code(t))
		require.Equal(t, "FORBIDDEN", b.as(eve, `query($o: ID!) { nodesOperation(tenantId: "acme", operationId: $o) { id } }`, object{"o": o}).code(t))
		require.Equal(t, "NOT_FOUND", b.selection(object{"nodeIds": []string{own, never}}).code(t))
		require.Equal(t, "NOT_FOUND", b.selection(object{"nodeIds": []string{own, deleted}}).code(t))
		conn, err := b.dial(eve, nil)
		require.NoError(t, err)
		s := b.subscribeOn(conn, "1", `subscription($o: ID!) { nodesOperation(tenantId: "other", operationId: $o) { id } }`, object{"o": o})
		require.Equal(t, "NOT_FOUND", s.refusal())
	})
}

// wait gives an operation once it has ended.
func (b *bundle) wait(operationID string) object {
	b.Helper()
	var o object
	require.Eventually(b, func() bool {
		o = b.query(`query($o: ID!) { nodesOperation(tenantId: "acme", operationId: $o) { `+operationFields+` results(first: 500) { nodes { nodeId outcome code message } } } }`,
			object{"o": operationID}).at(b, "nodesOperation").(object)
		return o["state"] != "RUNNING"
	}, 30*time.Second, 10*time.Millisecond)
	return o
}

// result gives what became of a node.
func (b *bundle) result(o object, nodeID string) []any {
	b.Helper()
	for _, r := range o["results"].(object)["nodes"].([]any) {
		if r := r.(object); r["nodeId"] == nodeID {
			return []any{r["outcome"], r["code"]}
		}
	}
	b.Fatalf("no result of %s in %v", nodeID, o)
	return nil
}

func TestManyNodes(t *testing.T) {
	t.Parallel()

	t.Run("A selection holds the nodes that were there: what comes to match later is not in it, and what matches no more still is", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.nodes(3)
		b.exec(`insert into node_labels (node_id, key, value, source) select id, 'rack', 'b7', 'OPERATOR' from unnest($1::text[]) as id`, ids[:2])
		rack := object{"labels": []object{{"key": "rack", "values": []string{"b7"}}}}
		require.Equal(t, "CONFLICT", b.selection(object{"filter": rack, "expectCount": 3}).code(t))
		require.Equal(t, object{"expected": 3.0, "actual": 2.0}, b.selection(object{"filter": rack, "expectCount": 3}).Errors[0].Extensions.Details)
		s := b.selection(object{"filter": rack, "expectCount": 2}).at(t, "nodeSelectionCreate", "selection").(object)
		require.EqualValues(t, 2, s["count"])
		b.exec(`update node_labels set node_id = $2 where node_id = $1`, ids[1], ids[2])
		b.work()
		o := b.wait(b.began("nodesCordon", object{"selectionId": s["id"], "reason": "BIOS"}))
		require.Equal(t, []any{"DONE", 2.0, 2.0, 0.0}, []any{o["state"], o["count"], o["done"], o["left"]})
		for i, cordoned := range []bool{true, true, false} {
			require.Equal(t, cordoned, b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { cordoned } }`, object{"n": ids[i]}).at(t, "node", "cordoned"))
		}
		none := b.selection(object{"filter": object{"labels": []object{{"key": "none"}}}}).at(t, "nodeSelectionCreate", "selection", "id")
		o = b.many(b.token, "nodesCordon", object{"tenantId": "acme", "selectionId": none}).at(t, "nodesCordon", "operation").(object)
		require.Equal(t, []any{"DONE", 0.0}, []any{o["state"], o["count"]})
	})

	t.Run("Progress comes at once and without a gap: each result once, in order, also to who comes late or comes back by the cursor", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.nodes(1300)
		operationID := b.began("nodesCordon", object{"nodeIds": ids, "reason": "BIOS"})
		live := b.subscribe(followOperation, object{"o": operationID})
		first := live.event("nodesOperation")
		require.Equal(t, []any{"RUNNING", 1300.0, 1300.0, "CORDON", "alex", "BIOS"},
			[]any{first["state"], first["count"], first["left"], first["control"], first["by"], first["reason"]})
		require.Empty(t, first["newResults"])
		b.work()
		told := func(s *stream, o object) (nodes []any, cursors []any, last object) {
			for {
				for _, r := range o["newResults"].([]any) {
					nodes = append(nodes, r.(object)["nodeId"])
					require.Equal(t, true, r.(object)["node"].(object)["cordoned"])
				}
				cursors = append(cursors, o["cursor"])
				if o["state"] == "DONE" && len(nodes) >= 1300 {
					return nodes, cursors, o
				}
				o = s.event("nodesOperation")
			}
		}
		nodes, cursors, last := told(live, live.event("nodesOperation"))
		require.Equal(t, []any{1300.0, 0.0}, []any{last["done"], last["left"]})
		require.Equal(t, "complete", live.next().Type)
		require.Len(t, nodes, 1300)
		late := b.subscribe(followOperation, object{"o": operationID})
		again, _, _ := told(late, late.event("nodesOperation"))
		require.Equal(t, nodes, again)
		require.Equal(t, "complete", late.next().Type)
		require.Greater(t, len(cursors), 2)
		back := b.subscribe(followOperation, object{"o": operationID, "after": cursors[0]})
		var rest []any
		for f := back.next(); f.Type == "next"; f = back.next() {
			var a answer
			require.NoError(t, json.Unmarshal(f.Payload, &a))
			for _, r := range a.at(t, "nodesOperation", "newResults").([]any) {
				rest = append(rest, r.(object)["nodeId"])
			}
		}
		require.Equal(t, nodes[len(nodes)-len(rest):], rest)
		require.Equal(t, "INVALID_INPUT", b.subscribe(followOperation, object{"o": operationID, "after": "I.x"}).refusal())
		// The pages of the query give the same.
		var paged []any
		for after := any(nil); ; {
			page := b.query(`query($o: ID!, $after: Cursor) { nodesOperation(tenantId: "acme", operationId: $o) { results(first: 500, after: $after, outcomes: [DONE]) {
				edges { cursor node { nodeId } } pageInfo { hasNextPage endCursor } } } }`, object{"o": operationID, "after": after}).at(t, "nodesOperation", "results").(object)
			for _, e := range page["edges"].([]any) {
				paged = append(paged, e.(object)["node"].(object)["nodeId"])
			}
			if after = page["pageInfo"].(object)["endCursor"]; page["pageInfo"].(object)["hasNextPage"] == false {
				break
			}
		}
		require.Equal(t, nodes, paged)
	})

	t.Run("I7 the same request id twice begins one operation; another body under it is INVALID_INPUT", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.nodes(2)
		in := object{"nodeIds": ids, "requestId": "once", "reason": "BIOS"}
		first := b.many(b.token, "nodesDrain", input(object{"tenantId": "acme"}, in)).at(t, "nodesDrain").(object)
		require.Equal(t, first, b.many(b.token, "nodesDrain", input(object{"tenantId": "acme"}, in)).at(t, "nodesDrain"))
		for _, other := range []object{{"reason": "PSU"}, {"nodeIds": ids[:1]}, {"maxPerPool": 1}} {
			require.Equal(t, "INVALID_INPUT", b.many(b.token, "nodesDrain", input(object{"tenantId": "acme"}, in, other)).code(t))
		}
		require.Equal(t, "INVALID_INPUT", b.many(b.token, "nodesCordon", input(object{"tenantId": "acme"}, in)).code(t))
		require.Len(t, b.query(`{ nodesOperations(tenantId: "acme") { nodes { id } } }`, nil).at(t, "nodesOperations", "nodes"), 1)
		s := b.selection(object{"nodeIds": ids, "requestId": "freeze"})
		require.Equal(t, s.Data, b.selection(object{"nodeIds": ids, "requestId": "freeze"}).Data)
		require.Equal(t, "INVALID_INPUT", b.selection(object{"nodeIds": ids[:1], "requestId": "freeze"}).code(t))
		// A stop that is repeated gives its first answer, and another one changes nothing.
		stop := object{"tenantId": "acme", "operationId": first["operation"].(object)["id"], "requestId": "stop"}
		stopping := `mutation($i: NodesOperationStopInput!) { nodesOperationStop(input: $i) { changed cursor operation { state left endedBy } } }`
		stopped := b.query(stopping, object{"i": stop})
		require.Equal(t, object{"state": "STOPPED", "left": 2.0, "endedBy": "alex"}, stopped.at(t, "nodesOperationStop", "operation"))
		require.Equal(t, true, stopped.at(t, "nodesOperationStop", "changed"))
		require.Equal(t, stopped, b.query(stopping, object{"i": stop}))
		require.Equal(t, false, b.query(stopping, object{"i": input(stop, object{"requestId": "another"})}).at(t, "nodesOperationStop", "changed"))
		b.work()
		require.Equal(t, "STOPPED", b.wait(stop["operationId"].(string))["state"])
		require.NotContains(t, b.types(ids[0]), "node.draining")
	})

	t.Run("An uncordon lifts the caller's own cordons alone, unless it names another or says anyone's", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.work()
		ids := b.nodes(4)
		sam := b.tokenFor("sam", "acme", time.Hour)
		for i, token := range []string{b.token, sam, sam} {
			b.act(token, "nodeCordon", object{"tenantId": "acme", "nodeId": ids[i]}).at(t, "nodeCordon")
		}
		o := b.wait(b.began("nodesUncordon", object{"nodeIds": ids}))
		require.Equal(t, []any{1.0, 1.0, 2.0}, []any{o["done"], o["unchanged"], o["refused"]})
		require.Equal(t, []any{"DONE", nil}, b.result(o, ids[0]))
		require.Equal(t, []any{"REFUSED", "CONFLICT"}, b.result(o, ids[1]))
		require.Equal(t, []any{"UNCHANGED", nil}, b.result(o, ids[3]))
		o = b.wait(b.began("nodesUncordon", object{"nodeIds": ids[:2], "ifCordonedBy": "sam"}))
		require.Equal(t, []any{"DONE", nil}, b.result(o, ids[1]))
		o = b.wait(b.began("nodesUncordon", object{"nodeIds": ids, "anyone": true}))
		require.Equal(t, []any{1.0, 3.0, 0.0}, []any{o["done"], o["unchanged"], o["refused"]})
	})

	t.Run("A preview says by state what would happen, as it then does, and changes nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.nodes(6)
		gone, foreign := ids[4], ids[5]
		sam := b.tokenFor("sam", "acme", time.Hour)
		b.act(sam, "nodeCordon", object{"tenantId": "acme", "nodeId": ids[0]}).at(t, "nodeCordon")
		b.exec(`update nodes set provision_state = 'RETIRED' where id = $1`, ids[1])
		b.exec(`update node_projection set relation = 'SHARED' where node_id = $1`, foreign)
		s := b.selection(object{"nodeIds": ids}).at(t, "nodeSelectionCreate", "selection", "id")
		b.exec(`delete from node_projection where node_id = $1`, gone)
		preview := func(args string) object {
			return b.query(`query($s: ID!) { nodeSelection(tenantId: "acme", selectionId: $s) { preview(`+args+`) {
				done unchanged refused groups { outcome code because provisionState cordoned draining count } } } }`, object{"s": s}).
				at(t, "nodeSelection", "preview").(object)
		}
		p := preview(`control: CORDON`)
		require.Equal(t, []any{3.0, 1.0, 2.0}, []any{p["done"], p["unchanged"], p["refused"]})
		groups := p["groups"].([]any)
		require.Equal(t, object{"outcome": "DONE", "code": nil, "because": nil, "provisionState": "ADOPTED", "cordoned": false, "draining": false, "count": 2.0}, groups[0])
		require.Contains(t, groups[2].(object)["because"], "cordoned already by sam")
		require.Equal(t, []any{"REFUSED", "FORBIDDEN"}, []any{groups[3].(object)["outcome"], groups[3].(object)["code"]})
		require.Equal(t, []any{"NOT_FOUND", nil}, []any{groups[4].(object)["code"], groups[4].(object)["provisionState"]})
		require.Equal(t, []any{0.0, 3.0}, []any{preview(`control: UNCORDON`)["done"], preview(`control: UNCORDON`)["unchanged"]})
		require.Equal(t, 1.0, preview(`control: UNCORDON, anyone: true`)["done"])
		require.Equal(t, 1.0, preview(`control: UNCORDON, ifCordonedBy: "sam"`)["done"])
		require.Equal(t, 3.0, preview(`control: ADOPT`)["done"])
		require.Equal(t, 4.0, preview(`control: TAINT, add: ["rma"]`)["done"])
		require.Equal(t, 4.0, preview(`control: LABEL, set: [{ key: "rack", value: "b7" }]`)["done"])
		a := b.query(`query($s: ID!) { nodeSelection(tenantId: "acme", selectionId: $s) { preview(control: CORDON, add: ["x"]) { done } } }`, object{"s": s})
		require.Equal(t, "INVALID_INPUT", a.code(t))
		b.work()
		o := b.wait(b.began("nodesCordon", object{"selectionId": s}))
		require.Equal(t, []any{p["done"], p["unchanged"], p["refused"]}, []any{o["done"], o["unchanged"], o["refused"]})
		require.Equal(t, []any{"REFUSED", "FORBIDDEN"}, b.result(o, foreign))
		require.Equal(t, []any{"REFUSED", "NOT_FOUND"}, b.result(o, gone))
		// Somebody else decides otherwise: the preview knows, as does the control.
		b.act(b.token, "nodeUncordon", object{"tenantId": "acme", "nodeId": ids[2]}).at(t, "nodeUncordon")
		p = preview(`control: CORDON`)
		require.Equal(t, []any{0.0, 3.0, 3.0}, []any{p["done"], p["unchanged"], p["refused"]})
	})

	t.Run("A drain's limit is kept, what it waits for is told, and the next begins when one ends", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.nodes(5)
		var held []string
		for _, n := range ids {
			held = append(held, b.reserve(n))
		}
		b.work()
		operationID := b.began("nodesDrain", object{"nodeIds": ids, "maxPerPool": 2})
		s := b.subscribe(followOperation, object{"o": operationID})
		for o := s.event("nodesOperation"); o["waiting"] == nil; o = s.event("nodesOperation") {
			require.Equal(t, 2.0, o["maxPerPool"])
		}
		for i, reservation := range held {
			require.Equal(t, min(i+2, 5), b.count(ids, "node.draining"))
			b.release(reservation)
			for o := s.event("nodesOperation"); i < 3 && o["done"].(float64) < float64(i+3); {
				o = s.event("nodesOperation")
			}
			if i >= 2 {
				break
			}
		}
		require.Equal(t, "DONE", b.wait(operationID)["state"])
	})

	t.Run("So many operations of a tenant run at a time, and no more", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.nodes(1)
		for range 20 {
			b.began("nodesCordon", object{"nodeIds": ids})
		}
		a := b.many(b.token, "nodesCordon", object{"tenantId": "acme", "nodeIds": ids})
		require.Equal(t, "RESOURCE_EXHAUSTED", a.code(t))
		require.Equal(t, 20.0, a.Errors[0].Extensions.Details["limit"])
		require.Len(t, b.query(`{ nodesOperations(tenantId: "acme", active: true, first: 5) { nodes { id } pageInfo { hasNextPage endCursor } } }`, nil).
			at(t, "nodesOperations", "nodes"), 5)
		b.work()
		require.Eventually(t, func() bool {
			return len(b.query(`{ nodesOperations(tenantId: "acme", active: true) { nodes { id } } }`, nil).at(t, "nodesOperations", "nodes").([]any)) == 0
		}, 30*time.Second, 20*time.Millisecond)
		b.began("nodesCordon", object{"nodeIds": ids})
	})
}

// types gives the types of a node's events.
func (b *bundle) types(nodeID string) []string {
	b.Helper()
	var out []string
	require.NoError(b, b.db.Pool().QueryRow(b.Context(), `select coalesce(array_agg(type order by position), '{}') from events where node_id = $1`, nodeID).Scan(&out))
	return out
}

// count counts the events of a type on nodes.
func (b *bundle) count(nodeIDs []string, eventType string) int {
	b.Helper()
	var n int
	require.NoError(b, b.db.Pool().QueryRow(b.Context(), `select count(*) from events where node_id = any($1) and type = $2`, nodeIDs, eventType).Scan(&n))
	return n
}
