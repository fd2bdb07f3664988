package health

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/node"
)

// FuzzFacts: whatever facts a machine reports, what is kept of them can be stored as JSON in PostgreSQL (no zero character), is bounded, is the same
// when it is made sound again, and gives labels of the guide's grammar, each key once.
func FuzzFacts(f *testing.F) {
	f.Add(`{"system":{"hostname":"n1","serial":"S1"},"cpu":{"arch":"amd64","model":"EPYC 9654","threads":192},"memoryBytes":2164663517184,
		"gpus":[{"uuid":"GPU-0","model":"NVIDIA H100 80GB HBM3","memoryBytes":85899345920}],"gpuDriver":{"version":"570.1"}}`)
	f.Add(`{"cpu":{"model":"\u0000\ud800 bc.dev/x","cores":-1},"gpus":[{"uuid":""},{"uuid":"","model":"--"}],"notes":["\u202e"]}`)
	f.Add(`{"fileSystems":[{"path":"/"},{"path":"/"}],"nics":[{"name":"eth0","addresses":["::1"]}],"disks":[{"name":"sda","sizeBytes":18446744073709551615}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var facts Facts
		if json.Unmarshal([]byte(text), &facts) != nil {
			return
		}
		sound := facts.sound()
		body, err := json.Marshal(sound)
		require.NoError(t, err)
		require.True(t, utf8.Valid(body))
		require.NotContains(t, string(body), `\u0000`)
		again, err := json.Marshal(sound.sound())
		require.NoError(t, err)
		require.JSONEq(t, string(body), string(again))
		require.LessOrEqual(t, len(sound.GPUs), maxGPUs)
		seen := map[string]bool{}
		for _, l := range labels(sound) {
			require.False(t, seen[l.Key], l.Key)
			seen[l.Key] = true
			require.NoError(t, node.CheckLabels("labels", map[string]string{l.Key: l.Value}))
			require.False(t, strings.ContainsFunc(l.Value, unicode.IsControl))
		}
	})
}
