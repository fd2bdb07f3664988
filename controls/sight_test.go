package controls_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// held locks the node's row until the test, or what it does, ends.
func (b *bundle) held(nodeID string) (free func()) {
	b.Helper()
	locked, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = b.db.Do(context.WithoutCancel(b.Context()), func(ctx context.Context, tx *db.Tx) error {
			_, err := node.LockTx(ctx, tx, nodeID)
			close(locked)
			<-end
			return err
		})
	}()
	<-locked
	return func() {
		close(end)
		<-done
	}
}

func TestSightBeforeLock(t *testing.T) {
	t.Parallel()

	t.Run("Who does not see a node neither locks it nor waits for who does", func(t *testing.T) {
		t.Parallel()
		// The batch that would lock, its rollback and the question why: three, and no further try, as a wait that ends would cause.
		sent := &trips{}
		b := setup(t, dbtest.With(func(c *db.Config) { c.Tracer, c.LockTimeout = sent, 50*time.Millisecond }))
		n := b.node()
		eve := b.principal("eve", "other")
		mallory := b.alex
		mallory.TokenID = id.New(id.Token)
		free := b.held(n)
		defer free()
		for name, c := range map[string]struct {
			edit node.Edit
			code fault.Code
			sent int64
		}{
			"a tenant that does not see it": {node.Edit{Who: eve, TenantID: "other", NodeID: n}, fault.NotFound, 3},
			"no grant in the tenant":        {node.Edit{Who: eve, TenantID: "acme", NodeID: n}, fault.Forbidden, 2},
			"a token that does not count":   {node.Edit{Who: mallory, TenantID: "acme", NodeID: n}, fault.Unauthenticated, 2},
		} {
			before := sent.n.Load()
			_, err := b.cordon(t.Context(), c.edit)
			require.Equal(t, c.code, fault.CodeOf(err), name)
			require.Equal(t, c.sent, sent.n.Load()-before, name)
		}
	})

	t.Run("Who sees it and lacks the action is FORBIDDEN, also while others hold the node", func(t *testing.T) {
		t.Parallel()
		b := setup(t, dbtest.With(func(c *db.Config) { c.LockTimeout = 20 * time.Millisecond }))
		n := b.node()
		guest := b.principal("guest", "other")
		_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error { return iam.ProjectTx(ctx, tx, "other", n, iam.Shared) })
		require.NoError(t, err)
		e := node.Edit{Who: guest, TenantID: "other", NodeID: n, RequestID: "refused"}
		_, err = b.cordon(t.Context(), e)
		require.Equal(t, fault.Forbidden, fault.CodeOf(err))
		free := b.held(n)
		_, err = b.cordon(t.Context(), e)
		require.Equal(t, fault.Forbidden, fault.CodeOf(err))
		_, err = b.cordon(t.Context(), b.edit(b.alex, n, ""))
		require.Equal(t, fault.Unavailable, fault.CodeOf(err), "who may act waits for the node, and is told so")
		free()
		require.Empty(t, b.log(n))
		var claimed int
		require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select count(*) from requests`).Scan(&claimed))
		require.Zero(t, claimed, "what was refused leaves its request id free")
	})

	t.Run("A node that another changes while the lock is waited for is decided on as it is then", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, version := b.node(), 1
		begun, end := make(chan struct{}), make(chan struct{})
		first := make(chan error, 1)
		go func() {
			_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := b.controls.Nodes.ChangeManyTx(ctx, tx, node.Many{IDs: []string{n}, Who: iam.System("test")}, node.Control{
					Name: "taint", Axes: node.AxisTaints,
					Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
						n.AddReason(node.Reason{Name: "taint:rma", Owner: "test", Since: a.Now})
						return &node.Fact{Type: "node.tainted"}, nil
					},
				})
				close(begun)
				<-end
				return err
			})
			first <- err
		}()
		<-begun
		second := make(chan error, 2)
		late := b.edit(b.sam, n, "late")
		go func() {
			_, err := b.cordon(t.Context(), late)
			second <- err
		}()
		stale := b.edit(b.alex, n, "stale")
		stale.Version = &version
		go func() {
			_, err := b.cordon(t.Context(), stale)
			second <- err
		}()
		b.eventually(10*time.Second, func() bool { return b.waiting() == 2 }, "both wait for the node")
		close(end)
		require.NoError(t, <-first)
		errs := []fault.Code{fault.CodeOf(<-second), fault.CodeOf(<-second)}
		require.ElementsMatch(t, []fault.Code{"", fault.Conflict}, errs)
		got := b.get(n)
		require.Equal(t, "sam", got.Cordon.By)
		require.Equal(t, []string{"taint:rma"}, got.NoScheduleReasons())
		require.Equal(t, 3, got.Version)
	})
}

// waiting says how many statements wait for a lock.
func (b *bundle) waiting() (n int) {
	b.Helper()
	require.NoError(b, b.db.Pool().QueryRow(b.Context(),
		`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&n))
	return n
}

func TestBlind(t *testing.T) {
	t.Parallel()
	for _, c := range (&controls.Controls{}).All() {
		t.Run(c.Name+" decides the same without the parts that it says it does not look at", func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				whole := anyNode(t)
				part := whole.Clone()
				if c.Blind&node.PartReasons != 0 {
					part.Reasons = nil
				}
				if c.Blind&node.PartLabels != 0 {
					part.Labels = nil
				}
				if c.Blind&node.PartDrain != 0 {
					part.LastDrain = nil
				}
				before, partBefore := whole.Clone(), part.Clone()
				act := node.Act{Who: iam.Actor{Name: "y", TokenID: "t"}, Reason: "r", Now: time.Now()}
				fact, err := c.Decide(whole, act)
				partFact, partErr := c.Decide(part, act)
				if (fact == nil) != (partFact == nil) || (err == nil) != (partErr == nil) {
					t.Fatalf("the whole node: %v %v; without what it is blind to: %v %v", fact, err, partFact, partErr)
				}
				if a, b := node.Moved(before, whole), node.Moved(partBefore, part); a != b {
					t.Fatalf("the whole node: moved %s; without what it is blind to: %s", a, b)
				}
			})
		})
	}
}
