package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWords: times, states and facts as people read them.
func TestWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 400 * time.Millisecond: "0s", 59 * time.Second: "59s", 89 * time.Second: "1m", 119 * time.Minute: "1h59m",
		2*time.Hour - time.Second: "2h", 23*time.Hour + 59*time.Minute: "23h59m", 24 * time.Hour: "1d", 50 * time.Hour: "2d",
	} {
		require.Equal(t, want, span(d), "%s", d)
	}
	require.Equal(t, "never", moment("").ago(now))
	require.Equal(t, "now", moment("2026-11-29T13:59:30Z").ago(now))
	require.Equal(t, "now", moment("2026-11-29T14:00:30Z").ago(now), "a clock that is ahead gives no negative age")
	require.Equal(t, "14m ago", moment("2026-11-29T13:46:00.123456Z").ago(now))
	require.Equal(t, "open-ended", moment("").until(now))
	require.Equal(t, "2026-11-29T14:30:00Z (in 30m)", moment("2026-11-29T15:30:00+01:00").until(now))
	require.Equal(t, "2026-11-29T13:00:00Z (passed)", moment("2026-11-29T13:00:00Z").until(now))
	require.Equal(t, "One tenant", words("ONE_TENANT"))
	require.Empty(t, words(""))
	require.Equal(t, "a·[2Jb·c··", clean("a\x1b[2Jb\nc\u202e\xff"))
	require.Equal(t, `ids=["a"] n=1 s=x y`, facts(json.RawMessage(`{"s":"x y","n":1,"ids":["a"]}`)))
	require.Empty(t, facts(nil))
	require.Equal(t, "[1]", facts(json.RawMessage(`[1]`)), "what is no object is shown as it is")
	var labeled event
	require.NoError(t, json.Unmarshal([]byte(`{"id":"evt_1","type":"node.labeled","actor":"x","requestId":null,"labelsSet":[{"key":"a","value":"b"}],"labelsDisplaced":null}`), &labeled))
	require.Equal(t, `labelsSet=[{"key":"a","value":"b"}]`, labeled.detail(), "a family that the table doesn't know is shown by its own fields")
	no := false
	require.Equal(t, "drn_1, not confirmed by the node", (&event{DrainID: "drn_1", ConfirmedByNode: &no}).detail())
	require.Equal(t, "ended drn_1", (&event{CancelledDrainID: "drn_1"}).detail())
}

// TestWantsJSON: how errors are written is read off the line itself, however it spells -o.
func TestWantsJSON(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-o", "json"}, {"-ojson"}, {"-o=json"}, {"--output", "ndjson"}, {"--output=json"}, {"--jq", "."}, {"--jq=."},
	} {
		require.True(t, wantsJSON(args), "%q", args)
	}
	for _, args := range [][]string{
		{}, {"-o", "yaml"}, {"-owide"}, {"-o"}, {"--", "-o", "json"}, {"--order", "json"}, {"nodes", "get", "json"},
	} {
		require.False(t, wantsJSON(args), "%q", args)
	}
}
