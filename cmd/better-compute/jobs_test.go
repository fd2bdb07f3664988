package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// River's pages are there for the admin, with their files and what they read, and for nobody else.
func TestJobsPages(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	get := func(path, token string) (int, string) {
		t.Helper()
		status, text, err := b.get(path, token)
		require.NoError(t, err)
		return status, text
	}
	status, page := get("/jobs/", b.token)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, `"apiUrl":"/jobs/api"`)
	script := page[strings.Index(page, `src="/jobs/assets/`)+5:]
	status, _ = get(script[:strings.Index(script, `"`)], b.token)
	require.Equal(t, http.StatusOK, status)
	require.Eventually(t, func() bool { // a queue is there once a process has worked it
		status, text, err := b.get("/jobs/api/queues", b.token)
		return err == nil && status == http.StatusOK && strings.Contains(text, `"drains"`) && strings.Contains(text, `"maintenance"`)
	}, 20*time.Second, 20*time.Millisecond)
	status, text := get("/jobs/api/jobs?state=completed&limit=20", b.token)
	require.Equal(t, http.StatusOK, status, text)
	status, _ = get("/jobs/api/queues", "")
	require.Equal(t, http.StatusUnauthorized, status)
}
