package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which build of better-compute this is",
		Args:  NoArgs,
		RunE: a.run(func(cmd *cobra.Command, _ []string) error {
			build := struct {
				Version  string `json:"version"`
				Revision string `json:"revision"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{a.env.Version, cmp.Or(a.env.Revision, revision()), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			document, err := marshal(build)
			if err != nil {
				return fmt.Errorf("write the version: %w", err)
			}
			return a.printOne(cmd.Context(), document, build.Version, formatTable, func(w io.Writer, _ bool) error {
				_, err := fmt.Fprintf(w, "better-compute %s (%s, %s, %s)\n", build.Version, orDash(build.Revision), build.Go, build.Platform)
				if err != nil {
					return fmt.Errorf("write the version: %w", err)
				}
				return nil
			})
		}),
	}
}

// revision is the commit that the binary was built from, where the build knows it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return ""
}
