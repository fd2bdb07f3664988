package cli_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/vektah/gqlparser/v2/ast"
)

// manyFake is what the fake server knows of controls of many nodes.
type manyFake struct {
	operations []object
	results    map[any][]object // by operation, all that there will be
	held       int              // with a bound: how many results an operation has before it waits for release
	selections map[any][]string
}

var manyFields = []string{
	"nodeSelectionCreate", "nodesCordon", "nodesUncordon", "nodesDrain", "nodesTaint", "nodesLabel", "nodesAdopt", "nodesOperationStop",
}

// actMany does what a mutation about many nodes says. What ghost-… is called can't be changed.
func (f *fake) actMany(field string, input object) (object, any) {
	switch field {
	case "nodeSelectionCreate":
		filter, _ := input["filter"].(object)
		var ids []string
		for _, n := range f.nodes {
			if cordoned, ok := filter["cordoned"].(bool); !ok || n["cordoned"] == cordoned {
				ids = append(ids, n["id"].(string))
			}
		}
		if expect := number(input["expectCount"]); expect != len(ids) {
			return nil, failed("CONFLICT", fmt.Sprintf("%d nodes match and not %d, so nothing was selected", len(ids), expect), object{"expected": expect, "actual": len(ids)})
		}
		selection := fmt.Sprintf("sel_01k5wjb4s8fpvb0q9f6m3h2%03d", len(f.many.selections))
		if f.many.selections == nil {
			f.many.selections = map[any][]string{}
		}
		f.many.selections[selection] = ids
		return object{
			"selection": object{"id": selection, "count": len(ids), "createdAt": "2026-11-29T14:00:00Z", "expiresAt": "2026-11-29T15:00:00Z"}, "cursor": f.cursor(len(f.log)),
		}, nil
	case "nodesOperationStop":
		o := f.operation(input["operationId"])
		if o == nil {
			return nil, failed("NOT_FOUND", "no such operation", nil)
		}
		running := o["state"] == "RUNNING"
		if running {
			o["state"], o["endedBy"], o["endedAt"], o["waiting"] = "STOPPED", "alex", "2026-11-29T14:01:00Z", nil
		}
		return object{"operation": o, "changed": running, "cursor": f.cursor(len(f.log)), "warnings": []any{}}, nil
	}
	ids := f.many.selections[input["selectionId"]]
	if named, ok := input["nodeIds"].([]any); ok {
		for _, nodeID := range named {
			ids = append(ids, nodeID.(string))
		}
	}
	o := object{
		"id": fmt.Sprintf("nop_01k5wjb4s8fpvb0q9f6m3h2%03d", len(f.many.operations)), "tenantId": "acme", "control": strings.ToUpper(strings.TrimPrefix(field, "nodes")),
		"state": "RUNNING", "by": "alex", "reason": input["reason"], "maxPerPool": input["maxPerPool"], "count": len(ids), "done": 0, "unchanged": 0, "refused": 0,
		"left": len(ids), "waiting": nil, "createdAt": "2026-11-29T14:00:00Z", "endedAt": nil, "endedBy": nil,
	}
	f.many.operations = append(f.many.operations, o)
	if f.many.results == nil {
		f.many.results = map[any][]object{}
	}
	for _, nodeID := range ids {
		r := object{"nodeId": nodeID, "node": nil, "outcome": "REFUSED", "code": "NOT_FOUND", "message": "no node " + nodeID, "at": "2026-11-29T14:00:01Z"}
		if n := f.find(nodeID); n != nil {
			r["node"], r["outcome"], r["code"], r["message"] = object{"hostname": n["hostname"]}, "DONE", nil, nil
			if field == "nodesCordon" && n["cordoned"] == true {
				r["outcome"], r["message"] = "UNCHANGED", "cordoned already by alex"
			} else if field == "nodesCordon" {
				f.cordon(n, input["reason"])
			}
		}
		f.many.results[o["id"]] = append(f.many.results[o["id"]], r)
	}
	f.proceed(o, f.many.held)
	return object{"operation": o, "changed": true, "cursor": f.cursor(len(f.log)), "warnings": []any{}}, nil
}

func (f *fake) operation(id any) object {
	for _, o := range f.many.operations {
		if o["id"] == id {
			return o
		}
	}
	return nil
}

// proceed lets an operation come so far; 0 is its end.
func (f *fake) proceed(o object, until int) {
	all := f.many.results[o["id"]]
	if until == 0 {
		until = len(all)
	}
	done := map[any]int{}
	for _, r := range all[:until] {
		done[r["outcome"]]++
	}
	o["done"], o["unchanged"], o["refused"], o["left"] = done["DONE"], done["UNCHANGED"], done["REFUSED"], len(all)-until
	if o["waiting"] = "2 drains run, and at most 2 may"; until == len(all) {
		o["waiting"], o["state"], o["endedAt"] = nil, "DONE", "2026-11-29T14:01:00Z"
	}
}

// finishMany lets the newest operation come to its end.
func (f *fake) finishMany() {
	f.do(func() { f.proceed(f.many.operations[len(f.many.operations)-1], 0) })
}

// followMany tells of an operation as the server does.
func (f *fake) followMany(ctx context.Context, conn *websocket.Conn, id string, op *ast.OperationDefinition, field *ast.Field, args object) {
	told := 0
	if after, ok := args["after"].(string); ok {
		told, _ = strconv.Atoi(strings.TrimPrefix(after, "R."))
	}
	f.do(func() { f.subs++ })
	for first := true; ; first = false {
		f.mu.Lock()
		o := f.operation(args["operationId"])
		if o == nil {
			f.mu.Unlock()
			_ = wsjson.Write(ctx, conn, message{ID: id, Type: "error", Payload: failed("NOT_FOUND", "no such operation", nil)["errors"]})
			return
		}
		shown := o["done"].(int) + o["unchanged"].(int) + o["refused"].(int)
		one := object{}
		maps.Copy(one, o)
		one["newResults"], one["cursor"] = slices.Clone(f.many.results[o["id"]][told:shown]), "R."+strconv.Itoa(shown)
		told = shown
		over, changed := o["state"] != "RUNNING", f.changed
		data := object{"data": selected(op.SelectionSet, object{field.Alias: one})}
		f.mu.Unlock()
		if (first || len(one["newResults"].([]object)) > 0 || over) && wsjson.Write(ctx, conn, message{ID: id, Type: "next", Payload: data}) != nil {
			return
		}
		if over {
			_ = wsjson.Write(ctx, conn, message{ID: id, Type: "complete"})
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
