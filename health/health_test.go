package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/node"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestAccept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state node.ProvisionState
		seen  seen
		want  node.ProvisionState
	}{
		"all is there":                        {node.Adopting, seen{live: true, inventoried: true}, node.Adopted},
		"the clock is just within":            {node.Adopting, seen{live: true, inventoried: true, skew: -clockTolerance}, node.Adopted},
		"the clock is just beyond":            {node.Adopting, seen{live: true, inventoried: true, skew: clockTolerance + 1}, node.Adopting},
		"no inventory of this session":        {node.Adopting, seen{live: true}, node.Adopting},
		"the session ended":                   {node.Adopting, seen{inventoried: true}, node.Adopting},
		"adopted already":                     {node.Adopted, seen{live: true, inventoried: true}, node.Adopted},
		"failed":                              {node.Failed, seen{live: true, inventoried: true}, node.Failed},
		"being retired":                       {node.Retiring, seen{live: true, inventoried: true}, node.Retiring},
		"a skew that passes what fits":        {node.Adopting, seen{live: true, inventoried: true, skew: millis(-1 << 62)}, node.Adopting},
		"a skew that passes it the other way": {node.Adopting, seen{live: true, inventoried: true, skew: millis(1 << 62)}, node.Adopting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &node.Node{ProvisionState: c.state}
			before := n.Clone()
			control := acceptControl(c.seen)
			fact, err := control.Decide(n, node.Act{Now: now})
			require.NoError(t, err)
			require.Equal(t, c.want, n.ProvisionState)
			require.Equal(t, c.want != c.state, fact != nil)
			require.True(t, control.Axes.Has(node.Moved(before, n)))
		})
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	decide := func(t *testing.T, n *node.Node, skew time.Duration) *node.Fact {
		t.Helper()
		fact, err := clockControl(skew).Decide(n, node.Act{Now: now})
		require.NoError(t, err)
		return fact
	}

	t.Run("it comes, is told anew when it changes much, and goes", func(t *testing.T) {
		t.Parallel()
		n := &node.Node{}
		require.Nil(t, decide(t, n, 4*time.Minute))
		require.Equal(t, Condition{Condition: "clock-skew", Active: true, Message: "the machine's clock is 60 min behind; set it, and restart bcd"},
			decide(t, n, -time.Hour).Data)
		require.Equal(t, []string{ClockSkew}, n.NoScheduleReasons())
		since := n.Reasons[0].Since
		require.Nil(t, decide(t, n, -time.Hour-time.Second), "a second more is nothing new")
		require.NotNil(t, decide(t, n, 56*365*24*time.Hour))
		require.Equal(t, since, n.Reasons[0].Since)
		require.Equal(t, Condition{Condition: "clock-skew"}, decide(t, n, 0).Data)
		require.Empty(t, n.Reasons)
		require.Nil(t, decide(t, n, 0))
	})

	t.Run("a reason of that name that is another's is left alone", func(t *testing.T) {
		t.Parallel()
		n := &node.Node{Reasons: []node.Reason{{Name: ClockSkew, Owner: "someone"}}}
		require.Nil(t, decide(t, n, 0))
		require.Nil(t, decide(t, n, time.Hour))
		require.Len(t, n.Reasons, 1)
	})

	t.Run("A3 a taint that is called like it is the operator's", func(t *testing.T) {
		t.Parallel()
		n := &node.Node{Reasons: []node.Reason{{Name: "taint:clock-skew", Owner: "operator"}}}
		decide(t, n, time.Hour)
		decide(t, n, 0)
		require.Equal(t, []string{"taint:clock-skew"}, n.NoScheduleReasons())
	})
}

