package controls_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// anyNode draws a node in any state that the axes allow.
func anyNode(t *rapid.T) *node.Node {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	n := &node.Node{
		ID: id.New(id.Node), TenantID: "acme", Version: rapid.IntRange(1, 9).Draw(t, "version"),
		ProvisionState: rapid.SampledFrom([]node.ProvisionState{
			node.Enrolling, node.Adopting, node.Adopted, node.Provisioning, node.Failed, node.Retiring, node.Retired,
		}).Draw(t, "state"),
		Maintenance:        rapid.Bool().Draw(t, "maintenance"),
		Connectivity:       rapid.SampledFrom([]node.Connectivity{node.Pending, node.Connected, node.Disconnected, node.Unreachable}).Draw(t, "connectivity"),
		IdentityGeneration: rapid.IntRange(1, 5).Draw(t, "generation"),
		Credential:         rapid.SampledFrom([]node.Credential{node.NoCredential, node.Trusted, node.Revoked, node.Quarantined}).Draw(t, "credential"),
		Hostname:           "gpu-1",
	}
	for _, r := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{
		"taint:rma", "taint:dedicated=acme", "taint:unreachable", "unreachable", "condition:clock-skew",
	}), func(s string) string { return s }).Draw(t, "reasons") {
		n.AddReason(node.Reason{Name: r, Owner: "somebody", Since: now})
	}
	for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"rack", "cpu.arch", "bc.dev/vps"}), func(s string) string { return s }).Draw(t, "labels") {
		n.SetLabel(node.Label{Key: key, Value: "x", Source: rapid.SampledFrom([]node.LabelSource{
			node.FromOperator, node.FromInventory, node.FromSystem,
		}).Draw(t, "source")})
	}
	if rapid.Bool().Draw(t, "cordoned") {
		n.Cordon = &node.Cordon{By: "x", Reason: "why", At: now}
		if rapid.Bool().Draw(t, "draining") {
			n.LastDrain = &node.Drain{ID: id.New(id.Drain), NodeID: n.ID, State: node.Draining, By: "x", StartedAt: now}
			n.AddReason(node.Reason{Name: node.ReasonDraining, Owner: controls.DrainController, Since: now})
		}
	}
	return n
}

func TestAxes(t *testing.T) {
	t.Parallel()
	for _, c := range (&controls.Controls{}).All() {
		t.Run("A9 "+c.Name+" moves its own axis only", func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				before := anyNode(t)
				after := before.Clone()
				fact, err := c.Decide(after, node.Act{Who: iam.Actor{Name: "y", TokenID: "t"}, Reason: "r", Now: time.Now()})
				moved := node.Moved(before, after)
				switch {
				case err != nil || fact == nil:
					if moved != 0 {
						t.Fatalf("nothing happened, and yet %s moved", moved)
					}
				case moved == 0:
					t.Fatalf("%s happened, and nothing moved", fact.Type)
				case !c.Axes.Has(moved):
					t.Fatalf("moved %s, of which only %s are its own", moved, c.Axes)
				}
			})
		})
	}
}

