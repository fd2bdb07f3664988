package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/node"
)

// identityFiles gives what is in the files by which a machine is a node.
func identityFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range []string{"identity", "credential"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		found[name] = string(content)
	}
	return found
}

// A reset that is refused costs nothing: the node, its session, its certificate and its files are what they were, the owner is told why, and the next
// token makes the machine a new node.
func TestRefusedReset(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m, nodeID := b.join(t)
	m.run(t)
	b.isNow(t, nodeID, node.Connected)
	before := identityFiles(t, m.stateDir)
	const state = `select jsonb_build_object('nodes', (select jsonb_agg(to_jsonb(x) - 'last_seen' order by id) from nodes x),
		'certs', (select jsonb_agg(to_jsonb(x) order by serial) from node_certs x), 'keys', (select jsonb_agg(to_jsonb(x) order by fingerprint) from identity_keys x),
		'tokens', (select jsonb_agg(to_jsonb(x) order by id) from join_tokens x where id <> $1), 'sessions', (select jsonb_agg(to_jsonb(x) order by id) from node_sessions x))`
	b.until(t, "it is taken in", `select provision_state = 'ADOPTED' from nodes where id = $1`, nodeID)

	expired := b.token(t)
	b.exec(t, `update join_tokens set created_at = now() - interval '1 hour', expires_at = now() - interval '1 second' where id = $1`, expired.ID())
	database := one[map[string]any](t, b, state, expired.ID())
	other := b.machine(t, m.stateDir) // the command that an operator types while bcd runs
	joined, err := other.Join(t.Context(), agent.Join{Token: expired, Reset: true})
	require.Equal(t, fault.Unauthenticated, fault.CodeOf(err))
	require.ErrorContains(t, err, "ask for a new one")
	require.Empty(t, joined.MovedAside)
	require.Equal(t, before, identityFiles(t, m.stateDir))
	require.Equal(t, database, one[map[string]any](t, b, state, expired.ID()))
	status, err := m.Status()
	require.NoError(t, err)
	require.Nil(t, status.Reset)
	require.Equal(t, []any{nodeID, true, agent.Connected}, []any{status.NodeID, status.Running, status.Session.State})
	b.pki.Told(t.Context())
	// The new identity is nobody, so the event names the machine and no node.
	require.Equal(t, "EXPIRED host-1 ", one[string](t, b, `
		select data ->> 'cause' || ' ' || (data ->> 'hostname') || ' ' || coalesce(node_id, '') from events where type = 'security.join-token.refused'`))

	joined, err = other.Join(t.Context(), agent.Join{Token: b.token(t), Reset: true})
	require.NoError(t, err)
	require.NotEqual(t, nodeID, joined.Credential.NodeID)
	require.Equal(t, before, identityFiles(t, joined.MovedAside))
	require.Equal(t, 2, one[int](t, b, `select count(*) from nodes`))
	status, err = other.Status()
	require.NoError(t, err)
	require.Equal(t, joined.Credential.NodeID, status.NodeID)
}

// A gateway that dies with the answer on its lips: the machine stays what it was, and the same token makes it the one new node that there is.
func TestResetWithALostAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m, nodeID := b.join(t)
	before := identityFiles(t, m.stateDir)
	token := b.token(t)
	lost := lostAnswers{Identities: b.config.Identities}
	require.NoError(t, b.stop())
	b.config.Identities = &lost
	b.start(t, b.address)
	_, err := m.Join(t.Context(), agent.Join{Token: token, Reset: true})
	require.Equal(t, fault.Unavailable, fault.CodeOf(err), "%v", err)
	require.Positive(t, lost.joined.Load(), "it was joined, else this shows nothing")
	require.Equal(t, before, identityFiles(t, m.stateDir))
	status, err := m.Status()
	require.NoError(t, err)
	require.Equal(t, nodeID, status.NodeID)
	require.Equal(t, filepath.Join(m.stateDir, "reset"), status.Reset.Dir)
	stop := m.run(t)
	b.isNow(t, nodeID, node.Connected)
	stop()

	lost.over.Store(true)
	joined, err := m.Join(t.Context(), agent.Join{Token: token, Reset: true})
	require.NoError(t, err)
	require.NotEqual(t, nodeID, joined.Credential.NodeID)
	require.Equal(t, 2, one[int](t, b, `select count(*) from nodes`), "no node is left that nobody is")
	m.run(t)
	b.isNow(t, joined.Credential.NodeID, node.Connected)
}

// lostAnswers joins machines and loses the answers.
type lostAnswers struct {
	gateway.Identities
	joined atomic.Int32
	over   atomic.Bool
}

// Join joins the machine.
func (l *lostAnswers) Join(ctx context.Context, req wire.JoinRequest, exporter []byte) (wire.JoinAnswer, error) {
	answer, err := l.Identities.Join(ctx, req, exporter)
	if err == nil && !l.over.Load() {
		l.joined.Add(1)
		return wire.JoinAnswer{}, fault.New(fault.Unavailable, fault.Details{"retryAfterMs": int64(1)}, "lost")
	}
	return answer, err
}
