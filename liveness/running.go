// Package liveness is about sessions and ages: whether a node's daemon holds a session, when it was last heard of, and what it says of itself.
package liveness

import (
	"context"
	"fmt"

	"github.com/better-compute/better-compute/db"
)

// confirmWithin is how young, in seconds, the flushed age of the session must be for what it reported to count.
const confirmWithin = 30

// ConfirmsEmpty says whether the node itself confirms that nothing runs on it: its newest report is of the present session, holds no device with
// compute processes, and the session was heard of within the last 30 s. Where the node can't tell, the answer is false.
func ConfirmsEmpty(ctx context.Context, q db.Querier, nodeID string) (bool, error) {
	var confirmed bool
	err := q.QueryRow(ctx, `
		select exists (
			select from node_running r
			join node_sessions s on s.node_id = r.node_id and s.number = r.session_number and s.disconnected_at is null
			join node_liveness l on l.node_id = r.node_id and l.session_number = s.number
			where r.node_id = $1 and r.known and r.devices = '{}' and l.last_seen > now() - make_interval(secs => $2))`,
		nodeID, confirmWithin).Scan(&confirmed)
	if err != nil {
		return false, fmt.Errorf("read what runs on the node: %w", err)
	}
	return confirmed, nil
}
