package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is acme's pool on a database of its own.
type bundle struct {
	*testing.T

	db    *db.DB
	store *node.Store
	pool  string
}

var system = iam.System("test")

func setup(t *testing.T, options ...dbtest.Option) *bundle {
	t.Helper()
	b := &bundle{T: t, db: dbtest.New(t, options...)}
	authority, err := iam.NewAuthority(b.db)
	require.NoError(t, err)
	b.store = &node.Store{DB: b.db, Authority: authority}
	b.do(func(ctx context.Context, tx *db.Tx) error {
		if err := iam.CreateTenantTx(ctx, tx, "acme"); err != nil {
			return err
		}
		p, err := node.CreatePoolTx(ctx, tx, "acme", "gpus")
		b.pool = p.ID
		return err
	})
	return b
}

func (b *bundle) do(fn func(ctx context.Context, tx *db.Tx) error) {
	b.Helper()
	_, err := b.db.Do(b.Context(), fn)
	require.NoError(b, err)
}

func (b *bundle) exec(sql string, args ...any) {
	b.Helper()
	_, err := b.db.Pool().Exec(b.Context(), sql, args...)
	require.NoError(b, err)
}

func (b *bundle) node(hostname string) string {
	b.Helper()
	var nodeID string
	b.do(func(ctx context.Context, tx *db.Tx) error {
		n, err := node.CreateTx(tx, node.New{Key: id.New(id.Session), PoolID: b.pool, Hostname: hostname, By: "test"})
		if err == nil {
			nodeID = n
		}
		return err
	})
	return nodeID
}

// change puts nodes into the states that a decision makes of them.
func (b *bundle) change(ids []string, axes node.Axes, decide node.Decide) []*node.Node {
	b.Helper()
	var changed []*node.Node
	b.do(func(ctx context.Context, tx *db.Tx) (err error) {
		changed, err = b.store.ChangeManyTx(ctx, tx, node.Many{IDs: ids, Who: system}, node.Control{Name: "test", Axes: axes, Decide: decide})
		return err
	})
	return changed
}

func (b *bundle) read(nodeID string) *node.Node {
	b.Helper()
	var got *node.Node
	b.do(func(ctx context.Context, tx *db.Tx) error {
		locked, err := node.LockTx(ctx, tx, nodeID)
		got = locked[nodeID].Node
		return err
	})
	return got
}

const everyAxis = node.AxisDeleted<<1 - 1

