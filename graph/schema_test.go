package graph_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

func loadSchema(t *testing.T) *ast.Schema {
	t.Helper()
	text, err := os.ReadFile("../schema.graphqls")
	require.NoError(t, err)
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "schema.graphqls", Input: string(text)})
	require.NoError(t, err)
	return schema
}

// ours gives the types that the schema itself defines, by name.
func ours(schema *ast.Schema) []*ast.Definition {
	var out []*ast.Definition
	for _, name := range slices.Sorted(maps.Keys(schema.Types)) {
		if d := schema.Types[name]; !d.BuiltIn {
			out = append(out, d)
		}
	}
	return out
}

func fields(d *ast.Definition) ast.FieldList {
	return slices.DeleteFunc(slices.Clone(d.Fields), func(f *ast.FieldDefinition) bool { return strings.HasPrefix(f.Name, "__") })
}

// nouns begin the names of mutations: what comes after is the verb.
var nouns = []string{"node", "nodes", "joinToken", "reservation", "tenant", "pool"}

// sharedInputs begin the names of the inputs of mutations that share one.
var sharedInputs = map[string]string{
	"nodesCordon": "NodesControl", "nodesUncordon": "NodesControl", "nodesDrain": "NodesControl", "nodesTaint": "NodesControl", "nodesLabel": "NodesControl",
	"nodesAdopt": "NodesControl",
}

// withoutTenant are the root fields that are about who asks rather than about a tenant.
var withoutTenant = []string{"viewer", "tenants", "eventCatalogue"}

