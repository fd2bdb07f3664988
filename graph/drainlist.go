package graph

import (
	"context"
	"time"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// Drains lists drains.
func (q queries) Drains(ctx context.Context, tenantID string, active bool, poolID *string, first int, after *string) (*DrainConnection, error) {
	if poolID != nil {
		if err := id.Check(id.Pool, "poolId", *poolID); err != nil {
			return nil, err
		}
	}
	p, err := pageOf(id.Drain, first, after)
	if err != nil {
		return nil, err
	}
	who, err := q.on(ctx, iam.NodesList, tenantID)
	if err != nil {
		return nil, err
	}
	list, more, err := q.API.Nodes.ListDrains(ctx, tenantID, node.DrainListing{Active: active, PoolID: poolID, First: p.First, After: p.After})
	if err != nil {
		return nil, err
	}
	out := &DrainConnection{Nodes: q.drains(who, tenantID, list), PageInfo: &PageInfo{HasNextPage: more}, Edges: []*DrainEdge{}}
	for _, d := range out.Nodes {
		cursor := listCursor(d.ID)
		out.Edges = append(out.Edges, &DrainEdge{Cursor: cursor, Node: d})
		out.PageInfo.EndCursor = &cursor
	}
	return out, nil
}

// drains makes the drains of an answer, with their nodes on one page.
func (a *API) drains(who iam.Actor, tenant string, list []node.DrainView) []*Drain {
	views := make([]*node.View, len(list))
	for i, d := range list {
		views[i] = d.Node
	}
	out := make([]*Drain, len(list))
	for i, n := range a.newPage(who, tenant, views) {
		n.page.drains = append(n.page.drains, list[i].ID)
		out[i] = &Drain{Drain: list[i].Drain, Node: n}
	}
	return out
}

// DrainPlan is what a drain would wait for.
type DrainPlan struct {
	Node *Node

	plan controls.Plan
}

// DrainPlan plans a drain.
func (q queries) DrainPlan(ctx context.Context, tenantID, nodeID string) (*DrainPlan, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	v, err := q.API.Nodes.GetFor(ctx, who, iam.NodesDrain, tenantID, nodeID)
	if err != nil {
		return nil, err
	}
	plan, err := q.Controls.PlanDrain(ctx, nodeID)
	if err != nil {
		return nil, err
	}
	return &DrainPlan{Node: q.oneNode(who, v), plan: plan}, nil
}

// Empty says that a drain would end at once.
func (p *DrainPlan) Empty() bool { return p.plan.Held.Live == 0 }

// LiveAllocationCount counts what a drain would wait for.
func (p *DrainPlan) LiveAllocationCount() int { return p.plan.Held.Live }

// Blockers gives what a drain would wait for, others' reduced.
func (p *DrainPlan) Blockers() []*Allocation {
	out := make([]*Allocation, len(p.plan.Blockers))
	for i, a := range p.plan.Blockers {
		out[i] = allocation(a, p.Node.Seer)
	}
	return out
}

// ExpectedAt gives when the last blocker ends.
func (p *DrainPlan) ExpectedAt() *time.Time { return p.plan.ExpectedAt }