// state is a random state of a node's axes, with what they carry; what it says of time is exact to the microsecond, as the database is.
func state(t *rapid.T, n *node.Node) {
	at := func(name string) time.Time {
		return time.UnixMicro(rapid.Int64Range(1_600_000_000_000_000, 1_900_000_000_000_000).Draw(t, name)).UTC()
	}
	text := func(name string) node.Text {
		return node.Text(rapid.StringMatching(`[a-zü"'\\,{}]{0,6}`).Draw(t, name))
	}
	n.Hostname = rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "hostname")
	n.ProvisionState = rapid.SampledFrom([]node.ProvisionState{node.Adopting, node.Adopted, node.Failed}).Draw(t, "state")
	n.Failure = nil
	if n.ProvisionState == node.Failed {
		n.Failure = &node.Failure{Phase: "ACCEPTANCE", Message: string(text("failure")), At: at("failed")}
	}
	n.Cordon = nil
	if rapid.Bool().Draw(t, "cordoned") {
		n.Cordon = &node.Cordon{Reason: text("cordon"), By: "alex", At: at("cordoned at")}
	}
	n.Maintenance = rapid.Bool().Draw(t, "maintenance")
	n.Connectivity = rapid.SampledFrom([]node.Connectivity{node.Pending, node.Connected, node.Lost}).Draw(t, "connectivity")
	n.ConnectivitySince = nil
	if n.Connectivity != node.Pending {
		since := at("connectivity since")
		n.ConnectivitySince = &since
	}
	n.IdentityGeneration = rapid.IntRange(1, 5).Draw(t, "generation")
	n.Credential, n.CredentialSince = rapid.SampledFrom([]node.Credential{node.Trusted, node.Revoked}).Draw(t, "credential"), at("credential since")
	n.Reasons = nil
	for _, name := range []string{"draining", "unreachable", "taint:a", "taint:a=b", "taint:A", "condition:x"} {
		if rapid.Bool().Draw(t, name) {
			n.AddReason(node.Reason{Name: name, Owner: "o", By: text("by"), Message: text("message"), Since: at("since")})
		}
	}
	n.Labels = nil
	for _, key := range []string{"a", "B", "a.b", "a/b", "a-b"} {
		if rapid.Bool().Draw(t, "label "+key) {
			n.SetLabel(node.Label{Key: key, Value: string(text("value")), Source: rapid.SampledFrom([]node.LabelSource{
				node.FromOperator, node.FromInventory, node.FromSystem,
			}).Draw(t, "source")})
		}
	}
	if n.Running() == nil && rapid.Bool().Draw(t, "drain") {
		n.LastDrain = &node.Drain{ID: id.New(id.Drain), NodeID: n.ID, State: node.Draining, Reason: text("drain"), By: "alex", StartedAt: time.Now().UTC().Truncate(time.Microsecond)}
	} else if d := n.Running(); d != nil && rapid.Bool().Draw(t, "ends") {
		ended, confirmed := at("ended"), rapid.Bool().Draw(t, "confirmed")
		d.EndedAt, d.EndedBy = &ended, text("ended by")
		if d.State = node.Cancelled; rapid.Bool().Draw(t, "drained") {
			d.State, d.ConfirmedByNode = node.Drained, &confirmed
		} else {
			d.Cause = text("cause")
		}
	}
}

func TestSaved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// Whatever a decision makes of a node is what the next reader finds, and the next decision starts from.
	nodeID := b.node("gpu-1")
	rapid.Check(t, func(t *rapid.T) {
		before := b.read(nodeID)
		changed := b.change([]string{nodeID}, everyAxis, func(n *node.Node, _ node.Act) (*node.Fact, error) {
			state(t, n)
			return &node.Fact{Type: "test.saved"}, nil
		})
		require.Len(t, changed, 1)
		require.Equal(t, changed[0], b.read(nodeID))
		grown := 0
		if node.Moved(before, changed[0])&^(node.AxisConnectivity|node.AxisOtherLabels|node.AxisHostname) != 0 {
			grown = 1
		}
		require.Equal(t, before.Version+grown, changed[0].Version, "moved: %s", node.Moved(before, changed[0]))
	})
}

func TestChangeMany(t *testing.T) {
	t.Parallel()
	// Many are saved as each would be alone, in the order of their ids, whatever the order they are named in; what is deleted is passed over.
	b := setup(t)
	var ids []string
	for i := range 20 {
		ids = append(ids, b.node(fmt.Sprintf("gpu-%d", i)))
	}
	gone := b.node("gone")
	b.exec(`update nodes set deleted_at = now() where id = $1`, gone)
	named := append([]string{gone, ids[3], id.New(id.Node)}, ids...)
	changed := b.change(named, node.AxisTaints, func(n *node.Node, a node.Act) (*node.Fact, error) {
		if n.ID == ids[7] {
			return nil, nil //nolint:nilnil // nothing to do
		}
		n.AddReason(node.Reason{Name: "taint:" + n.Hostname, Owner: "operator", Since: a.Now})
		return &node.Fact{Type: "test.tainted"}, nil
	})
	require.Len(t, changed, 19)
	for i, n := range changed {
		if i > 0 {
			require.Less(t, changed[i-1].ID, n.ID)
		}
		require.Equal(t, n, b.read(n.ID))
		require.Equal(t, []string{"taint:" + n.Hostname}, n.NoScheduleReasons())
	}
	require.Equal(t, 1, b.read(ids[7]).Version)
	// Moving what is not the control's commits nothing for any of them.
	_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := b.store.ChangeManyTx(ctx, tx, node.Many{IDs: ids[:2], Who: system}, node.Control{
			Name: "test", Axes: node.AxisTaints,
			Decide: func(n *node.Node, _ node.Act) (*node.Fact, error) {
				n.RemoveReason("taint:" + n.Hostname)
				n.Maintenance = n.ID == ids[1]
				return &node.Fact{Type: "test.tainted"}, nil
			},
		})
		return err
	})
	require.ErrorContains(t, err, "moved taints, maintenance")
	require.Len(t, b.read(ids[0]).Reasons, 1)
}

