package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) nodesTaint() *cobra.Command {
	var (
		e           edit
		m           several
		add, remove string
	)
	cmd := &cobra.Command{
		Use:   "taint NODE… | - | --filter FILTER",
		Short: "Add and remove taints: reasons of yours that keep new work off a node",
		Long: "Adds and removes taints. A taint keeps new work off a node for a reason that stays visible; no reason of a controller is moved, whatever its name.\n" +
			"dedicated=TENANT keeps every tenant off but that one. Adding one that is there, or removing one that is not, changes nothing.\n\n" + severalHelp,
		Example: "  better-compute nodes taint node_01k5wjb4s8fpvb0q9f6m3h2c7d --tenant acme --add rma-pending --remove burn-in\n" +
			"  better-compute nodes taint node_01k5wjb4s8fpvb0q9f6m3h2c7d --tenant acme --add dedicated=other",
		Args:              m.args,
		ValidArgsFunction: a.completeNodes,
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			input, err := e.input(cmd)
			if err != nil {
				return err
			}
			lists, err := keyLists(cmd, map[string]string{"add": add, "remove": remove}, "add", "remove")
			if err != nil {
				return err
			}
			for name, keys := range lists {
				input[name] = keys
			}
			if m.many(args) {
				return a.many(cmd, &m, opNodesTaint, args, input)
			}
			input["nodeId"] = args[0]
			c, p, err := a.control(cmd.Context(), opNodeTaint, "nodeTaint", input)
			if err != nil {
				return err
			}
			a.moved(p, "tainted", "it has these taints already")
			a.warn(p)
			return a.printNode(cmd.Context(), c, &p.Node, "")
		}),
	}
	e.register(cmd)
	m.register(cmd)
	cmd.Flags().StringVar(&add, "add", "", "the `keys` to add, separated by commas")
	cmd.Flags().StringVar(&remove, "remove", "", "the `keys` to remove, separated by commas")
	return cmd
}

func (a *app) nodesLabel() *cobra.Command {
	var (
		e           edit
		m           several
		set, remove string
	)
	cmd := &cobra.Command{
		Use:   "label NODE… | - | --filter FILTER",
		Short: "Set and remove your labels on a node",
		Long: "Sets and removes operators' labels, by which reservations choose nodes. The labels of inventory and of the system can't be set, and --remove\n" +
			"leaves them. --set takes KEY=VALUE pairs and --remove keys, both separated by commas; one of them is required. A value can be empty.\n\n" + severalHelp,
		Example: "  better-compute nodes label node_01k5wjb4s8fpvb0q9f6m3h2c7d --tenant acme --set rack=b7,fabric/rail=3 --remove burn-in",
		Args:    m.args, ValidArgsFunction: a.completeNodes,
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			input, err := e.input(cmd)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("set") && !cmd.Flags().Changed("remove") {
				return Usage("%s needs --set or --remove", cmd.CommandPath())
			}
			if cmd.Flags().Changed("set") {
				if input["set"], err = parseLabels("--set", set); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("remove") {
				if input["remove"], err = parseKeys("--remove", remove); err != nil {
					return err
				}
			}
			if m.many(args) {
				return a.many(cmd, &m, opNodesLabel, args, input)
			}
			input["nodeId"] = args[0]
			c, p, err := a.control(cmd.Context(), opNodeLabel, "nodeLabel", input)
			if err != nil {
				return err
			}
			a.moved(p, "labeled", "it has these labels already")
			return a.printNode(cmd.Context(), c, &p.Node, "")
		}),
	}
	e.register(cmd)
	m.register(cmd)
	cmd.Flags().StringVar(&set, "set", "", "the labels to set, as `KEY=VALUE,…`")
	cmd.Flags().StringVar(&remove, "remove", "", "the `keys` to remove, separated by commas")
	return cmd
}

// warn says what the server said about what it did all the same.
func (a *app) warn(p *nodePayload) {
	for _, w := range p.Warnings {
		a.say("warning: %s", w)
	}
}

// keyLists reads the lists of keys that were given, of which there must be one; a key in two of them is a usage error.
func keyLists(cmd *cobra.Command, texts map[string]string, order ...string) (map[string][]string, error) {
	lists := map[string][]string{}
	seen := map[string]string{}
	for _, name := range order {
		if !cmd.Flags().Changed(name) {
			continue
		}
		keys, err := parseKeys("--"+name, texts[name])
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if other, both := seen[key]; both {
				return nil, Usage("%q stands in --%s and in --%s", key, other, name)
			}
			seen[key] = name
		}
		lists[name] = keys
	}
	if len(lists) == 0 {
		return nil, Usage("%s needs --%s", cmd.CommandPath(), strings.Join(order, " or --"))
	}
	return lists, nil
}

// parseKeys reads keys by a plain split at the commas.
func parseKeys(flag, text string) ([]string, error) {
	keys := strings.Split(text, ",")
	for i, key := range keys {
		if key == "" {
			return nil, Usage("%s takes keys, separated by commas, and one of them is empty", flag)
		}
		if slices.Contains(keys[:i], key) {
			return nil, Usage("%s names %q twice", flag, key)
		}
	}
	return keys, nil
}
