package dbtest

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/testenv"
)

// The test program is also what the tests of the shared server start: a test program that uses a database and waits.
func TestMain(m *testing.M) {
	if os.Getenv("BC_DBTEST_USER") != "" {
		url, err := server()
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(url)
		_, _ = io.ReadAll(os.Stdin)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// aTest is a test whose end and outcome the test decides.
type aTest struct {
	testing.TB
	failed   bool
	log      []string
	cleanups []func()
}

func (a *aTest) Failed() bool               { return a.failed }
func (a *aTest) Cleanup(f func())           { a.cleanups = append(a.cleanups, f) }
func (a *aTest) Logf(f string, args ...any) { a.log = append(a.log, fmt.Sprintf(f, args...)) }

func (a *aTest) end() {
	for _, f := range slices.Backward(a.cleanups) {
		f()
	}
}

func exists(t *testing.T, url string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		require.ErrorContains(t, err, "does not exist")
		return false
	}
	require.NoError(t, conn.Close(t.Context()))
	return true
}

func TestNew(t *testing.T) {
	t.Parallel()
	// Each test has a database of its own, whole, and the role of serve: no superuser.
	one, two := New(t), New(t, WithMaxConns(1))
	require.NotEqual(t, URL(one), URL(two))
	require.EqualValues(t, 1, two.Pool().Config().MaxConns)
	_, err := one.Pool().Exec(t.Context(), "create table only_here (n int)")
	require.NoError(t, err)
	for _, d := range []*db.DB{one, two} {
		state, err := d.MigrationState(t.Context())
		require.NoError(t, err)
		require.False(t, state.Behind())
		var here, jobs, super bool
		require.NoError(t, d.Pool().QueryRow(t.Context(), "select to_regclass('only_here') is not null, to_regclass('river_job') is not null, rolsuper from pg_roles where rolname = current_user").Scan(&here, &jobs, &super))
		require.Equal(t, []bool{d == one, true, false}, []bool{here, jobs, super})
	}

	// An empty one has nothing in it.
	conn, err := pgx.Connect(t.Context(), Empty(t))
	require.NoError(t, err)
	var tables int
	require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from pg_tables where schemaname = 'public'").Scan(&tables))
	require.Zero(t, tables)
	require.NoError(t, conn.Close(t.Context()))
}

func TestEnd(t *testing.T) {
	t.Parallel()
	// A test that passed leaves nothing.
	passed := &aTest{TB: t}
	url := URL(New(passed))
	require.True(t, exists(t, url))
	passed.end()
	require.False(t, exists(t, url))

	// One that failed leaves its database and says where.
	failed := &aTest{TB: t, failed: true}
	New(failed)
	failed.end()
	require.Len(t, failed.log, 1)
	_, kept, _ := strings.Cut(failed.log[0], "the database is kept: ")
	require.Contains(t, kept, "/"+keptPrefix)
	require.True(t, exists(t, kept))
	admin, err := server()
	require.NoError(t, err)
	conn, err := pgx.ParseConfig(kept)
	require.NoError(t, err)
	require.NoError(t, run(t.Context(), admin, "drop database "+conn.Database))

	// Of many only the newest stay.
	prefix := "bc_trim_" + strings.ToLower(rand.Text()[:8]) + "_"
	for _, name := range []string{"3", "1", "2"} {
		require.NoError(t, run(t.Context(), admin, "create database "+prefix+name))
	}
	require.NoError(t, trim(t.Context(), admin, prefix, 1))
	names, err := list(t.Context(), admin, prefix)
	require.NoError(t, err)
	require.Equal(t, []string{prefix + "3"}, names)
	require.NoError(t, trim(t.Context(), admin, prefix, 0))
}

func TestHeldConnection(t *testing.T) {
	t.Parallel()
	// The database goes even while another process of the test still holds it.
	a := &aTest{TB: t}
	url := Empty(a)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	a.end()
	require.False(t, exists(t, url))
	require.Error(t, conn.Ping(t.Context()))
	_ = conn.Close(t.Context())
}

// user is another test program that uses the shared server of a folder.
type user struct {
	cmd   *exec.Cmd
	stdin io.Closer
	url   string
}

func begin(t *testing.T, tmp, idle string) *user {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "BC_DBTEST_USER=1", "TMPDIR="+tmp, idleEnv+"="+idle, "BC_TEST_DATABASE_URL=", "GORACE=atexit_sleep_ms=0")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "postgres://", "a connection string")
	u := &user{cmd: cmd, stdin: stdin, url: strings.TrimSpace(line)}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	return u
}

