// Package iam says who acts and what they may: principals and their tokens, grants, the one decision, and the projection that holds which tenant
// sees which node.
//
// Every verb on a node is decided on compute-node/{nodeId}: the tenant's projection must hold the node, else it is NOT_FOUND, and the principal
// must hold the action in that tenant, else it is FORBIDDEN. Which actions a role gives, and which of them need the OWNER relation, stands in
// policies.cedar alone.
package iam

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
)

// Action names what somebody wants to do, as grants and the API's contract spell it.
type Action string

// The actions.
const (
	NodesList          Action = "compute:nodes:list"
	NodesGet           Action = "compute:nodes:get"
	NodesEvents        Action = "compute:nodes:events"
	NodesSecurity      Action = "compute:nodes:security-events"
	NodesCordon        Action = "compute:nodes:cordon"
	NodesDrain         Action = "compute:nodes:drain"
	NodesUpdate        Action = "compute:nodes:update"
	NodesProvision     Action = "compute:nodes:provision"
	NodesDelete        Action = "compute:nodes:delete"
	NodesInventory     Action = "compute:nodes:inventory"
	TenantsCreate      Action = "compute:tenants:create"
	PoolsRead          Action = "compute:pools:read"
	PoolsCreate        Action = "compute:pools:create"
	ReservationsRead   Action = "compute:reservations:read"
	ReservationsCreate Action = "compute:reservations:create"
	ReservationsEnd    Action = "compute:reservations:release"
	JoinTokensCreate   Action = "compute:join-tokens:create"
	JoinTokensRead     Action = "compute:join-tokens:read"
	JoinTokensRevoke   Action = "compute:join-tokens:revoke"
	MetricsRead        Action = "compute:metrics:read"
	JobsManage         Action = "compute:jobs:manage"
)

// Relation is what ties a tenant to a node.
type Relation string

// The relations. Any of them gives sight; OWNER gives the full view and the controls.
const (
	Owner     Relation = "OWNER"
	Shared    Relation = "SHARED"
	Allocated Relation = "ALLOCATED"
	Dedicated Relation = "DEDICATED"
)

// Actor is who acts: a principal with its token, a part of the control plane, or a node's daemon. The zero value is nobody, and may nothing.
type Actor struct {
	// Name is what events show.
	Name string
	// TokenID is the jti of the token shown; empty for who shows none.
	TokenID string
	// ExpiresAt is when the token ends; zero for who shows none.
	ExpiresAt time.Time

	// system is set by System alone: a missing token must never pass for the control plane.
	system bool
}

// System is the actor for a controller. It is allowed everything: its rules are its own code.
func System(name string) Actor { return Actor{Name: name, system: true} }

// NodeActor is the actor for what a node's daemon itself reports. It stands in events; where a decision is asked, it may nothing.
func NodeActor(nodeID string) Actor { return Actor{Name: nodeID} }

// IsSystem says that the actor is the control plane itself.
func (a Actor) IsSystem() bool { return a.system }

// Sight is how a tenant sees a node.
type Sight struct {
	// Relations are the ties, sorted.
	Relations []Relation
	// Rights is what else the actor may do there, as the same reading said.
	Rights Rights
}

// Full says that the whole is seen, not only the reduced view.
func (s Sight) Full() bool { return slices.Contains(s.Relations, Owner) }

//go:embed policies.cedar
var policies []byte

// Authority decides. It is safe for use by many goroutines.
type Authority struct {
	db       *db.DB
	policies *cedar.PolicySet
}

// NewAuthority makes the one decision point of a process.
func NewAuthority(d *db.DB) (*Authority, error) {
	set, err := cedar.NewPolicySetFromBytes("policies.cedar", policies)
	if err != nil {
		return nil, fmt.Errorf("read the policies: %w", err)
	}
	return &Authority{db: d, policies: set}, nil
}

// known is what the database says of an actor in a tenant: whether its token still counts, whether there is such a tenant, which roles it holds, and
// how the tenant sees the node.
type known struct {
	live      bool
	tenant    bool
	roles     []string
	relations []Relation
}

// knownSQL selects it. Its parameters are the token's id, the principal, the tenant and the node.
const knownSQL = `
	select exists (select from api_tokens where jti = $1 and revoked_at is null and expires_at > now()) as live,
	       exists (select from tenants where id = $3) as tenant,
	       array(select role from grants where principal = $2 and (tenant_id = $3 or tenant_id is null)) as roles,
	       array(select relation from node_projection where tenant_id = $3 and node_id = $4 order by relation) as relations`

