package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
)

// edit is what every control of a node takes.
type edit struct {
	reason  string
	version int
}

func (e *edit) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.reason, "reason", "", "`why`, up to 256 characters; it stands in the event")
	cmd.Flags().IntVar(&e.version, "if-version", 0, "only if the node still has the version `N` that you read")
}

// input makes the mutation's input, with a fresh request id; which nodes it is about comes later.
func (e *edit) input(cmd *cobra.Command) (map[string]any, error) {
	input := map[string]any{"requestId": requestID()}
	if cmd.Flags().Changed("if-version") {
		if e.version < 1 {
			return nil, Usage("--if-version must be 1 or more, as nodes get shows it")
		}
		input["version"] = e.version
	}
	if e.reason != "" {
		input["reason"] = e.reason
	}
	return input, nil
}

// control sends one control of a node.
func (a *app) control(ctx context.Context, op operation, field string, input map[string]any) (*client, *nodePayload, error) {
	c, tenant, err := a.asTenant(ctx)
	if err != nil {
		return nil, nil, err
	}
	input["tenantId"] = tenant
	var answer map[string]*nodePayload
	if err := c.do(ctx, op, map[string]any{"input": input}, &answer); err != nil {
		return nil, nil, err
	}
	if answer[field] == nil {
		return nil, nil, &Error{Code: string(fault.Internal), Message: "the server's answer is empty"}
	}
	return c, answer[field], nil
}

// moved says what a control did: each change raises the version by one.
func (a *app) moved(p *nodePayload, did, unchanged string) {
	if p.Changed {
		a.say("%s %s (version %d → %d)", p.Node.v.ID, did, p.Node.v.Version-1, p.Node.v.Version)
	} else {
		a.say("unchanged: %s", unchanged)
	}
}

func (a *app) nodesCordon() *cobra.Command {
	var (
		e      edit
		m      several
		until  string
		update bool
	)
	cmd := &cobra.Command{
		Use:   "cordon NODE… | - | --filter FILTER",
		Short: "Stop new work from landing on a node; running work is left alone",
		Long: "Stops new work from landing on a node and changes nothing else: allocations keep running, commands flow, the node stays connected.\n" +
			"Cordoning a cordoned node changes nothing, and says who holds it; with --update-reason the cordon gets this reason and this end, and its\n" +
			"holder stays. Nothing is lifted by itself: past --until the cordon is overdue, and node.cordon-overdue says so once a day.\n\n" + severalHelp,
		Example: "  better-compute nodes cordon node_01k5wjb4s8fpvb0q9f6m3h2c7d --tenant acme --reason 'BIOS update window'\n" +
			"  better-compute nodes cordon --filter label=rack=b7 --expect-count 16 --reason 'BIOS update window'",
		Args:              m.args,
		ValidArgsFunction: a.completeNodes,
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			input, err := e.input(cmd)
			if err != nil {
				return err
			}
			if until != "" {
				if input["until"], err = parseMoment("--until", until); err != nil {
					return err
				}
			}
			if m.many(args) {
				return a.many(cmd, &m, opNodesCordon, args, input, "update-reason")
			}
			input["nodeId"] = args[0]
			did := "cordoned"
			if update {
				input["updateReason"], did = true, "has another reason for its cordon"
			}
			c, p, err := a.control(cmd.Context(), opNodeCordon, "nodeCordon", input)
			if err != nil {
				return err
			}
			held := "already cordoned"
			if h := p.Node.v.Cordon; h != nil {
				held += " by " + h.By + " since " + h.At.stamp() + h.end() + why(h.Reason)
			}
			a.moved(p, did, held)
			return a.printNode(cmd.Context(), c, &p.Node, "")
		}),
	}
	e.register(cmd)
	m.register(cmd)
	cmd.Flags().StringVar(&until, "until", "", "when you mean it to end, a `moment` like 2026-11-30T06:00:00Z")
	cmd.Flags().BoolVar(&update, "update-reason", false, "give the cordon that holds this reason and this end; its holder stays")
	return cmd
}

func (a *app) nodesUncordon() *cobra.Command {
	var (
		e      edit
		m      several
		ifBy   string
		anyone bool
	)
	cmd := &cobra.Command{
		Use:   "uncordon NODE… | - | --filter FILTER",
		Short: "Let new work land on a node again; a running drain ends",
		Long: "Lets new work land on a node again, and ends a drain in progress. Taints, maintenance and other reasons stay.\n" +
			"Uncordoning a node that is not cordoned changes nothing.\n\n" + severalHelp +
			"\nOf several nodes only those are uncordoned whose cordon is your own; --if-cordoned-by and --anyone say otherwise.",
		Example: "  better-compute nodes uncordon node_01k5wjb4s8fpvb0q9f6m3h2c7d --tenant acme\n" +
			"  better-compute nodes list --cordoned -o name | better-compute nodes uncordon -",
		Args:              m.args,
		ValidArgsFunction: a.completeNodes,
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			input, err := e.input(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("if-cordoned-by") {
				if ifBy == "" {
					return Usage("--if-cordoned-by must be the name of somebody")
				}
				input["ifCordonedBy"] = ifBy
			}
			if m.many(args) {
				if anyone && ifBy != "" {
					return Usage("--anyone and --if-cordoned-by don't go together")
				}
				input["anyone"] = anyone
				return a.many(cmd, &m, opNodesUncordon, args, input)
			}
			if anyone {
				return Usage("--anyone goes with several nodes; one node is uncordoned whoever cordoned it")
			}
			input["nodeId"] = args[0]
			c, p, err := a.control(cmd.Context(), opNodeUncordon, "nodeUncordon", input)
			if err != nil {
				return err
			}
			a.moved(p, "uncordoned", "not cordoned")
			return a.printNode(cmd.Context(), c, &p.Node, "")
		}),
	}
	e.register(cmd)
	m.register(cmd)
	cmd.Flags().StringVar(&ifBy, "if-cordoned-by", "", "only if the cordon's author is this `name`")
	cmd.Flags().BoolVar(&anyone, "anyone", false, "with several nodes: whoever cordoned them")
	return cmd
}
