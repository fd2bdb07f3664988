package embedded

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/testenv"
)

// The test program is also the process that a test kills, and the one that runs as another user: it does what BC_EMBEDDED_ROLE says.
func TestMain(m *testing.M) {
	switch os.Getenv("BC_EMBEDDED_ROLE") {
	case "":
		goleak.VerifyTestMain(m)
	case "serve":
		actServe()
	case "connect":
		actConnect()
	default:
		panic("unknown BC_EMBEDDED_ROLE")
	}
}

type serving struct {
	PID, UID             int
	URL, AdminURL, Error string
}

// actServe runs a server until its standard input ends, and says where it is.
func actServe() {
	var said serving
	s, err := Start(context.Background(), Config{DataDir: os.Getenv("BC_EMBEDDED_DIR"), BinDir: os.Getenv("BC_EMBEDDED_BIN"), Settings: fast})
	if err != nil {
		said.Error = err.Error()
	} else {
		said = serving{PID: s.PID(), UID: os.Geteuid(), URL: s.URL(), AdminURL: s.AdminURL()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil || s == nil {
		os.Exit(1)
	}
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	if s.Stop(context.Background()) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// actConnect tries to connect and prints why it could not.
func actConnect() {
	for url := range strings.FieldsSeq(os.Getenv("BC_EMBEDDED_URLS")) {
		conn, err := pgx.Connect(context.Background(), url)
		if err == nil {
			_ = conn.Close(context.Background())
		}
		fmt.Println(strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
	}
	os.Exit(0)
}

// fast is for tests that lose no data when the power goes.
var fast = map[string]string{"fsync": "off", "shared_buffers": "16MB"}

// scratch is a directory that PostgreSQL's user can get to, which t.TempDir is not for root.
func scratch(t *testing.T) string {
	t.Helper()
	base := os.Getenv("TMPDIR")
	if base == "" {
		base = cmp.Or(testenv.Memory(), os.TempDir())
	}
	dir, err := os.MkdirTemp(base, "bc-embedded-") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	dir, err = absolute(dir)
	require.NoError(t, err)
	return dir
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Settings == nil {
		cfg.Settings = fast
	}
	s, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return s
}

func refused(t *testing.T, cfg Config, code fault.Code, words ...string) {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err == nil {
		require.NoError(t, s.Stop(t.Context()))
		t.Fatal("a start that must be refused went through")
	}
	require.Equal(t, code, fault.CodeOf(err), err)
	for _, w := range words {
		require.Contains(t, fault.From(err).Message, w)
	}
	require.NotContains(t, fault.From(err).Message, "\n", "a refusal is one sentence")
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func one[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn := connect(t, url)
	var v T
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&v), sql)
	require.NoError(t, conn.Close(t.Context()))
	return v
}

func do(t *testing.T, url, sql string) {
	t.Helper()
	conn := connect(t, url)
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err, sql)
	require.NoError(t, conn.Close(t.Context()))
}

// helper is a process of this test program that runs a server.
type helper struct {
	serving
	cmd *exec.Cmd
}

func serve(t *testing.T, dir, bin string, uid int) *helper {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "BC_EMBEDDED_ROLE=serve", "BC_EMBEDDED_DIR="+dir, "BC_EMBEDDED_BIN="+bin, "GORACE=atexit_sleep_ms=0")
	if uid >= 0 {
		become(t, cmd, uid)
	}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	h := &helper{cmd: cmd}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	require.NoError(t, json.NewDecoder(stdout).Decode(&h.serving))
	require.Empty(t, h.Error)
	return h
}

// become makes a command run as another user, from a copy of this program that this user can read.
func become(t *testing.T, cmd *exec.Cmd, uid int) {
	t.Helper()
	dir := scratch(t)
	to := filepath.Join(dir, "tests")
	if os.Link(cmd.Path, to) == nil { // much faster, where both lie on one file system
		require.NoError(t, os.Chmod(to, 0o755))
	} else {
		require.NoError(t, copyFile(cmd.Path, to))
	}
	cmd.Path, cmd.Args, cmd.Dir = to, []string{to}, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
}

func (h *helper) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, h.cmd.Process.Kill())
	_ = h.cmd.Wait()
}

func gone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, 20*time.Second, 5*time.Millisecond, "process %d must end", pid)
}