func TestSkipLocked(t *testing.T) {
	t.Parallel()
	// A controller that comes again leaves out what another holds, and takes the rest.
	b := setup(t)
	held, free := b.node("held"), b.node("free")
	b.do(func(ctx context.Context, tx *db.Tx) error {
		if _, err := node.LockTx(ctx, tx, held); err != nil {
			return err
		}
		_, err := b.db.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
			changed, err := b.store.ChangeManyTx(ctx, tx, node.Many{IDs: []string{held, free}, SkipLocked: true, Who: system}, node.Control{
				Name: "test", Axes: node.AxisMaintenance,
				Decide: func(n *node.Node, _ node.Act) (*node.Fact, error) {
					n.Maintenance = true
					return &node.Fact{Type: "test.maintenance"}, nil
				},
			})
			if err == nil && (len(changed) != 1 || changed[0].ID != free) {
				return fmt.Errorf("changed %d nodes", len(changed))
			}
			return err
		})
		return err
	})
	require.False(t, b.read(held).Maintenance)
	require.True(t, b.read(free).Maintenance)
}

func TestPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// Twelve nodes, four of each name, four of each time: the places of equals are told apart by the id.
	for i := range 12 {
		n := b.node(fmt.Sprintf("gpu-%d", i%3))
		b.exec(`update nodes set created_at = 'epoch'::timestamptz + $2 * interval '1 hour', cordoned = $2 > 0, cordon_by = case when $2 > 0 then 'x' end,
			cordon_at = case when $2 > 0 then 'epoch'::timestamptz + $2 * interval '1 hour' end where id = $1`, n, i%3)
		b.exec(`update node_liveness set last_seen = 'epoch'::timestamptz + $2 * interval '1 hour' where node_id = $1`, n, i%3)
	}
	list := func(o node.Order, first int, after string) node.Listed {
		l, err := b.store.List(t.Context(), system, node.Listing{Tenant: "acme", Order: o, First: first, After: after})
		require.NoError(t, err)
		return l
	}
	for _, o := range []node.Order{node.ByHostname, node.ByCreation, node.ByLastSeen, node.ByOutSince} {
		var whole []string
		for _, v := range list(o, 500, "").Views {
			whole = append(whole, v.ID)
		}
		require.Len(t, whole, 12)
		for _, first := range []int{1, 4, 5, 11, 12, 13} {
			var joined []string
			for after, more := "", true; more; {
				l := list(o, first, after)
				for i, v := range l.Views {
					joined = append(joined, v.ID)
					after = l.Cursors[i]
				}
				more = l.More
			}
			require.Equal(t, whole, joined, "%s by %d", o, first)
		}
		// A place is where the entry stood when it was read, also when the entry has moved since.
		page := list(o, 4, "")
		b.exec(`update nodes set hostname = 'zzz' || hostname, created_at = created_at - interval '1 year', cordon_at = cordon_at + interval '1 year' where id = $1`, page.Views[3].ID)
		require.Equal(t, whole[4], list(o, 1, page.Cursors[3]).Views[0].ID, o)
		b.exec(`update nodes set hostname = ltrim(hostname, 'z'), created_at = created_at + interval '1 year', cordon_at = cordon_at - interval '1 year' where id = $1`, page.Views[3].ID)
	}
	for _, l := range []node.Listing{
		{Tenant: "acme", Order: node.ByHostname, First: 0},
		{Tenant: "acme", Order: node.ByHostname, First: 501},
		{Tenant: "acme", Order: "SIDEWAYS", First: 1},
		{Tenant: "Acme", Order: node.ByHostname, First: 1},
		{Tenant: "acme", Order: node.ByHostname, First: 1, After: list(node.ByCreation, 1, "").Cursors[0]},
	} {
		_, err := b.store.List(t.Context(), system, l)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	}
}

