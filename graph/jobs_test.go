package graph_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The pages about jobs are for who may manage jobs, by a bearer token or the browser's session, and for no other site.
func TestJobsDoor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	root := b.tokenFor("root", "", time.Hour)
	session := "bc_session=" + root
	bearer, json := "Bearer "+root, "application/json"
	revoked := b.tokenFor("gone", "", time.Hour)
	b.exec(`update api_tokens set revoked_at = now() where principal = 'gone'`)
	for name, c := range map[string]struct {
		method, path string
		header       map[string]string
		status       int
	}{
		"nobody is told to sign in":                      {"GET", "/jobs/", nil, 401},
		"a browser without a session goes to sign in":    {"GET", "/jobs/", map[string]string{"Accept": "text/html"}, 303},
		"a revoked token":                                {"GET", "/jobs/", map[string]string{"Authorization": "Bearer " + revoked}, 401},
		"no token of ours":                               {"GET", "/jobs/", map[string]string{"Authorization": "Bearer x"}, 401},
		"a tenant's admin":                               {"GET", "/jobs/", map[string]string{"Authorization": "Bearer " + b.token}, 403},
		"a page by a bearer":                             {"GET", "/jobs/", map[string]string{"Authorization": bearer}, 200},
		"a page by the session, opened from nowhere":     {"GET", "/jobs", map[string]string{"Cookie": session, "Sec-Fetch-Site": "none"}, 200},
		"what a page of ours reads":                      {"GET", "/jobs/api/jobs", map[string]string{"Cookie": session, "Sec-Fetch-Site": "same-origin"}, 200},
		"an act from a page of ours":                     {"POST", "/jobs/api/jobs/retry", map[string]string{"Cookie": session, "Content-Type": json, "Origin": b.server.URL}, 200},
		"an act by a bearer":                             {"DELETE", "/jobs/api/jobs", map[string]string{"Authorization": bearer}, 200},
		"I4 an act by the session without an origin":     {"POST", "/jobs/api/jobs/retry", map[string]string{"Cookie": session, "Content-Type": json}, 403},
		"I4 an act by the session from a foreign origin": {"POST", "/jobs/api/jobs/retry", map[string]string{"Cookie": session, "Content-Type": json, "Origin": "https://evil.example"}, 403},
		"I4 a page by the session from another site":     {"GET", "/jobs/", map[string]string{"Cookie": session, "Sec-Fetch-Site": "cross-site"}, 403},
		"I4 a page by the session from a sister site":    {"GET", "/jobs/", map[string]string{"Cookie": session, "Sec-Fetch-Site": "same-site"}, 403},
		"I4 a foreign host":                              {"GET", "/jobs/", map[string]string{"Authorization": bearer, "Host": "evil.example"}, 421},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), c.method, b.server.URL+c.path, strings.NewReader(""))
			require.NoError(t, err)
			for k, v := range c.header {
				req.Header.Set(k, v)
			}
			if host, ok := c.header["Host"]; ok {
				req.Host = host
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			require.NoError(t, err)
			defer func() { _ = resp.Body.Close() }()
			require.Equal(t, c.status, resp.StatusCode)
			require.Contains(t, resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
			if c.status == http.StatusSeeOther {
				require.Equal(t, "/", resp.Header.Get("Location"))
			}
		})
	}
}
