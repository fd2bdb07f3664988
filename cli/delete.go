package cli

import (
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

type deletePayload struct {
	NodeID   string   `json:"nodeId"`
	Deleted  bool     `json:"deleted"`
	Warnings []string `json:"warnings"`
}

func (a *app) nodesDelete() *cobra.Command {
	var (
		e   edit
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "delete NODE",
		Short: "Remove a node for good",
		Long: "Removes a node that is done for good or never got going: one that is retired, adopted and cordoned, or not adopted yet, and that holds no open\n" +
			"allocation. Its certificates are revoked and what it proved itself by is free, so the machine can join again as a new node:\n" +
			"bcd join --reset --yes. Deleting a deleted node changes nothing. Without --yes nothing is sent.",
		Example:           "  better-compute nodes delete node_01k5wjb4s8fpvb0q9f6m3h2c7d --tenant acme --reason 'TPM replaced' --yes",
		Args:              oneID(id.Node, "node"),
		ValidArgsFunction: a.completeNodes,
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			input, err := e.input(cmd)
			if err != nil {
				return err
			}
			if !yes {
				return Usage("nodes delete removes %s for good; re-run with --yes", args[0])
			}
			ctx := cmd.Context()
			c, tenant, err := a.asTenant(ctx)
			if err != nil {
				return err
			}
			input["tenantId"], input["nodeId"] = tenant, args[0]
			var answer struct {
				Payload *doc[deletePayload] `json:"nodeDelete"`
			}
			if err := c.do(ctx, opNodeDelete, map[string]any{"input": input}, &answer); err != nil {
				return err
			}
			if answer.Payload == nil {
				return &Error{Code: string(fault.Internal), Message: "the server's answer is empty"}
			}
			p := &answer.Payload.v
			if p.Deleted {
				a.say("%s deleted; on the machine, as root: bcd join --reset --yes brings it back as a new node", p.NodeID)
			} else {
				a.say("unchanged: %s is deleted already", p.NodeID)
			}
			for _, w := range p.Warnings {
				a.say("warning: %s", w)
			}
			return a.printOne(ctx, answer.Payload.raw, p.NodeID, "", func(w io.Writer, _ bool) error {
				f := &fields{}
				f.add("Node", p.NodeID)
				f.add("Deleted", strconv.FormatBool(p.Deleted))
				return f.write(w)
			})
		}),
	}
	e.register(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "really delete it")
	return cmd
}
