// Package health is what a machine is made of and how it fares: its inventory with the labels that come from it, the conditions that keep it out,
// and the acceptance that turns a machine that joined into one that takes work.
package health

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// Store is the room's verbs on the database.
type Store struct {
	DB    *db.DB
	Nodes *node.Store
	Log   *slog.Logger
}

// Actor is who accepts nodes and sets conditions; it owns the reasons condition:….
const Actor = "health"

// Facts are what a machine is made of, as its daemon measured it. What the machine can't give is empty.
type Facts struct {
	System      System       `json:"system"`
	CPU         CPU          `json:"cpu"`
	MemoryBytes uint64       `json:"memoryBytes,omitempty"`
	Disks       []Disk       `json:"disks,omitempty"`
	FileSystems []FileSystem `json:"fileSystems,omitempty"`
	NICs        []NIC        `json:"nics,omitempty"`
	GPUs        []GPU        `json:"gpus,omitempty"`
	// GPUDriver is nil when there is no driver, and then nobody knows whether there are GPUs.
	GPUDriver *GPUDriver `json:"gpuDriver,omitempty"`
	Kernel    Kernel     `json:"kernel"`
	OS        OS         `json:"os"`
	// Notes hold a sentence for each thing that could not be read.
	Notes []string `json:"notes,omitempty"`
}

// System is the machine as a product and as an installation.
type System struct {
	Hostname       string `json:"hostname,omitempty"`
	ProductUUID    string `json:"productUuid,omitempty"`
	Vendor         string `json:"vendor,omitempty"`
	Model          string `json:"model,omitempty"`
	Serial         string `json:"serial,omitempty"`
	MachineID      string `json:"machineId,omitempty"`
	BootID         string `json:"bootId,omitempty"`
	Virtualization string `json:"virtualization,omitempty"`
}

// CPU tells of all processors together.
type CPU struct {
	Model   string `json:"model,omitempty"`
	Vendor  string `json:"vendor,omitempty"`
	Arch    string `json:"arch,omitempty"`
	Sockets int    `json:"sockets,omitempty"`
	Cores   int    `json:"cores,omitempty"`
	Threads int    `json:"threads,omitempty"`
}

// Disk is one whole disk.
type Disk struct {
	Name      string `json:"name"`
	SizeBytes uint64 `json:"sizeBytes"`
	Kind      string `json:"kind,omitempty"`
	Vendor    string `json:"vendor,omitempty"`
	Model     string `json:"model,omitempty"`
	Serial    string `json:"serial,omitempty"`
	WWN       string `json:"wwn,omitempty"`
}

// FileSystem is one mounted file system.
type FileSystem struct {
	Path      string `json:"path"`
	UUID      string `json:"uuid,omitempty"`
	Kind      string `json:"kind"`
	Device    string `json:"device,omitempty"`
	SizeBytes uint64 `json:"sizeBytes"`
}

// NIC is one network interface.
type NIC struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	MTU       int      `json:"mtu,omitempty"`
	SpeedMbps int      `json:"speedMbps,omitempty"`
	Up        bool     `json:"up"`
}

// GPU is one GPU as the driver shows it.
type GPU struct {
	UUID              string `json:"uuid"`
	Index             int    `json:"index"`
	Model             string `json:"model"`
	Architecture      string `json:"architecture,omitempty"`
	ComputeCapability string `json:"computeCapability,omitempty"`
	MemoryBytes       uint64 `json:"memoryBytes"`
	Serial            string `json:"serial,omitempty"`
	PCIAddress        string `json:"pciAddress,omitempty"`
	VBIOSVersion      string `json:"vbiosVersion,omitempty"`
}

// GPUDriver is the driver that shows the GPUs.
type GPUDriver struct {
	Version     string `json:"version,omitempty"`
	CUDAVersion string `json:"cudaVersion,omitempty"`
}

// Kernel is the running kernel.
type Kernel struct {
	Name    string `json:"name,omitempty"`
	Release string `json:"release,omitempty"`
}

// OS is the installed operating system.
type OS struct {
	ID      string `json:"id,omitempty"`
	Version string `json:"version,omitempty"`
	Name    string `json:"name,omitempty"`
}

// Reported are the fields of node.inventory.
type Reported struct {
	GPUs        int    `json:"gpus"`
	CPUThreads  int    `json:"cpuThreads,omitempty"`
	MemoryBytes uint64 `json:"memoryBytes,omitempty"`
	Labels      int    `json:"labels"`
}

// Labeled are the fields of node.labeled when inventory took a key that an operator had set.
type Labeled struct {
	// Set are the labels that came.
	Set map[string]string `json:"set"`
	// Displaced are the operator's labels that went.
	Displaced map[string]string `json:"displaced"`
}

