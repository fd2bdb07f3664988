package graph_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
)

const fleetFields = `{ total cordoned draining maintenance provisionStates { provisionState count } connectivity { connectivity count } placeableFor { placeableFor count }
	pools { pool { id name } total cordoned draining maintenance provisionStates { provisionState count } connectivity { connectivity count } placeableFor { placeableFor count } } asOf }`

// counted gives the counts of an axis that are not zero.
func counted(of any, axis string) object {
	out := object{}
	for _, c := range of.([]any) {
		if n := c.(object)["count"]; n != 0.0 {
			out[c.(object)[axis].(string)] = n
		}
	}
	return out
}

func TestFleetSummary(t *testing.T) {
	t.Parallel()

	t.Run("Every axis and every pool is counted, as the list of nodes has it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		empty := b.query(`{ fleetSummary(tenantId: "acme") `+fleetFields+` }`, nil).at(t, "fleetSummary").(object)
		require.Equal(t, 0.0, empty["total"])
		require.Empty(t, empty["pools"])
		require.Len(t, empty["provisionStates"], 7, "each value stands there, zero too")
		require.NotEmpty(t, empty["asOf"])

		b.node()
		b.cordoned()
		draining, broken, one := b.node(), b.node(), b.node()
		b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { changed } }`, object{"n": draining}).at(t, "reservationCreate")
		b.control("nodeDrain", object{"tenantId": "acme", "nodeId": draining}).at(t, "nodeDrain")
		b.exec(`update nodes set maintenance = true, connectivity = 'UNREACHABLE' where id = $1`, broken)
		b.exec(`insert into node_reasons (node_id, reason, owner, since) values ($1, 'taint:dedicated=acme', 'operator', now())`, one)
		cpus := b.query(`mutation { poolCreate(input: { tenantId: "acme", name: "cpus" }) { pool { id } } }`, nil).at(t, "poolCreate", "pool", "id")
		b.exec(`update nodes set pool_id = $2, provision_state = 'ADOPTING' where id = $1`, b.node(), cpus)

		got := b.query(`{ fleetSummary(tenantId: "acme") `+fleetFields+` }`, nil).at(t, "fleetSummary").(object)
		require.Equal(t, []any{6.0, 2.0, 1.0, 1.0}, []any{got["total"], got["cordoned"], got["draining"], got["maintenance"]})
		require.Equal(t, object{"ADOPTED": 5.0, "ADOPTING": 1.0}, counted(got["provisionStates"], "provisionState"))
		require.Equal(t, object{"PENDING": 5.0, "UNREACHABLE": 1.0}, counted(got["connectivity"], "connectivity"))
		require.Equal(t, object{"ALL": 1.0, "ONE_TENANT": 1.0, "NONE": 4.0}, counted(got["placeableFor"], "placeableFor"))
		pools := got["pools"].([]any)
		require.Len(t, pools, 2)
		require.Equal(t, []any{"cpus", "gpus"}, []any{pools[0].(object)["pool"].(object)["name"], pools[1].(object)["pool"].(object)["name"]})
		require.Equal(t, []any{1.0, 5.0, 2.0}, []any{pools[0].(object)["total"], pools[1].(object)["total"], pools[1].(object)["cordoned"]})
		require.Equal(t, object{"ADOPTING": 1.0}, counted(pools[0].(object)["provisionStates"], "provisionState"))
		filtered := b.query(`query($f: NodeFilter) { fleetSummary(tenantId: "acme", filter: $f) { total } }`, object{"f": object{"placeableFor": []string{"NONE"}, "cordoned": false}})
		require.Equal(t, 2.0, filtered.at(t, "fleetSummary", "total"))
	})

	t.Run("Who may: H3 another tenant's fleet is FORBIDDEN, a malformed filter INVALID_INPUT, on both ways", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for query, code := range map[string]string{
			`{ fleetSummary(tenantId: "other") { total } }`:                                         "FORBIDDEN",
			`{ fleetSummary(tenantId: "acme", filter: { poolId: "pool_x" }) { total } }`:            "INVALID_INPUT",
			`{ fleetSummary(tenantId: "acme", filter: { labels: [{ key: "\u0000" }] }) { total } }`: "INVALID_INPUT",
		} {
			require.Equal(t, code, b.query(query, nil).code(t), query)
			require.Equal(t, code, b.subscribe("subscription "+query, nil).refusal(), query)
		}
	})

	t.Run("The stream tells it at once and when it changes, at most once a second, counted once for all who ask the same", func(t *testing.T) {
		t.Parallel()
		counter := &statements{}
		b := setup(t, dbtest.With(counter.trace))
		n := b.node()
		const readers = 20
		streams := make([]*stream, readers)
		for i := range streams {
			streams[i] = b.subscribe(`subscription { fleetSummary(tenantId: "acme") { total cordoned asOf } }`, nil)
			require.Equal(t, 0.0, streams[i].event("fleetSummary")["cordoned"])
		}
		counter.take()
		began := time.Now()
		for range 30 {
			for _, name := range []string{"nodeCordon", "nodeUncordon"} {
				b.control(name, object{"tenantId": "acme", "nodeId": n}).at(t, name)
			}
		}
		last := b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon", "changed")
		require.Equal(t, true, last)
		for _, s := range streams {
			told := 1
			for s.event("fleetSummary")["cordoned"] != 1.0 {
				told++
			}
			require.LessOrEqual(t, float64(told), time.Since(began).Seconds()+2)
		}
		require.LessOrEqual(t, float64(counts(counter)), time.Since(began).Seconds()+2, "not once for each of the 20")
	})

	t.Run("G4 a token that is revoked ends it with UNAUTHENTICATED, and others go on", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		token := b.tokenFor("alex", "acme", time.Hour)
		conn, err := b.dial(token, nil)
		require.NoError(t, err)
		const query = `subscription { fleetSummary(tenantId: "acme") { cordoned } }`
		s, other := b.subscribeOn(conn, "1", query, nil), b.subscribe(query, nil)
		s.event("fleetSummary")
		other.event("fleetSummary")
		who, err := b.issuer.Verify(token)
		require.NoError(t, err)
		require.NoError(t, b.issuer.RevokeToken(t.Context(), who.TokenID))
		require.Equal(t, "UNAUTHENTICATED", s.refusal())
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon")
		require.Equal(t, 1.0, other.event("fleetSummary")["cordoned"])
	})

	t.Run("A tenant follows 32 different summaries at once, and one more is refused until one ends", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		const query = `subscription($f: NodeFilter) { fleetSummary(tenantId: "acme", filter: $f) { total } }`
		conn, err := b.dial(b.token, nil)
		require.NoError(t, err)
		for i := range 32 {
			b.subscribeOn(conn, fmt.Sprint(i), query, object{"f": object{"text": fmt.Sprint(i)}}).event("fleetSummary")
		}
		require.Equal(t, "RESOURCE_EXHAUSTED", b.subscribe(query, object{"f": object{"text": "one more"}}).refusal())
		b.subscribe(query, object{"f": object{"text": "7"}}).event("fleetSummary") // the same as another's costs nothing
		require.NoError(t, wsjson.Write(t.Context(), conn, frame{ID: "3", Type: "complete"}))
		require.Eventually(t, func() bool {
			f := b.subscribe(query, object{"f": object{"text": "one more"}}).next()
			return !strings.Contains(string(f.Payload), "RESOURCE_EXHAUSTED")
		}, 20*time.Second, 20*time.Millisecond)
	})

	t.Run("Readers that come and go leave nothing that counts on", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for range 30 {
			s := b.subscribe(`subscription { fleetSummary(tenantId: "acme") { total } }`, nil)
			s.event("fleetSummary")
			require.NoError(t, s.conn.CloseNow())
		}
		require.Eventually(t, func() bool { return b.api.Log.Stats().Followers == 0 }, 10*time.Second, 5*time.Millisecond)
	})
}

// counts says how often a summary was counted.
func counts(s *statements) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for _, sql := range s.sql {
		if strings.Contains(sql, "as seen_nodes") {
			count++
		}
	}
	return count
}

func TestSecurityEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	eve := b.tokenFor("eve", "other", time.Hour)
	b.do(func(ctx context.Context, tx *db.Tx) error { return iam.ProjectTx(ctx, tx, "other", n, iam.Shared) })
	const query = `subscription($t: ID!, $n: ID, $after: Cursor) { securityEvents(tenantId: $t, nodeId: $n, after: $after) { type nodeId node { id } ... on GenericEvent { data } } }`
	head := b.query(`{ log(tenantId: "acme") { head } }`, nil).at(t, "log", "head")
	b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon")
	write := func(kind, nodeID string) {
		b.do(func(_ context.Context, tx *db.Tx) error {
			return events.Append(tx, events.Entry{
				Type: kind, TenantID: "acme", NodeID: nodeID, Actor: "gateway", Data: map[string]int{"alternations": 4}, Audience: events.Audience{Full: []string{"acme"}},
			})
		})
	}
	write("security.test.reused", "")
	write("security.test.quarantined", n)

	t.Run("The owner gets them and nothing else, from a cursor and of one node", func(t *testing.T) {
		t.Parallel()
		all := b.subscribe(query, object{"t": "acme", "after": head})
		require.Equal(t, object{"type": "security.test.reused", "nodeId": nil, "node": nil, "data": object{"alternations": 4.0}}, all.event("securityEvents"))
		require.Equal(t, "security.test.quarantined", all.event("securityEvents")["type"])
		one := b.subscribe(query, object{"t": "acme", "n": n, "after": head})
		e := one.event("securityEvents")
		require.Equal(t, []any{"security.test.quarantined", object{"id": n}}, []any{e["type"], e["node"]})
	})

	t.Run("A tenant that merely sees the node gets none, and asking for the node is FORBIDDEN", func(t *testing.T) {
		t.Parallel()
		conn, err := b.dial(eve, nil)
		require.NoError(t, err)
		require.Equal(t, "FORBIDDEN", b.subscribeOn(conn, "1", query, object{"t": "other", "n": n}).refusal())
		require.Equal(t, "NOT_FOUND", b.subscribeOn(conn, "2", query, object{"t": "other", "n": id.New(id.Node)}).refusal())
		require.Equal(t, "FORBIDDEN", b.subscribeOn(conn, "3", query, object{"t": "acme"}).refusal())
		b.do(func(_ context.Context, tx *db.Tx) error { // of a node of its own; what was before it would have come first
			return events.Append(tx, events.Entry{
				Type: "security.test.quarantined", TenantID: "other", NodeID: id.New(id.Node), Actor: "marker", Audience: events.Audience{Full: []string{"other"}},
			})
		})
		conn, err = b.dial(eve, nil)
		require.NoError(t, err)
		s := b.subscribeOn(conn, "1", `subscription($after: Cursor) { securityEvents(tenantId: "other", after: $after) { actor } }`, object{"after": head})
		require.Equal(t, "marker", s.event("securityEvents")["actor"])
	})
}
