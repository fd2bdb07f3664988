package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/agent"
)

func statusCommand() *cobra.Command {
	var s settings
	var output string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show what this machine knows of its membership",
		Long: "Show what this machine knows of its membership, without asking anyone. Exits 0 when it has joined, also when its session is lost or\n" +
			"refused, and 4 when it has not.",
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("-o must be text or json: %w", errUsage)
			}
			config, err := s.load(command)
			if err != nil {
				return err
			}
			a, err := newAgent(command, config, slog.LevelWarn)
			if err != nil {
				return err
			}
			status, err := a.Status()
			if err != nil {
				return err
			}
			if output == "json" {
				encoder := json.NewEncoder(command.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(status)
			} else {
				err = printStatus(command.OutOrStdout(), status, time.Now())
			}
			if err == nil && !status.Joined {
				return errSaid
			}
			return err
		},
	}
	s.add(command)
	command.Flags().StringVarP(&output, "output", "o", "text", "`FORMAT`: text or json")
	return command
}

// printStatus writes the status for a person.
func printStatus(w io.Writer, s agent.Status, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, value)
		}
	}
	if s.Joined {
		row("joined", "yes")
	} else {
		row("joined", "no")
	}
	row("node", s.NodeID)
	row("key", s.Key)
	row("server", strings.Join(s.Servers, ", "))
	if s.Joined {
		row("certificate", validity(s.NotAfter, now))
	}
	if s.Reset != nil {
		row("reset", resetText(*s.Reset, s.Joined))
	}
	switch {
	case s.Running && s.Session != nil:
		row("session", sessionText(*s.Session))
	case s.Running:
		row("session", "starting")
	case s.Session != nil:
		row("session", "bcd run is not running; last: "+sessionText(*s.Session))
	case s.Joined:
		row("session", "bcd run is not running")
	}
	return table.Flush()
}

// resetText says what the machine is, and what to do.
func resetText(r agent.Reset, joined bool) string {
	if r.Through {
		return "through: the machine is this node; the next bcd join or run puts its files in their places"
	}
	still := "not joined"
	if joined {
		still = "this node"
	}
	if r.UnderWay {
		return "under way: so far the machine is still " + still
	}
	return "begun and not through: the machine is still " + still + "; to go on, repeat bcd join --reset --yes with the same token or a new one; to let it be, remove " + r.Dir
}

func sessionText(s agent.Session) string {
	text := string(s.State)
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	text += " since " + s.Since.Format(time.RFC3339)
	if s.Message != "" {
		text += ": " + s.Message
	}
	if !s.NextTryAt.IsZero() {
		text += "; next try " + s.NextTryAt.Format(time.RFC3339)
	}
	return text
}

func validity(notAfter, now time.Time) string {
	text := "until " + notAfter.UTC().Format(time.RFC3339)
	if left := notAfter.Sub(now); left > 0 {
		return text + " (" + left.Round(time.Minute).String() + " left by this machine's clock)"
	}
	return text + " (past, by this machine's clock)"
}
