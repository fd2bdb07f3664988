package graph_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/graph"
)

// everything selects all fields of a type that need no argument, and all below them. A type stands once on each path.
func everything(schema *ast.Schema, d *ast.Definition, above ...string) string {
	var s strings.Builder
	s.WriteString("{ __typename ")
	for _, f := range d.Fields {
		of := schema.Types[f.Type.Name()]
		needs := slices.ContainsFunc(f.Arguments, func(a *ast.ArgumentDefinition) bool { return a.Type.NonNull && a.DefaultValue == nil })
		switch {
		case strings.HasPrefix(f.Name, "__") || needs || slices.Contains(above, of.Name):
		case of.IsLeafType():
			s.WriteString(f.Name + " ")
		default:
			s.WriteString(f.Name + " " + everything(schema, of, append(above, of.Name)...) + " ")
		}
	}
	if d.IsAbstractType() {
		for _, p := range schema.GetPossibleTypes(d) {
			s.WriteString("... on " + p.Name + " { __typename ")
			for _, f := range p.Fields {
				of := schema.Types[f.Type.Name()]
				switch {
				case d.Fields.ForName(f.Name) != nil || slices.Contains(above, of.Name):
				case of.IsLeafType():
					s.WriteString(f.Name + " ")
				default:
					s.WriteString(f.Name + " " + everything(schema, of, append(above, of.Name)...) + " ")
				}
			}
			s.WriteString("} ")
		}
	}
	return s.String() + "}"
}

// texts gives every text in an answer with the path to it; the places of lists are left out.
func texts(v any, path string, say func(path, text string)) {
	switch v := v.(type) {
	case object:
		for k, v := range v {
			texts(v, path+"."+k, say)
		}
	case []any:
		for _, v := range v {
			texts(v, path, say)
		}
	case string:
		say(path, v)
	}
}

// shared is a node of acme's that a guest may book and a third tenant has booked, with something secret in every place that holds any.
func (b *bundle) shared() (nodeID string) {
	b.Helper()
	n := b.node()
	third, guest := b.tokenFor("theo-of-third", "third", time.Hour), b.tokenFor("gus", "guest", time.Hour)
	b.do(func(ctx context.Context, tx *db.Tx) error {
		for _, sql := range []string{
			`insert into node_projection (tenant_id, node_id, relation) values ('guest', $1, 'SHARED'), ('third', $1, 'SHARED')`,
			`insert into node_labels (node_id, key, value, source) values ($1, 'owners-key', 'owners-value', 'OPERATOR'), ($1, 'gpu.model', 'H100', 'INVENTORY')`,
			`insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
			 values ($1, 'ses_owners', 1, 'gw_owners', 'owners-boot', 'owners-agent', '{"machineId": "owners-machine"}', 5, now())`,
			`insert into node_inventory (node_id, session_number, reported_at, facts, hash)
			 values ($1, 1, now(), '{"system": {"serial": "owners-serial"}, "gpus": [{"uuid": "owners-gpu"}]}', '\x00')`,
			`insert into devices (node_id, uuid, kind, slot, model, memory_bytes, serial, pci_address, first_seen_at)
			 select $1, 'GPU-' || i, 'GPU', i, 'H100', 1, 'owners-device-serial', 'owners-pci', now() from generate_series(0, 2) i`,
			`insert into node_running (node_id, session_number, known, devices, reported_at) values ($1, 1, true, '{GPU-1}', now())`,
		} {
			if _, err := tx.Exec(ctx, sql, n); err != nil {
				return err
			}
		}
		return nil
	})
	booked := b.as(third, `mutation($n: ID!) { reservationCreate(input: { tenantId: "third", nodeId: $n, devices: ["GPU-0"], startsAt: "2031-02-03T04:05:06Z", endsAt: "2031-02-04T04:05:06Z", reason: "thirds-words" }) {
		reservation { id } } }`, object{"n": n})
	require.Empty(b, booked.Errors)
	own := b.as(guest, `mutation($n: ID!) { reservationCreate(input: { tenantId: "guest", nodeId: $n, devices: ["GPU-1"], durationSeconds: 60 }) {
		reservation { id } } }`, object{"n": n})
	require.Empty(b, own.Errors)
	drained := b.as(b.tokenFor("olga-of-acme", "acme", time.Hour), `mutation($i: NodeDrainInput!) { nodeDrain(input: $i) { changed } }`,
		object{"i": object{"tenantId": "acme", "nodeId": n, "reason": "owners-words", "requestId": "owners-request"}})
	require.Empty(b, drained.Errors)
	for _, more := range []object{
		{"add": []string{"owners-taint"}}, {"remove": []string{"owners-taint"}}, {"set": []object{{"key": "owners-new", "value": "owners-value"}}}, {"remove": []string{"owners-new"}},
	} {
		name := "nodeTaint"
		if more["set"] != nil || more["remove"] != nil && more["remove"].([]string)[0] == "owners-new" {
			name = "nodeLabel"
		}
		b.act(b.tokenFor("olga-of-acme", "acme", time.Hour), name, input(object{"tenantId": "acme", "nodeId": n, "reason": "owners-words"}, more)).at(b)
	}
	b.do(func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, `insert into node_reasons (node_id, reason, owner, by, message, since)
			values ($1, 'taint:dedicated=third', 'operator', 'olga-of-acme', 'owners-words', now()), ($1, 'taint:dedicated=fourth', 'operator', 'olga-of-acme', null, now())`, n)
		return err
	})
	return n
}

