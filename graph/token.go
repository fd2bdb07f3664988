package graph

import (
	"context"

	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
)

// JoinToken is a join token in an answer.
type JoinToken struct {
	pki.JoinToken

	api *API
}

// Pool gives the pool that a machine will belong to.
func (t *JoinToken) Pool(ctx context.Context) (*node.Pool, error) {
	p, err := node.PoolOf(ctx, t.api.DB.Pool(), t.TenantID, t.PoolID)
	if err != nil {
		return nil, err
	}
	return &p, nil
}

func (a *API) madeToken(made pki.JoinTokenCreated) *JoinTokenCreatePayload {
	out := &JoinTokenCreatePayload{
		JoinToken: &JoinToken{JoinToken: made.Token, api: a}, CaFingerprint: made.Trust.Fingerprint, Cursor: made.Cursor.String(),
	}
	if made.Secret != "" {
		command := "bcd join --server " + a.GatewayAddress + " --ca-fingerprint " + made.Trust.Fingerprint + " --token-file - <<<'" + made.Secret + "'"
		out.Secret, out.JoinCommand = &made.Secret, &command
	}
	return out
}
