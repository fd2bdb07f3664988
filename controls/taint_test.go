package controls_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

func (b *bundle) taint(nodeID string, add, remove []string) node.Changed {
	b.Helper()
	done, err := b.controls.Taint(b.Context(), b.edit(b.alex, nodeID, "why"), controls.Taints{Add: add, Remove: remove})
	require.NoError(b, err)
	return done
}

func TestTaint(t *testing.T) {
	t.Parallel()

	t.Run("Keys come and go as taint:<key>, and the event says which really did", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.taint(n, []string{"burn-in"}, nil)
		done := b.taint(n, []string{"rma-pending", "burn-in-2"}, []string{"burn-in", "never-there"})
		require.True(t, done.Changed)
		require.Equal(t, 3, done.Node.Version)
		require.Equal(t, []string{"taint:burn-in-2", "taint:rma-pending"}, done.Node.NoScheduleReasons())
		all := b.events(n)
		require.Equal(t, "node.tainted", all[1].Type)
		require.Equal(t, "why", all[1].Reason)
		require.JSONEq(t, `{"taintsAdded":["rma-pending","burn-in-2"],"taintsRemoved":["burn-in"]}`, string(all[1].Data))
		hold := b.get(n).Reasons[0]
		require.Equal(t, []string{"operator", "alex", "why"}, []string{hold.Owner, string(hold.By), string(hold.Message)})
		// What is there already keeps its author and time, and nothing happens.
		again, err := b.controls.Taint(t.Context(), b.edit(b.sam, n, "mine"), controls.Taints{Add: []string{"rma-pending"}, Remove: []string{"gone"}})
		require.NoError(t, err)
		require.False(t, again.Changed)
		require.Equal(t, 3, again.Node.Version)
		require.Equal(t, hold, b.get(n).Reasons[0])
		require.Len(t, b.events(n), 2)
	})

	t.Run("A3 a taint named as a controller's reason is another entry, and removing it leaves the controller's", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		b.book(n, 0)
		b.drain(n, "PSU")
		b.exec(`insert into node_reasons (node_id, reason, owner, since) values ($1, 'unreachable', 'liveness', now()), ($1, 'condition:clock-skew', 'health', now())`, n)
		b.taint(n, []string{"unreachable", "draining", "condition:clock-skew"}, nil)
		require.Equal(t, []string{
			"condition:clock-skew", "draining", "taint:condition:clock-skew", "taint:draining", "taint:unreachable", "unreachable",
		}, b.get(n).NoScheduleReasons())
		b.taint(n, nil, []string{"unreachable", "draining", "condition:clock-skew"})
		require.Equal(t, []string{"condition:clock-skew", "draining", "unreachable"}, b.get(n).NoScheduleReasons())
		require.NotNil(t, b.get(n).Running())
	})
}

func TestDedication(t *testing.T) {
	t.Parallel()

	t.Run("It keeps every other tenant off and lets its own see and book the node", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		eve := b.principal("eve", "other")
		book := func(who iam.Actor, tenant string) error {
			_, err := b.bookings.Create(t.Context(), placement.Booking{Who: who, TenantID: tenant, NodeID: n, Duration: time.Hour})
			return err
		}
		require.Equal(t, fault.NotFound, fault.CodeOf(book(eve, "other")), "nobody else sees it before")
		done := b.taint(n, []string{"dedicated=other"}, nil)
		require.Empty(t, done.Warnings)
		require.Equal(t, []iam.Relation{iam.Dedicated}, b.relations("other", n))
		require.NoError(t, book(eve, "other"))
		require.Equal(t, fault.InvalidState, fault.CodeOf(book(b.alex, "acme")))
		// The tenant that comes to see the node by it is told so, reduced, and nothing from before.
		seen, _, err := events.List(t.Context(), b.db.Pool(), events.ListFilter{
			Filter: events.Filter{Tenant: "other", NodeID: n}, Order: events.OldestFirst, First: 50,
		})
		require.NoError(t, err)
		require.Equal(t, "node.tainted", seen[0].Type)
		require.Contains(t, seen[0].Audience.Reduced, "other")
		// The guest reads its own dedication and not the owner's words.
		v, err := b.controls.Nodes.Get(t.Context(), eve, "other", n)
		require.NoError(t, err)
		require.Equal(t, node.Reason{Name: "taint:dedicated=other", Owner: "operator", Since: v.Reasons[0].Since}, v.Reasons[0])

		// A second dedication, or any other reason beside it, blocks everyone.
		warned := b.taint(n, []string{"dedicated=nobody-yet"}, nil)
		require.Len(t, warned.Warnings, 1)
		require.Contains(t, warned.Warnings[0], "nobody-yet")
		require.Equal(t, fault.InvalidState, fault.CodeOf(book(eve, "other")))
		v, err = b.controls.Nodes.Get(t.Context(), eve, "other", n)
		require.NoError(t, err)
		require.Equal(t, []string{"taint:dedicated", "taint:dedicated=other"}, v.NoScheduleReasons(), "to whom else it is dedicated is not the guest's business")
		b.taint(n, []string{"rma-pending"}, []string{"dedicated=nobody-yet"})
		require.Equal(t, fault.InvalidState, fault.CodeOf(book(eve, "other")))

		// It goes with the taint; what the tenant holds still gives it sight.
		b.taint(n, nil, []string{"dedicated=other", "rma-pending"})
		require.Equal(t, []iam.Relation{iam.Allocated}, b.relations("other", n))
		require.NoError(t, book(b.alex, "acme"))
	})

	t.Run("A tenant that is made after its dedication sees the node from then on", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		require.Len(t, b.taint(n, []string{"dedicated=later", "dedicated=No:Tenant"}, nil).Warnings, 2)
		zoe := b.principal("zoe", "later")
		_, err := b.controls.Nodes.Get(t.Context(), zoe, "later", n)
		require.NoError(t, err)
		require.Empty(t, b.taint(n, []string{"x"}, []string{"dedicated=later"}).Warnings)
		_, err = b.controls.Nodes.Get(t.Context(), zoe, "later", n)
		require.Equal(t, fault.NotFound, fault.CodeOf(err))
	})
}