func TestCordon(t *testing.T) {
	t.Parallel()

	t.Run("A cordon is set once, with author and reason", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		first, err := b.cordon(t.Context(), b.edit(b.alex, n, "BIOS update window"))
		require.NoError(t, err)
		require.True(t, first.Changed)
		require.Equal(t, 2, first.Node.Version)
		// Cordoning a cordoned node returns it unchanged, whoever asks, and the answer says who holds it.
		again, err := b.cordon(t.Context(), b.edit(b.sam, n, "mine"))
		require.NoError(t, err)
		require.False(t, again.Changed)
		require.Equal(t, "alex", again.Node.Cordon.By)
		require.Equal(t, node.Text("BIOS update window"), again.Node.Cordon.Reason)
		require.Equal(t, 2, again.Node.Version)
		require.Equal(t, []string{"node.cordoned"}, b.log(n))
		require.Equal(t, first.Cursor, b.events(n)[0].Cursor(), "the cursor is the place of this very event")
		require.Equal(t, first.Cursor, again.Cursor, "an unchanged answer carries the head")
	})

	t.Run("A2 author and reason of an older cordon never come back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		for _, step := range []func() (node.Changed, error){
			func() (node.Changed, error) { return b.cordon(t.Context(), b.edit(b.alex, n, "x")) },
			func() (node.Changed, error) { return b.uncordon(t.Context(), b.edit(b.alex, n, "done")) },
			func() (node.Changed, error) { return b.cordon(t.Context(), b.edit(b.sam, n, "")) },
		} {
			_, err := step()
			require.NoError(t, err)
		}
		c := b.get(n).Cordon
		require.Equal(t, "sam", c.By)
		require.Empty(t, c.Reason)
		all := b.events(n)
		require.Equal(t, []string{"x", "done", ""}, []string{all[0].Reason, all[1].Reason, all[2].Reason})
	})

	t.Run("A stale version is CONFLICT and changes nothing, also where nothing would change", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		stale := 1
		_, err := b.cordon(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		e := b.edit(b.sam, n, "")
		e.Version = &stale
		for _, verb := range b.verbs() {
			_, err := verb(t.Context(), e)
			require.Equal(t, fault.Conflict, fault.CodeOf(err))
			d := fault.From(err).Details
			require.Equal(t, 1, d["expected"])
			require.Equal(t, 2, d["actual"])
			require.Equal(t, "alex", d["by"])
			require.NotNil(t, d["at"])
		}
		require.Equal(t, []string{"node.cordoned"}, b.log(n))
	})

	t.Run("Two callers with one version: exactly one wins", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, version := b.node(), 1
		var won, lost atomic.Int32
		var g errgroup.Group
		for _, verb := range []func(context.Context, node.Edit) (node.Changed, error){b.cordon, b.drainBy} {
			g.Go(func() error {
				e := b.edit(b.alex, n, "")
				e.Version = &version
				switch _, err := verb(t.Context(), e); fault.CodeOf(err) {
				case "":
					won.Add(1)
				case fault.Conflict:
					lost.Add(1)
				default:
					return err
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
		require.Equal(t, []int32{1, 1}, []int32{won.Load(), lost.Load()})
	})
}

func TestWho(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	stranger := b.principal("eve", "other")
	t.Cleanup(func() { require.Empty(t, b.log(n), "nothing that was refused left a trace") })

	t.Run("H3 an unseen, an absent and a malformed node", func(t *testing.T) {
		t.Parallel()
		// For a caller without sight a node that is there and one that is not are the same answer; a malformed id is INVALID_INPUT.
		absent := id.New(id.Node)
		for _, nodeID := range []string{n, absent} {
			_, err := b.cordon(t.Context(), node.Edit{Who: stranger, TenantID: "other", NodeID: nodeID})
			require.Equal(t, fault.NotFound, fault.CodeOf(err))
			require.Equal(t, strings.ReplaceAll(iam.NoSuchNode(nodeID).Error(), nodeID, "X"), strings.ReplaceAll(err.Error(), nodeID, "X"))
		}
		_, err := b.cordon(t.Context(), b.edit(b.alex, "node_nonsense", ""))
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	})

	t.Run("A principal without a grant in the tenant is FORBIDDEN whatever the node", func(t *testing.T) {
		t.Parallel()
		for _, nodeID := range []string{n, id.New(id.Node)} {
			_, err := b.cordon(t.Context(), node.Edit{Who: stranger, TenantID: "acme", NodeID: nodeID})
			require.Equal(t, fault.Forbidden, fault.CodeOf(err))
			require.NotContains(t, err.Error(), nodeID)
		}
	})

	t.Run("A token that the database does not hold, or holds as ended, is UNAUTHENTICATED", func(t *testing.T) {
		t.Parallel()
		gone := b.alex
		gone.TokenID = id.New(id.Token)
		_, err := b.cordon(t.Context(), b.edit(gone, n, ""))
		require.Equal(t, fault.Unauthenticated, fault.CodeOf(err))
	})

	t.Run("A tenant that merely sees the node controls nothing", func(t *testing.T) {
		t.Parallel()
		seen := b.node()
		_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error { return iam.ProjectTx(ctx, tx, "other", seen, iam.Shared) })
		require.NoError(t, err)
		for _, verb := range b.verbs() {
			_, err := verb(t.Context(), node.Edit{Who: stranger, TenantID: "other", NodeID: seen})
			require.Equal(t, fault.Forbidden, fault.CodeOf(err))
		}
		_, err = b.cordon(t.Context(), b.edit(b.alex, seen, "secret plan"))
		require.NoError(t, err)
		v, err := b.controls.Nodes.Get(t.Context(), stranger, "other", seen)
		require.NoError(t, err)
		require.Equal(t, "operator", v.Cordon.By)
		require.Empty(t, v.Cordon.Reason)
	})
}

func TestInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	zero := 0
	for name, c := range map[string]struct {
		edit     node.Edit
		argument string
	}{
		"H1 a reason of 257 characters":     {b.edit(b.alex, n, strings.Repeat("ü", 257)), "reason"},
		"H1 a reason with a control sign":   {b.edit(b.alex, n, "a\x00b"), "reason"},
		"H1 a malformed node id":            {b.edit(b.alex, strings.ToUpper(n), ""), "nodeId"},
		"H1 another kind's id":              {b.edit(b.alex, id.New(id.Pool), ""), "nodeId"},
		"H1 a malformed tenant":             {node.Edit{Who: b.alex, TenantID: "Acme!", NodeID: n}, "tenantId"},
		"H1 a version below 1":              {node.Edit{Who: b.alex, TenantID: "acme", NodeID: n, Version: &zero}, "version"},
		"H1 a request id of 129 characters": {node.Edit{Who: b.alex, TenantID: "acme", NodeID: n, RequestID: strings.Repeat("r", 129)}, "requestId"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, verb := range b.verbs() {
				_, err := verb(t.Context(), c.edit)
				require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
				require.Equal(t, c.argument, fault.From(err).Details["argument"])
			}
		})
	}
	t.Run("H1 a reason of 256 characters fits", func(t *testing.T) {
		t.Parallel()
		other := b.node()
		_, err := b.cordon(t.Context(), b.edit(b.alex, other, strings.Repeat("ü", 256)))
		require.NoError(t, err)
	})
	t.Cleanup(func() { require.Empty(t, b.log(n), "a refused input changes nothing") })
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("I7 a repeat does nothing and gives the same answer", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		e := b.edit(b.alex, n, "once")
		e.RequestID = "req-1"
		var g errgroup.Group
		answers := make([]node.Changed, 20)
		for i := range answers {
			g.Go(func() (err error) {
				answers[i], err = b.cordon(t.Context(), e)
				return err
			})
		}
		require.NoError(t, g.Wait())
		for _, a := range answers {
			require.True(t, a.Changed)
			require.Equal(t, answers[0].Cursor, a.Cursor)
		}
		require.Equal(t, []string{"node.cordoned"}, b.log(n))
		require.Equal(t, "req-1", b.events(n)[0].RequestID)
		// The node in a repeat's answer is the one as it is now; changed and cursor are those of the act.
		_, err := b.uncordon(t.Context(), b.edit(b.sam, n, ""))
		require.NoError(t, err)
		late, err := b.cordon(t.Context(), e)
		require.NoError(t, err)
		require.True(t, late.Changed)
		require.Equal(t, answers[0].Cursor, late.Cursor)
		require.False(t, late.Node.Cordoned())
	})

	t.Run("I7 another body under it is INVALID_INPUT", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		e := b.edit(b.alex, n, "first")
		e.RequestID = "req-2"
		_, err := b.cordon(t.Context(), e)
		require.NoError(t, err)
		other := e
		other.Reason = "second"
		_, err = b.cordon(t.Context(), other)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
		_, err = b.uncordon(t.Context(), e)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err), "the same body for another operation is another request")
		// Ids belong to their principals.
		mine := e
		mine.Who = b.sam
		_, err = b.cordon(t.Context(), mine)
		require.NoError(t, err)
	})

	t.Run("I7 a refused request leaves its id free", func(t *testing.T) {
		t.Parallel()
		n, wrong := b.node(), 7
		e := b.edit(b.alex, n, "")
		e.RequestID, e.Version = "req-3", &wrong
		_, err := b.cordon(t.Context(), e)
		require.Equal(t, fault.Conflict, fault.CodeOf(err))
		e.Version = nil
		done, err := b.cordon(t.Context(), e)
		require.NoError(t, err)
		require.True(t, done.Changed)
	})
}

