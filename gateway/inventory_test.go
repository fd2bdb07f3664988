package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

func TestInventory(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("inventory is stored, gives labels, and has the node adopted", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n1.example")
		l := m.open(t)
		require.Equal(t, node.Adopting, one[node.ProvisionState](t, b, `select provision_state from nodes where id = $1`, m.nodeID))
		b.exec(t, `insert into node_labels (node_id, key, value, source) values
			($1, 'rack', 'b7', 'OPERATOR'), ($1, 'gpu.model', 'mine', 'OPERATOR'), ($1, 'bc.dev/gpu', 'yes', 'SYSTEM'), ($1, 'os.name', 'set', 'SYSTEM'),
			($1, 'old', 'x', 'INVENTORY')`, m.nodeID)
		l.send(t, inventory())
		b.until(t, "the node must be adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, m.nodeID)
		labels := map[string]string{}
		for _, label := range mustNode(t, b, m.nodeID).Labels {
			labels[label.Key] = string(label.Source) + " " + label.Value
		}
		require.Equal(t, map[string]string{
			"rack": "OPERATOR b7", "bc.dev/gpu": "SYSTEM yes", "os.name": "SYSTEM set", "gpu.model": "INVENTORY NVIDIA-A100-SXM4-40GB",
			"gpu.count": "INVENTORY 1", "gpu.memory.gib": "INVENTORY 40", "gpu.driver": "INVENTORY 570.1", "cpu.arch": "INVENTORY amd64",
			"cpu.model": "INVENTORY EPYC-7543-32-cores", "cpu.cores": "INVENTORY 32", "cpu.threads": "INVENTORY 64", "cpu.sockets": "INVENTORY 1",
			"mem.gib": "INVENTORY 63", "kernel.version": "INVENTORY 6.1.0", "os.version": "INVENTORY 12", "system.vendor": "INVENTORY Maker",
			"system.model": "INVENTORY M-1",
		}, labels)
		require.Equal(t, []string{"node.connected", "node.inventory", "node.labeled", "node.adopted"}, without(b.history(t, m.nodeID), "node.joined"))
		require.Equal(t, map[string]any{"gpu.model": "mine"}, b.told(t, m.nodeID, "node.labeled")["displaced"])
		found, err := health.InventoryOf(t.Context(), b.db.Pool(), []string{m.nodeID})
		require.NoError(t, err)
		i := found[m.nodeID]
		require.False(t, i.Stale)
		require.Equal(t, node.Text("Debian 12"), i.OS)
		require.Equal(t, 64, *i.CPUThreads)
		require.Equal(t, node.Text("67345000000"), i.MemoryBytes)
		require.Equal(t, []health.Gpu{{UUID: "GPU-1", Model: "NVIDIA A100-SXM4-40GB", MemoryBytes: fmt.Sprint(40 << 30)}}, i.GPUs)
		require.Len(t, i.Roots, 1)
		require.Equal(t, []any{"/", "ext4", int64(1 << 40)}, []any{i.Roots[0].Path, i.Roots[0].FsType, i.Roots[0].SizeBytes})
		require.Nil(t, i.Roots[0].MissingSince)

		l.leave(t)
		b.isNow(t, m.nodeID, node.Disconnected)
		found, err = health.InventoryOf(t.Context(), b.db.Pool(), []string{m.nodeID})
		require.NoError(t, err)
		require.True(t, found[m.nodeID].Stale, "an inventory of a session that ended is stale")

		version := mustNode(t, b, m.nodeID).Version
		l = m.open(t)
		l.send(t, inventory())
		b.until(t, "the inventory must be of the new session", `select session_number = 2 from node_inventory where node_id = $1`, m.nodeID)
		require.Equal(t, 1, count(b.history(t, m.nodeID), "node.inventory"), "an inventory that says nothing new makes no event")
		require.Equal(t, version, mustNode(t, b, m.nodeID).Version)
		l.leave(t)
	})

	t.Run("devices and file systems are known by the hardware's own id: they outlive a restart and a join anew", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "dev1.example")
		devices := func() []placement.Device {
			t.Helper()
			got, err := placement.DevicesOf(t.Context(), b.db.Pool(), []string{m.nodeID})
			require.NoError(t, err)
			return got[m.nodeID]
		}
		roots := func() []health.StoredRoot {
			t.Helper()
			got, err := health.StorageRootsOf(t.Context(), b.db.Pool(), []string{m.nodeID})
			require.NoError(t, err)
			return got[m.nodeID]
		}
		gpu := func(uuid string, slot uint32) *wire.Gpu {
			return &wire.Gpu{Uuid: uuid, Index: slot, Model: "A100", MemoryBytes: 40 << 30, PciAddress: "0000:07:00.0"}
		}
		report := func(l *link, gpus []*wire.Gpu, systems ...*wire.FileSystem) {
			t.Helper()
			l.send(t, inventory(func(i *wire.Inventory) { i.Gpus, i.FileSystems = gpus, systems }))
		}
		root := &wire.FileSystem{Path: "/", Uuid: "fs-1", Kind: "ext4", Device: "/dev/sda1", SizeBytes: 1 << 40}
		data := &wire.FileSystem{Path: "/data", Uuid: "fs-2", Kind: "xfs", Device: "/dev/sdb1", SizeBytes: 1 << 41}
		l := m.open(t)
		report(l, []*wire.Gpu{gpu("GPU-1", 0), gpu("GPU-2", 1), gpu("GPU-2", 2), gpu("", 3)}, root, data, root)
		b.until(t, "two devices", `select count(*) = 2 from devices where node_id = $1`, m.nodeID)
		first := devices()
		require.Equal(t, "GPU-2", first[1].UUID)
		require.Equal(t, 1, first[1].Slot, "of two with one id the first counts")
		require.Equal(t, int64(40<<30), first[0].MemoryBytes)
		require.Len(t, roots(), 2)
		firstRoots := roots()
		l.leave(t)

		// The credential is lost, the identity is not: the same node, the same devices, though the driver now counts them another way.
		again := b.newMachine(t, "dev1.example")
		again.identity = m.identity
		status, body := again.tryJoin(t, b.token(t))
		require.Equal(t, http.StatusOK, status, string(body))
		again.joined(t, body)
		require.Equal(t, m.nodeID, again.nodeID)
		require.Equal(t, first, devices(), "joining anew touches none")
		l = again.open(t)
		report(l, []*wire.Gpu{gpu("GPU-2", 0), gpu("GPU-1", 1)}, root, data)
		b.until(t, "the driver's numbers have changed", `select slot = 1 from devices where node_id = $1 and uuid = 'GPU-1'`, m.nodeID)
		now := devices()
		require.Len(t, now, 2)
		require.Equal(t, first[0].FirstSeenAt, now[1].FirstSeenAt, "GPU-1 is the same device")
		require.Equal(t, firstRoots, roots())

		// A device that is gone is missing and not forgotten, and may come back.
		report(l, []*wire.Gpu{gpu("GPU-2", 0)}, root)
		b.until(t, "GPU-1 is missing", `select missing_since is not null from devices where node_id = $1 and uuid = 'GPU-1'`, m.nodeID)
		require.Nil(t, devices()[0].MissingSince)
		require.Equal(t, "/data", roots()[1].Path)
		require.NotNil(t, roots()[1].MissingSince)
		report(l, []*wire.Gpu{gpu("GPU-2", 0), gpu("GPU-1", 1)}, root, data)
		b.until(t, "GPU-1 is back", `select missing_since is null from devices where node_id = $1 and uuid = 'GPU-1'`, m.nodeID)
		require.Equal(t, now, devices())
		require.Equal(t, firstRoots, roots())
		l.leave(t)

		// The same hardware under another node is that node's.
		other := b.join(t, "dev2.example")
		l = other.open(t)
		report(l, []*wire.Gpu{gpu("GPU-1", 0)}, root)
		b.until(t, "one device", `select count(*) = 1 from devices where node_id = $1`, other.nodeID)
		require.Equal(t, now, devices())
		l.leave(t)
	})

	t.Run("D21 a machine whose clock is off joins and connects; it waits, with the skew as its condition, and is adopted when the clock is right", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n2.example")
		l := m.open(t, func(h *wire.Hello) { h.ClockUnixMs = 0 })
		l.send(t, inventory())
		b.until(t, "the condition must come", `select owner = 'health' from node_reasons where node_id = $1 and reason = 'condition:clock-skew'`, m.nodeID)
		n := mustNode(t, b, m.nodeID)
		require.Equal(t, node.Adopting, n.ProvisionState)
		require.Contains(t, n.StatusSentence(time.Now()), "clock")
		require.Equal(t, true, b.told(t, m.nodeID, "node.condition")["active"])
		l.leave(t)
		l = m.open(t)
		l.send(t, inventory())
		b.until(t, "the node must be adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, m.nodeID)
		require.Empty(t, mustNode(t, b, m.nodeID).Reasons)
		require.Equal(t, false, b.told(t, m.nodeID, "node.condition")["active"])
		l.leave(t)
	})

	t.Run("A1 A5 a condition that comes and goes leaves cordon, maintenance, taints, operator labels and what is booked", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n3.example")
		l := m.open(t)
		l.send(t, inventory())
		b.until(t, "the node must be adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, m.nodeID)
		l.leave(t)
		b.exec(t, `update nodes set cordoned = true, cordon_by = 'alex', cordon_reason = 'bios', cordon_at = now(), maintenance = true where id = $1`, m.nodeID)
		b.exec(t, `insert into node_reasons (node_id, reason, owner, by, since) values ($1, 'taint:rma', 'operator', 'alex', now())`, m.nodeID)
		b.exec(t, `insert into node_labels (node_id, key, value, source) values ($1, 'rack', 'b7', 'OPERATOR')`, m.nodeID)
		b.exec(t, `insert into reservations (id, tenant_id, created_by, created_at) values ('res_' || right($1, 26), $2, 'alex', now())`, m.nodeID, tenant)
		b.exec(t, `insert into allocations (id, reservation_id, tenant_id, node_id, starts_at, started_at)
			values ('alloc_' || right($1, 26), 'res_' || right($1, 26), $2, $1, now(), now())`, m.nodeID, tenant)
		booked := func() string {
			return one[string](t, b, `select jsonb_agg(to_jsonb(a) || to_jsonb(r))::text from allocations a join reservations r on r.id = a.reservation_id where node_id = $1`, m.nodeID)
		}
		before, held := mustNode(t, b, m.nodeID), booked()
		for _, skew := range []time.Duration{-time.Hour, 0} {
			l = m.open(t, func(h *wire.Hello) { h.ClockUnixMs = time.Now().Add(skew).UnixMilli() })
			l.send(t, inventory())
			b.until(t, "the condition must come and go", `select $2 = exists (select from node_reasons where node_id = $1 and reason = 'condition:clock-skew')`,
				m.nodeID, skew != 0)
			require.Equal(t, held, booked())
			require.True(t, mustNode(t, b, m.nodeID).Cordoned() && mustNode(t, b, m.nodeID).Maintenance)
			l.leave(t)
			b.isNow(t, m.nodeID, node.Disconnected)
		}
		require.Equal(t, node.AxisConnectivity, node.Moved(before, mustNode(t, b, m.nodeID)))
	})

	t.Run("the facts of an odd machine are bounded and made sound", func(t *testing.T) {
		t.Parallel()
		m := b.join(t, "n4.example")
		l := m.open(t)
		l.send(t, inventory(func(i *wire.Inventory) {
			i.Cpu.Model = "x\x00" + strings.Repeat("é", 5000)
			i.System.Hostname = "not a name\x01"
			for range 2000 {
				i.Disks = append(i.Disks, &wire.Disk{Name: "sd\x00a"})
			}
		}))
		b.until(t, "the node must be adopted", `select provision_state = 'ADOPTED' from nodes where id = $1`, m.nodeID)
		require.Equal(t, 1024, one[int](t, b, `select jsonb_array_length(facts -> 'disks') from node_inventory where node_id = $1`, m.nodeID))
		require.Equal(t, "n4.example", mustNode(t, b, m.nodeID).Hostname)
		l.leave(t)
	})
}

func mustNode(t *testing.T, b *bundle, nodeID string) *node.Node {
	t.Helper()
	v, err := b.nodes.Get(t.Context(), iam.System("test"), tenant, nodeID)
	require.NoError(t, err)
	return v.Node
}

func count(all []string, what string) int {
	n := 0
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}
