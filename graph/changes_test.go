package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
)

const nodeChanges = `subscription($t: ID! = "acme", $after: Cursor!, $f: NodeFilter, $ids: [ID!], $rate: Int! = 20) {
	nodeChanges(tenantId: $t, after: $after, filter: $f, nodeIds: $ids, maxPerSecond: $rate) { changed { id version cordoned tenantId } removed asOf } }`

// mirror is what a client of nodeChanges does: it holds the nodes of a list and puts each batch into it.
type mirror struct {
	nodes map[string]object
	asOf  any
}

// list is the query that comes before the subscription.
func (b *bundle) list(filter object) *mirror {
	b.Helper()
	got := b.query(`query($f: NodeFilter) { nodes(tenantId: "acme", filter: $f, first: 500) { asOf nodes { id version cordoned tenantId } } }`, object{"f": filter}).at(b, "nodes").(object)
	m := &mirror{nodes: map[string]object{}, asOf: got["asOf"]}
	for _, n := range got["nodes"].([]any) {
		m.nodes[n.(object)["id"].(string)] = n.(object)
	}
	return m
}

// take puts a batch into it.
func (m *mirror) take(batch object) {
	for _, n := range batch["changed"].([]any) {
		m.nodes[n.(object)["id"].(string)] = n.(object)
	}
	for _, gone := range batch["removed"].([]any) {
		delete(m.nodes, gone.(string))
	}
	m.asOf = batch["asOf"]
}

// until takes batches until it is as the list is.
func (m *mirror) until(s *stream, want *mirror) {
	s.b.Helper()
	for !maps.EqualFunc(m.nodes, want.nodes, func(a, b object) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		m.take(s.event("nodeChanges"))
	}
}

func ids(batch object) (changed, removed []string) {
	for _, n := range batch["changed"].([]any) {
		changed = append(changed, n.(object)["id"].(string))
	}
	for _, r := range batch["removed"].([]any) {
		removed = append(removed, r.(string))
	}
	return changed, removed
}

