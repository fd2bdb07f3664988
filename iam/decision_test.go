package iam_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
)

// actions reads the constants of type Action in the package's source, so that a new action is in the table by itself.
func actions(t *testing.T) []iam.Action {
	t.Helper()
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	var all []iam.Action
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "Action" {
				text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				all = append(all, iam.Action(text))
			}
			return true
		})
	}
	require.Contains(t, all, iam.NodesCordon)
	return all
}

// guests are the actions that a tenant which sees a node without owning it may do there. Every other needs OWNER.
var guests = map[iam.Action]bool{
	iam.NodesList: true, iam.NodesGet: true, iam.NodesEvents: true,
	iam.ReservationsRead: true, iam.ReservationsCreate: true, iam.ReservationsEnd: true,
}

func TestDecision(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.grant("admin", "acme", "admin")
	b.grant("root", "", "admin")
	b.grant("elsewhere", "other", "admin")
	b.grant("odd", "acme", "janitor")
	all := actions(t)

	type row struct {
		relations []iam.Relation
		sees      bool
		owns      bool
	}
	table := map[string]row{
		"nothing":         {nil, false, false},
		"OWNER":           {[]iam.Relation{iam.Owner}, true, true},
		"SHARED":          {[]iam.Relation{iam.Shared}, true, false},
		"ALLOCATED":       {[]iam.Relation{iam.Allocated}, true, false},
		"DEDICATED":       {[]iam.Relation{iam.Dedicated}, true, false},
		"OWNER and more":  {[]iam.Relation{iam.Owner, iam.Shared, iam.Allocated}, true, true},
		"guest in two":    {[]iam.Relation{iam.Shared, iam.Dedicated}, true, false},
		"only of another": {nil, false, false},
	}
	for name, r := range table {
		t.Run("acme holds of the node: "+name, func(t *testing.T) {
			t.Parallel()
			b := *b
			b.T = t
			relations := map[string][]iam.Relation{"acme": r.relations}
			if name == "only of another" {
				relations["other"] = []iam.Relation{iam.Owner}
			}
			n := b.node(relations)
			decide := func(who iam.Actor, action iam.Action) error {
				_, err := b.authority.OnNode(t.Context(), b.db.Pool(), who, action, "acme", n)
				return err
			}
			nobody, elsewhere, odd := b.signedIn("nobody"), b.signedIn("elsewhere"), b.signedIn("odd")
			for _, admin := range []iam.Actor{b.signedIn("admin"), b.signedIn("root")} {
				for _, action := range all {
					err := decide(admin, action)
					switch {
					case !r.sees:
						require.Equal(t, fault.NotFound, code(err), "%s: %s", admin.Name, action)
					case r.owns || guests[action]:
						require.NoError(t, err, "%s: %s", admin.Name, action)
					default:
						require.Equal(t, fault.Forbidden, code(err), "%s: %s", admin.Name, action)
					}
				}
			}
			for _, action := range all {
				// Who holds no role in the tenant learns nothing of what is in it.
				require.Equal(t, fault.Forbidden, code(decide(nobody, action)), action)
				require.Equal(t, fault.Forbidden, code(decide(elsewhere, action)), action)
				// A role without a policy gives nothing but the difference between seen and not seen.
				if r.sees {
					require.Equal(t, fault.Forbidden, code(decide(odd, action)), action)
				} else {
					require.Equal(t, fault.NotFound, code(decide(odd, action)), action)
				}
			}
		})
	}

	t.Run("Nobody, a node's daemon and a token that does not count are UNAUTHENTICATED; the control plane may everything", func(t *testing.T) {
		t.Parallel()
		b := *b
		b.T = t
		n := b.node(map[string][]iam.Relation{"acme": {iam.Owner}})
		late, revoked := b.signedIn("admin"), b.signedIn("admin")
		b.exec(`update api_tokens set expires_at = now() where jti = $1`, late.TokenID)
		require.NoError(t, b.issuer.RevokeToken(t.Context(), revoked.TokenID))
		unknown := b.signedIn("admin")
		unknown.TokenID = id.New(id.Token)
		for name, who := range map[string]iam.Actor{
			"zero": {}, "node": iam.NodeActor(n), "named like a controller": {Name: "drain-controller"}, "expired": late, "revoked": revoked, "unknown": unknown,
		} {
			_, err := b.authority.OnNode(t.Context(), b.db.Pool(), who, iam.NodesGet, "acme", n)
			require.Equal(t, fault.Unauthenticated, code(err), name)
			require.Equal(t, fault.Unauthenticated, code(b.authority.OnTenant(t.Context(), b.db.Pool(), who, iam.NodesList, "acme")), name)
			require.Equal(t, fault.Unauthenticated, code(b.authority.Reader(who, "acme", iam.NodesEvents).Check(t.Context())), name)
		}
		sight, err := b.authority.OnNode(t.Context(), b.db.Pool(), iam.System("sweep"), iam.NodesCordon, "acme", n)
		require.NoError(t, err)
		require.True(t, sight.Full())
	})

	t.Run("A tenant that was never made is told to those who hold a grant in every tenant, and to nobody else", func(t *testing.T) {
		t.Parallel()
		b := *b
		b.T = t
		n := b.node(map[string][]iam.Relation{"acme": {iam.Owner}})
		for name, want := range map[string]fault.Code{"root": fault.NotFound, "admin": fault.Forbidden, "nobody": fault.Forbidden} {
			who := b.signedIn(name)
			require.Equal(t, want, code(b.authority.OnTenant(t.Context(), b.db.Pool(), who, iam.NodesList, "amce")), name)
			require.Equal(t, want, code(b.authority.Reader(who, "amce", iam.NodesEvents).Check(t.Context())), name)
			_, err := b.authority.OnNode(t.Context(), b.db.Pool(), who, iam.NodesGet, "amce", n)
			require.Equal(t, want, code(err), name)
		}
	})

	t.Run("Rights say for every action what the decision on an owned node says, and the unknown ones nothing", func(t *testing.T) {
		t.Parallel()
		b := *b
		b.T = t
		rights, err := b.authority.Rights(t.Context(), b.db.Pool(), b.signedIn("admin"), iam.NodesList, "acme")
		require.NoError(t, err)
		var unknown iam.Rights
		for _, action := range all {
			require.True(t, rights.May(action), action)
			require.False(t, unknown.May(action), action)
		}
		_, err = b.authority.Rights(t.Context(), b.db.Pool(), b.signedIn("odd"), iam.NodesList, "acme")
		require.Equal(t, fault.Forbidden, code(err))
	})
}

