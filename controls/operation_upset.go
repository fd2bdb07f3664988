package controls

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
)

// upset is what happened to a node since it was frozen.
type upset struct {
	kind, actor string
	at          time.Time
}

func (u upset) refusal(nodeID string) error {
	return fault.New(fault.Conflict, fault.Details{"nodeId": nodeID, "type": u.kind, "by": u.actor, "at": u.at.UTC()},
		"it changed since it was selected: %s by %s at %s; look at it and decide anew", u.kind, u.actor, u.at.UTC().Format(time.RFC3339))
}

// findUpsets looks in the log for what upset nodes since they were frozen. Only those whose version moved are to be asked for, which are few as a rule; what
// was done by operations on the same selection is the author's own.
func findUpsets(ctx context.Context, q db.Querier, m Manner, selection string, position int64, logAt time.Time, moved []string) (map[string]upset, error) {
	if len(moved) == 0 {
		return nil, nil //nolint:nilnil // nothing upset them
	}
	rows, err := q.Query(ctx, `
		select f.id, e.type, e.actor, e.at
		from unnest($1::text[]) as f (id)
		join lateral (
			select type, actor, at from events
			where node_id = f.id and position > $2 and at >= $3 and type = any($4)
			  and ($5::text[] is null or coalesce(data -> 'taintsAdded' ?| $5, false) or coalesce(data -> 'taintsRemoved' ?| $5, false)
			       or coalesce(data -> 'set' ?| $5, false) or coalesce(data -> 'removed' ?| $5, false))
			  and ($6 = '' or not exists (select from node_operations o where o.id = request_id and o.selection_id = $6))
			order by position desc limit 1) as e on true`,
		moved, position, logAt, m.upset(), m.keys(), selection)
	if err != nil {
		return nil, fmt.Errorf("find what upset the nodes: %w", err)
	}
	found := map[string]upset{}
	var nodeID string
	var u upset
	if _, err := pgx.ForEachRow(rows, []any{&nodeID, &u.kind, &u.actor, &u.at}, func() error {
		found[nodeID] = u
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find what upset the nodes: %w", err)
	}
	return found, nil
}
