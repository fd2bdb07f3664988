package controls

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// maxTaints is how many taints one call may add, and how many it may remove.
const maxTaints = 32

var taintKeyRule = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/=:-]{0,126}[A-Za-z0-9])?$`)

// Taints are the keys that a call adds and removes.
type Taints struct {
	Add    []string `json:"add"`
	Remove []string `json:"remove"`
}

// Tainted are the fields of node.tainted: what really came and went.
type Tainted struct {
	Added   []string `json:"taintsAdded"`
	Removed []string `json:"taintsRemoved"`
}

// Taint adds and removes operators' NoSchedule reasons, and moves no other reason, whatever it is called. A key that is there already keeps its author
// and time. A dedication to a tenant lets that tenant see the node; one to a tenant that does not exist is taken with a warning.
//
// Codes besides the write path's: INVALID_INPUT for keys that are too many, malformed, named twice or in both lists, or none at all.
func (c *Controls) Taint(ctx context.Context, e node.Edit, t Taints) (node.Changed, error) {
	if err := e.Check(); err != nil {
		return node.Changed{}, err
	}
	if err := t.check(); err != nil {
		return node.Changed{}, err
	}
	e.Args = t
	warnings, err := t.warnings(ctx, c.Nodes.DB.Pool())
	if err != nil {
		return node.Changed{}, err
	}
	done, err := c.Nodes.Change(ctx, e, taintControl(t))
	done.Warnings = warnings
	return done, err
}

func (t Taints) check() error {
	if len(t.Add) == 0 && len(t.Remove) == 0 {
		return fault.Invalid("add", "add or remove must hold a key", 0)
	}
	if err := checkKeys("add", t.Add, maxTaints, taintKeyRule, ". _ / = : -"); err != nil {
		return err
	}
	if err := checkKeys("remove", t.Remove, maxTaints, taintKeyRule, ". _ / = : -"); err != nil {
		return err
	}
	return checkBoth("add", t.Add, "remove", t.Remove)
}

// checkKeys says whether a list of keys is one that a control takes: not too many, each by the rule and named once.
func checkKeys(argument string, keys []string, most int, rule *regexp.Regexp, signs string) error {
	if len(keys) > most {
		return fault.New(fault.InvalidInput, fault.Details{"argument": argument, "rule": "too many keys", "length": len(keys)},
			"%s: must be at most %d keys, and there are %d; use several calls", argument, most, len(keys))
	}
	for i, key := range keys {
		if !rule.MatchString(key) {
			return fault.Invalid(argument, "keys must be 1 to 128 letters, digits and "+signs+", starting and ending with a letter or digit", len([]rune(key)))
		}
		if slices.Contains(keys[:i], key) {
			return fault.Invalid(argument, "must hold each key once, and "+key+" stands there twice", 0)
		}
	}
	return nil
}

func checkBoth(oneName string, one []string, otherName string, other []string) error {
	for _, key := range other {
		if slices.Contains(one, key) {
			return fault.Invalid(otherName, "must hold no key that "+oneName+" holds too, and "+key+" stands in both", 0)
		}
	}
	return nil
}

// dedicatedTo gives the tenant that a taint's key dedicates a node to.
func dedicatedTo(key string) (string, bool) {
	return strings.CutPrefix(node.PrefixTaint+key, node.PrefixDedicated)
}

// warnings says of which dedications nobody has anything.
func (t Taints) warnings(ctx context.Context, q db.Querier) ([]string, error) {
	var tenants []string
	for _, key := range t.Add {
		if tenant, ok := dedicatedTo(key); ok {
			tenants = append(tenants, tenant)
		}
	}
	absent, err := iam.AbsentTenants(ctx, q, tenants)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, tenant := range absent {
		out = append(out, "there is no tenant "+tenant+", so the node is dedicated to nobody until there is one")
	}
	return out, nil
}

func taintControl(t Taints) node.Control {
	return node.Control{
		Name: "taint", Action: iam.NodesUpdate, Axes: node.AxisTaints,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) { return taint(n, a, t) },
		Follow: func(_ context.Context, tx *db.Tx, nodes []*node.Node) error {
			t.project(tx, nodes)
			return nil
		},
	}
}

func taint(n *node.Node, a node.Act, t Taints) (*node.Fact, error) {
	told := Tainted{Added: []string{}, Removed: []string{}}
	var guests []string
	has := n.NoScheduleReasons()
	for _, key := range t.Add {
		if name := node.PrefixTaint + key; !slices.Contains(has, name) {
			n.AddReason(node.Reason{Name: name, Owner: node.Operator, By: node.Text(a.Who.Name), Message: node.Text(a.Reason), Since: a.Now})
			told.Added = append(told.Added, key)
		}
	}
	for _, key := range t.Remove {
		if name := node.PrefixTaint + key; slices.Contains(has, name) {
			n.RemoveReason(name)
			told.Removed = append(told.Removed, key)
		}
	}
	for _, key := range told.Added {
		if tenant, ok := dedicatedTo(key); ok && id.Tenant("", tenant) == nil {
			guests = append(guests, tenant)
		}
	}
	if len(told.Added)+len(told.Removed) == 0 {
		return nil, nil //nolint:nilnil // nothing to do
	}
	return &node.Fact{Type: "node.tainted", Data: told, Guests: guests}, nil
}

// project keeps who sees the nodes in step with whom they are dedicated to. It says what must hold, so doing it again changes nothing.
func (t Taints) project(tx *db.Tx, nodes []*node.Node) {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	for _, key := range t.Add {
		if tenant, ok := dedicatedTo(key); ok && id.Tenant("", tenant) == nil {
			iam.ProjectManyTx(tx, tenant, ids, iam.Dedicated)
		}
	}
	for _, key := range t.Remove {
		if tenant, ok := dedicatedTo(key); ok {
			iam.WithdrawManyTx(tx, tenant, ids, iam.Dedicated)
		}
	}
}
