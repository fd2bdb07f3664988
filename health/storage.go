package health

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/placement"
)

// StoredRoot is a file system of a node as it is kept: by its path and its own id, through restarts and re-joins.
type StoredRoot struct {
	NodeID    string
	Path      string
	UUID      string
	FsType    string
	Device    string
	SizeBytes int64
	// FirstSeenAt is when an inventory of the node first showed it.
	FirstSeenAt time.Time
	// MissingSince is since when the node's inventory no longer shows it; nil while it does.
	MissingSince *time.Time
}

// devices gives what of the facts can be booked by itself.
func (f Facts) devices() []placement.Device {
	var out []placement.Device
	for _, g := range f.GPUs {
		out = append(out, placement.Device{
			UUID: g.UUID, Kind: placement.KindGPU, Slot: g.Index, Model: g.Model, MemoryBytes: signed(g.MemoryBytes), Serial: g.Serial, PCIAddress: g.PCIAddress,
		})
	}
	return out
}

// signed gives a number as the database holds it.
func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// seeStorageTx takes over which file systems a node's newest inventory shows, as placement.SeeDevicesTx does with devices.
func seeStorageTx(ctx context.Context, tx *db.Tx, nodeID string, seen []FileSystem) error {
	if err := tx.Locks(db.LockNodePart); err != nil {
		return err
	}
	paths, uuids, types, devices := []string{}, []string{}, []string{}, []string{}
	var sizes []int64
	had := map[[2]string]bool{}
	for _, s := range seen {
		key := [2]string{s.Path, s.UUID}
		if s.Path == "" || had[key] {
			continue
		}
		had[key] = true
		paths, uuids, types, devices = append(paths, s.Path), append(uuids, s.UUID), append(types, s.Kind), append(devices, s.Device)
		sizes = append(sizes, signed(s.SizeBytes))
	}
	_, err := tx.Exec(ctx, `
		with seen as (
		  select * from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[]) as x(path, uuid, fs_type, device, size)
		), shown as (
		  insert into storage_roots as s (node_id, path, uuid, fs_type, device, size_bytes, first_seen_at)
		  select $1, path, uuid, fs_type, device, size, clock_timestamp() from seen
		  on conflict (node_id, path, uuid) do update set fs_type = excluded.fs_type, device = excluded.device, size_bytes = excluded.size_bytes,
		    missing_since = null
		  where (s.fs_type, s.device, s.size_bytes, s.missing_since) is distinct from (excluded.fs_type, excluded.device, excluded.size_bytes, null)
		), missing as (
		  select path, uuid, row_number() over (order by missing_since desc nulls first, path, uuid) as place from storage_roots s
		  where node_id = $1 and not exists (select from seen where seen.path = s.path and seen.uuid = s.uuid)
		), forgotten as (
		  delete from storage_roots s using missing m where s.node_id = $1 and s.path = m.path and s.uuid = m.uuid and m.place > $7
		)
		update storage_roots s set missing_since = clock_timestamp() from missing m
		where s.node_id = $1 and s.path = m.path and s.uuid = m.uuid and m.place <= $7 and s.missing_since is null`,
		nodeID, paths, uuids, types, devices, sizes, placement.MaxMissing)
	if err != nil {
		return fmt.Errorf("store the node's file systems: %w", err)
	}
	return nil
}

// rootsJSON selects the file systems of the node i.node_id, as StorageRootsOf orders them, as JSON that reads into []StoredRoot; null for none.
const rootsJSON = `(select json_agg(json_build_object('NodeID', node_id, 'Path', path, 'UUID', uuid, 'FsType', fs_type, 'Device', device, 'SizeBytes', size_bytes,
	'FirstSeenAt', first_seen_at, 'MissingSince', missing_since) order by missing_since is not null, path, uuid)
	from storage_roots where storage_roots.node_id = i.node_id)`

// StorageRootsOf gives the file systems of nodes by node id, each node's by path; those that are missing too.
func StorageRootsOf(ctx context.Context, q db.Querier, nodeIDs []string) (map[string][]StoredRoot, error) {
	rows, err := q.Query(ctx, `
		select node_id, path, uuid, fs_type, device, size_bytes, first_seen_at, missing_since
		from storage_roots where node_id = any($1) order by node_id, missing_since is not null, path, uuid`, nodeIDs)
	if err != nil {
		return nil, fmt.Errorf("read the file systems: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[StoredRoot])
	if err != nil {
		return nil, fmt.Errorf("read the file systems: %w", err)
	}
	out := map[string][]StoredRoot{}
	for _, s := range all {
		out[s.NodeID] = append(out[s.NodeID], s)
	}
	return out, nil
}
