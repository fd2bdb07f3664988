package controls

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

// Foreseen is nodes of a selection that stand alike, and what a control would do to them now.
type Foreseen struct {
	Outcome Outcome
	// Code is the refusal's.
	Code node.Text
	// Because says of one of them why it would be refused or left unchanged.
	Because node.Text
	// ProvisionState, Cordoned and Draining are how they stand; the state is empty for those that are gone or not seen any more.
	ProvisionState node.ProvisionState
	Cordoned       bool
	Draining       bool
	Count          int
}

// Preview says what a control would do to the nodes of a selection now, by the decisions that the control itself uses, and changes nothing. Who asks made
// the selection; that was decided.
func (c *Controls) Preview(ctx context.Context, who iam.Actor, s Selection, m Manner) ([]Foreseen, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	rights, err := c.Nodes.Authority.Rights(ctx, c.Nodes.DB.Pool(), who, iam.NodesList, s.TenantID)
	if err != nil {
		return nil, err
	}
	rows, err := c.Nodes.DB.Pool().Query(ctx, `
		select node_ids, versions, clock_timestamp() from node_selection_parts where selection_id = $1 order by part`, s.ID)
	if err != nil {
		return nil, fmt.Errorf("read the selection: %w", err)
	}
	var act node.Act
	act.Who = who
	var parts []part
	if parts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p part, err error) {
		err = row.Scan(&p.ids, &p.versions, &act.Now)
		return p, err
	}); err != nil {
		return nil, fmt.Errorf("read the selection: %w", err)
	}
	f := foresight{selection: s, manner: m, control: m.control(who.Name, nil), rights: rights, act: act, groups: map[Foreseen]*Foreseen{}}
	for _, p := range parts {
		if err := f.see(ctx, c.Nodes, p); err != nil {
			return nil, err
		}
	}
	return f.sorted(), nil
}

// foresight counts what a control would do.
type foresight struct {
	selection Selection
	manner    Manner
	control   node.Control
	rights    iam.Rights
	act       node.Act
	groups    map[Foreseen]*Foreseen // by what they have in common
}

func (f *foresight) see(ctx context.Context, nodes *node.Store, p part) error {
	views, err := nodes.Views(ctx, f.selection.TenantID, p.ids)
	if err != nil {
		return err
	}
	var moved []string
	for i, nodeID := range p.ids {
		if v := views[nodeID]; v != nil && v.Version != *p.versions[i] {
			moved = append(moved, nodeID)
		}
	}
	upsets, err := findUpsets(ctx, nodes.DB.Pool(), f.manner, f.selection.ID, f.selection.position, f.selection.logAt, moved)
	if err != nil {
		return err
	}
	for _, nodeID := range p.ids {
		f.count(f.judge(nodeID, views[nodeID], upsets))
	}
	return nil
}

// judge says what would become of one node.
func (f *foresight) judge(nodeID string, v *node.View, upsets map[string]upset) Foreseen {
	if v == nil {
		return Foreseen{}.refused(iam.NoSuchNode(nodeID))
	}
	out := Foreseen{ProvisionState: v.ProvisionState, Cordoned: v.Cordoned(), Draining: v.Running() != nil}
	if !v.Full || !f.rights.May(f.control.Action) {
		return out.refused(fault.New(fault.Forbidden, nil, "it needs %s and the tenant that owns the node", f.control.Action))
	}
	n := v.Clone()
	fact, err := f.control.Decide(n, f.act)
	u, upset := upsets[nodeID]
	switch {
	case err != nil:
		return out.refused(err)
	case fact == nil:
		out.Outcome, out.Because = OutcomeUnchanged, node.Text(f.manner.idle(n))
		return out
	case upset:
		return out.refused(u.refusal(nodeID))
	}
	out.Outcome = OutcomeDone
	return out
}

func (f Foreseen) refused(err error) Foreseen {
	f.Outcome, f.Code, f.Because = OutcomeRefused, node.Text(fault.CodeOf(err)), node.Text(err.Error())
	return f
}

// count adds one node to those that stand alike; of what is said of them one word stays.
func (f *foresight) count(one Foreseen) {
	alike := one
	alike.Because = ""
	if f.groups[alike] == nil {
		f.groups[alike] = &one
	}
	f.groups[alike].Count++
}

// sorted gives what would change first, then what would stay, then what would be refused; in each the largest group first.
func (f *foresight) sorted() []Foreseen {
	order := []Outcome{OutcomeDone, OutcomeUnchanged, OutcomeRefused}
	out := make([]Foreseen, 0, len(f.groups))
	for _, g := range f.groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Foreseen) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Outcome), slices.Index(order, b.Outcome)), cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.ProvisionState, b.ProvisionState), cmp.Compare(a.Because, b.Because))
	})
	return out
}
