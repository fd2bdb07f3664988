package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

// pageSize is how many entries of a list one call fetches.
const pageSize = 100

func (a *app) nodes() *cobra.Command {
	return noun("nodes", "The machines: list, cordon, drain, taint and label them, follow their events",
		a.nodesList(), a.nodesGet(), a.nodesCordon(), a.nodesUncordon(), a.nodesDrain(), a.nodesTaint(), a.nodesLabel(), a.nodesAdopt(), a.nodesDelete(), a.nodesEvents())
}

// run wraps what a client command does in what all of them check first.
func (a *app) run(do func(cmd *cobra.Command, args []string) error) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.checkOutput(); err != nil {
			return err
		}
		return do(cmd, args)
	}
}

var (
	connectivities  = []string{"PENDING", "CONNECTED", "DISCONNECTED", "UNREACHABLE", "LOST"}
	provisionStates = []string{"ENROLLING", "ADOPTING", "ADOPTED", "PROVISIONING", "FAILED", "RETIRING", "RETIRED"}
)

func (a *app) nodesList() *cobra.Command {
	var (
		cordoned, isDraining  bool
		poolName, text, after string
		limit                 int
		connectivity          = choice{allowed: connectivities, several: true}
		states                = choice{allowed: provisionStates, several: true}
		order                 = choice{allowed: []string{"HOSTNAME_ASC", "CREATED_DESC", "LAST_SEEN_ASC", "OUT_SINCE_ASC"}}
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the nodes that the tenant sees",
		Example: "  better-compute nodes list --tenant acme --cordoned\n" +
			"  better-compute nodes list --connectivity unreachable,lost -o wide",
		Args: NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			filter := map[string]any{}
			if cmd.Flags().Changed("cordoned") {
				filter["cordoned"] = cordoned
			}
			if cmd.Flags().Changed("draining") {
				filter["draining"] = isDraining
			}
			if err := errors.Join(checkPool(poolName), checkLimit(limit)); err != nil {
				return err
			}
			if text != "" {
				filter["text"] = text
			}
			if len(connectivity.values) > 0 {
				filter["connectivity"] = connectivity.values
			}
			if len(states.values) > 0 {
				filter["provisionStates"] = states.values
			}
			variables := map[string]any{"filter": filter}
			if len(order.values) > 0 {
				variables["orderBy"] = order.values[0]
			}
			return a.listNodes(cmd.Context(), variables, filter, poolName, after, limit)
		}),
	}
	set := cmd.Flags()
	set.BoolVar(&cordoned, "cordoned", false, "only cordoned ones; --cordoned=false: only others")
	set.BoolVar(&isDraining, "draining", false, "only draining ones; --draining=false: only others")
	set.StringVar(&poolName, "pool", "", "only those of this `pool`, by name or id")
	set.StringVar(&text, "text", "", "only those whose host name, id or label value holds the `text`")
	set.Var(&connectivity, "connectivity", "only those that are pending, connected, disconnected, unreachable or lost")
	set.Var(&states, "provision-state", "only those that are enrolling, adopting, adopted, provisioning, failed, retiring or retired")
	set.Var(&order, "order", "hostname-asc, created-desc, last-seen-asc or out-since-asc")
	pageFlags(cmd, &limit, &after)
	return cmd
}

// pageFlags are those of every long list. A limit of 0 is the whole list.
func pageFlags(cmd *cobra.Command, limit *int, after *string) {
	cmd.Flags().IntVar(limit, "limit", 0, "how many at most; 0: all")
	cmd.Flags().StringVar(after, "after", "", "go on from this `cursor`, the endCursor of the page before")
}

func checkLimit(limit int) error {
	if limit < 0 {
		return Usage("--limit must not be negative")
	}
	return nil
}

// pages fetches a list page by page until limit or its end. variables come with the tenant; answer takes the connection out of each page.
func pages[T any](ctx context.Context, c *client, op operation, variables map[string]any, field, after string, limit int) (connection[T], error) {
	var all connection[T]
	for begins := true; ; begins = false {
		variables["first"] = pageSize
		if rest := limit - len(all.Nodes); limit > 0 && rest < pageSize {
			variables["first"] = rest
		}
		if after != "" {
			variables["after"] = after
		}
		var answer map[string]connection[T]
		if err := c.do(ctx, op, variables, &answer); err != nil {
			return all, err
		}
		page := answer[field]
		if begins {
			// The log's position of the first page is the safe one to follow from.
			all.AsOf, all.TotalCount = page.AsOf, page.TotalCount
		}
		all.Nodes, all.PageInfo = append(all.Nodes, page.Nodes...), page.PageInfo
		end := page.PageInfo.v.EndCursor
		if !page.PageInfo.v.HasNextPage || end == nil || *end == after || (limit > 0 && len(all.Nodes) >= limit) {
			return all, nil
		}
		after = *end
	}
}

