package events_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/events"
)

// whole is an entry that the catalogue has nothing against.
func whole(k *events.Kind) events.Entry {
	e := events.Entry{Type: k.Type, TenantID: "acme", NodeID: "node_a", Actor: "alex", Audience: events.Audience{Full: []string{"acme"}}}
	if k.Readers == events.ToNodeTenants || k.Readers == events.ToHolder {
		e.Audience.Reduced = []string{"globex"}
	}
	return e
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	everyEvents := []string{"id", "cursor", "type", "at", "nodeId", "actor", "reason", "node", "requestId", "data"}

	t.Run("Each type stands once, under a family, with sentences and an example that fits it", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for _, k := range events.Catalogue() {
			require.False(t, seen[k.Type], k.Type)
			seen[k.Type] = true
			require.NoError(t, events.CheckTypes("types", []string{k.Type}))
			require.NotEqual(t, events.Generic, k.Family, "%s: its shape is known", k.Type)
			require.Regexp(t, `\.$`, k.When, k.Type)
			require.Regexp(t, `\.$`, k.Actor, k.Type)
			require.NotEmpty(t, k.Readers.Sentence(), k.Type)
			for _, f := range k.Fields {
				require.NotNil(t, f.Example, "%s.%s", k.Type, f.Name)
				require.Regexp(t, `\.$`, f.Doc, "%s.%s", k.Type, f.Name)
			}
			require.NoError(t, events.Check(whole(k), k.Example()), k.Type)
			require.Same(t, k, events.Find(k.Type))
		}
		require.Len(t, seen, strings.Count(rows(t), "Type: \""), "two rows of one type")
	})

	t.Run("A field has one shape and one promise under its name in the API, and one name in the data of a family", func(t *testing.T) {
		t.Parallel()
		type api struct {
			shape    events.Shape
			promised bool
		}
		shapes, names := map[string]api{}, map[string]string{}
		for _, k := range events.Catalogue() {
			for _, f := range k.Fields {
				require.NotContains(t, everyEvents, f.API(), "%s: every event has a field of that name", k.Type)
				require.Regexp(t, regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`), f.API())
				is := api{f.Shape, f.Promised}
				if known, ok := shapes[f.API()]; ok {
					require.Equal(t, known, is, "%s.%s", k.Type, f.API())
				}
				shapes[f.API()] = is
				if known, ok := names[k.Family+"."+f.API()]; ok {
					require.Equal(t, known, f.Name, "%s.%s", k.Type, f.API())
				}
				names[k.Family+"."+f.API()] = f.Name
				if f.Promised {
					require.True(t, f.Always, "%s.%s is promised", k.Type, f.Name)
					require.True(t, f.Reduced || k.Readers == events.ToOwner || k.Readers == events.ToSecurity, "%s.%s is promised to every reader", k.Type, f.Name)
				}
			}
		}
	})

	t.Run("What a reduced reader gets of an event stands in it", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"drainId", "confirmedByNode"}, events.ReducedFields("node.drained"))
		require.Empty(t, events.ReducedFields("node.cordoned"))
		require.Empty(t, events.ReducedFields("node.never-heard-of"))
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	drained := whole(events.Find("node.drained"))
	for name, c := range map[string]struct {
		change func(e *events.Entry)
		data   string
		want   string
	}{
		"a type that isn't in it":       {func(e *events.Entry) { e.Type = "node.drianed" }, `{}`, "not in the catalogue: add its row"},
		"a field that isn't in it":      {nil, `{"drainId":"drn_1","confirmedByNode":true,"more":1}`, `has no field "more"`},
		"a field that is missing":       {nil, `{"drainId":"drn_1"}`, `"confirmedByNode" is missing`},
		"a field that is null":          {nil, `{"drainId":null,"confirmedByNode":true}`, `"drainId" is null`},
		"an id that is empty":           {nil, `{"drainId":"","confirmedByNode":true}`, `"drainId" is no ID`},
		"another shape":                 {nil, `{"drainId":"drn_1","confirmedByNode":"yes"}`, `"confirmedByNode" is no Boolean`},
		"data that is no object":        {nil, `[1]`, "its data is no object"},
		"no node":                       {func(e *events.Entry) { e.NodeID = "" }, `{"drainId":"drn_1","confirmedByNode":true}`, "names no node"},
		"readers that it is not for":    {func(e *events.Entry) { e.Type, e.Audience.Reduced = "pool.created", []string{"globex"} }, `{"poolId":"pool_1","name":"x"}`, "for owners only"},
		"an enum in lower case":         {func(e *events.Entry) { e.Type = "node.reconnected" }, `{"sessionId":"s","gateway":"g","was":"unreachable"}`, "is not in upper case"},
		"a number that is no whole one": {func(e *events.Entry) { e.Type = "node.inventory" }, `{"gpus":1.5,"labels":1}`, `"gpus" is no Int`},
	} {
		t.Run("An entry is refused for "+name, func(t *testing.T) {
			t.Parallel()
			e := drained
			if c.change != nil {
				c.change(&e)
			}
			require.ErrorContains(t, events.Check(e, []byte(c.data)), c.want)
		})
	}

	t.Run("An absent field that need not be there, and a type that a test made up, are fine", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, events.Check(whole(events.Find("node.uncordoned")), []byte(`{}`)))
		require.NoError(t, events.Check(whole(events.Find("node.uncordoned")), []byte(`{"cancelledDrainId":null}`)))
		require.NoError(t, events.Check(events.Entry{Type: "test.any"}, []byte(`{"a":[]}`)))
		require.NoError(t, events.Check(events.Entry{Type: "security.test.any"}, []byte(`{}`)))
	})
}

// FuzzCheck: no data makes the check panic, and what passes it is an object.
func FuzzCheck(f *testing.F) {
	for _, k := range events.Catalogue() {
		f.Add(k.Type, []byte(k.Example()))
	}
	f.Add("node.drained", []byte(`{"drainId":{},"confirmedByNode":null}`))
	f.Fuzz(func(t *testing.T, eventType string, data []byte) {
		k := events.Find(eventType)
		if k == nil {
			return
		}
		if events.Check(whole(k), data) == nil {
			require.NoError(t, json.Unmarshal(data, new(map[string]json.RawMessage)))
		}
	})
}
