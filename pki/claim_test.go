package pki_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/pki"
)

// row is all that the tables hold of a node.
func (b *bundle) row(t *testing.T, nodeID string) map[string]any {
	t.Helper()
	return one[map[string]any](t, b, `select jsonb_build_object(
		'node', (select to_jsonb(n) from nodes n where id = $1),
		'certs', (select jsonb_agg(to_jsonb(c) order by serial) from node_certs c where node_id = $1),
		'keys', (select jsonb_agg(to_jsonb(k) order by fingerprint) from identity_keys k where node_id = $1),
		'labels', (select jsonb_agg(to_jsonb(l) order by key) from node_labels l where node_id = $1),
		'events', (select jsonb_agg(to_jsonb(e) order by position) from events e where node_id = $1))`, nodeID)
}

func TestLostIdentity(t *testing.T) {
	t.Parallel()
	// D14 The same machine with another identity is another node, and of the old one nothing moves: row, certificate, key, labels, events. D15 neither
	// does when somebody claims it.
	b := setup(t)
	m := newMachine(t, "m1")
	first := b.joined(t, m)
	b.exec(t, `insert into node_labels (node_id, key, value, source) values ($1, 'rack', 'b7', 'OPERATOR')`, first.NodeID)
	before := b.row(t, first.NodeID)
	second := b.joined(t, newMachine(t, "m1"))
	require.NotEqual(t, first.NodeID, second.NodeID, "D14")
	require.NotEqual(t, first.Key, second.Key, "D14")
	require.Equal(t, before, b.row(t, first.NodeID), "D14")

	thief := newMachine(t, "m1")
	r := thief.request(b.token(t).Secret)
	r.IdentityKey = m.public()
	_, err := b.store.Join(t.Context(), r, thief.exporter)
	reason(t, err, "proof")
	require.Equal(t, before, b.row(t, first.NodeID), "D15")
}

// A certificate that is revoked after the first look at it, while its first use waits for the node, is not let in: the second look has the last word.
func TestAdmitLooksTwice(t *testing.T) {
	t.Parallel()
	for want, change := range map[pki.Refusal]string{
		pki.RefusedRevoked:    `update node_certs set state = 'REVOKED', ended_at = now() where node_id = $1`,
		pki.RefusedGeneration: `update nodes set identity_generation = 2 where id = $1`,
		pki.RefusedDeleted:    `update nodes set deleted_at = now() where id = $1`,
	} {
		b := setup(t)
		a := b.joined(t, newMachine(t, "m1"))
		holder, err := b.db.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = holder.Exec(t.Context(), `select from nodes where id = $1 for update`, a.NodeID)
		require.NoError(t, err)
		admitted := make(chan error, 1)
		go func() {
			_, err := b.store.Admit(t.Context(), leafOf(t, a.Certificate))
			admitted <- err
		}()
		require.Eventually(t, func() bool {
			var waits bool
			err := b.db.Pool().QueryRow(t.Context(),
				`select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waits)
			return err == nil && waits
		}, 20*time.Second, 5*time.Millisecond, "it must wait for the node")
		_, err = holder.Exec(t.Context(), change, a.NodeID)
		require.NoError(t, err)
		require.NoError(t, holder.Commit(t.Context()))
		reason(t, <-admitted, want)
		require.True(t, one[bool](t, b, `select first_used_at is null from node_certs where serial = $1`, a.Serial), string(want))
	}
}