// statements counts what is sent to the database.
type statements struct {
	mu   sync.Mutex
	sent []string
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, d.SQL)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	t.Run("H3 another's node, a deleted one and one that never was are one answer by the same statements", func(t *testing.T) {
		t.Parallel()
		trace := &statements{}
		b := setup(t, dbtest.With(func(c *db.Config) { c.Tracer = trace }))
		b.grant("admin", "acme", "admin")
		who := b.signedIn("admin")
		deleted := b.node(map[string][]iam.Relation{"acme": {iam.Owner}})
		b.exec(`update nodes set deleted_at = now() where id = $1`, deleted)
		b.do(func(ctx context.Context, tx *db.Tx) error { return iam.WithdrawTx(ctx, tx, "acme", deleted, iam.Owner) })
		var answer string
		var sent []string
		for i, n := range []string{id.New(id.Node), b.node(map[string][]iam.Relation{"other": {iam.Owner}}), deleted} {
			trace.take()
			_, err := b.authority.OnNode(t.Context(), b.db.Pool(), who, iam.NodesCordon, "acme", n)
			f := fault.From(err)
			require.Equal(t, fault.Details{"nodeId": n}, f.Details)
			got := string(f.Code) + strings.ReplaceAll(f.Message, n, "…")
			if i == 0 {
				answer, sent = got, trace.take()
				require.NotEmpty(t, sent)
				continue
			}
			require.Equal(t, answer, got)
			require.Equal(t, sent, trace.take())
		}
	})
}

