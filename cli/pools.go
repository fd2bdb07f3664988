package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

func (a *app) pools() *cobra.Command {
	return noun("pools", "Sets of nodes that one tenant owns", a.poolsList(), a.poolsCreate())
}

func (a *app) poolsList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tenant's pools",
		Args:  NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			c, tenant, err := a.asTenant(cmd.Context())
			if err != nil {
				return err
			}
			all, err := c.pools(cmd.Context(), tenant)
			if err != nil {
				return err
			}
			return a.printList(cmd.Context(), listing{
				key: "pools", items: raws(all), names: names(all, func(p *pool) string { return p.ID }),
				none: "no pools",
				rows: func(t *table, _ bool) { poolRows(t, all) },
			})
		}),
	}
}

func poolRows(t *table, list []doc[pool]) {
	t.header("ID", "NAME", "TENANT", "CREATED")
	for i := range list {
		p := &list[i].v
		t.row(p.ID, p.Name, p.TenantID, p.CreatedAt.stamp())
	}
}

func (a *app) poolsCreate() *cobra.Command {
	return &cobra.Command{
		Use:     "create NAME",
		Short:   "Make a pool, which the tenant owns",
		Long:    "Makes a pool, which the tenant owns. Making one that is there changes nothing.",
		Example: "  better-compute pools create gpus --tenant acme",
		Args:    oneName("pool"),
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			c, tenant, err := a.asTenant(cmd.Context())
			if err != nil {
				return err
			}
			var answer struct {
				PoolCreate *poolPayload `json:"poolCreate"`
			}
			input := map[string]any{"tenantId": tenant, "name": args[0], "requestId": requestID()}
			if err := c.do(cmd.Context(), opPoolCreate, map[string]any{"input": input}, &answer); err != nil {
				return err
			}
			p := answer.PoolCreate
			if p == nil {
				return unavailable(nil, "the server's answer is empty")
			}
			if p.Changed {
				a.say("%s made: the pool %s of %s", p.Pool.v.ID, p.Pool.v.Name, p.Pool.v.TenantID)
			} else {
				a.say("unchanged: %s is there since %s", p.Pool.v.Name, p.Pool.v.CreatedAt.stamp())
			}
			return a.printOne(cmd.Context(), p.Pool.raw, p.Pool.v.ID, "", func(w io.Writer, _ bool) error {
				t := &table{paint: a.paint()}
				poolRows(t, []doc[pool]{p.Pool})
				return t.write(w)
			})
		}),
	}
}

func (c *client) pools(ctx context.Context, tenant string) ([]doc[pool], error) {
	var answer struct {
		Pools []doc[pool] `json:"pools"`
	}
	err := c.do(ctx, opPools, map[string]any{"tenantId": tenant}, &answer)
	return answer.Pools, err
}

// checkPool refuses what looks like an id and is none. Any other word is a name.
func checkPool(wanted string) error {
	if !strings.HasPrefix(wanted, string(id.Pool)+"_") {
		return nil
	}
	return checkID(id.Pool, "pool", wanted)
}

// pool finds a pool by id or name. Without either it is the only one, else the one named default.
func (c *client) pool(ctx context.Context, tenant, wanted string) (string, error) {
	if strings.HasPrefix(wanted, string(id.Pool)+"_") {
		return wanted, nil
	}
	all, err := c.pools(ctx, tenant)
	if err != nil {
		return "", err
	}
	name := first(wanted, "default")
	var there []string
	for i := range all {
		if all[i].v.Name == name {
			return all[i].v.ID, nil
		}
		there = append(there, all[i].v.Name)
	}
	switch {
	case wanted == "" && len(all) == 1:
		return all[0].v.ID, nil
	case wanted == "" && len(all) > 1:
		e := Usage("which pool? give --pool")
		e.Hint = tenant + " has " + strings.Join(there, ", ")
		return "", e
	}
	e := &Error{Code: string(fault.NotFound), Message: tenant + " has no pool " + first(wanted, "yet")}
	if len(there) > 0 {
		e.Hint = "it has " + strings.Join(there, ", ")
	}
	return "", e
}
