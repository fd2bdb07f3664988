package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// Names that the tests use.
const (
	testToken = "a-token-of-the-tests"
	nodeA     = "node_01k5wjb4s8fpvb0q9f6m3h2c7d"
	nodeB     = "node_01k5wjb4s8fpvb0q9f6m3h2c8e"
	poolP     = "pool_01k5wjb4s8fpvb0q9f6m3h2c9f"
	resR      = "res_01k5wjb4s8fpvb0q9f6m3h2caa"
)

var schema = sync.OnceValue(func() *ast.Schema {
	text, err := os.ReadFile("../schema.graphqls")
	if err != nil {
		panic(err)
	}
	return gqlparser.MustLoadSchema(&ast.Source{Name: "schema.graphqls", Input: string(text)})
})

type object = map[string]any

// fake is a GraphQL server with just enough of a mind to be a partner for the commands: it validates every operation and its variables against
// schema.graphqls, answers exactly what was selected, keeps a log with cursors, and can be stopped, started again on its port, and told to fail.
type fake struct {
	addr string

	mu        sync.Mutex
	server    *http.Server
	conns     map[*websocket.Conn]struct{}
	streams   sync.WaitGroup
	cancel    context.CancelFunc
	changed   chan struct{} // closed and made anew whenever anything changes
	nodes     []object
	pools     []object
	tenants   []object
	reserved  []object
	tokens    []object
	log       []object
	oldest    int
	drains    int
	seen      map[string]object // answers by request id
	failures  []failure
	ops       []string
	proxied   []int       // answers to the next attempts at a stream
	input     object      // of the newest mutation
	subs      int         // subscriptions that have begun, ever
	begun     []time.Time // and when
	again     bool        // sends the event at the cursor once more
	dropAfter int         // answers of mutations that are still lost on their way
	many      manyFake
}

type failure struct {
	status int
	code   string
	text   string
	detail object
}

func newFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{
		conns: map[*websocket.Conn]struct{}{}, changed: make(chan struct{}), seen: map[string]object{},
		tenants: []object{{"id": "acme", "createdAt": "2026-11-01T08:00:00Z"}},
		pools:   []object{{"id": poolP, "tenantId": "acme", "name": "default", "createdAt": "2026-11-01T08:00:00Z"}},
		nodes:   []object{newNode(nodeA, "gpu-01", 7), newNode(nodeB, "gpu-02", 3)},
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = listener.Addr().String()
	f.serve(listener)
	t.Cleanup(f.stop)
	return f
}

func newNode(id, hostname string, version int) object {
	return object{
		"id": id, "key": strings.Repeat("ab", 32), "tenantId": "acme",
		"pool":     object{"id": poolP, "name": "default"},
		"hostname": hostname, "version": version, "provisionState": "ADOPTED", "failure": nil, "cordoned": false, "cordon": nil,
		"noScheduleReasons": []any{}, "holds": []any{}, "maintenance": false,
		"connectivity": "CONNECTED", "connectivitySince": "2026-11-29T12:00:00Z", "identityGeneration": 1,
		"labels": []any{object{"key": "rack", "value": "b7", "source": "OPERATOR"}, object{"key": "cpu.arch", "value": "amd64", "source": "INVENTORY"}},
		"drain":  nil, "lastDrain": nil, "lastSeen": "2026-11-29T13:59:50Z",
		"session": object{
			"gateway": "gw-1", "since": "2026-11-29T12:00:00Z", "endedAt": nil, "agentVersion": "0.1.0", "bootId": "b", "clockSkewMs": 0,
		},
		"placeable": object{"placeable": true, "because": []any{}}, "placeableFor": "ALL", "statusSentence": "in service", "outSince": nil,
		"controls":            []any{object{"control": "cordon", "action": "compute:nodes:cordon", "enabled": true, "because": nil}},
		"checks":              []any{},
		"liveAllocationCount": 0, "devices": []any{newDevice("GPU-1", 0), newDevice("GPU-2", 1)}, "inventory": object{
			"reportedAt": "2026-11-29T12:00:00Z", "stale": false, "os": "Debian 12", "kernel": "6.1.0", "vendor": nil, "model": nil, "serial": nil,
			"cpuModel": "EPYC 9554", "cpuArch": "amd64", "cpuCores": 64, "cpuThreads": 128, "memoryBytes": "824633720832",
			"gpus": []any{object{"uuid": "GPU-1", "model": "H100", "memoryBytes": "85899345920"}}, "gpuNote": nil,
			"storageRoots": []any{object{"path": "/", "fsType": "ext4", "sizeBytes": "1"}},
		}, "createdAt": "2026-11-20T09:00:00Z",
	}
}

