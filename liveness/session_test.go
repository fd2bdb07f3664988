package liveness_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenant  = "acme"
	gateway = "gw_1"
)

type bundle struct {
	db    *db.DB
	store *liveness.Store
	pool  string
	made  atomic.Int64
}

func setup(t *testing.T, opts ...dbtest.Option) *bundle {
	t.Helper()
	d := dbtest.New(t, opts...)
	authority, err := iam.NewAuthority(d)
	require.NoError(t, err)
	b := &bundle{db: d, store: &liveness.Store{DB: d, Nodes: &node.Store{DB: d, Authority: authority}, Log: slog.New(slog.DiscardHandler)}}
	_, err = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if err := iam.CreateTenantTx(ctx, tx, tenant); err != nil {
			return err
		}
		pool, err := node.CreatePoolTx(ctx, tx, tenant, "default")
		b.pool = pool.ID
		return err
	})
	require.NoError(t, err)
	return b
}

// node makes one that has joined and never connected.
func (b *bundle) node(t *testing.T) string {
	t.Helper()
	key := b.made.Add(1)
	var made string
	_, err := b.db.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		var err error
		made, err = node.CreateTx(tx, node.New{Key: fmt.Sprintf("%064d", key), PoolID: b.pool, Hostname: "n.example", By: "test"})
		return err
	})
	require.NoError(t, err)
	return made
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.db.Pool().Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func one[T any](t *testing.T, b *bundle, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// open opens a session and gives its number.
func (b *bundle) open(t *testing.T, nodeID, sessionID string) int64 {
	t.Helper()
	opened, err := b.store.Open(t.Context(), gateway, []liveness.Hello{{NodeID: nodeID, SessionID: sessionID, ClockUnixMs: time.Now().UnixMilli(), At: time.Now()}})
	require.NoError(t, err)
	require.Contains(t, opened, nodeID)
	return opened[nodeID].Number
}

func (b *bundle) connectivity(t *testing.T, nodeID string) node.Connectivity {
	t.Helper()
	return one[node.Connectivity](t, b, `select connectivity from nodes where id = $1`, nodeID)
}

func TestOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("many Hellos are one transaction; a deleted node is left out", func(t *testing.T) {
		t.Parallel()
		a, c, gone := b.node(t), b.node(t), b.node(t)
		b.exec(t, `update nodes set deleted_at = now() where id = $1`, gone)
		var hellos []liveness.Hello
		for _, n := range []string{c, gone, a} {
			hellos = append(hellos, liveness.Hello{NodeID: n, SessionID: "ses_" + n, At: time.Now()})
		}
		opened, err := b.store.Open(t.Context(), gateway, hellos)
		require.NoError(t, err)
		require.Len(t, opened, 2)
		require.NotContains(t, opened, gone)
		require.Equal(t, int64(1), one[int64](t, b, `select count(distinct at) from events where type = 'node.connected' and node_id = any($1)`, []string{a, c}))
		require.Equal(t, int64(0), one[int64](t, b, `select count(*) from node_sessions where node_id = $1`, gone))
	})

	t.Run("the number grows with each session of the node, and the Hello's clock is only a skew", func(t *testing.T) {
		t.Parallel()
		n := b.node(t)
		require.Equal(t, int64(1), b.open(t, n, "ses_1"))
		at := time.Now().Add(2 * time.Hour)
		_, err := b.store.Open(t.Context(), gateway, []liveness.Hello{{NodeID: n, SessionID: "ses_2", ClockUnixMs: at.UnixMilli(), At: time.Now()}})
		require.NoError(t, err)
		sessions, err := liveness.SessionsOf(t.Context(), b.db.Pool(), []string{n})
		require.NoError(t, err)
		require.Equal(t, int64(2), sessions[n].Number)
		require.InDelta(t, (2 * time.Hour).Milliseconds(), sessions[n].ClockSkewMs, 60_000)
		require.WithinDuration(t, time.Now(), sessions[n].Since, time.Minute, "C4 no time is taken from the machine")
		require.Equal(t, 1, one[int](t, b, `select version::int from nodes where id = $1`, n), "connectivity moves no version")
	})

	t.Run("a Hello that waited keeps its skew", func(t *testing.T) {
		t.Parallel()
		n := b.node(t)
		came := time.Now().Add(-10 * time.Minute)
		_, err := b.store.Open(t.Context(), gateway, []liveness.Hello{{NodeID: n, SessionID: "ses_1", ClockUnixMs: came.UnixMilli(), At: came}})
		require.NoError(t, err)
		sessions, err := liveness.SessionsOf(t.Context(), b.db.Pool(), []string{n})
		require.NoError(t, err)
		require.Less(t, sessions[n].ClockSkewMs, 60_000)
		require.Greater(t, sessions[n].ClockSkewMs, -60_000)
	})

	t.Run("two Hellos of one node in one call are refused whole", func(t *testing.T) {
		t.Parallel()
		n := b.node(t)
		_, err := b.store.Open(t.Context(), gateway, []liveness.Hello{{NodeID: n, SessionID: "a", At: time.Now()}, {NodeID: n, SessionID: "b", At: time.Now()}})
		require.Error(t, err)
		require.Equal(t, node.Pending, b.connectivity(t, n))
	})

	t.Run("A8 cordon, maintenance, taint, condition, draining and label outlive a session lost and back", func(t *testing.T) {
		t.Parallel()
		n := b.node(t)
		b.exec(t, `update nodes set cordoned = true, cordon_by = 'alex', cordon_at = now(), maintenance = true where id = $1`, n)
		b.exec(t, `insert into node_reasons (node_id, reason, owner, since) values ($1, 'draining', 'drain-controller', now()), ($1, 'taint:x', 'operator', now()),
			($1, 'condition:gpu', 'health', now()), ($1, 'unreachable', 'liveness', now())`, n)
		b.exec(t, `insert into node_labels (node_id, key, value, source) values ($1, 'rack', 'b7', 'OPERATOR')`, n)
		number := b.open(t, n, "ses_1")
		require.NoError(t, b.store.End(t.Context(), []liveness.Ended{{NodeID: n, SessionID: "ses_1", Number: number, Reason: liveness.EndedLost}}))
		b.open(t, n, "ses_2")
		require.Equal(t, []string{"condition:gpu", "draining", "taint:x", "unreachable"},
			one[[]string](t, b, `select array_agg(reason order by reason) from node_reasons where node_id = $1`, n))
		require.True(t, one[bool](t, b, `select cordoned and maintenance and cordon_by = 'alex' from nodes where id = $1`, n))
		require.Equal(t, "b7", one[string](t, b, `select value from node_labels where node_id = $1`, n))
	})
}

func TestEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("the end of an old session, and a second end, change nothing", func(t *testing.T) {
		t.Parallel()
		n := b.node(t)
		old := b.open(t, n, "ses_1")
		fresh := b.open(t, n, "ses_2")
		require.NoError(t, b.store.End(t.Context(), []liveness.Ended{{NodeID: n, SessionID: "ses_1", Number: old, Reason: liveness.EndedLost}}))
		require.Equal(t, node.Connected, b.connectivity(t, n))
		end := []liveness.Ended{{NodeID: n, SessionID: "ses_2", Number: fresh, Reason: liveness.EndedSilent}}
		require.NoError(t, b.store.End(t.Context(), end))
		at := one[time.Time](t, b, `select disconnected_at from node_sessions where node_id = $1`, n)
		require.NoError(t, b.store.End(t.Context(), end))
		require.Equal(t, at, one[time.Time](t, b, `select disconnected_at from node_sessions where node_id = $1`, n))
		require.Equal(t, int64(1), one[int64](t, b, `select count(*) from events where node_id = $1 and type = 'node.disconnected'`, n))
	})

	t.Run("a node that was given up stays so; its session ends all the same", func(t *testing.T) {
		t.Parallel()
		n := b.node(t)
		number := b.open(t, n, "ses_1")
		b.exec(t, `update nodes set connectivity = 'UNREACHABLE' where id = $1`, n)
		require.NoError(t, b.store.End(t.Context(), []liveness.Ended{{NodeID: n, SessionID: "ses_1", Number: number, Reason: liveness.EndedLost}}))
		require.Equal(t, node.Unreachable, b.connectivity(t, n))
		require.True(t, one[bool](t, b, `select disconnected_at is not null from node_sessions where node_id = $1`, n))
	})

	t.Run("ends and Hellos that race leave the newest session connected", func(t *testing.T) {
		t.Parallel()
		nodes := make([]string, 8)
		numbers := make([]int64, len(nodes))
		for i := range nodes {
			nodes[i] = b.node(t)
			numbers[i] = b.open(t, nodes[i], "ses_0")
		}
		for round := 1; round <= 10; round++ {
			var racing sync.WaitGroup
			var ends []liveness.Ended
			var hellos []liveness.Hello
			for i, n := range nodes {
				ends = append(ends, liveness.Ended{NodeID: n, SessionID: "ses_old", Number: numbers[i], Reason: liveness.EndedLost})
				hellos = append(hellos, liveness.Hello{NodeID: nodes[len(nodes)-1-i], SessionID: fmt.Sprintf("ses_%d", round), At: time.Now()})
			}
			racing.Go(func() {
				if err := b.store.End(t.Context(), ends); err != nil {
					t.Errorf("end: %v", err)
				}
			})
			racing.Go(func() {
				opened, err := b.store.Open(t.Context(), gateway, hellos)
				if err != nil {
					t.Errorf("open: %v", err)
				}
				for i, n := range nodes {
					numbers[i] = opened[n].Number
				}
			})
			racing.Wait()
			for i, n := range nodes {
				require.Equal(t, node.Connected, b.connectivity(t, n))
				require.Equal(t, int64(round+1), numbers[i])
			}
		}
	})
}

