package liveness

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
)

// Session is a node's newest session with a gateway.
type Session struct {
	NodeID string
	ID     string
	// Number counts the node's sessions.
	Number int64
	// Gateway is the id of the gateway that holds it.
	Gateway string
	// Since is when it began.
	Since time.Time
	// EndedAt is when it ended; nil while it lives.
	EndedAt *time.Time
	// AgentVersion is the daemon's version.
	AgentVersion string
	// BootID changes with each boot of the machine.
	BootID string
	// ClockSkewMs is the machine's clock minus the database's at the Hello. It decides no time.
	ClockSkewMs int
	// LastSeen is when the node was last heard of: the later of the session's flushed age and its end, else when it began.
	LastSeen time.Time
	// Running are the hardware ids of the devices with compute processes as the daemon reported them in this very session, while it lives; nil when it
	// did not, or can't tell. It is not nil when nothing runs.
	Running []string
}

// InUse says whether the daemon reports compute processes on a device; nil when that is not known.
func (s *Session) InUse(uuid string) *bool {
	if s.Running == nil {
		return nil
	}
	_, found := slices.BinarySearch(s.Running, uuid)
	return &found
}

// SessionsOf gives the newest session of each of the nodes that ever had one, by node id.
func SessionsOf(ctx context.Context, q db.Querier, nodeIDs []string) (map[string]Session, error) {
	rows, err := q.Query(ctx, `
		select s.node_id, s.id, s.number, s.gateway_id, s.connected_at, s.disconnected_at, s.agent_version, s.boot_id, s.clock_skew_ms,
		       coalesce(greatest(l.last_seen, s.disconnected_at), s.connected_at), r.devices
		from node_sessions s left join node_liveness l on l.node_id = s.node_id and l.session_number = s.number
		left join node_running r on r.node_id = s.node_id and r.session_number = s.number and r.known and s.disconnected_at is null
		where s.node_id = any($1)`, nodeIDs)
	if err != nil {
		return nil, fmt.Errorf("read the sessions: %w", err)
	}
	sessions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Session])
	if err != nil {
		return nil, fmt.Errorf("read the sessions: %w", err)
	}
	out := make(map[string]Session, len(sessions))
	for _, s := range sessions {
		out[s.NodeID] = s
	}
	return out, nil
}

// QueueLastSeen reads when the node was last heard of, as a part of a batch: into has it when the batch's results are closed; nil for never.
func QueueLastSeen(b *pgx.Batch, nodeID string, into **time.Time) {
	b.Queue(`select max(last_seen) from node_liveness where node_id = $1`, nodeID).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(into); err != nil {
			return fmt.Errorf("read when the node was last seen: %w", err)
		}
		return nil
	})
}

// EndNodeTx ends a deleted node's liveness: nobody waits for its beats any more, its open session is over, and what it said of what runs is worth
// nothing. The node is locked.
func EndNodeTx(tx *db.Tx, nodeID string) {
	tx.Send(`delete from node_liveness where node_id = $1`, nodeID)
	tx.Send(`delete from node_running where node_id = $1`, nodeID)
	tx.Send(`update node_sessions set disconnected_at = clock_timestamp() where node_id = $1 and disconnected_at is null`, nodeID)
}