func newDevice(uuid string, slot int) object {
	return object{
		"uuid": uuid, "kind": "GPU", "slot": slot, "model": "H100", "memoryBytes": "85899345920", "held": false, "inUse": false, "missingSince": nil,
		"allocations": []any{},
	}
}

func (f *fake) url() string { return "http://" + f.addr }

func (f *fake) serve(listener net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /graphql", f.post)
	mux.HandleFunc("GET /graphql", func(w http.ResponseWriter, r *http.Request) { f.stream(ctx, w, r) })
	mux.HandleFunc("POST /session/link", f.link)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	f.mu.Lock()
	f.server, f.cancel = server, cancel
	f.mu.Unlock()
	f.streams.Go(func() { _ = server.Serve(listener) })
}

// stop is what SIGKILL does to a server: every connection breaks without a word.
func (f *fake) stop() {
	f.mu.Lock()
	server, cancel := f.server, f.cancel
	f.server = nil
	for conn := range f.conns {
		_ = conn.CloseNow()
	}
	f.mu.Unlock()
	if server != nil {
		cancel()
		_ = server.Close()
	}
	f.streams.Wait()
}

// start makes it listen again on the port it had.
func (f *fake) start(t interface{ Fatalf(string, ...any) }) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", f.addr)
	if err != nil {
		t.Fatalf("listen again on %s: %v", f.addr, err)
	}
	f.serve(listener)
}

// do changes the state and wakes whoever waits for a change.
func (f *fake) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// until waits for a condition on the state.
func (f *fake) until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for {
		f.mu.Lock()
		ok, changed := holds(), f.changed
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// taken gives the operations since it was asked last.
func (f *fake) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ops := f.ops
	f.ops = nil
	return ops
}

type request struct {
	Query         string `json:"query"`
	OperationName string `json:"operationName"`
	Variables     object `json:"variables"`
}

