package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzConfigFile: whatever stands in the settings file, reading it ends with settings or with a usage error that names the file, and never with a
// panic.
func FuzzConfigFile(f *testing.F) {
	f.Add("context = \"lab\"\n[contexts.lab]\nserver = \"https://compute.example\"\ntoken_file = \"/home/x/token\"\ntenant = \"acme\"\n")
	f.Add("[contexts.\"\"]\n")
	f.Add("contexts = 1")
	f.Add("unknown = true")
	f.Add("context = \"\\u0000\"\n[contexts]\n[contexts.a.b]\n")
	f.Add("\xff\xfe")
	f.Fuzz(func(t *testing.T, content string) {
		file, err := parseConfig("/home/x/config.toml", content)
		if err != nil {
			usage, ok := errors.AsType[*Error](err)
			require.True(t, ok)
			require.Equal(t, ExitUsage, usage.Exit())
			require.Contains(t, usage.Message, "/home/x/config.toml")
			return
		}
		for _, p := range file.Contexts {
			require.True(t, utf8.ValidString(p.Server+p.Tenant+p.TokenFile))
		}
	})
}

// FuzzEventAnswer: whatever a server says an event is, reading it ends with an event that can be shown on one line, or with an error.
func FuzzEventAnswer(f *testing.F) {
	f.Add(`{"id":"evt_1","cursor":"c","type":"node.drained","at":"2026-11-29T14:00:00Z","actor":"a","drainId":"drn_1","confirmedByNode":true}`)
	f.Add(`{"id":"evt_1","labelsSet":[{"key":"a","value":"b"}],"data":null}`)
	f.Add(`{"at":"x","data":{"a":{"b":["\u001b[2J"]}}}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		var e event
		if json.Unmarshal([]byte(text), &e) != nil {
			return
		}
		for _, cell := range eventRow(&e, true, true) {
			require.False(t, strings.ContainsAny(clean(cell), "\n\r\x1b"))
		}
	})
}
