package agent

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent/agenttest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// patience bounds every wait for a condition; it is only met when something is broken.
const patience = 20 * time.Second

// running is an agent whose Run goes on in the background.
type running struct {
	*Agent
	logs   *logs
	stop   context.CancelFunc
	ended  chan error
	joined *Credential
}

// join joins a machine and starts its Run.
func join(t *testing.T, g *agenttest.Gateway, change ...func(*Agent)) *running {
	t.Helper()
	a, written := machine(t, g)
	joined, err := a.Join(t.Context(), Join{Token: g.Token()})
	require.NoError(t, err)
	for _, c := range change {
		c(a)
	}
	return start(t, a, written, joined.Credential)
}

func start(t *testing.T, a *Agent, written *logs, joined *Credential) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{Agent: a, logs: written, stop: stop, ended: make(chan error, 1), joined: joined}
	go func() { r.ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case <-r.ended:
		case <-time.After(patience):
			t.Error("Run does not end")
		}
		r.ended <- nil
	})
	return r
}

// end stops Run and gives what it answers.
func (r *running) end(t *testing.T) error {
	t.Helper()
	r.stop()
	err := receive(t, r.ended)
	r.ended <- nil // for the clean-up
	return err
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

func eventually(t *testing.T, holds func() bool, what string) {
	t.Helper()
	require.Eventually(t, holds, patience, 5*time.Millisecond, what)
}

// inState waits for what status shows.
func (r *running) inState(t *testing.T, want SessionState) Session {
	t.Helper()
	var last Session
	eventually(t, func() bool {
		status, err := r.Status()
		if err == nil && status.Session != nil {
			last = *status.Session
		}
		return err == nil && status.Running && last.State == want
	}, string(want))
	return last
}

func TestSession(t *testing.T) {
	t.Parallel()

	t.Run("a session says hello, tells what the machine is, and beats", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		s := receive(t, g.Sessions)
		require.Equal(t, r.joined.NodeID, s.NodeID)
		require.Equal(t, "boot-1", s.Hello.GetBootId())
		require.Equal(t, "machine-1", s.Hello.GetPrint().GetMachineId())
		require.Equal(t, "host-1", s.Hello.GetHostname())
		require.Equal(t, "v1", s.Hello.GetAgentVersion())
		require.InDelta(t, time.Now().UnixMilli(), s.Hello.GetClockUnixMs(), 60_000)
		require.Equal(t, "host-1", receive(t, s.Inventories).GetSystem().GetHostname())
		require.True(t, receive(t, s.Reports).GetKnown())
		eventually(t, func() bool { return s.Beats() >= 3 }, "it beats")
		r.inState(t, Connected)
	})

	t.Run("C8 a stopped agent closes in order, and its files stay", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		s := receive(t, g.Sessions)
		before, err := os.ReadFile(r.store.path(credentialRecord))
		require.NoError(t, err)
		require.NoError(t, r.end(t))
		require.True(t, s.Clean(), "a normal websocket close")
		after, err := os.ReadFile(r.store.path(credentialRecord))
		require.NoError(t, err)
		require.Equal(t, before, after)
		status, err := r.Status()
		require.NoError(t, err)
		require.False(t, status.Running)
		require.Equal(t, Stopped, status.Session.State)
	})

	t.Run("only what changed is told again", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		m, ok := r.machine.(*madeUp)
		require.True(t, ok)
		s := receive(t, g.Sessions)
		receive(t, s.Inventories)
		receive(t, s.Reports)
		seen := s.Beats()
		eventually(t, func() bool { return s.Beats() > seen+5 }, "several looks at the machine have passed")
		require.Empty(t, s.Inventories)
		require.Empty(t, s.Reports)
		m.running.Store(&[]string{"GPU-1"})
		require.Equal(t, []string{"GPU-1"}, receive(t, s.Reports).GetRunningDeviceUuids())
		m.memory.Store(7)
		require.EqualValues(t, 7, receive(t, s.Inventories).GetMemory().GetTotalBytes())
	})

	t.Run("a session that is cut comes back, and tells everything again", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		join(t, g)
		for range 3 {
			s := receive(t, g.Sessions)
			receive(t, s.Inventories)
			receive(t, s.Reports)
			s.Drop()
		}
	})

	t.Run("D7 restarted ten times, it is the same node without another join", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, written := machine(t, g)
		joined, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		for range 10 {
			again, _ := machine(t, g, func(c *Config) { c.StateDir = a.config.StateDir })
			r := start(t, again, written, joined.Credential)
			require.Equal(t, joined.Credential.NodeID, receive(t, g.Sessions).NodeID)
			require.NoError(t, r.end(t))
		}
		require.Equal(t, 1, g.Joins())
	})

	t.Run("a gateway that dies and comes back is found again", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		receive(t, g.Sessions)
		g.Close()
		r.inState(t, Waiting)
		again := g.Again(t)
		require.Equal(t, r.joined.NodeID, receive(t, again.Sessions).NodeID)
	})

	t.Run("a gateway that answers no beat is left", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{Silent: true, Lease: 50 * time.Millisecond})
		r := join(t, g)
		first := receive(t, g.Sessions)
		<-first.Done
		receive(t, g.Sessions)
		require.Contains(t, r.logs.String(), "answered no beat")
	})

	t.Run("a second run with the same state directory is refused", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		receive(t, g.Sessions)
		second, _ := machine(t, g, func(c *Config) { c.StateDir = r.config.StateDir })
		err := second.Run(t.Context())
		require.ErrorIs(t, err, errRunning)
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
	})

	t.Run("a machine that has not joined is told so, and dials nobody", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		err := a.Run(t.Context())
		require.Equal(t, fault.Unauthenticated, fault.CodeOf(err))
		require.ErrorContains(t, err, "bcd join")
		require.Zero(t, g.Dials())
	})

	t.Run("a pin that is not the stored root's is refused", func(t *testing.T) {
		t.Parallel()
		g, other := agenttest.New(t, agenttest.Options{}), agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		_, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		moved, _ := machine(t, other, func(c *Config) { c.StateDir = a.config.StateDir })
		require.Equal(t, fault.InvalidState, fault.CodeOf(moved.Run(t.Context())))
		require.Zero(t, other.Dials())
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()

	for reason, closing := range map[string]wire.Close_Reason{
		wire.ReasonRevoked: wire.Close_REVOKED, wire.ReasonDeleted: wire.Close_DELETED, wire.ReasonQuarantined: wire.Close_QUARANTINED,
		wire.ReasonExpired: wire.Close_EXPIRED,
	} {
		t.Run("D16 closed in the session: "+reason, func(t *testing.T) {
			t.Parallel()
			g := agenttest.New(t, agenttest.Options{})
			r := join(t, g)
			s := receive(t, g.Sessions)
			require.NoError(t, s.SendClose(t.Context(), &wire.Close{Reason: closing, Message: "by alex"}))
			// It says so, waits its five minutes and does not come back in between.
			state := r.inState(t, Refused)
			require.Equal(t, reason, state.Reason)
			require.Contains(t, state.Message, "by alex")
			require.Greater(t, time.Until(state.NextTryAt), r.rhythm.refused/2)
			require.Contains(t, r.logs.String(), "workloads are left alone")
			require.Empty(t, g.Sessions)
		})
	}

	for _, reason := range []string{
		wire.ReasonRevoked, wire.ReasonDeleted, wire.ReasonQuarantined, wire.ReasonGeneration, wire.ReasonSuperseded, wire.ReasonUnknown, wire.ReasonExpired,
	} {
		t.Run("D16 refused at the door: "+reason, func(t *testing.T) {
			t.Parallel()
			g := agenttest.New(t, agenttest.Options{})
			a, written := machine(t, g)
			joined, err := a.Join(t.Context(), Join{Token: g.Token()})
			require.NoError(t, err)
			g.Refuse(joined.Credential.Serial(), reason)
			r := start(t, a, written, joined.Credential)
			state := r.inState(t, Refused)
			require.Equal(t, reason, state.Reason)
			require.Greater(t, time.Until(state.NextTryAt), r.rhythm.refused/2)
		})
	}

	t.Run("D16 it tries again after its pause", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g, func(a *Agent) { a.rhythm.refused = 20 * time.Millisecond })
		s := receive(t, g.Sessions)
		g.Refuse(s.Serial, wire.ReasonRevoked)
		s.Drop()
		r.inState(t, Refused)
		g.Refuse(s.Serial, "")
		receive(t, g.Sessions)
	})

	t.Run("D13 joined anew, a refused run goes on at once with the new certificate", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		s := receive(t, g.Sessions)
		g.Refuse(s.Serial, wire.ReasonRevoked)
		s.Drop()
		r.inState(t, Refused)
		other, _ := machine(t, g, func(c *Config) { c.StateDir = r.config.StateDir })
		_, err := other.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		again := receive(t, g.Sessions)
		require.Equal(t, r.joined.NodeID, again.NodeID)
		require.NotEqual(t, s.Serial, again.Serial)
	})

	t.Run("D13 a credential that is taken away under a run is waited for", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		s := receive(t, g.Sessions)
		require.NoError(t, os.Remove(r.store.path(credentialRecord)))
		s.Drop()
		eventually(t, func() bool { return contains(r.logs, "waiting to be joined again") }, "it says so")
		other, _ := machine(t, g, func(c *Config) { c.StateDir = r.config.StateDir })
		_, err := other.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		require.Equal(t, r.joined.NodeID, receive(t, g.Sessions).NodeID)
	})

	t.Run("D8 a machine whose node was deleted is still joined, until a reset", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		s := receive(t, g.Sessions)
		g.Refuse(s.Serial, wire.ReasonDeleted)
		s.Drop()
		r.inState(t, Refused)
		other, _ := machine(t, g, func(c *Config) { c.StateDir = r.config.StateDir })
		_, err := other.Join(t.Context(), Join{Token: g.Token()})
		require.ErrorIs(t, err, ErrJoined)
		// Reset, the machine is a new node, and the refused run goes on as it at once.
		fresh, err := other.Join(t.Context(), Join{Token: g.Token(), Reset: true})
		require.NoError(t, err)
		require.NotEqual(t, r.joined.NodeID, fresh.Credential.NodeID)
		require.Equal(t, fresh.Credential.NodeID, receive(t, g.Sessions).NodeID)
	})

	t.Run("G7 a gateway that goes away is waited for as long as it asks", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		join(t, g)
		s := receive(t, g.Sessions)
		begin := time.Now()
		require.NoError(t, s.SendClose(t.Context(), &wire.Close{Reason: wire.Close_GO_AWAY, RetryAfterMs: 200}))
		receive(t, g.Sessions)
		require.GreaterOrEqual(t, time.Since(begin), 200*time.Millisecond)
	})
}