func (f *fake) post(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", "Sun, 29 Nov 2026 14:00:00 GMT")
	w.Header().Set("Content-Type", "application/json")
	var asked request
	decoder := json.NewDecoder(r.Body)
	decoder.UseNumber()
	if err := decoder.Decode(&asked); err != nil || r.Header.Get("Content-Type") != "application/json" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+testToken {
		_ = json.NewEncoder(w).Encode(failed("UNAUTHENTICATED", "this token does not count", nil))
		return
	}
	var answer any
	status := http.StatusOK
	lost := false
	f.do(func() {
		f.ops = append(f.ops, asked.OperationName)
		if len(f.failures) > 0 {
			one := f.failures[0]
			f.failures = f.failures[1:]
			status, answer = one.status, failed(one.code, one.text, one.detail)
			return
		}
		answer = f.answer(asked)
		if strings.HasPrefix(asked.Query, "mutation") && f.dropAfter > 0 {
			f.dropAfter--
			lost = true
		}
	})
	if lost {
		panic(http.ErrAbortHandler)
	}
	if status != http.StatusOK {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// link makes a one-time link, whose secret is a word of its own.
func (f *fake) link(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Authorization") != "Bearer "+testToken {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(object{"code": "UNAUTHENTICATED", "message": "this token does not count"})
		return
	}
	_ = json.NewEncoder(w).Encode(object{"secret": "once"})
}

func failed(code, text string, detail object) object {
	extensions := object{"code": code, "requestId": "req-42"}
	if detail != nil {
		extensions["details"] = detail
	}
	return object{"data": nil, "errors": []any{object{"message": text, "extensions": extensions}}}
}

// parse refuses whatever the schema doesn't hold.
func parse(asked request) (*ast.OperationDefinition, object, error) {
	document, errs := gqlparser.LoadQueryWithRules(schema(), asked.Query, rules.NewDefaultRules())
	if len(errs) > 0 {
		return nil, nil, errs
	}
	op := document.Operations.ForName(asked.OperationName)
	variables, err := validator.VariableValues(schema(), op, asked.Variables)
	if err != nil {
		if refused, ok := errors.AsType[*gqlerror.Error](err); ok {
			return nil, nil, refused
		}
		return nil, nil, fmt.Errorf("variables: %w", err)
	}
	return op, variables, nil
}

func (f *fake) answer(asked request) any {
	op, variables, err := parse(asked)
	if err != nil {
		return failed("INVALID_INPUT", "the operation is not valid: "+err.Error(), nil)
	}
	data := object{}
	for _, selection := range op.SelectionSet {
		field, _ := selection.(*ast.Field)
		value, refused := f.root(field.Name, field.ArgumentMap(variables))
		if refused != nil {
			return refused
		}
		data[field.Alias] = value
	}
	return object{"data": selected(op.SelectionSet, data)}
}

// selected gives the members that the selection names, in its order.
func selected(set ast.SelectionSet, from object) json.RawMessage {
	var parts []string
	var add func(set ast.SelectionSet)
	add = func(set ast.SelectionSet) {
		for _, selection := range set {
			switch s := selection.(type) {
			case *ast.FragmentSpread:
				if fits(s.Definition.TypeCondition, from) {
					add(s.Definition.SelectionSet)
				}
			case *ast.InlineFragment:
				if fits(s.TypeCondition, from) {
					add(s.SelectionSet)
				}
			case *ast.Field:
				value, ok := from[s.Name]
				if !ok && s.Definition.Type.NonNull {
					panic("the fake holds no " + s.Name)
				}
				parts = append(parts, strconv.Quote(s.Alias)+":"+string(rendered(s.SelectionSet, value)))
			}
		}
	}
	add(set)
	return json.RawMessage("{" + strings.Join(parts, ",") + "}")
}

// fits says whether an object of the log is of the type; all other objects have but one.
func fits(condition string, from object) bool {
	name, ok := from["__typename"].(string)
	return !ok || condition == "Event" || condition == name
}

func rendered(set ast.SelectionSet, value any) json.RawMessage {
	switch v := value.(type) {
	case json.RawMessage:
		return v
	case object:
		if len(set) > 0 && v != nil {
			return selected(set, v)
		}
	case []object:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = string(rendered(set, one))
		}
		return json.RawMessage("[" + strings.Join(parts, ",") + "]")
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = string(rendered(set, one))
		}
		return json.RawMessage("[" + strings.Join(parts, ",") + "]")
	}
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return b
}

func (f *fake) cursor(position int) string { return "log-" + strconv.Itoa(position) }

func (f *fake) find(id any) object {
	for _, n := range f.nodes {
		if n["id"] == id {
			return n
		}
	}
	return nil
}

// root answers one field of Query or Mutation.
func (f *fake) root(field string, args object) (any, any) {
	input, _ := args["input"].(object)
	if input != nil {
		f.input = input
		if key, ok := input["requestId"].(string); ok {
			if stored, ok := f.seen[key]; ok {
				return stored, nil
			}
			answer, refused := f.act(field, input)
			if refused == nil {
				repeat := object{}
				maps.Copy(repeat, answer)
				if field == "joinTokenCreate" {
					repeat["secret"], repeat["joinCommand"] = nil, nil
				}
				f.seen[key] = repeat
				return answer, nil
			}
			return nil, refused
		}
		return nil, failed("INVALID_INPUT", "the fake wants a request id", nil)
	}
	switch field {
	case "viewer":
		return object{"name": "alex", "tenants": f.tenants}, nil
	case "tenants":
		return f.tenants, nil
	case "log":
		return object{"head": f.cursor(len(f.log)), "oldest": f.cursor(f.oldest)}, nil
	case "pools":
		return f.pools, nil
	case "node":
		n := f.find(args["nodeId"])
		if n == nil {
			return nil, failed("NOT_FOUND", "there is no such node", nil)
		}
		return n, nil
	case "nodes":
		filter, _ := args["filter"].(object)
		return page(slices.DeleteFunc(slices.Clone(f.nodes), func(n object) bool {
			cordoned, ok := filter["cordoned"].(bool)
			return ok && n["cordoned"] != cordoned
		}), args, object{"asOf": f.cursor(len(f.log))})
	case "drains":
		var list []object
		for _, n := range f.nodes {
			if d, ok := n["lastDrain"].(object); ok && (d["state"] == "DRAINING") == args["active"].(bool) {
				one := object{"node": n}
				maps.Copy(one, d)
				list = append(list, one)
			}
		}
		return page(list, args, object{})
	case "drainPlan":
		n := f.find(args["nodeId"])
		blockers := f.blockers(n)
		return object{
			"node": n, "empty": len(blockers) == 0, "liveAllocationCount": len(blockers), "blockers": blockers, "expectedAt": nil,
		}, nil
	case "nodesOperations":
		active, _ := args["active"].(bool)
		return page(slices.DeleteFunc(slices.Clone(f.many.operations), func(o object) bool { return active && o["state"] != "RUNNING" }), args, object{})
	case "nodesOperation":
		if o := f.operation(args["operationId"]); o != nil {
			return o, nil
		}
		return nil, failed("NOT_FOUND", "no such operation", nil)
	case "reservations":
		return page(f.reserved, args, object{})
	case "joinTokens":
		return page(f.tokens, args, object{})
	case "events":
		list := slices.DeleteFunc(slices.Clone(f.log), func(e object) bool { return !matches(e, args) })
		if args["order"] != "OLDEST_FIRST" {
			slices.Reverse(list)
		}
		return page(list, args, object{})
	}
	panic("the fake has no field " + field)
}

