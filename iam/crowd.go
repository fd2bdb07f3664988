package iam

import (
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Crowd is the decision of [Authority.OnNode] on many nodes, for what was asked for by somebody and is done later. It is asked within a batch of
// another room, which reads the nodes' [Seers] after it: what the tenant sees stands there.
//
// That the token has come to its end meanwhile says nothing, for it held when it was shown; that it was revoked says that nothing more is to be done
// with it. Grants and what the tenant sees are as they are now.
type Crowd struct {
	authority *Authority
	who       Actor
	action    Action
	tenant    string
	known     known
	relations map[string][]Relation
	permits   map[string]bool // by relations: no policy is about a node by its id
}

// AskMany makes the question whether who may do action on nodes for the tenant.
func (a *Authority) AskMany(who Actor, action Action, tenant string) *Crowd {
	return &Crowd{authority: a, who: who, action: action, tenant: tenant}
}

// Queue adds what the decision reads of its author to a batch.
func (c *Crowd) Queue(b *pgx.Batch) {
	c.known, c.relations, c.permits = known{}, map[string][]Relation{}, map[string]bool{}
	b.Queue(`
		select not exists (select from api_tokens where jti = $1 and revoked_at is not null), exists (select from tenants where id = $3),
		       array(select role from grants where principal = $2 and (tenant_id = $3 or tenant_id is null))`,
		c.who.TokenID, c.who.Name, c.tenant).QueryRow(func(row pgx.Row) error {
		return row.Scan(&c.known.live, &c.known.tenant, &c.known.roles)
	})
}

// sees takes what a row of the seers says.
func (c *Crowd) sees(tenant, nodeID string, relation Relation) {
	if c != nil && tenant == c.tenant {
		c.relations[nodeID] = append(c.relations[nodeID], relation)
	}
}

// Answer decides on one of the nodes, with the codes and in the order of OnNode.
func (c *Crowd) Answer(nodeID string) error {
	if err := c.known.member(c.who, c.tenant); err != nil {
		return err
	}
	k := c.known
	if k.relations = c.relations[nodeID]; len(k.relations) == 0 {
		return NoSuchNode(nodeID)
	}
	slices.Sort(k.relations)
	var names strings.Builder
	for _, r := range k.relations {
		names.WriteString(string(r) + " ")
	}
	may, known := c.permits[names.String()]
	if !known {
		may = c.authority.permits(c.who, c.action, "ComputeNode", nodeID, k)
		c.permits[names.String()] = may
	}
	if !may {
		return forbidden(c.who, c.action, c.tenant)
	}
	return nil
}
