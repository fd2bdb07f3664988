package node

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

// LabelMatch is a condition on a label: one of the values, or that the key exists.
type LabelMatch struct {
	Key    string
	Values []string
}

// Filter says which nodes to list: all conditions must hold. The zero value lists all.
//
// What a tenant that does not own a node can't read of it, it can't find it by either: for such a condition the node is as one that has nothing.
type Filter struct {
	PoolID          *string
	NodeIDs         []string
	Hostnames       []string
	Text            *string
	ProvisionStates []ProvisionState
	Connectivity    []Connectivity
	Cordoned        *bool
	CordonOverdue   *bool
	Draining        *bool
	DrainOverdue    *bool
	Maintenance     *bool
	PlaceableFor    []Placeable
	DedicatedTo     *string
	Reasons         []string
	Taints          []string
	Labels          []LabelMatch
	CordonedBefore  *time.Time
	LastSeenBefore  *time.Time
	AgentVersions   []string
	LiveAllocations *bool
	// IncludeDeleted lists the tenant's deleted nodes too; only the outermost filter of a list can.
	IncludeDeleted bool
	Not            *Filter
	Or             []Filter
}

// How a filter is bounded: the entries of a list, how deep filters nest, and how many there are in all.
const (
	maxList    = 500
	maxNesting = 3
	maxFilters = 32
)

// Check says whether the filter can be read; if not, it is INVALID_INPUT naming the argument.
func (f *Filter) Check() error {
	left := maxFilters
	return f.check("filter", 0, &left)
}

func (f *Filter) check(name string, depth int, left *int) error {
	if *left--; *left < 0 || depth > maxNesting {
		return fault.Invalid("filter", "must nest at most 3 deep and hold at most 32 filters", 0)
	}
	if f.IncludeDeleted && depth > 0 {
		return fault.Invalid(name+".includeDeleted", "must stand in the outermost filter", 0)
	}
	if err := f.checkOwn(name); err != nil {
		return err
	}
	if f.Not != nil {
		if err := f.Not.check(name+".not", depth+1, left); err != nil {
			return err
		}
	}
	for i := range f.Or {
		if err := f.Or[i].check(name+".or", depth+1, left); err != nil {
			return err
		}
	}
	return nil
}

func (f *Filter) checkOwn(name string) error {
	if f.PoolID != nil {
		if err := id.Check(id.Pool, name+".poolId", *f.PoolID); err != nil {
			return err
		}
	}
	for _, nodeID := range f.NodeIDs {
		if err := id.Check(id.Node, name+".nodeIds", nodeID); err != nil {
			return err
		}
	}
	if f.DedicatedTo != nil {
		if err := id.Tenant(name+".dedicatedTo", *f.DedicatedTo); err != nil {
			return err
		}
	}
	if f.Text != nil {
		if n := utf8.RuneCountInString(*f.Text); n > 256 || !clean(*f.Text) {
			return fault.Invalid(name+".text", "must be at most 256 characters of text", n)
		}
	}
	for list, n := range map[string]int{
		"nodeIds": len(f.NodeIDs), "provisionStates": len(f.ProvisionStates), "connectivity": len(f.Connectivity), "placeableFor": len(f.PlaceableFor),
		"labels": len(f.Labels),
	} {
		if n > maxList {
			return fault.Invalid(name+"."+list, "must hold at most "+strconv.Itoa(maxList)+" entries", n)
		}
	}
	for list, texts := range map[string][]string{"hostnames": f.Hostnames, "reasons": f.Reasons, "taints": f.Taints, "agentVersions": f.AgentVersions} {
		if err := checkTexts(name+"."+list, texts); err != nil {
			return err
		}
	}
	for _, m := range f.Labels {
		if err := checkTexts(name+".labels.key", []string{m.Key}); err != nil {
			return err
		}
		if err := checkTexts(name+".labels.values", m.Values); err != nil {
			return err
		}
	}
	return nil
}