func TestNodeChanges(t *testing.T) {
	t.Parallel()

	t.Run("What changed after the query is told first, together, and then what changes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first, second, third := b.node(), b.node(), b.node()
		m := b.list(nil)
		for _, n := range []string{first, second} {
			b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon")
			b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeUncordon")
		}
		s := b.subscribe(nodeChanges, object{"after": m.asOf})
		batch := s.event("nodeChanges")
		changed, removed := ids(batch)
		require.ElementsMatch(t, []string{first, second}, changed, "four events of two nodes are two entries")
		require.Empty(t, removed)
		cursor := b.control("nodeCordon", object{"tenantId": "acme", "nodeId": third}).at(t, "nodeCordon", "cursor")
		live := s.event("nodeChanges")
		require.Equal(t, []any{object{"id": third, "version": 2.0, "cordoned": true, "tenantId": "acme"}}, live["changed"])
		require.Equal(t, cursor, live["asOf"], "the batch tells all up to that very change")
		require.NotEqual(t, batch["asOf"], live["asOf"])
	})

	t.Run("G1 8 writers, and a client that is cut at random and resumes by asOf: its list is the server's", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var nodes []string
		for range 12 {
			nodes = append(nodes, b.node())
		}
		filter := object{"cordoned": true}
		m := b.list(filter)
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				for range 15 {
					name := []string{"nodeCordon", "nodeUncordon"}[rand.IntN(2)]
					b.control(name, object{"tenantId": "acme", "nodeId": nodes[rand.IntN(len(nodes))]}).at(t, name)
				}
			})
		}
		done := make(chan struct{})
		go func() {
			writers.Wait()
			close(done)
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
				s := b.subscribe(nodeChanges, object{"after": m.asOf, "f": filter})
				if batch := s.eventWithin("nodeChanges", time.Second); batch != nil {
					m.take(batch)
				}
				require.NoError(t, s.conn.CloseNow())
			}
		}
		want := b.list(filter)
		m.until(b.subscribe(nodeChanges, object{"after": m.asOf, "f": filter}), want)
	})

	t.Run("removed names what no longer matches, and never what did not match before", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		cordoned, plain, third := b.cordoned(), b.node(), b.node()
		filter := object{"cordoned": true}
		s := b.subscribe(nodeChanges, object{"after": b.list(filter).asOf, "f": filter})
		b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": cordoned}).at(t, "nodeUncordon")
		changed, removed := ids(s.event("nodeChanges"))
		require.Empty(t, changed)
		require.Equal(t, []string{cordoned}, removed)
		// The first batch is out, so what the stream holds is known to it: a node that never matched is not told of.
		b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { changed } }`, object{"n": plain}).at(t, "reservationCreate")
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": third}).at(t, "nodeCordon")
		changed, removed = ids(s.event("nodeChanges"))
		require.Equal(t, []string{third}, changed)
		require.Empty(t, removed)
	})

	t.Run("What left the list between the query and the subscription is removed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		cordoned := b.cordoned()
		filter := object{"cordoned": true}
		after := b.list(filter).asOf
		b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": cordoned}).at(t, "nodeUncordon")
		_, removed := ids(b.subscribe(nodeChanges, object{"after": after, "f": filter}).event("nodeChanges"))
		require.Equal(t, []string{cordoned}, removed)
	})

	t.Run("nodeIds keeps to those nodes, and one that is not seen is removed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		one, other, gone := b.node(), b.node(), id.New(id.Node)
		s := b.subscribe(nodeChanges, object{"after": b.list(nil).asOf, "ids": []string{one, gone}})
		_, removed := ids(s.event("nodeChanges"))
		require.Equal(t, []string{gone}, removed)
		for _, n := range []string{other, one} {
			b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon")
		}
		changed, _ := ids(s.event("nodeChanges"))
		require.Equal(t, []string{one}, changed)
		single := b.subscribe(nodeChanges, object{"after": b.list(nil).asOf, "ids": []string{other}, "f": object{"cordoned": true}})
		b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": other}).at(t, "nodeUncordon")
		_, removed = ids(single.event("nodeChanges"))
		require.Equal(t, []string{other}, removed)
	})

	t.Run("maxPerSecond: a node that changes all the time is told at that rate, and at last as it is", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		s := b.subscribe(nodeChanges, object{"after": b.list(nil).asOf, "rate": 2})
		b.started(s)
		began := time.Now()
		for range 40 {
			for _, name := range []string{"nodeCordon", "nodeUncordon"} {
				b.control(name, object{"tenantId": "acme", "nodeId": n}).at(t, name)
			}
		}
		batches := 0
		for version := 0.0; version < 81; batches++ {
			version = s.event("nodeChanges")["changed"].([]any)[0].(object)["version"].(float64)
		}
		require.LessOrEqual(t, float64(batches), 2*time.Since(began).Seconds()+2)
	})

	t.Run("More than a batch holds: asOf stands still until all is told", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.list(nil)
		const many = 1100
		b.do(func(ctx context.Context, tx *db.Tx) error {
			rows, err := tx.Query(ctx, `insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
				select 'node_01' || lpad(i::text, 24, '0'), i::text, 'acme', $1, 'gpu-' || i, 'ADOPTED', 'TRUSTED', 'test' from generate_series(1, $2) i returning id`, b.pool, many)
			if err != nil {
				return err
			}
			var made []string
			for rows.Next() {
				var n string
				if err := rows.Scan(&n); err != nil {
					return err
				}
				made = append(made, n)
			}
			for _, n := range made {
				if err := events.Append(tx, events.Entry{
					Type: "test.joined", TenantID: "acme", NodeID: n, Actor: "test", Audience: events.Audience{Full: []string{"acme"}},
				}); err != nil {
					return err
				}
			}
			_, err = tx.Exec(ctx, `insert into node_projection (tenant_id, node_id, relation) select 'acme', id, 'OWNER' from nodes`)
			return err
		})
		s := b.subscribe(nodeChanges, object{"after": m.asOf})
		start := m.asOf
		for len(m.nodes) < many {
			batch := s.event("nodeChanges")
			require.LessOrEqual(t, len(batch["changed"].([]any)), 500)
			m.take(batch)
			require.Equal(t, len(m.nodes) < many, m.asOf == start)
		}
	})

	t.Run("G2 a subscriber that does not read is cut off, others are not disturbed, and it resumes by asOf", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		m := b.list(nil)
		const wide = `subscription($after: Cursor!) { nodeChanges(tenantId: "acme", after: $after, maxPerSecond: 20) { asOf removed changed { id version cordoned tenantId
			a: cordon { reason } b: cordon { reason } c: cordon { reason } d: cordon { reason } e: cordon { reason } f: cordon { reason } g: cordon { reason }
			h: holds { message } i: holds { message } j: holds { message } k: holds { message } l: holds { message } m: holds { message } } } }`
		b.subscribe(wide, object{"after": m.asOf}) // never reads
		good := b.subscribe(nodeChanges, object{"after": m.asOf})
		require.Eventually(t, func() bool { return b.api.Log.Stats().Followers == 2 }, 10*time.Second, time.Millisecond)
		reason := strings.Repeat("x", 256)
		deadline := time.Now().Add(90 * time.Second)
		for b.api.Log.Stats().Followers > 1 && time.Now().Before(deadline) {
			for _, name := range []string{"nodeCordon", "nodeUncordon"} {
				b.control(name, object{"tenantId": "acme", "nodeId": n, "reason": reason}).at(t, name)
			}
			good.event("nodeChanges")
			b.fill(n)
		}
		require.Equal(t, 1, b.api.Log.Stats().Followers, "the one that never reads holds nothing any more")
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon")
		want := b.list(nil)
		m.until(good, want)
		m.until(b.subscribe(nodeChanges, object{"after": m.asOf}), want)
	})

	t.Run("G3 a node that goes out of sight is removed, with and without an event, and one that comes into sight is told", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		token := b.tokenFor("eve", "other", time.Hour)
		see := func(fn func(ctx context.Context, tx *db.Tx, tenant, nodeID string, r iam.Relation) error) {
			b.do(func(ctx context.Context, tx *db.Tx) error { return fn(ctx, tx, "other", n, iam.Shared) })
		}
		see(iam.ProjectTx)
		conn, err := b.dial(token, nil)
		require.NoError(t, err)
		s := b.subscribeOn(conn, "1", nodeChanges, object{"t": "other", "after": b.query(`{ log(tenantId: "acme") { head } }`, nil).at(t, "log", "head")})
		b.started(s)
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon")
		changed, _ := ids(s.event("nodeChanges"))
		require.Equal(t, []string{n}, changed)
		see(iam.WithdrawTx)
		b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeUncordon")
		batch := s.event("nodeChanges")
		changed, removed := ids(batch)
		require.Empty(t, changed, "nothing of the node after its sight is lost")
		require.Equal(t, []string{n}, removed)
		see(iam.ProjectTx)
		changed, _ = ids(s.event("nodeChanges"))
		require.Equal(t, []string{n}, changed)
	})

	t.Run("G4 a token that is revoked ends it with UNAUTHENTICATED", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		token := b.tokenFor("alex", "acme", time.Hour)
		conn, err := b.dial(token, nil)
		require.NoError(t, err)
		s := b.subscribeOn(conn, "1", nodeChanges, object{"after": b.list(nil).asOf})
		b.started(s)
		who, err := b.issuer.Verify(token)
		require.NoError(t, err)
		require.NoError(t, b.issuer.RevokeToken(t.Context(), who.TokenID))
		require.Equal(t, "UNAUTHENTICATED", s.refusal())
	})

	t.Run("What more nodes match than a stream keeps in memory is refused with a code, and so is what many streams together watch", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.api.MaxWatched = 3
		n := b.node()
		b.node()
		b.node()
		after := b.list(nil).asOf
		b.control("nodeCordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeCordon")
		watching := make([]*stream, 10)
		for i := range watching {
			watching[i] = b.subscribe(nodeChanges, object{"t": "acme", "after": after})
			changed, _ := ids(watching[i].event("nodeChanges"))
			require.Equal(t, []string{n}, changed)
		}
		one := object{"t": "acme", "after": after, "f": object{"nodeIds": []string{n}}}
		require.Equal(t, "RESOURCE_EXHAUSTED", b.subscribe(nodeChanges, one).refusal(), "30 are watched already")
		b.node()
		require.Equal(t, "RESOURCE_EXHAUSTED", b.subscribe(nodeChanges, object{"t": "acme", "after": after}).refusal(), "4 nodes")
		require.NoError(t, watching[0].conn.CloseNow())
		require.Eventually(t, func() bool {
			return !strings.Contains(string(b.subscribe(nodeChanges, one).next().Payload), "RESOURCE_EXHAUSTED")
		}, 20*time.Second, 50*time.Millisecond, "there is room again")
	})

	t.Run("Refusals", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		head, err := events.Head(t.Context(), b.db.Pool())
		require.NoError(t, err)
		now := head.String()
		for name, c := range map[string]struct {
			variables object
			code      string
		}{
			"another tenant":                  {object{"t": "other", "after": now}, "FORBIDDEN"},
			"a list's cursor":                 {object{"after": "N.abc"}, "INVALID_INPUT"},
			"another log's cursor":            {object{"after": events.Cursor{Epoch: head.Epoch + 1}.String()}, "CURSOR_EXPIRED"},
			"H1 maxPerSecond 0":               {object{"after": now, "rate": 0}, "INVALID_INPUT"},
			"H1 maxPerSecond 21":              {object{"after": now, "rate": 21}, "INVALID_INPUT"},
			"H3 a malformed id":               {object{"after": now, "ids": []string{"node_x"}}, "INVALID_INPUT"},
			"H1 501 ids":                      {object{"after": now, "ids": slices.Repeat([]string{id.New(id.Node)}, 501)}, "INVALID_INPUT"},
			"H3 a malformed id in the filter": {object{"after": now, "f": object{"poolId": "pool_x"}}, "INVALID_INPUT"},
		} {
			require.Equal(t, c.code, b.subscribe(nodeChanges, c.variables).refusal(), name)
		}
		require.Equal(t, "INVALID_INPUT", b.subscribe(`subscription { nodeChanges(tenantId: "acme") { asOf } }`, nil).refusal(), "after is needed")
	})
}

// fill gives a node so many reasons with long messages that telling it of fills a socket's buffers soon.
func (b *bundle) fill(nodeID string) {
	b.Helper()
	b.exec(`insert into node_reasons (node_id, reason, owner, message, since)
		select $1, 'condition:' || i, 'test', repeat('x', 256), now() from generate_series(1, 200) i on conflict do nothing`, nodeID)
}

// eventWithin gives the next event, or nil when none comes in time; the stream is of no use after that.
func (s *stream) eventWithin(field string, wait time.Duration) object {
	s.b.Helper()
	ctx, cancel := context.WithTimeout(s.b.Context(), wait)
	defer cancel()
	for {
		kind, data, err := s.conn.Read(ctx)
		if err != nil || kind != websocket.MessageText {
			return nil
		}
		var f frame
		require.NoError(s.b, json.Unmarshal(data, &f))
		if f.Type != "next" {
			continue
		}
		var a answer
		require.NoError(s.b, json.Unmarshal(f.Payload, &a))
		e, ok := a.at(s.b, field).(object)
		require.True(s.b, ok)
		return e
	}
}