func FuzzListCursor(f *testing.F) {
	nodeID := id.New(id.Node)
	f.Add(node.ListCursor(node.ByHostname, "gpu-1", nodeID))
	f.Add(node.ListCursor(node.ByCreation, "2026-11-29T00:00:00.000000", nodeID))
	f.Add("N.")
	f.Add("LAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("N.e30")
	f.Fuzz(func(t *testing.T, s string) {
		// No text makes it panic; what is accepted is the one text of its place, of this order, and fits into a statement.
		text, err := node.ParseListCursor(node.ByHostname, s)
		if err != nil {
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
			return
		}
		require.Equal(t, s, text)
		_, err = node.ParseListCursor(node.ByCreation, s)
		require.Error(t, err)
		require.False(t, strings.ContainsRune(s, 0))
	})
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\", "\u2028", "ü", "\x7f", "</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		// Free text is written as JSON, whatever it is; the empty one as null.
		var b strings.Builder
		node.Text(s).MarshalGQL(&b)
		if s == "" {
			require.Equal(t, "null", b.String())
			return
		}
		var got string
		require.NoError(t, json.Unmarshal([]byte(b.String()), &got))
		require.Equal(t, string([]rune(s)), got)
	})
}

// What a set-based writer saves is what it gives, whether the nodes become alike or not.
func TestSaveAlike(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := time.UnixMicro(1_700_000_000_000_000).UTC()
	cordon := func(n *node.Node, a node.Act) (*node.Fact, error) {
		n.Cordon = &node.Cordon{By: "alex", Reason: "bench", At: at, Until: &at, Overdue: true}
		return &node.Fact{Type: "test.changed"}, nil
	}
	taint := func(n *node.Node, a node.Act) (*node.Fact, error) {
		n.Reasons = append(n.Reasons, node.Reason{Name: node.PrefixTaint + "rma", Owner: "operator", By: "sam", Since: at})
		return &node.Fact{Type: "test.changed"}, nil
	}
	lift := func(n *node.Node, a node.Act) (*node.Fact, error) {
		n.Cordon = nil
		return &node.Fact{Type: "test.changed"}, nil
	}
	for name, c := range map[string]struct {
		cordoned int // how many of the nodes are cordoned before
		axes     node.Axes
		decide   node.Decide
	}{
		"a cordon of all":                     {0, node.AxisCordon, cordon},
		"an uncordon of all":                  {3, node.AxisCordon, lift},
		"a taint of nodes with other cordons": {1, node.AxisTaints, taint},
		"a cordon that leaves another's as it is": {1, node.AxisCordon | node.AxisTaints, func(n *node.Node, a node.Act) (*node.Fact, error) {
			if n.Cordon == nil {
				return cordon(n, a)
			}
			return taint(n, a)
		}},
		"another axis beside": {0, node.AxisCordon | node.AxisMaintenance, func(n *node.Node, a node.Act) (*node.Fact, error) {
			n.Maintenance = true
			return cordon(n, a)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids := []string{b.node("one"), b.node("two"), b.node("three")}
			if c.cordoned > 0 {
				b.change(ids[:c.cordoned], node.AxisCordon, func(n *node.Node, a node.Act) (*node.Fact, error) {
					n.Cordon = &node.Cordon{By: "kim", Reason: "hers", At: at.Add(-time.Hour)}
					return &node.Fact{Type: "test.changed"}, nil
				})
			}
			changed := b.change(ids, c.axes, c.decide)
			require.Len(t, changed, 3)
			for _, n := range changed {
				require.Equal(t, n, b.read(n.ID))
			}
		})
	}
}