func TestLife(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(scratch(t), "made", "on the way's")
	cfg := Config{DataDir: dir, Settings: map[string]string{"shared_buffers": "16MB", "work_mem": "5MB"}}
	s := start(t, cfg)

	// Out of the box it is durable, closed to the network, and the product's role is no superuser.
	require.Equal(t, "on", one[string](t, s.URL(), "show fsync"))
	require.Equal(t, "on", one[string](t, s.URL(), "show data_checksums"))
	require.Equal(t, "5MB", one[string](t, s.URL(), "show work_mem"))
	require.Empty(t, one[string](t, s.URL(), "show listen_addresses"))
	require.Equal(t, "better_compute|better_compute|false", one[string](t, s.URL(),
		"select current_database() || '|' || current_user || '|' || rolsuper from pg_roles where rolname = current_user"))
	if runtime.GOOS == "linux" {
		require.Empty(t, listening(t, s.PID()), "no TCP port is listened on")
	}
	pgid, err := syscall.Getpgid(s.PID())
	require.NoError(t, err)
	require.Equal(t, s.PID(), pgid, "a Ctrl-C for us must not reach it")

	// A superuser's ALTER SYSTEM cannot open what the start closed.
	do(t, s.AdminURL(), "alter system set listen_addresses = '127.0.0.1'")
	do(t, s.URL(), "create table kept (n int); insert into kept values (7)")

	// The directory is held: a second start is refused with the holder's process id.
	refused(t, cfg, fault.InvalidState, "in use by a running better-compute", strconv.Itoa(os.Getpid()))

	// Stop ends it, frees the directory, and may be said twice.
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, s.Stop(t.Context()))
	<-s.Done()
	require.NoError(t, s.Err())

	// Started again it finds the data.
	s = start(t, cfg)
	require.Equal(t, 7, one[int](t, s.URL(), "select n from kept"))
	require.Empty(t, one[string](t, s.URL(), "show listen_addresses"))
}

// listening gives the TCP sockets that a process listens on.
func listening(t *testing.T, pid int) []string {
	t.Helper()
	own := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	require.NotEmpty(t, fds)
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil {
			own[to] = true
		}
	}
	var found []string
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		for line := range strings.SplitSeq(string(text), "\n") {
			if f := strings.Fields(line); len(f) > 9 && own["socket:["+f[9]+"]"] {
				found = append(found, line)
			}
		}
	}
	return found
}

