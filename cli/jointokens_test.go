package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseLabels(t *testing.T) {
	t.Parallel()
	got, err := parseLabels("--labels", "rack=b7,fabric/rail=3,note=a=b,empty=")
	require.NoError(t, err)
	require.Equal(t, []map[string]string{
		{"key": "rack", "value": "b7"}, {"key": "fabric/rail", "value": "3"}, {"key": "note", "value": "a=b"}, {"key": "empty", "value": ""},
	}, got, "a plain split at the commas, and the first equals sign")
}
