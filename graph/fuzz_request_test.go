package graph

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
)

// FuzzRequest: whatever somebody who isn't signed in sends, on a stream or for one answer, by POST or by GET, nothing runs that reads anything: the
// answer is the schema's own facts, or errors that each have a code which is not INTERNAL, and it ends. The handler has no database, so that a
// resolver which reads before it asks who calls shows as INTERNAL.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"query":"subscription { events(tenantId: \"acme\") { __typename } }"}`,
		`{"query":"subscription { nodeDrained(tenantId: \"acme\", nodeId: \"n\") { __typename } }","operationName":null,"variables":{}}`,
		`{"query":"{ __schema { queryType { name } } __typename }"}`,
		`{"query":"{ viewer { name } }","variables":{"a":[[[[1]]]]},"extensions":{}}`,
		`{"query":"mutation { a: nodeCordon(input: {tenantId: \"acme\", nodeId: \"b\"}) { changed } }"}`,
		`{"query":"query A { __typename } subscription B { drainChanges(tenantId: \"a\") { __typename } }","operationName":"B"}`,
		`{"query":""}`, `{"query":5}`, `[{"query":"{ __typename }"}]`, `{`, "data: x\n\n", "\xff\x00",
	} {
		f.Add(s, true, false)
		f.Add(s, false, false)
		f.Add(s, true, true)
		f.Add(s, false, true)
	}
	hosts, err := NewHosts(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, "")
	require.NoError(f, err)
	h := Handler(&API{Slog: slog.New(slog.DiscardHandler)}, Options{
		Hosts: hosts, Console: http.NotFoundHandler(), Stopping: f.Context(), RefusedAtOnce: 1 << 30,
	})
	f.Fuzz(func(t *testing.T, body string, stream, get bool) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8080/graphql", strings.NewReader(body))
		if get {
			r = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080/graphql", nil)
			q := r.URL.Query()
			q.Set("query", body)
			r.URL.RawQuery = q.Encode()
		}
		r.Header.Set("Content-Type", "application/json")
		if stream {
			r.Header.Set("Accept", "text/event-stream")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		for _, answer := range answers(t, w) {
			for _, e := range answer.Errors {
				require.NotEmpty(t, e.Message)
				require.NotEmpty(t, e.Extensions.Code, "%s", w.Body)
				require.NotEqual(t, string(fault.Internal), e.Extensions.Code, "%s", w.Body)
			}
		}
	})
}

type refusals struct {
	Errors []struct {
		Message    string
		Extensions struct{ Code string }
	}
}

// answers reads one JSON answer, or those of a stream, each an event with its data on one line.
func answers(t *testing.T, w *httptest.ResponseRecorder) []refusals {
	t.Helper()
	var all []refusals
	read := func(text []byte) {
		var one refusals
		require.NoError(t, json.Unmarshal(text, &one), "%d %s", w.Code, text)
		all = append(all, one)
	}
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		read(w.Body.Bytes())
		return all
	}
	lines := bufio.NewScanner(w.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			read([]byte(data))
		}
	}
	require.NoError(t, lines.Err())
	return all
}