func TestOneConnection(t *testing.T) {
	t.Parallel()
	// No verb takes a second connection inside its transaction.
	b := setup(t, dbtest.WithMaxConns(1))
	n := b.node(t)
	number := b.open(t, n, "ses_1")
	_, err := b.store.StartGateway(t.Context(), "gw_2", "i")
	require.NoError(t, err)
	require.NoError(t, b.store.Flush(t.Context(), "gw_2", "i", []liveness.Age{{NodeID: n, Number: number}}))
	require.NoError(t, b.store.ReportRunning(t.Context(), liveness.Running{NodeID: n, Number: number, Known: true}))
	require.NoError(t, b.store.End(t.Context(), []liveness.Ended{{NodeID: n, SessionID: "ses_1", Number: number, Reason: liveness.EndedLost}}))
	b.exec(t, `update liveness_controller set looked_at = now(), hold_until = now()`)
	sweeper := liveness.NewSweeper(b.store)
	_, err = sweeper.Sweep(t.Context())
	require.NoError(t, err)
	b.exec(t, `update node_sessions set disconnected_at = now() - interval '1 minute'`)
	b.exec(t, `update node_liveness set last_seen = now() - interval '1 minute'`)
	swept, err := sweeper.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, swept.Unreachable)
}

func TestFlush(t *testing.T) {
	t.Parallel()
	b := setup(t)
	start := func(t *testing.T, id string) {
		t.Helper()
		_, err := b.store.StartGateway(t.Context(), id, "one")
		require.NoError(t, err)
	}
	seen := func(t *testing.T, n string) time.Time {
		t.Helper()
		return one[time.Time](t, b, `select last_seen from node_liveness where node_id = $1`, n)
	}

	t.Run("an age counts from the database's clock, and none makes a node older", func(t *testing.T) {
		t.Parallel()
		start(t, "gw_a")
		n := b.node(t)
		number := b.open(t, n, "ses_1")
		b.exec(t, `update node_liveness set last_seen = now() - interval '1 hour' where node_id = $1`, n)
		require.NoError(t, b.store.Flush(t.Context(), "gw_a", "one", []liveness.Age{{NodeID: n, Number: number, Age: 5 * time.Second}}))
		at := seen(t, n)
		require.InDelta(t, 5, one[float64](t, b, `select extract(epoch from now() - last_seen)::float8 from node_liveness where node_id = $1`, n), 4)
		require.NoError(t, b.store.Flush(t.Context(), "gw_a", "one", []liveness.Age{{NodeID: n, Number: number, Age: time.Hour}}))
		require.Equal(t, at, seen(t, n))
	})

	t.Run("the age of an old session changes nothing", func(t *testing.T) {
		t.Parallel()
		start(t, "gw_b")
		n := b.node(t)
		old := b.open(t, n, "ses_1")
		b.open(t, n, "ses_2")
		at := seen(t, n)
		require.NoError(t, b.store.Flush(t.Context(), "gw_b", "one", []liveness.Age{{NodeID: n, Number: old}}))
		require.Equal(t, at, seen(t, n))
		require.Equal(t, gateway, one[string](t, b, `select gateway_id from node_liveness where node_id = $1`, n))
	})

	t.Run("a gateway that was taken over writes nothing", func(t *testing.T) {
		t.Parallel()
		start(t, "gw_c")
		n := b.node(t)
		number := b.open(t, n, "ses_1")
		_, err := b.store.StartGateway(t.Context(), "gw_c", "two")
		require.NoError(t, err)
		at := seen(t, n)
		require.ErrorIs(t, b.store.Flush(t.Context(), "gw_c", "one", []liveness.Age{{NodeID: n, Number: number}}), liveness.ErrTakenOver)
		require.Equal(t, at, seen(t, n))
		require.NoError(t, b.store.Flush(t.Context(), "gw_c", "two", nil))
	})

	t.Run("the gateway's own row is written with the ages", func(t *testing.T) {
		t.Parallel()
		start(t, "gw_d")
		before := one[time.Time](t, b, `select flushed_at from gateways where id = 'gw_d'`)
		require.NoError(t, b.store.Flush(t.Context(), "gw_d", "one", nil))
		require.True(t, one[time.Time](t, b, `select flushed_at from gateways where id = 'gw_d'`).After(before))
	})
}