func TestSchemaStyle(t *testing.T) {
	t.Parallel()
	schema := loadSchema(t)

	t.Run("Everything has a description, as a sentence", func(t *testing.T) {
		t.Parallel()
		described := func(what, text string) {
			require.NotEmpty(t, text, "%s has no description", what)
			require.Regexp(t, `[.:]$`, text, "the description of %s ends as a sentence does", what)
		}
		for _, d := range ours(schema) {
			described(d.Name, d.Description)
			for _, v := range d.EnumValues {
				described(d.Name+"."+v.Name, v.Description)
				require.Regexp(t, `^[A-Z][A-Z_]*$`, v.Name)
			}
			for _, f := range fields(d) {
				described(d.Name+"."+f.Name, f.Description)
				for _, a := range f.Arguments {
					described(d.Name+"."+f.Name+"("+a.Name+")", a.Description)
				}
			}
		}
	})

	t.Run("A mutation is noun first, takes one input with a request id, and gives a payload with a cursor that may be null as a whole", func(t *testing.T) {
		t.Parallel()
		used := map[string]bool{}
		for _, m := range fields(schema.Mutation) {
			require.True(t, slices.ContainsFunc(nouns, func(noun string) bool {
				verb, ok := strings.CutPrefix(m.Name, noun)
				return ok && verb != "" && verb[0] >= 'A' && verb[0] <= 'Z'
			}), "%s begins with a noun", m.Name)
			name := strings.ToUpper(m.Name[:1]) + m.Name[1:]
			if shared, ok := sharedInputs[m.Name]; ok {
				name = shared
			}
			require.Len(t, m.Arguments, 1, m.Name)
			require.Equal(t, "input: "+name+"Input!", m.Arguments[0].Name+": "+m.Arguments[0].Type.String())
			input := schema.Types[name+"Input"]
			require.NotNil(t, input.Fields.ForName("requestId"), "%s has a requestId", input.Name)
			require.Equal(t, "ID", input.Fields.ForName("requestId").Type.String())
			require.Equal(t, "ID!", input.Fields.ForName("tenantId").Type.String())
			used[input.Name] = true
			require.False(t, m.Type.NonNull, "%s is nullable, so that one that fails leaves its siblings' data", m.Name)
			payload := schema.Types[m.Type.Name()]
			require.True(t, strings.HasSuffix(payload.Name, "Payload"), payload.Name)
			require.Equal(t, "Cursor!", payload.Fields.ForName("cursor").Type.String())
		}
		for _, d := range ours(schema) {
			if d.Kind == ast.InputObject {
				require.True(t, used[d.Name] || strings.HasSuffix(d.Name, "Filter") || d.Name == "LabelMatch" || d.Name == "LabelInput", "%s is the input of a mutation, or a part of one", d.Name)
			}
		}
	})

	t.Run("A control takes version and reason, and gives what it did", func(t *testing.T) {
		t.Parallel()
		for _, m := range fields(schema.Mutation) {
			if m.Type.Name() != "NodePayload" {
				continue
			}
			input := schema.Types[m.Arguments[0].Type.Name()]
			for name, kind := range map[string]string{"tenantId": "ID!", "nodeId": "ID!", "version": "Int", "reason": "String"} {
				require.Equal(t, kind, input.Fields.ForName(name).Type.String(), "%s.%s", input.Name, name)
			}
		}
		for name, kind := range map[string]string{"node": "ComputeNode!", "changed": "Boolean!"} {
			require.Equal(t, kind, schema.Types["NodePayload"].Fields.ForName(name).Type.String())
		}
	})

	t.Run("Queries and subscriptions name the tenant that asks", func(t *testing.T) {
		t.Parallel()
		for _, root := range []*ast.Definition{schema.Query, schema.Subscription} {
			for _, f := range fields(root) {
				if !slices.Contains(withoutTenant, f.Name) {
					require.NotNil(t, f.Arguments.ForName("tenantId"), f.Name)
					require.Equal(t, "ID!", f.Arguments.ForName("tenantId").Type.String(), f.Name)
				}
			}
		}
	})

	t.Run("Each event has what Event has, with a cursor, and a field's name has one type across all families", func(t *testing.T) {
		t.Parallel()
		event := schema.Types["Event"]
		require.Equal(t, "Cursor!", event.Fields.ForName("cursor").Type.String())
		types := map[string]string{}
		families := schema.GetPossibleTypes(event)
		require.Greater(t, len(families), 3)
		for _, d := range families {
			for _, f := range event.Fields {
				require.Equal(t, f.Type.String(), d.Fields.ForName(f.Name).Type.String(), "%s.%s", d.Name, f.Name)
			}
			for _, f := range fields(d) {
				if known, ok := types[f.Name]; ok {
					require.Equal(t, known, f.Type.String(), "%s.%s", d.Name, f.Name)
				}
				types[f.Name] = f.Type.String()
			}
		}
	})

	t.Run("A connection offers nodes beside edges, and is asked by first and after", func(t *testing.T) {
		t.Parallel()
		connections := 0
		for _, d := range ours(schema) {
			if of, ok := strings.CutSuffix(d.Name, "Connection"); ok {
				connections++
				entry := schema.Types[of+"Edge"]
				require.NotNil(t, entry, d.Name)
				require.Equal(t, "[NAME!]! [NODE!]! PageInfo!", strings.NewReplacer(entry.Name, "NAME", entry.Fields.ForName("node").Type.Name(), "NODE").Replace(
					fmt.Sprint(d.Fields.ForName("edges").Type, " ", d.Fields.ForName("nodes").Type, " ", d.Fields.ForName("pageInfo").Type)), d.Name)
				require.Equal(t, "Cursor!", entry.Fields.ForName("cursor").Type.String())
			}
			for _, f := range fields(d) {
				if !strings.HasSuffix(f.Type.Name(), "Connection") {
					continue
				}
				first, after := f.Arguments.ForName("first"), f.Arguments.ForName("after")
				require.NotNil(t, first, f.Name)
				require.Equal(t, "Int! = 50", first.Type.String()+" = "+first.DefaultValue.String(), f.Name)
				require.Equal(t, "Cursor", after.Type.String(), f.Name)
				require.True(t, f.Type.NonNull)
			}
		}
		require.Greater(t, connections, 4)
	})
}

// deviations are where the schema differs from the contract, and why.
var deviations = map[string]string{
	"Hold.since":                         "nullable: since when a node is in maintenance, or in a provision state, is not recorded yet",
	"Subscription.nodesOperation(after)": "more than the contract names: a subscriber that comes back goes on after the results that it has",
}

// open are the contract's parts that the schema doesn't hold yet, since what they tell doesn't exist yet.
var open = map[string]string{
	"Query.fleetMap": "comes with the console's map",
}

