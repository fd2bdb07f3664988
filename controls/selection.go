package controls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

const (
	// MaxSelected is how many nodes one selection holds.
	MaxSelected = 20_000
	// MaxNamed is how many nodes one call can name by their ids.
	MaxNamed = 5_000
	// selectionLife is how long a selection can be used.
	selectionLife = time.Hour
	// maxSelections is how many selections a principal keeps in a tenant: with another one the oldest goes.
	maxSelections = 20
	// partSize is how many nodes are changed in one transaction.
	partSize = 250
)

// Selection is a set of nodes that was frozen: those that were there, whatever comes and goes.
type Selection struct {
	ID        string
	TenantID  string
	By        string
	Count     int
	CreatedAt time.Time
	ExpiresAt time.Time

	position int64
	logAt    time.Time
}

// Selecting says what to select: what a filter lets through, or what is named.
type Selecting struct {
	Who      iam.Actor
	TenantID string
	// Filter, or NodeIDs.
	Filter  *node.Filter
	NodeIDs []string
	// Expect is how many there must be; nil takes what there is.
	Expect    *int
	RequestID string
}

// Selected is what was selected.
type Selected struct {
	Selection Selection
	// Cursor is where the log stood.
	Cursor events.Cursor
}

// Select freezes which nodes the tenant sees and the filter lets through. What is named and not seen is NOT_FOUND.
//
// Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND, CONFLICT { expected, actual } for another number than was expected, RESOURCE_EXHAUSTED
// { limit } for too many.
func (c *Controls) Select(ctx context.Context, s Selecting) (Selected, error) {
	if err := s.check(); err != nil {
		return Selected{}, err
	}
	request, err := iam.NewRequest(s.Who, s.RequestID, "node.select", []any{s.TenantID, s.Filter, s.NodeIDs, s.Expect})
	if err != nil {
		return Selected{}, err
	}
	if err := c.Nodes.Authority.OnTenant(ctx, c.Nodes.DB.Pool(), s.Who, iam.NodesList, s.TenantID); err != nil {
		return Selected{}, err
	}
	var out Selected
	did, err := request.Once(ctx, c.Nodes.DB, func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
		out.Selection, err = c.freeze(ctx, tx, s)
		return iam.Answer{Made: []string{out.Selection.ID}}, err
	}, func(ctx context.Context, tx *db.Tx, a iam.Answer) (err error) {
		out.Selection, err = readSelection(ctx, tx, s.Who, s.TenantID, a.Made[0])
		return err
	})
	out.Cursor = did.Cursor
	return out, err
}

func (s Selecting) check() error {
	if err := id.Tenant("tenantId", s.TenantID); err != nil {
		return err
	}
	if (s.Filter == nil) == (s.NodeIDs == nil) {
		return fault.Invalid("filter", "must stand alone, or nodeIds: one of the two says what to select", 0)
	}
	if s.Expect != nil && (*s.Expect < 0 || *s.Expect > MaxSelected) {
		return fault.Invalid("expectCount", fmt.Sprintf("must be between 0 and %d", MaxSelected), 0)
	}
	if s.Filter == nil {
		return checkNamed(s.NodeIDs)
	}
	if s.Filter.IncludeDeleted {
		return fault.Invalid("filter.includeDeleted", "must not be set: nothing can be done to a deleted node", 0)
	}
	return s.Filter.Check()
}

// checkNamed says whether a list of nodes' ids is one that a call takes.
func checkNamed(ids []string) error {
	if len(ids) == 0 || len(ids) > MaxNamed {
		return fault.Invalid("nodeIds", fmt.Sprintf("must hold 1 to %d ids; select more by a filter", MaxNamed), len(ids))
	}
	named := make(map[string]bool, len(ids))
	for _, nodeID := range ids {
		if err := id.Check(id.Node, "nodeIds", nodeID); err != nil {
			return err
		}
		if named[nodeID] {
			return fault.Invalid("nodeIds", "must hold each id once, and "+nodeID+" stands there twice", 0)
		}
		named[nodeID] = true
	}
	return nil
}

