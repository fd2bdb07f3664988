package graph_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
)

func TestEventCatalogue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	// The command line's fragment asks for every field of every family.
	fragment, err := os.ReadFile("../cli/events.graphql")
	require.NoError(t, err)

	t.Run("The API's catalogue is the code's, with an example that reads like the API", func(t *testing.T) {
		t.Parallel()
		const query = `{ eventCatalogue { type family when actor readers fields { name type always reduced description } example } }`
		list := b.query(query, nil).at(t, "eventCatalogue").([]any)
		require.Len(t, list, len(events.Catalogue()))
		for i, k := range events.Catalogue() {
			row := list[i].(object)
			require.Equal(t, []any{k.Type, k.Family, string(k.Readers)}, []any{row["type"], row["family"], row["readers"]})
			var example object
			require.NoError(t, json.Unmarshal([]byte(row["example"].(string)), &example))
			fields := row["fields"].([]any)
			require.Len(t, fields, len(k.Fields))
			require.Len(t, example, len(k.Fields)+1)
			for _, f := range fields {
				require.Contains(t, example, f.(object)["name"])
			}
		}
		require.Equal(t, "UNAUTHENTICATED", b.as("", `{ eventCatalogue { type } }`, nil).code(t))
	})

	t.Run("An event of each type comes as its family, whole for its owner, reduced for who merely sees the node, none as opaque JSON", func(t *testing.T) {
		t.Parallel()
		head := b.query(`{ log(tenantId: "acme") { head } }`, nil).at(t, "log", "head")
		b.do(func(_ context.Context, tx *db.Tx) error {
			for _, k := range events.Catalogue() {
				e := events.Entry{
					Type: k.Type, TenantID: "acme", NodeID: n, Actor: "alex", Reason: "because", Data: k.Example(),
					Audience: events.Audience{Full: []string{"acme"}},
				}
				if k.Readers == events.ToNodeTenants || k.Readers == events.ToHolder {
					e.Audience.Reduced = []string{"other"}
				}
				if err := events.Append(tx, e); err != nil {
					return err
				}
			}
			return nil
		})
		query := `query($t: ID!, $after: Cursor) { events(tenantId: $t, order: OLDEST_FIRST, first: 500, after: $after) { nodes { __typename ...EventFields } } }` +
			"\n" + string(fragment)
		all := b.as(b.token, query, object{"t": "acme", "after": head}).at(t, "events", "nodes").([]any)
		// Other subtests write to the same log meanwhile.
		all = slices.DeleteFunc(all, func(e any) bool { return e.(object)["nodeId"] != n })
		kinds := events.Catalogue()
		require.Len(t, all, len(kinds))
		for i, k := range kinds {
			got := all[i].(object)
			require.Equal(t, []any{k.Type, k.Family, "because"}, []any{got["type"], got["__typename"], got["reason"]})
			example := exampleOf(t, b, k.Type)
			for _, f := range k.Fields {
				require.Equal(t, example[f.API()], sameTime(got[f.API()], f.Shape), "%s.%s", k.Type, f.API())
			}
		}
		reduced := b.as(b.tokenFor("eve", "other", time.Hour), query, object{"t": "other", "after": nil}).at(t, "events", "nodes").([]any)
		byType := map[string]object{}
		for _, e := range reduced {
			if e := e.(object); e["nodeId"] == n {
				byType[e["type"].(string)] = e
			}
		}
		for _, k := range kinds {
			got, ok := byType[k.Type]
			require.Equal(t, k.Readers == events.ToNodeTenants || k.Readers == events.ToHolder, ok, "%s is seen by who it is for", k.Type)
			if !ok {
				continue
			}
			require.Equal(t, []any{"operator", nil, nil}, []any{got["actor"], got["reason"], got["requestId"]}, k.Type)
			for _, f := range k.Fields {
				require.Equal(t, f.Reduced, got[f.API()] != nil, "%s.%s", k.Type, f.API())
			}
		}
	})

	t.Run("Events are picked by whole type, by prefix, by node, by actor and by time, together", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n, "reason": "one"}).at(t, "nodeCordon")
		b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeUncordon")
		b.control("nodeDrain", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeDrain")
		const query = `query($n: ID, $types: [String!], $actor: String, $since: DateTime, $until: DateTime) {
			events(tenantId: "acme", nodeId: $n, types: $types, actor: $actor, since: $since, until: $until, order: OLDEST_FIRST) { nodes { type at nodeId } } }`
		pick := func(more object) []string {
			t.Helper()
			v := object{"n": n}
			maps.Copy(v, more)
			var types []string
			for _, e := range b.query(query, v).at(t, "events", "nodes").([]any) {
				require.Equal(t, n, e.(object)["nodeId"])
				types = append(types, e.(object)["type"].(string))
			}
			return types
		}
		require.Equal(t, []string{"node.cordoned", "node.uncordoned"}, pick(object{"types": []string{"node.cordoned", "node.uncordoned"}}))
		require.Equal(t, []string{"node.cordoned"}, pick(object{"types": []string{"node.cordoned", "security."}}))
		require.Subset(t, pick(object{"types": []string{"node."}}), []string{"node.cordoned", "node.uncordoned", "node.draining"})
		require.Empty(t, pick(object{"types": []string{"node.cord."}}), "a prefix ends at a dot")
		require.Equal(t, []string{"node.cordoned", "node.uncordoned", "node.draining"}, pick(object{"actor": "alex"}))
		require.Empty(t, pick(object{"actor": "sam"}))
		at := b.query(query, object{"n": n, "types": []string{"node.uncordoned"}}).at(t, "events", "nodes").([]any)[0].(object)["at"]
		require.Equal(t, []string{"node.cordoned"}, pick(object{"actor": "alex", "until": at}))
		require.Equal(t, []string{"node.uncordoned", "node.draining"}, pick(object{"actor": "alex", "since": at}))
	})

	t.Run("The guide has a section for each type", func(t *testing.T) {
		t.Parallel()
		guide, err := os.ReadFile("../docs/events.md")
		require.NoError(t, err)
		for _, k := range events.Catalogue() {
			require.Contains(t, string(guide), "\n### "+k.Type+"\n")
		}
	})
}

// exampleOf reads the catalogue's example of a type.
func exampleOf(t *testing.T, b *bundle, eventType string) object {
	t.Helper()
	list := b.query(`{ eventCatalogue { type example } }`, nil).at(t, "eventCatalogue").([]any)
	i := slices.IndexFunc(list, func(row any) bool { return row.(object)["type"] == eventType })
	var example object
	require.NoError(t, json.Unmarshal([]byte(list[i].(object)["example"].(string)), &example))
	return example
}

// sameTime cuts the microseconds that the API writes from a moment that has none.
func sameTime(v any, s events.Shape) any {
	if text, ok := v.(string); ok && s == events.ShapeDateTime {
		return strings.Replace(text, ".000000Z", "Z", 1)
	}
	return v
}