// TestSchemaContract compares with testdata/contract.graphqls: names and shapes that the schema must hold once the behaviour exists.
func TestSchemaContract(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/contract.graphqls")
	require.NoError(t, err)
	contract, err := parser.ParseSchema(&ast.Source{Name: "contract.graphqls", Input: string(text)})
	require.NoError(t, err)
	schema := loadSchema(t)
	stage := stages(string(text))
	met := map[string]bool{}
	var wrong []string
	differs := func(what, want, got string) {
		if want == got {
			return
		}
		if met[what] = true; deviations[what] == "" {
			wrong = append(wrong, what+": the contract says "+want+", the schema "+got)
		}
	}
	absent := func(what string, due bool) {
		if met[what] = true; due && open[what] == "" {
			wrong = append(wrong, what+": the contract has it, the schema does not")
		}
	}
	for _, d := range contract.Definitions {
		got := schema.Types[d.Name]
		if got == nil {
			due := d.Kind != ast.InputObject && d.Kind != ast.Object // those come with the field that uses them
			absent(d.Name, due)
			continue
		}
		differs(d.Name, string(d.Kind), string(got.Kind))
		for _, v := range d.EnumValues {
			if got.EnumValues.ForName(v.Name) == nil {
				absent(d.Name+"."+v.Name, true)
			}
		}
		for _, v := range got.EnumValues {
			if d.Kind == ast.Enum && d.EnumValues.ForName(v.Name) == nil {
				differs(d.Name+"."+v.Name, "nothing", "a value")
			}
		}
		for _, f := range d.Fields {
			name := d.Name + "." + f.Name
			g := got.Fields.ForName(f.Name)
			if g == nil {
				absent(name, stage[name] == "" || stage[name] == "1")
				continue
			}
			differs(name, f.Type.String()+value(f.DefaultValue), g.Type.String()+value(g.DefaultValue))
			for _, a := range f.Arguments {
				if h := g.Arguments.ForName(a.Name); h == nil {
					absent(name+"("+a.Name+")", true)
				} else {
					differs(name+"("+a.Name+")", a.Type.String()+value(a.DefaultValue), h.Type.String()+value(h.DefaultValue))
				}
			}
			for _, a := range g.Arguments {
				if f.Arguments.ForName(a.Name) == nil {
					differs(name+"("+a.Name+")", "nothing", a.Type.String())
				}
			}
		}
	}
	require.Empty(t, wrong, strings.Join(wrong, "\n"))
	for _, listed := range slices.Concat(slices.Collect(maps.Keys(deviations)), slices.Collect(maps.Keys(open))) {
		require.True(t, met[listed], "%s is listed and no longer so", listed)
	}
}

func value(v *ast.Value) string {
	if v == nil {
		return ""
	}
	return " = " + v.String()
}

var (
	typeLine  = regexp.MustCompile(`^(?:type|input|interface) (\w+)`)
	fieldLine = regexp.MustCompile(`^  (\w+)[(:].*# \[(\d)\]`)
)

// stages reads the marks of the contract: which part of the work a field comes with.
func stages(contract string) map[string]string {
	out := map[string]string{}
	in := ""
	for line := range strings.Lines(contract) {
		if m := typeLine.FindStringSubmatch(line); m != nil {
			in = m[1]
		}
		if m := fieldLine.FindStringSubmatch(line); m != nil {
			out[in+"."+m[1]] = m[2]
		}
	}
	return out
}

