package graph_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
)

const drainChanges = `subscription($t: ID! = "acme", $d: [ID!], $p: ID, $after: Cursor) { drainChanges(tenantId: $t, drainIds: $d, poolId: $p, after: $after) {
	id state by cause endedBy confirmedByNode blockers { startsAt } node { id } } }`

// drain begins one and gives its id.
func (b *bundle) drain(nodeID string) string {
	b.Helper()
	return b.query(`mutation($n: ID!) { nodeDrain(input: { tenantId: "acme", nodeId: $n, reason: "PSU" }) { node { lastDrain { id } } } }`, object{"n": nodeID}).
		at(b, "nodeDrain", "node", "lastDrain", "id").(string)
}

func (b *bundle) reserve(nodeID string) string {
	b.Helper()
	return b.query(`mutation($n: ID!) { reservationCreate(input: { tenantId: "acme", nodeId: $n }) { reservation { id } } }`, object{"n": nodeID}).
		at(b, "reservationCreate", "reservation", "id").(string)
}

func (b *bundle) release(reservationID string) {
	b.Helper()
	b.query(`mutation($r: ID!) { reservationRelease(input: { tenantId: "acme", reservationId: $r }) { changed } }`, object{"r": reservationID}).at(b, "reservationRelease")
}

func TestDrainChanges(t *testing.T) {
	t.Parallel()

	t.Run("Drains that were asked for are told at once and as they change, and it completes when all have ended", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		one, other := b.node(), b.node()
		first, second, third := b.reserve(one), b.reserve(one), b.reserve(other)
		d, e := b.drain(one), b.drain(other)
		s := b.subscribe(drainChanges, object{"d": []string{d, e}})
		begun := map[any]object{}
		for range 2 {
			told := s.event("drainChanges")
			begun[told["id"]] = told
		}
		require.Len(t, begun[d]["blockers"], 2)
		require.Equal(t, one, begun[d]["node"].(object)["id"])
		require.Equal(t, "DRAINING", begun[e]["state"])
		b.release(first)
		told := s.event("drainChanges")
		require.Equal(t, []any{d, "DRAINING"}, []any{told["id"], told["state"]})
		require.Len(t, told["blockers"], 1)
		b.release(second)
		require.Equal(t, d, s.until("DRAINED")["id"])
		b.release(third)
		last := s.until("DRAINED")
		require.Equal(t, e, last["id"])
		require.Equal(t, false, last["confirmedByNode"])
		require.Equal(t, "complete", s.next().Type)
	})

	t.Run("What ended while a drain ran is counted exactly, however many ended before and whatever ends after", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		const counts = `query($n: ID!) { node(tenantId: "acme", nodeId: $n) { liveAllocationCount lastDrain { endedAllocationCount } } }`
		count := func() []any {
			got := b.query(counts, object{"n": n}).at(t, "node").(object)
			return []any{got["liveAllocationCount"], got["lastDrain"].(object)["endedAllocationCount"]}
		}
		oldest, past := b.reserve(n), b.reserve(n)
		b.release(past)
		waited := []string{b.reserve(n), b.reserve(n)}
		b.drain(n)
		require.Equal(t, []any{3.0, 0.0}, count())
		b.release(oldest)
		b.release(waited[0])
		require.Equal(t, []any{1.0, 2.0}, count())
		b.query(`mutation($n: ID!) { nodeUncordon(input: { tenantId: "acme", nodeId: $n }) { changed } }`, object{"n": n}).at(t, "nodeUncordon")
		b.release(waited[1])
		require.Equal(t, []any{0.0, 2.0}, count())
		second := b.reserve(n)
		b.drain(n)
		b.release(second)
		require.Equal(t, []any{0.0, 1.0}, count())
		var all []any
		for _, d := range b.query(`{ drains(tenantId: "acme", active: false) { nodes { endedAllocationCount } } }`, nil).at(t, "drains", "nodes").([]any) {
			all = append(all, d.(object)["endedAllocationCount"])
		}
		require.Contains(t, all, 2.0, "each drain of the node has its own")
	})

	t.Run("I8 a drain that is cancelled ends the wait, with its cause", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.reserve(n)
		d := b.drain(n)
		s := b.subscribe(drainChanges, object{"d": []string{d}})
		require.Equal(t, "DRAINING", s.event("drainChanges")["state"])
		b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeUncordon")
		told := s.event("drainChanges")
		require.Equal(t, []any{d, "CANCELLED", "alex"}, []any{told["id"], told["state"], told["endedBy"]})
		require.NotEmpty(t, told["cause"])
		require.Equal(t, "complete", s.next().Type)
		// One that has ended already, and is not even the newest any more, is told and completes.
		b.drain(n)
		late := b.subscribe(drainChanges, object{"d": []string{d}})
		require.Equal(t, told, late.event("drainChanges"))
		require.Equal(t, "complete", late.next().Type)
		require.Equal(t, "complete", b.subscribe(drainChanges, object{"d": []string{}}).next().Type)
	})

	t.Run("Without ids: what happened after the cursor first, then what happens, of the pool that is asked for", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, elsewhere := b.node(), b.node()
		pool := b.query(`mutation { poolCreate(input: { tenantId: "acme", name: "cpus" }) { pool { id } } }`, nil).at(t, "poolCreate", "pool", "id")
		b.exec(`update nodes set pool_id = $2 where id = $1`, elsewhere, pool)
		after := b.query(`{ log(tenantId: "acme") { head } }`, nil).at(t, "log", "head")
		held := b.reserve(n)
		d := b.drain(n)
		b.drain(elsewhere)
		s := b.subscribe(drainChanges, object{"after": after, "p": b.pool})
		require.Equal(t, d, s.event("drainChanges")["id"])
		b.release(held)
		require.Equal(t, d, s.until("DRAINED")["id"])
		b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeUncordon") // ends a cordon, and no drain
		again := b.drain(n)
		for told := ""; told != again; {
			e := s.event("drainChanges")
			require.NotEqual(t, "CANCELLED", e["state"])
			told = e["id"].(string)
		}
	})

	t.Run("I5 a guest learns that a drain was cancelled, not by whom or why", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.reserve(n)
		eve := b.tokenFor("eve", "other", time.Hour)
		b.do(func(ctx context.Context, tx *db.Tx) error { return iam.ProjectTx(ctx, tx, "other", n, iam.Shared) })
		d := b.drain(n)
		for _, name := range []string{"asked for", "all"} {
			variables := object{"t": "other"}
			if name == "asked for" {
				variables["d"] = []string{d}
			}
			conn, err := b.dial(eve, nil)
			require.NoError(t, err)
			followers := b.api.Log.Stats().Followers
			s := b.subscribeOn(conn, "1", drainChanges, variables)
			require.Eventually(t, func() bool { return b.api.Log.Stats().Followers > followers }, 10*time.Second, time.Millisecond)
			b.control("nodeUncordon", object{"tenantId": "acme", "nodeId": n}).at(t, "nodeUncordon")
			told := s.until("CANCELLED")
			require.Equal(t, []any{"operator", "operator", nil}, []any{told["by"], told["endedBy"], told["cause"]}, name)
			require.NoError(t, conn.CloseNow())
			require.Eventually(t, func() bool { return b.api.Log.Stats().Followers == 0 }, 10*time.Second, time.Millisecond)
			d = b.drain(n)
		}
	})

	t.Run("Refusals, and a node that goes out of sight", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.reserve(n)
		d := b.drain(n)
		eve := b.tokenFor("eve", "other", time.Hour)
		for name, c := range map[string]struct {
			token     string
			variables object
			code      string
		}{
			"H3 another tenant's drain":        {eve, object{"t": "other", "d": []string{d}}, "NOT_FOUND"},
			"H3 a drain that never was":        {eve, object{"t": "other", "d": []string{id.New(id.Drain)}}, "NOT_FOUND"},
			"H3 a malformed id":                {eve, object{"t": "other", "d": []string{"drn_x"}}, "INVALID_INPUT"},
			"H3 a malformed pool":              {eve, object{"t": "other", "p": "pool_x"}, "INVALID_INPUT"},
			"a list's cursor":                  {eve, object{"t": "other", "after": "N.x"}, "INVALID_INPUT"},
			"a tenant in which it has nothing": {eve, object{"t": "acme", "d": []string{d}}, "FORBIDDEN"},
		} {
			conn, err := b.dial(c.token, nil)
			require.NoError(t, err)
			require.Equal(t, c.code, b.subscribeOn(conn, "1", drainChanges, c.variables).refusal(), name)
		}
		b.do(func(ctx context.Context, tx *db.Tx) error { return iam.ProjectTx(ctx, tx, "other", n, iam.Shared) })
		conn, err := b.dial(eve, nil)
		require.NoError(t, err)
		s := b.subscribeOn(conn, "1", drainChanges, object{"t": "other", "d": []string{d}})
		require.Equal(t, "DRAINING", s.event("drainChanges")["state"])
		b.exec(`delete from node_projection where tenant_id = 'other'`)
		require.Equal(t, "NOT_FOUND", s.refusal(), "it is noticed though no event tells of it")
	})
}

// until gives the next drain in that state.
func (s *stream) until(state string) object {
	s.b.Helper()
	for {
		if d := s.event("drainChanges"); d["state"] == state {
			return d
		}
	}
}