func TestRights(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(scratch(t), "data")
	s := start(t, Config{DataDir: dir})
	mode := func(path string) string {
		info, err := os.Stat(path)
		require.NoError(t, err)
		uid, _ := owner(info)
		return fmt.Sprintf("%04o %t", info.Mode().Perm(), uid == os.Geteuid())
	}
	root := s.place.who.drop

	// PostgreSQL's files are its user's alone, ours are ours, and PostgreSQL's user cannot change its own configuration.
	require.Equal(t, "0600 true", mode(filepath.Join(dir, lockName)))
	if root {
		require.Equal(t, "0711 true", mode(dir))
		require.Equal(t, "0700 false", mode(filepath.Join(dir, "pg")))
		require.Equal(t, "0750 true", mode(filepath.Join(dir, "pg-conf")))
	} else {
		require.Equal(t, "0700 true", mode(dir))
		require.Equal(t, "0700 true", mode(filepath.Join(dir, "pg")))
		require.Equal(t, "0700 true", mode(filepath.Join(dir, "pg-conf")))
	}
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "pg"), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // PostgreSQL is at work
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is open to others", path)
		uid, _ := owner(info)
		require.Equal(t, s.place.who.uid, uid, path)
		return nil
	}))
	hba, err := os.ReadFile(filepath.Join(dir, "pg-conf", "pg_hba.conf"))
	require.NoError(t, err)
	require.Equal(t, "local all all peer map=better_compute\n", string(hba))
	require.Equal(t, filepath.Join(dir, "pg-conf", "pg_hba.conf"), one[string](t, s.AdminURL(), "show hba_file"))
	info, err := os.Stat(filepath.Join(dir, "pg", socketFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestKilledServer(t *testing.T) {
	t.Parallel()
	cfg := Config{DataDir: filepath.Join(scratch(t), "data")}
	s := start(t, cfg)
	do(t, s.URL(), "create table kept (n int); insert into kept values (7)")

	// A server process that computes does not notice the death of the first one. It must not stand in the next start's way.
	busy := connect(t, s.URL())
	computes := make(chan error, 1)
	go func() {
		_, err := busy.Exec(context.Background(), "select count(*) from generate_series(1, 1000000000000)")
		computes <- err
	}()
	require.Eventually(t, func() bool {
		return one[bool](t, s.AdminURL(), "select exists(select from pg_stat_activity where state = 'active' and query like '%1000000000000%' and pid <> pg_backend_pid())")
	}, 10*time.Second, 10*time.Millisecond)

	// When PostgreSQL is killed, Done tells, and Err is a fault; the directory is free after Stop.
	require.NoError(t, syscall.Kill(s.PID(), syscall.SIGKILL))
	<-s.Done()
	require.Equal(t, fault.Unavailable, fault.CodeOf(s.Err()))
	require.Contains(t, s.Err().Error(), "killed")
	require.NoError(t, s.Stop(t.Context()))

	// The next start takes up what was committed.
	s = start(t, cfg)
	require.Error(t, <-computes)
	require.Equal(t, 7, one[int](t, s.URL(), "select n from kept"))
}

func TestKilledParent(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "linux")
	cfg := Config{DataDir: filepath.Join(scratch(t), "data")}

	// The parent is killed: PostgreSQL ends with it, and the directory can be used at once.
	h := serve(t, cfg.DataDir, "", -1)
	do(t, h.URL, "create table kept (n int); insert into kept values (7)")
	h.kill(t)
	gone(t, h.PID)

	// Parent and PostgreSQL are killed; and the parent is killed and the next start does not wait for PostgreSQL's end.
	h = serve(t, cfg.DataDir, "", -1)
	require.NoError(t, syscall.Kill(h.PID, syscall.SIGSTOP)) // so that it cannot react to its parent's death in between
	h.kill(t)
	require.NoError(t, syscall.Kill(h.PID, syscall.SIGKILL))
	h = serve(t, cfg.DataDir, "", -1)
	h.kill(t)
	s := start(t, cfg)
	require.Equal(t, 7, one[int](t, s.URL(), "select n from kept"))
}

func TestOrphan(t *testing.T) {
	t.Parallel()
	cfg := Config{DataDir: filepath.Join(scratch(t), "data")}
	s := start(t, cfg)
	require.NoError(t, s.Stop(t.Context()))

	// A whole server that nobody holds, as a system without parent-death signals leaves it, is shut down before ours starts.
	bin, err := findBinaries(t.Context(), s.place, cfg, 0, false)
	require.NoError(t, err)
	cmd := s.place.postgres(bin, s.socket)
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), s.URL())
		return err == nil && conn.Close(t.Context()) == nil
	}, 10*time.Second, 10*time.Millisecond)
	s = start(t, cfg)
	require.NoError(t, <-ended, "a fast shutdown, which ends with status 0")
	require.NotEqual(t, cmd.Process.Pid, s.PID())
	require.NoError(t, s.Stop(t.Context()))

	// A stale postmaster.pid whose process id belongs to something else by now hinders nothing, and that process lives on.
	other := s.place.who.as(exec.Command("/bin/sh", "-c", "read wait"))
	stdin, err := other.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	stale := filepath.Join(s.place.pg, "postmaster.pid")
	require.NoError(t, os.WriteFile(stale, fmt.Appendf(nil, "%d\n%s\n1\n5432\n\n\n\n", other.Process.Pid, s.place.pg), 0o600))
	require.NoError(t, s.place.who.give(stale))
	start(t, cfg)
	require.NoError(t, syscall.Kill(other.Process.Pid, 0))
	_, err = stdin.Write([]byte("\n"))
	require.NoError(t, err)
	require.NoError(t, other.Wait())
}

func TestCutOffStart(t *testing.T) {
	t.Parallel()
	cfg := Config{DataDir: filepath.Join(scratch(t), "data"), Settings: fast}

	// A start whose context is over leaves nothing running, frees the directory, and the next one completes it.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, cfg)
	require.Error(t, err)
	require.NoError(t, os.MkdirAll(cfg.DataDir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.DataDir, lockName), nil, 0o600))
	p := filepath.Join(cfg.DataDir, "pg.new")
	require.NoError(t, os.MkdirAll(filepath.Join(p, "base"), 0o700)) // what a killed initdb leaves
	s := start(t, cfg)
	require.NoDirExists(t, p)
	require.NoError(t, s.Stop(t.Context()))

	// A setting that PostgreSQL does not take is told in its own words.
	cfg.Settings = map[string]string{"shared_buffers": "lots"}
	refused(t, cfg, fault.Unavailable, "PostgreSQL ended by itself", "shared_buffers")
	cfg.Settings = fast
	start(t, cfg)
}

func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	// Nobody opens the server by a setting, nor smuggles one in by its name or value.
	for _, c := range [][2]string{{"listen_addresses", "*"}, {"hba_file", "/x"}, {"unix_socket_permissions", "0777"}, {"a b", "1"}, {"", "1"}, {"work_mem", "1MB'\nlisten_addresses = '*"}} {
		dir := filepath.Join(t.TempDir(), "data")
		refused(t, Config{DataDir: dir, Settings: map[string]string{c[0]: c[1]}}, fault.InvalidInput)
		require.NoDirExists(t, dir)
	}
}

