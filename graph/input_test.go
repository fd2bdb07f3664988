package graph_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/id"
)

// operatorControls are the mutations that change one node, each with what it needs besides the node.
var operatorControls = map[string]object{
	"nodeCordon":   {},
	"nodeUncordon": {},
	"nodeDrain":    {},
	"nodeTaint":    {"add": []string{"rma-pending"}, "remove": []string{"burn-in"}},
	"nodeDelete":   {},
	"nodeAdopt":    {},
	"nodeLabel":    {"set": []object{{"key": "rack", "value": "b7"}}, "remove": []string{"burn-in"}},
}

// input makes a mutation's input out of parts; what comes later wins, and nil takes away.
func input(parts ...object) object {
	out := object{}
	for _, p := range parts {
		maps.Copy(out, p)
	}
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

// act runs a mutation that takes one input, and asks for the payload's cursor.
func (b *bundle) act(token, name string, in object) answer {
	b.Helper()
	kind := strings.ToUpper(name[:1]) + name[1:] + "Input"
	return b.as(token, "mutation($i: "+kind+"!) { "+name+"(input: $i) { cursor } }", object{"i": in})
}

// state is what of a node any control could move, as its owner reads it.
func (b *bundle) state(nodeID string) any {
	b.Helper()
	return b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) {
		version provisionState cordoned cordon { by reason at } noScheduleReasons labels { key value source } lastDrain { id state }
		events { nodes { id } } } }`, object{"n": nodeID}).at(b, "node")
}

// TestRefusedInput holds each form of each argument that is refused: INVALID_INPUT names the argument, and nothing changes.
func TestRefusedInput(t *testing.T) { //nolint:tparallel // the group has to end before what follows it
	t.Parallel()
	b := setup(t)
	n := b.node()
	b.exec(`insert into node_labels (node_id, key, value, source) values ($1, 'gpu.model', 'H100', 'INVENTORY')`, n)
	before := b.state(n)
	all := func(argument, says string, value any) [][4]any {
		var rows [][4]any
		for name := range operatorControls {
			rows = append(rows, [4]any{name, argument, says, object{argument: value}})
		}
		return rows
	}
	many := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprint("k", i)
		}
		return out
	}
	labels := func(n int) []object {
		var out []object
		for _, k := range many(n) {
			out = append(out, object{"key": k, "value": "v"})
		}
		return out
	}
	one := func(key, value string) []object { return []object{{"key": key, "value": value}} }
	var rows [][4]any
	for _, more := range [][][4]any{
		all("reason", "257 characters", strings.Repeat("ü", 257)),
		all("reason", "a control sign", "a\nb"),
		all("nodeId", "malformed", "node_x"),
		all("nodeId", "another kind's", id.New(id.Pool)),
		all("nodeId", "upper case", strings.ToUpper(n)),
		all("tenantId", "malformed", "Acme!"),
		all("version", "zero", 0),
		all("version", "negative", -1),
		all("requestId", "129 characters", strings.Repeat("r", 129)),
		{
			{"nodeCordon", "until", "the past", object{"until": "2020-01-01T00:00:00Z"}},
			{"nodeCordon", "until", "beyond ten years", object{"until": "2191-01-01T00:00:00Z"}},
			{"nodeUncordon", "ifCordonedBy", "nobody", object{"ifCordonedBy": ""}},
			{"nodeUncordon", "ifCordonedBy", "257 characters", object{"ifCordonedBy": strings.Repeat("ü", 257)}},
			{"nodeDrain", "deadline", "the past", object{"deadline": "2020-01-01T00:00:00Z"}},
			{"nodeTaint", "add", "33 keys", object{"add": many(33)}},
			{"nodeTaint", "remove", "33 keys", object{"remove": many(33)}},
			{"nodeTaint", "add", "129 characters", object{"add": []string{strings.Repeat("k", 129)}}},
			{"nodeTaint", "add", "a leading sign", object{"add": []string{".a"}}},
			{"nodeTaint", "remove", "a trailing sign", object{"remove": []string{"a:"}}},
			{"nodeTaint", "add", "a sign that is none of them", object{"add": []string{"a@b"}}},
			{"nodeTaint", "add", "a key twice", object{"add": []string{"a", "a"}}},
			{"nodeTaint", "remove", "a key in both", object{"add": []string{"a"}, "remove": []string{"a"}}},
			{"nodeTaint", "add", "neither list", object{"add": nil, "remove": nil}},
			{"nodeTaint", "add", "two empty lists", object{"add": []string{}, "remove": []string{}}},
			{"nodeLabel", "set", "65 labels", object{"set": labels(65)}},
			{"nodeLabel", "remove", "65 keys", object{"remove": many(65)}},
			{"nodeLabel", "set", "a key of 129", object{"set": one(strings.Repeat("k", 129), "v")}},
			{"nodeLabel", "set", "a value of 257", object{"set": one("k", strings.Repeat("v", 257))}},
			{"nodeLabel", "set", "a value with a space", object{"set": one("k", "a b")}},
			{"nodeLabel", "set", "bc.dev/", object{"set": one("bc.dev/driver", "1")}},
			{"nodeLabel", "remove", "bc.dev/", object{"remove": []string{"bc.dev/driver"}}},
			{"nodeLabel", "remove", "a leading sign", object{"remove": []string{"-a"}}},
			{"nodeLabel", "set", "inventory's key", object{"set": one("gpu.model", "mine")}},
			{"nodeLabel", "set", "a key twice", object{"set": append(one("k", "1"), one("k", "2")...)}},
			{"nodeLabel", "remove", "a key twice", object{"remove": []string{"k", "k"}}},
			{"nodeLabel", "remove", "a key in both", object{"set": one("k", "v"), "remove": []string{"k"}}},
			{"nodeLabel", "set", "neither list", object{"set": nil, "remove": nil}},
		},
	} {
		rows = append(rows, more...)
	}
	t.Run("every one", func(t *testing.T) { // ends when all in it have
		for _, r := range rows {
			name, argument, says, change := r[0].(string), r[1].(string), r[2].(string), r[3].(object)
			t.Run(fmt.Sprintf("H1 %s(%s): %s", name, argument, says), func(t *testing.T) {
				t.Parallel()
				a := b.act(b.token, name, input(object{"tenantId": "acme", "nodeId": n}, operatorControls[name], change))
				require.Equal(t, "INVALID_INPUT", a.code(t))
				require.Equal(t, argument, a.Errors[0].Extensions.Details["argument"])
				require.NotEmpty(t, a.Errors[0].Extensions.Details["rule"])
			})
		}
	})
	require.Equal(t, before, b.state(n))
}

// TestControlsOfOthers is about who may not: for who has no sight, what is another's, deleted or never was is one answer, and a guest controls nothing.
func TestControlsOfOthers(t *testing.T) { //nolint:tparallel // the group has to end before what follows it
	t.Parallel()
	b := setup(t)
	n, deleted := b.node(), b.node()
	b.exec(`update nodes set deleted_at = now() where id = $1`, deleted)
	b.exec(`delete from node_projection where node_id = $1`, deleted)
	before := b.state(n)
	eve := b.tokenFor("eve", "other", time.Hour)
	guest := b.tokenFor("gus", "guest", time.Hour)
	b.exec(`insert into node_projection (tenant_id, node_id, relation) values ('guest', $1, 'SHARED')`, n)
	t.Run("every control", func(t *testing.T) { // ends when all in it have
		for name, needs := range operatorControls {
			t.Run("H3 "+name+" on what is not seen", func(t *testing.T) {
				t.Parallel()
				var said []string
				for _, nodeID := range []string{n, deleted, id.New(id.Node)} {
					a := b.act(eve, name, input(object{"tenantId": "other", "nodeId": nodeID}, needs))
					require.Equal(t, "NOT_FOUND", a.code(t))
					said = append(said, strings.ReplaceAll(a.Errors[0].Message, nodeID, "X"))
				}
				require.Equal(t, []string{said[0], said[0], said[0]}, said)
				require.Equal(t, "INVALID_INPUT", b.act(eve, name, input(object{"tenantId": "other", "nodeId": "node_x"}, needs)).code(t))
				require.Equal(t, "FORBIDDEN", b.act(eve, name, input(object{"tenantId": "acme", "nodeId": n}, needs)).code(t), "another's tenant")
				require.Equal(t, "UNAUTHENTICATED", b.act("", name, input(object{"tenantId": "acme", "nodeId": n}, needs)).code(t))
				if name != "nodeDelete" { // which its owner may repeat
					require.Equal(t, "NOT_FOUND", b.act(b.token, name, input(object{"tenantId": "acme", "nodeId": deleted}, needs)).code(t), "the owner's own, deleted")
				}
			})
			t.Run("I5 "+name+" by a guest", func(t *testing.T) {
				t.Parallel()
				require.Equal(t, "FORBIDDEN", b.act(guest, name, input(object{"tenantId": "guest", "nodeId": n}, needs)).code(t))
			})
		}
	})
	require.Equal(t, before, b.state(n))
}

// TestControlsRepeated is about versions and lost answers, for every control.
func TestControlsRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, needs := range operatorControls {
		t.Run(name+" with a version that is past is CONFLICT", func(t *testing.T) {
			t.Parallel()
			n := b.node()
			b.act(b.token, "nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t)
			before := b.state(n)
			a := b.act(b.token, name, input(object{"tenantId": "acme", "nodeId": n, "version": 1}, needs))
			require.Equal(t, "CONFLICT", a.code(t))
			d := a.Errors[0].Extensions.Details
			require.Equal(t, []any{1.0, 2.0, "alex"}, []any{d["expected"], d["actual"], d["by"]})
			require.Equal(t, before, b.state(n))
		})
		t.Run("I7 "+name+" twice under one request id is one act with one answer", func(t *testing.T) {
			t.Parallel()
			n := b.node()
			switch name {
			case "nodeDrain": // held, so that it is not over meanwhile
				b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { changed } }`, object{"n": n}).at(t)
			case "nodeDelete":
				b.act(b.token, "nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t)
			}
			in := input(object{"tenantId": "acme", "nodeId": n, "requestId": id.New("req"), "reason": "once"}, needs)
			first := b.act(b.token, name, in)
			after := b.state(n)
			require.Equal(t, first.at(t, name), b.act(b.token, name, in).at(t, name))
			require.Equal(t, after, b.state(n))
			require.Equal(t, "INVALID_INPUT", b.act(b.token, name, input(in, object{"reason": "twice"})).code(t))
			require.Equal(t, after, b.state(n))
		})
	}
}

