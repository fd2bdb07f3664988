package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/id"
)

func (a *app) tenants() *cobra.Command {
	return noun("tenants", "Those that own pools and book nodes", a.tenantsList(), a.tenantsCreate())
}

func (a *app) tenantsList() *cobra.Command {
	return &cobra.Command{
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
				rows: func(t *table, _ bool) { tenantRows(t, all) },
			})
		}),
	}
}

func tenantRows(t *table, list []doc[tenant]) {
	t.header("ID", "CREATED")
	for i := range list {
		t.row(list[i].v.ID, list[i].v.CreatedAt.stamp())
	}
}

func (a *app) tenantsCreate() *cobra.Command {
	return &cobra.Command{
		Use:     "create NAME",
		Short:   "Make a tenant",
		Long:    "Makes a tenant. It takes a grant in every tenant. Making one that is there changes nothing. Its name can't be changed.",
		Example: "  better-compute tenants create acme",
		Args:    oneName("tenant"),
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var answer struct {
				TenantCreate *tenantPayload `json:"tenantCreate"`
			}
			input := map[string]any{"tenantId": args[0], "requestId": requestID()}
			if err := c.do(cmd.Context(), opTenantCreate, map[string]any{"input": input}, &answer); err != nil {
				return err
			}
			p := answer.TenantCreate
			if p == nil {
				return unavailable(nil, "the server's answer is empty")
			}
			if p.Changed {
				a.say("tenant %s made", p.Tenant.v.ID)
			} else {
				a.say("unchanged: %s is there since %s", p.Tenant.v.ID, p.Tenant.v.CreatedAt.stamp())
			}
			return a.printOne(cmd.Context(), p.Tenant.raw, p.Tenant.v.ID, "", func(w io.Writer, _ bool) error {
				t := &table{paint: a.paint()}
				tenantRows(t, []doc[tenant]{p.Tenant})
				return t.write(w)
			})
		}),
	}
}

// oneName takes one name that an operator chooses.
func oneName(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usage("%s takes one name, but got %d arguments", cmd.CommandPath(), len(args))
		}
		if id.Slug("name", args[0]) != nil {
			return Usage("%q can't name a %s: 1 to 63 lower-case letters, digits and dashes, and neither first nor last a dash", args[0], what)
		}
		return nil
	}
}
