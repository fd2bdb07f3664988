package controls_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// fleet makes nodes that take work, sorted by id.
func (b *bundle) fleet(n int) []string {
	b.Helper()
	return b.fleetIn(b.pool, n)
}

func (b *bundle) fleetIn(pool string, n int) []string {
	b.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = id.New(id.Node)
	}
	slices.Sort(ids)
	_, err := b.db.Pool().Exec(b.Context(), `
		with made as (
			insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, changed_by)
			select x, x, 'acme', $2, 'gpu-' || right(x, 6), 'ADOPTED', 'TRUSTED', 'test' from unnest($1::text[]) as x returning id)
		insert into node_projection (tenant_id, node_id, relation) select 'acme', id, 'OWNER' from made`, ids, pool)
	require.NoError(b, err)
	return ids
}

func (b *bundle) selected(who iam.Actor, ids ...string) string {
	b.Helper()
	s, err := b.controls.Select(b.Context(), controls.Selecting{Who: who, TenantID: "acme", NodeIDs: ids})
	require.NoError(b, err)
	return s.Selection.ID
}

func (b *bundle) begin(e controls.ManyEdit) controls.Operation {
	b.Helper()
	if e.Who.Name == "" {
		e.Who = b.alex
	}
	e.TenantID = "acme"
	out, err := b.controls.Begin(b.Context(), e)
	require.NoError(b, err)
	return out.Operation
}

// run goes on with an operation as a worker does, until it is over or waits.
func (b *bundle) run(o controls.Operation) controls.Progress {
	b.Helper()
	for {
		p, err := b.controls.RunOperation(b.Context(), controls.OperationJob{OperationID: o.ID, Run: 1})
		require.NoError(b, err)
		if p.Over || p.Next > 0 {
			return p
		}
	}
}

func (b *bundle) operation(operationID string) controls.Operation {
	b.Helper()
	o, err := b.controls.Operation(context.WithoutCancel(b.Context()), "acme", operationID)
	require.NoError(b, err)
	return o
}

func (b *bundle) counts(operationID string) string {
	b.Helper()
	o := b.operation(operationID)
	return fmt.Sprintf("%s: %d done, %d unchanged, %d refused, %d left", o.State, o.Done, o.Unchanged, o.Refused, o.Left())
}

// results gives an operation's results by node, and sees that they are numbered without a gap and that no node has two.
func (b *bundle) results(operationID string) map[string]controls.Result {
	b.Helper()
	list, more, err := b.controls.Results(context.WithoutCancel(b.Context()), operationID, nil, 0, controls.MaxSelected)
	require.NoError(b, err)
	require.False(b, more)
	out := map[string]controls.Result{}
	for i, r := range list {
		require.Equal(b, i+1, r.Number)
		require.NotContains(b, out, r.NodeID)
		out[r.NodeID] = r
	}
	return out
}

// total counts the log's events of a type.
func (b *bundle) total(eventType string) int {
	b.Helper()
	var n int
	require.NoError(b, b.db.Pool().QueryRow(context.WithoutCancel(b.Context()), `select count(*) from events where type = $1`, eventType).Scan(&n))
	return n
}

// acts are the types of the events of the verbs.
var acts = map[string]string{
	"cordon": "node.cordoned", "uncordon": "node.uncordoned", "drain": "node.draining", "taint": "node.tainted", "label": "node.labeled", "adopt": "node.adopting",
}

// standing is how a node stands, without what is its own.
func standing(v *node.View) []any {
	var drain any
	if d := v.LastDrain; d != nil {
		drain = []any{d.State, d.By, d.EndedBy, d.Reason, d.ConfirmedByNode}
	}
	var reasons []string
	for _, r := range v.Reasons {
		reasons = append(reasons, r.Name+" of "+r.Owner+" by "+string(r.By))
	}
	return []any{v.Cordoned(), v.ProvisionState, drain, reasons, v.Labels, v.Version}
}

var verbs = map[string]controls.Manner{
	"cordon":   {Verb: controls.VerbCordon},
	"uncordon": {Verb: controls.VerbUncordon},
	"drain":    {Verb: controls.VerbDrain},
	"taint":    {Verb: controls.VerbTaint, Add: []string{"rma"}, Remove: []string{"burn-in"}},
	"label":    {Verb: controls.VerbLabel, Set: map[string]string{"rack": "b7"}, Remove: []string{"old"}},
	"adopt":    {Verb: controls.VerbAdopt},
}