func TestTaintAndLabel(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("Taints, warnings, filters and the typed event", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		const taint = `mutation($i: NodeTaintInput!) { nodeTaint(input: $i) { changed warnings node { version noScheduleReasons placeableFor statusSentence
			holds { reason owner by message } controls { control enabled } } } }`
		p := b.query(taint, object{"i": object{"tenantId": "acme", "nodeId": n, "reason": "RMA 7", "add": []string{"rma-pending"}}}).at(t, "nodeTaint").(object)
		require.Equal(t, []any{}, p["warnings"])
		got := p["node"].(object)
		require.Equal(t, []any{"taint:rma-pending"}, got["noScheduleReasons"])
		require.Equal(t, "taint:rma-pending: RMA 7", got["statusSentence"])
		require.Equal(t, []any{object{"reason": "taint:rma-pending", "owner": "operator", "by": "alex", "message": "RMA 7"}}, got["holds"])
		require.Subset(t, got["controls"], []any{object{"control": "taint", "enabled": true}, object{"control": "label", "enabled": true}})
		p = b.query(taint, object{"i": object{"tenantId": "acme", "nodeId": n, "add": []string{"dedicated=ghost"}, "remove": []string{"rma-pending"}}}).
			at(t, "nodeTaint").(object)
		require.Equal(t, []any{"there is no tenant ghost, so the node is dedicated to nobody until there is one"}, p["warnings"])
		require.Equal(t, "ONE_TENANT", p["node"].(object)["placeableFor"])
		for filter, want := range map[string]int{`taints: ["dedicated=ghost"]`: 1, `dedicatedTo: "ghost"`: 1, `taints: ["rma-pending"]`: 0} {
			require.Len(t, b.query(`{ nodes(tenantId: "acme", filter: { nodeIds: ["`+n+`"], `+filter+` }) { nodes { id } } }`, nil).at(t, "nodes", "nodes"), want, filter)
		}
		told := b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { events { nodes { type reason ... on NodeTaintEvent { taintsAdded taintsRemoved } } } } }`,
			object{"n": n}).at(t, "node", "events", "nodes")
		require.Equal(t, []any{
			object{"type": "node.tainted", "reason": nil, "taintsAdded": []any{"dedicated=ghost"}, "taintsRemoved": []any{"rma-pending"}},
			object{"type": "node.tainted", "reason": "RMA 7", "taintsAdded": []any{"rma-pending"}, "taintsRemoved": []any{}},
		}, told)
	})

	t.Run("Labels, filters and the typed event", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		p := b.query(`mutation($i: NodeLabelInput!) { nodeLabel(input: $i) { changed node { labels { key value source } } } }`,
			object{"i": object{"tenantId": "acme", "nodeId": n, "set": []object{{"key": "rack", "value": "b7"}, {"key": "fabric/rail", "value": "3"}}}})
		require.Equal(t, []any{
			object{"key": "fabric/rail", "value": "3", "source": "OPERATOR"}, object{"key": "rack", "value": "b7", "source": "OPERATOR"},
		}, p.at(t, "nodeLabel", "node", "labels"))
		b.act(b.token, "nodeLabel", object{"tenantId": "acme", "nodeId": n, "remove": []string{"fabric/rail"}}).at(t)
		for filter, want := range map[string]int{`{ key: "rack" }`: 1, `{ key: "rack", values: ["b6", "b7"] }`: 1, `{ key: "fabric/rail" }`: 0} {
			require.Len(t, b.query(`{ nodes(tenantId: "acme", filter: { nodeIds: ["`+n+`"], labels: [`+filter+`] }) { nodes { id } } }`, nil).at(t, "nodes", "nodes"), want, filter)
		}
		told := b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { events(first: 1) { nodes { ... on NodeLabelEvent {
			type labelsSet { key } labelsRemoved { key value } labelsDisplaced { key } } } } } }`, object{"n": n}).at(t, "node", "events", "nodes")
		require.Equal(t, []any{object{
			"type": "node.labeled", "labelsSet": []any{}, "labelsDisplaced": nil,
			"labelsRemoved": []any{object{"key": "fabric/rail", "value": "3"}},
		}}, told)
	})

	t.Run("The gate's table by the API: a dedication lets one tenant in, and nobody beside another reason", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			taints []string
			a, b   bool
		}{
			{nil, true, true},
			{[]string{"dedicated=tenant-a"}, true, false},
			{[]string{"dedicated=tenant-a", "rma"}, false, false},
			{[]string{"dedicated=tenant-a", "dedicated=tenant-b"}, false, false},
			{[]string{"rma"}, false, false},
		} {
			n := b.node()
			if c.taints != nil {
				b.act(b.token, "nodeTaint", object{"tenantId": "acme", "nodeId": n, "add": c.taints}).at(t)
			}
			for tenant, want := range map[string]bool{"tenant-a": c.a, "tenant-b": c.b} {
				token := b.tokenFor("of-"+tenant, tenant, time.Hour)
				b.exec(`insert into node_projection (tenant_id, node_id, relation) values ($1, $2, 'SHARED')`, tenant, n)
				got := b.query(`query($n: ID!, $t: ID) { node(tenantId: "acme", nodeId: $n) { placeable(tenantId: $t) { placeable } } }`, object{"n": n, "t": tenant})
				require.Equal(t, want, got.at(t, "node", "placeable", "placeable"), "%v %s", c.taints, tenant)
				booked := b.as(token, `mutation($t: ID!, $n: ID!) { reservationCreate(input: { tenantId: $t, nodeId: $n }) { changed } }`, object{"t": tenant, "n": n})
				if want {
					require.Equal(t, true, booked.at(t, "reservationCreate", "changed"))
				} else {
					require.Equal(t, "INVALID_STATE", booked.code(t), "%v %s", c.taints, tenant)
				}
			}
		}
	})
}

