package cli

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// TestOperations: each operation is valid by the schema, and each field that the commands read of its answer is one that it asks for.
func TestOperations(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../schema.graphqls")
	require.NoError(t, err)
	schema := gqlparser.MustLoadSchema(&ast.Source{Name: "schema.graphqls", Input: string(text)})

	// Rows of a list are smaller than a node that is looked at alone.
	row := []string{
		"holds", "identityGeneration", "devices", "checks", "lastDrain", "session", "inventory", "blockers", "endedBy", "cause",
	}
	newResults := []string{"newResults", "cursor"} // a subscription's
	cases := []struct {
		op     operation
		answer any
		absent []string
	}{
		{opViewer, struct {
			Viewer struct {
				Name    string   `json:"name"`
				Tenants []tenant `json:"tenants"`
			} `json:"viewer"`
		}{}, nil},
		{opTenants, struct {
			Tenants []doc[tenant] `json:"tenants"`
		}{}, nil},
		{opLog, struct {
			Log struct {
				Head string `json:"head"`
			} `json:"log"`
		}{}, nil},
		{opNodes, struct {
			Nodes connection[node] `json:"nodes"`
		}{}, row},
		{opNodeIDs, struct {
			Nodes struct {
				Nodes []named `json:"nodes"`
			} `json:"nodes"`
		}{}, []string{"name"}},
		{opNode, struct {
			Node *doc[node] `json:"node"`
		}{}, nil},
		{opNodeDrains, struct {
			Node *struct {
				Drain     *drain `json:"drain"`
				LastDrain *drain `json:"lastDrain"`
			} `json:"node"`
		}{}, nil},
		{opNodeDevices, struct {
			Node *struct {
				Devices []device `json:"devices"`
			} `json:"node"`
		}{}, nil},
		{opDrains, struct {
			Drains connection[drainOfNode] `json:"drains"`
		}{}, []string{"totalCount", "asOf"}},
		{opDrainPlan, struct {
			Plan doc[drainPlan] `json:"drainPlan"`
		}{}, nil},
		{opEvents, struct {
			Events connection[event] `json:"events"`
		}{}, []string{"totalCount", "asOf"}},
		{opPools, struct {
			Pools []doc[pool] `json:"pools"`
		}{}, nil},
		{opReservations, struct {
			Reservations connection[reservation] `json:"reservations"`
		}{}, []string{"totalCount", "asOf"}},
		{opJoinTokens, struct {
			JoinTokens connection[joinToken] `json:"joinTokens"`
		}{}, []string{"totalCount", "asOf"}},
		{opJoinTokenRevoke, struct {
			Payload joinTokenRevoked `json:"joinTokenRevoke"`
		}{}, nil},
		{opTenantCreate, struct {
			Payload tenantPayload `json:"tenantCreate"`
		}{}, nil},
		{opPoolCreate, struct {
			Payload poolPayload `json:"poolCreate"`
		}{}, nil},
		{opNodeCordon, struct {
			Payload nodePayload `json:"nodeCordon"`
		}{}, nil},
		{opNodeUncordon, struct {
			Payload nodePayload `json:"nodeUncordon"`
		}{}, nil},
		{opNodeDrain, struct {
			Payload nodePayload `json:"nodeDrain"`
		}{}, nil},
		{opNodeTaint, struct {
			Payload nodePayload `json:"nodeTaint"`
		}{}, nil},
		{opNodeAdopt, struct {
			Payload nodePayload `json:"nodeAdopt"`
		}{}, nil},
		{opNodeDelete, struct {
			Payload doc[deletePayload] `json:"nodeDelete"`
		}{}, nil},
		{opNodeLabel, struct {
			Payload nodePayload `json:"nodeLabel"`
		}{}, nil},
		{opSelectionCreate, struct {
			Payload struct {
				Selection struct {
					ID string `json:"id"`
				} `json:"selection"`
			} `json:"nodeSelectionCreate"`
		}{}, nil},
		{opNodesCordon, struct {
			Payload operationPayload `json:"nodesCordon"`
		}{}, newResults},
		{opNodesUncordon, struct {
			Payload operationPayload `json:"nodesUncordon"`
		}{}, newResults},
		{opNodesDrain, struct {
			Payload operationPayload `json:"nodesDrain"`
		}{}, newResults},
		{opNodesTaint, struct {
			Payload operationPayload `json:"nodesTaint"`
		}{}, newResults},
		{opNodesLabel, struct {
			Payload operationPayload `json:"nodesLabel"`
		}{}, newResults},
		{opNodesAdopt, struct {
			Payload operationPayload `json:"nodesAdopt"`
		}{}, newResults},
		{opOperationStop, struct {
			Payload operationPayload `json:"nodesOperationStop"`
		}{}, newResults},
		{opOperations, struct {
			Operations connection[operationState] `json:"nodesOperations"`
		}{}, append([]string{"totalCount", "asOf"}, newResults...)},
		{opOperation, struct {
			Operation doc[operationState] `json:"nodesOperation"`
		}{}, newResults},
		{opFollowOperation, struct {
			Operation operationState `json:"nodesOperation"`
		}{}, nil},
		{opReservationCreate, struct {
			Payload reservationPayload `json:"reservationCreate"`
		}{}, nil},
		{opReservationRelease, struct {
			Payload reservationPayload `json:"reservationRelease"`
		}{}, nil},
		{opJoinTokenCreate, struct {
			Payload joinTokenPayload `json:"joinTokenCreate"`
		}{}, nil},
		{opNodeEvents, struct {
			NodeEvents doc[event] `json:"nodeEvents"`
		}{}, nil},
	}
	checked := map[string]bool{}
	for _, c := range cases {
		checked[c.op.name] = true
		t.Run(c.op.name, func(t *testing.T) {
			t.Parallel()
			document, errs := gqlparser.LoadQueryWithRules(schema, c.op.text, rules.NewDefaultRules())
			require.Empty(t, errs)
			require.Len(t, document.Operations, 1)
			require.Equal(t, c.op.name, document.Operations[0].Name)
			reads(t, c.op.name, reflect.TypeOf(c.answer), document.Operations[0].SelectionSet, c.absent)
		})
	}
	for paragraph := range strings.SplitSeq(operationsText, "\n\n") {
		kind, rest, _ := strings.Cut(strings.TrimSpace(paragraph), " ")
		if kind == "query" || kind == "mutation" || kind == "subscription" {
			name := rest[:strings.IndexAny(rest, " (")]
			require.True(t, checked[name], "%s is not checked", name)
		}
	}
}

// reads wants every member that the type reads to be selected.
func reads(t *testing.T, path string, kind reflect.Type, set ast.SelectionSet, absent []string) {
	t.Helper()
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct {
		return
	}
	if v, ok := kind.FieldByName("v"); ok {
		reads(t, path, v.Type, set, absent)
		return
	}
	selected := map[string]*ast.Field{}
	gather(set, selected)
	for i := range kind.NumField() {
		if !kind.Field(i).IsExported() {
			continue // made of the answer as a whole
		}
		name := kind.Field(i).Tag.Get("json")
		require.NotEmpty(t, name, "%s.%s has no name", path, kind.Field(i).Name)
		field, ok := selected[name]
		if !ok {
			require.Contains(t, absent, name, "%s reads %s, which is not asked for", path, name)
			continue
		}
		if len(field.SelectionSet) > 0 {
			reads(t, path+"."+name, kind.Field(i).Type, field.SelectionSet, absent)
		}
	}
}

func gather(set ast.SelectionSet, into map[string]*ast.Field) {
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			into[s.Alias] = s
		case *ast.FragmentSpread:
			gather(s.Definition.SelectionSet, into)
		case *ast.InlineFragment:
			gather(s.SelectionSet, into)
		}
	}
}
