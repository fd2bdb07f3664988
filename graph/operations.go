package graph

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// NodeSelection is a selection in an answer.
type NodeSelection struct {
	controls.Selection

	api *API
	who iam.Actor
}

// Preview says what a control would do.
func (s *NodeSelection) Preview(ctx context.Context, control controls.Verb, ifCordonedBy *string, anyone bool, add, remove []string, set []*LabelInput,
) (*NodesPreview, error) {
	m, err := manner(control, NodesControlInput{IfCordonedBy: ifCordonedBy, Anyone: anyone, Add: add, Remove: remove, Set: set})
	if err != nil {
		return nil, err
	}
	list, err := s.api.Controls.Preview(ctx, s.who, s.Selection, m)
	if err != nil {
		return nil, err
	}
	out := &NodesPreview{Groups: make([]*NodesPreviewGroup, len(list))}
	for i, f := range list {
		out.Groups[i] = &NodesPreviewGroup{f}
		switch f.Outcome {
		case controls.OutcomeDone:
			out.Done += f.Count
		case controls.OutcomeUnchanged:
			out.Unchanged += f.Count
		case controls.OutcomeRefused:
			out.Refused += f.Count
		}
	}
	return out, nil
}

// NodesPreviewGroup is nodes that stand alike.
type NodesPreviewGroup struct{ controls.Foreseen }

// ProvisionState gives how far they have come.
func (g *NodesPreviewGroup) ProvisionState() *node.ProvisionState {
	if g.Foreseen.ProvisionState == "" {
		return nil
	}
	return &g.Foreseen.ProvisionState
}

// NodesOperation is an operation in an answer.
type NodesOperation struct {
	controls.Operation

	// NewResults are a subscription's: what came since the message before.
	NewResults []*NodesOperationResult
	Cursor     *string

	api *API
	who iam.Actor
}

// Control gives what is done.
func (o *NodesOperation) Control() controls.Verb { return o.Manner.Verb }

// MaxPerPool gives the limit of drains.
func (o *NodesOperation) MaxPerPool() *int { return o.Manner.MaxPerPool }

// Results gives a page of what became of the nodes.
func (o *NodesOperation) Results(ctx context.Context, outcomes []controls.Outcome, first int, after *string) (*NodesOperationResultConnection, error) {
	if first < 1 || first > node.MaxFirst {
		return nil, fault.Invalid("first", "must be between 1 and "+strconv.Itoa(node.MaxFirst), 0)
	}
	beyond, err := parseResultCursor(after)
	if err != nil {
		return nil, err
	}
	list, more, err := o.api.Controls.Results(ctx, o.ID, outcomes, beyond, first)
	if err != nil {
		return nil, err
	}
	out := &NodesOperationResultConnection{
		Nodes: o.api.results(o.who, o.TenantID, list), Edges: make([]*NodesOperationResultEdge, len(list)), PageInfo: &PageInfo{HasNextPage: more},
	}
	for i, r := range out.Nodes {
		cursor := resultCursor(r.Number)
		out.Edges[i] = &NodesOperationResultEdge{Cursor: cursor, Node: r}
		out.PageInfo.EndCursor = &cursor
	}
	return out, nil
}

// NodesOperationResult is a result in an answer.
type NodesOperationResult struct {
	controls.Result

	nodes *resultNodes
}

// Node gives the node as it is now.
func (r *NodesOperationResult) Node(ctx context.Context) (*Node, error) {
	return r.nodes.get(ctx, r.NodeID)
}

// resultNodes are the nodes of results that stand in one answer, read together when the first is asked for.
type resultNodes struct {
	api    *API
	who    iam.Actor
	tenant string
	ids    []string
	loaded lazy[map[string]*Node]
}

func (n *resultNodes) get(ctx context.Context, nodeID string) (*Node, error) {
	all, err := n.loaded.get(ctx, func() (map[string]*Node, error) {
		views, err := n.api.Nodes.Past(ctx, n.tenant, n.ids)
		if err != nil {
			return nil, err
		}
		list := make([]*node.View, 0, len(views))
		for _, v := range views {
			list = append(list, v)
		}
		out := make(map[string]*Node, len(list))
		for _, shown := range n.api.newPage(n.who, n.tenant, list) {
			out[shown.ID] = shown
		}
		return out, nil
	})
	return all[nodeID], err
}

func (a *API) results(who iam.Actor, tenant string, list []controls.Result) []*NodesOperationResult {
	nodes := &resultNodes{api: a, who: who, tenant: tenant, ids: make([]string, len(list))}
	out := make([]*NodesOperationResult, len(list))
	for i, r := range list {
		nodes.ids[i] = r.NodeID
		out[i] = &NodesOperationResult{Result: r, nodes: nodes}
	}
	return out
}

// resultKind begins the text of a cursor in a list of results.
const resultKind = "R."

func resultCursor(number int) string { return resultKind + strconv.Itoa(number) }