func TestRenewal(t *testing.T) {
	t.Parallel()

	t.Run("past half its life the certificate is renewed and the new one used at once", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{Life: 24 * time.Hour, Age: 20 * time.Hour})
		r := join(t, g, func(a *Agent) { a.rhythm.renewLater = time.Minute })
		first, second := receive(t, g.Sessions), receive(t, g.Sessions)
		require.Equal(t, first.NodeID, second.NodeID)
		require.NotEqual(t, first.Serial, second.Serial)
		require.True(t, first.Clean())
		eventually(t, func() bool {
			status, err := r.Status()
			// Certificates of this gateway are always old, so a further renewal may have come by now; never is it the first again.
			return err == nil && status.Serial != first.Serial
		}, "the new certificate is the one in use")
	})

	t.Run("the gateway can ask for it", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		join(t, g)
		s := receive(t, g.Sessions)
		require.NoError(t, s.Send(t.Context(), &wire.Down{Body: &wire.Down_RenewNow{RenewNow: &wire.RenewNow{}}}))
		require.NotEqual(t, s.Serial, receive(t, g.Sessions).Serial)
	})

	for _, record := range []string{pendingRecord, nextRecord} {
		t.Run("D12 the disk is full for the "+record+", and the old certificate goes on", func(t *testing.T) {
			t.Parallel()
			g := agenttest.New(t, agenttest.Options{})
			r := join(t, g, func(a *Agent) { a.store.disk = &fullDisk{disk: localDisk{}, record: record} })
			s := receive(t, g.Sessions)
			require.NoError(t, s.Send(t.Context(), &wire.Down{Body: &wire.Down_RenewNow{RenewNow: &wire.RenewNow{}}}))
			eventually(t, func() bool { return contains(r.logs, "the one in use goes on") }, "it says so")
			s.Drop()
			require.Equal(t, s.Serial, receive(t, g.Sessions).Serial)
		})
	}

	t.Run("D12 a renewed certificate that can't be promoted is used from beside the old one", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g, func(a *Agent) { a.store.disk = &fullDisk{disk: localDisk{}, record: credentialRecord} })
		first := receive(t, g.Sessions)
		require.NoError(t, first.Send(t.Context(), &wire.Down{Body: &wire.Down_RenewNow{RenewNow: &wire.RenewNow{}}}))
		second := receive(t, g.Sessions)
		require.NotEqual(t, first.Serial, second.Serial)
		eventually(t, func() bool { return contains(r.logs, "stays beside") }, "it says so")
		second.Drop()
		require.Equal(t, second.Serial, receive(t, g.Sessions).Serial)
	})

	t.Run("a renewed certificate that is refused is dropped for the one before", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		first := receive(t, g.Sessions)
		require.NoError(t, r.end(t))
		_, ok := r.beginRenewal()
		require.True(t, ok)
		var pending pendingJSON
		found, err := r.store.read(pendingRecord, &pending)
		require.NoError(t, err)
		require.True(t, found)
		chain, err := g.Sign(r.joined.NodeID, pending.CSR)
		require.NoError(t, err)
		require.True(t, r.takeRenewal(r.joined, []byte(chain)))
		next, found, err := r.credential(nextRecord)
		require.NoError(t, err)
		require.True(t, found)
		g.Refuse(next.Serial(), wire.ReasonUnknown)
		start(t, r.Agent, r.logs, r.joined)
		require.Equal(t, first.Serial, receive(t, g.Sessions).Serial)
	})

	t.Run("a renewal for another node is not kept", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		joined, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		csr, ok := a.beginRenewal()
		require.True(t, ok)
		chain, err := g.Sign("node_01k5wz6k3vf8g8x2x2j0m4q7ra", csr)
		require.NoError(t, err)
		require.False(t, a.takeRenewal(joined.Credential, []byte(chain)))
		require.False(t, a.takeRenewal(joined.Credential, []byte("garbage")))
		_, found, err := a.credential(nextRecord)
		require.NoError(t, err)
		require.False(t, found)
	})
}

