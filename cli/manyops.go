package cli

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

func (a *app) operations() *cobra.Command {
	return noun("operations", "Controls of many nodes: list, watch and stop them", a.operationsList(), a.operationsWatch(), a.operationsStop())
}

func (a *app) operationsList() *cobra.Command {
	var (
		active bool
		after  string
		limit  int
	)
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List controls of many nodes, newest first",
		Example: "  better-compute operations list --active",
		Args:    NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			ctx := cmd.Context()
			c, tenant, err := a.asTenant(ctx)
			if err != nil {
				return err
			}
			all, err := pages[operationState](ctx, c, opOperations, map[string]any{"tenantId": tenant, "active": active}, "nodesOperations", after, limit)
			if err != nil {
				return err
			}
			return a.printList(ctx, listing{
				key: "operations", items: raws(all.Nodes), names: names(all.Nodes, func(o *operationState) string { return o.ID }),
				more: []member{{"pageInfo", all.PageInfo.raw}}, none: "no operations",
				rows: func(t *table, wide bool) { operationRows(t, all.Nodes, wide) },
			})
		}),
	}
	cmd.Flags().BoolVar(&active, "active", false, "only those that run")
	pageFlags(cmd, &limit, &after)
	return cmd
}

func operationRows(t *table, list []doc[operationState], wide bool) {
	head := []string{"ID", "CONTROL", "STATE", "NODES", "DONE", "UNCHANGED", "REFUSED", "LEFT", "BY", "SINCE"}
	if wide {
		head = append(head, "ENDED", "REASON", "WAITS FOR")
	}
	t.header(head...)
	for i := range list {
		o := &list[i].v
		row := []string{
			o.ID, words(o.Control), words(o.State), strconv.Itoa(o.Count), strconv.Itoa(o.Done), strconv.Itoa(o.Unchanged), strconv.Itoa(o.Refused),
			strconv.Itoa(o.Left), o.By, o.CreatedAt.stamp(),
		}
		if wide {
			row = append(row, orDash(o.EndedAt.stamp()), orDash(o.Reason), orDash(o.Waiting))
		}
		t.row(row...)
	}
}

func (a *app) operationsWatch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch OPERATION",
		Short: "Show what becomes of each node, until the operation has ended",
		Long: "Shows what became of each node so far, and then as it comes, until the operation has ended: 0 when all nodes are as they were to be, 11 when\n" +
			"some were refused, 7 when somebody stopped it. Ctrl-C ends the command, not the operation.",
		Example: "  better-compute operations watch nop_01k5wjb4s8fpvb0q9f6m3h2c7d",
		Args:    oneID(id.Operation, "operation"),
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			c, tenant, err := a.asTenant(cmd.Context())
			if err != nil {
				return err
			}
			return a.watchOperation(cmd.Context(), c, tenant, args[0])
		}),
	}
}

func (a *app) operationsStop() *cobra.Command {
	return &cobra.Command{
		Use:     "stop OPERATION",
		Short:   "End an operation: what is done stays done, the other nodes are left alone",
		Example: "  better-compute operations stop nop_01k5wjb4s8fpvb0q9f6m3h2c7d",
		Args:    oneID(id.Operation, "operation"),
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, tenant, err := a.asTenant(ctx)
			if err != nil {
				return err
			}
			var answer struct {
				NodesOperationStop *operationPayload `json:"nodesOperationStop"`
			}
			input := map[string]any{"tenantId": tenant, "operationId": args[0], "requestId": requestID()}
			if err := c.do(ctx, opOperationStop, map[string]any{"input": input}, &answer); err != nil {
				return err
			}
			p := answer.NodesOperationStop
			if p == nil {
				return &Error{Code: string(fault.Internal), Message: "the server's answer is empty"}
			}
			o := &p.Operation.v
			if p.Changed {
				a.say("%s stopped: %s", o.ID, o.counts())
			} else {
				a.say("unchanged: it has ended already: %s", o.counts())
			}
			return a.printOne(ctx, p.Operation.raw, o.ID, "", func(w io.Writer, _ bool) error { return describeOperation(w, o) })
		}),
	}
}

func describeOperation(w io.Writer, o *operationState) error {
	f := &fields{}
	f.add("Operation", o.ID)
	f.add("Control", words(o.Control))
	f.add("State", words(o.State))
	f.add("Nodes", o.counts())
	f.add("Waits", o.Waiting)
	f.add("Begun", "by "+o.By+" at "+o.CreatedAt.stamp()+why(o.Reason))
	f.add("Ended", o.EndedAt.stamp())
	f.add("Stopped by", o.EndedBy)
	return f.write(w)
}

// operation reads one operation.
func (c *client) operation(ctx context.Context, tenant, operationID string) (*doc[operationState], error) {
	var answer struct {
		NodesOperation *doc[operationState] `json:"nodesOperation"`
	}
	if err := c.do(ctx, opOperation, map[string]any{"tenantId": tenant, "operationId": operationID}, &answer); err != nil {
		return nil, err
	}
	if answer.NodesOperation == nil {
		return nil, &Error{Code: string(fault.Internal), Message: "the server's answer is empty"}
	}
	return answer.NodesOperation, nil
}
