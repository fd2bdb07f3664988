package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
)

// signIn makes a one-time link with which a browser signs in as whoever holds the token. The secret stands in the link's fragment, which no browser
// sends anywhere.
func (a *app) signIn() *cobra.Command {
	return &cobra.Command{
		Use:   "sign-in",
		Short: "Make a link that signs a browser in to the console, once, within 10 minutes",
		Args:  NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			site := strings.TrimSuffix(c.endpoint, "/graphql")
			ctx, cancel := context.WithTimeout(cmd.Context(), answerTimeout)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, site+"/session/link", strings.NewReader("{}"))
			if err != nil {
				return fmt.Errorf("make the request: %w", err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+c.token)
			response, err := c.http.Do(request)
			if err != nil {
				return c.unreached(cmd.Context(), err)
			}
			defer func() { _ = response.Body.Close() }()
			text, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
			if err != nil {
				return c.unreached(cmd.Context(), err)
			}
			if response.StatusCode != http.StatusOK {
				return c.read(response, text, nil)
			}
			var made struct {
				Secret string `json:"secret"`
			}
			if err := json.Unmarshal(text, &made); err != nil || made.Secret == "" {
				return &Error{Code: string(fault.Internal), Message: "the server's answer holds no link", cause: err}
			}
			link := struct {
				URL string `json:"url"`
			}{site + "/#sign-in=" + made.Secret}
			document, err := marshal(link)
			if err != nil {
				return fmt.Errorf("write the link: %w", err)
			}
			return a.printOne(cmd.Context(), document, link.URL, formatTable, func(w io.Writer, _ bool) error {
				if _, err := fmt.Fprintln(w, link.URL); err != nil {
					return fmt.Errorf("write the link: %w", err)
				}
				return nil
			})
		}),
	}
}