func TestOverdueAndPlan(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("A cordon's end, its overdue flag in lists, and whose it is on uncordon", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		b.act(b.token, "nodeCordon", object{"tenantId": "acme", "nodeId": n, "reason": "BIOS", "until": "2031-02-03T04:05:06Z"}).at(t)
		const list = `query($n: ID!, $f: Boolean) { nodes(tenantId: "acme", filter: { nodeIds: [$n], cordonOverdue: $f }) { nodes { cordon { until overdue } } } }`
		require.Empty(t, b.query(list, object{"n": n, "f": true}).at(t, "nodes", "nodes"))
		require.Equal(t, []any{object{"cordon": object{"until": "2031-02-03T04:05:06.000000Z", "overdue": false}}}, b.query(list, object{"n": n, "f": false}).at(t, "nodes", "nodes"))
		b.exec(`update nodes set cordon_until = now() - interval '1 minute' where id = $1`, n)
		got := b.query(list, object{"n": n, "f": true}).at(t, "nodes", "nodes").([]any)
		require.Equal(t, true, got[0].(object)["cordon"].(object)["overdue"])
		a := b.act(b.token, "nodeUncordon", object{"tenantId": "acme", "nodeId": n, "ifCordonedBy": "sam"})
		require.Equal(t, "CONFLICT", a.code(t))
		require.Equal(t, "alex", a.Errors[0].Extensions.Details["actual"])
		b.act(b.token, "nodeCordon", object{"tenantId": "acme", "nodeId": n, "reason": "parts", "updateReason": true}).at(t)
		b.act(b.token, "nodeUncordon", object{"tenantId": "acme", "nodeId": n, "ifCordonedBy": "alex"}).at(t)
		require.Equal(t, "INVALID_STATE", b.act(b.token, "nodeCordon", object{"tenantId": "acme", "nodeId": n, "updateReason": true}).code(t))
		told := b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { events { nodes { type reason ... on NodeCordonEvent { until } } } } }`, object{"n": n}).
			at(t, "node", "events", "nodes")
		require.Equal(t, []any{
			object{"type": "node.uncordoned", "reason": nil, "until": nil},
			object{"type": "node.cordon-updated", "reason": "parts", "until": nil},
			object{"type": "node.cordoned", "reason": "BIOS", "until": "2031-02-03T04:05:06.000000Z"},
		}, told)
	})

	t.Run("What a drain would wait for is said without changing anything, and the drain is in the list", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		const plan = `query($n: ID!) { drainPlan(tenantId: "acme", nodeId: $n) { empty liveAllocationCount expectedAt blockers { endsAt future } node { version cordoned } } }`
		empty := b.query(plan, object{"n": n}).at(t, "drainPlan").(object)
		require.Equal(t, []any{true, 0.0, nil}, []any{empty["empty"], empty["liveAllocationCount"], empty["expectedAt"]})
		for _, at := range []object{{"startsAt": nil, "endsAt": "2031-01-01T00:00:00Z"}, {"startsAt": "2031-01-01T00:00:00Z", "endsAt": "2032-01-01T00:00:00Z"}} {
			b.query(`mutation($n: ID!, $s: DateTime, $e: DateTime) { reservationCreate(input: { tenantId: "acme", nodeId: $n, startsAt: $s, endsAt: $e }) { changed } }`,
				object{"n": n, "s": at["startsAt"], "e": at["endsAt"]}).at(t)
		}
		p := b.query(plan, object{"n": n}).at(t, "drainPlan").(object)
		require.Equal(t, object{
			"empty": false, "liveAllocationCount": 2.0, "expectedAt": "2032-01-01T00:00:00.000000Z", "node": object{"version": 1.0, "cordoned": false},
			"blockers": []any{object{"endsAt": "2032-01-01T00:00:00.000000Z", "future": true}, object{"endsAt": "2031-01-01T00:00:00.000000Z", "future": false}},
		}, p)
		b.act(b.token, "nodeDrain", object{"tenantId": "acme", "nodeId": n, "deadline": "2031-06-01T00:00:00Z"}).at(t)
		drains := b.query(`{ drains(tenantId: "acme", first: 10) { nodes { state deadline overdue node { id } blockers { endsAt } } pageInfo { hasNextPage } } }`, nil).
			at(t, "drains", "nodes").([]any)
		require.Len(t, drains, 1)
		d := drains[0].(object)
		require.Equal(t, []any{"DRAINING", "2031-06-01T00:00:00.000000Z", false, object{"id": n}}, []any{d["state"], d["deadline"], d["overdue"], d["node"]})
		require.Len(t, d["blockers"], 2)
		require.Empty(t, b.query(`{ drains(tenantId: "acme", active: false) { nodes { id } } }`, nil).at(t, "drains", "nodes"))
		for query, code := range map[string]string{
			`{ drains(tenantId: "acme", first: 0) { nodes { id } } }`: "INVALID_INPUT", `{ drains(tenantId: "acme", poolId: "pool_x") { nodes { id } } }`: "INVALID_INPUT",
			`{ drainPlan(tenantId: "acme", nodeId: "node_x") { empty } }`: "INVALID_INPUT", `{ drainPlan(tenantId: "acme", nodeId: "` + id.New(id.Node) + `") { empty } }`: "NOT_FOUND",
		} {
			require.Equal(t, code, b.query(query, nil).code(t), query)
		}
		guest := b.tokenFor("gus", "guest", time.Hour)
		b.exec(`insert into node_projection (tenant_id, node_id, relation) values ('guest', $1, 'SHARED')`, n)
		require.Equal(t, "FORBIDDEN", b.as(guest, `query($n: ID!) { drainPlan(tenantId: "guest", nodeId: $n) { empty } }`, object{"n": n}).code(t))
	})
}

func TestNodeDelete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const remove = `mutation($i: NodeDeleteInput!) { nodeDelete(input: $i) { nodeId deleted cursor warnings } }`
	n := b.node()
	in := object{"i": object{"tenantId": "acme", "nodeId": n, "reason": "TPM replaced"}}

	// F4: the refusals carry what the caller has to know, and the offer says the same beforehand.
	offer := func() any {
		for _, c := range b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { controls { control enabled because } } }`, object{"n": n}).at(t, "node", "controls").([]any) {
			if c.(object)["control"] == "delete" {
				return c.(object)["because"]
			}
		}
		return "not offered"
	}
	a := b.query(remove, in)
	require.Equal(t, "INVALID_STATE", a.code(t))
	require.Equal(t, object{"provisionState": "ADOPTED", "cordoned": false}, a.Errors[0].Extensions.Details)
	require.Equal(t, a.Errors[0].Message, offer())
	booked := b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { reservation { id } } }`, object{"n": n}).
		at(t, "reservationCreate", "reservation", "id")
	b.act(b.token, "nodeDrain", object{"tenantId": "acme", "nodeId": n}).at(t)
	drain := b.query(`{ drains(tenantId: "acme") { nodes { id } } }`, nil).at(t, "drains", "nodes").([]any)[0].(object)["id"]
	a = b.query(remove, in)
	require.Equal(t, object{"openAllocations": 1.0}, a.Errors[0].Extensions.Details)
	require.Equal(t, a.Errors[0].Message, offer())

	// I8: who waits for the drain of a node that is deleted is told that it is over, and why. The drain is held by an allocation that ends meanwhile.
	wait := b.subscribe(`subscription($d: [ID!]) { drainChanges(tenantId: "acme", drainIds: $d) { id state cause } }`, object{"d": []any{drain}})
	require.Equal(t, "DRAINING", wait.event("drainChanges")["state"])
	changes := b.subscribe(`subscription($a: Cursor!) { nodeChanges(tenantId: "acme", after: $a) { removed } }`,
		object{"a": b.query(`{ nodes(tenantId: "acme") { asOf } }`, nil).at(t, "nodes", "asOf")})
	b.exec(`update allocations set released_at = now() where reservation_id = $1`, booked)
	done := b.query(remove, in).at(t, "nodeDelete").(object)
	require.Equal(t, []any{n, true, []any{}}, []any{done["nodeId"], done["deleted"], done["warnings"]})
	require.Equal(t, object{"id": drain, "state": "CANCELLED", "cause": "deleted"}, wait.event("drainChanges"))
	require.Equal(t, "complete", wait.next().Type)
	require.Eventually(t, func() bool { return slices.Contains(changes.event("nodeChanges")["removed"].([]any), any(n)) }, 10*time.Second, time.Millisecond)

	// F3, F5: the tombstone is its owner's alone.
	require.Equal(t, false, b.query(remove, in).at(t, "nodeDelete", "deleted"))
	got := b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { deletedAt statusSentence placeableFor events(first: 1) { nodes { type node { id } } } } }`, object{"n": n}).
		at(t, "node").(object)
	require.NotNil(t, got["deletedAt"])
	require.Contains(t, got["statusSentence"], "deleted")
	require.Equal(t, "NONE", got["placeableFor"])
	require.Equal(t, object{"nodes": []any{object{"type": "node.deleted", "node": object{"id": n}}}}, got["events"])
	require.Equal(t, "the node is deleted", offer())
	require.Empty(t, b.query(`{ nodes(tenantId: "acme") { nodes { id } } }`, nil).at(t, "nodes", "nodes"))
	require.Len(t, b.query(`{ nodes(tenantId: "acme", filter: { includeDeleted: true }) { nodes { id deletedAt } } }`, nil).at(t, "nodes", "nodes"), 1)
	eve := b.tokenFor("eve", "other", time.Hour)
	theirs := b.as(eve, `query($n: ID!) { node(tenantId: "other", nodeId: $n) { id } }`, object{"n": n})
	never := id.New(id.Node)
	absent := b.as(eve, `query($n: ID!) { node(tenantId: "other", nodeId: $n) { id } }`, object{"n": never})
	require.Equal(t, []string{"NOT_FOUND", "NOT_FOUND"}, []string{theirs.code(t), absent.code(t)})
	require.Equal(t, strings.ReplaceAll(theirs.Errors[0].Message, n, never), absent.Errors[0].Message)
}