func TestLabels(t *testing.T) {
	t.Parallel()
	value := func(f Facts, key string) string {
		for _, l := range labels(f) {
			if l.Key == key {
				return l.Value
			}
		}
		return ""
	}
	require.Empty(t, labels(Facts{}), "nothing is known, so nothing is said")
	require.Empty(t, value(Facts{}, "gpu.count"), "without a driver nobody knows whether there are GPUs")
	require.Equal(t, "0", value(Facts{GPUDriver: &GPUDriver{}}, "gpu.count"))
	require.Equal(t, "A100+H100", value(Facts{GPUs: []GPU{{Model: "H100"}, {Model: "A100"}, {Model: "H100"}}}, "gpu.model"))
	require.Equal(t, "40", value(Facts{GPUs: []GPU{{MemoryBytes: 80 << 30}, {MemoryBytes: 40<<30 - 1}}}, "gpu.memory.gib"), "the least of them")
	require.Equal(t, "64", value(Facts{MemoryBytes: 63<<30 + 700<<20}, "mem.gib"))
	require.True(t, slices.IsSortedFunc(labels(Facts{CPU: CPU{Arch: "a", Model: "b", Vendor: "c", Cores: 1, Threads: 1, Sockets: 1}, MemoryBytes: 1 << 30, OS: OS{ID: "x"}}),
		func(a, b node.Label) int { return strings.Compare(a.Key, b.Key) }))
}

func TestInventoryDecision(t *testing.T) {
	t.Parallel()
	n := &node.Node{Hostname: "old", Labels: []node.Label{
		{Key: "bc.dev/driver", Value: "1", Source: node.FromSystem},
		{Key: "cpu.arch", Value: "mine", Source: node.FromOperator},
		{Key: "gone", Value: "1", Source: node.FromInventory},
		{Key: "rack", Value: "b7", Source: node.FromOperator},
	}}
	fact, displaced := inventory(n, Facts{CPU: CPU{Arch: "arm64"}, System: System{Hostname: "new.example"}}, true)
	require.Equal(t, "node.inventory", fact.Type)
	require.Equal(t, map[string]string{"cpu.arch": "mine"}, displaced)
	require.Equal(t, "new.example", n.Hostname)
	require.Equal(t, []node.Label{
		{Key: "bc.dev/driver", Value: "1", Source: node.FromSystem},
		{Key: "cpu.arch", Value: "arm64", Source: node.FromInventory},
		{Key: "rack", Value: "b7", Source: node.FromOperator},
	}, n.Labels)
	fact, displaced = inventory(n, Facts{CPU: CPU{Arch: "arm64"}, System: System{Hostname: "new.example"}}, false)
	require.Nil(t, fact)
	require.Empty(t, displaced)
	fact, _ = inventory(n, Facts{CPU: CPU{Arch: "arm64"}, System: System{Hostname: "bad name"}}, true)
	require.NotNil(t, fact, "facts that gave no label can be new too")
	require.Equal(t, "new.example", n.Hostname)
}

func FuzzLabelValue(f *testing.F) {
	f.Add("NVIDIA A100-SXM4-40GB")
	f.Add("Intel(R) Xeon(R) é\x00")
	f.Fuzz(func(t *testing.T, s string) {
		v := labelValue(s)
		require.LessOrEqual(t, len(v), 256)
		require.Empty(t, strings.Trim(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@+=-"))
		require.Equal(t, v, labelValue(v))
	})
}

func TestSkewSentence(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		10 * time.Minute: "10 min ahead", -3 * time.Hour: "3 h behind", 50 * 24 * time.Hour: "50 days ahead",
	} {
		require.Contains(t, skewSentence(d), want, fmt.Sprint(d))
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	// A check that would disturb what runs waits until the node holds nothing, and says which it is and for how many.
	list := []check{{name: "burn-in", disturbs: true, judge: func(seen) (CheckStatus, string, []string) { return CheckPassed, "ok", nil }}}
	require.Equal(t, []Result{{Name: "burn-in", Status: CheckWaiting, Message: "it would disturb 2 live allocations, and waits until the node holds none"}},
		judge(list, seen{held: 2}))
	require.Equal(t, []Result{{Name: "burn-in", Status: CheckPassed, Message: "ok"}}, judge(list, seen{}))
	for _, c := range checks {
		require.False(t, c.disturbs, "%s looks only at what the daemon reports by itself", c.name)
	}
}
