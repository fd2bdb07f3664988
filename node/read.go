package node

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
)

// Get gives one node as the tenant sees it. Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND.
func (s *Store) Get(ctx context.Context, who iam.Actor, tenant, nodeID string) (*View, error) {
	return s.GetFor(ctx, who, iam.NodesGet, tenant, nodeID)
}

// GetFor is Get for who has to hold another action on the node.
func (s *Store) GetFor(ctx context.Context, who iam.Actor, action iam.Action, tenant, nodeID string) (*View, error) {
	if err := id.Tenant("tenantId", tenant); err != nil {
		return nil, err
	}
	if err := id.Check(id.Node, "nodeId", nodeID); err != nil {
		return nil, err
	}
	sight, err := s.Authority.OnNode(ctx, s.DB.Pool(), who, action, tenant, nodeID)
	if fault.CodeOf(err) == fault.NotFound && action == iam.NodesGet {
		return s.tombstone(ctx, who, action, tenant, nodeID, err)
	}
	if err != nil {
		return nil, err
	}
	views, err := s.collect(ctx, tenant, seeing{owned: "$2::boolean"}, "nodes n join pools p on p.id = n.pool_id where n.id = $1 and n.deleted_at is null",
		nodeID, sight.Full())
	if err != nil {
		return nil, err
	}
	if len(views) == 0 {
		// It was deleted between the two statements: the answer is the one that a moment later gives.
		err := iam.NoSuchNode(nodeID)
		if action != iam.NodesGet {
			return nil, err
		}
		return s.tombstone(ctx, who, action, tenant, nodeID, err)
	}
	views[0].Rights = sight.Rights
	return views[0], nil
}

// Views gives, for a tenant, those of the nodes that it sees now; for what already decided that the caller may read them.
func (s *Store) Views(ctx context.Context, tenant string, ids []string) (map[string]*View, error) {
	views, err := s.collect(ctx, tenant, seeing{owned: "seen.owned"}, `nodes n join pools p on p.id = n.pool_id
		join lateral (select bool_or(relation = 'OWNER') as owned from node_projection where tenant_id = $1 and node_id = n.id) as seen
		  on seen.owned is not null
		where n.id = any($2) and n.deleted_at is null`, tenant, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[string]*View, len(views))
	for _, v := range views {
		out[v.ID] = v
	}
	return out, nil
}

// seeing are the expressions of a read that depend on who reads: whether the tenant owns the node, and the node's place in a list, if there is one.
type seeing struct{ owned, place string }

// collect reads the nodes n, with their pools p, that the rest of a statement gives.
func (s *Store) collect(ctx context.Context, seer string, by seeing, from string, args ...any) ([]*View, error) {
	if by.place == "" {
		by.place = "''"
	}
	rows, err := s.DB.Pool().Query(ctx, "select "+columns+", "+by.owned+", p.id, p.tenant_id, p.name, p.created_at, "+by.place+","+ownParts+" from "+from, args...)
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	views, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*View, error) {
		v := View{Seer: seer}
		var p parts
		var err error
		v.Node, err = scan(row, &v.Full, &v.Pool.ID, &v.Pool.TenantID, &v.Pool.Name, &v.Pool.CreatedAt, &v.place, &p.reasons, &p.labels, &p.drain)
		if err != nil {
			return nil, err
		}
		return &v, p.into(v.Node)
	})
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	for _, v := range views {
		v.reduce()
	}
	return views, nil
}

// Order is the order of a list of nodes.
type Order string

// The orders.
const (
	ByHostname Order = "HOSTNAME_ASC"
	ByCreation Order = "CREATED_DESC"
	ByLastSeen Order = "LAST_SEEN_ASC"
	ByOutSince Order = "OUT_SINCE_ASC"
)

// Listing says what to list and which part of it.
type Listing struct {
	Tenant string
	Filter Filter
	Order  Order
	First  int
	// After is the cursor of the last entry of the page before; empty for the first page.
	After string
	// Count has all that match counted: Listed.Total.
	Count bool
}

// Listed is a page of nodes.
type Listed struct {
	Views []*View
	// Cursors are the entries' places in the list.
	Cursors []string
	More    bool
	// Total is how many match, exact up to 100,000; zero when that was not asked.
	Total int
	// AsOf is a position of the log at or before everything that the page shows: following after it misses nothing.
	AsOf events.Cursor
}

// maxTotal is up to where the total is counted.
const maxTotal = 100_000

// MaxFirst is the largest page of any list.
const MaxFirst = 500