func TestLastSeen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	last := func(n string) (time.Time, bool) {
		seen, err := liveness.SessionsOf(t.Context(), b.db.Pool(), []string{n})
		require.NoError(t, err)
		session, ok := seen[n]
		return session.LastSeen, ok
	}
	n := b.node(t)
	_, ok := last(n)
	require.False(t, ok, "a node that never had a session was never seen, though its liveness began with its join")
	number := b.open(t, n, "ses_1")
	b.exec(t, `update node_liveness set last_seen = '2030-01-02' where node_id = $1`, n)
	at, _ := last(n)
	require.Equal(t, 2030, at.Year(), "the session's flushed age")
	require.NoError(t, b.store.End(t.Context(), []liveness.Ended{{NodeID: n, SessionID: "ses_1", Number: number, Reason: liveness.EndedLost}}))
	b.exec(t, `update node_sessions set disconnected_at = '2031-01-02' where node_id = $1`, n)
	at, _ = last(n)
	require.Equal(t, 2031, at.Year(), "the later of it and the end of the session")
	b.exec(t, `update node_sessions set disconnected_at = null, number = 7, connected_at = '2032-01-02' where node_id = $1`, n)
	at, _ = last(n)
	require.Equal(t, 2032, at.Year(), "else when it connected: the age of another session doesn't count")
}

func TestRunning(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node(t)
	old := b.open(t, n, "ses_1")
	number := b.open(t, n, "ses_2")
	require.NoError(t, b.store.ReportRunning(t.Context(), liveness.Running{NodeID: n, Number: old, Known: true}))
	require.Zero(t, one[int](t, b, `select count(*)::int from node_running`), "a report of an old session is nothing")
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("GPU-%d\n", i)
	}
	require.NoError(t, b.store.ReportRunning(t.Context(), liveness.Running{NodeID: n, Number: number, Known: true, Devices: many}))
	require.Equal(t, 256, one[int](t, b, `select cardinality(devices) from node_running`))
	confirms := func() bool {
		var ok map[string]bool
		batch := &pgx.Batch{}
		liveness.QueueConfirmsEmpty(batch, []string{n}, &ok)
		require.NoError(t, b.db.Pool().SendBatch(t.Context(), batch).Close())
		return ok[n]
	}
	require.False(t, confirms(), "B8 it reports processes")
	require.NoError(t, b.store.ReportRunning(t.Context(), liveness.Running{NodeID: n, Number: number, Known: true}))
	require.True(t, confirms())
	require.NoError(t, b.store.ReportRunning(t.Context(), liveness.Running{NodeID: n, Number: number, Known: false}))
	require.False(t, confirms(), "it can't tell")
	require.NoError(t, b.store.ReportRunning(t.Context(), liveness.Running{NodeID: n, Number: number, Known: true}))
	b.exec(t, `update node_liveness set last_seen = now() - interval '31 seconds'`)
	require.False(t, confirms(), "it was not heard of for too long")
}

func FuzzPlain(f *testing.F) {
	f.Add("a\x00b\n", 3)
	f.Add("é\xff日本", 2)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = min(max(most, 0), 1000)
		out := liveness.Plain(s, most)
		require.True(t, utf8.ValidString(out))
		require.LessOrEqual(t, utf8.RuneCountInString(out), most)
		require.False(t, strings.ContainsFunc(out, unicode.IsControl))
	})
}
