package graph

import (
	"context"
	"maps"
	"slices"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
)

// JoinToken is a join token in an answer.
type JoinToken struct {
	pki.JoinToken

	of *tokens
}

// tokens are the join tokens of one answer, all of one tenant, whose pools are read once for all.
type tokens struct {
	api    *API
	tenant string
	pools  lazy[[]node.Pool]
}

func (a *API) joinTokens(tenant string, list ...pki.JoinToken) []*JoinToken {
	of := &tokens{api: a, tenant: tenant}
	out := make([]*JoinToken, len(list))
	for i, t := range list {
		out[i] = &JoinToken{JoinToken: t, of: of}
	}
	return out
}

// Pool gives the pool that a machine will belong to.
func (t *JoinToken) Pool(ctx context.Context) (*node.Pool, error) {
	pools, err := t.of.pools.get(ctx, func() ([]node.Pool, error) { return node.Pools(ctx, t.of.api.DB.Pool(), t.of.tenant) })
	if err != nil {
		return nil, err
	}
	for i := range pools {
		if pools[i].ID == t.PoolID {
			return &pools[i], nil
		}
	}
	return nil, fault.New(fault.NotFound, fault.Details{"poolId": t.PoolID}, "no pool %s", t.PoolID)
}

// Labels gives what a new node is labelled with.
func (t *JoinToken) Labels() []node.Label {
	out := []node.Label{}
	for _, key := range slices.Sorted(maps.Keys(t.JoinToken.Labels)) {
		out = append(out, node.Label{Key: key, Value: t.JoinToken.Labels[key], Source: node.FromOperator})
	}
	return out
}

// labelsOf reads labels from an input; a key twice is INVALID_INPUT.
func labelsOf(argument string, in []*LabelInput) (map[string]string, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(in))
	for _, l := range in {
		if _, twice := out[l.Key]; twice {
			return nil, fault.Invalid(argument, "must hold each key once", len(in))
		}
		out[l.Key] = l.Value
	}
	return out, nil
}

// JoinTokens lists the tenant's join tokens.
func (q queries) JoinTokens(ctx context.Context, tenantID string, first int, after *string) (*JoinTokenConnection, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	p, err := pageOf(id.JoinToken, first, after)
	if err != nil {
		return nil, err
	}
	list, more, err := q.PKI.JoinTokens(ctx, who, tenantID, p.First, p.After)
	if err != nil {
		return nil, err
	}
	out := &JoinTokenConnection{Nodes: q.joinTokens(tenantID, list...), PageInfo: &PageInfo{HasNextPage: more}, Edges: []*JoinTokenEdge{}}
	for _, t := range out.Nodes {
		cursor := listCursor(t.ID)
		out.Edges = append(out.Edges, &JoinTokenEdge{Cursor: cursor, Node: t})
		out.PageInfo.EndCursor = &cursor
	}
	return out, nil
}

func (a *API) madeToken(made pki.JoinTokenCreated) *JoinTokenCreatePayload {
	out := &JoinTokenCreatePayload{
		JoinToken: a.joinTokens(made.Token.TenantID, made.Token)[0], CaFingerprint: made.Trust.Fingerprint, Cursor: made.Cursor.String(),
	}
	if made.Secret != "" {
		command := "bcd join --server " + a.GatewayAddress + " --ca-fingerprint " + made.Trust.Fingerprint + " --token-file - <<<'" + made.Secret + "'"
		out.Secret, out.JoinCommand = &made.Secret, &command
	}
	return out
}