func TestGuest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.shared()
	guest := b.tokenFor("gus", "guest", time.Hour)
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()

	t.Run("I5 every field of a node and of its events, walked by a guest, holds nothing of the other tenants", func(t *testing.T) {
		t.Parallel()
		// What the contract gives to whoever sees the node: whose machine it is.
		open := []string{".tenantId", ".pool.tenantId", ".pool.name", ".pool.id"}
		secret := []string{
			"olga", "theo", "third", "fourth", "acme", "gpus", "owners-", "thirds-", "ses_owners", "gw_owners", "2031-",
			b.only(`select id from reservations where tenant_id = 'third'`), b.only(`select id from allocations where tenant_id = 'third'`), b.pool,
		}
		node, event := everything(schema, schema.Types["ComputeNode"], "ComputeNode"), everything(schema, schema.Types["Event"], "Event")
		for name, query := range map[string]string{
			"node":   `query($n: ID!) { node(tenantId: "guest", nodeId: $n) ` + node + ` }`,
			"nodes":  `query($n: ID!) { nodes(tenantId: "guest", first: 1, filter: { nodeIds: [$n] }) { nodes ` + node + ` } }`,
			"events": `query($n: ID!) { events(tenantId: "guest", nodeId: $n, first: 9) { nodes ` + event + ` } }`,
		} {
			a := b.as(guest, query, object{"n": n})
			require.Empty(t, a.Errors, name)
			seen := 0
			texts(a.Data, name, func(path, text string) {
				seen++
				if slices.ContainsFunc(open, func(o string) bool { return strings.HasSuffix(path, o) }) {
					return
				}
				for _, s := range secret {
					require.NotContains(t, text, s, path)
				}
			})
			require.Greater(t, seen, 20, "the walk saw the node")
		}
		// The owner's own walk does hold it: the words above are in the right places.
		whole, err := json.Marshal(b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) `+node+` }`, object{"n": n}).Data)
		require.NoError(t, err)
		for _, s := range []string{"olga-of-acme", "owners-words", "owners-value", "owners-serial", "owners-gpu", "owners-boot", "owners-agent", "gw_owners", "third", "2031-", "owners-request", "owners-device-serial", "owners-pci"} {
			require.Contains(t, string(whole), s)
		}
	})

	t.Run("I5 a guest finds the node by the reasons that it reads, and by no other", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"reasons", "taints"} {
			cut := ""
			if name == "taints" {
				cut = "taint:"
			}
			for reason, found := range map[string]int{
				"draining": 1, "taint:dedicated": 1, "taint:dedicated=third": 0, "taint:dedicated=fourth": 0, "taint:dedicated=guest": 0, "unreachable": 0,
			} {
				if !strings.HasPrefix(reason, cut) {
					continue
				}
				a := b.as(guest, `query($f: NodeFilter) { nodes(tenantId: "guest", filter: $f) { nodes { id } } }`,
					object{"f": object{name: []string{strings.TrimPrefix(reason, cut)}, "nodeIds": []string{n}}})
				require.Len(t, a.at(t, "nodes", "nodes"), found, "%s: %s", name, reason)
			}
		}
	})

	t.Run("I5 a guest's list of allocations holds its own only", func(t *testing.T) {
		t.Parallel()
		list := b.as(guest, `query($n: ID!) { node(tenantId: "guest", nodeId: $n) { allocations(live: false) { nodes { tenantId future } } } }`, object{"n": n}).
			at(t, "node", "allocations", "nodes")
		require.Equal(t, []any{object{"tenantId": "guest", "future": false}}, list)
	})

	t.Run("I5 a guest asks the gate for itself only, waits for its own, and counts the others", func(t *testing.T) {
		t.Parallel()
		const one = `query($n: ID!, $t: ID) { node(tenantId: "guest", nodeId: $n) {
			placeable(tenantId: $t) { placeable because } noScheduleReasons liveAllocationCount drain { blockers { tenantId } expectedAt } controls { enabled } } }`
		got := b.as(guest, one, object{"n": n}).at(t, "node").(object)
		require.Equal(t, b.as(guest, one, object{"n": n, "t": "guest"}).at(t, "node", "placeable"), got["placeable"], "naming nobody is asking for oneself")
		require.Equal(t, []any{"draining", "taint:dedicated"}, got["noScheduleReasons"])
		require.Equal(t, 2.0, got["liveAllocationCount"])
		require.Equal(t, object{"blockers": []any{object{"tenantId": "guest"}}, "expectedAt": nil}, got["drain"])
		for _, c := range got["controls"].([]any) {
			require.Equal(t, object{"enabled": false}, c)
		}
		require.Equal(t, "FORBIDDEN", b.as(guest, one, object{"n": n, "t": "third"}).code(t))
	})

	t.Run("I5 of another tenant's allocation the owner learns that it is there and until when, its own holder also since when", func(t *testing.T) {
		t.Parallel()
		held := func(token, tenant string) []any {
			return b.as(token, `query($n: ID!, $t: ID!) { node(tenantId: $t, nodeId: $n) { allocations { nodes { id reservationId tenantId startsAt endsAt live } } } }`,
				object{"n": n, "t": tenant}).at(t, "node", "allocations", "nodes").([]any)
		}
		seen := held(b.tokenFor("olga-of-acme", "acme", time.Hour), "acme")
		require.Len(t, seen, 2)
		for _, a := range seen {
			a := a.(object)
			require.NotNil(t, a["endsAt"])
			delete(a, "endsAt")
			require.Equal(t, object{"id": nil, "reservationId": nil, "tenantId": nil, "startsAt": nil, "live": true}, a)
		}
		own := held(guest, "guest")
		require.Len(t, own, 1)
		require.NotNil(t, own[0].(object)["startsAt"])
	})

	t.Run("I5 of a device a guest learns whether it is held; the owner also by what and until when, and the holder that it is its own", func(t *testing.T) {
		t.Parallel()
		devices := func(token, tenant string) []any {
			return b.as(token, `query($n: ID!, $t: ID!) { node(tenantId: $t, nodeId: $n) { devices { uuid held inUse allocations { reservationId endsAt future devices } } } }`,
				object{"n": n, "t": tenant}).at(t, "node", "devices").([]any)
		}
		own := b.only(`select id from reservations where tenant_id = 'guest'`)
		ends := b.only(`select to_char(ends_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') from allocations where tenant_id = 'guest'`)
		booked := object{"reservationId": nil, "endsAt": "2031-02-04T04:05:06.000000Z", "future": true, "devices": []any{"GPU-0"}}
		holds := object{"reservationId": nil, "endsAt": ends, "future": false, "devices": []any{"GPU-1"}}
		require.Equal(t, []any{
			object{"uuid": "GPU-0", "held": false, "inUse": false, "allocations": []any{booked}},
			object{"uuid": "GPU-1", "held": true, "inUse": true, "allocations": []any{holds}},
			object{"uuid": "GPU-2", "held": false, "inUse": false, "allocations": []any{}},
		}, devices(b.tokenFor("olga-of-acme", "acme", time.Hour), "acme"))
		mine := object{"reservationId": own, "endsAt": ends, "future": false, "devices": []any{"GPU-1"}}
		require.Equal(t, []any{
			object{"uuid": "GPU-0", "held": false, "inUse": nil, "allocations": []any{}},
			object{"uuid": "GPU-1", "held": true, "inUse": nil, "allocations": []any{mine}},
			object{"uuid": "GPU-2", "held": false, "inUse": nil, "allocations": []any{}},
		}, devices(guest, "guest"))
		third := devices(b.tokenFor("theo-of-third", "third", time.Hour), "third")
		require.Equal(t, object{"uuid": "GPU-1", "held": true, "inUse": nil, "allocations": []any{}}, third[1])
	})

	t.Run("I5 a guest can do nothing that needs OWNER", func(t *testing.T) {
		t.Parallel()
		walked := 0
		for _, f := range schema.Mutation.Fields {
			in := schema.Types[f.Arguments[0].Type.Name()]
			if !strings.HasPrefix(f.Name, "node") || in.Fields.ForName("nodeId") == nil {
				continue
			}
			walked++
			a := b.as(guest, "mutation($i: "+in.Name+"!) { "+f.Name+"(input: $i) { __typename } }", object{"i": input(object{"tenantId": "guest", "nodeId": n}, operatorControls[f.Name])})
			require.Equal(t, "FORBIDDEN", a.code(t), f.Name)
		}
		require.GreaterOrEqual(t, walked, 3)
	})
}

// only gives the one text that a query selects.
func (b *bundle) only(sql string) string {
	b.Helper()
	var s string
	require.NoError(b, b.db.Pool().QueryRow(b.Context(), sql).Scan(&s))
	return s
}
