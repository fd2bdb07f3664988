package liveness_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
)

// world is some nodes, their gateways and the sweep, in which a test lets time pass by making all that is written older.
type world struct {
	*bundle
	*testing.T

	sweeper *liveness.Sweeper
	numbers map[string]int64 // the newest session of each node
}

func newWorld(t *testing.T, opts ...dbtest.Option) *world {
	t.Helper()
	w := &world{bundle: setup(t, opts...), T: t, numbers: map[string]int64{}}
	w.sweeper = liveness.NewSweeper(w.store)
	w.begin(gateway)
	w.exec(t, `update liveness_controller set looked_at = now(), hold_until = now()`)
	w.sweep()
	return w
}

func (w *world) begin(gatewayID string) {
	w.Helper()
	_, err := w.store.StartGateway(w.Context(), gatewayID, gatewayID)
	require.NoError(w, err)
}

// pass lets time pass in which nothing is written.
func (w *world) pass(d time.Duration) {
	w.Helper()
	w.exec(w.T, fmt.Sprintf(`
		with a as (update node_liveness set last_seen = last_seen - x.d from (select interval '%[1]d ms' as d) x),
		b as (update node_sessions set connected_at = connected_at - x.d, disconnected_at = disconnected_at - x.d from (select interval '%[1]d ms' as d) x),
		c as (update gateways set flushed_at = flushed_at - x.d from (select interval '%[1]d ms' as d) x),
		d as (update node_certs set issued_at = issued_at - x.d from (select interval '%[1]d ms' as d) x)
		update liveness_controller set looked_at = looked_at - x.d, hold_until = hold_until - x.d from (select interval '%[1]d ms' as d) x`, d.Milliseconds()))
}

func (w *world) sweep() liveness.Swept {
	w.Helper()
	swept, err := w.sweeper.Sweep(w.Context())
	require.NoError(w, err)
	return swept
}

// connected makes nodes with open sessions at the gateway.
func (w *world) connected(n int, gatewayID string) []string {
	w.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = w.node(w.T)
	}
	w.hello(gatewayID, ids...)
	return ids
}

func (w *world) hello(gatewayID string, ids ...string) {
	w.Helper()
	var hellos []liveness.Hello
	for _, id := range ids {
		hellos = append(hellos, liveness.Hello{NodeID: id, SessionID: "ses_" + id, At: time.Now()})
	}
	opened, err := w.store.Open(w.Context(), gatewayID, hellos)
	require.NoError(w, err)
	for id, o := range opened {
		w.numbers[id] = o.Number
	}
}

// flush is a gateway's, with the nodes that it has just heard of.
func (w *world) flush(gatewayID string, ids ...string) {
	w.Helper()
	var ages []liveness.Age
	for _, id := range ids {
		ages = append(ages, liveness.Age{NodeID: id, Number: w.numbers[id]})
	}
	require.NoError(w, w.store.Flush(w.Context(), gatewayID, gatewayID, ages))
}

func (w *world) end(ids ...string) {
	w.Helper()
	var ended []liveness.Ended
	for _, id := range ids {
		ended = append(ended, liveness.Ended{NodeID: id, SessionID: "ses_" + id, Number: w.numbers[id], Reason: liveness.EndedLost})
	}
	require.NoError(w, w.store.End(w.Context(), ended))
}

// live lets time pass in which the gateway flushes those who beat and the sweep runs, as often as they do. It gives how many were given up.
func (w *world) live(d time.Duration, gatewayID string, beating ...string) int {
	w.Helper()
	given := 0
	for at := time.Duration(0); at < d; at += liveness.SweepEvery {
		w.pass(liveness.SweepEvery)
		if at%(3*liveness.SweepEvery) == 0 {
			w.flush(gatewayID, beating...)
		}
		given += w.sweep().Unreachable
	}
	return given
}

func (w *world) told(kind string) int {
	w.Helper()
	return one[int](w.T, w.bundle, `select count(*)::int from events where type = $1`, kind)
}

