package placement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/node"
)

const (
	// maxDevices bounds how many devices one booking names: more than any machine has.
	maxDevices = 256
	// maxUUID bounds a hardware id.
	maxUUID = 128
)

// checkDevices looks at the devices that a booking names. None is a share of the node; an empty list is refused, since whoever picked devices and
// ended up with none did not mean a share.
func checkDevices(uuids []string) error {
	switch {
	case uuids != nil && len(uuids) == 0:
		return fault.Invalid("devices", "must name at least one device; leave it out to book a share of the node", 0)
	case len(uuids) > maxDevices:
		return fault.Invalid("devices", fmt.Sprintf("must name at most %d devices", maxDevices), len(uuids))
	}
	seen := make(map[string]bool, len(uuids))
	for _, uuid := range uuids {
		switch {
		case uuid == "" || len(uuid) > maxUUID || !utf8.ValidString(uuid) || strings.ContainsFunc(uuid, func(r rune) bool { return r <= ' ' || unicode.IsControl(r) }):
			return fault.Invalid("devices", "must be the hardware ids of devices of the node, up to 128 characters each", len(uuid))
		case seen[uuid]:
			return fault.Invalid("devices", "must name each device once", 0)
		}
		seen[uuid] = true
	}
	return nil
}

// holdSQL gives an allocation its devices; the foreign keys take liveness and interval from the allocation.
const holdSQL = `
	insert into allocation_devices (allocation_id, node_id, uuid, device, open, during)
	select a.id, a.node_id, d.uuid, d.number, a.open, a.during
	from allocations a join devices d on d.node_id = a.node_id and d.uuid = any($2) where a.id = $1`

// wanted is a device that a booking names, and the live allocation that stands in its way first.
type wanted struct {
	UUID    string
	Found   bool
	Missing *time.Time
	// What stands in the way; Reservation is nil when nothing does.
	Reservation *string
	TenantID    *string
	From        *time.Time
	Until       *time.Time
}

// claim says whether the devices that the booking names can be held from starts to ends. The node is locked, so no other booking of it is under way;
// the exclusion constraint holds for whoever writes without that lock.
func claim(ctx context.Context, tx *db.Tx, b Booking, n node.Locked, starts time.Time, ends *time.Time) error {
	if len(b.Devices) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `
		select w.uuid, d.uuid is not null, d.missing_since, x.reservation_id, x.tenant_id, x.starts_at, x.ends_at
		from unnest($2::text[]) with ordinality as w(uuid, place)
		left join devices d on d.node_id = $1 and d.uuid = w.uuid
		left join lateral (
			select a.reservation_id, a.tenant_id, a.starts_at, a.ends_at
			from allocation_devices h join allocations a on a.id = h.allocation_id
			where h.node_id = d.node_id and h.uuid = d.uuid and h.open and h.during && tstzrange($3, $4)
			order by a.starts_at limit 1) as x on true
		order by w.place`, n.ID, b.Devices, starts, ends)
	if err != nil {
		return fmt.Errorf("look at the devices: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[wanted])
	if err != nil {
		return fmt.Errorf("look at the devices: %w", err)
	}
	return refuse(list, b, n)
}

// refuse gives the refusal for what can't be held: first for what is not there, then for what another holds.
func refuse(list []wanted, b Booking, n node.Locked) error {
	var sentences []string
	blocked := []fault.Details{}
	for _, w := range list {
		switch {
		case !w.Found:
			return fault.New(fault.NotFound, fault.Details{"nodeId": n.ID, "device": w.UUID}, "node %s has no device %s; list what it has", n.ID, w.UUID)
		case w.Missing != nil:
			return fault.New(fault.InvalidState, fault.Details{"nodeId": n.ID, "device": w.UUID, "missingSince": w.Missing},
				"device %s is missing: the node's inventory has not shown it since %s; book another", w.UUID, stamp(*w.Missing))
		case w.Reservation != nil:
			sentence, details := w.blocked(b, n)
			sentences, blocked = append(sentences, sentence), append(blocked, details)
		}
	}
	if len(sentences) == 0 {
		return nil
	}
	const shown = 4
	if more := len(sentences) - shown; more > 0 {
		sentences = append(sentences[:shown:shown], fmt.Sprintf("and %d more devices are booked", more))
	}
	return fault.New(fault.InvalidState, fault.Details{"nodeId": n.ID, "blocked": blocked}, "%s", strings.Join(sentences, "; "))
}

// blocked says what stands in the way. Whose it is, its holder learns alone; until when, also the node's owner: to a guest the end of another's work
// is none of its business (adr/0016).
func (w wanted) blocked(b Booking, n node.Locked) (string, fault.Details) {
	details := fault.Details{"device": w.UUID}
	own := *w.TenantID == b.TenantID
	if !own && n.TenantID != b.TenantID {
		return "device " + w.UUID + " is booked by another tenant in that time; book another device or another time", details
	}
	by, until := "another tenant", "without an end; it has to be released first, or book another device"
	if own {
		by = *w.Reservation
		details["reservationId"] = by
	}
	details["until"] = w.Until
	if w.Until != nil {
		until = "until " + stamp(*w.Until) + "; book it from then on, or another device"
	}
	if w.From.After(n.Now) {
		details["from"] = w.From
		until = "from " + stamp(*w.From) + " " + until
	}
	return fmt.Sprintf("device %s is booked by %s %s", w.UUID, by, until), details
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// taken translates what the exclusion constraint refused: somebody wrote without the node's lock.
func taken(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "23P01" {
		return fault.Because(fault.InvalidState, err, nil, "a device is booked by another allocation in that time; book another device or another time")
	}
	return fmt.Errorf("write the booking: %w", err)
}
