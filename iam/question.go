package iam

import (
	"errors"
	"slices"
)

// Question is the decision of [Authority.OnNode] asked within a statement of another room, which costs no round trip of its own: the statement reads
// what the decision needs, and the answer is computed when the statement's row has come. It is made to be cheap where the answer is yes.
type Question struct {
	authority *Authority
	who       Actor
	action    Action
	tenant    string
	nodeID    string
	known     known
}

// Ask makes the question whether who may do action on the node for the tenant.
func (a *Authority) Ask(who Actor, action Action, tenant, nodeID string) *Question {
	return &Question{authority: a, who: who, action: action, tenant: tenant, nodeID: nodeID}
}

const (
	// QuestionSQL stands in the statement's from clause: one row k. Its columns are [QuestionColumns], its parameters $1 to $4 those of
	// [Question.Args]. It is computed once, however often the statement names it.
	QuestionSQL = `(
	select exists (select from api_tokens where jti = $1 and revoked_at is null and expires_at > now()) as live,
	       array(select role from grants where principal = $2 and (tenant_id = $3 or tenant_id is null)) as roles,
	       array(select relation from node_projection where tenant_id = $3 and node_id = $4) as relations
	offset 0) as k`
	// QuestionColumns are what [Question.Into] takes.
	QuestionColumns = "k.live, k.roles, k.relations"
	// SeesSQL holds for who sees the node: only then may the statement lock it. Who merely lacks the action is refused by the answer.
	SeesSQL = "k.live and k.roles <> '{}' and k.relations <> '{}'"
)

// ErrUnseen is the answer where the node is not seen. Whether it is the tenant that is not there was not asked: OnNode tells.
var ErrUnseen = errors.New("the tenant does not see the node")

// Args are the parameters $1 to $4: $3 is the tenant and $4 the node.
func (q *Question) Args() []any { return []any{q.who.TokenID, q.who.Name, q.tenant, q.nodeID} }

// Into are the destinations of the columns.
func (q *Question) Into() []any {
	return []any{&q.known.live, &q.known.roles, &q.known.relations}
}

// Answer decides by the row that has come, with the codes and in the order of OnNode, but [ErrUnseen]. For the control plane itself it needs no row.
func (q *Question) Answer() (Sight, error) {
	k := &q.known
	slices.Sort(k.relations)
	k.tenant = len(k.relations) > 0 // else there could be no such row
	if k.live && len(k.roles) > 0 && !k.tenant && !q.OfSystem() {
		return Sight{}, ErrUnseen
	}
	return q.authority.onNode(q.who, q.action, q.tenant, q.nodeID, q.known)
}

// OfSystem says that the control plane itself asks: it sees every node.
func (q *Question) OfSystem() bool { return q.who.IsSystem() }
