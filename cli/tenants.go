package cli

import "github.com/spf13/cobra"

func (a *app) tenants() *cobra.Command {
	return noun("tenants", "Those that own pools and book nodes", &cobra.Command{
		Use:   "list",
		Short: "List the tenants in which you hold a grant",
		Args:  NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var answer struct {
				Tenants []doc[tenant] `json:"tenants"`
			}
			if err := c.do(cmd.Context(), opTenants, nil, &answer); err != nil {
				return err
			}
			all := answer.Tenants
			return a.printList(cmd.Context(), listing{
				key: "tenants", items: raws(all), names: names(all, func(t *tenant) string { return t.ID }),
				none: "no tenants",
				rows: func(t *table, _ bool) {
					t.header("ID", "CREATED")
					for i := range all {
						t.row(all[i].v.ID, all[i].v.CreatedAt.stamp())
					}
				},
			})
		}),
	})
}