func TestSweep(t *testing.T) {
	t.Parallel()

	t.Run("a node that is not heard of for 40 s is given up, once, and nothing else of it moves", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		ids := w.connected(2, gateway)
		dead, alive := ids[0], ids[1]
		w.exec(t, `update nodes set cordoned = true, cordon_by = 'alex', cordon_at = now(), maintenance = true where id = $1`, dead)
		w.exec(t, `insert into node_reasons (node_id, reason, owner, since) values ($1, 'taint:unreachable', 'operator', now())`, dead)
		require.Zero(t, w.live(35*time.Second, gateway, alive))
		require.Equal(t, 1, w.live(10*time.Second, gateway, alive))
		require.Zero(t, w.live(5*time.Minute, gateway, alive))
		require.Equal(t, node.Unreachable, w.connectivity(t, dead))
		require.Equal(t, node.Connected, w.connectivity(t, alive))
		require.Equal(t, []string{"taint:unreachable", "unreachable"},
			one[[]string](t, w.bundle, `select array_agg(reason order by reason) from node_reasons where node_id = $1`, dead))
		require.True(t, one[bool](t, w.bundle, `select cordoned and maintenance and cordon_by = 'alex' and version = 2 from nodes where id = $1`, dead))
		require.Equal(t, 1, w.told("node.unreachable"))
		require.Equal(t, "CONNECTED", one[string](t, w.bundle, `select data->>'was' from events where type = 'node.unreachable'`))
	})

	t.Run("the end of a session is the last that was heard of a node", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		ids := w.connected(2, gateway)
		w.live(30*time.Second, gateway, ids[1])
		w.end(ids[0])
		require.Equal(t, node.Disconnected, w.connectivity(t, ids[0]))
		require.Zero(t, w.live(35*time.Second, gateway, ids[1]))
		require.Equal(t, 1, w.live(10*time.Second, gateway, ids[1]))
	})

	t.Run("A6 a node that was given up and is heard of by the session that it had is back, also while nobody is given up", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.begin("gw_other")
		ids := w.connected(1, gateway)
		require.Equal(t, 1, w.live(2*time.Minute+time.Minute, "gw_other"), "its gateway was cut off from the database for too long")
		w.pass(time.Minute) // the brake is on, and holds only the unsafe direction
		w.flush(gateway, ids...)
		swept := w.sweep()
		require.True(t, swept.Grace)
		require.Equal(t, 1, swept.Back)
		require.Equal(t, node.Connected, w.connectivity(t, ids[0]))
		require.Equal(t, 0, one[int](t, w.bundle, `select count(*)::int from node_reasons`))
		require.Equal(t, 1, w.told("node.reconnected"))
	})

	t.Run("A5 A3 given up and taken back: unreachable comes and goes, and a taint of that name, cordon, maintenance, labels and what is booked stay", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.begin("gw_other")
		n := w.connected(1, gateway)[0]
		w.exec(t, `update nodes set cordoned = true, cordon_by = 'alex', cordon_at = now(), cordon_reason = 'BIOS', maintenance = true where id = $1`, n)
		w.exec(t, `insert into node_reasons (node_id, reason, owner, by, since) values ($1, 'taint:unreachable', 'operator', 'alex', now()), ($1, 'condition:x', 'health', null, now())`, n)
		w.exec(t, `insert into node_labels (node_id, key, value, source) values ($1, 'rack', 'b7', 'OPERATOR')`, n)
		w.exec(t, `insert into reservations (id, tenant_id, created_by, created_at) values ('res_' || right($1, 26), $2, 'alex', now())`, n, tenant)
		w.exec(t, `insert into allocations (id, reservation_id, tenant_id, node_id, starts_at, started_at) values ('alloc_' || right($1, 26), 'res_' || right($1, 26), $2, $1, now(), now())`, n, tenant)
		kept := func() string {
			return one[string](t, w.bundle, `select jsonb_build_array(
				(select jsonb_build_array(cordoned, cordon_by, cordon_at, cordon_reason, maintenance, provision_state) from nodes where id = $1),
				(select jsonb_agg(to_jsonb(r) order by reason) from node_reasons r where node_id = $1 and reason <> 'unreachable'),
				(select jsonb_agg(to_jsonb(l)) from node_labels l where node_id = $1), (select jsonb_agg(to_jsonb(a)) from allocations a where node_id = $1),
				(select jsonb_agg(to_jsonb(r)) from reservations r))::text`, n)
		}
		before := kept()
		has := func() bool {
			return one[bool](t, w.bundle, `select exists (select from node_reasons where node_id = $1 and reason = 'unreachable' and owner = 'liveness')`, n)
		}
		for range 2 {
			require.Equal(t, 1, w.live(3*time.Minute, "gw_other"))
			require.True(t, has())
			require.Equal(t, before, kept(), "given up")
			w.flush(gateway, n)
			require.Equal(t, 1, w.sweep().Back)
			require.False(t, has())
			require.Equal(t, before, kept(), "taken back")
		}
	})

	t.Run("Hellos and sweeps that race leave no node given up that has said Hello", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		ids := w.connected(20, gateway)
		for range 10 {
			w.exec(t, `update node_liveness set last_seen = now() - interval '1 minute'`)
			w.exec(t, `update node_sessions set connected_at = now() - interval '1 minute', disconnected_at = null`)
			var racing sync.WaitGroup
			racing.Go(func() {
				if _, err := w.sweeper.Sweep(t.Context()); err != nil {
					t.Errorf("sweep: %v", err)
				}
			})
			w.hello(gateway, ids...)
			racing.Wait()
			require.Equal(t, len(ids), one[int](t, w.bundle, `select count(*)::int from nodes where connectivity = 'CONNECTED'`))
		}
	})

	t.Run("more nodes than one transaction takes are all given up, and a deleted one never", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		ids := w.connected(1, gateway)
		w.exec(t, `update nodes set deleted_at = now() where id = $1`, ids[0])
		w.exec(t, `insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
			select 'node_' || lpad(i::text, 26, '0'), lpad(i::text, 64, '0'), $1, $2, 'n' || i, 'ADOPTED', 'TRUSTED', 'test' from generate_series(10000, 11100) i`,
			tenant, w.pool)
		w.exec(t, `insert into node_liveness (node_id, last_seen, gateway_id, session_number)
			select id, now() - interval '1 minute', '', 0 from nodes where deleted_at is null`)
		require.Equal(t, 1101, w.sweep().Unreachable)
		require.Zero(t, w.sweep().Unreachable)
	})
}

