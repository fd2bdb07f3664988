//go:build manual

package main

import (
	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/cmd/internal/manual"
)

func addManual(root *cobra.Command) { manual.Add(root) }
