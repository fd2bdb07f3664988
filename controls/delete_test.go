package controls_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

func (b *bundle) state(nodeID string, state node.ProvisionState, phase string) {
	b.Helper()
	b.exec(`update nodes set provision_state = $2, failure_phase = nullif($3, ''), failure_message = nullif($3, ''), failure_at = case when $3 <> '' then now() end where id = $1`,
		nodeID, state, phase)
}

func TestDeleteRules(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range map[string]struct {
		state    node.ProvisionState
		phase    string
		cordoned bool
		deleted  bool
	}{
		"retired":                {node.Retired, "", false, true},
		"adopted and cordoned":   {node.Adopted, "", true, true},
		"adopted":                {node.Adopted, "", false, false},
		"adopting":               {node.Adopting, "", false, true},
		"enrolling":              {node.Enrolling, "", false, true},
		"failed in enrollment":   {node.Failed, node.PhaseEnrollment, false, true},
		"failed in acceptance":   {node.Failed, node.PhaseAcceptance, true, false},
		"failed in provisioning": {node.Failed, node.PhaseProvisioning, true, false},
		"failed in retire":       {node.Failed, node.PhaseRetire, true, false},
		"provisioning":           {node.Provisioning, "", true, false},
		"retiring":               {node.Retiring, "", true, false},
	} {
		t.Run("F4 "+name, func(t *testing.T) {
			t.Parallel()
			n := b.node()
			b.state(n, c.state, c.phase)
			var seen []string
			if c.cordoned {
				_, err := b.cordon(t.Context(), b.edit(b.alex, n, ""))
				require.NoError(t, err)
				seen = append(seen, "node.cordoned")
			}
			done, err := b.controls.Delete(t.Context(), b.edit(b.alex, n, "done for good"))
			if c.deleted {
				require.NoError(t, err)
				require.True(t, done.Deleted)
				require.Equal(t, append(seen, "node.deleted"), b.log(n))
				return
			}
			require.Equal(t, fault.InvalidState, fault.CodeOf(err))
			d := fault.From(err).Details
			require.Equal(t, []any{c.state, c.cordoned}, []any{d["provisionState"], d["cordoned"]})
			if c.state == node.Adopted {
				require.Equal(t, "Cordon the adopted node first (nodes.cordon), then delete it once it holds nothing", err.Error())
			}
			require.Nil(t, b.get(n).DeletedAt)
			require.Equal(t, seen, b.log(n))
		})
	}
	t.Run("F4 a node that holds allocations, future ones included, says how many", func(t *testing.T) {
		t.Parallel()
		n := b.node()
		first, second := b.book(n, time.Hour), b.book(n, 0)
		_, err := b.cordon(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		_, err = b.controls.Delete(t.Context(), b.edit(b.alex, n, ""))
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		require.EqualValues(t, 2, fault.From(err).Details["openAllocations"])
		require.Contains(t, err.Error(), "2 open allocations")
		b.release(first)
		b.release(second)
		done, err := b.controls.Delete(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		require.True(t, done.Deleted)
	})
}

// doomed is a node that may be deleted, with something in every part that a delete ends.
func (b *bundle) doomed() string {
	b.Helper()
	n := b.node()
	b.taint(n, []string{"dedicated=other"}, nil)
	_, err := b.cordon(b.Context(), b.edit(b.alex, n, "TPM replaced"))
	require.NoError(b, err)
	b.exec(`insert into devices (node_id, uuid, kind, slot, model, memory_bytes, serial, pci_address, first_seen_at) values ($1, $1 || '-gpu', 'GPU', 0, 'H100', 1, '', '', now())`, n)
	b.exec(`insert into identity_keys (node_id, fingerprint, public_key, state) select id, encode(sha256(id::bytea), 'hex'), sha256(id::bytea), 'TRUSTED' from nodes where id = $1`, n)
	b.exec(`insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, issued_at, not_before, not_after)
		values ($1 || 'a', $1, 'ACTIVE', 1, 'key', '', now(), now(), now() + interval '1 day'), ($1 || 'p', $1, 'PENDING', 1, 'key2', '', now(), now(), now() + interval '1 day')`, n)
	b.exec(`insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
		values ($1, 'ses', 1, 'gw', 'boot', '1', '{}', 0, now())`, n)
	b.exec(`insert into node_running (node_id, session_number, known, devices, reported_at) values ($1, 1, true, '{}', now())`, n)
	b.exec(`update nodes set connectivity = 'CONNECTED' where id = $1`, n)
	return n
}

func (b *bundle) one(sql string, args ...any) (out string) {
	b.Helper()
	require.NoError(b, b.db.Pool().QueryRow(b.Context(), sql, args...).Scan(&out))
	return out
}

// waits until that many sessions of the test's database wait for a lock.
func (b *bundle) waits(sessions int) {
	b.Helper()
	b.eventually(10*time.Second, func() bool {
		var n int
		err := b.db.Pool().QueryRow(b.Context(), `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n >= sessions
	}, "somebody waits for the lock")
}

func TestDelete(t *testing.T) {
	t.Parallel()

	t.Run("Everything of the list happens in one transaction, and the row stays as a tombstone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.controls.DrainsByJob = true // so that one runs
		eve := b.principal("eve", "other")
		n := b.doomed()
		b.drain(n, "")
		done, err := b.controls.Delete(t.Context(), b.edit(b.alex, n, "TPM replaced"))
		require.NoError(t, err)
		require.True(t, done.Deleted)
		require.Len(t, done.Warnings, 1)
		require.Contains(t, done.Warnings[0], "last seen at 20")
		require.Equal(t, "0/REVOKED,REVOKED/node-deleted/alex", b.one(`select (select count(*) from node_projection where node_id = $1) || '/' ||
			(select string_agg(state, ',') from node_certs where node_id = $1) || '/' || (select string_agg(distinct reason || '/' || ended_by, ',') from node_certs where node_id = $1)`, n))
		require.Equal(t, "FREED", b.one(`select state from identity_keys where node_id = $1`, n))
		require.Equal(t, "true/0/0/true", b.one(`select (select bool_and(missing_since is not null) from devices where node_id = $1) || '/' ||
			(select count(*) from node_liveness where node_id = $1) || '/' || (select count(*) from node_running where node_id = $1) || '/' ||
			(select bool_and(disconnected_at is not null) from node_sessions where node_id = $1)`, n))
		// The running drain ended with it, and nobody is told that it was drained.
		v := b.get(n)
		require.NotNil(t, v.DeletedAt)
		require.Equal(t, []any{node.Cancelled, node.Text("deleted")}, []any{v.LastDrain.State, v.LastDrain.Cause})
		require.Zero(t, b.count(n, "node.drained"))
		require.Equal(t, node.Text("TPM replaced"), v.Cordon.Reason, "what it was stays readable")
		// Those who saw the node are told, the guest reduced; it can't read the node any more.
		seen, _, err := events.List(t.Context(), b.db.Pool(), events.ListFilter{Filter: events.Filter{Tenant: "other", NodeID: n, Types: []string{"node.deleted"}}, First: 9})
		require.NoError(t, err)
		require.Len(t, seen, 1)
		require.Equal(t, events.Audience{Full: []string{"acme"}, Reduced: []string{"other"}}, seen[0].Audience)
		require.Equal(t, done.Cursor, seen[0].Cursor())
		_, err = b.controls.Nodes.Get(t.Context(), eve, "other", n)
		require.Equal(t, iam.NoSuchNode(n).Error(), err.Error())
		// F1: nothing stands in the way of the machine as a new node.
		b.exec(`insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, changed_by)
			select $2, key, owner_tenant_id, pool_id, hostname, 'ADOPTING', 'test' from nodes where id = $1`, n, id.New(id.Node))
	})

	t.Run("F5 a retry gives deleted false whatever version it names, and every other control finds no node", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.doomed()
		_, err := b.controls.Delete(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		stale := 1
		e := b.edit(b.sam, n, "")
		e.Version = &stale
		again, err := b.controls.Delete(t.Context(), e)
		require.NoError(t, err)
		require.False(t, again.Deleted)
		require.Equal(t, 1, b.count(n, "node.deleted"))
		for _, verb := range b.verbs() {
			_, err := verb(t.Context(), b.edit(b.alex, n, ""))
			require.Equal(t, fault.NotFound, fault.CodeOf(err))
		}
		stranger := b.principal("eve", "other")
		_, err = b.controls.Delete(t.Context(), node.Edit{Who: stranger, TenantID: "other", NodeID: n})
		_, never := b.controls.Delete(t.Context(), node.Edit{Who: stranger, TenantID: "other", NodeID: id.New(id.Node)})
		require.Equal(t, []fault.Code{fault.NotFound, fault.NotFound}, []fault.Code{fault.CodeOf(err), fault.CodeOf(never)})
	})

	t.Run("F5 twenty at once: one act, one event, and each hears that it is gone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.doomed()
		var g errgroup.Group
		var done atomic.Int32
		for i := range 20 {
			e := b.edit(b.alex, n, "")
			if i%2 == 1 {
				e.RequestID = id.New("req")
			}
			g.Go(func() error {
				out, err := b.controls.Delete(t.Context(), e)
				if out.Deleted {
					done.Add(1)
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.EqualValues(t, 1, done.Load())
		require.Equal(t, 1, b.count(n, "node.deleted"))
	})

	t.Run("A stale version is CONFLICT, and changes nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, stale := b.doomed(), 1
		e := b.edit(b.alex, n, "")
		e.Version = &stale
		_, err := b.controls.Delete(t.Context(), e)
		require.Equal(t, fault.Conflict, fault.CodeOf(err))
		require.EqualValues(t, 1, fault.From(err).Details["expected"])
		require.Nil(t, b.get(n).DeletedAt)
	})

	t.Run("I7 a request id gives the first answer, and a refused one is free again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.node()
		e := b.edit(b.alex, n, "once")
		e.RequestID = "req-del"
		_, err := b.controls.Delete(t.Context(), e)
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		_, err = b.cordon(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		first, err := b.controls.Delete(t.Context(), e)
		require.NoError(t, err)
		require.True(t, first.Deleted)
		again, err := b.controls.Delete(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Equal(t, "req-del", b.events(n)[1].RequestID)
		other := e
		other.Reason = "twice"
		_, err = b.controls.Delete(t.Context(), other)
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	})

	t.Run("I7 a request id under which nothing was deleted gives the first answer too, though the log went on", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.doomed()
		_, err := b.controls.Delete(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		e := b.edit(b.sam, n, "")
		e.RequestID = "req-gone"
		first, err := b.controls.Delete(t.Context(), e)
		require.NoError(t, err)
		require.False(t, first.Deleted)
		_, err = b.cordon(t.Context(), b.edit(b.alex, b.node(), ""))
		require.NoError(t, err)
		again, err := b.controls.Delete(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, first, again)
	})

	t.Run("I7 a retry that comes while the first is under way gets its answer", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.doomed()
		e := b.edit(b.alex, n, "")
		e.RequestID = "req-two"
		free := b.held(n)
		var g errgroup.Group
		outs := make([]controls.Deleted, 3)
		for i := range outs {
			g.Go(func() (err error) {
				outs[i], err = b.controls.Delete(t.Context(), e)
				return err
			})
		}
		b.waits(len(outs))
		free()
		require.NoError(t, g.Wait())
		for _, out := range outs {
			require.True(t, out.Deleted)
			require.Equal(t, outs[0].Cursor, out.Cursor)
		}
		require.Equal(t, 1, b.count(n, "node.deleted"))
	})

	t.Run("A process that dies while it deletes leaves the node as it was, and a retry under the same request id deletes it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.doomed()
		e := b.edit(b.alex, n, "")
		e.RequestID = "req-dies"
		free := b.held(n)
		var g errgroup.Group
		g.Go(func() error {
			_, err := b.controls.Delete(t.Context(), e)
			return err
		})
		b.waits(1)
		b.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
		require.Equal(t, fault.Unavailable, fault.CodeOf(g.Wait()))
		free()
		require.Nil(t, b.get(n).DeletedAt)
		require.Zero(t, b.count(n, "node.deleted"))
		done, err := b.controls.Delete(t.Context(), e)
		require.NoError(t, err)
		require.True(t, done.Deleted)
		require.Equal(t, 1, b.count(n, "node.deleted"))
	})

	t.Run("F2 delete races a booking: one wins, and nothing live is on a tombstone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var deleted, booked atomic.Int32
		for range 40 {
			n := b.node()
			var g errgroup.Group
			g.Go(func() error {
				_, err := b.cordon(t.Context(), b.edit(b.alex, n, ""))
				if err != nil {
					return err
				}
				if out, err := b.controls.Delete(t.Context(), b.edit(b.alex, n, "")); err == nil && out.Deleted {
					deleted.Add(1)
				} else if fault.CodeOf(err) != fault.InvalidState {
					return err
				}
				return nil
			})
			g.Go(func() error {
				_, err := b.bookings.Create(t.Context(), placement.Booking{Who: b.sam, TenantID: "acme", NodeID: n})
				switch fault.CodeOf(err) {
				case "":
					booked.Add(1)
				case fault.InvalidState, fault.NotFound:
				default:
					return err
				}
				return nil
			})
			require.NoError(t, g.Wait())
		}
		require.EqualValues(t, 40, deleted.Load()+booked.Load())
		require.Equal(t, "0", b.one(`select count(*)::text from allocations a join nodes n on n.id = a.node_id where n.deleted_at is not null and a.released_at is null and a.ended_at is null`))
	})
}

func TestDeletedNodesInLists(t *testing.T) {
	t.Parallel()
	t.Run("F3 absent from lists by default, shown with includeDeleted, and their events stay readable to the owner", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, live := b.doomed(), b.node()
		eve := b.principal("eve", "other")
		_, err := b.controls.Delete(t.Context(), b.edit(b.alex, n, ""))
		require.NoError(t, err)
		list := func(who iam.Actor, tenant string, f node.Filter) (ids []string) {
			out, err := b.controls.Nodes.List(t.Context(), who, node.Listing{Tenant: tenant, Filter: f, Order: node.ByCreation, First: 9, Count: true})
			require.NoError(t, err)
			for _, v := range out.Views {
				ids = append(ids, v.ID)
			}
			require.Equal(t, len(ids), out.Total)
			return ids
		}
		require.Equal(t, []string{live}, list(b.alex, "acme", node.Filter{}))
		require.Equal(t, []string{live, n}, list(b.alex, "acme", node.Filter{IncludeDeleted: true}))
		require.Empty(t, list(eve, "other", node.Filter{IncludeDeleted: true}), "a guest's sight ended")
		require.Contains(t, b.log(n), "node.deleted")
		_, err = b.controls.Nodes.List(t.Context(), b.alex, node.Listing{Tenant: "acme", Filter: node.Filter{Not: &node.Filter{IncludeDeleted: true}}, Order: node.ByCreation, First: 9})
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	})
}

func TestDeleteOneConnection(t *testing.T) {
	t.Parallel()
	// Inside a transaction nobody takes a second connection.
	b := setup(t, dbtest.WithMaxConns(1))
	n := b.node()
	_, err := b.controls.Delete(t.Context(), b.edit(b.alex, n, ""))
	require.Equal(t, fault.InvalidState, fault.CodeOf(err))
	_, err = b.cordon(t.Context(), b.edit(b.alex, n, ""))
	require.NoError(t, err)
	done, err := b.controls.Delete(t.Context(), b.edit(b.alex, n, ""))
	require.NoError(t, err)
	require.True(t, done.Deleted)
}