func TestGrace(t *testing.T) {
	t.Parallel()

	t.Run("C1 the sweep was off for 10 minutes while nodes beat: nobody is given up", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		ids := w.connected(3, gateway)
		for range 40 {
			w.pass(15 * time.Second)
			w.flush(gateway, ids[:2]...)
		}
		require.Zero(t, w.live(4*time.Minute+50*time.Second, gateway, ids[:2]...))
		require.Equal(t, 1, w.live(20*time.Second, gateway, ids[:2]...), "the one that is silent is found when the grace is over")
		require.Equal(t, node.Unreachable, w.connectivity(t, ids[2]))
	})

	t.Run("C2 the database answered with errors for 6 minutes: no transition meanwhile, and 5 minutes of grace after", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		ids := w.connected(3, gateway)
		w.exec(t, `alter table liveness_controller rename to away`)
		_, err := w.sweeper.Sweep(t.Context())
		require.Error(t, err)
		w.exec(t, `alter table away rename to liveness_controller`)
		w.pass(6 * time.Minute)
		require.Equal(t, liveness.Swept{Holder: true, Grace: true}, w.sweep())
		require.Zero(t, w.live(4*time.Minute+50*time.Second, gateway, ids[0]))
		require.Equal(t, 2, w.live(20*time.Second, gateway, ids[0]))
	})

	t.Run("C2 a database that takes no writes moves nobody", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.connected(1, gateway)
		w.pass(15 * time.Second)
		w.exec(t, `alter database "`+one[string](t, w.bundle, `select current_database()`)+`" set default_transaction_read_only = on`)
		w.db.Pool().Reset()
		_, err := w.sweeper.Sweep(t.Context())
		require.Error(t, err)
		require.Zero(t, w.told("node.unreachable"))
	})

	t.Run("C3 a gateway with 500 sessions dies: nobody is given up for 120 s, and who moved never is", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.begin("gw_2")
		ids := w.connected(500, gateway)
		w.flush(gateway, ids...)
		require.Zero(t, w.live(time.Minute, "gw_2"))
		moved := ids[:250]
		w.hello("gw_2", moved...)
		require.Zero(t, w.live(55*time.Second, "gw_2", moved...))
		require.Equal(t, 250, w.live(15*time.Second, "gw_2", moved...))
		require.Zero(t, w.live(5*time.Minute, "gw_2", moved...))
		require.Equal(t, 250, one[int](t, w.bundle, `select count(*)::int from nodes where connectivity = 'CONNECTED' and id = any($1)`, moved))
	})

	t.Run("C4 the database's clock steps by a day or back by an hour: no transition, and the dead are found all the same", func(t *testing.T) {
		t.Parallel()
		for name, step := range map[string]time.Duration{"+1 day": 24 * time.Hour, "-1 h": -time.Hour} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				ids := w.connected(2, gateway)
				w.live(time.Minute, gateway, ids...)
				w.pass(step)
				require.Equal(t, liveness.Swept{Holder: true, Grace: true}, w.sweep())
				require.Zero(t, w.live(6*time.Minute, gateway, ids...))
				require.Equal(t, 1, w.live(time.Minute, gateway, ids[0]))
				require.Equal(t, 1, w.told("node.unreachable"))
			})
		}
	})

	t.Run("C5 a rack whose first Hello is queued counts from its newest certificate", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		rack := make([]string, 100)
		for i := range rack {
			rack[i] = w.node(t)
		}
		issue := func(ids []string, name string) {
			w.exec(t, `insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, issued_at, not_before, not_after, ended_at)
				select $2 || id, id, 'SUPERSEDED', 1, '', '', now(), now(), now(), now() from unnest($1::text[]) id`, ids, name)
		}
		issue(rack, "a")
		require.Zero(t, w.live(30*time.Second, gateway))
		again := rack[50:] // whose answer was lost: they have another certificate now
		issue(again, "b")
		require.Equal(t, 50, w.live(15*time.Second, gateway))
		w.hello(gateway, again[:25]...)
		require.Equal(t, 25, w.live(30*time.Second, gateway, again[:25]...))
		require.Equal(t, 25, one[int](t, w.bundle, `select count(*)::int from nodes where connectivity = 'CONNECTED'`))
	})

	t.Run("C6 a link that is up for 5 s and down for 45 s, for an hour: one event for each transition", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		flaky := w.connected(1, gateway)
		w.end(flaky...)
		const cycles = 72
		for range cycles {
			w.hello(gateway, flaky...)
			w.live(5*time.Second, gateway, flaky...)
			w.end(flaky...)
			w.live(45*time.Second, gateway)
		}
		require.Equal(t, cycles, w.told("node.unreachable"))
		require.Equal(t, cycles+1, w.told("node.connected"))
		require.Equal(t, cycles+1, w.told("node.disconnected"))
		require.Zero(t, one[int](t, w.bundle, `select count(*)::int from river_job`), "nobody is woken by it")
	})
}