func TestNodeAdopt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	b.exec(`insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
		values ($1, 'ses', 1, 'gw', 'boot-1', '1.2.3', '{}', 0, now())`, n)
	b.exec(`insert into node_inventory (node_id, session_number, reported_at, facts, hash) values ($1, 1, now(), '{}', '')`, n)
	p := b.query(`mutation($i: NodeAdoptInput!) { nodeAdopt(input: $i) { changed node { provisionState placeable { placeable } checks { name status runId } } } }`,
		object{"i": object{"tenantId": "acme", "nodeId": n, "reason": "GPU replaced"}}).at(t, "nodeAdopt", "node").(object)
	require.Equal(t, []any{"ADOPTING", object{"placeable": false}}, []any{p["provisionState"], p["placeable"]})
	require.Len(t, p["checks"], 4)
	run := p["checks"].([]any)[0].(object)["runId"]
	require.Regexp(t, `^adp_`, run)
	// No job runs in this test: the look after the answer does it.
	require.Eventually(t, func() bool {
		return b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { provisionState } }`, object{"n": n}).at(t, "node", "provisionState") == "ADOPTED"
	}, 10*time.Second, 10*time.Millisecond)
	for _, c := range b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { checks { status message runId bootId durationMs evidence } } }`, object{"n": n}).
		at(t, "node", "checks").([]any) {
		require.Equal(t, []any{"PASSED", run, "boot-1"}, []any{c.(object)["status"], c.(object)["runId"], c.(object)["bootId"]})
		require.NotNil(t, c.(object)["durationMs"])
	}
	told := b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { events { nodes { type ... on NodeAdoptionEvent { runId } } } } }`, object{"n": n}).at(t, "node", "events", "nodes")
	require.Equal(t, []any{object{"type": "node.adopted", "runId": run}, object{"type": "node.adopting", "runId": run}}, told)
	b.exec(`update nodes set provision_state = 'RETIRED' where id = $1`, n)
	a := b.act(b.token, "nodeAdopt", object{"tenantId": "acme", "nodeId": n})
	require.Equal(t, "INVALID_STATE", a.code(t))
	require.Equal(t, object{"provisionState": "RETIRED", "cordoned": false}, a.Errors[0].Extensions.Details)
}
