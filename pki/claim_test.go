package pki_test

import (
	"testing"

	"github.com/stretchr/testify/require"
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