// List gives the nodes that the tenant sees. Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN.
func (s *Store) List(ctx context.Context, who iam.Actor, l Listing) (Listed, error) {
	if err := id.Tenant("tenantId", l.Tenant); err != nil {
		return Listed{}, err
	}
	if l.First < 1 || l.First > MaxFirst {
		return Listed{}, fault.Invalid("first", "must be between 1 and "+strconv.Itoa(MaxFirst), 0)
	}
	if err := l.Filter.Check(); err != nil {
		return Listed{}, err
	}
	sort, err := l.Order.sort()
	if err != nil {
		return Listed{}, err
	}
	rights, err := s.Authority.Rights(ctx, s.DB.Pool(), who, iam.NodesList, l.Tenant)
	if err != nil {
		return Listed{}, err
	}
	q := l.Filter.query(l.Tenant)
	var out Listed
	// The log's position first: what commits between this statement and the next is in the page and comes once more by the log, never neither.
	total := "0"
	if l.Count {
		total = "(select count(*) from (" + l.Filter.counted(q) + " limit " + strconv.Itoa(maxTotal) + ") as counted)"
	}
	err = s.DB.Pool().QueryRow(ctx, "select epoch, position, "+total+" from event_clock", q.args).Scan(&out.AsOf.Epoch, &out.AsOf.Position, &out.Total)
	if err != nil {
		return Listed{}, fmt.Errorf("count the nodes: %w", err)
	}
	if l.After != "" {
		after, err := parseListCursor(l.Order, l.After)
		if err != nil {
			return Listed{}, err
		}
		q.args["afterKey"], q.args["afterID"] = after.Key, after.ID
		q.and("(" + sort.key + ", n.id) " + sort.beyond + " (@afterKey, @afterID)")
	}
	q.args["first"] = l.First + 1
	out.Views, err = s.collect(ctx, l.Tenant, seeing{owned: "seen.owned", place: sort.key},
		l.Filter.from()+q.where()+" order by "+sort.key+" "+sort.direction+", n.id "+sort.direction+" limit @first", q.args)
	if err != nil {
		return Listed{}, err
	}
	if len(out.Views) > l.First {
		out.Views, out.More = out.Views[:l.First], true
	}
	out.Cursors = make([]string, len(out.Views))
	for i, v := range out.Views {
		v.Rights = rights
		out.Cursors[i] = listCursor{Order: l.Order, Key: v.place, ID: v.ID}.String()
	}
	return out, nil
}

// seenNodes joins each node with how the tenant sees it.
const seenNodes = `nodes n join pools p on p.id = n.pool_id
	join lateral (select bool_or(relation = 'OWNER') as owned from node_projection where tenant_id = @tenant and node_id = n.id) as seen
	  on seen.owned is not null
	left join node_liveness l on l.node_id = n.id
	where n.deleted_at is null`

// seenOrGone joins each node with how the tenant sees it, and as its own those that were and are deleted.
const seenOrGone = `nodes n join pools p on p.id = n.pool_id
	join lateral (select case when n.deleted_at is null then (select bool_or(relation = 'OWNER') from node_projection where tenant_id = @tenant and node_id = n.id)
	                          when n.owner_tenant_id = @tenant then true end as owned) as seen on seen.owned is not null
	left join node_liveness l on l.node_id = n.id
	where true`

// from gives the nodes that a list is of.
func (f *Filter) from() string {
	if f.IncludeDeleted {
		return seenOrGone
	}
	return seenNodes
}

const (
	// allSeenNodes and allUndeleted are the same for statements that go through all of them; more joins may stand between.
	allSeenNodes = `(select node_id, bool_or(relation = 'OWNER') as owned from node_projection where tenant_id = @tenant group by node_id) as seen
	join nodes n on n.id = seen.node_id join pools p on p.id = n.pool_id
	left join node_liveness l on l.node_id = n.id`
	allUndeleted = ` where n.deleted_at is null`
)

// counted gives a row for each node that a list is of. A page looks at each node's sight by itself, for it stops early; a count goes through all, and
// so begins with what the tenant sees, or with the few nodes that are named.
func (f *Filter) counted(q query) string {
	switch {
	case f.IncludeDeleted || f.NodeIDs != nil:
		return "select 1 from " + f.from() + q.where()
	case len(q.conditions) == 0:
		// A deleted node is in no projection.
		return "select distinct node_id from node_projection where tenant_id = @tenant"
	}
	return "select 1 from " + allSeenNodes + allUndeleted + q.where()
}

// sorting is how an order sorts: by a text that sorts like the value, so that cursors have one shape.
type sorting struct{ key, direction, beyond string }

// sortable writes a time as text that sorts like it.
func sortable(expression string) string {
	return `to_char(` + expression + ` at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')`
}

func (o Order) sort() (sorting, error) {
	switch o {
	case ByHostname:
		return sorting{`n.hostname collate "C"`, "asc", ">"}, nil
	case ByCreation:
		return sorting{sortable("n.created_at") + ` collate "C"`, "desc", "<"}, nil
	case ByLastSeen:
		return sorting{"coalesce(" + sortable("l.last_seen") + `, '') collate "C"`, "asc", ">"}, nil
	case ByOutSince:
		// Those in service come last: '~' sorts after every digit.
		return sorting{`coalesce(` + sortable(`least(n.cordon_at, n.failure_at,
			(select min(r.since) from node_reasons r where r.node_id = n.id),
			case when n.credential <> 'TRUSTED' then n.credential_since end)`) + `, '~') collate "C"`, "asc", ">"}, nil
	}
	return sorting{}, fault.Invalid("orderBy", "must be one of the orders that the schema lists", 0)
}

// listCursor is an entry's place: the order it is of, its sort key and its id.
type listCursor struct {
	Order Order  `json:"o"`
	Key   string `json:"k"`
	ID    string `json:"i"`
}

// listKind begins the text of a list's cursor, so that the log's can't be taken for one.
const listKind = "N."

func (c listCursor) String() string {
	b, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return listKind + base64.RawURLEncoding.EncodeToString(b)
}

func parseListCursor(order Order, s string) (listCursor, error) {
	bad := fault.Invalid("after", "must be the cursor of an entry of this list in this order", len(s))
	text, ok := strings.CutPrefix(s, listKind)
	if !ok || len(s) > 2048 {
		return listCursor{}, bad
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return listCursor{}, bad
	}
	var c listCursor
	if err := json.Unmarshal(b, &c); err != nil || c.Order != order || id.Check(id.Node, "after", c.ID) != nil || !clean(c.Key) {
		return listCursor{}, bad
	}
	if c.String() != s { // one place has one text: no line breaks, no other spelling of the same JSON
		return listCursor{}, bad
	}
	return c, nil
}