func (b *bundle) relations(tenant, nodeID string) []iam.Relation {
	b.Helper()
	rows, err := b.db.Pool().Query(b.Context(), `select relation from node_projection where tenant_id = $1 and node_id = $2 order by 1`, tenant, nodeID)
	require.NoError(b, err)
	defer rows.Close()
	var out []iam.Relation
	for rows.Next() {
		var r iam.Relation
		require.NoError(b, rows.Scan(&r))
		out = append(out, r)
	}
	require.NoError(b, rows.Err())
	return out
}

func (b *bundle) exec(sql string, args ...any) {
	b.Helper()
	_, err := b.db.Pool().Exec(b.Context(), sql, args...)
	require.NoError(b, err)
}

// keys gives so many different keys.
func keys(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("k", i)
	}
	return out
}

func TestTaintInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	for name, c := range map[string]struct {
		taints   controls.Taints
		argument string
	}{
		"neither list":          {controls.Taints{}, "add"},
		"33 to add":             {controls.Taints{Add: keys(33)}, "add"},
		"33 to remove":          {controls.Taints{Remove: keys(33)}, "remove"},
		"129 characters":        {controls.Taints{Add: []string{strings.Repeat("k", 129)}}, "add"},
		"an empty key":          {controls.Taints{Add: []string{""}}, "add"},
		"a leading sign":        {controls.Taints{Add: []string{"-a"}}, "add"},
		"a trailing sign":       {controls.Taints{Remove: []string{"a="}}, "remove"},
		"a space":               {controls.Taints{Add: []string{"a b"}}, "add"},
		"an at sign":            {controls.Taints{Add: []string{"a@b"}}, "add"},
		"a letter beyond ASCII": {controls.Taints{Add: []string{"ä"}}, "add"},
		"a line's end":          {controls.Taints{Remove: []string{"a\n"}}, "remove"},
		"a key twice":           {controls.Taints{Add: []string{"a", "b", "a"}}, "add"},
		"a key twice to remove": {controls.Taints{Remove: []string{"a", "a"}}, "remove"},
		"a key in both":         {controls.Taints{Add: []string{"a", "b"}, Remove: []string{"c", "b"}}, "remove"},
	} {
		t.Run("H1 refused: "+name, func(t *testing.T) {
			t.Parallel()
			_, err := b.controls.Taint(t.Context(), b.edit(b.alex, n, ""), c.taints)
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			require.Equal(t, c.argument, fault.From(err).Details["argument"])
		})
	}
	t.Cleanup(func() { require.Empty(t, b.log(n), "a refused input changes nothing") })
	t.Run("H1 taken: 32 and 32, 128 characters, every sign", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		all := append(keys(30), strings.Repeat("k", 128), "a._/=:-Z")
		require.Len(t, b.taint(n, all, nil).Node.Reasons, 32)
		require.Empty(t, b.taint(n, nil, all).Node.Reasons)
	})
}

