package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	acceptance "github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/jobs"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// fleet is the real thing: the verbs on a database of their own.
type fleet struct {
	*testing.T

	db       *db.DB
	controls *controls.Controls
	bookings *placement.Bookings
	health   *acceptance.Store
	pool     string
	actors   map[string]iam.Actor

	reader *pgxpool.Pool

	known atomic.Int64 // the newest position that anybody was told of
	read  int64        // how far the log was read for the judge
}

var gpus = []string{"GPU-1", "GPU-2"}

func newFleet(t *testing.T, callers int) *fleet {
	t.Helper()
	d := dbtest.New(t, dbtest.WithMaxConns(int32(callers+12)))
	authority, err := iam.NewAuthority(d)
	require.NoError(t, err)
	nodes := &node.Store{DB: d, Authority: authority}
	f := &fleet{
		T: t, db: d, controls: &controls.Controls{Nodes: nodes}, bookings: &placement.Bookings{DB: d, Authority: authority},
		health: &acceptance.Store{DB: d, Nodes: nodes, Log: slog.New(slog.DiscardHandler)}, actors: map[string]iam.Actor{},
	}
	// Left alone, PostgreSQL plans the one long statement that reads a node anew each time, which takes longer than running it.
	reads, err := pgxpool.ParseConfig(dbtest.URL(d))
	require.NoError(t, err)
	reads.MaxConns = 8
	maps.Copy(reads.ConnConfig.RuntimeParams, map[string]string{"plan_cache_mode": "force_generic_plan", "jit": "off"})
	f.reader, err = pgxpool.NewWithConfig(t.Context(), reads)
	require.NoError(t, err)
	t.Cleanup(f.reader.Close)
	_, err = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		for _, tenant := range []string{owner, guest} {
			if err := iam.CreateTenantTx(ctx, tx, tenant); err != nil {
				return err
			}
		}
		pool, err := node.CreatePoolTx(ctx, tx, owner, "gpus")
		f.pool = pool.ID
		return err
	})
	require.NoError(t, err)
	f.principal("gus", guest)
	for i := range callers {
		f.principal(caller(i), owner)
	}
	return f
}

func caller(i int) string { return fmt.Sprintf("caller-%02d", i) }

// principal makes somebody who may do everything in a tenant.
func (f *fleet) principal(name, tenant string) {
	f.Helper()
	who := iam.Actor{Name: name, TokenID: id.New(id.Token), ExpiresAt: time.Now().Add(time.Hour)}
	_, err := f.db.Do(f.Context(), func(ctx context.Context, tx *db.Tx) error {
		if err := iam.GrantTx(ctx, tx, name, tenant, "admin"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `insert into api_tokens (jti, principal, expires_at) values ($1, $2, now() + interval '1 hour')`, who.TokenID, name)
		return err
	})
	require.NoError(f, err)
	f.actors[name] = who
}