func TestConcurrentOwners(t *testing.T) {
	t.Parallel()
	t.Run("A7 operators and controllers change one node at once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		// Beside the operator's own controls one of the liveness controller, through the same write path.
		flip := node.Control{Name: "sweep", Axes: node.AxisUnreachable, Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			if slices.Contains(n.NoScheduleReasons(), node.ReasonUnreachable) {
				n.RemoveReason(node.ReasonUnreachable)
			} else {
				n.AddReason(node.Reason{Name: node.ReasonUnreachable, Owner: "liveness", Since: a.Now})
			}
			return &node.Fact{Type: "test.flipped"}, nil
		}}
		var changes atomic.Int32
		var versions sync.Map
		note := func(n *node.Node, err error, changed bool) error {
			if err != nil || !changed {
				return err
			}
			changes.Add(1)
			if _, twice := versions.LoadOrStore(n.Version, true); twice {
				return fmt.Errorf("version %d was given twice", n.Version)
			}
			return nil
		}
		var g errgroup.Group
		g.SetLimit(16)
		for i := range 50 {
			g.Go(func() error {
				done, err := b.controls.Taint(t.Context(), b.edit(b.alex, n, ""), controls.Taints{Add: []string{fmt.Sprintf("x%d", i)}})
				return note(done.Node, err, done.Changed)
			})
			g.Go(func() error {
				var changed []*node.Node
				_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
					changed, err = b.controls.Nodes.ChangeManyTx(ctx, tx, node.Many{IDs: []string{n}, Who: iam.System("liveness")}, flip)
					return err
				})
				if err != nil {
					return err
				}
				return note(changed[0], nil, true)
			})
			g.Go(func() error {
				done, err := b.drainBy(t.Context(), b.edit(b.sam, n, ""))
				return note(done.Node, err, done.Changed)
			})
			g.Go(func() error {
				done, err := b.uncordon(t.Context(), b.edit(b.sam, n, ""))
				return note(done.Node, err, done.Changed)
			})
		}
		require.NoError(t, g.Wait())
		end := b.get(n)
		for i := range 50 {
			require.Contains(t, end.NoScheduleReasons(), fmt.Sprintf("taint:x%d", i))
		}
		// The drains of the empty node ended with the transactions that began them.
		all, drained := b.events(n), b.count(n, "node.drained")
		require.Equal(t, b.count(n, "node.draining"), drained)
		require.Equal(t, int(changes.Load())+1, end.Version, "every change moved the version by one, a drain and its end together")
		require.Len(t, all, int(changes.Load())+drained, "one event per change")
		require.Equal(t, end.Running() != nil, slices.Contains(end.NoScheduleReasons(), node.ReasonDraining))
		require.NotContains(t, end.NoScheduleReasons(), node.ReasonUnreachable, "50 flips lead back")
	})
}