func TestForeignDirectory(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	write := func(path, text string) string {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}

	// A directory that holds someone else's things is refused and left as it was.
	write(filepath.Join(dir, "letters", "to-mum.txt"), "hi")
	refused(t, Config{DataDir: filepath.Join(dir, "letters")}, fault.InvalidInput, "holds other things (to-mum.txt)", "--data-dir")
	entries, err := os.ReadDir(filepath.Join(dir, "letters"))
	require.NoError(t, err)
	require.Len(t, entries, 1)

	// What a serve with --database-url left is ours, also when it was killed in the middle of writing.
	for _, name := range []string{"pki/token-signing.key", "admin.token", "admin.token.new", "address", "gateway-id", ".gateway-id.123"} {
		write(filepath.Join(dir, "external", name), "ours")
	}
	require.NoError(t, refuseForeign(filepath.Join(dir, "external")))
	write(filepath.Join(dir, "external", "pictures"), "")
	require.ErrorContains(t, refuseForeign(filepath.Join(dir, "external")), "holds other things (pictures)")

	// A file is refused, an empty name, and a database that is not ours at the place of ours.
	refused(t, Config{DataDir: write(filepath.Join(dir, "file"), "")}, fault.InvalidInput, "is not a directory")
	refused(t, Config{}, fault.InvalidInput)
	write(filepath.Join(dir, "mixed", lockName), "no json")
	mixed := write(filepath.Join(dir, "mixed", "pg", "thesis.txt"), "mine")
	a, err := findAccount("")
	require.NoError(t, err)
	require.NoError(t, a.give(filepath.Dir(mixed)))
	refused(t, Config{DataDir: filepath.Join(dir, "mixed")}, fault.InvalidInput, "holds other things and no database")
	require.FileExists(t, mixed)

	// serve's own files may be there first.
	write(filepath.Join(dir, "first", "admin.token"), "x")
	start(t, Config{DataDir: filepath.Join(dir, "first")})
}

func TestOtherOwner(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "root")
	// A directory of another user is that user's to change under us; a database of a third user cannot be run.
	dir := scratch(t)
	require.NoError(t, os.Chown(dir, 12345, 12345))
	refused(t, Config{DataDir: dir}, fault.InvalidInput, "belongs to user id 12345")
	dir = filepath.Join(scratch(t), "data")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "pg"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, lockName), nil, 0o600))
	require.NoError(t, os.Chown(filepath.Join(dir, "pg"), 12345, 12345))
	refused(t, Config{DataDir: dir}, fault.InvalidInput, "belongs to user id 12345")
}

func TestLongPath(t *testing.T) {
	t.Parallel()
	cfg := Config{DataDir: filepath.Join(scratch(t), strings.Repeat("long/", 20), "data")}

	// A path too long for a socket: it lies in a fresh closed directory that the lock file names, and that goes with the run.
	h := serve(t, cfg.DataDir, "", -1)
	require.Equal(t, "better_compute", one[string](t, h.URL, "select current_user"))
	first := socketOf(t, cfg.DataDir)
	info, err := os.Stat(first)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	h.kill(t)
	require.DirExists(t, first)

	s := start(t, cfg)
	second := socketOf(t, cfg.DataDir)
	require.NotEqual(t, first, second)
	require.NoDirExists(t, first, "the next start clears away what a killed one left")
	require.NoError(t, s.Stop(t.Context()))
	require.NoDirExists(t, second)
}

func socketOf(t *testing.T, dataDir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dataDir, lockName))
	require.NoError(t, err)
	var h holder
	require.NoError(t, json.Unmarshal(text, &h))
	require.NotEmpty(t, h.SocketDir)
	return h.SocketDir
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "root")
	// Under a folder that PostgreSQL's user cannot enter nothing is made, and the sentence names the folder and the way out.
	home := scratch(t)
	require.NoError(t, os.Chmod(home, 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(home, "open"), 0o755))
	refused(t, Config{DataDir: filepath.Join(home, "open", "x", "data")}, fault.InvalidInput, "cannot get to", "chmod o+x "+home)
	entries, err := os.ReadDir(filepath.Join(home, "open"))
	require.NoError(t, err)
	require.Empty(t, entries)

	// The data directory itself may be closed: its rights are ours to set.
	require.NoError(t, os.Chmod(home, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(home, "data"), 0o700))
	start(t, Config{DataDir: filepath.Join(home, "data")})
}