func (a *Authority) known(ctx context.Context, q db.Querier, who Actor, tenant, nodeID string) (known, error) {
	var k known
	err := q.QueryRow(ctx, knownSQL, who.TokenID, who.Name, tenant, nodeID).Scan(&k.live, &k.tenant, &k.roles, &k.relations)
	if err != nil && db.Unanswered(err) {
		return known{}, db.Unavailable(err)
	}
	if err != nil {
		return known{}, fmt.Errorf("decide: %w", err)
	}
	return k, nil
}

// OnNode decides whether who may do action on the node for the tenant, and how the tenant sees it. The answers are UNAUTHENTICATED for a token
// that no longer counts, FORBIDDEN for a principal without any role in the tenant (whatever the node), NOT_FOUND for a node that the tenant does
// not see, FORBIDDEN for an action that the principal does not hold.
func (a *Authority) OnNode(ctx context.Context, q db.Querier, who Actor, action Action, tenant, nodeID string) (Sight, error) {
	var k known
	if !who.IsSystem() {
		var err error
		if k, err = a.known(ctx, q, who, tenant, nodeID); err != nil {
			return Sight{}, err
		}
	}
	return a.onNode(who, action, tenant, nodeID, k)
}

func (a *Authority) onNode(who Actor, action Action, tenant, nodeID string, k known) (Sight, error) {
	if who.IsSystem() {
		return Sight{Relations: []Relation{Owner}, Rights: Rights{authority: a, who: who, tenant: tenant}}, nil
	}
	if err := k.member(who, tenant); err != nil {
		return Sight{}, err
	}
	if len(k.relations) == 0 {
		return Sight{}, NoSuchNode(nodeID)
	}
	if !a.permits(who, action, "ComputeNode", nodeID, k) {
		return Sight{}, forbidden(who, action, tenant)
	}
	return Sight{Relations: k.relations, Rights: Rights{authority: a, who: who, tenant: tenant, known: k}}, nil
}

// OnTenant decides an action that is on no particular node.
func (a *Authority) OnTenant(ctx context.Context, q db.Querier, who Actor, action Action, tenant string) error {
	_, err := a.Rights(ctx, q, who, action, tenant)
	return err
}

// Rights decides an action on a tenant, and gives what else the actor may do on what the tenant owns.
func (a *Authority) Rights(ctx context.Context, q db.Querier, who Actor, action Action, tenant string) (Rights, error) {
	var k known
	if !who.IsSystem() {
		var err error
		if k, err = a.known(ctx, q, who, tenant, ""); err != nil {
			return Rights{}, err
		}
	}
	return a.rights(who, action, tenant, k)
}

// MemberSQL holds for who has a role in the tenant by a token that counts: only then may a statement lock what the tenant owns. Its parameters, which are
// the numbers of the statement's, are those of [Actor.MemberArgs] and the tenant.
func MemberSQL(token, principal, system, tenant int) string {
	return fmt.Sprintf(`($%d or exists (select from api_tokens where jti = $%d and revoked_at is null and expires_at > now())
		and exists (select from grants where principal = $%d and (tenant_id = $%d or tenant_id is null)))`, system, token, principal, tenant)
}

// MemberArgs are the token's id, the principal, and whether it is the control plane itself, which no rule holds for.
func (a Actor) MemberArgs() []any { return []any{a.TokenID, a.Name, a.system} }

// QueueOnTenant asks OnTenant as a part of a batch, which costs no round trip of its own: a refusal is the error of the batch. What stands in the batch
// after it has run all the same, so what locks there has [MemberSQL] as its condition.
func (a *Authority) QueueOnTenant(b *pgx.Batch, who Actor, action Action, tenant string) {
	if who.IsSystem() {
		return
	}
	b.Queue(knownSQL, who.TokenID, who.Name, tenant, "").QueryRow(func(row pgx.Row) error {
		var k known
		if err := row.Scan(&k.live, &k.tenant, &k.roles, &k.relations); err != nil {
			return fmt.Errorf("decide: %w", err)
		}
		_, err := a.rights(who, action, tenant, k)
		return err
	})
}

func (a *Authority) rights(who Actor, action Action, tenant string, k known) (Rights, error) {
	r := Rights{authority: a, who: who, tenant: tenant, known: k}
	if who.IsSystem() {
		return r, nil
	}
	if err := k.member(who, tenant); err != nil {
		return Rights{}, err
	}
	if !r.May(action) {
		return Rights{}, forbidden(who, action, tenant)
	}
	return r, nil
}

// Everywhere decides an action that is in no tenant, like making one: it takes a grant that holds in every tenant.
func (a *Authority) Everywhere(ctx context.Context, q db.Querier, who Actor, action Action) error {
	if who.IsSystem() {
		return nil
	}
	k, err := a.known(ctx, q, who, "", "") // no tenant is called "", so only grants in every tenant are found
	if err != nil {
		return err
	}
	if !k.live {
		return Unauthenticated()
	}
	if r := (Rights{authority: a, who: who, known: k}); !r.May(action) {
		return fault.New(fault.Forbidden, fault.Details{"action": string(action)}, "%s may not do %s; it takes a grant in every tenant", who.Name, action)
	}
	return nil
}

