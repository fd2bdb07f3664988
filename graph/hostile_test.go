package graph_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/graph"
	"github.com/better-compute/better-compute/id"
)

// hostile are values that no argument is made for. A type's own come first.
func hostile(schema *ast.Schema, d *ast.Type) map[string]any {
	long := strings.Repeat("x", 100_000)
	values := map[string]any{"null": nil, "wrong type": object{"a": 1}}
	if d.Elem != nil {
		for name, v := range hostile(schema, d.Elem) {
			values["list of "+name] = []any{v}
		}
		values["many"] = slices.Repeat([]any{"x"}, 5000)
		return values
	}
	switch named := schema.Types[d.NamedType]; {
	case named.Kind == ast.InputObject:
		values["unknown field"] = object{"nonsense": true}
	case named.Name == "Int":
		maps.Copy(values, map[string]any{
			"negative": -1, "zero": 0, "largest": 1<<31 - 1, "33 bits": int64(1) << 32, "beyond": 1e30, "half": 0.5, "text": "1",
		})
	case named.Name == "Boolean":
		values["text"] = "true"
	default:
		if named.Name == "String" {
			values["number"] = 5
		}
		maps.Copy(values, map[string]any{
			"empty": "", "huge": long, "NUL": "a\x00b", "escape": "a\x1b[2Jb", "line end": "a\nb", "C1 control": "a\u0085b", "blank": " ", "a sign": "-", "wildcard": "%_",
			"quote": `'; drop table nodes; --`, "umlaut": "schön", "emoji": "👩‍🔧", "right to left": "a\u202eb", "noncharacter": "\uffff",
			"a far time": "9999-12-31T23:59:59.999999Z", "before time": "0000-01-01T00:00:00Z", "a list's cursor": "I." + id.New(id.Node), "the log's cursor": "TAAAAAAAAAAAAAAAAAAAAAA",
		})
	}
	return values
}

// mustRefuse says which of them can't pass, wherever they stand.
func mustRefuse(d *ast.Type, value string, changes bool) bool {
	name := value
	for d.Elem != nil && strings.HasPrefix(name, "list of ") {
		name, d = strings.TrimPrefix(name, "list of "), d.Elem
	}
	switch name {
	case "null":
		return d.NonNull
	case "wrong type", "unknown field", "33 bits", "beyond", "half", "text", "number", "NUL", "escape", "line end", "C1 control":
		return true
	case "huge":
		return changes || d.NamedType != "String"
	}
	return false
}

// places gives the path of every argument, with its type, and of every field of its input types; a type stands once on each path.
func places(schema *ast.Schema, args ast.ArgumentDefinitionList, say func(path []string, d *ast.Type)) {
	var fields func(path []string, d *ast.Type, above []string)
	fields = func(path []string, d *ast.Type, above []string) {
		say(path, d)
		if of := schema.Types[d.Name()]; of.Kind == ast.InputObject && !slices.Contains(above, of.Name) {
			for _, f := range of.Fields {
				fields(append(slices.Clone(path), f.Name), f.Type, append(slices.Clone(above), of.Name))
			}
		}
	}
	for _, a := range args {
		fields([]string{a.Name}, a.Type, nil)
	}
}

// put gives the arguments with a value at a path. What is missing on the way is made; a list on the way has one entry.
func put(schema *ast.Schema, usual func(name string) any, into object, path []string, types []*ast.Type, v any) {
	if len(path) == 1 {
		into[path[0]] = v
		return
	}
	inner, _ := into[path[0]].(object)
	if inner == nil {
		inner = object{}
		for _, f := range schema.Types[types[0].Name()].Fields {
			named := f.Name == "nodeIds" && types[0].Name() == "NodesControlInput" // which takes them or a selection
			if f.Type.NonNull && f.DefaultValue == nil || named {
				inner[f.Name] = usual(f.Name)
			}
		}
	}
	put(schema, usual, inner, path[1:], types[1:], v)
	into[path[0]] = inner
	if types[0].Elem != nil {
		into[path[0]] = []any{inner}
	}
}

// usual gives a value that an argument is made for, by its name; a text is another one each time.
func (b *bundle) usual(nodeID string) func(name string) any {
	b.Helper()
	head, serial := b.query(`{ log(tenantId: "acme") { head } }`, nil).at(b, "log", "head"), 0
	return func(name string) any {
		serial++
		switch name {
		case "tenantId":
			return "acme"
		case "nodeId":
			return nodeID
		case "nodeIds":
			return []string{nodeID}
		case "selectionId":
			return id.New(id.Selection)
		case "operationId":
			return id.New(id.Operation)
		case "poolId":
			return b.pool
		case "reservationId":
			return id.New(id.Reservation)
		case "joinTokenId":
			return id.New(id.JoinToken)
		case "after":
			return head
		case "add":
			return []string{"rma-pending"}
		case "set":
			return []object{{"key": "rack", "value": "b7"}}
		}
		return fmt.Sprintf("any-%d", serial)
	}
}