// page cuts a list as the schema says.
func page(list []object, args object, more object) (any, any) {
	first := number(args["first"])
	if first < 1 || first > 500 {
		return nil, failed("INVALID_INPUT", "first: must be 1 to 500", nil)
	}
	begin := 0
	if after, ok := args["after"].(string); ok {
		begin, _ = strconv.Atoi(strings.TrimPrefix(after, "list-"))
	}
	end := min(len(list), begin+first)
	var last any
	if end > begin {
		last = "list-" + strconv.Itoa(end)
	}
	more["nodes"], more["totalCount"] = list[begin:end], len(list)
	more["pageInfo"] = object{"hasNextPage": end < len(list), "endCursor": last}
	return more, nil
}

func number(v any) int {
	n, err := strconv.Atoi(fmt.Sprint(v))
	if err != nil {
		panic(err)
	}
	return n
}

func matches(e, args object) bool {
	if id, ok := args["nodeId"].(string); ok && e["nodeId"] != id {
		return false
	}
	types, _ := args["types"].([]any)
	if len(types) == 0 {
		return true
	}
	name, _ := e["type"].(string)
	return slices.ContainsFunc(types, func(t any) bool {
		wanted, _ := t.(string)
		return name == wanted || strings.HasSuffix(wanted, ".") && strings.HasPrefix(name, wanted)
	})
}

