package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/node"
)

// ready is a node that takes work.
func ready(reasons ...string) *node.Node {
	n := &node.Node{ID: "node_x", TenantID: "owner", ProvisionState: node.Adopted, Credential: node.Trusted, Version: 1}
	for _, r := range reasons {
		n.AddReason(node.Reason{Name: r, Owner: "operator"})
	}
	return n
}

// The decision table of reasons: who may book a device, and who may lease the whole node.
func TestGateReasons(t *testing.T) {
	t.Parallel()
	const dedA, dedB, other = "taint:dedicated=a", "taint:dedicated=b", "taint:rma-pending"
	for _, c := range []struct {
		reasons                          []string
		deviceA, deviceB, leaseA, leaseB bool
	}{
		{nil, true, true, true, true},
		{[]string{dedA}, true, false, true, false},
		{[]string{dedA, other}, false, false, false, false},
		{[]string{dedA, dedB}, false, false, false, false},
		{[]string{other}, false, false, true, true},
	} {
		t.Run(fmt.Sprint(c.reasons), func(t *testing.T) {
			t.Parallel()
			for _, q := range []struct {
				tenant  string
				binding node.Binding
				want    bool
			}{{"a", node.Device, c.deviceA}, {"b", node.Device, c.deviceB}, {"a", node.Whole, c.leaseA}, {"b", node.Whole, c.leaseB}} {
				got := node.Gate(ready(c.reasons...), q.tenant, q.binding, time.Now())
				require.Equal(t, q.want, got.Placeable, "tenant %s, binding %d: %v", q.tenant, q.binding, got.Because)
				require.Equal(t, q.want, len(got.Because) == 0, "a refusal says why, and only a refusal does")
			}
		})
	}
}

// Whatever else is true, each of these alone keeps everybody out, whole-node leases included.
func TestGateBlocks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		change func(n *node.Node)
		says   string
	}{
		"cordoned": {
			func(n *node.Node) {
				n.Cordon = &node.Cordon{By: "alex", Reason: "BIOS update window", At: now.Add(-14 * time.Minute)}
			},
			"cordoned by alex 14 min ago: BIOS update window",
		},
		"adopting, before its first session": {func(n *node.Node) {
			n.ProvisionState, n.Connectivity = node.Adopting, node.Pending
		}, "adopting: its daemon has not connected yet"},
		"adopting, its session lost": {func(n *node.Node) {
			n.ProvisionState, n.Connectivity = node.Adopting, node.Disconnected
		}, "adopting: its daemon holds no session"},
		"adopting, connected without an inventory": {func(n *node.Node) {
			n.ProvisionState, n.Connectivity = node.Adopting, node.Connected
		}, "adopting: its inventory is awaited"},
		"retired": {func(n *node.Node) { n.ProvisionState = node.Retired }, "retired"},
		"failed": {func(n *node.Node) {
			n.ProvisionState, n.Failure = node.Failed, &node.Failure{Phase: "ACCEPTANCE", Message: "no GPU"}
		}, "failed in acceptance: no GPU"},
		"maintenance":    {func(n *node.Node) { n.Maintenance = true }, "in maintenance: it needs an operator"},
		"deleted":        {func(n *node.Node) { n.DeletedAt = &now }, "deleted"},
		"no credential":  {func(n *node.Node) { n.Credential = node.NoCredential }, "holds no credential yet"},
		"I6 revoked":     {func(n *node.Node) { n.Credential = node.Revoked }, "its credential is revoked; it must join again"},
		"I6 quarantined": {func(n *node.Node) { n.Credential = node.Quarantined }, "its certificate is quarantined: two machines used it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, binding := range []node.Binding{node.Device, node.Whole} {
				n := ready()
				c.change(n)
				got := node.Gate(n, "owner", binding, now)
				require.False(t, got.Placeable)
				require.Equal(t, []string{c.says}, got.Because)
				require.Equal(t, node.PlaceableForNone, n.PlaceableFor())
				require.Equal(t, c.says, n.StatusSentence(now))
			}
		})
	}
}

// A drained node says so as long as the cordon of that drain holds; a running drain is a reason like others, a cancelled one is none.
func TestDrainedInSentence(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(d time.Duration) *time.Time { t := now.Add(-d); return &t }
	n := ready()
	n.Cordon = &node.Cordon{By: "alex", Reason: "replace PSU", At: now.Add(-20 * time.Minute)}
	n.LastDrain = &node.Drain{State: node.Drained, StartedAt: *at(20 * time.Minute), EndedAt: at(5 * time.Minute)}
	require.Equal(t, "drained 5 min ago; cordoned by alex 20 min ago: replace PSU", n.StatusSentence(now))
	n.LastDrain.State = node.Cancelled
	require.Equal(t, "cordoned by alex 20 min ago: replace PSU", n.StatusSentence(now))
	n.LastDrain.State, n.Cordon.At = node.Drained, now.Add(-time.Minute)
	require.Equal(t, "cordoned by alex 1 min ago: replace PSU", n.StatusSentence(now), "another cordon than the drain's")
	n.Cordon = nil
	require.Equal(t, "in service", n.StatusSentence(now))
}

// A machine whose clock is off waits for it, and the sentence says both.
func TestClockInSentence(t *testing.T) {
	t.Parallel()
	n := ready()
	n.ProvisionState, n.Connectivity = node.Adopting, node.Connected
	n.AddReason(node.Reason{Name: node.ConditionClockSkew, Owner: "health", Message: "the machine's clock is 60 min ahead; set it, and restart bcd"})
	require.Equal(t, "adopting: its clock must be right first; condition:clock-skew: the machine's clock is 60 min ahead; set it, and restart bcd",
		n.StatusSentence(time.Now()))
	require.Equal(t, node.Text("adopting: its clock must be right first"), n.Holds()[0].Message)
}

func TestPlaceableFor(t *testing.T) {
	t.Parallel()
	// A node in service is for all, a dedicated one for its tenant, any other reason beside it for nobody.
	require.Equal(t, node.PlaceableForAll, ready().PlaceableFor())
	require.Equal(t, "in service", ready().StatusSentence(time.Now()))
	require.Equal(t, node.PlaceableForOne, ready("taint:dedicated=acme").PlaceableFor())
	require.Equal(t, "only for acme", ready("taint:dedicated=acme").StatusSentence(time.Now()))
	require.Equal(t, node.PlaceableForNone, ready("taint:dedicated=acme", "draining").PlaceableFor())
	require.Equal(t, node.PlaceableForNone, ready("unreachable").PlaceableFor())
}

func TestReasonNames(t *testing.T) {
	t.Parallel()
	// A3: an operator's taint that is called unreachable is another entry than the liveness controller's; reasons stand sorted.
	n := ready("unreachable", "taint:unreachable", "draining")
	require.Equal(t, []string{"draining", "taint:unreachable", "unreachable"}, n.NoScheduleReasons())
	n.RemoveReason(node.ReasonUnreachable)
	require.Equal(t, []string{"draining", "taint:unreachable"}, n.NoScheduleReasons())
}

func TestCheckReason(t *testing.T) {
	t.Parallel()
	// H1: 256 characters fit, whatever their bytes; 257 do not; control characters and broken UTF-8 do not.
	long := func(n int) string {
		out := make([]rune, n)
		for i := range out {
			out[i] = 'ü'
		}
		return string(out)
	}
	require.NoError(t, node.CheckReason(""))
	require.NoError(t, node.CheckReason(long(256)))
	for _, bad := range []string{long(257), "a\x00b", "a\nb", "a\xff"} {
		require.Error(t, node.CheckReason(bad), "%q", bad)
	}
}
