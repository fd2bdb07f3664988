package placement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
)

// Device is a part of a node that can be booked by itself. It is known by the hardware's own id, so it stays the same through restarts and re-joins.
type Device struct {
	NodeID string
	// UUID is the hardware's own.
	UUID string
	// Kind is what it is: GPU.
	Kind string
	// Slot is the driver's number for it, which can change with a restart.
	Slot        int
	Model       string
	MemoryBytes int64
	Serial      string
	PCIAddress  string
	// FirstSeenAt is when an inventory of the node first showed it.
	FirstSeenAt time.Time
	// MissingSince is since when the node's inventory no longer shows it; nil while it does.
	MissingSince *time.Time
	// Booked are the live allocations that name it, by when they begin; up to 50.
	Booked []Allocation
}

// Held says that an allocation which has begun holds the device now.
func (d *Device) Held() bool {
	return slices.ContainsFunc(d.Booked, func(a Allocation) bool { return !a.Future() })
}

// KindGPU is the kind of accelerators.
const KindGPU = "GPU"

// MaxMissing bounds how many missing parts of a kind are kept for a node: a machine that makes up new ones with each inventory can't fill the database.
const MaxMissing = 1024

// SeeDevicesTx takes over which devices a node's newest inventory shows. What it doesn't show is missing from then on, and kept; beyond
// [MaxMissing] what went missing first is forgotten, but for what was ever booked. A device without an id of its own can't be told from another and is left out; of two with one
// id the first counts. The node is locked.
func SeeDevicesTx(ctx context.Context, tx *db.Tx, nodeID string, seen []Device) error {
	if err := tx.Locks(db.LockNodePart); err != nil {
		return err
	}
	uuids, kinds, models, serials, addresses := []string{}, []string{}, []string{}, []string{}, []string{}
	var slots, memory []int64
	had := map[string]bool{"": true}
	for _, d := range seen {
		if had[d.UUID] {
			continue
		}
		had[d.UUID] = true
		uuids, kinds, models = append(uuids, d.UUID), append(kinds, d.Kind), append(models, d.Model)
		serials, addresses = append(serials, d.Serial), append(addresses, d.PCIAddress)
		slots, memory = append(slots, int64(d.Slot)), append(memory, d.MemoryBytes)
	}
	_, err := tx.Exec(ctx, `
		with shown as (
		  insert into devices as d (node_id, uuid, kind, slot, model, memory_bytes, serial, pci_address, first_seen_at)
		  select $1, uuid, kind, slot, model, memory, serial, address, clock_timestamp()
		  from unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::text[])
		    as x(uuid, kind, slot, model, memory, serial, address)
		  on conflict (node_id, uuid) do update set kind = excluded.kind, slot = excluded.slot, model = excluded.model,
		    memory_bytes = excluded.memory_bytes, serial = excluded.serial, pci_address = excluded.pci_address, missing_since = null
		  where (d.kind, d.slot, d.model, d.memory_bytes, d.serial, d.pci_address, d.missing_since)
		    is distinct from (excluded.kind, excluded.slot, excluded.model, excluded.memory_bytes, excluded.serial, excluded.pci_address, null)
		), missing as (
		  select uuid, row_number() over (order by missing_since desc nulls first, uuid) as place from devices where node_id = $1 and uuid <> all($2)
		), forgotten as (
		  delete from devices d using missing m where d.node_id = $1 and d.uuid = m.uuid and m.place > $9
		    and not exists (select from allocation_devices h where h.node_id = d.node_id and h.uuid = d.uuid)
		)
		update devices d set missing_since = clock_timestamp() from missing m
		where d.node_id = $1 and d.uuid = m.uuid and d.missing_since is null
		  and (m.place <= $9 or exists (select from allocation_devices h where h.node_id = d.node_id and h.uuid = d.uuid))`,
		nodeID, uuids, kinds, slots, models, memory, serials, addresses, MaxMissing)
	if err != nil {
		return fmt.Errorf("store the node's devices: %w", err)
	}
	return nil
}

// maxBooked bounds how many live allocations of one device are read.
const maxBooked = 50

// DevicesOf gives the devices of nodes by node id, each node's by slot; those that are missing too.
func DevicesOf(ctx context.Context, q db.Querier, nodeIDs []string) (map[string][]Device, error) {
	rows, err := q.Query(ctx, `
		select d.node_id, d.uuid, d.kind, d.slot, d.model, d.memory_bytes, d.serial, d.pci_address, d.first_seen_at, d.missing_since,
		  (select json_agg(json_build_object('ID', a.id, 'ReservationID', a.reservation_id, 'TenantID', a.tenant_id, 'NodeID', a.node_id,
		     'StartsAt', a.starts_at, 'EndsAt', a.ends_at, 'StartedAt', a.started_at, 'Devices', a.devices) order by a.starts_at, a.id)
		   from (select `+allocationColumns+` as devices from allocation_devices h join allocations a on a.id = h.allocation_id
		         where h.node_id = d.node_id and h.uuid = d.uuid and h.open order by a.starts_at, a.id limit $2) as a)
		from devices d where d.node_id = any($1) order by d.node_id, d.missing_since is not null, d.slot, d.uuid`, nodeIDs, maxBooked)
	if err != nil {
		return nil, fmt.Errorf("read the devices: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Device])
	if err != nil {
		return nil, fmt.Errorf("read the devices: %w", err)
	}
	out := map[string][]Device{}
	for _, d := range all {
		out[d.NodeID] = append(out[d.NodeID], d)
	}
	return out, nil
}

// RetireNodeTx makes a deleted node's devices unbookable: no inventory shows them any more. They stay for the past allocations that name them. The
// node is locked and holds nothing live.
func RetireNodeTx(tx *db.Tx, nodeID string) {
	tx.Send(`update devices set missing_since = clock_timestamp() where node_id = $1 and missing_since is null`, nodeID)
}

// HeldDevicesSQL selects, of the node s.node_id: how many live allocations it holds, the devices that they name, and those of them that its inventory does
// not show. Other rooms put it into a statement of theirs.
const HeldDevicesSQL = `(select count(*) from allocations a where a.node_id = s.node_id and a.released_at is null and a.ended_at is null),
	array(select distinct d.uuid from allocation_devices d where d.node_id = s.node_id and d.open order by 1),
	array(select distinct d.uuid from allocation_devices h join devices d on d.node_id = h.node_id and d.uuid = h.uuid
	      where h.node_id = s.node_id and h.open and d.missing_since is not null order by 1)`