// act does what the mutation says, by the rules that the commands depend on.
func (f *fake) act(field string, input object) (object, any) {
	if slices.Contains(manyFields, field) {
		return f.actMany(field, input)
	}
	switch field {
	case "joinTokenCreate":
		ttl := 1800
		if asked, ok := input["ttlSeconds"]; ok {
			ttl = number(asked)
		}
		token := object{
			"id": fmt.Sprintf("jt_01k5wjb4s8fpvb0q9f6m3h2c%02d", len(f.tokens)), "pool": f.pools[0], "createdAt": "2026-11-29T14:00:00Z", "createdBy": "alex",
			"expiresAt": time.Date(2026, 11, 29, 14, 0, ttl, 0, time.UTC).Format(time.RFC3339),
			"usedAt":    nil, "usedBy": nil, "revokedAt": nil, "revokedBy": nil,
		}
		f.tokens = append(f.tokens, token)
		return object{
			"joinToken": token,
			"secret":    "bcj_sesame", "caFingerprint": strings.Repeat("cd", 32),
			"joinCommand": "bcd join --config /etc/bcd/config.toml --token-file - <<<'bcj_sesame'", "cursor": f.cursor(len(f.log)),
		}, nil
	case "joinTokenRevoke":
		for _, token := range f.tokens {
			if token["id"] != input["joinTokenId"] {
				continue
			}
			if token["usedAt"] != nil {
				return nil, failed("INVALID_STATE", "the join token was used by "+nodeA+"; revoke that node's certificate instead", object{"usedBy": nodeA})
			}
			changed := token["revokedAt"] == nil
			if changed {
				token["revokedAt"], token["revokedBy"] = "2026-11-29T14:00:05Z", "alex"
			}
			return object{"joinToken": snapshot(token), "changed": changed, "cursor": f.cursor(len(f.log))}, nil
		}
		return nil, failed("NOT_FOUND", "there is no such join token", nil)
	case "tenantCreate":
		made, changed := f.put(&f.tenants, "id", input["tenantId"], object{"id": input["tenantId"], "createdAt": "2026-11-29T14:00:00Z"})
		return object{"tenant": made, "changed": changed, "cursor": f.cursor(len(f.log))}, nil
	case "poolCreate":
		made, changed := f.put(&f.pools, "name", input["name"], object{
			"id": fmt.Sprintf("pool_01k5wjb4s8fpvb0q9f6m3h2c%02d", len(f.pools)), "tenantId": input["tenantId"], "name": input["name"],
			"createdAt": "2026-11-29T14:00:00Z",
		})
		return object{"pool": made, "changed": changed, "cursor": f.cursor(len(f.log))}, nil
	case "reservationCreate", "reservationRelease":
		return f.book(field, input)
	}
	n := f.find(input["nodeId"])
	if n == nil {
		return nil, failed("NOT_FOUND", "there is no such node", nil)
	}
	if wanted, ok := input["version"]; ok && number(wanted) != n["version"] {
		return nil, failed("CONFLICT", fmt.Sprintf("the node changed since version %v: it has %v", wanted, n["version"]),
			object{"expected": wanted, "actual": n["version"], "by": "sam"})
	}
	if reason, _ := input["reason"].(string); len([]rune(reason)) > 256 {
		return nil, failed("INVALID_INPUT", "reason: must have at most 256 characters", object{"argument": "reason", "length": len([]rune(reason))})
	}
	changed, warnings := true, []any{}
	switch field {
	case "nodeDelete":
		if n["deletedAt"] == nil && n["cordoned"] == false {
			return nil, failed("INVALID_STATE", "Cordon the adopted node first (nodes.cordon), then delete it once it holds nothing",
				object{"provisionState": "ADOPTED", "cordoned": false})
		}
		deleted := n["deletedAt"] == nil
		if n["deletedAt"] = "2026-11-29T14:00:09Z"; deleted {
			f.write("NodeDeleted", "node.deleted", n, "alex", input["reason"], nil)
		}
		return object{"nodeId": n["id"], "deleted": deleted, "cursor": f.cursor(len(f.log)), "warnings": warnings}, nil
	case "nodeCordon":
		if held, ok := n["cordon"].(object); ok && input["updateReason"] == true {
			held["reason"], held["until"] = input["reason"], input["until"]
			n["version"] = n["version"].(int) + 1
			break
		}
		if changed = n["cordoned"] == false; changed {
			f.cordon(n, input["reason"])
			n["cordon"].(object)["until"] = input["until"]
			f.write("NodeCordonEvent", "node.cordoned", n, "alex", input["reason"], nil)
		}
	case "nodeUncordon":
		if by, ok := input["ifCordonedBy"]; ok && n["cordoned"] == true && by != "alex" {
			return nil, failed("CONFLICT", fmt.Sprintf("the cordon is held by alex and not by %v; it stays", by), object{"expected": by, "actual": "alex"})
		}
		if changed = n["cordoned"] == true; changed {
			f.uncordon(n, "alex", input["reason"])
		}
	case "nodeDrain":
		if d, ok := n["drain"].(object); ok && d["state"] == "DRAINING" {
			changed = false
			break
		}
		if n["cordoned"] == false {
			f.cordon(n, input["reason"])
		} else {
			n["version"] = n["version"].(int) + 1
		}
		f.drains++
		d := object{
			"id": fmt.Sprintf("drn_01k5wjb4s8fpvb0q9f6m3h2%03d", f.drains), "state": "DRAINING", "reason": input["reason"], "by": "alex",
			"startedAt": "2026-11-29T14:00:00Z", "endedAt": nil, "endedBy": nil, "cause": nil, "blockers": f.blockers(n),
			"expectedAt": nil, "confirmedByNode": nil, "deadline": input["deadline"], "overdue": false,
		}
		n["drain"], n["lastDrain"] = d, d
		f.write("NodeDraining", "node.draining", n, "alex", input["reason"], object{"drainId": d["id"]})
	case "nodeAdopt":
		n["provisionState"], n["version"] = "ADOPTING", n["version"].(int)+1
		n["checks"] = []any{object{
			"name": "inventory", "status": "PENDING", "message": "its inventory is awaited", "evidence": []any{}, "runId": "adp_01k5wjb4s8fpvb0q9f6m3h2c7d", "bootId": nil,
			"startedAt": "2026-11-29T14:00:00Z", "endedAt": nil, "durationMs": nil,
		}}
		f.write("NodeAdoptionEvent", "node.adopting", n, "alex", input["reason"], object{"runId": "adp_01k5wjb4s8fpvb0q9f6m3h2c7d"})
	case "nodeTaint":
		changed, warnings = f.taint(n, input)
	case "nodeLabel":
		changed = f.label(n, input)
	default:
		panic("the fake has no mutation " + field)
	}
	return object{"node": snapshot(n), "changed": changed, "cursor": f.cursor(len(f.log)), "warnings": warnings}, nil
}