// TestHostileArguments: whatever stands in whichever argument, the answer is in order or has a code of the closed list that is no fault of ours, and a
// refusal changes nothing.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.authority()
	root := b.tokenFor("root", "", time.Hour)
	n := b.node()
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()
	usual := b.usual(n)
	state := func() (s string) {
		b.later.Wait() // looks at drains that were begun
		require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select concat_ws(' ', (select position from event_clock), (select sum(version) from nodes),
			(select count(*) from reservations), (select count(*) from join_tokens), (select count(*) from pools), (select count(*) from tenants),
			(select count(*) from requests), (select count(*) from node_drains), (select count(*) from node_selections), (select count(*) from node_operations))`).Scan(&s))
		return s
	}
	tried, refused := 0, 0
	try := func(where, op string, variables object, must bool) {
		t.Helper()
		before := state()
		a := b.as(root, op, variables)
		tried++
		if len(a.Errors) == 0 {
			require.False(t, must, "%s is taken: %s", where, op)
			return
		}
		refused++
		for _, e := range a.Errors {
			code := fault.Code(e.Extensions.Code)
			require.Contains(t, fault.Codes(), code, where)
			require.NotContains(t, []fault.Code{fault.Internal, fault.Unavailable, fault.Unauthenticated}, code, "%s: %s", where, e.Message)
			require.NotEmpty(t, e.Message, where)
			require.Less(t, len(e.Message), 800, where)
			if must {
				require.Contains(t, []fault.Code{fault.InvalidInput, fault.ResourceExhausted}, code, "%s: %s", where, e.Message)
			}
		}
		require.Equal(t, before, state(), "%s: %s changed something", where, a.Errors[0].Message)
	}
	// each tries all values in all places of a field's arguments; wrap makes an operation of a call.
	each := func(kind string, f *ast.FieldDefinition, run func(where string, declared, passed []string, variables object, must bool)) {
		places(schema, f.Arguments, func(path []string, d *ast.Type) {
			types, of := []*ast.Type{f.Arguments.ForName(path[0]).Type}, f.Arguments.ForName(path[0]).Type
			for _, p := range path[1:] {
				of = schema.Types[of.Name()].Fields.ForName(p).Type
				types = append(types, of)
			}
			for name, v := range hostile(schema, d) {
				variables := object{}
				var declared, passed []string
				for _, a := range f.Arguments {
					if a.Type.NonNull && a.DefaultValue == nil && a.Name != "input" {
						variables[a.Name] = usual(a.Name)
					}
				}
				put(schema, usual, variables, path, types, v)
				for _, a := range f.Arguments {
					if _, there := variables[a.Name]; there {
						declared, passed = append(declared, "$"+a.Name+": "+a.Type.String()), append(passed, a.Name+": $"+a.Name)
					}
				}
				run(kind+" "+f.Name+"."+strings.Join(path, ".")+" = "+name, declared, passed, variables,
					mustRefuse(d, name, kind == "mutation" && !slices.Contains(path, "filter"))) // which finds nothing by it
			}
		})
	}
	selected := func(f *ast.FieldDefinition) string {
		if schema.Types[f.Type.Name()].IsLeafType() {
			return ""
		}
		return " { __typename }"
	}
	for kind, fields := range map[string]ast.FieldList{"query": schema.Query.Fields, "mutation": schema.Mutation.Fields} {
		for _, f := range fields {
			if len(f.Arguments) == 0 || strings.HasPrefix(f.Name, "__") {
				continue
			}
			each(kind, f, func(where string, declared, passed []string, variables object, must bool) {
				try(where, fmt.Sprintf("%s(%s) { %s(%s)%s }", kind, strings.Join(declared, ", "), f.Name, strings.Join(passed, ", "), selected(f)), variables, must)
			})
		}
	}
	for _, f := range schema.Types["ComputeNode"].Fields {
		if len(f.Arguments) == 0 {
			continue
		}
		each("field", f, func(where string, declared, passed []string, variables object, must bool) {
			try(where, fmt.Sprintf(`query(%s) { node(tenantId: "acme", nodeId: %q) { %s(%s)%s } }`,
				strings.Join(declared, ", "), n, f.Name, strings.Join(passed, ", "), selected(f)), variables, must)
		})
	}
	require.Greater(t, tried, 1000)
	require.Greater(t, refused, 500)

	// A subscription that can't be is refused in the same way, and none of them stays.
	conn, err := b.dial(root, nil)
	require.NoError(t, err)
	for _, f := range schema.Subscription.Fields {
		each("subscription", f, func(where string, declared, passed []string, variables object, must bool) {
			if !must {
				return
			}
			s := b.subscribeOn(conn, "1", fmt.Sprintf("subscription(%s) { %s(%s)%s }", strings.Join(declared, ", "), f.Name, strings.Join(passed, ", "), selected(f)), variables)
			require.Contains(t, []string{"INVALID_INPUT", "RESOURCE_EXHAUSTED"}, s.refusal(), where)
			require.Equal(t, "complete", s.next().Type, where)
		})
	}
	require.Zero(t, b.api.Log.Stats().Followers)
	require.NotContains(t, b.log.String(), "panic")
	require.NotContains(t, b.log.String(), `"code":"INTERNAL"`)
	var nodes int
	require.NoError(t, b.db.Pool().QueryRow(context.WithoutCancel(t.Context()), "select count(*) from nodes").Scan(&nodes))
	require.Equal(t, 1, nodes)
}