// Report stores what a node's daemon measured in the session with that number, and does what follows from it in the same transaction: the labels that
// come from inventory (node.inventory, when anything is new), the devices and file systems, the condition clock-skew (node.condition), and the
// acceptance of a node that is in ADOPTING (node.adopted). A report by a session that is not the node's live one changes nothing.
func (s *Store) Report(ctx context.Context, nodeID string, session int64, facts Facts) error {
	facts = facts.sound()
	body, err := json.Marshal(facts)
	if err != nil {
		return fmt.Errorf("store the inventory: %w", err)
	}
	hash := sha256.Sum256(body)
	_, err = s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		locked, err := node.LockTx(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		n, ok := locked[nodeID]
		if !ok {
			return nil
		}
		seen, err := lookTx(ctx, tx, nodeID, session)
		if err != nil || !seen.live {
			return err
		}
		seen.inventoried, seen.missing = true, absent(seen.bookedIDs, facts)
		if err := s.inventoryTx(ctx, tx, n, facts, !bytes.Equal(seen.hash, hash[:])); err != nil {
			return err
		}
		if err := s.followTx(ctx, tx, n, seen); err != nil {
			return err
		}
		if err := placement.SeeDevicesTx(ctx, tx, nodeID, facts.devices()); err != nil {
			return err
		}
		if err := seeStorageTx(ctx, tx, nodeID, facts.FileSystems); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			insert into node_inventory (node_id, session_number, reported_at, facts, hash) values ($1, $2, clock_timestamp(), $3, $4)
			on conflict (node_id) do update set session_number = excluded.session_number, reported_at = excluded.reported_at, facts = excluded.facts,
			  hash = excluded.hash`, nodeID, session, string(body), hash[:])
		if err != nil {
			return fmt.Errorf("store the inventory: %w", err)
		}
		return nil
	})
	return err
}

// seen is what acceptance and conditions look at.
type seen struct {
	live        bool // the session is the node's newest, and it lives
	inventoried bool // that session has reported an inventory
	skew        time.Duration
	hash        []byte // of the inventory before
	sessionID   string
	gatewayID   string
	bootID      string
	checkedBoot string // of the results that are stored
	run         string // that it was looked at for; empty: whichever
	held        int    // live allocations
	bookedIDs   []string
	booked      int      // devices that live allocations hold
	missing     []string // those of them that the machine does not show
}

// newest stands for the node's newest session, whatever its number.
const newest = -1

// lookTx reads it; the node is locked, and session rows are written only under that lock.
func lookTx(ctx context.Context, tx *db.Tx, nodeID string, session int64) (seen, error) {
	var s seen
	var skewMs int64
	var booked []string
	err := tx.QueryRow(ctx, `
		select ($2 < 0 or s.number = $2) and s.disconnected_at is null, s.clock_skew_ms, i.hash, coalesce(i.session_number = s.number, false), s.id, s.gateway_id,
		       s.boot_id, coalesce((select max(boot_id) from node_checks where node_id = s.node_id), ''), `+placement.HeldDevicesSQL+`
		from node_sessions s left join node_inventory i on i.node_id = s.node_id where s.node_id = $1`, nodeID, session).
		Scan(&s.live, &skewMs, &s.hash, &s.inventoried, &s.sessionID, &s.gatewayID, &s.bootID, &s.checkedBoot, &s.held, &booked, &s.missing)
	if errors.Is(err, pgx.ErrNoRows) {
		return seen{}, nil
	}
	if err != nil {
		return seen{}, fmt.Errorf("look at the node's session: %w", err)
	}
	s.skew, s.booked, s.bookedIDs = millis(skewMs), len(booked), booked
	return s, nil
}

// millis gives a number of milliseconds as a duration; what passes 292 years is cut to them.
func millis(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

func (s *Store) inventoryTx(ctx context.Context, tx *db.Tx, n node.Locked, facts Facts, changed bool) error {
	displaced := map[string]string{}
	_, err := s.Nodes.ChangeManyTx(ctx, tx, node.Many{IDs: []string{n.ID}, Who: iam.NodeActor(n.ID)}, node.Control{
		Name: "inventory", Axes: node.AxisOtherLabels | node.AxisOperatorLabels | node.AxisHostname,
		Decide: func(n *node.Node, _ node.Act) (*node.Fact, error) {
			var fact *node.Fact
			fact, displaced = inventory(n, facts, changed)
			return fact, nil
		},
	})
	if err != nil || len(displaced) == 0 {
		return err
	}
	set := map[string]string{}
	for _, l := range labels(facts) {
		if _, ok := displaced[l.Key]; ok {
			set[l.Key] = l.Value
		}
	}
	return events.Append(tx, events.Entry{
		Type: "node.labeled", TenantID: n.TenantID, NodeID: n.ID, Actor: n.ID, Data: Labeled{Set: set, Displaced: displaced}, Audience: n.Audience,
	})
}

// followTx does what follows from what was seen: conditions, then acceptance, then that a node which was given up is back.
func (s *Store) followTx(ctx context.Context, tx *db.Tx, n node.Locked, seen seen) error {
	awaited := seen.awaited(n.Node)
	for _, step := range []struct {
		actor string
		node.Control
	}{
		{Actor, clockControl(seen.skew)}, {Actor, acceptControl(seen)}, {liveness.Actor, liveness.Reconnect(seen.sessionID, seen.gatewayID)},
	} {
		many, c := node.Many{IDs: []string{n.ID}, Who: iam.System(step.actor)}, step.Control
		// A look at what was locked tells whether there is anything to do, and saves the round trips when there is not.
		if fact, err := c.Decide(n.Clone(), node.Act{Who: many.Who, Now: n.Now}); err != nil || fact == nil {
			if err != nil {
				return err
			}
			continue
		}
		if _, err := s.Nodes.ChangeManyTx(ctx, tx, many, c); err != nil {
			return err
		}
	}
	if awaited {
		if err := tx.Locks(db.LockNodePart); err != nil {
			return err
		}
		saveChecks(tx, n.ID, n.AcceptanceRun, seen.bootID, judge(checks, seen))
	}
	return nil
}

// absent gives those of the devices that the facts do not show.
func absent(uuids []string, f Facts) (out []string) {
	for _, uuid := range uuids {
		if !slices.ContainsFunc(f.GPUs, func(g GPU) bool { return g.UUID == uuid }) {
			out = append(out, uuid)
		}
	}
	return out
}