func TestC10(t *testing.T) {
	t.Parallel()

	t.Run("C10 a sweeper that stood still while another took over writes nothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.connected(1, "gw_none")
		stale := w.sweeper
		term := one[int64](t, w.bundle, `select term from liveness_controller`)
		w.sweeper = liveness.NewSweeper(w.store)
		require.Equal(t, liveness.Swept{}, w.sweep(), "the controller has a holder")
		w.pass(13 * time.Second)
		require.Equal(t, liveness.Swept{Holder: true}, w.sweep(), "who takes over in time costs no grace")
		w.exec(t, `update node_liveness set last_seen = now() - interval '1 minute'`)
		w.exec(t, `update node_sessions set connected_at = now() - interval '1 minute'`)
		changed, err := stale.Rest(t.Context(), term)
		require.NoError(t, err)
		require.Zero(t, changed)
		swept, err := stale.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, liveness.Swept{}, swept)
		require.Zero(t, w.told("node.unreachable"))
		require.Equal(t, 1, w.sweep().Unreachable)
	})

	t.Run("C10 a sweeper that stood still alone writes nothing either, and its next look begins the grace", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.connected(1, gateway)
		term := one[int64](t, w.bundle, `select term from liveness_controller`)
		w.pass(10 * time.Minute)
		changed, err := w.sweeper.Rest(t.Context(), term)
		require.NoError(t, err)
		require.Zero(t, changed)
		require.Equal(t, liveness.Swept{Holder: true, Grace: true}, w.sweep())
	})
}