func checkTexts(argument string, texts []string) error {
	if len(texts) > maxList {
		return fault.Invalid(argument, "must hold at most "+strconv.Itoa(maxList)+" entries", len(texts))
	}
	for _, s := range texts {
		if !clean(s) {
			return fault.Invalid(argument, "must be text without control characters", utf8.RuneCountInString(s))
		}
	}
	return nil
}

// query is the condition on a row of seenNodes that a filter makes, with its arguments by name.
type query struct {
	conditions []string
	args       pgx.NamedArgs
}

func (f *Filter) query(tenant string) query {
	q := query{args: pgx.NamedArgs{"tenant": tenant}}
	f.where(&q)
	return q
}

func (q *query) and(condition string) { q.conditions = append(q.conditions, condition) }

// where continues a where clause.
func (q *query) where() string {
	if len(q.conditions) == 0 {
		return ""
	}
	return " and " + strings.Join(q.conditions, " and ")
}

// arg keeps a value and gives its name in the statement.
func (q *query) arg(value any) string {
	name := "f" + strconv.Itoa(len(q.args))
	q.args[name] = value
	return "@" + name
}

// has adds a condition on a value if there is one; it stands where the condition says ?.
func has[T any](q *query, value *T, condition string) {
	if value != nil {
		q.and(strings.ReplaceAll(condition, "?", q.arg(*value)))
	}
}

// whether adds that there is such a row, or that there is none. Written out like that, and not compared with a value, PostgreSQL can begin with the few rows
// that there are.
func whether(q *query, value *bool, exists string) {
	switch {
	case value == nil:
	case *value:
		q.and(exists)
	default:
		q.and("not " + exists)
	}
}

// among adds a condition on a list if it was given; an empty list matches nothing.
func among[T any](q *query, values []T, condition string) {
	if values != nil {
		q.and(strings.ReplaceAll(condition, "?", q.arg(values)))
	}
}

// closedSQL is whether the node's own row keeps all work off it.
const closedSQL = `n.provision_state <> 'ADOPTED' or n.cordoned or n.maintenance or n.credential <> 'TRUSTED'`

// placeableSQL is PlaceableFor of the node as the tenant sees it.
const placeableSQL = `case when ` + closedSQL + ` then 'NONE' else
	(select case when count(*) = 0 then 'ALL'
	             when count(*) = 1 and bool_and(starts_with(r.reason, '` + PrefixDedicated + `') and (seen.owned or r.reason = '` + PrefixDedicated + `' || @tenant))
	             then 'ONE_TENANT' else 'NONE' end
	 from node_reasons r where r.node_id = n.id) end`

// heldOfAll joins what keeps work off the nodes and their running drains, once for all of them: asked of each by itself that is most of what a count of a
// large fleet costs. placeableOfAll is placeableSQL by it.
const (
	heldOfAll = `
	left join (select node_id, count(*) as many, bool_and(starts_with(reason, '` + PrefixDedicated + `')) as dedicated,
	                  bool_and(reason = '` + PrefixDedicated + `' || @tenant) as mine
	           from node_reasons group by node_id) as held on held.node_id = n.id
	left join node_drains drains on drains.node_id = n.id and drains.state = 'DRAINING'`
	placeableOfAll = `case when ` + closedSQL + ` then 'NONE'
		when held.node_id is null then 'ALL' when held.many = 1 and held.dedicated and (seen.owned or held.mine) then 'ONE_TENANT' else 'NONE' end`
)

// heldSQL is whether the node has one of the reasons, by the names under which the tenant reads them: of another's dedication, only that there is one.
const heldSQL = `exists (select from node_reasons r where r.node_id = n.id and (case
	when seen.owned or not starts_with(r.reason, '` + PrefixDedicated + `') or r.reason = '` + PrefixDedicated + `' || @tenant then r.reason
	else '` + dedicatedToOther + `' end) = any(?))`