func raws[T any](docs []doc[T]) []json.RawMessage {
	list := make([]json.RawMessage, len(docs))
	for i := range docs {
		list[i] = docs[i].raw
	}
	return list
}

func names[T any](docs []doc[T], name func(*T) string) []string {
	list := make([]string, len(docs))
	for i := range docs {
		list[i] = name(&docs[i].v)
	}
	return list
}

func (a *app) listNodes(ctx context.Context, variables, filter map[string]any, poolName, after string, limit int) error {
	c, tenant, err := a.asTenant(ctx)
	if err != nil {
		return err
	}
	if poolName != "" {
		if filter["poolId"], err = c.pool(ctx, tenant, poolName); err != nil {
			return err
		}
	}
	variables["tenantId"] = tenant
	all, err := pages[node](ctx, c, opNodes, variables, "nodes", after, limit)
	if err != nil {
		return err
	}
	return a.printList(ctx, listing{
		key: "nodes", items: raws(all.Nodes), names: names(all.Nodes, func(n *node) string { return n.ID }),
		more: []member{{"pageInfo", all.PageInfo.raw}, {"totalCount", all.TotalCount}, {"asOf", all.AsOf}},
		none: "no nodes",
		rows: func(t *table, wide bool) {
			head := []string{"ID", "HOSTNAME", "POOL", "STATE", "CONNECTIVITY", "ALLOCATIONS", "LAST SEEN", "STATUS"}
			if wide {
				head = append(head, "CORDONED BY", "REASON", "VERSION", "LABELS")
			}
			t.header(head...)
			for i := range all.Nodes {
				t.row(nodeRow(&all.Nodes[i].v, c.now(), wide)...)
			}
		},
	})
}

func nodeRow(n *node, now time.Time, wide bool) []string {
	row := []string{
		n.ID, n.Hostname, n.Pool.Name, words(n.ProvisionState), words(n.Connectivity), strconv.Itoa(n.LiveAllocationCount),
		n.LastSeen.ago(now), n.StatusSentence,
	}
	if !wide {
		return row
	}
	by, reason := "", ""
	if n.Cordon != nil {
		by, reason = n.Cordon.By, n.Cordon.Reason
	}
	return append(row, orDash(by), orDash(reason), strconv.Itoa(n.Version), labels(n.Labels))
}

func labels(list []label) string {
	texts := make([]string, len(list))
	for i, l := range list {
		texts[i] = l.Key + "=" + l.Value
	}
	return strings.Join(texts, ",")
}

func (a *app) nodesGet() *cobra.Command {
	return &cobra.Command{
		Use:               "get NODE",
		Short:             "Show one node",
		Args:              oneID(id.Node, "node"),
		ValidArgsFunction: a.completeNodes,
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			c, tenant, err := a.asTenant(cmd.Context())
			if err != nil {
				return err
			}
			n, err := c.node(cmd.Context(), tenant, args[0])
			if err != nil {
				return err
			}
			return a.printNode(cmd.Context(), c, n, formatTable)
		}),
	}
}

// node reads one node. One that isn't visible is NOT_FOUND.
func (c *client) node(ctx context.Context, tenant, nodeID string) (*doc[node], error) {
	var answer struct {
		Node *doc[node] `json:"node"`
	}
	if err := c.do(ctx, opNode, map[string]any{"tenantId": tenant, "nodeId": nodeID}, &answer); err != nil {
		return nil, err
	}
	if answer.Node == nil {
		return nil, &Error{Code: string(fault.NotFound), Message: nodeID + " is not there, or not visible to " + tenant}
	}
	return answer.Node, nil
}

func (a *app) printNode(ctx context.Context, c *client, n *doc[node], absent string) error {
	return a.printOne(ctx, n.raw, n.v.ID, absent, func(w io.Writer, wide bool) error {
		f := &fields{}
		describe(f, &n.v, c.now(), wide)
		return f.write(w)
	})
}