func TestOperation(t *testing.T) {
	t.Parallel()

	t.Run("Each verb on a selection of several batches does what the single control does, once a node, and says so of each", func(t *testing.T) {
		t.Parallel()
		for name, m := range verbs {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				ids := b.fleet(520)
				single := b.node()
				if m.Verb == controls.VerbUncordon {
					for _, n := range append(ids[:3:3], single) {
						_, err := b.cordon(t.Context(), b.edit(b.alex, n, ""))
						require.NoError(t, err)
					}
				}
				o := b.begin(controls.ManyEdit{SelectionID: b.selected(b.alex, ids...), Reason: "BIOS", Manner: m})
				require.Equal(t, controls.OperationRunning, o.State)
				require.True(t, b.run(o).Over)
				want := "DONE: 520 done, 0 unchanged, 0 refused, 0 left"
				if m.Verb == controls.VerbUncordon {
					want = "DONE: 3 done, 517 unchanged, 0 refused, 0 left"
				}
				require.Equal(t, want, b.counts(o.ID))
				require.Len(t, b.results(o.ID), 520)

				e := b.edit(b.alex, single, "BIOS")
				var err error
				switch m.Verb {
				case controls.VerbCordon:
					_, err = b.cordon(t.Context(), e)
				case controls.VerbUncordon:
					_, err = b.uncordon(t.Context(), e)
				case controls.VerbDrain:
					_, err = b.drainBy(t.Context(), e)
				case controls.VerbTaint:
					_, err = b.controls.Taint(t.Context(), e, controls.Taints{Add: m.Add, Remove: m.Remove})
				case controls.VerbLabel:
					_, err = b.controls.Label(t.Context(), e, controls.Labels{Set: m.Set, Remove: m.Remove})
				case controls.VerbAdopt:
					_, err = b.controls.Adopt(t.Context(), e)
				}
				require.NoError(t, err)
				for _, n := range []string{ids[0], ids[2]} {
					bulk, one := b.events(n), b.events(single)
					require.Len(t, bulk, len(one))
					for i := range one {
						require.Equal(t, []string{one[i].Type, one[i].Actor, one[i].Reason}, []string{bulk[i].Type, bulk[i].Actor, bulk[i].Reason})
						require.Equal(t, one[i].Audience, bulk[i].Audience)
						if bulk[i].Type == acts[name] {
							require.Equal(t, o.ID, bulk[i].RequestID, "the event of the act names the operation")
						}
					}
					require.Equal(t, standing(b.get(single)), standing(b.get(n)))
				}
			})
		}
	})

	t.Run("A node about which somebody decided otherwise since it was frozen is refused, and only then", func(t *testing.T) {
		t.Parallel()
		rack := func(v string) controls.Labels { return controls.Labels{Set: map[string]string{"rack": v}} }
		for name, c := range map[string]struct {
			manner  controls.Manner
			before  func(b *bundle, n string) error // the freeze
			since   func(b *bundle, n string) error
			outcome controls.Outcome
			code    fault.Code
		}{
			"cordon: it was uncordoned since": {
				verbs["cordon"], cordoned, uncordoned, controls.OutcomeRefused, fault.Conflict,
			},
			"cordon: another cordoned it since": {
				verbs["cordon"], nil, cordoned, controls.OutcomeUnchanged, "",
			},
			"cordon: it was tainted since, which is another axis": {
				verbs["cordon"], nil, tainted("x"), controls.OutcomeDone, "",
			},
			"drain: it was uncordoned since": {
				verbs["drain"], cordoned, uncordoned, controls.OutcomeRefused, fault.Conflict,
			},
			"drain: another cordoned it since": {
				verbs["drain"], nil, cordoned, controls.OutcomeDone, "",
			},
			"uncordon: it is another cordon now": {
				controls.Manner{Verb: controls.VerbUncordon, Anyone: true},
				cordoned,
				func(b *bundle, n string) error { return errors.Join(uncordoned(b, n), cordoned(b, n)) }, controls.OutcomeRefused, fault.Conflict,
			},
			"uncordon: its cordon has another reason now": {
				controls.Manner{Verb: controls.VerbUncordon, Anyone: true}, cordoned, func(b *bundle, n string) error {
					_, err := b.controls.Cordon(b.Context(), b.edit(b.sam, n, "keep it"), controls.Cordoning{Update: true})
					return err
				}, controls.OutcomeRefused, fault.Conflict,
			},
			"uncordon: it was drained since": {
				controls.Manner{Verb: controls.VerbUncordon, Anyone: true}, cordoned, func(b *bundle, n string) error {
					_, err := b.drainBy(b.Context(), b.edit(b.sam, n, ""))
					return err
				}, controls.OutcomeRefused, fault.Conflict,
			},
			"uncordon: it was uncordoned since": {
				controls.Manner{Verb: controls.VerbUncordon, Anyone: true}, cordoned, uncordoned, controls.OutcomeUnchanged, "",
			},
			"taint: the same key was moved since": {
				controls.Manner{Verb: controls.VerbTaint, Remove: []string{"x"}}, nil, tainted("x"), controls.OutcomeRefused, fault.Conflict,
			},
			"taint: another key was moved since": {
				controls.Manner{Verb: controls.VerbTaint, Add: []string{"y"}}, nil, tainted("x"), controls.OutcomeDone, "",
			},
			"label: the same key was set since": {
				controls.Manner{Verb: controls.VerbLabel, Set: map[string]string{"rack": "b7"}}, nil, func(b *bundle, n string) error {
					_, err := b.controls.Label(b.Context(), b.edit(b.sam, n, ""), rack("b9"))
					return err
				}, controls.OutcomeRefused, fault.Conflict,
			},
			"label: the same value was set since": {
				controls.Manner{Verb: controls.VerbLabel, Set: map[string]string{"rack": "b7"}}, nil, func(b *bundle, n string) error {
					_, err := b.controls.Label(b.Context(), b.edit(b.sam, n, ""), rack("b7"))
					return err
				}, controls.OutcomeUnchanged, "",
			},
			"label: another key was set since": {
				controls.Manner{Verb: controls.VerbLabel, Set: map[string]string{"row": "1"}}, nil, func(b *bundle, n string) error {
					_, err := b.controls.Label(b.Context(), b.edit(b.sam, n, ""), rack("b9"))
					return err
				}, controls.OutcomeDone, "",
			},
			"adopt: its acceptance began anew since": {
				verbs["adopt"], nil, func(b *bundle, n string) error {
					_, err := b.controls.Adopt(b.Context(), b.edit(b.sam, n, ""))
					return err
				}, controls.OutcomeRefused, fault.Conflict,
			},
			"adopt: it is in another state": {
				verbs["adopt"], func(b *bundle, n string) error {
					_, err := b.db.Pool().Exec(b.Context(), `update nodes set provision_state = 'RETIRED' where id = $1`, n)
					return err
				}, nil, controls.OutcomeRefused, fault.InvalidState,
			},
			"label: a key that inventory owns": {
				controls.Manner{Verb: controls.VerbLabel, Set: map[string]string{"gpu.model": "x"}}, func(b *bundle, n string) error {
					_, err := b.db.Pool().Exec(b.Context(), `insert into node_labels (node_id, key, value, source) values ($1, 'gpu.model', 'H100', 'INVENTORY')`, n)
					return err
				}, nil, controls.OutcomeRefused, fault.InvalidInput,
			},
			"cordon: it was deleted since": {
				verbs["cordon"], cordoned, func(b *bundle, n string) error {
					_, err := b.controls.Delete(b.Context(), b.edit(b.sam, n, ""))
					return err
				}, controls.OutcomeRefused, fault.NotFound,
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				n, other := b.node(), b.node()
				if c.before != nil {
					require.NoError(t, c.before(b, n))
				}
				selection := b.selected(b.alex, n, other)
				if c.since != nil {
					require.NoError(t, c.since(b, n))
				}
				was := b.log(n)
				o := b.begin(controls.ManyEdit{SelectionID: selection, Manner: c.manner})
				require.True(t, b.run(o).Over)
				r := b.results(o.ID)[n]
				require.Equal(t, []any{c.outcome, node.Text(c.code)}, []any{r.Outcome, r.Code}, r.Message)
				if c.outcome == controls.OutcomeDone {
					require.Greater(t, len(b.log(n)), len(was))
				} else {
					require.Equal(t, was, b.log(n), "it was left alone")
				}
				if c.code == fault.Conflict {
					require.Contains(t, r.Message, "changed since it was selected")
				}
			})
		}
	})

	t.Run("What an operation on the same selection did before is the author's own", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		selection := b.selected(b.alex, b.fleet(3)...)
		for _, name := range []string{"cordon", "uncordon", "cordon", "drain"} {
			o := b.begin(controls.ManyEdit{SelectionID: selection, Manner: verbs[name]})
			require.True(t, b.run(o).Over)
			require.Equal(t, "DONE: 3 done, 0 unchanged, 0 refused, 0 left", b.counts(o.ID), name)
		}
	})

	t.Run("Each node is judged when its turn comes: by the grants and the sight of then, and not for a token that was revoked", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			sql  string
			code fault.Code
		}{
			"a grant that is gone":  {`delete from grants where principal = 'alex'`, fault.Forbidden},
			"a node out of sight":   {`delete from node_projection`, fault.NotFound},
			"a node of another now": {`update node_projection set relation = 'SHARED'`, fault.Forbidden},
			"a token revoked":       {`update api_tokens set revoked_at = now() where principal = 'alex'`, fault.Unauthenticated},
			"a token that ended":    {`update api_tokens set expires_at = now() - interval '1 minute' where principal = 'alex'`, ""},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				ids := b.fleet(2)
				o := b.begin(controls.ManyEdit{SelectionID: b.selected(b.alex, ids...), Manner: verbs["cordon"]})
				_, err := b.db.Pool().Exec(t.Context(), c.sql)
				require.NoError(t, err)
				require.True(t, b.run(o).Over)
				for _, n := range ids {
					require.Equal(t, node.Text(c.code), b.results(o.ID)[n].Code)
				}
				require.Equal(t, map[bool]int{true: 2, false: 0}[c.code == ""], b.total("node.cordoned"))
			})
		}
	})

	t.Run("Stop: once it is answered nothing more is begun; what was done stays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		o := b.begin(controls.ManyEdit{SelectionID: b.selected(b.alex, b.fleet(2000)...), Manner: verbs["cordon"]})
		done := make(chan error, 1)
		go func() {
			_, err := b.controls.RunOperation(context.WithoutCancel(t.Context()), controls.OperationJob{OperationID: o.ID, Run: 1})
			done <- err
		}()
		b.eventually(20*time.Second, func() bool { return b.operation(o.ID).Done > 0 }, "it begins")
		stopped, err := b.controls.Stop(t.Context(), controls.Stopping{Who: b.sam, TenantID: "acme", OperationID: o.ID})
		require.NoError(t, err)
		was := b.total("node.cordoned")
		require.Equal(t, stopped.Operation.Done, was)
		require.NoError(t, <-done)
		require.Equal(t, was, b.total("node.cordoned"))
		require.Len(t, b.results(o.ID), was)
		require.Equal(t, stopped.Operation.Left() > 0, stopped.Changed)
	})

	t.Run("A defect of one node is that node's refusal, and the others go on", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := b.fleet(5)
		_, err := b.db.Pool().Exec(t.Context(), `
			create function broken() returns trigger language plpgsql as $$ begin raise 'broken'; end $$`)
		require.NoError(t, err)
		_, err = b.db.Pool().Exec(t.Context(), `create trigger broken before update on nodes for each row when (old.id = '`+ids[2]+`') execute function broken()`)
		require.NoError(t, err)
		o := b.begin(controls.ManyEdit{SelectionID: b.selected(b.alex, ids...), Manner: verbs["cordon"]})
		require.True(t, b.run(o).Over)
		require.Equal(t, "DONE: 4 done, 0 unchanged, 1 refused, 0 left", b.counts(o.ID))
		require.Equal(t, node.Text(fault.Internal), b.results(o.ID)[ids[2]].Code)
		require.NotContains(t, b.results(o.ID)[ids[2]].Message, "broken", "the truth is in the log alone")
	})
}

func cordoned(b *bundle, n string) error {
	_, err := b.cordon(b.Context(), b.edit(b.sam, n, "mine"))
	return err
}

func uncordoned(b *bundle, n string) error {
	_, err := b.uncordon(b.Context(), b.edit(b.sam, n, ""))
	return err
}

func tainted(key string) func(b *bundle, n string) error {
	return func(b *bundle, n string) error {
		_, err := b.controls.Taint(b.Context(), b.edit(b.sam, n, ""), controls.Taints{Add: []string{key}})
		return err
	}
}