// heldNamedSQL is heldSQL for names that are the rows' own, which all but one are. Its first part does not look at who asks, so that PostgreSQL can begin
// with the few rows that there are.
const heldNamedSQL = `(exists (select from node_reasons r where r.node_id = n.id and r.reason = any(?))
	and (seen.owned or exists (select from node_reasons r where r.node_id = n.id and r.reason = any(?)
		and (not starts_with(r.reason, '` + PrefixDedicated + `') or r.reason = '` + PrefixDedicated + `' || @tenant))))`

// held adds that the node has one of the reasons, if any were given.
func held(q *query, reasons []string) {
	if slices.Contains(reasons, dedicatedToOther) {
		among(q, reasons, heldSQL)
		return
	}
	among(q, reasons, heldNamedSQL)
}

// drainingSQL is whether a drain runs on the node.
const drainingSQL = `exists (select from node_drains d where d.node_id = n.id and d.state = 'DRAINING')`

func (f *Filter) where(q *query) {
	has(q, f.PoolID, "n.pool_id = ?")
	among(q, f.NodeIDs, "n.id = any(?)")
	among(q, f.Hostnames, "n.hostname = any(?)")
	has(q, f.Text, `(strpos(lower(n.hostname), lower(?)) > 0 or strpos(n.id, lower(?)) > 0
		or exists (select from node_labels b where b.node_id = n.id and strpos(lower(b.value), lower(?)) > 0
			and (seen.owned or b.source <> 'OPERATOR')))`)
	among(q, f.ProvisionStates, "n.provision_state = any(?)")
	among(q, f.Connectivity, "n.connectivity = any(?)")
	has(q, f.Cordoned, "n.cordoned = ?")
	has(q, f.CordonOverdue, "coalesce(n.cordon_until <= now() and seen.owned, false) = ?")
	whether(q, f.Draining, drainingSQL)
	whether(q, f.DrainOverdue, "exists (select from node_drains d where d.node_id = n.id and d.state = 'DRAINING' and d.deadline <= now() and seen.owned)")
	has(q, f.Maintenance, "n.maintenance = ?")
	among(q, f.PlaceableFor, placeableSQL+" = any(?)")
	has(q, f.DedicatedTo, `exists (select from node_reasons r where r.node_id = n.id and r.reason = '`+PrefixDedicated+`' || ?::text
		and (seen.owned or ?::text = @tenant))`)
	held(q, f.Reasons)
	taints := make([]string, len(f.Taints))
	for i, key := range f.Taints {
		taints[i] = PrefixTaint + key
	}
	if f.Taints != nil {
		held(q, taints)
	}
	for _, m := range f.Labels {
		values := q.arg(m.Values)
		q.and(`exists (select from node_labels b where b.node_id = n.id and b.key = ` + q.arg(m.Key) + `
			and (` + values + `::text[] is null or b.value = any(` + values + `)) and (seen.owned or b.source <> 'OPERATOR'))`)
	}
	has(q, f.CordonedBefore, "n.cordon_at < ?")
	has(q, f.LastSeenBefore, `coalesce(l.last_seen, n.created_at) < ?
		and not exists (select from node_sessions s where s.node_id = n.id and greatest(s.connected_at, s.disconnected_at) >= ?)`)
	among(q, f.AgentVersions, "exists (select from node_sessions s where s.node_id = n.id and s.agent_version = any(?) and seen.owned)")
	whether(q, f.LiveAllocations, "exists (select from allocations a where a.node_id = n.id and a.released_at is null and a.ended_at is null)")
	if f.Not != nil {
		q.and("(" + q.nested(f.Not) + ") is not true") // a condition on what a node does not have is not met
	}
	if f.Or != nil {
		var one strings.Builder
		one.WriteString("false")
		for i := range f.Or {
			one.WriteString(" or (" + q.nested(&f.Or[i]) + ")")
		}
		q.and("(" + one.String() + ")")
	}
}

// nested gives the condition of a filter inside another; one without conditions matches everything.
func (q *query) nested(f *Filter) string {
	inner := query{args: q.args}
	f.where(&inner)
	return "true" + inner.where()
}