func TestProjection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node(map[string][]iam.Relation{"acme": {iam.Owner, iam.Shared}, "other": {iam.Shared, iam.Allocated}})
	lone := b.node(nil)
	audience := func() events.Audience {
		all, err := iam.Audiences(t.Context(), b.db.Pool(), []string{n, lone})
		require.NoError(t, err)
		require.NotContains(t, all, lone, "nobody sees it")
		return all[n]
	}
	withdraw := func(tenant string, r iam.Relation) {
		b.do(func(ctx context.Context, tx *db.Tx) error { return iam.WithdrawTx(ctx, tx, tenant, n, r) })
	}
	// A tenant is in the audience once, with its best view; each relation is withdrawn by itself.
	require.Equal(t, events.Audience{Full: []string{"acme"}, Reduced: []string{"other"}}, audience())
	withdraw("other", iam.Shared)
	require.Equal(t, []string{"other"}, audience().Reduced, "the allocation still shows it")
	withdraw("other", iam.Allocated)
	require.Empty(t, audience().Reduced)
	withdraw("acme", iam.Owner)
	require.Equal(t, events.Audience{Full: []string{}, Reduced: []string{"acme"}}, audience())
	// Since when a tenant sees a node doesn't move when that is said again.
	var before, after time.Time
	since := `select since from node_projection where node_id = $1 and tenant_id = 'acme'`
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), since, n).Scan(&before))
	b.do(func(ctx context.Context, tx *db.Tx) error { return iam.ProjectTx(ctx, tx, "acme", n, iam.Shared) })
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), since, n).Scan(&after))
	require.Equal(t, before, after)
}

func TestReader(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := events.Event{
		Position: 7, ID: "evt", Type: "node.drained", TenantID: "acme", NodeID: "n", Actor: "alex", Reason: "PSU", RequestID: "r",
		Data:     []byte(`{"drainId": "drn", "confirmedByNode": true, "note": "secret"}`),
		Audience: events.Audience{Full: []string{"acme"}, Reduced: []string{"other"}},
	}
	whole, ok := b.authority.Reader(iam.Actor{}, "acme", iam.NodesEvents).View(e)
	require.True(t, ok)
	require.Equal(t, e, whole)
	cut, ok := b.authority.Reader(iam.Actor{}, "other", iam.NodesEvents).View(e)
	require.True(t, ok)
	require.JSONEq(t, `{"drainId": "drn", "confirmedByNode": true}`, string(cut.Data))
	require.Equal(t, []string{"operator", "", "", ""}, []string{cut.Actor, cut.Reason, cut.RequestID, cut.TenantID})
	require.Equal(t, []any{e.Position, e.ID, e.Type, e.NodeID}, []any{cut.Position, cut.ID, cut.Type, cut.NodeID})
	_, ok = b.authority.Reader(iam.Actor{}, "third", iam.NodesEvents).View(e)
	require.False(t, ok)
	// Security events are for who may read those, and that is found by a check.
	b.grant("admin", "acme", "admin")
	quarantined := events.Event{Type: "security.node.quarantined", Audience: events.Audience{Full: []string{"acme"}}}
	admin := b.authority.Reader(b.signedIn("admin"), "acme", iam.NodesEvents)
	_, ok = admin.View(quarantined)
	require.False(t, ok, "not checked yet")
	require.NoError(t, admin.Check(t.Context()))
	_, ok = admin.View(quarantined)
	require.True(t, ok)
	janitor := b.authority.Reader(b.signedIn("janitor"), "acme", iam.NodesEvents)
	require.Equal(t, fault.Forbidden, code(janitor.Check(t.Context())))
	_, ok = janitor.View(quarantined)
	require.False(t, ok)
	// A type that no rule knows shows none of its fields, whatever they are.
	for _, data := range []string{`{"a": 1}`, `[1]`, `"x"`, ``} {
		e.Type, e.Data = "node.anything", []byte(data)
		cut, _ = b.authority.Reader(iam.Actor{}, "other", iam.NodesEvents).View(e)
		require.JSONEq(t, `{}`, string(cut.Data))
	}
}
