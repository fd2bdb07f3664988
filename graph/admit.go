package graph

import (
	"context"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/better-compute/better-compute/fault"
)

const (
	// beginAtOnce is how many subscriptions begin at one time in a process: each asks the database a few times before it is live, and a thousand that lost
	// their server would take all connections from queries and mutations.
	beginAtOnce = 16
	// beginWithin is how long one waits for that.
	beginWithin = 2 * time.Second
	// beginAgain is after how long whoever waited in vain is to come back at the earliest. Our clients then wait a random while more, as long again at most.
	beginAgain = 3 * time.Second
)

// admission lets subscriptions begin a few at a time, in the order in which they came. One that waits for too long is told when to come back.
func admission(presenter graphql.ErrorPresenterFunc) graphql.OperationMiddleware {
	places := make(chan struct{}, beginAtOnce)
	return func(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
		op := graphql.GetOperationContext(ctx)
		if op.Operation == nil || op.Operation.Operation != ast.Subscription {
			return next(ctx)
		}
		late := time.NewTimer(beginWithin)
		defer late.Stop()
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			return next(ctx) // until it is live
		case <-late.C:
		case <-ctx.Done():
		}
		err := fault.New(fault.ResourceExhausted, fault.Details{"retryAfterMs": beginAgain.Milliseconds()},
			"too many subscriptions begin at once; come back in %s or a little later", beginAgain)
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{presenter(ctx, err)}, Data: []byte("null")})
	}
}
