package graph_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/graph"
	"github.com/better-compute/better-compute/id"
)

// TestI7LostCommit: the database is lost right after the last batch of a control was sent. Nobody says that nothing was changed, since nobody knows; the
// same request id tells, and there is one act in the end, whether the batch got through or not.
func TestI7LostCommit(t *testing.T) {
	t.Parallel()
	commit := sha256.Sum256([]byte("commit"))
	for name, through := range map[string]bool{"I7 the batch got through and the answer did not": true, "I7 the batch did not get through": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var proxy *dbtest.Proxy
			b := setup(t, dbtest.With(func(c *db.Config) {
				proxy = dbtest.NewProxy(t, c.URL)
				c.URL, c.MaxConns = proxy.URL(), 3
			}))
			n := b.node()
			cordon := func(request string) answer {
				return b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n, "reason": "PSU", "requestId": request})
			}
			for range 8 { // then each connection has "commit" as a prepared statement, by whose name it is sent
				b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon")
				b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeUncordon")
			}
			before := b.only(`select version::text from nodes`)
			proxy.CutAt("stmtcache_"+hex.EncodeToString(commit[:24]), through)
			lost := cordon("lost-1")
			require.Equal(t, "UNAVAILABLE", lost.code(t))
			require.Contains(t, lost.Errors[0].Message, "outcome is unknown")
			require.NotContains(t, lost.Errors[0].Message, "nothing was changed")
			if through {
				require.NotEqual(t, before, b.only(`select version::text from nodes`), "the batch must have got through, else this shows nothing")
			}
			told := cordon("lost-1").at(t, "nodeCordon").(object)
			require.Equal(t, true, told["changed"])
			require.Equal(t, told, cordon("lost-1").at(t, "nodeCordon"))
			require.Equal(t, "1", b.only(`select count(*)::text from events where type = 'node.cordoned' and request_id = 'lost-1'`))
		})
	}
}

// TestOneConnection: inside a transaction nobody takes a second connection, so every mutation that the schema has works on a pool of one, with all that
// its answer can show.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.WithMaxConns(1))
	b.authority()
	root := b.tokenFor("root", "", time.Hour)
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()
	usual := b.usual(b.node())
	booked := b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { reservation { id } } }`, object{"n": usual("nodeId")}).
		at(t, "reservationCreate", "reservation", "id")
	invited := b.query(`mutation($p: ID!) { joinTokenCreate(input: { tenantId: "acme", poolId: $p }) { joinToken { id } } }`, object{"p": b.pool}).
		at(t, "joinTokenCreate", "joinToken", "id")
	begun := b.began("nodesCordon", object{"nodeIds": []string{b.node()}})
	for _, f := range schema.Mutation.Fields {
		input := object{"requestId": id.New("req")}
		of := schema.Types[f.Arguments.ForName("input").Type.Name()]
		for _, i := range of.Fields {
			switch {
			case i.Name == "reservationId":
				input[i.Name] = booked
			case i.Name == "joinTokenId":
				input[i.Name] = invited
			case i.Name == "operationId":
				input[i.Name] = begun
			case i.Name == "nodeId":
				input[i.Name] = b.node() // its own, since one control's end can be in the way of the next
			case i.Type.NonNull && i.DefaultValue == nil:
				input[i.Name] = usual(i.Name)
			case i.Name == "add", i.Name == "set":
				input[i.Name] = usual(i.Name)
			}
		}
		if f.Name == "tenantCreate" {
			input["tenantId"] = "fresh"
		}
		above := []string{"NodeEvents"}
		if needs, many := manyControls[f.Name]; many || f.Name == "nodeSelectionCreate" {
			delete(input, "add")
			delete(input, "set")
			delete(input, "selectionId")
			maps.Copy(input, needs)
			input["nodeIds"] = []string{b.node()}
		}
		if f.Type.Name() == "NodesOperationPayload" {
			above = append(above, "ComputeNode") // twice would be too much
		}
		a := b.as(root, "mutation($i: "+of.Name+"!) { "+f.Name+"(input: $i) "+everything(schema, schema.Types[f.Type.Name()], above...)+" }", object{"i": input})
		if f.Name == "nodeDelete" { // of a node in service, refused by the same transaction that would delete it
			require.Equal(t, "INVALID_STATE", a.code(t))
			continue
		}
		require.NotNil(t, a.at(t, f.Name), f.Name)
		b.later.Wait()
	}
	require.Zero(t, b.db.Pool().Stat().AcquiredConns())
	require.NotContains(t, b.log.String(), strings.ToUpper("unavailable"))
}

// TestSignInWithoutDatabase: a token that counts is not said to count no more because nobody can look: whoever comes meanwhile is told to come again.
func TestSignInWithoutDatabase(t *testing.T) {
	t.Parallel()
	var proxy *dbtest.Proxy
	b := setup(t, dbtest.With(func(c *db.Config) {
		proxy = dbtest.NewProxy(t, c.URL)
		c.URL = proxy.URL()
	}))
	header := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + b.token}
	proxy.Down()
	conn := b.raw("graphql-transport-ws")
	payload, err := json.Marshal(object{"Authorization": "Bearer " + b.token})
	require.NoError(t, err)
	require.NoError(t, wsjson.Write(t.Context(), conn, frame{Type: "connection_init", Payload: payload}))
	require.Equal(t, websocket.StatusTryAgainLater, (&stream{b: b, conn: conn}).closed())
	for path, body := range map[string]string{"/session/link": "{}", "/session/claim": `{"secret":"any"}`, "/session/end": "{}"} {
		resp, a := b.send("POST", path, header, body)
		require.Equal(t, 503, resp.StatusCode, path)
		require.Equal(t, "UNAVAILABLE", a.code(t), path)
		require.Contains(t, a.Errors[0].Message, "does not answer", path)
	}
	proxy.Up()
	resp, _ := b.send("POST", "/session/link", header, "{}")
	require.Equal(t, 200, resp.StatusCode)
}