func parseResultCursor(after *string) (int, error) {
	if after == nil {
		return 0, nil
	}
	text, ok := strings.CutPrefix(*after, resultKind)
	number, err := strconv.Atoi(text)
	if !ok || err != nil || number < 0 || number > controls.MaxSelected || resultCursor(number) != *after {
		return 0, fault.Invalid("after", "must be the cursor of a result of this operation", len(*after))
	}
	return number, nil
}

func (a *API) operation(who iam.Actor, o controls.Operation) *NodesOperation {
	return &NodesOperation{Operation: o, NewResults: []*NodesOperationResult{}, api: a, who: who}
}

// NodeSelection gives a selection to its author.
func (q queries) NodeSelection(ctx context.Context, tenantID, selectionID string) (*NodeSelection, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	s, err := q.Controls.Selection(ctx, who, tenantID, selectionID)
	if err != nil {
		return nil, err
	}
	return &NodeSelection{Selection: s, api: q.API, who: who}, nil
}

// NodesOperation gives an operation.
func (q queries) NodesOperation(ctx context.Context, tenantID, operationID string) (*NodesOperation, error) {
	who, err := q.on(ctx, iam.NodesList, tenantID)
	if err != nil {
		return nil, err
	}
	o, err := q.Controls.Operation(ctx, tenantID, operationID)
	if err != nil {
		return nil, err
	}
	return q.operation(who, o), nil
}

// NodesOperations lists operations.
func (q queries) NodesOperations(ctx context.Context, tenantID string, active bool, first int, after *string) (*NodesOperationConnection, error) {
	p, err := pageOf(id.Operation, first, after)
	if err != nil {
		return nil, err
	}
	who, err := q.on(ctx, iam.NodesList, tenantID)
	if err != nil {
		return nil, err
	}
	list, more, err := q.Controls.Operations(ctx, tenantID, active, p.First, p.After)
	if err != nil {
		return nil, err
	}
	out := &NodesOperationConnection{Nodes: []*NodesOperation{}, Edges: []*NodesOperationEdge{}, PageInfo: &PageInfo{HasNextPage: more}}
	for _, o := range list {
		cursor := listCursor(o.ID)
		shown := q.operation(who, o)
		out.Nodes, out.Edges = append(out.Nodes, shown), append(out.Edges, &NodesOperationEdge{Cursor: cursor, Node: shown})
		out.PageInfo.EndCursor = &cursor
	}
	return out, nil
}

// NodeSelectionCreate selects.
func (m mutations) NodeSelectionCreate(ctx context.Context, in NodeSelectionCreateInput) (*NodeSelectionPayload, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	done, err := m.Controls.Select(ctx, controls.Selecting{
		Who: who, TenantID: in.TenantID, Filter: in.Filter, NodeIDs: in.NodeIds, Expect: in.ExpectCount, RequestID: text(in.RequestID),
	})
	if err != nil {
		return nil, err
	}
	return &NodeSelectionPayload{Selection: &NodeSelection{Selection: done.Selection, api: m.API, who: who}, Cursor: done.Cursor.String()}, nil
}

// NodesCordon cordons many.
func (m mutations) NodesCordon(ctx context.Context, in NodesControlInput) (*NodesOperationPayload, error) {
	return m.many(ctx, controls.VerbCordon, in)
}

// NodesUncordon uncordons many.
func (m mutations) NodesUncordon(ctx context.Context, in NodesControlInput) (*NodesOperationPayload, error) {
	return m.many(ctx, controls.VerbUncordon, in)
}

// NodesDrain drains many.
func (m mutations) NodesDrain(ctx context.Context, in NodesControlInput) (*NodesOperationPayload, error) {
	return m.many(ctx, controls.VerbDrain, in)
}

// NodesTaint adds and removes taints of many.
func (m mutations) NodesTaint(ctx context.Context, in NodesControlInput) (*NodesOperationPayload, error) {
	return m.many(ctx, controls.VerbTaint, in)
}

// NodesLabel sets and removes labels of many.
func (m mutations) NodesLabel(ctx context.Context, in NodesControlInput) (*NodesOperationPayload, error) {
	return m.many(ctx, controls.VerbLabel, in)
}

// NodesAdopt runs acceptance again on many.
func (m mutations) NodesAdopt(ctx context.Context, in NodesControlInput) (*NodesOperationPayload, error) {
	return m.many(ctx, controls.VerbAdopt, in)
}

func (m mutations) many(ctx context.Context, verb controls.Verb, in NodesControlInput) (*NodesOperationPayload, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	how, err := manner(verb, in)
	if err != nil {
		return nil, err
	}
	begun, err := m.Controls.Begin(ctx, controls.ManyEdit{
		Who: who, TenantID: in.TenantID, SelectionID: text(in.SelectionID), NodeIDs: in.NodeIds, Reason: text(in.Reason), RequestID: text(in.RequestID), Manner: how,
	})
	if err != nil {
		return nil, err
	}
	return &NodesOperationPayload{
		Operation: m.operation(who, begun.Operation), Changed: true, Cursor: begun.Cursor.String(), Warnings: begun.Warnings,
	}, nil
}

