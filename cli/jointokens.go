package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

func (a *app) joinTokens() *cobra.Command {
	return noun("join-tokens", "Tokens with which machines join", a.joinTokensCreate(), a.joinTokensList(), a.joinTokensRevoke())
}

func (a *app) joinTokensCreate() *cobra.Command {
	var poolName, ttl, set string
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
			if set != "" {
				with, err := parseLabels("--labels", set)
				if err != nil {
					return err
				}
				input["labels"] = with
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
	cmd.Flags().StringVar(&set, "labels", "", "labels that a new node begins with, as `KEY=VALUE,…`")
	return cmd
}

// parseLabels reads labels as the guide writes them: a plain split at the commas, and in each at the first equals sign.
func parseLabels(flag, text string) ([]map[string]string, error) {
	var out []map[string]string
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || key == "" {
			return nil, Usage("%s takes KEY=VALUE pairs, separated by commas, and %q is none", flag, part)
		}
		if seen[key] {
			return nil, Usage("%s names %q twice", flag, key)
		}
		seen[key] = true
		out = append(out, map[string]string{"key": key, "value": value})
	}
	return out, nil
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

func (a *app) joinTokensList() *cobra.Command {
	var (
		after string
		limit int
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tenant's join tokens, newest first",
		Long:  "Lists the tenant's join tokens, newest first: those that were used, have ended or were revoked too. Nobody can read their secrets again.",
		Args:  NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			ctx := cmd.Context()
			c, tenant, err := a.asTenant(ctx)
			if err != nil {
				return err
			}
			all, err := pages[joinToken](ctx, c, opJoinTokens, map[string]any{"tenantId": tenant}, "joinTokens", after, limit)
			if err != nil {
				return err
			}
			return a.printList(ctx, listing{
				key: "joinTokens", items: raws(all.Nodes), names: names(all.Nodes, func(t *joinToken) string { return t.ID }),
				more: []member{{"pageInfo", all.PageInfo.raw}},
				none: "no join tokens",
				rows: func(t *table, wide bool) { joinTokenRows(t, all.Nodes, c.now(), wide) },
			})
		}),
	}
	pageFlags(cmd, &limit, &after)
	return cmd
}

func joinTokenRows(t *table, list []doc[joinToken], now time.Time, wide bool) {
	head := []string{"ID", "POOL", "STATE", "ENDS", "BY", "NODE"}
	if wide {
		head = append(head, "CREATED", "USED", "REVOKED", "REVOKED BY")
	}
	t.header(head...)
	for i := range list {
		token := &list[i].v
		row := []string{token.ID, token.Pool.Name, token.state(now), token.ExpiresAt.stamp(), token.CreatedBy, orDash(token.UsedBy)}
		if wide {
			row = append(row, token.CreatedAt.stamp(), orDash(token.UsedAt.stamp()), orDash(token.RevokedAt.stamp()), orDash(token.RevokedBy))
		}
		t.row(row...)
	}
}

func (a *app) joinTokensRevoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Make a join token worthless that no machine has used",
		Long: "Makes a join token worthless that no machine has used. Revoking one that is revoked or has ended already changes nothing. One that was used is\n" +
			"refused: the node's certificate is what to revoke then.",
		Example: "  better-compute join-tokens revoke jt_01k5wjb4s8fpvb0q9f6m3h2c7d",
		Args:    oneID(id.JoinToken, "join token"),
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, tenant, err := a.asTenant(ctx)
			if err != nil {
				return err
			}
			var answer struct {
				JoinTokenRevoke *joinTokenRevoked `json:"joinTokenRevoke"`
			}
			input := map[string]any{"tenantId": tenant, "joinTokenId": args[0], "requestId": requestID()}
			if err := c.do(ctx, opJoinTokenRevoke, map[string]any{"input": input}, &answer); err != nil {
				return err
			}
			p := answer.JoinTokenRevoke
			if p == nil {
				return unavailable(nil, "the server's answer is empty")
			}
			token := &p.JoinToken.v
			switch {
			case p.Changed:
				a.say("%s revoked", token.ID)
			case token.RevokedAt != "":
				a.say("unchanged: already revoked by %s since %s", token.RevokedBy, token.RevokedAt.stamp())
			default:
				a.say("unchanged: it has ended, %s", token.ExpiresAt.stamp())
			}
			return a.printToken(ctx, c, p)
		}),
	}
}

func (a *app) printToken(ctx context.Context, c *client, p *joinTokenRevoked) error {
	return a.printOne(ctx, p.JoinToken.raw, p.JoinToken.v.ID, "", func(w io.Writer, wide bool) error {
		t := &table{paint: a.paint()}
		joinTokenRows(t, []doc[joinToken]{p.JoinToken}, c.now(), wide)
		return t.write(w)
	})
}
