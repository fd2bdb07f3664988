package graph_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/id"
)

func TestControls(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("Cordon and uncordon", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		a := b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n, "reason": "BIOS update window"})
		require.Equal(t, true, a.at(t, "nodeCordon", "changed"))
		require.Equal(t, object{"id": n, "version": 2.0, "cordoned": true}, a.at(t, "nodeCordon", "node"))
		again := b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n})
		require.Equal(t, false, again.at(t, "nodeCordon", "changed"))
		got := b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) {
			cordon { by reason at } placeableFor placeable { placeable because } statusSentence controls { control enabled because } holds { reason owner by message } } }`,
			object{"n": n}).at(t, "node").(object)
		require.Equal(t, "alex", got["cordon"].(object)["by"])
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, got["cordon"].(object)["at"])
		require.Equal(t, "NONE", got["placeableFor"])
		require.Equal(t, "cordoned by alex just now: BIOS update window", got["statusSentence"])
		require.Equal(t, []any{object{"reason": "cordon", "owner": "operator", "by": "alex", "message": "BIOS update window"}}, got["holds"])
		require.Equal(t, object{"control": "cordon", "enabled": false, "because": "the node is cordoned already"}, got["controls"].([]any)[0])
		require.Equal(t, true, b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeUncordon", "changed"))
	})

	t.Run("One field that fails leaves its sibling's data", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		a := b.query(`mutation($n: ID!, $m: ID!) {
			a: nodeCordon(input: { tenantId: "acme", nodeId: $n }) { changed }
			b: nodeCordon(input: { tenantId: "acme", nodeId: $m }) { changed } }`, object{"n": n, "m": id.New(id.Node)})
		require.Equal(t, "NOT_FOUND", a.code(t))
		require.Equal(t, object{"changed": true}, a.Data["a"])
		require.Nil(t, a.Data["b"])
	})

	t.Run("Book, drain, release: drained at once, and the seed's predicate holds", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		booked := b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n, durationSeconds: 3600, reason: "training" }) {
			reservation { id state allocations { id live future endsAt } } } }`, object{"n": n}).at(t, "reservationCreate", "reservation").(object)
		require.Equal(t, "ACTIVE", booked["state"])
		allocation := booked["allocations"].([]any)[0].(object)
		drain := b.query(`mutation($n: ID!) { nodeDrain(input: { tenantId: "acme", nodeId: $n, reason: "replace PSU" }) {
			node { drain { id state blockers { id } expectedAt confirmedByNode } noScheduleReasons liveAllocationCount } } }`, object{"n": n}).
			at(t, "nodeDrain", "node").(object)
		require.Equal(t, []any{"draining"}, drain["noScheduleReasons"])
		require.Equal(t, 1.0, drain["liveAllocationCount"])
		d := drain["drain"].(object)
		require.Equal(t, []any{object{"id": allocation["id"]}}, d["blockers"])
		require.Equal(t, allocation["endsAt"], d["expectedAt"])
		require.Nil(t, d["confirmedByNode"])
		released := b.query(`mutation($r: ID!) { reservationRelease(input: { tenantId: "acme", reservationId: $r }) { changed reservation { state } } }`,
			object{"r": booked["id"]})
		require.Equal(t, "RELEASED", released.at(t, "reservationRelease", "reservation", "state"))
		// No job runs in this test: the release's own transaction does it.
		require.Eventually(t, func() bool {
			got := b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { cordoned noScheduleReasons drain { state endedBy } } }`, object{"n": n}).at(t, "node").(object)
			reasons := got["noScheduleReasons"].([]any)
			return got["cordoned"] == true && len(reasons) == 0 && got["drain"].(object)["state"] == "DRAINED"
		}, 10*time.Second, 10*time.Millisecond)
	})
}

func TestCodes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	eve := b.tokenFor("eve", "other", time.Hour)
	const cordon = `mutation($t: ID!, $n: ID!, $v: Int, $r: String) { nodeCordon(input: { tenantId: $t, nodeId: $n, version: $v, reason: $r }) { changed } }`

	for name, c := range map[string]struct {
		token, query string
		variables    object
		code         string
	}{
		"UNAUTHENTICATED: no token":                        {"", "{ viewer { name } }", nil, "UNAUTHENTICATED"},
		"UNAUTHENTICATED: a cut token":                     {b.token[:len(b.token)-3], "{ viewer { name } }", nil, "UNAUTHENTICATED"},
		"UNAUTHENTICATED: no algorithm":                    {"eyJhbGciOiJub25lIn0." + strings.Split(b.token, ".")[1] + ".", "{ viewer { name } }", nil, "UNAUTHENTICATED"},
		"FORBIDDEN: no grant in the tenant":                {eve, cordon, object{"t": "acme", "n": n}, "FORBIDDEN"},
		"NOT_FOUND: not seen":                              {eve, cordon, object{"t": "other", "n": n}, "NOT_FOUND"},
		"NOT_FOUND: not there":                             {b.token, cordon, object{"t": "acme", "n": id.New(id.Node)}, "NOT_FOUND"},
		"CONFLICT":                                         {b.token, cordon, object{"t": "acme", "n": n, "v": 99}, "CONFLICT"},
		"INVALID_INPUT: H3 a malformed id":                 {b.token, cordon, object{"t": "acme", "n": "node_x"}, "INVALID_INPUT"},
		"INVALID_INPUT: H1 257 characters":                 {b.token, cordon, object{"t": "acme", "n": n, "r": strings.Repeat("x", 257)}, "INVALID_INPUT"},
		"INVALID_INPUT: a wrong scalar":                    {b.token, cordon, object{"t": "acme", "n": n, "v": "one"}, "INVALID_INPUT"},
		"INVALID_INPUT: an Int too large":                  {b.token, cordon, object{"t": "acme", "n": n, "v": 1e30}, "INVALID_INPUT"},
		"INVALID_INPUT: an unknown field":                  {b.token, "{ nonsense }", nil, "INVALID_INPUT"},
		"INVALID_INPUT: no GraphQL":                        {b.token, "{ viewer {", nil, "INVALID_INPUT"},
		"INVALID_INPUT: an unknown enum value":             {b.token, `{ nodes(tenantId: "acme", orderBy: BY_MOOD) { totalCount } }`, nil, "INVALID_INPUT"},
		"INVALID_INPUT: null for a default":                {b.token, `{ nodes(tenantId: "acme", first: null) { totalCount } }`, nil, "INVALID_INPUT"},
		"INVALID_INPUT: first 501":                         {b.token, `{ nodes(tenantId: "acme", first: 501) { totalCount } }`, nil, "INVALID_INPUT"},
		"INVALID_INPUT: first 0":                           {b.token, `{ events(tenantId: "acme", first: 0) { nodes { id } } }`, nil, "INVALID_INPUT"},
		"INVALID_INPUT: the log's cursor":                  {b.token, `query($c: Cursor) { nodes(tenantId: "acme", after: $c) { totalCount } }`, object{"c": "TAAAAAAAAAAAAAAAAAAAAAA"}, "INVALID_INPUT"},
		"INVALID_INPUT: a wrong time":                      {b.token, `{ events(tenantId: "acme", since: "yesterday") { nodes { id } } }`, nil, "INVALID_INPUT"},
		"FORBIDDEN: a tenant without a grant in every one": {b.token, `mutation { tenantCreate(input: { tenantId: "new" }) { changed } }`, nil, "FORBIDDEN"},
		"INVALID_INPUT: an event type":                     {b.token, `{ events(tenantId: "acme", types: ["NODE%"]) { nodes { id } } }`, nil, "INVALID_INPUT"},
		"INVALID_STATE":                                    {b.token, `mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { changed } }`, object{"n": b.cordoned()}, "INVALID_STATE"},
		"RESOURCE_EXHAUSTED: too much at once":             {b.token, `{ nodes(tenantId: "acme", first: 500) { nodes { events(first: 500) { nodes { id } } } } }`, nil, "RESOURCE_EXHAUSTED"},
		"INVALID_STATE: no certificate authority":          {b.token, `mutation($p: ID!) { joinTokenCreate(input: { tenantId: "acme", poolId: $p }) { secret } }`, object{"p": b.pool}, "INVALID_STATE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.code, b.as(c.token, c.query, c.variables).code(t))
		})
	}
	t.Run("INTERNAL shows nothing of its cause, and the log has it under the request id", func(t *testing.T) {
		t.Parallel()
		broken := setup(t)
		_, err := broken.db.Pool().Exec(t.Context(), `alter table node_labels rename to node_labels_gone`)
		require.NoError(t, err)
		broken.node()
		a := broken.query(`{ nodes(tenantId: "acme") { nodes { id } } }`, nil)
		require.Equal(t, "INTERNAL", a.code(t))
		require.NotContains(t, a.Errors[0].Message, "node_labels")
		require.Contains(t, broken.log.String(), a.Errors[0].Extensions.RequestID)
		require.Contains(t, broken.log.String(), "node_labels")
	})
	t.Cleanup(func() {
		var version int
		require.NoError(t, b.db.Pool().QueryRow(context.WithoutCancel(t.Context()), `select version from nodes where id = $1`, n).Scan(&version))
		require.Equal(t, 1, version, "a refusal changes nothing")
	})
}

// TestUnseen: for a caller without sight another tenant's node, a deleted one and one that never was are the same.
func TestUnseen(t *testing.T) { //nolint:tparallel // the statements are counted
	t.Parallel()
	counter := &statements{}
	b := setup(t, dbtest.With(counter.trace))
	eve := b.tokenFor("eve", "other", time.Hour)
	foreign, deleted, never := b.node(), b.node(), id.New(id.Node)
	b.control("nodeCordon", object{"tenantId": "acme", "nodeId": deleted}).at(t, "nodeCordon")
	b.exec(`update nodes set deleted_at = now() where id = $1`, deleted)
	b.exec(`delete from node_projection where node_id = $1`, deleted)

	for name, query := range map[string]string{
		"node":              `query($n: ID!) { node(tenantId: "other", nodeId: $n) { id } }`,
		"events":            `query($n: ID!) { events(tenantId: "other", nodeId: $n) { nodes { id } } }`,
		"nodeCordon":        `mutation($n: ID!) { nodeCordon(input: { tenantId: "other", nodeId: $n, version: 7 }) { changed } }`,
		"nodeUncordon":      `mutation($n: ID!) { nodeUncordon(input: { tenantId: "other", nodeId: $n, requestId: "u" }) { changed } }`,
		"nodeDrain":         `mutation($n: ID!) { nodeDrain(input: { tenantId: "other", nodeId: $n }) { changed } }`,
		"drainPlan":         `query($n: ID!) { drainPlan(tenantId: "other", nodeId: $n) { empty } }`,
		"nodeTaint":         `mutation($n: ID!) { nodeTaint(input: { tenantId: "other", nodeId: $n, add: ["dedicated=acme"] }) { changed } }`,
		"nodeLabel":         `mutation($n: ID!) { nodeLabel(input: { tenantId: "other", nodeId: $n, set: [{ key: "rack", value: "b7" }] }) { changed } }`,
		"nodeAdopt":         `mutation($n: ID!) { nodeAdopt(input: { tenantId: "other", nodeId: $n }) { changed } }`,
		"nodeDelete":        `mutation($n: ID!) { nodeDelete(input: { tenantId: "other", nodeId: $n, requestId: "d" }) { deleted } }`,
		"reservationCreate": `mutation($n: ID!) { reservationCreate(input: { tenantId: "other", nodeId: $n }) { changed } }`,
	} {
		t.Run("H3 "+name+": one NOT_FOUND by the same statements, and INVALID_INPUT without any for a malformed id", func(t *testing.T) {
			type seen struct {
				message    string
				statements []string
			}
			ask := func(nodeID, code string) seen {
				counter.take()
				a := b.as(eve, query, object{"n": nodeID})
				require.Equal(t, code, a.code(t))
				sent := counter.take()
				return seen{strings.ReplaceAll(a.Errors[0].Message, nodeID, "NODE"), sent}
			}
			want := ask(never, "NOT_FOUND")
			require.Equal(t, want, ask(foreign, "NOT_FOUND"))
			require.Equal(t, want, ask(deleted, "NOT_FOUND"))
			require.Empty(t, ask("node_x", "INVALID_INPUT").statements)
		})
	}

	t.Run("H3 its owner reads the tombstone, and can do nothing with it", func(t *testing.T) {
		require.NotNil(t, b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { deletedAt } }`, object{"n": deleted}).at(t, "node", "deletedAt"))
		require.NotEmpty(t, b.query(`query($n: ID!) { events(tenantId: "acme", nodeId: $n) { nodes { id } } }`, object{"n": deleted}).at(t, "events", "nodes"), "F3")
		require.Equal(t, "NOT_FOUND", b.control("nodeCordon", object{"tenantId": "acme", "nodeId": deleted}).code(t))
	})

	t.Run("H3 nodeChanges: the three are removed alike", func(t *testing.T) {
		conn, err := b.dial(eve, nil)
		require.NoError(t, err)
		s := b.subscribeOn(conn, "1", nodeChanges, object{"t": "other", "after": b.list(nil).asOf, "ids": []string{foreign, deleted, never}})
		changed, removed := ids(s.event("nodeChanges"))
		require.Empty(t, changed)
		require.ElementsMatch(t, []string{foreign, deleted, never}, removed)
	})

	t.Run("H3 another tenant's join token, pool and reservation are as one that never was", func(t *testing.T) {
		b.authority()
		token := b.query(`mutation($p: ID!) { joinTokenCreate(input: { tenantId: "acme", poolId: $p }) { joinToken { id } } }`, object{"p": b.pool}).
			at(t, "joinTokenCreate", "joinToken", "id").(string)
		booked := b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { reservation { id } } }`, object{"n": foreign}).
			at(t, "reservationCreate", "reservation", "id").(string)
		for query, pair := range map[string][2]string{
			`mutation($i: ID!) { joinTokenRevoke(input: { tenantId: "other", joinTokenId: $i }) { changed } }`:      {token, id.New(id.JoinToken)},
			`mutation($i: ID!) { joinTokenCreate(input: { tenantId: "other", poolId: $i }) { secret } }`:            {b.pool, id.New(id.Pool)},
			`query($i: ID!) { pool(tenantId: "other", poolId: $i) { id } }`:                                         {b.pool, id.New(id.Pool)},
			`query($i: ID!) { reservation(tenantId: "other", reservationId: $i) { id } }`:                           {booked, id.New(id.Reservation)},
			`mutation($i: ID!) { reservationRelease(input: { tenantId: "other", reservationId: $i }) { changed } }`: {booked, id.New(id.Reservation)},
		} {
			var said [2]string
			for i, one := range pair {
				a := b.as(eve, query, object{"i": one})
				require.Equal(t, "NOT_FOUND", a.code(t), query)
				said[i] = strings.ReplaceAll(a.Errors[0].Message, one, "IT")
			}
			require.Equal(t, said[1], said[0], query)
		}
	})
}

// cordoned makes a node that takes no work.
func (b *bundle) cordoned() string {
	b.Helper()
	n := b.node()
	b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(b, "nodeCordon")
	return n
}

func TestLimits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	aliases := make([]string, 1000)
	for i := range aliases {
		aliases[i] = fmt.Sprintf("a%d: viewer { name }", i)
	}
	deep := strings.Repeat("node { drain { ", 30) + "id" + strings.Repeat(" } }", 30)
	for name, query := range map[string]string{
		"H2 1,000 aliases":              "{ " + strings.Join(aliases, " ") + " }",
		"H2 depth 60":                   `{ node(tenantId: "acme", nodeId: "x") { drain { ` + deep + ` } } }`,
		"H2 more tokens than it parses": "{ " + strings.Repeat("viewer { name } ", 2000) + " }",
		"H2 fragments in fragments": `{ ...a ...a ...a ...a } fragment a on Query { ...b ...b ...b ...b ...b ...b } fragment b on Query { ...c ...c ...c ...c ...c ...c }
			fragment c on Query { ...d ...d ...d ...d ...d ...d } fragment d on Query { viewer { name } x: viewer { name } y: viewer { name } }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, []string{"RESOURCE_EXHAUSTED", "INVALID_INPUT"}, b.query(query, nil).code(t))
		})
	}
	t.Run("H2 a body of 10 MB", func(t *testing.T) {
		t.Parallel()
		resp, a := b.send(http.MethodPost, "/graphql", map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + b.token},
			`{"query":"`+strings.Repeat("x", 10<<20)+`"}`)
		require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		require.Equal(t, "RESOURCE_EXHAUSTED", a.code(t))
	})
	t.Run("H2 who is not signed in sends 16 KB at most", func(t *testing.T) {
		t.Parallel()
		header := map[string]string{"Content-Type": "application/json"}
		body := func(size int) string { return `{"query":"{ viewer { name } } #` + strings.Repeat("x", size) + `"}` }
		_, a := b.send(http.MethodPost, "/graphql", header, body(16_000))
		require.Equal(t, "UNAUTHENTICATED", a.code(t))
		resp, a := b.send(http.MethodPost, "/graphql", header, body(17_000))
		require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		require.Equal(t, "RESOURCE_EXHAUSTED", a.code(t))
		header["Authorization"] = "Bearer " + b.token
		_, a = b.send(http.MethodPost, "/graphql", header, body(17_000))
		require.Equal(t, "alex", a.at(t, "viewer", "name"))
	})
	t.Run("H2 a slow body ends within 15 s, also where none is read", func(t *testing.T) {
		t.Parallel()
		for _, head := range []string{
			"GET /healthz HTTP/1.1\r\nContent-Length: 1000", "PUT /graphql HTTP/1.1\r\nContent-Length: 1000", "GET /nowhere HTTP/1.1\r\nTransfer-Encoding: chunked",
			"POST /graphql HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000",
		} {
			t.Run(head, func(t *testing.T) {
				t.Parallel()
				conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
				require.NoError(t, err)
				defer func() { _ = conn.Close() }()
				_, err = io.WriteString(conn, head+"\r\nHost: "+conn.RemoteAddr().String()+"\r\n\r\n")
				require.NoError(t, err)
				require.NoError(t, conn.SetReadDeadline(time.Now().Add(15*time.Second)))
				_, err = io.Copy(io.Discard, conn)
				require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server let it wait")
			})
		}
	})
	t.Run("A body that is no JSON is not written to the log", func(t *testing.T) {
		t.Parallel()
		_, a := b.send(http.MethodPost, "/graphql", map[string]string{"Content-Type": "application/json"}, `{"query": "my secret"`)
		require.Equal(t, "INVALID_INPUT", a.code(t))
		require.NotContains(t, b.log.String(), "my secret")
	})
}

