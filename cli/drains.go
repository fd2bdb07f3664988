package cli

import (
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/id"
)

func (a *app) drains() *cobra.Command {
	return noun("drains", "Drains: list those that run, and see what one would wait for", a.drainsList(), a.drainsPlan())
}

// drainOfNode is a drain in a list.
type drainOfNode struct {
	drain

	Node struct {
		ID       string `json:"id"`
		Hostname string `json:"hostname"`
	} `json:"node"`
}

func (a *app) drainsList() *cobra.Command {
	var (
		ended           bool
		poolName, after string
		limit           int
	)
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the drains that run, newest first",
		Example: "  better-compute drains list --tenant acme\n  better-compute drains list --ended -o wide",
		Args:    NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			if err := checkPool(poolName); err != nil {
				return err
			}
			ctx := cmd.Context()
			c, tenant, err := a.asTenant(ctx)
			if err != nil {
				return err
			}
			variables := map[string]any{"tenantId": tenant, "active": !ended}
			if poolName != "" {
				if variables["poolId"], err = c.pool(ctx, tenant, poolName); err != nil {
					return err
				}
			}
			all, err := pages[drainOfNode](ctx, c, opDrains, variables, "drains", after, limit)
			if err != nil {
				return err
			}
			return a.printList(ctx, listing{
				key: "drains", items: raws(all.Nodes), names: names(all.Nodes, func(d *drainOfNode) string { return d.ID }),
				more: []member{{"pageInfo", all.PageInfo.raw}},
				none: "no drains",
				rows: func(t *table, wide bool) {
					head := []string{"ID", "NODE", "HOSTNAME", "SINCE", "BY", "STATUS"}
					if wide {
						head = append(head, "REASON", "DEADLINE", "ENDED BY")
					}
					t.header(head...)
					for i := range all.Nodes {
						d := &all.Nodes[i].v
						row := []string{d.ID, d.Node.ID, d.Node.Hostname, d.StartedAt.stamp(), d.By, d.sentence(c.now())}
						if wide {
							row = append(row, orDash(d.Reason), orDash(d.Deadline.stamp()), orDash(d.EndedBy))
						}
						t.row(row...)
					}
				},
			})
		}),
	}
	cmd.Flags().BoolVar(&ended, "ended", false, "those that have ended, instead")
	cmd.Flags().StringVar(&poolName, "pool", "", "only those of nodes of this `pool`, by name or id")
	pageFlags(cmd, &limit, &after)
	return cmd
}

type drainPlan struct {
	Node struct {
		ID             string `json:"id"`
		Hostname       string `json:"hostname"`
		StatusSentence string `json:"statusSentence"`
		Drain          *struct {
			ID    string `json:"id"`
			State string `json:"state"`
			By    string `json:"by"`
		} `json:"drain"`
	} `json:"node"`
	Empty               bool         `json:"empty"`
	LiveAllocationCount int          `json:"liveAllocationCount"`
	Blockers            []allocation `json:"blockers"`
	ExpectedAt          moment       `json:"expectedAt"`
}

func (a *app) drainsPlan() *cobra.Command {
	return &cobra.Command{
		Use:   "plan NODE",
		Short: "Say what a drain of the node would wait for; nothing is changed",
		Long: "Says what a drain of the node would wait for, by what the drain controller itself looks at: each live allocation and until when, bookings that\n" +
			"begin later included. Nothing is changed.",
		Example:           "  better-compute drains plan node_01k5wjb4s8fpvb0q9f6m3h2c7d --tenant acme",
		Args:              oneID(id.Node, "node"),
		ValidArgsFunction: a.completeNodes,
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, tenant, err := a.asTenant(ctx)
			if err != nil {
				return err
			}
			var answer struct {
				Plan *doc[drainPlan] `json:"drainPlan"`
			}
			if err := c.do(ctx, opDrainPlan, map[string]any{"tenantId": tenant, "nodeId": args[0]}, &answer); err != nil {
				return err
			}
			if answer.Plan == nil {
				return &Error{Code: "INTERNAL", Message: "the server's answer is empty"}
			}
			p := &answer.Plan.v
			return a.printOne(ctx, answer.Plan.raw, p.Node.ID, formatTable, func(w io.Writer, _ bool) error {
				f := &fields{}
				f.add("Node", p.Node.ID)
				f.add("Hostname", p.Node.Hostname)
				f.add("Status", p.Node.StatusSentence)
				if d := p.Node.Drain; d != nil && d.State == draining {
					f.add("Draining", d.ID+", by "+d.By)
				}
				switch {
				case p.Empty:
					f.add("Drained", "at once: it holds nothing")
				case p.ExpectedAt == "":
					f.add("Drained", "not by itself: an allocation is open-ended")
				default:
					f.add("Drained", p.ExpectedAt.until(c.now()))
				}
				f.add("Waits for", strconv.Itoa(p.LiveAllocationCount)+" live allocations")
				for _, b := range p.Blockers {
					f.add("", b.sentence(c.now()))
				}
				return f.write(w)
			})
		}),
	}
}
