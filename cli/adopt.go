package cli

import (
	"github.com/spf13/cobra"
)

// acceptanceCheck is what tables read of an AcceptanceCheck.
type acceptanceCheck struct {
	Name    string `json:"name"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

func (a *app) nodesAdopt() *cobra.Command {
	var (
		e edit
		m several
	)
	cmd := &cobra.Command{
		Use:   "adopt NODE… | - | --filter FILTER",
		Short: "Run a node's acceptance checks again",
		Long: "Runs acceptance again on a node that is adopting or adopted. An adopted node goes back to adopting and takes nothing new until its checks pass;\n" +
			"what it holds stays. nodes get shows the checks.\n\n" + severalHelp,
		Example:           "  better-compute nodes adopt node_01k5wjb4s8fpvb0q9f6m3h2c7d --tenant acme --reason 'GPU replaced'",
		Args:              m.args,
		ValidArgsFunction: a.completeNodes,
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			input, err := e.input(cmd)
			if err != nil {
				return err
			}
			if m.many(args) {
				return a.many(cmd, &m, opNodesAdopt, args, input)
			}
			input["nodeId"] = args[0]
			c, p, err := a.control(cmd.Context(), opNodeAdopt, "nodeAdopt", input)
			if err != nil {
				return err
			}
			a.moved(p, "adopting", "adopting already")
			return a.printNode(cmd.Context(), c, &p.Node, "")
		}),
	}
	e.register(cmd)
	m.register(cmd)
	return cmd
}