// What gqlgen or net/http would refuse in words of their own has a code too, and no answer repeats what was sent.
func TestRefusalsHaveCodes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	header := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + b.token}
	long := strings.Repeat("my secret ", 2000)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"H2 a batch":                      {"POST", "/graphql", `[{"query":"my secret"}]`, 400},
		"a string for a body":             {"POST", "/graphql", `"my secret"`, 400},
		"a query that is a number":        {"POST", "/graphql", `{"query":5,"operationName":"my secret"}`, 400},
		"variables that are a list":       {"POST", "/graphql", `{"query":"{viewer{name}}","variables":["my secret"]}`, 400},
		"extensions that are a string":    {"POST", "/graphql", `{"query":"{viewer{name}}","extensions":"my secret"}`, 400},
		"variables 9,000 deep":            {"POST", "/graphql", `{"query":"query($f: NodeFilter) { nodes(tenantId: \"acme\", filter: $f) { totalCount } }","variables":{"f":` + strings.Repeat(`{"not":`, 9000) + `{}` + strings.Repeat(`}`, 9000) + `}}`, 400},
		"extensions 9,000 deep":           {"POST", "/graphql", `{"query":"{viewer{name}}","extensions":{"a":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `}}`, 400},
		"null":                            {"POST", "/graphql", `null`, 422},
		"a value that is far too long":    {"POST", "/graphql", `{"query":"query($o: NodeOrder!) { nodes(tenantId: \"acme\", orderBy: $o) { totalCount } }","variables":{"o":"` + long + `"}}`, 422},
		"PUT":                             {"PUT", "/graphql", `{}`, 405},
		"OPTIONS":                         {"OPTIONS", "/graphql", "", 405},
		"variables by GET that are none":  {"GET", "/graphql?query=%7Bviewer%7Bname%7D%7D&variables=my+secret", "", 400},
		"extensions by GET that are none": {"GET", "/graphql?query=%7Bviewer%7Bname%7D%7D&extensions=5", "", 400},
		"a bad escape by GET":             {"GET", "/graphql?query=%zz", "", 400},
		"I4 a mutation by GET":            {"GET", "/graphql?query=mutation%7BnodeCordon(input%3A%7BtenantId%3A%22a%22%2CnodeId%3A%22b%22%7D)%7Bchanged%7D%7D", "", 422},
		"a subscription by POST, plain":   {"POST", "/graphql", `{"query":"subscription { nodeEvents(tenantId: \"acme\") { id } }"}`, 422},
		"a subscription by GET":           {"GET", "/graphql?query=subscription%7BnodeEvents(tenantId%3A%22acme%22)%7Bid%7D%7D", "", 422},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, a := b.send(c.method, c.path, header, c.body)
			require.Equal(t, c.status, resp.StatusCode)
			require.Equal(t, "INVALID_INPUT", a.code(t))
			require.Less(t, len(a.Errors[0].Message), 400)
			if !strings.Contains(c.body, long) {
				require.NotContains(t, a.Errors[0].Message, "my secret")
			}
		})
	}
	t.Run("An upgrade to another protocol than websocket is passed over", func(t *testing.T) {
		t.Parallel()
		for _, protocol := range []string{"h2c", "foo"} {
			resp, a := b.send("POST", "/graphql", map[string]string{
				"Content-Type": "application/json", "Authorization": "Bearer " + b.token, "Connection": "Upgrade", "Upgrade": protocol,
			}, `{"query":"{ viewer { name } }"}`)
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, "alex", a.at(t, "viewer", "name"))
		}
	})
}

func TestDoor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	secret, err := b.issuer.SignInLink(t.Context(), "alex")
	require.NoError(t, err)
	json, bearer := "application/json", "Bearer "+b.token
	body := `{"query":"{ viewer { name } }"}`
	resp, _ := b.send(http.MethodPost, "/session/claim", map[string]string{"Content-Type": json, "Origin": b.server.URL}, `{"secret":"`+secret+`"}`)
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	cookie := resp.Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	session := cookie.Name + "=" + cookie.Value

	for name, c := range map[string]struct {
		method, path string
		header       map[string]string
		body         string
		status       int
	}{
		"I4 a foreign origin":                {"POST", "/graphql", map[string]string{"Content-Type": json, "Authorization": bearer, "Origin": "https://evil.example"}, body, 403},
		"I4 the null origin":                 {"POST", "/graphql", map[string]string{"Content-Type": json, "Authorization": bearer, "Origin": "null"}, body, 403},
		"I4 a foreign host":                  {"POST", "/graphql", map[string]string{"Content-Type": json, "Authorization": bearer, "Host": "evil.example"}, body, 421},
		"I4 a foreign host for the page":     {"GET", "/", map[string]string{"Host": "evil.example"}, "", 421},
		"I4 text/plain":                      {"POST", "/graphql", map[string]string{"Content-Type": "text/plain", "Authorization": bearer}, body, 415},
		"I4 a form":                          {"POST", "/graphql", map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Authorization": bearer}, "query=x", 415},
		"I4 a mutation by GET":               {"GET", "/graphql?query=mutation%7BnodeCordon(input%3A%7BtenantId%3A%22a%22%2CnodeId%3A%22b%22%7D)%7Bchanged%7D%7D", map[string]string{"Authorization": bearer}, "", 422},
		"I4 a cookie without origin":         {"POST", "/graphql", map[string]string{"Content-Type": json, "Cookie": session}, body, 403},
		"I4 a cookie by GET without origin":  {"GET", "/graphql?query=%7Bviewer%7Bname%7D%7D", map[string]string{"Cookie": session}, "", 403},
		"I4 a cookie from a foreign origin":  {"POST", "/graphql", map[string]string{"Content-Type": json, "Cookie": session, "Origin": "http://evil.example"}, body, 403},
		"a cookie from our own page":         {"POST", "/graphql", map[string]string{"Content-Type": json, "Cookie": session, "Origin": b.server.URL}, body, 200},
		"a bearer by GET":                    {"GET", "/graphql?query=%7Bviewer%7Bname%7D%7D", map[string]string{"Authorization": bearer}, "", 200},
		"the sign-in link is good once":      {"POST", "/session/claim", map[string]string{"Content-Type": json, "Origin": b.server.URL}, `{"secret":"` + secret + `"}`, 401},
		"a sign-in link that was never made": {"POST", "/session/claim", map[string]string{"Content-Type": json, "Origin": b.server.URL}, `{"secret":"nonsense"}`, 401},
		"a link is made by a bearer only":    {"POST", "/session/link", map[string]string{"Content-Type": json, "Cookie": session, "Origin": b.server.URL}, `{}`, 401},
		"health needs nobody":                {"GET", "/healthz", nil, "", 200},
		"the public keys need nobody":        {"GET", "/.well-known/jwks.json", nil, "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, _ := b.send(c.method, c.path, c.header, c.body)
			require.Equal(t, c.status, resp.StatusCode)
			require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
			require.Contains(t, resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
			require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
		})
	}
	for name, header := range map[string]http.Header{
		"I4 a socket from a foreign origin": {"Origin": {"https://evil.example"}, "Authorization": {bearer}},
		"I4 a socket by cookie alone":       {"Cookie": {session}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := b.dial("", header)
			require.ErrorContains(t, err, "403")
		})
	}
	t.Run("A socket by cookie from our own page", func(t *testing.T) {
		t.Parallel()
		_, err := b.dial("", http.Header{"Cookie": {session}, "Origin": {b.server.URL}})
		require.NoError(t, err)
	})
}