// Rights is what an actor may do on what a tenant owns (its pools, reservations, tokens, nodes), as one reading of the database said. The zero
// value is unknown, and allows nothing.
type Rights struct {
	authority *Authority
	who       Actor
	tenant    string
	known     known
}

// Known says whether there was such a reading.
func (r Rights) Known() bool { return r.authority != nil }

// May says whether the actor holds the action.
func (r Rights) May(action Action) bool {
	k := r.known
	k.relations = []Relation{Owner}
	return r.Known() && (r.who.IsSystem() || r.authority.permits(r.who, action, "Tenant", r.tenant, k))
}

func (k known) member(who Actor, tenant string) error {
	if !k.live {
		return Unauthenticated()
	}
	if len(k.roles) == 0 {
		return fault.New(fault.Forbidden, fault.Details{"tenantId": tenant}, "%s holds no grant in tenant %s", who.Name, tenant)
	}
	if !k.tenant {
		// Said to those alone who hold a grant in every tenant: nobody else has one in it.
		return fault.New(fault.NotFound, fault.Details{"tenantId": tenant}, "no tenant %s", tenant)
	}
	return nil
}

func (a *Authority) permits(who Actor, action Action, kind cedar.EntityType, resource string, k known) bool {
	decision, _ := cedar.Authorize(a.policies, cedar.EntityMap{}, cedar.Request{
		Principal: cedar.NewEntityUID("Principal", cedar.String(who.Name)),
		Action:    cedar.NewEntityUID("Action", cedar.String(action)),
		Resource:  cedar.NewEntityUID(kind, cedar.String(resource)),
		Context: cedar.NewRecord(cedar.RecordMap{
			"roles":     stringSet(k.roles),
			"relations": stringSet(k.relations),
		}),
	})
	return decision == cedar.Allow
}

func stringSet[T ~string](in []T) cedar.Set {
	values := make([]cedar.Value, len(in))
	for i, s := range in {
		values[i] = cedar.String(s)
	}
	return cedar.NewSet(values...)
}

func forbidden(who Actor, action Action, tenant string) error {
	return fault.New(fault.Forbidden, fault.Details{"action": string(action), "tenantId": tenant},
		"%s may not do %s in tenant %s; ask for a grant that holds it", who.Name, action, tenant)
}

// NoSuchNode is the one answer for a node that does not exist, is deleted or is not seen.
func NoSuchNode(nodeID string) error {
	return fault.New(fault.NotFound, fault.Details{"nodeId": nodeID}, "no node %s, or it is not visible to this tenant", nodeID)
}

// Unauthenticated is the one answer to a token that is absent, unreadable, ended or revoked.
func Unauthenticated() error {
	return fault.New(fault.Unauthenticated, nil, "not signed in: the bearer token is absent, not ours, expired or revoked; sign in again")
}

// Reader is what a stream of events asks about its reader while it runs.
type Reader struct {
	authority *Authority
	who       Actor
	tenant    string
	action    Action
	security  atomic.Bool // the last check found that it may read security events too
}

// Reader makes the visibility of one stream: who reads, for which tenant, by which action.
func (a *Authority) Reader(who Actor, tenant string, action Action) *Reader {
	return &Reader{authority: a, who: who, tenant: tenant, action: action}
}

// Check says whether the reader may still read; its error ends the stream.
func (r *Reader) Check(ctx context.Context) error {
	rights, err := r.authority.Rights(ctx, r.authority.db.Pool(), r.who, r.action, r.tenant)
	r.security.Store(err == nil && rights.May(NodesSecurity))
	return err
}

// View gives what the reader sees of an event, or false for nothing. Of who reads events, those about trust are for whom the last
// check found to hold that action too. A tenant that does not own what the event is about reads a reduced one: what
// happened and when, never by whom or why in the owner's words.
func (r *Reader) View(e events.Event) (events.Event, bool) {
	// Who only lists nodes gets no event, and has to learn all the same that the node is another one now.
	if r.action == NodesEvents && strings.HasPrefix(e.Type, "security.") && !r.security.Load() {
		return events.Event{}, false
	}
	if slices.Contains(e.Audience.Full, r.tenant) {
		return e, true
	}
	if !slices.Contains(e.Audience.Reduced, r.tenant) {
		return events.Event{}, false
	}
	e.Actor, e.Reason, e.RequestID, e.TenantID = "operator", "", "", ""
	e.Data = reduce(e.Type, e.Data)
	return e, true
}