// taint adds and removes keys; nobody is called ghost.
func (f *fake) taint(n, input object) (changed bool, warnings []any) {
	has, _ := n["noScheduleReasons"].([]any)
	warnings = []any{}
	added, removed := []any{}, []any{}
	for _, key := range list(input["add"]) {
		if name := "taint:" + key.(string); !slices.Contains(has, any(name)) {
			has, added = append(has, name), append(added, key)
		}
		if key == "dedicated=ghost" {
			warnings = append(warnings, "there is no tenant ghost, so the node is dedicated to nobody until there is one")
		}
	}
	for _, key := range list(input["remove"]) {
		if i := slices.Index(has, any("taint:"+key.(string))); i >= 0 {
			has, removed = slices.Delete(has, i, i+1), append(removed, key)
		}
	}
	n["noScheduleReasons"] = has
	if changed = len(added)+len(removed) > 0; changed {
		n["version"] = n["version"].(int) + 1
		f.write("NodeTaintEvent", "node.tainted", n, "alex", input["reason"], object{"taintsAdded": added, "taintsRemoved": removed})
	}
	return changed, warnings
}

// label sets and removes operator's labels.
func (f *fake) label(n, input object) bool {
	has, _ := n["labels"].([]any)
	set, removed := []any{}, []any{}
	at := func(key any) int {
		return slices.IndexFunc(has, func(l any) bool { return l.(object)["key"] == key })
	}
	for _, l := range list(input["set"]) {
		want := object{"key": l.(object)["key"], "value": l.(object)["value"], "source": "OPERATOR"}
		switch i := at(want["key"]); {
		case i < 0:
			has, set = append(has, want), append(set, want)
		case has[i].(object)["value"] != want["value"]:
			has[i], set = want, append(set, want)
		}
	}
	for _, key := range list(input["remove"]) {
		if i := at(key); i >= 0 && has[i].(object)["source"] == "OPERATOR" {
			removed = append(removed, has[i])
			has = slices.Delete(has, i, i+1)
		}
	}
	n["labels"] = has
	if len(set)+len(removed) == 0 {
		return false
	}
	n["version"] = n["version"].(int) + 1
	f.write("NodeLabelEvent", "node.labeled", n, "alex", input["reason"], object{"labelsSet": set, "labelsRemoved": removed, "labelsDisplaced": []any{}})
	return true
}

// list reads an argument that may be absent.
func list(v any) []any {
	out, _ := v.([]any)
	return out
}

// put adds what is new to a list, or finds what is there by the member.
func (f *fake) put(list *[]object, member string, value any, fresh object) (object, bool) {
	for _, one := range *list {
		if one[member] == value {
			return one, false
		}
	}
	*list = append(*list, fresh)
	return fresh, true
}