func TestOneConnection(t *testing.T) {
	t.Parallel()
	// Inside a transaction nobody takes a second connection: every verb works with a pool of one.
	b := setup(t, dbtest.WithMaxConns(1))
	n := b.node()
	r := b.book(n, 0)
	for _, verb := range b.verbs() {
		e := b.edit(b.alex, n, "")
		e.RequestID = id.New("req")
		_, err := verb(t.Context(), e)
		require.NoError(t, err)
	}
	b.release(r)
	look, err := b.controls.LookAtDrain(t.Context(), n)
	require.NoError(t, err)
	require.True(t, look.Over)
	_, err = b.bookings.TurnIntervals(t.Context())
	require.NoError(t, err)
	_, err = b.controls.ReviveDrains(t.Context())
	require.NoError(t, err)
	require.Equal(t, node.Drained, b.get(n).LastDrain.State)
}

func TestOneMoment(t *testing.T) {
	t.Parallel()
	// What is read of a node is of one moment: its version never stands beside the lists of the next.
	b := setup(t)
	n := b.node()
	b.book(n, 0)
	done := make(chan struct{})
	var writer errgroup.Group
	writer.Go(func() error {
		defer close(done)
		for range 150 {
			if _, err := b.drainBy(t.Context(), b.edit(b.alex, n, "")); err != nil {
				return err
			}
			if _, err := b.uncordon(t.Context(), b.edit(b.alex, n, "")); err != nil {
				return err
			}
		}
		return nil
	})
	reads := 0
	for over := false; !over; reads++ {
		select {
		case <-done:
			over = true
		default:
		}
		v := b.get(n)
		draining := v.Version%2 == 0 // the first version is 1, each drain and each uncordon is one
		require.Equal(t, draining, v.Cordoned(), "version %d", v.Version)
		require.Equal(t, draining, v.Running() != nil, "version %d", v.Version)
		require.Equal(t, draining, slices.Contains(v.NoScheduleReasons(), node.ReasonDraining), "version %d", v.Version)
	}
	require.NoError(t, writer.Wait())
	require.Greater(t, reads, 10)
}