func (c *Controls) freeze(ctx context.Context, tx *db.Tx, s Selecting) (Selection, error) {
	filter := s.Filter
	if filter == nil {
		filter = &node.Filter{NodeIDs: s.NodeIDs}
	}
	frozen, err := c.Nodes.Freeze(ctx, tx, s.TenantID, filter, MaxSelected)
	if err != nil {
		return Selection{}, err
	}
	if s.NodeIDs != nil && len(frozen.Nodes) < len(s.NodeIDs) {
		seen := make(map[string]bool, len(frozen.Nodes))
		for _, n := range frozen.Nodes {
			seen[n.ID] = true
		}
		for _, nodeID := range s.NodeIDs {
			if !seen[nodeID] {
				return Selection{}, iam.NoSuchNode(nodeID)
			}
		}
	}
	if n := len(frozen.Nodes); s.Expect != nil && *s.Expect != n {
		return Selection{}, fault.New(fault.Conflict, fault.Details{"expected": *s.Expect, "actual": n},
			"%s and not %d, so nothing was selected; look at them and say what you expect", counted(n, "node matches", "nodes match"), *s.Expect)
	}
	made := Selection{
		ID: id.New(id.Selection), TenantID: s.TenantID, By: s.Who.Name, Count: len(frozen.Nodes), CreatedAt: frozen.Now, ExpiresAt: frozen.Now.Add(selectionLife),
	}
	tx.Send(`
		delete from node_selections where id in (
			select id from node_selections where tenant_id = $1 and by = $2 order by created_at desc, id desc offset $3)`, s.TenantID, s.Who.Name, maxSelections-1)
	tx.Send(`insert into node_selections (id, tenant_id, by, count, position, log_at, created_at, expires_at) values ($1, $2, $3, $4, $5, $6, $7, $8)`,
		made.ID, made.TenantID, made.By, made.Count, frozen.Position, frozen.LogAt, made.CreatedAt, made.ExpiresAt)
	for i, p := range partsOf(frozen.Nodes) {
		tx.Send(`insert into node_selection_parts (selection_id, part, pool_id, node_ids, versions) values ($1, $2, $3, $4, $5)`,
			made.ID, i, p.pool, p.ids, p.versions)
	}
	return made, nil
}

// part is nodes of one pool that are changed together at most.
type part struct {
	pool     string
	ids      []string
	versions []*int
}

// partsOf cuts nodes that are sorted by pool and id.
func partsOf(nodes []node.FrozenNode) []part {
	var parts []part
	for _, n := range nodes {
		if last := len(parts) - 1; last < 0 || parts[last].pool != n.PoolID || len(parts[last].ids) == partSize {
			parts = append(parts, part{pool: n.PoolID})
		}
		p := &parts[len(parts)-1]
		p.ids, p.versions = append(p.ids, n.ID), append(p.versions, &n.Version)
	}
	return parts
}

// Selection gives a selection to its author. Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND, also for one that has run out.
func (c *Controls) Selection(ctx context.Context, who iam.Actor, tenant, selectionID string) (Selection, error) {
	if err := id.Tenant("tenantId", tenant); err != nil {
		return Selection{}, err
	}
	if err := id.Check(id.Selection, "selectionId", selectionID); err != nil {
		return Selection{}, err
	}
	if err := c.Nodes.Authority.OnTenant(ctx, c.Nodes.DB.Pool(), who, iam.NodesList, tenant); err != nil {
		return Selection{}, err
	}
	return readSelection(ctx, c.Nodes.DB.Pool(), who, tenant, selectionID)
}

func readSelection(ctx context.Context, q db.Querier, who iam.Actor, tenant, selectionID string) (Selection, error) {
	var s Selection
	err := q.QueryRow(ctx, `
		select id, tenant_id, by, count, created_at, expires_at, position, log_at from node_selections
		where id = $1 and tenant_id = $2 and by = $3 and expires_at > clock_timestamp()`, selectionID, tenant, who.Name).
		Scan(&s.ID, &s.TenantID, &s.By, &s.Count, &s.CreatedAt, &s.ExpiresAt, &s.position, &s.logAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Selection{}, fault.New(fault.NotFound, fault.Details{"selectionId": selectionID},
			"no selection %s of yours, or it has run out after an hour; select anew", selectionID)
	}
	if err != nil {
		return Selection{}, fmt.Errorf("read the selection: %w", err)
	}
	return s, nil
}

// counted gives a number with the words for one or for several.
func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
