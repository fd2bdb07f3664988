package main

import (
	"log/slog"

	"github.com/spf13/cobra"
)

func runCommand() *cobra.Command {
	var s settings
	command := &cobra.Command{
		Use:   "run",
		Short: "Keep a session with the control plane",
		Long: "Keep a session with the control plane: tell what the machine is made of, beat, renew the certificate, come back after every loss.\n" +
			"SIGTERM closes the session in order and exits 0. The workloads of the machine are left alone, whatever happens.",
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := s.load(command)
			if err != nil {
				return err
			}
			a, err := newAgent(command, config, slog.LevelInfo)
			if err != nil {
				return err
			}
			return a.Run(command.Context())
		},
	}
	s.add(command)
	return command
}
