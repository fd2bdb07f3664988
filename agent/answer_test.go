package agent

import (
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent/agenttest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// What a gateway answers is measured against the pin, the key and the identity before it is kept, though the gateway itself was trusted.
func TestAnswersThatDoNotFit(t *testing.T) {
	t.Parallel()
	g, other := agenttest.New(t, agenttest.Options{}), agenttest.New(t, agenttest.Options{})
	a, _ := machine(t, g)
	joined, err := a.Join(t.Context(), Join{Token: g.Token()})
	require.NoError(t, err)
	nodeID, key := joined.Credential.NodeID, joined.Credential.Key
	answer := func(from *agenttest.Gateway, root *x509.Certificate, change ...func(*wire.JoinAnswer)) (*Credential, wire.JoinAnswer) {
		t.Helper()
		pending, fresh, err := newPending("")
		require.NoError(t, err)
		chain, err := from.Sign(nodeID, pending.CSR)
		require.NoError(t, err)
		given := wire.JoinAnswer{NodeID: nodeID, Key: key, Certificate: chain, Root: encodePEM(root), TrustDomain: from.TrustDomain, Generation: 1}
		for _, c := range change {
			c(&given)
		}
		return &Credential{key: fresh, Key: key}, given
	}
	credential, good := answer(g, joined.Credential.root)
	require.NoError(t, a.accept(credential, good))

	elsewhere, _ := machine(t, other)
	there, err := elsewhere.Join(t.Context(), Join{Token: other.Token()})
	require.NoError(t, err)
	mine := joined.Credential.root
	for says, c := range map[string]struct {
		from   *agenttest.Gateway
		root   *x509.Certificate
		change func(*wire.JoinAnswer)
	}{
		"ca_fingerprint":                   {other, there.Credential.root, func(*wire.JoinAnswer) {}},
		"does not lead to the root":        {other, mine, func(*wire.JoinAnswer) {}},
		"another identity":                 {g, mine, func(j *wire.JoinAnswer) { j.Key = there.Credential.Key }},
		"the certificate is not for":       {g, mine, func(j *wire.JoinAnswer) { j.NodeID = there.Credential.NodeID }},
		"the certificate is for another k": {g, mine, func(j *wire.JoinAnswer) { j.Certificate = good.Certificate }},
	} {
		credential, given := answer(c.from, c.root, c.change)
		err := a.accept(credential, given)
		require.Equal(t, fault.Internal, fault.CodeOf(err), says)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "\n")
	}
}
