package main

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/cli"
	"github.com/better-compute/better-compute/db/dbtest"
)

// A process without the API says how it is as well: whether it lives, whether it can serve, and its own figures, which tell nothing of tenants. One
// that has the API and was told no other place has no second one.
func TestHealthWithoutAPI(t *testing.T) {
	t.Parallel()
	for _, role := range []string{roleGateway, roleJobs} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			s := &settings{
				dataDir: filepath.Join(t.TempDir(), "data"), gatewayListen: "127.0.0.1:0", healthListen: free(t), databaseURL: dbtest.URL(dbtest.New(t)),
				roles: []string{role}, migrate: "auto", revocationPoll: time.Second, revocationGiveUp: time.Minute, logLevel: "info",
			}
			require.NoError(t, s.check())
			ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
			ended := make(chan error, 1)
			var said buffer
			go func() { ended <- serve(ctx, s, slog.New(slog.DiscardHandler), &said) }()
			t.Cleanup(stop)
			b := &server{T: t, url: "http://" + s.healthListen}
			require.Eventually(t, func() bool {
				status, text, err := b.get("/readyz", "")
				return err == nil && status == http.StatusOK && strings.Contains(text, `"`+role+`":"ok"`) && strings.Contains(text, `"database":"ok"`)
			}, time.Minute, 10*time.Millisecond)
			status, _, err := b.get("/healthz", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			status, text, err := b.get("/metrics", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, text, "\nbc_follow_lag_seconds ")
			require.Equal(t, role == roleGateway, strings.Contains(text, "\nbc_gateway_sessions 0\n"))
			for _, of := range []string{"bc_nodes", "bc_drains", "bc_log_head", "default/"} {
				require.NotContains(t, text, of, "a figure of the installation")
			}
			status, _, err = b.get("/graphql?query=%7Bviewer%7Bname%7D%7D", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusNotFound, status)
			require.Contains(t, said.String(), "http://"+s.healthListen+"/readyz")
			stop()
			require.NoError(t, <-ended)
		})
	}
	require.Equal(t, defaultHealth, (&settings{roles: []string{roleJobs}}).healthAddress())
	require.Empty(t, (&settings{roles: []string{roleAPI, roleGateway}}).healthAddress())
}

// A database that takes no writes makes the process not ready and says why; reading goes on, each change is refused with a sentence, and once it takes
// writes again all is as before.
func TestDatabaseReadOnly(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	only := func(on string) {
		_, err := b.db.Pool().Exec(t.Context(), "begin read write; do $$ begin execute format('alter database %I set default_transaction_read_only = "+
			on+"', current_database()); end $$; commit")
		require.NoError(t, err)
	}
	ask := func(query string) string {
		_, text, err := answer(b.post(query, "application/json"), nil)
		require.NoError(t, err)
		return text
	}
	only("on")
	_, err := b.db.Pool().Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
	require.NoError(t, err)
	b.db.Pool().Reset() // the test's own sessions ended with them
	require.Eventually(t, func() bool {
		status, text, err := b.get("/readyz", "")
		return err == nil && status == http.StatusServiceUnavailable && strings.Contains(text, "takes no writes")
	}, 20*time.Second, 20*time.Millisecond)
	const create = `mutation { poolCreate(input: { tenantId: "default", name: "more" }) { changed } }`
	refused := ask(create)
	require.Contains(t, refused, `"UNAVAILABLE"`)
	require.Contains(t, refused, "takes no writes")
	require.Contains(t, ask(`{ pools(tenantId: "default") { name } }`), `"pools":[{"name":"default"}]`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/session/link", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+b.token)
	status, text, err := answer(client.Do(req))
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "takes no writes")

	only("off")
	require.Eventually(t, func() bool {
		status, _, err := b.get("/readyz", "")
		return err == nil && status == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond)
	require.Contains(t, ask(create), `"changed":true`)
}

// What belongs to the client commands is neither shown by serve nor taken.
func TestServeIsNoClient(t *testing.T) {
	t.Parallel()
	var out, errs buffer
	ask := func(args ...string) int {
		return runIn(t.Context(), &cli.Env{Stdout: &out, Stderr: &errs, LookupEnv: func(string) (string, bool) { return "", false }, Version: "test"}, args)
	}
	require.Zero(t, ask("serve", "--help"))
	require.Contains(t, out.String(), "--health-listen")
	for _, flag := range []string{"--token-file", "--tenant", "--jq", "--output", "--server"} {
		require.NotContains(t, out.String(), flag)
	}
	require.Equal(t, 2, ask("serve", "--tenant", "acme", "--data-dir", filepath.Join(t.TempDir(), "data")))
	require.Contains(t, errs.String(), "takes no --tenant")
}
