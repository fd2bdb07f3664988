package events_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rows is the source of the catalogue's rows.
func rows(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("catalogue_*.go")
	require.NoError(t, err)
	var b strings.Builder
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		b.Write(text)
	}
	return b.String()
}
