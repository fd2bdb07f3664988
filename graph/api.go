// Package graph is the GraphQL edge: it translates a request, calls one verb, and translates the answer back. No rule of the domain is in here.
package graph

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/placement"
)

// API holds the verbs that the resolvers call.
type API struct {
	DB        *db.DB
	Log       *events.Log
	Authority *iam.Authority
	Issuer    *iam.Issuer
	Nodes     *node.Store
	Controls  *controls.Controls
	Bookings  *placement.Bookings
	PKI       *pki.Store
	// GatewayAddress is what machines are told to join at.
	GatewayAddress string
	// Later runs what follows an answer: looks at acceptance. The server owns the goroutines and waits for them when it stops.
	Later func(ctx context.Context, name string, fn func(ctx context.Context) error)
	// Slog takes what goes wrong on our side.
	Slog *slog.Logger

	// MaxWatched is how many nodes one nodeChanges watches, of which it keeps the ids; 0 means 200,000. All of the process's together watch ten times
	// as many.
	MaxWatched int

	fleets  fleets
	watched atomic.Int64
}

// Query gives the queries' resolvers.
func (a *API) Query() QueryResolver { return queries{a} }

// Mutation gives the mutations' resolvers.
func (a *API) Mutation() MutationResolver { return mutations{a} }

// Subscription gives the subscriptions' resolvers.
func (a *API) Subscription() SubscriptionResolver { return subscriptions{a} }

type actorKey struct{}

// withActor puts who asks into the request's context: it comes with the transport, not with the operation.
func withActor(ctx context.Context, who iam.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, who)
}

// actor gives who asks; without anybody it is UNAUTHENTICATED.
func actor(ctx context.Context) (iam.Actor, error) {
	who, ok := ctx.Value(actorKey{}).(iam.Actor)
	if !ok || who.TokenID == "" {
		return iam.Actor{}, iam.Unauthenticated()
	}
	return who, nil
}
