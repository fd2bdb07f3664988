package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// maxToken bounds what is read as a token; one has about 80 characters.
const maxToken = 4 << 10

func joinCommand() *cobra.Command {
	var s settings
	var servers []string
	var pin, attestor, tokenFile string
	var reset, yes bool
	command := &cobra.Command{
		Use:   "join",
		Short: "Join this machine to a control plane",
		Long: "Join this machine to a control plane by a single-use token. The token comes from a file or standard input, never from the command line,\n" +
			"where every user of the machine could read it.",
		Example: "  bcd join --server gateway.example:8443 --ca-fingerprint 3f… --token-file /run/token\n" +
			"  bcd join --config /etc/bcd/config.toml --token-file - < token\n" +
			"  bcd join --config /etc/bcd/config.toml --token-file - --reset --yes < token",
		RunE: func(command *cobra.Command, _ []string) error {
			if reset && !yes {
				return fmt.Errorf("join --reset lets this machine join as a new node and then moves the identity from before aside; re-run with --yes: %w", errUsage)
			}
			if yes && !reset {
				return fmt.Errorf("--yes belongs to --reset: %w", errUsage)
			}
			config, err := s.load(command)
			if err != nil {
				return err
			}
			if len(servers) > 0 {
				config.Servers = servers
			}
			override(&config.CAFingerprint, pin)
			override(&config.Attestor, attestor)
			override(&config.TokenFile, tokenFile)
			if config.TokenFile == "" {
				return fault.Invalid("token_file", "must name a file with the join token, or - for standard input", 0)
			}
			// Opened by whoever typed the command; from then on bcd may be a user who can't.
			from, err := openToken(config.TokenFile, command.InOrStdin())
			if err != nil {
				return err
			}
			defer from.Close()
			a, err := newAgent(command, config, slog.LevelWarn)
			if err != nil {
				return err
			}
			if err := a.CheckJoin(reset); err != nil {
				return err
			}
			token, err := readToken(from)
			if err != nil {
				return err
			}
			return join(command, a, agent.Join{Token: token, Reset: reset})
		},
	}
	s.add(command)
	command.Flags().StringSliceVar(&servers, "server", nil, "the gateway as `HOST:PORT`; several, separated by commas, are tried in turn")
	command.Flags().StringVar(&pin, "ca-fingerprint", "", "the SHA-256 of the control plane's root certificate, 64 `HEX` digits")
	command.Flags().StringVar(&attestor, "attestor", "", "how the machine proves that it may join: `token`")
	command.Flags().StringVar(&tokenFile, "token-file", "", "the `FILE` with the join token; - is standard input")
	command.Flags().BoolVar(&reset, "reset", false, "join as a new node, and move the identity that was there aside; needs --yes")
	command.Flags().BoolVar(&yes, "yes", false, "do what --reset says")
	return command
}

func override(setting *string, flag string) {
	if flag != "" {
		*setting = flag
	}
}

// join joins and says what came of it.
func join(command *cobra.Command, a *agent.Agent, j agent.Join) error {
	joined, err := a.Join(command.Context(), j)
	if joined.MovedAside != "" {
		fmt.Fprintln(command.ErrOrStderr(), "bcd: the identity from before is in", joined.MovedAside)
	}
	if err != nil {
		if j.Reset {
			fmt.Fprintln(command.ErrOrStderr(), "bcd: nothing is reset; the machine is what it was")
		}
		return err
	}
	credential := joined.Credential
	_, err = fmt.Fprintf(command.OutOrStdout(), "joined as %s\nkey %s\ncertificate until %s\n",
		credential.NodeID, credential.Key, credential.NotAfter().UTC().Format(time.RFC3339))
	return err
}

// openToken opens what the token is read from, a file or standard input.
func openToken(path string, stdin io.Reader) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(stdin), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.InvalidInput, fault.Details{"argument": "token_file"}, "read the join token: %w", err)
	}
	return file, nil
}

// readToken reads the first line. Errors never show what was read.
func readToken(from io.Reader) (wire.Token, error) {
	line, err := bufio.NewReader(io.LimitReader(from, maxToken)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return wire.Token{}, fault.New(fault.InvalidInput, fault.Details{"argument": "token_file"}, "read the join token: %w", err)
	}
	return wire.ParseToken(line)
}
