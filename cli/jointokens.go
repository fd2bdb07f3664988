package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
)

func (a *app) joinTokens() *cobra.Command {
	return noun("join-tokens", "Tokens with which machines join", a.joinTokensCreate())
}

func (a *app) joinTokensCreate() *cobra.Command {
	var poolName, ttl string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token with which one machine joins a pool",
		Long: "Makes a token with which one machine joins a pool, and prints the line to type there. The secret is in it: it is printed here, on stdout, and\n" +
			"nowhere again.",
		Example: "  better-compute join-tokens create --pool default --ttl 1h\n" +
			"  better-compute join-tokens create --jq .secret > token",
		Args: NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			input := map[string]any{"requestId": requestID()}
			if ttl != "" {
				n, err := seconds("--ttl", ttl)
				if err != nil {
					return err
				}
				input["ttlSeconds"] = n
			}
			if err := checkPool(poolName); err != nil {
				return err
			}
			c, tenant, err := a.asTenant(ctx)
			if err != nil {
				return err
			}
			poolID, err := c.pool(ctx, tenant, poolName)
			if err != nil {
				return err
			}
			input["tenantId"], input["poolId"] = tenant, poolID
			var answer struct {
				JoinTokenCreate *joinTokenPayload `json:"joinTokenCreate"`
			}
			if err := c.do(ctx, opJoinTokenCreate, map[string]any{"input": input}, &answer); err != nil {
				return err
			}
			p := answer.JoinTokenCreate
			if p == nil || p.Secret == nil || p.JoinCommand == nil {
				return lostSecret(p)
			}
			document, err := marshal(struct {
				Secret        string `json:"secret"`
				CAFingerprint string `json:"caFingerprint"`
				JoinCommand   string `json:"joinCommand"`
				ExpiresAt     moment `json:"expiresAt"`
				ID            string `json:"id"`
				PoolID        string `json:"poolId"`
			}{*p.Secret, p.CAFingerprint, *p.JoinCommand, p.JoinToken.ExpiresAt, p.JoinToken.ID, p.JoinToken.Pool.ID})
			if err != nil {
				return fmt.Errorf("write the token: %w", err)
			}
			a.say("%s joins one machine to the pool %s, until %s", p.JoinToken.ID, p.JoinToken.Pool.Name, p.JoinToken.ExpiresAt.until(c.now()))
			return a.printOne(ctx, document, p.JoinToken.ID, formatTable, func(w io.Writer, _ bool) error {
				if _, err := fmt.Fprintln(w, *p.JoinCommand); err != nil {
					return fmt.Errorf("write the line to type: %w", err)
				}
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&poolName, "pool", "", "the `pool` that the machine will belong to, by name or id; absent: default")
	cmd.Flags().StringVar(&ttl, "ttl", "", "how `long` it can be used, like 1h; absent: 30 minutes")
	return cmd
}

// lostSecret is for an answer that was lost on its way: the repeat made no second token and can't give the secret again.
func lostSecret(p *joinTokenPayload) error {
	made := "a token"
	if p != nil {
		made = p.JoinToken.ID
	}
	return &Error{
		Code: string(fault.Unavailable), Message: made + " was made, but the answer with its secret was lost",
		Hint: "make another one; the lost one ends by itself",
	}
}
