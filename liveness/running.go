// Package liveness is about sessions and ages: whether a node's daemon holds a session, when it was last heard of, and what it says of itself.
package liveness

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
)

// confirmWithin is how young, in seconds, the flushed age of the session must be for what it reported to count.
const confirmWithin = 30

// QueueConfirmsEmpty asks, as a part of a batch, which nodes themselves confirm that nothing runs on them: a node's newest report is of the present
// session, holds no device with compute processes, and the session was heard of within the last 30 s. Where a node can't tell, it is not among them. into
// has them when the batch's results are closed.
func QueueConfirmsEmpty(b *pgx.Batch, nodeIDs []string, into *map[string]bool) {
	*into = map[string]bool{}
	confirmsEmpty.Queue(b, nodeIDs, confirmWithin).Query(func(rows pgx.Rows) error {
		var nodeID string
		if _, err := pgx.ForEachRow(rows, []any{&nodeID}, func() error {
			(*into)[nodeID] = true
			return nil
		}); err != nil {
			return fmt.Errorf("read what runs on the node: %w", err)
		}
		return nil
	})
}

var confirmsEmpty = db.LookingFor(`
	select r.node_id from node_running r
	join node_sessions s on s.node_id = r.node_id and s.number = r.session_number and s.disconnected_at is null
	join node_liveness l on l.node_id = r.node_id and l.session_number = s.number
	where r.node_id = any($1) and r.known and r.devices = '{}' and l.last_seen > now() - make_interval(secs => $2)`)

// maxDevices bounds how many devices a node can say to be in use.
const maxDevices = 256

// Running is what a node's daemon reports to run.
type Running struct {
	NodeID string
	// Number is the session that the report came by.
	Number int64
	// Known says that the machine could look; when it could not, Devices says nothing.
	Known bool
	// Devices are the hardware ids of the devices with compute processes.
	Devices []string
}

// ReportRunning stores what runs on a node. A report by a session that is not the node's live one changes nothing.
func (s *Store) ReportRunning(ctx context.Context, r Running) error {
	devices := []string{}
	for _, d := range r.Devices {
		if d = Plain(d, 128); d != "" && len(devices) < maxDevices {
			devices = append(devices, d)
		}
	}
	slices.Sort(devices)
	_, err := s.DB.Pool().Exec(ctx, `
		insert into node_running as r (node_id, session_number, known, devices, reported_at)
		select node_id, number, $3, $4, clock_timestamp() from node_sessions where node_id = $1 and number = $2 and disconnected_at is null
		on conflict (node_id) do update set session_number = excluded.session_number, known = excluded.known, devices = excluded.devices,
		  reported_at = excluded.reported_at
		where r.session_number <= excluded.session_number`, r.NodeID, r.Number, r.Known, slices.Compact(devices))
	if err != nil {
		return fmt.Errorf("store what runs on the node: %w", err)
	}
	return nil
}