func snapshot(n object) object {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	var out object
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

func (f *fake) cordon(n object, reason any) {
	n["cordoned"], n["version"] = true, n["version"].(int)+1
	n["cordon"] = object{"reason": reason, "by": "alex", "at": "2026-11-29T13:46:00Z", "until": nil, "overdue": false}
	n["statusSentence"] = "cordoned by alex"
}

func (f *fake) uncordon(n object, by string, reason any) {
	n["cordoned"], n["cordon"], n["version"], n["statusSentence"] = false, nil, n["version"].(int)+1, "in service"
	more := object{"cancelledDrainId": nil}
	if d, ok := n["drain"].(object); ok && d["state"] == "DRAINING" {
		more["cancelledDrainId"] = d["id"]
		d["state"], d["endedBy"], d["cause"], d["endedAt"] = "CANCELLED", by, "uncordoned by "+by, "2026-11-29T14:00:01Z"
	}
	n["drain"] = nil
	f.write("NodeCordonEvent", "node.uncordoned", n, by, reason, more)
}

// finish ends the node's drain as the controller does.
func (f *fake) finish(n object, confirmed bool) {
	d, _ := n["drain"].(object)
	d["state"], d["endedBy"], d["endedAt"], d["confirmedByNode"], d["blockers"] = "DRAINED", "drain-controller", "2026-11-29T14:00:02Z", confirmed, []any{}
	n["version"] = n["version"].(int) + 1
	f.write("NodeDrained", "node.drained", n, "drain-controller", d["reason"], object{"drainId": d["id"], "confirmedByNode": confirmed})
}

func (f *fake) blockers(n object) []any {
	list := []any{}
	for _, r := range f.reserved {
		for _, held := range r["allocations"].([]any) {
			if a := held.(object); a["nodeId"] == n["id"] && a["live"] == true {
				list = append(list, a)
			}
		}
	}
	return list
}

func (f *fake) book(field string, input object) (object, any) {
	if field == "reservationCreate" {
		ends, starts := input["endsAt"], input["startsAt"]
		if length, ok := input["durationSeconds"]; ok {
			ends = time.Date(2026, 11, 29, 14, 0, number(length), 0, time.UTC).Format(time.RFC3339)
		}
		if starts == nil {
			starts = "2026-11-29T14:00:00Z"
		}
		n := f.find(input["nodeId"])
		if n["cordoned"] == true {
			return nil, failed("INVALID_STATE", "nothing new lands on gpu-01: cordoned by alex", object{"cordoned": true})
		}
		devices, _ := input["devices"].([]any)
		for _, d := range n["devices"].([]any) {
			if slices.Contains(devices, d.(object)["uuid"]) {
				if d.(object)["held"] == true {
					return nil, failed("INVALID_STATE", "device GPU-1 is booked by another tenant until 2026-11-29T16:00:00Z; book it from then on, or another device", nil)
				}
				d.(object)["held"] = true
			}
		}
		id := fmt.Sprintf("%s%02d", resR[:len(resR)-2], len(f.reserved))
		r := object{
			"id": id, "tenantId": "acme", "state": "ACTIVE", "reason": input["reason"], "createdBy": "alex",
			"createdAt": "2026-11-29T14:00:00Z", "releasedAt": nil, "releasedBy": nil,
			"allocations": []any{object{
				"id": "alloc_01k5wjb4s8fpvb0q9f6m3h2cdd", "reservationId": id, "tenantId": "acme", "nodeId": n["id"], "live": true,
				"future": input["startsAt"] != nil, "startsAt": starts, "endsAt": ends, "releasedAt": nil, "endedAt": nil, "devices": append([]any{}, devices...),
			}},
		}
		f.reserved = append(f.reserved, r)
		n["liveAllocationCount"] = n["liveAllocationCount"].(int) + 1
		f.write("GenericEvent", "reservation.created", n, "alex", input["reason"], object{"data": object{"reservationId": id}})
		return object{"reservation": snapshot(r), "changed": true, "cursor": f.cursor(len(f.log))}, nil
	}
	for _, r := range f.reserved {
		if r["id"] == input["reservationId"] {
			changed := r["state"] == "ACTIVE"
			if changed {
				f.release(r)
			}
			return object{"reservation": snapshot(r), "changed": changed, "cursor": f.cursor(len(f.log))}, nil
		}
	}
	return nil, failed("NOT_FOUND", "there is no such reservation", nil)
}

// release ends a reservation; a drain whose last blocker it was ends with it.
func (f *fake) release(r object) {
	r["state"], r["releasedAt"], r["releasedBy"] = "RELEASED", "2026-11-29T14:00:03Z", "alex"
	held := r["allocations"].([]any)[0].(object)
	held["live"] = false
	n := f.find(held["nodeId"])
	f.write("GenericEvent", "reservation.released", n, "alex", nil, object{"data": object{"reservationId": r["id"]}})
	if d, ok := n["drain"].(object); ok && d["state"] == "DRAINING" {
		if d["blockers"] = f.blockers(n); len(d["blockers"].([]any)) == 0 {
			f.finish(n, true)
		}
	}
}

// write appends to the log.
func (f *fake) write(typename, name string, n object, actor string, reason any, more object) {
	position := len(f.log) + 1
	e := object{
		"__typename": typename, "id": fmt.Sprintf("evt_01k5wjb4s8fpvb0q9f6m3h%04d", position), "cursor": f.cursor(position), "type": name,
		"at": "2026-11-29T14:00:00.5Z", "nodeId": n["id"], "actor": actor, "reason": reason, "requestId": nil,
	}
	if typename == "GenericEvent" {
		e["data"] = object{}
	}
	maps.Copy(e, more)
	f.log = append(f.log, e)
}

type message struct {
	ID      string `json:"id,omitempty"`
	Type    string `json:"type"`
	Payload any    `json:"payload,omitempty"`
}

// stream is the server's half of graphql-transport-ws.
func (f *fake) stream(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	if f.server == nil {
		f.mu.Unlock()
		return
	}
	if len(f.proxied) > 0 {
		status := f.proxied[0]
		f.proxied = f.proxied[1:]
		f.mu.Unlock()
		w.WriteHeader(status)
		return
	}
	f.streams.Add(1)
	f.mu.Unlock()
	defer f.streams.Done()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	f.mu.Lock()
	dead := f.server == nil
	f.conns[conn] = struct{}{}
	f.mu.Unlock()
	if dead {
		return
	}
	defer f.do(func() { delete(f.conns, conn) })

	var init struct {
		Type    string            `json:"type"`
		Payload map[string]string `json:"payload"`
	}
	if wsjson.Read(ctx, conn, &init) != nil || init.Type != "connection_init" {
		return
	}
	if init.Payload["Authorization"] != "Bearer "+testToken {
		_ = conn.Close(4403, "this token does not count")
		return
	}
	if wsjson.Write(ctx, conn, message{Type: "connection_ack"}) != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		var got struct {
			ID      string  `json:"id"`
			Type    string  `json:"type"`
			Payload request `json:"payload"`
		}
		if wsjson.Read(ctx, conn, &got) != nil {
			return
		}
		switch got.Type {
		case "ping":
			_ = wsjson.Write(ctx, conn, message{Type: "pong"})
		case "subscribe":
			f.streams.Go(func() { f.follow(ctx, conn, got.ID, got.Payload) })
		}
	}
}

