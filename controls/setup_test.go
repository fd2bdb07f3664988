package controls_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/jobs"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// bundle is a fleet of one tenant on a database of its own.
type bundle struct {
	*testing.T

	db       *db.DB
	controls *controls.Controls
	bookings *placement.Bookings
	alex     iam.Actor
	sam      iam.Actor
	pool     string
}

func setup(t *testing.T, options ...dbtest.Option) *bundle {
	t.Helper()
	d := dbtest.New(t, options...)
	authority, err := iam.NewAuthority(d)
	require.NoError(t, err)
	b := &bundle{
		T: t, db: d,
		controls: &controls.Controls{Nodes: &node.Store{DB: d, Authority: authority}},
		bookings: &placement.Bookings{DB: d, Authority: authority},
	}
	_, err = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if err := iam.CreateTenantTx(ctx, tx, "acme"); err != nil {
			return err
		}
		p, err := node.CreatePoolTx(ctx, tx, "acme", "gpus")
		b.pool = p.ID
		return err
	})
	require.NoError(t, err)
	b.alex, b.sam = b.principal("alex", "acme"), b.principal("sam", "acme")
	return b
}

// principal makes somebody with a live token and the role admin in a tenant.
func (b *bundle) principal(name, tenant string) iam.Actor {
	b.Helper()
	jti := id.New(id.Token)
	_, err := b.db.Do(b.Context(), func(ctx context.Context, tx *db.Tx) error {
		if err := iam.CreateTenantTx(ctx, tx, tenant); err != nil {
			return err
		}
		if err := iam.GrantTx(ctx, tx, name, tenant, "admin"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `insert into api_tokens (jti, principal, expires_at) values ($1, $2, now() + interval '1 hour')`, jti, name)
		return err
	})
	require.NoError(b, err)
	return iam.Actor{Name: name, TokenID: jti, ExpiresAt: time.Now().Add(time.Hour)}
}

// node makes a node that takes work.
func (b *bundle) node() string {
	b.Helper()
	var nodeID string
	_, err := b.db.Do(b.Context(), func(ctx context.Context, tx *db.Tx) error {
		n, err := node.CreateTx(tx, node.New{Key: id.New(id.Session), PoolID: b.pool, Hostname: "gpu-1", By: "test"})
		if err != nil {
			return err
		}
		nodeID = n
		_, err = tx.Exec(ctx, `update nodes set provision_state = 'ADOPTED' where id = $1`, n)
		return err
	})
	require.NoError(b, err)
	return nodeID
}

func (b *bundle) edit(who iam.Actor, nodeID, reason string) node.Edit {
	return node.Edit{Who: who, TenantID: "acme", NodeID: nodeID, Reason: reason}
}

// verbs are the controls that an operator has, each with arguments that do something.
func (b *bundle) verbs() []func(context.Context, node.Edit) (node.Changed, error) {
	return []func(context.Context, node.Edit) (node.Changed, error){
		b.cordon, b.uncordon, b.drainBy, b.controls.Adopt,
		func(ctx context.Context, e node.Edit) (node.Changed, error) {
			return b.controls.Taint(ctx, e, controls.Taints{Add: []string{"rma", "dedicated=acme"}})
		},
		func(ctx context.Context, e node.Edit) (node.Changed, error) {
			return b.controls.Label(ctx, e, controls.Labels{Set: map[string]string{"rack": "b7"}})
		},
	}
}

func (b *bundle) cordon(ctx context.Context, e node.Edit) (node.Changed, error) {
	return b.controls.Cordon(ctx, e, controls.Cordoning{})
}

func (b *bundle) uncordon(ctx context.Context, e node.Edit) (node.Changed, error) {
	return b.controls.Uncordon(ctx, e, controls.Uncordoning{})
}

func (b *bundle) drainBy(ctx context.Context, e node.Edit) (node.Changed, error) {
	return b.controls.Drain(ctx, e, controls.Draining{})
}

func (b *bundle) get(nodeID string) *node.View {
	b.Helper()
	v, err := b.controls.Nodes.Get(b.Context(), b.alex, "acme", nodeID)
	require.NoError(b, err)
	return v
}

func (b *bundle) book(nodeID string, lasts time.Duration) placement.Reservation {
	b.Helper()
	out, err := b.bookings.Create(b.Context(), placement.Booking{Who: b.alex, TenantID: "acme", NodeID: nodeID, Duration: lasts})
	require.NoError(b, err)
	return out.Reservation
}

func (b *bundle) release(r placement.Reservation) placement.Outcome {
	b.Helper()
	out, err := b.controls.Release(b.Context(), placement.Release{Who: b.alex, TenantID: "acme", ReservationID: r.ID})
	require.NoError(b, err)
	return out
}

// log gives the types of a node's events, oldest first.
func (b *bundle) log(nodeID string) []string {
	b.Helper()
	var types []string
	for _, e := range b.events(nodeID) {
		types = append(types, e.Type)
	}
	return types
}

func (b *bundle) events(nodeID string) []events.Event {
	b.Helper()
	// Also asked in a Cleanup, when the test's own context has ended.
	list, more, err := events.List(context.WithoutCancel(b.Context()), b.db.Pool(), events.ListFilter{
		Filter: events.Filter{Tenant: "acme", NodeID: nodeID}, Order: events.OldestFirst, First: 500,
	})
	require.NoError(b, err)
	require.False(b, more)
	return list
}

// count says how often a type stands in a node's log.
func (b *bundle) count(nodeID, eventType string) int {
	b.Helper()
	n := 0
	for _, t := range b.log(nodeID) {
		if t == eventType {
			n++
		}
	}
	return n
}

// eventually waits until a condition holds.
func (b *bundle) eventually(within time.Duration, holds func() bool, says string) {
	b.Helper()
	require.Eventually(b, holds, within, 5*time.Millisecond, says)
}

// work runs the real job client until the test ends.
func (b *bundle) work() {
	b.Helper()
	runner, err := jobs.NewRunner(b.db, jobs.Parts{Controls: b.controls, Bookings: b.bookings}, slog.New(slog.DiscardHandler))
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		require.NoError(b, <-done)
	})
}