// manner makes a control's arguments of the input that all of them share.
func manner(verb controls.Verb, in NodesControlInput) (controls.Manner, error) {
	if in.IfCordonedBy != nil && *in.IfCordonedBy == "" {
		return controls.Manner{}, fault.Invalid("ifCordonedBy", "must be the name of somebody", 0)
	}
	set, err := labelsOf("set", in.Set)
	if err != nil {
		return controls.Manner{}, err
	}
	if set == nil && in.Set != nil {
		set = map[string]string{}
	}
	return controls.Manner{
		Verb: verb, Until: in.Until, IfCordonedBy: text(in.IfCordonedBy), Anyone: in.Anyone, Deadline: in.Deadline, MaxPerPool: in.MaxPerPool,
		Add: in.Add, Remove: in.Remove, Set: set,
	}, nil
}

// NodesOperationStop stops an operation.
func (m mutations) NodesOperationStop(ctx context.Context, in NodesOperationStopInput) (*NodesOperationPayload, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	done, err := m.Controls.Stop(ctx, controls.Stopping{Who: who, TenantID: in.TenantID, OperationID: in.OperationID, RequestID: text(in.RequestID)})
	if err != nil {
		return nil, err
	}
	return &NodesOperationPayload{Operation: m.operation(who, done.Operation), Changed: done.Changed, Cursor: done.Cursor.String()}, nil
}

const (
	// lookAtOperation is how often a subscription looks how far an operation has come, and lookAtIdle how often when it found nothing for a while.
	lookAtOperation = 100 * time.Millisecond
	lookAtIdle      = time.Second
	// recheck is how often it is asked whether the subscriber may still read.
	recheck = 5 * time.Second
)

// NodesOperation tells how far an operation has come.
func (s subscriptions) NodesOperation(ctx context.Context, tenantID, operationID string, after *string) (<-chan *NodesOperation, error) {
	who, err := s.on(ctx, iam.NodesList, tenantID)
	if err != nil {
		return nil, err
	}
	w := &operationWatch{api: s.API, who: who, tenant: tenantID, operationID: operationID, reader: s.Authority.Reader(who, tenantID, iam.NodesList)}
	if w.told, err = parseResultCursor(after); err != nil {
		return nil, err
	}
	if _, err := s.Controls.Operation(ctx, tenantID, operationID); err != nil {
		return nil, err
	}
	w.results = selected(ctx, "NodesOperation", "newResults")
	out := make(chan *NodesOperation)
	go func() {
		defer close(out)
		// A token's end is known ahead; that it was revoked is asked now and then.
		valid, cancel := context.WithDeadlineCause(ctx, who.ExpiresAt, iam.Unauthenticated())
		defer cancel()
		if err := w.run(valid, out); err != nil {
			endWith(ctx, ended(valid, err))
		}
	}()
	return out, nil
}

// operationWatch is one subscriber of an operation.
type operationWatch struct {
	api         *API
	who         iam.Actor
	tenant      string
	operationID string
	reader      *iam.Reader
	results     bool // it wants them
	told        int  // the number of the last result that was told
	last        *controls.Operation
}

// run tells until the operation has ended, or the stream can't go on.
func (w *operationWatch) run(ctx context.Context, out chan<- *NodesOperation) error {
	asked := time.Now()
	for idle := lookAtOperation; ; {
		var o *NodesOperation
		var more bool
		if err := endure(ctx, func() (err error) {
			o, more, err = w.look(ctx)
			return err
		}); err != nil {
			return err
		}
		if w.last == nil || len(o.NewResults) > 0 || !same(*w.last, o.Operation) {
			if !give(ctx, out, o) {
				return ctx.Err()
			}
			w.last, idle = &o.Operation, lookAtOperation
		}
		if more {
			continue
		}
		if o.State != controls.OperationRunning {
			return nil
		}
		t := time.NewTimer(idle)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
		idle = min(idle+lookAtOperation/2, lookAtIdle)
		if time.Since(asked) > recheck {
			if err := endure(ctx, func() error { return w.reader.Check(ctx) }); err != nil {
				return err
			}
			asked = time.Now()
		}
	}
}

// look reads the operation, and then its results: once it has ended, there are no others.
func (w *operationWatch) look(ctx context.Context) (o *NodesOperation, more bool, err error) {
	read, err := w.api.Controls.Operation(ctx, w.tenant, w.operationID)
	if err != nil {
		return nil, false, err
	}
	o = w.api.operation(w.who, read)
	if w.results {
		var list []controls.Result
		if list, more, err = w.api.Controls.Results(ctx, w.operationID, nil, w.told, maxBatch); err != nil {
			return nil, false, err
		}
		if len(list) > 0 {
			w.told = list[len(list)-1].Number
		}
		o.NewResults = w.api.results(w.who, w.tenant, list)
		cursor := resultCursor(w.told)
		o.Cursor = &cursor
	}
	return o, more, nil
}

// same says that there is nothing to tell of an operation besides results.
func same(a, b controls.Operation) bool {
	return a.State == b.State && a.Done == b.Done && a.Unchanged == b.Unchanged && a.Refused == b.Refused && a.Waiting == b.Waiting
}