func contains(l *logs, text string) bool {
	return strings.Contains(l.String(), text)
}

func TestRhythm(t *testing.T) {
	t.Parallel()

	t.Run("G7 pauses are spread over all of their bound, the first one too", func(t *testing.T) {
		t.Parallel()
		for failures, bound := range map[int]time.Duration{
			0: 2 * time.Second, 1: 4 * time.Second, 3: 16 * time.Second, 4: 30 * time.Second, 1000: 30 * time.Second, math.MaxInt: 30 * time.Second,
		} {
			quarters := [4]int{}
			for range 1000 {
				d := defaultRhythm.retry(failures, 0)
				require.GreaterOrEqual(t, d, time.Duration(0))
				require.Less(t, d, bound)
				quarters[int(4*d/bound)]++
			}
			for _, n := range quarters {
				require.Greater(t, n, 100, "a quarter of the bound of %s is hardly used", bound)
			}
		}
	})
	t.Run("G7 what a gateway asks for is waited, and spread", func(t *testing.T) {
		t.Parallel()
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			d := defaultRhythm.retry(0, time.Minute)
			least, most = min(least, d), max(most, d)
		}
		require.GreaterOrEqual(t, least, time.Minute)
		require.Less(t, most, 90*time.Second)
		require.Greater(t, most-least, 20*time.Second)
	})
	t.Run("a renewal comes at half of the life, give or take a tenth", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		joined, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		begin, life := joined.Credential.NotBefore(), joined.Credential.NotAfter().Sub(joined.Credential.NotBefore())
		for range 200 {
			d := a.renewIn(joined.Credential, begin)
			require.GreaterOrEqual(t, d, life*4/10)
			require.LessOrEqual(t, d, life*6/10)
		}
		require.Less(t, a.renewIn(joined.Credential, begin.Add(10*life)), a.rhythm.renewSoon, "what is overdue comes soon")
	})
}

func TestCloseReasons(t *testing.T) {
	t.Parallel()
	// Every reason of the protocol is either a refusal that is waited out or a loss that is not; none is left over.
	refusals := map[wire.Close_Reason]string{
		wire.Close_REVOKED: wire.ReasonRevoked, wire.Close_DELETED: wire.ReasonDeleted, wire.Close_QUARANTINED: wire.ReasonQuarantined,
		wire.Close_EXPIRED: wire.ReasonExpired,
	}
	for number := range wire.Close_Reason_name {
		reason := wire.Close_Reason(number)
		end := closedEnding(&wire.Close{Reason: reason, Message: "m"})
		require.Equal(t, refusals[reason], end.refused, reason)
		require.Error(t, end.err)
		require.False(t, errors.Is(end.err, wire.ErrProtocol))
	}
}