func (u *user) end(t *testing.T) {
	t.Helper()
	require.NoError(t, u.stdin.Close())
	require.NoError(t, u.cmd.Wait())
}

func keeper(t *testing.T, tmp string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(tmp, "bc-dbtest-*", "server.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	s := readState(filepath.Dir(files[0]))
	require.Positive(t, s.PID)
	return s.PID
}

// scratch is a folder that PostgreSQL's user can get to, which t.TempDir is not for root.
func scratch(t *testing.T) string {
	t.Helper()
	base := os.Getenv("TMPDIR")
	if base == "" {
		base = cmp.Or(testenv.Memory(), os.TempDir())
	}
	dir, err := os.MkdirTemp(base, "bc-dbtest-test-") //nolint:usetesting // see above
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// gone waits until a process has ended and frees its data directory, which the keeper's lock on it tells.
func gone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(stat), ") Z ")
	}, 20*time.Second, 10*time.Millisecond, "process %d must end", pid)
}

func TestShared(t *testing.T) {
	t.Parallel()
	tmp := scratch(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(tmp)) })
	started := func(url string) time.Time {
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		var at time.Time
		require.NoError(t, conn.QueryRow(t.Context(), "select pg_postmaster_start_time()").Scan(&at))
		require.NoError(t, conn.Close(t.Context()))
		return at
	}

	// Test programs that begin at once share one server.
	var group sync.WaitGroup
	users := make([]*user, 3)
	for i := range users {
		group.Go(func() { users[i] = begin(t, tmp, "200ms") })
	}
	group.Wait()
	first := keeper(t, tmp)
	at := started(users[0].url)
	for _, u := range users[1:] {
		require.Equal(t, at, started(u.url))
	}

	// It lives as long as one of them, and ends when all have.
	users[0].end(t)
	users[1].end(t)
	require.Never(t, func() bool { return syscall.Kill(first, 0) != nil }, 600*time.Millisecond, 100*time.Millisecond)
	users[2].end(t)
	gone(t, first)
	_, err := pgx.Connect(t.Context(), users[2].url)
	require.Error(t, err)

	// The next one starts it again; and when the keeper is killed with everything, the next one does too, on the same data.
	u := begin(t, tmp, "30s")
	require.NoError(t, run(t.Context(), u.url, "create database "+keptPrefix+"x"))
	second := keeper(t, tmp)
	require.NotEqual(t, first, second)
	u.end(t)
	require.NoError(t, syscall.Kill(second, syscall.SIGKILL))
	gone(t, second)
	u = begin(t, tmp, "200ms")
	require.True(t, exists(t, database(u.url, keptPrefix+"x")))
	third := keeper(t, tmp)
	require.NotEqual(t, second, third)
	u.end(t)
	gone(t, third)
}

func TestForeignHome(t *testing.T) {
	// A folder that someone else put at the known name is not used.
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("BC_TEST_POSTGRES_BIN", "")
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(tmp, fmt.Sprintf("bc-dbtest-%d", os.Geteuid()))))
	_, err := home()
	require.ErrorContains(t, err, "bc-dbtest-")
	if os.Geteuid() == 0 {
		t.Setenv("TMPDIR", filepath.Join(tmp, "2"))
		require.NoError(t, os.MkdirAll(filepath.Join(tmp, "2", "bc-dbtest-0"), 0o755))
		require.NoError(t, os.Chown(filepath.Join(tmp, "2", "bc-dbtest-0"), 12345, 12345))
		_, err := home()
		require.ErrorContains(t, err, "belongs to someone else")
	}
}

func TestGivenServer(t *testing.T) {
	// The server of BC_TEST_DATABASE_URL is used as it is, when it is a URL.
	t.Setenv("BC_TEST_DATABASE_URL", "host=/tmp user=x")
	_, err := given()
	require.ErrorContains(t, err, "must be a URL")
	t.Setenv("BC_TEST_DATABASE_URL", "postgres://x@/y?host=/tmp")
	url, err := given()
	require.NoError(t, err)
	require.Equal(t, "postgres://x@/y?host=/tmp", url)
	require.Equal(t, "postgres://x@/z?host=/tmp", database(url, "z"))
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		a := &aTest{TB: b}
		New(a)
		a.end()
	}
}
