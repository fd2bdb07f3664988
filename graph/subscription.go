package graph

import (
	"context"

	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
)

type subscriptions struct{ *API }

// NodeEvents follows the log.
func (s subscriptions) NodeEvents(ctx context.Context, tenantID string, nodeID *string, types []string, after *string) (<-chan Event, error) {
	return follow(ctx, s.API, iam.NodesEvents, tenantID, nodeID, types, after, func(e Event) Event { return e })
}

// NodeDrained follows node.drained.
func (s subscriptions) NodeDrained(ctx context.Context, tenantID string, nodeID, after *string) (<-chan *NodeDrained, error) {
	return follow(ctx, s.API, iam.NodesEvents, tenantID, nodeID, []string{"node.drained"}, after, func(e Event) *NodeDrained {
		d, _ := e.(*NodeDrained) // the filter lets nothing else through
		return d
	})
}

// SecurityEvents follows what is about trust. Only owners are in the audience of such an event.
func (s subscriptions) SecurityEvents(ctx context.Context, tenantID string, nodeID, after *string) (<-chan Event, error) {
	return follow(ctx, s.API, iam.NodesSecurity, tenantID, nodeID, []string{"security."}, after, func(e Event) Event { return e })
}

// follow makes the channel that gqlgen reads. Its goroutine ends with the operation's context; why a stream ended reaches the client through the
// operation's error slot.
func follow[T any](ctx context.Context, a *API, action iam.Action, tenantID string, nodeID *string, types []string, after *string, as func(Event) T,
) (<-chan T, error) {
	f := events.Filter{Tenant: tenantID, Types: types}
	who, err := a.onEvents(ctx, action, tenantID, nodeID, &f)
	if err != nil {
		return nil, err
	}
	if err := events.CheckTypes("types", types); err != nil {
		return nil, err
	}
	from, err := cursorOf(after)
	if err != nil {
		return nil, err
	}
	follower, err := a.Log.Follow(ctx, f, from, a.Authority.Reader(who, tenantID, action))
	if err != nil {
		return nil, err
	}
	out := make(chan T)
	go func() {
		defer close(out)
		defer follower.Close()
		// A token's end is known ahead; that it was revoked, the follower asks now and then.
		valid, cancel := context.WithDeadlineCause(ctx, who.ExpiresAt, iam.Unauthenticated())
		defer cancel()
		for {
			e, err := follower.Next(valid)
			if err != nil && valid.Err() != nil {
				err = context.Cause(valid)
			}
			if err != nil {
				endWith(ctx, err)
				return
			}
			t := turnOf(ctx)
			if !t.take(ctx) {
				return
			}
			list, err := a.tell(who, tenantID, []events.Event{e})
			if err != nil {
				t.made()
				endWith(ctx, err)
				return
			}
			if !hand(ctx, t, out, as(list[0])) {
				return
			}
		}
	}()
	return out, nil
}

// cursorOf reads where to resume; nil is from now.
func cursorOf(after *string) (*events.Cursor, error) {
	if after == nil {
		return nil, nil //nolint:nilnil // from now
	}
	c, err := events.ParseCursor("after", *after)
	if err != nil {
		return nil, err
	}
	return &c, nil
}