func describe(f *fields, n *node, now time.Time, wide bool) {
	f.add("Node", n.ID)
	f.add("Hostname", n.Hostname)
	f.add("Status", n.StatusSentence)
	f.add("Pool", n.Pool.Name+" ("+n.Pool.ID+"), tenant "+n.TenantID)
	f.add("Provision state", words(n.ProvisionState))
	if n.Failure != nil {
		f.add("Failure", words(n.Failure.Phase)+": "+n.Failure.Message)
	}
	if n.ProvisionState != "ADOPTED" {
		for _, check := range n.Checks {
			f.add("  check", check.Name+" "+words(check.Status)+why(check.Message))
		}
	}
	f.add("Connectivity", words(n.Connectivity)+since(n.ConnectivitySince, now))
	f.add("Last seen", n.LastSeen.ago(now))
	if n.Session != nil {
		f.add("Daemon", "bcd "+n.Session.AgentVersion+" at "+n.Session.Gateway)
	}
	if n.Cordon != nil {
		f.add("Cordoned", "by "+n.Cordon.By+since(n.Cordon.At, now)+n.Cordon.end()+why(n.Cordon.Reason))
	}
	for _, h := range n.Holds {
		if h.Reason != "cordon" {
			f.add("Kept out", h.Reason+" ("+h.Owner+")"+since(h.Since, now)+why(h.Message))
		}
	}
	f.add("Allocations", strconv.Itoa(n.LiveAllocationCount)+" live")
	if d := n.Drain; d != nil {
		late := ""
		if d.Overdue {
			late = ", overdue since " + d.Deadline.stamp()
		}
		f.add("Drain", d.ID+" "+d.sentence(now)+late)
		for _, b := range d.Blockers {
			f.add("  waits for", b.sentence(now))
		}
	}
	if i := n.Inventory; i != nil {
		f.add("Machine", machine(i))
		f.add("Accelerators", accelerators(i))
	}
	for _, d := range n.Devices {
		f.add("Device", d.UUID+", "+d.sentence(now))
	}
	f.add("Labels", labels(n.Labels))
	f.add("Version", strconv.Itoa(n.Version))
	f.add("Created", n.CreatedAt.stamp())
	if wide {
		f.add("Identity", n.Key+", generation "+strconv.Itoa(n.IdentityGeneration))
	}
}

// end says until when the cordon was meant, if that was said.
func (c *cordon) end() string {
	switch {
	case c.Until == "":
		return ""
	case c.Overdue:
		return ", overdue since " + c.Until.stamp()
	}
	return " until " + c.Until.stamp()
}

func since(m moment, now time.Time) string {
	if m == "" {
		return ""
	}
	return " since " + m.stamp() + " (" + m.ago(now) + ")"
}

func why(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func machine(i *inventory) string {
	var parts []string
	if i.CPUModel != "" {
		parts = append(parts, fmt.Sprintf("%s, %d threads", i.CPUModel, i.CPUThreads))
	}
	if bytes, err := strconv.ParseInt(i.MemoryBytes, 10, 64); err == nil {
		parts = append(parts, fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)))
	}
	parts = append(parts, strings.TrimSpace(i.OS+" "+i.Kernel))
	text := strings.Join(parts, ", ")
	if i.Stale {
		text += " (as of " + i.ReportedAt.stamp() + ")"
	}
	return text
}

func accelerators(i *inventory) string {
	models := make([]string, len(i.GPUs))
	for n, g := range i.GPUs {
		models[n] = g.Model
	}
	return first(strings.Join(models, ", "), i.GPUNote)
}

// completionTime is how long a shell may be held up by a completion.
const completionTime = 800 * time.Millisecond

// completeNodes offers up to 50 ids with their host names. Whatever goes wrong, it only offers nothing.
func (a *app) completeNodes(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const most = 50
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	c, tenant, err := a.asTenant(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var answer struct {
		Nodes struct {
			Nodes []node `json:"nodes"`
		} `json:"nodes"`
	}
	if err := c.do(ctx, opNodeIDs, map[string]any{"tenantId": tenant, "first": most}, &answer); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var offers []string
	for i := range answer.Nodes.Nodes {
		if n := &answer.Nodes.Nodes[i]; strings.HasPrefix(n.ID, prefix) {
			offers = append(offers, n.ID+"\t"+clean(n.Hostname))
		}
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}
