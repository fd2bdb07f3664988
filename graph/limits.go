package graph

import (
	"context"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/node"
)

// What one request may ask for.
const (
	maxBody       = 256 << 10
	maxStranger   = 16 << 10 // of a body whose sender is not signed in
	maxTokens     = 4000
	maxDepth      = 12
	maxFields     = 600 // selections in the document after fragments are spread, aliases included
	maxComplexity = 60_000
	previewCost   = 10_000 // it reads up to 20,000 nodes
	cachedQueries = 500
	cachedLength  = 8 << 10
)

// parsed keeps parsed operations, which clients send again and again, but none of somebody who isn't signed in and no long one: a thousand of
// 250 KB, which nobody has to sign in for, would stay in memory for good.
type parsed struct {
	graphql.Cache[*ast.QueryDocument]
}

// Add keeps an operation if it may be kept.
func (p parsed) Add(ctx context.Context, text string, doc *ast.QueryDocument) {
	if _, err := actor(ctx); err == nil && len(text) <= cachedLength {
		p.Cache.Add(ctx, text, doc)
	}
}

// shape refuses operations that are too deep or too wide before anything runs. Complexity counts what they would read.
type shape struct{}

func (shape) ExtensionName() string { return "Shape" }

func (shape) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationContext checks the operation.
func (shape) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation == nil {
		return nil
	}
	if op.Operation.Operation != ast.Query && readOnly(ctx) {
		err := gqlerror.WrapIfUnwrapped(fault.Invalid("query", "must be a query when it comes by GET; send mutations by POST", 0))
		errcode.Set(err, errcode.ValidationFailed) // for the status, 422; the presenter puts our own code
		return err
	}
	if op.Operation.Operation == ast.Subscription && oneAnswer(ctx) {
		err := gqlerror.WrapIfUnwrapped(fault.Invalid("Accept", "must be text/event-stream for a subscription, which also goes by websocket", 0))
		errcode.Set(err, errcode.ValidationFailed)
		return err
	}
	m := measure{left: maxFields}
	m.walk(op.Operation.SelectionSet, 1)
	switch {
	case m.left < 0:
		return gqlerror.WrapIfUnwrapped(fault.New(fault.ResourceExhausted, fault.Details{"limit": maxFields},
			"the operation selects more than %d fields; split it", maxFields))
	case m.deepest > maxDepth:
		return gqlerror.WrapIfUnwrapped(fault.New(fault.ResourceExhausted, fault.Details{"limit": maxDepth},
			"the operation nests deeper than %d levels; split it", maxDepth))
	}
	return nil
}

type measure struct{ left, deepest int }

// walk counts; it stops at the limits, so that spreading fragments in fragments costs no more than they allow.
func (m *measure) walk(set ast.SelectionSet, depth int) {
	m.deepest = max(m.deepest, depth)
	if m.deepest > maxDepth {
		return
	}
	for _, s := range set {
		if m.left--; m.left < 0 {
			return
		}
		switch s := s.(type) {
		case *ast.Field:
			if len(s.SelectionSet) > 0 && s.Name != "__schema" && s.Name != "__type" {
				m.walk(s.SelectionSet, depth+1)
			}
		case *ast.InlineFragment:
			m.walk(s.SelectionSet, depth)
		case *ast.FragmentSpread:
			if s.Definition != nil {
				m.walk(s.Definition.SelectionSet, depth)
			}
		}
	}
}

// complexities multiply what a list's entry costs by how many are asked for.
func complexities() ComplexityRoot {
	var c ComplexityRoot
	// A child that is over the limit already is as good as at it: lists of lists of lists must not come round to a small number.
	page := func(child, first int) int { return 1 + max(1, min(first, 500))*min(child, maxComplexity+1) }
	c.Query.Nodes = func(child int, _ string, _ *node.Filter, _ node.Order, first int, _ *string) int {
		return page(child, first)
	}
	c.Query.Events = func(child int, _ string, _ *string, _ []string, _ *string, _, _ *time.Time, _ events.Order, first int, _ *string) int {
		return page(child, first)
	}
	c.Query.Reservations = func(child int, _ string, _ *ReservationFilter, first int, _ *string) int { return page(child, first) }
	c.Query.Drains = func(child int, _ string, _ bool, _ *string, first int, _ *string) int { return page(child, first) }
	c.DrainPlan.Blockers = func(child int) int { return page(child, 20) }
	c.Query.JoinTokens = func(child int, _ string, first int, _ *string) int { return page(child, first) }
	c.ComputeNode.Certificates = func(child int, _ bool, first int, _ *string) int { return page(child, first) }
	c.NodeChangeBatch.Changed = func(child int) int { return page(child, maxBatch) }
	c.Query.NodesOperations = func(child int, _ string, _ bool, first int, _ *string) int { return page(child, first) }
	c.NodesOperation.Results = func(child int, _ []controls.Outcome, first int, _ *string) int { return page(child, first) }
	c.NodesOperation.NewResults = func(child int) int { return page(child, maxBatch) }
	c.NodeSelection.Preview = func(child int, _ controls.Verb, _ *string, _ bool, _, _ []string, _ []*LabelInput) int {
		return previewCost + child
	}
	c.NodesPreview.Groups = func(child int) int { return page(child, 20) }
	c.FleetSummary.Pools = func(child int) int { return page(child, 20) }
	c.ComputeNode.Events = func(child int, _ []string, first int, _ *string) int { return page(child, first) }
	c.ComputeNode.Allocations = func(child int, _ bool, first int, _ *string) int { return page(child, first) }
	c.ComputeNode.Devices = func(child int) int { return page(child, 4) }
	c.Drain.Blockers = func(child int) int { return page(child, 20) }
	return c
}