// TestSchemaAnswers asks every query, with every field of what it gives, of the real handler: there is nothing in the schema without an answer.
func TestSchemaAnswers(t *testing.T) {
	t.Parallel()
	schema := loadSchema(t)
	b := setup(t)
	b.authority()
	n := b.node()
	booked := b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { reservation { id } } }`, object{"n": n})
	b.control("nodeDrain", object{"tenantId": "acme", "nodeId": n, "reason": "PSU"}).at(t, "nodeDrain")
	b.query(`mutation($p: ID!) { joinTokenCreate(input: { tenantId: "acme", poolId: $p }) { cursor } }`, object{"p": b.pool}).at(t, "joinTokenCreate")
	b.exec(`insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
		values ($1, 'ses', 1, 'gw', 'boot', '1.2.3', '{}', 0, now())`, n)
	b.exec(`insert into node_inventory (node_id, session_number, reported_at, facts, hash) values ($1, 1, now(),
		'{"cpu": {"threads": 128}, "memoryBytes": 1, "fileSystems": [{"path": "/", "kind": "ext4", "sizeBytes": 5}], "gpus": [{"uuid": "GPU-1", "model": "H100"}]}', '')`, n)
	b.exec(`insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, issued_at, not_before, not_after)
		values ('0a', $1, 'ACTIVE', 1, 'key', '', now(), now(), now() + interval '1 day')`, n)
	selected := b.query(`mutation($n: [ID!]) { nodeSelectionCreate(input: { tenantId: "acme", nodeIds: $n }) { selection { id } } }`, object{"n": []string{n}}).
		at(t, "nodeSelectionCreate", "selection", "id")
	begun := b.query(`mutation($s: ID) { nodesCordon(input: { tenantId: "acme", selectionId: $s }) { operation { id } } }`, object{"s": selected}).
		at(t, "nodesCordon", "operation", "id")
	given := map[string]string{
		"selectionId": fmt.Sprintf("%q", selected), "operationId": fmt.Sprintf("%q", begun), "control": "CORDON",
		"tenantId": `"acme"`, "nodeId": `"` + n + `"`, "poolId": `"` + b.pool + `"`, "first": "2",
		"reservationId": fmt.Sprintf("%q", booked.at(t, "reservationCreate", "reservation", "id")),
	}
	for _, q := range fields(schema.Query) {
		t.Run(q.Name, func(t *testing.T) {
			t.Parallel()
			a := b.query("{ "+whole(schema, q, given, nil)+" }", nil)
			require.Empty(t, a.Errors)
			require.NotNil(t, a.Data[q.Name])
		})
	}
}

// whole writes a selection of a field with everything under it, but no type inside itself.
func whole(schema *ast.Schema, f *ast.FieldDefinition, given map[string]string, path []string) string {
	var args []string
	for _, a := range f.Arguments {
		if v, ok := given[a.Name]; ok && (a.Type.NonNull || a.Name == "tenantId") {
			args = append(args, a.Name+": "+v)
		}
	}
	text := f.Name
	if len(args) > 0 {
		text += "(" + strings.Join(args, ", ") + ")"
	}
	d := schema.Types[f.Type.Name()]
	if len(d.Fields) == 0 {
		return text
	}
	path = append(slices.Clone(path), d.Name)
	text += " { __typename"
	for _, child := range fields(d) {
		if !slices.Contains(path, child.Type.Name()) && child.Name != "edges" && child.Name != "newResults" { // a subscription's
			text += " " + whole(schema, child, given, path)
		}
	}
	if d.Kind == ast.Interface {
		for _, family := range schema.GetPossibleTypes(d) {
			text += " ... on " + family.Name + " {"
			for _, child := range fields(family) {
				if d.Fields.ForName(child.Name) == nil {
					text += " " + whole(schema, child, given, path)
				}
			}
			text += " __typename }"
		}
	}
	return text + " }"
}

// TestSeedClient: each method of the seed's client that exists is one operation of the API, by the same words and with the same argument names.
func TestSeedClient(t *testing.T) {
	t.Parallel()
	schema := loadSchema(t)
	for method, args := range map[string][]string{
		"ON-2.2 client.nodes.cordon":   {"tenantId", "nodeId", "reason", "version"},
		"ON-2.2 client.nodes.uncordon": {"tenantId", "nodeId", "reason", "version"},
		"ON-3.9 client.nodes.drain":    {"tenantId", "nodeId", "reason", "version"},
		"ON-4.16 client.nodes.taint":   {"tenantId", "nodeId", "add", "remove"},
		"ON-5.9 client.nodes.label":    {"tenantId", "nodeId", "set", "remove"},
		"ON-12.12 client.nodes.delete": {"tenantId", "nodeId", "reason", "version"},
		"ON-3.9 client.nodes.get":      {"tenantId", "nodeId"},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			verb := method[strings.LastIndex(method, ".")+1:]
			if verb == "get" {
				f := schema.Query.Fields.ForName("node")
				for _, a := range args {
					require.NotNil(t, f.Arguments.ForName(a), a)
				}
				require.Equal(t, "ComputeNode", f.Type.Name())
				return
			}
			f := schema.Mutation.Fields.ForName("node" + strings.ToUpper(verb[:1]) + verb[1:])
			require.NotNil(t, f)
			input := schema.Types[f.Arguments.ForName("input").Type.Name()]
			for _, a := range args {
				require.NotNil(t, input.Fields.ForName(a), a)
			}
			payload := schema.Types[f.Type.Name()].Fields
			if verb == "delete" { // there is no node to give
				require.Equal(t, []string{"ID!", "Boolean!"}, []string{payload.ForName("nodeId").Type.String(), payload.ForName("deleted").Type.String()})
				return
			}
			require.Equal(t, "ComputeNode", payload.ForName("node").Type.Name(), "it gives the node")
		})
	}
	// What the seed's poll reads of the node.
	for _, field := range []string{"cordoned", "noScheduleReasons"} {
		require.NotNil(t, schema.Types["ComputeNode"].Fields.ForName(field))
	}
}