func TestLabel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	label := func(n string, set map[string]string, remove ...string) (node.Changed, error) {
		return b.controls.Label(t.Context(), b.edit(b.alex, n, "why"), controls.Labels{Set: set, Remove: remove})
	}
	own := func(n string) {
		b.exec(`insert into node_labels (node_id, key, value, source) values ($1, 'gpu.model', 'H100', 'INVENTORY'), ($1, 'zone', 'eu', 'SYSTEM')`, n)
	}

	t.Run("It sets and removes, gives the node back with its labels, and tells what came and went", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		own(n)
		done, err := label(n, map[string]string{"rack": "b7", "fabric/rail": "3", "note": ""})
		require.NoError(t, err)
		require.Equal(t, []node.Label{
			{Key: "fabric/rail", Value: "3", Source: node.FromOperator},
			{Key: "gpu.model", Value: "H100", Source: node.FromInventory},
			{Key: "note", Source: node.FromOperator},
			{Key: "rack", Value: "b7", Source: node.FromOperator},
			{Key: "zone", Value: "eu", Source: node.FromSystem},
		}, done.Node.Labels)
		require.Equal(t, 2, done.Node.Version)
		done, err = label(n, map[string]string{"rack": "b8", "note": ""}, "fabric/rail", "gpu.model", "zone", "never-there")
		require.NoError(t, err)
		require.Equal(t, []node.Label{
			{Key: "gpu.model", Value: "H100", Source: node.FromInventory},
			{Key: "note", Source: node.FromOperator},
			{Key: "rack", Value: "b8", Source: node.FromOperator},
			{Key: "zone", Value: "eu", Source: node.FromSystem},
		}, done.Node.Labels, "others' labels are not removed")
		require.Equal(t, done.Node.Labels, b.get(n).Labels)
		all := b.events(n)
		require.Equal(t, []string{"node.labeled", "node.labeled"}, b.log(n))
		require.JSONEq(t, `{"set": {"rack": "b8"}, "removed": {"fabric/rail": "3"}}`, string(all[1].Data))
		again, err := label(n, map[string]string{"rack": "b8"}, "zone")
		require.NoError(t, err)
		require.False(t, again.Changed)
		require.Equal(t, 3, again.Node.Version)
	})

	t.Run("A key that another owns is refused by name, and nothing of the call happens", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		own(n)
		for key, owner := range map[string]string{"gpu.model": "inventory", "zone": "the system"} {
			_, err := label(n, map[string]string{key: "mine", "rack": "b7"})
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			require.Contains(t, err.Error(), owner)
			require.Equal(t, "set", fault.From(err).Details["argument"])
		}
		require.Len(t, b.get(n).Labels, 2)
		require.Empty(t, b.log(n))
	})

	refused := b.node()
	many := func(n int) map[string]string {
		out := map[string]string{}
		for _, k := range keys(n) {
			out[k] = "v"
		}
		return out
	}
	for name, c := range map[string]struct {
		labels   controls.Labels
		argument string
	}{
		"neither list":               {controls.Labels{}, "set"},
		"65 to set":                  {controls.Labels{Set: many(65)}, "set"},
		"65 to remove":               {controls.Labels{Remove: keys(65)}, "remove"},
		"a key of 129":               {controls.Labels{Remove: []string{strings.Repeat("k", 129)}}, "remove"},
		"a key with a colon":         {controls.Labels{Remove: []string{"a:b"}}, "remove"},
		"a leading sign":             {controls.Labels{Remove: []string{"/a"}}, "remove"},
		"a trailing sign":            {controls.Labels{Set: map[string]string{"a/": "v"}}, "set"},
		"a value of 257":             {controls.Labels{Set: map[string]string{"a": strings.Repeat("v", 257)}}, "set"},
		"bc.dev/ to set":             {controls.Labels{Set: map[string]string{"bc.dev/driver": "1"}}, "set"},
		"bc.dev/ to remove":          {controls.Labels{Remove: []string{"bc.dev/driver"}}, "remove"},
		"a key twice to remove":      {controls.Labels{Remove: []string{"a", "a"}}, "remove"},
		"a key to set and to remove": {controls.Labels{Set: map[string]string{"a": "v"}, Remove: []string{"a"}}, "remove"},
	} {
		t.Run("H1 refused: "+name, func(t *testing.T) {
			t.Parallel()
			_, err := b.controls.Label(t.Context(), b.edit(b.alex, refused, ""), c.labels)
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			require.Equal(t, c.argument, fault.From(err).Details["argument"])
		})
	}
	t.Run("H1 taken: 64 and 64", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		done, err := label(n, many(64))
		require.NoError(t, err)
		require.Len(t, done.Node.Labels, 64)
		done, err = label(n, nil, keys(64)...)
		require.NoError(t, err)
		require.Empty(t, done.Node.Labels)
	})
	t.Cleanup(func() { require.Empty(t, b.log(refused), "a refused input changes nothing") })
}

// TestConditionComesAndGoes is about who owns what: health's conditions move nothing of the operator's.
func TestConditionComesAndGoes(t *testing.T) {
	t.Parallel()
	t.Run("A1 a condition comes and clears on a cordoned node", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		_, err := b.cordon(t.Context(), b.edit(b.alex, n, "BIOS"))
		require.NoError(t, err)
		b.taint(n, []string{"clock-skew"}, nil)
		held := b.get(n)
		for _, skewed := range []bool{true, false} {
			_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := b.controls.Nodes.ChangeManyTx(ctx, tx, node.Many{IDs: []string{n}, Who: iam.System("health")}, node.Control{
					Name: "condition", Axes: node.AxisConditions, Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
						n.RemoveReason(node.ConditionClockSkew)
						if skewed {
							n.AddReason(node.Reason{Name: node.ConditionClockSkew, Owner: "health", Since: a.Now})
						}
						return &node.Fact{Type: "test.condition"}, nil
					},
				})
				return err
			})
			require.NoError(t, err)
			require.Equal(t, held.Cordon, b.get(n).Cordon, "still cordoned, reason and author unchanged")
		}
		require.Equal(t, held.Reasons, b.get(n).Reasons)
	})
}