func TestPeer(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "root", "linux")
	s := start(t, Config{DataDir: filepath.Join(scratch(t), "data")})
	as := func(uid int, urls ...string) []string {
		exe, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(exe)
		cmd.Env = []string{"BC_EMBEDDED_ROLE=connect", "BC_EMBEDDED_URLS=" + strings.Join(urls, " "), "GORACE=atexit_sleep_ms=0"}
		become(t, cmd, uid)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		answers := strings.Split(strings.TrimSpace(string(out)), "\n")
		require.Len(t, answers, len(urls))
		return answers
	}
	// Another user does not even get to the socket.
	require.Contains(t, as(12345, s.URL())[0], "permission denied")

	// And if someone opened the way to it, the map still lets in nobody but us: no other user, with or without a name, and not PostgreSQL's own.
	require.NoError(t, os.Chmod(s.socket, 0o755))
	require.NoError(t, os.Chmod(filepath.Join(s.socket, socketFile), 0o777))
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	uid, err := strconv.Atoi(nobody.Uid)
	require.NoError(t, err)
	for _, uid := range []int{uid, s.place.who.uid, 12345} {
		for _, answer := range as(uid, s.URL(), s.AdminURL()) {
			require.Contains(t, answer, "Peer authentication failed", "user id %d", uid)
		}
	}
}

func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "root", "linux")
	a, err := findAccount("")
	require.NoError(t, err)
	dir := scratch(t)
	require.NoError(t, os.Chown(dir, a.uid, a.gid))
	p := &place{dir: dir, pg: filepath.Join(dir, "pg"), who: a}
	bin, err := findBinaries(t.Context(), p, Config{}, 0, false)
	require.NoError(t, err)

	// Started by an ordinary user PostgreSQL runs as that user, who gets in; root does not, having no place in the map.
	h := serve(t, filepath.Join(dir, "data"), bin.dir, a.uid)
	info, err := os.Stat(fmt.Sprintf("/proc/%d", h.PID))
	require.NoError(t, err)
	uid, _ := owner(info)
	require.Equal(t, a.uid, uid)
	_, err = pgx.Connect(t.Context(), h.URL)
	var refusal *pgconn.PgError
	require.ErrorAs(t, err, &refusal)
	require.Contains(t, refusal.Message, "Peer authentication failed")
}

func TestMajors(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "postgres15", "postgresnpm")
	dir := scratch(t)
	old, npm := testenv.Postgres15(), testenv.PostgresNPM()
	major := func(s *Server) int {
		return one[int](t, s.URL(), "select current_setting('server_version_num')::int / 10000")
	}

	// Without a word 18 from the npm package is taken; a directory that it made refuses 15 and stays as it is.
	eighteen := Config{DataDir: filepath.Join(dir, "eighteen"), Settings: fast}
	s := start(t, eighteen)
	require.Equal(t, 18, major(s))
	require.NoError(t, s.Stop(t.Context()))
	eighteen.BinDir = old
	refused(t, eighteen, fault.InvalidState, "was made by PostgreSQL 18", "15 ("+old+")", "--postgres-bin")
	eighteen.BinDir = filepath.Dir(npm)
	require.Equal(t, 18, major(start(t, eighteen)))

	// A named folder is taken, and no other. What 15 made goes on with 15 by itself, though 18 would be the choice for a new directory.
	fifteen := Config{DataDir: filepath.Join(dir, "fifteen"), BinDir: old, Settings: fast}
	s = start(t, fifteen)
	require.Equal(t, 15, major(s))
	require.NoError(t, s.Stop(t.Context()))
	fifteen.BinDir = npm
	refused(t, fifteen, fault.InvalidState, "was made by PostgreSQL 15", "18 (")
	fifteen.BinDir = ""
	require.Equal(t, 15, major(start(t, fifteen)))
}

func TestLog(t *testing.T) {
	t.Parallel()
	// A statement's text and values never reach the log, a start does.
	var out syncBuffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := start(t, Config{DataDir: filepath.Join(scratch(t), "data"), Log: log})
	conn := connect(t, s.URL())
	_, err := conn.Exec(t.Context(), "create table u (s text unique); insert into u values ('canary'), ('canary')")
	require.Error(t, err)
	require.NoError(t, s.Stop(t.Context()))
	require.Contains(t, out.String(), "PostgreSQL is up")
	require.Contains(t, out.String(), "database system is shut down")
	require.NotContains(t, out.String(), "canary")
}