// follow sends what comes after the cursor, and then what comes.
func (f *fake) follow(ctx context.Context, conn *websocket.Conn, id string, asked request) {
	refuse := func(answer any) {
		_ = wsjson.Write(ctx, conn, message{ID: id, Type: "error", Payload: answer.(object)["errors"]})
	}
	op, variables, err := parse(asked)
	if err != nil {
		refuse(failed("INVALID_INPUT", err.Error(), nil))
		return
	}
	field, _ := op.SelectionSet[0].(*ast.Field)
	args := field.ArgumentMap(variables)
	if field.Name == "nodesOperation" {
		f.do(func() { f.ops = append(f.ops, asked.OperationName) })
		f.followMany(ctx, conn, id, op, field, args)
		return
	}
	at, err := strconv.Atoi(strings.TrimPrefix(fmt.Sprint(args["after"]), "log-"))
	if err != nil {
		refuse(failed("INVALID_INPUT", "after: must be a cursor of the log", nil))
		return
	}
	var refused any
	f.do(func() {
		f.subs++
		f.begun = append(f.begun, time.Now())
		f.ops = append(f.ops, asked.OperationName)
		if len(f.failures) > 0 {
			refused = failed(f.failures[0].code, f.failures[0].text, f.failures[0].detail)
			f.failures = f.failures[1:]
		}
		if at < f.oldest {
			refused = failed("CURSOR_EXPIRED", "the log no longer holds that position", object{"oldest": f.cursor(f.oldest)})
		}
		if f.again && at > 0 {
			at--
		}
	})
	if refused != nil {
		refuse(refused)
		return
	}
	for {
		f.mu.Lock()
		fresh, changed := slices.Clone(f.log[at:]), f.changed
		f.mu.Unlock()
		for _, e := range fresh {
			at++
			if !matches(e, args) {
				continue
			}
			data := object{"data": selected(op.SelectionSet, object{field.Alias: e})}
			if wsjson.Write(ctx, conn, message{ID: id, Type: "next", Payload: data}) != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