// machine brings a machine in: it joins, holds a session, and its inventory is in, so that it was adopted; it may be shared with the guest. It gives the
// node, and the position from which on the model has it.
func (f *fleet) machine(ctx context.Context, key string, shared bool) (nodeID string, position int64, err error) {
	_, err = f.db.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		if nodeID, err = node.CreateTx(tx, node.New{Key: key, PoolID: f.pool, Hostname: key, By: "test"}); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
			values ($1, 'ses', 1, 'gw', 'boot', '1', '{}', 0, now())`, nodeID)
		if err == nil && shared {
			err = iam.ProjectTx(ctx, tx, guest, nodeID, iam.Shared)
		}
		return err
	})
	if err != nil {
		return "", 0, err
	}
	facts := acceptance.Facts{}
	for i, uuid := range gpus {
		facts.GPUs = append(facts.GPUs, acceptance.GPU{UUID: uuid, Index: i, Model: "H100"})
	}
	if err := f.health.Report(ctx, nodeID, 1, facts); err != nil {
		return "", 0, err
	}
	r, err := f.reading(ctx, nodeID)
	if err != nil {
		return "", 0, err
	}
	return nodeID, r.position, same(*fresh(shared), *r.m)
}

// fresh is a machine that was adopted and that nobody has done anything to.
func fresh(shared bool) *machine {
	m := &machine{
		axes: axes{
			Version: 2, ChangedBy: health, State: "ADOPTED", Reasons: map[string]reason{},
			Labels: map[string]label{"gpu.count": {"2", "INVENTORY"}, "gpu.model": {"H100", "INVENTORY"}},
		},
		Drains: []drain{}, Bookings: map[string]booking{}, Sight: map[string][]string{owner: {"OWNER"}},
	}
	if shared {
		m.see(guest, "SHARED")
	}
	return m
}

// do calls, and reads the node after it.
func (f *fleet) do(ctx context.Context, c call) (step, reading, error) {
	s := step{call: c, from: f.known.Load()}
	got, err := f.call(ctx, &s)
	if err == nil && c.Request != "" && got.Code == "" {
		err = f.again(ctx, s, got)
	}
	if err != nil {
		return step{}, reading{}, err
	}
	s.got = got
	r, err := f.reading(ctx, c.Node)
	s.to = r.position
	f.tell(s.to)
	return s, r, err
}

// again sends the same request id once more: it does nothing, and gives the first answer, or, where the node was deleted since, that there is none.
func (f *fleet) again(ctx context.Context, s step, first answer) error {
	repeat := s
	got, err := f.call(ctx, &repeat)
	if err != nil || got.Code == first.Code && got.Changed == first.Changed && repeat.position == s.position {
		return err
	}
	if r, err := f.reading(ctx, s.call.Node); err != nil || got.Code == "NOT_FOUND" && r.m.Deleted {
		return err
	}
	return fmt.Errorf("the request id %s sent again gives %v at %d, and it was %v at %d", s.call.Request, got, repeat.position, first, s.position)
}

// call makes the call on the real thing, and takes its answer into the step. An error is a fault that no caller may see.
func (f *fleet) call(ctx context.Context, s *step) (answer, error) {
	c, who := s.call, f.actors[s.call.Who]
	e := node.Edit{Who: who, TenantID: owner, NodeID: c.Node, Reason: c.Reason, RequestID: c.Request}
	if c.Version != 0 {
		e.Version = &c.Version
	}
	var done node.Changed
	var err error
	switch c.Verb {
	case "cordon":
		done, err = f.controls.Cordon(ctx, e, controls.Cordoning{Update: c.Update})
	case "uncordon":
		done, err = f.controls.Uncordon(ctx, e, controls.Uncordoning{IfBy: c.IfBy})
	case "drain":
		done, err = f.controls.Drain(ctx, e, controls.Draining{})
	case "taint":
		done, err = f.controls.Taint(ctx, e, controls.Taints{Add: c.Add, Remove: c.Remove})
	case "label":
		done, err = f.controls.Label(ctx, e, controls.Labels{Set: c.Set, Remove: c.Remove})
	case "adopt":
		done, err = f.controls.Adopt(ctx, e)
	case "delete":
		var gone controls.Deleted
		gone, err = f.controls.Delete(ctx, e)
		done = node.Changed{Changed: gone.Deleted, Cursor: gone.Cursor}
	case "book", "release":
		var out placement.Outcome
		if c.Verb == "book" {
			b := placement.Booking{Who: who, TenantID: c.Tenant, NodeID: c.Node, Duration: c.Lasts, Reason: c.Reason, RequestID: c.Request}
			if c.Device != "" {
				b.Devices = []string{c.Device}
			}
			out, err = f.bookings.Create(ctx, b)
		} else {
			out, err = f.controls.Release(ctx, placement.Release{Who: who, TenantID: c.Tenant, ReservationID: c.Reservation, Reason: c.Reason, RequestID: c.Request})
		}
		done = node.Changed{Changed: out.Changed, Cursor: out.Cursor}
		s.reservation = out.Reservation.ID
	case "look":
		_, err = f.controls.LookAtDrain(ctx, c.Node)
	case "accept":
		err = f.controls.LookAtAcceptance(ctx, c.Node, c.Run)
	case "turn":
		_, err = f.bookings.TurnIntervals(ctx)
	}
	if done.Node != nil {
		shown := shownOf(done.Node)
		s.shown, s.run = &shown, shown.Run
	}
	s.position = done.Cursor.Position
	f.tell(s.position)
	return answerOf(done.Changed, err)
}

// answerOf gives the refusals that a caller may see; what else went wrong is an error.
func answerOf(changed bool, err error) (answer, error) {
	switch code := fault.CodeOf(err); code {
	case "":
		return answer{Changed: changed}, nil
	case fault.InvalidInput, fault.InvalidState, fault.Conflict, fault.NotFound:
		details, jsonErr := jsonOf(fault.From(err).Details)
		if list, ok := details["blocked"].([]any); ok {
			delete(list[0].(map[string]any), "until")
		}
		return answer{Code: string(code), Details: details}, jsonErr
	default:
		return answer{}, fmt.Errorf("a caller got %s: %w (%w)", code, err, errors.Unwrap(fault.From(err)))
	}
}

func jsonOf(details fault.Details) (out map[string]any, err error) {
	body, err := json.Marshal(details)
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	return out, err
}

// tell notes that somebody knows of a position: what is called from now on finds it.
func (f *fleet) tell(position int64) {
	for {
		known := f.known.Load()
		if position <= known || f.known.CompareAndSwap(known, position) {
			return
		}
	}
}

// shownOf gives the node of an answer as the model has nodes.
func shownOf(n *node.Node) axes {
	a := axes{
		Version: n.Version, ChangedBy: n.ChangedBy, State: string(n.ProvisionState), Run: n.AcceptanceRun, Deleted: n.DeletedAt != nil,
		Reasons: map[string]reason{}, Labels: map[string]label{},
	}
	if c := n.Cordon; c != nil {
		a.Cordon = &cordon{By: c.By, Reason: string(c.Reason)}
	}
	for _, r := range n.Reasons {
		a.Reasons[r.Name] = reason{Owner: r.Owner, By: string(r.By), Message: string(r.Message)}
	}
	for _, l := range n.Labels {
		a.Labels[l.Key] = label{Value: l.Value, Source: string(l.Source)}
	}
	if d := n.LastDrain; d != nil {
		a.LastDrain = &drain{
			ID: d.ID, State: string(d.State), By: d.By, Reason: string(d.Reason), EndedBy: string(d.EndedBy), Cause: string(d.Cause), Confirmed: d.ConfirmedByNode,
		}
	}
	return a
}

// wholeSQL is a node with all that the model has of it, at one moment of the log. It reads the tables, not what the verbs say of them.
const wholeSQL = `
select (select position from event_clock), json_build_object(
  'Version', n.version, 'ChangedBy', n.changed_by, 'State', n.provision_state, 'Run', coalesce(n.acceptance_run, ''), 'Deleted', n.deleted_at is not null,
  'Cordon', case when n.cordoned then json_build_object('By', n.cordon_by, 'Reason', coalesce(n.cordon_reason, '')) end,
  'Reasons', (select coalesce(json_object_agg(reason, json_build_object('Owner', owner, 'By', coalesce(by, ''), 'Message', coalesce(message, ''))), '{}')
    from node_reasons where node_id = n.id),
  'Labels', (select coalesce(json_object_agg(key, json_build_object('Value', value, 'Source', source)), '{}') from node_labels where node_id = n.id),
  'Drains', (select coalesce(json_agg(json_build_object('ID', id, 'State', state, 'By', by, 'Reason', coalesce(reason, ''), 'EndedBy', coalesce(ended_by, ''),
    'Cause', coalesce(cause, ''), 'Confirmed', confirmed_by_node) order by started_at, id), '[]') from node_drains where node_id = n.id),
  'Bookings', (select coalesce(json_object_agg(r.id, json_build_object('Allocation', a.id, 'Tenant', r.tenant_id, 'By', r.created_by, 'Reason', coalesce(r.reason, ''),
    'Device', coalesce(h.uuid, ''), 'ReleasedBy', coalesce(r.released_by, ''), 'Starts', (extract(epoch from a.starts_at) * 1000000)::bigint,
    'Ends', coalesce((extract(epoch from a.ends_at) * 1000000)::bigint, 0), 'State', case
      when r.released_at is not null and a.released_at is not null and a.ended_at is null then 'RELEASED'
      when r.ended_at is not null and a.ended_at is not null and a.released_at is null then 'ENDED'
      when num_nulls(r.released_at, a.released_at, r.ended_at, a.ended_at) = 4 then 'ACTIVE' else 'half' end)), '{}')
    from allocations a join reservations r on r.id = a.reservation_id left join allocation_devices h on h.allocation_id = a.id where a.node_id = n.id),
  'Sight', (select coalesce(json_object_agg(tenant_id, relations), '{}') from (
    select tenant_id, array_agg(relation order by relation) as relations from node_projection where node_id = n.id group by tenant_id) as seen))
from nodes n where n.id = $1`

// reading reads a node whole.
func (f *fleet) reading(ctx context.Context, nodeID string) (reading, error) {
	var body []byte
	r := reading{node: nodeID, m: &machine{}}
	if err := f.reader.QueryRow(ctx, wholeSQL, nodeID).Scan(&r.position, &body); err != nil {
		return reading{}, fmt.Errorf("read %s: %w", nodeID, err)
	}
	if err := json.Unmarshal(body, r.m); err != nil {
		return reading{}, fmt.Errorf("read %s: %w", nodeID, err)
	}
	if n := len(r.m.Drains); n > 0 {
		r.m.LastDrain = &r.m.Drains[n-1]
	}
	return r, nil
}

// log reads the log's entries since the last time.
func (f *fleet) log(ctx context.Context) ([]event, error) {
	rows, err := f.db.Pool().Query(ctx, `
		select position, (extract(epoch from at) * 1000000)::bigint, type, tenant_id, coalesce(node_id, ''), actor, coalesce(reason, ''), coalesce(request_id, ''),
		       data, full_for, reduced_for
		from events where position > $1 order by position`, f.read)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
	if n := len(list); n > 0 {
		f.read = list[n-1].Position
	}
	return list, err
}

// work runs the real job client until stop is called.
func (f *fleet) work() (stop func()) {
	f.Helper()
	runner, err := jobs.NewRunner(f.db, jobs.Parts{Controls: f.controls, Bookings: f.bookings}, slog.New(slog.DiscardHandler))
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		require.NoError(f, <-done)
	})
}
