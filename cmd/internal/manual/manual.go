// Package manual gives a program, when it is built with the tag manual, a hidden command that writes its man pages. Released programs are built
// without it.
package manual

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Add adds the command to the root of a program. The date in the pages is SOURCE_DATE_EPOCH.
func Add(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use:    "write-manual DIR",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
			if err != nil {
				return fmt.Errorf("SOURCE_DATE_EPOCH must be seconds: %w", err)
			}
			date := time.Unix(seconds, 0).UTC()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: root.Name(), Section: "1", Date: &date, Source: "better-compute", Manual: "better-compute",
			}, args[0])
		},
	})
}
