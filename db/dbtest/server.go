package dbtest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/better-compute/better-compute/db/embedded"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/testenv"
)

// The folder of the shared server, in memory or in the temporary folder (TMPDIR, if set, decides), holds:
//
//	use.lock     held shared by each test program for as long as it lives, and alone by the keeper while it ends the server
//	start.lock   held by the test program that starts the keeper
//	server.json  where the server is; stale when its keeper was killed
//	data         the data directory
//	keeper.log   what the keeper and PostgreSQL said
const (
	keeperEnv = "BC_DBTEST_KEEPER" // names that folder to a keeper
	idleEnv   = "BC_DBTEST_IDLE"   // how long the server waits for a next test program
)

// state is what server.json says, and what a keeper answers to the one who started it.
type state struct {
	PID   int    `json:"pid"`
	URL   string `json:"url"`
	Error string `json:"error,omitempty"`
}

// A test program that is started as a keeper does nothing else: it never comes to its tests.
func init() {
	if dir := os.Getenv(keeperEnv); dir != "" {
		if err := keep(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// server finds or starts the server and gives the connection string to its maintenance database; the first answer stands for the process.
var server = sync.OnceValues(func() (string, error) {
	if url, err := given(); url != "" || err != nil {
		return url, err
	}
	return attach()
})

// given is the server that BC_TEST_DATABASE_URL names, "" if it names none.
func given() (string, error) {
	text := os.Getenv("BC_TEST_DATABASE_URL")
	if text == "" {
		return "", nil
	}
	if _, err := url.Parse(text); err != nil || !strings.Contains(text, "://") {
		return "", errors.New("BC_TEST_DATABASE_URL must be a URL: postgres://role@host/database")
	}
	return text, nil
}

func attach() (string, error) {
	dir, err := home()
	if err != nil {
		return "", err
	}
	// From here on no keeper ends the server.
	if err := hold(filepath.Join(dir, "use.lock")); err != nil {
		return "", err
	}
	turn, err := flock(filepath.Join(dir, "start.lock"), syscall.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer turn.Close()
	ctx, cancel := context.WithTimeout(root(), bound)
	defer cancel()
	for {
		s := readState(dir)
		if s.URL == "" {
			return start(dir)
		}
		if usable(ctx, s.URL) == nil {
			return s.URL, nil
		}
		if syscall.Kill(s.PID, 0) != nil {
			return start(dir) // its keeper was killed, and the server with it
		}
		select { // it lives, on a machine that is very busy, or is just falling over
		case <-ctx.Done():
			return start(dir)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// home makes the folder and checks that it is ours: its name can be known beforehand, and anyone may write beside it.
func home() (string, error) {
	name := fmt.Sprintf("bc-dbtest-%d", os.Geteuid())
	if bin := os.Getenv("BC_TEST_POSTGRES_BIN"); bin != "" {
		hash := sha256.Sum256([]byte(bin))
		name += "-" + hex.EncodeToString(hash[:4])
	}
	base := os.Getenv("TMPDIR")
	if base == "" {
		base = cmp.Or(testenv.Memory(), os.TempDir())
	}
	dir := filepath.Join(base, name)
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711 // PostgreSQL's user passes through
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s belongs to someone else: remove it, or set TMPDIR", dir)
	}
	return dir, os.Chmod(dir, mode)
}

// hold takes a lock shared, for as long as the process lives: nobody closes its file, and no garbage collector knows of it.
func hold(path string) error {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CREAT|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return wait(fd, syscall.LOCK_SH)
}

func wait(fd, how int) error {
	for {
		if err := syscall.Flock(fd, how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func flock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := wait(int(f.Fd()), how); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func readState(dir string) state {
	var s state
	text, err := os.ReadFile(filepath.Join(dir, "server.json"))
	if err != nil || json.Unmarshal(text, &s) != nil {
		return state{}
	}
	return s
}

// start starts a keeper: this very program, in a session of its own, with nothing of ours held open, so that it outlives us and `go test` does
// not wait for it.
func start(dir string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	log, err := os.OpenFile(filepath.Join(dir, "keeper.log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	answer, tell, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer answer.Close()
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), keeperEnv+"="+dir)
	cmd.Stdout, cmd.Stderr = tell, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = errors.Join(cmd.Start(), tell.Close())
	if err != nil {
		return "", err
	}
	if err := answer.SetReadDeadline(time.Now().Add(bound)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(answer).ReadBytes('\n')
	var s state
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil {
		return "", fmt.Errorf("the keeper of the test database said nothing useful, see %s: %w", log.Name(), err)
	}
	if s.Error != "" {
		return "", errors.New(s.Error)
	}
	return s.URL, cmd.Process.Release()
}

// keep runs the server until nobody has used it for a while.
func keep(dir string) error {
	ctx, cancel := signal.NotifyContext(root(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	idle := time.Minute
	if d, err := time.ParseDuration(os.Getenv(idleEnv)); err == nil {
		idle = d
	}
	s, err := open(ctx, dir)
	if err != nil {
		return errors.Join(err, json.NewEncoder(os.Stdout).Encode(state{Error: err.Error()}))
	}
	end, cancelEnd := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelEnd()
	stop := func() error {
		kept, err := list(end, s.AdminURL(), keptPrefix)
		err = errors.Join(os.Remove(filepath.Join(dir, "server.json")), s.Stop(end), err)
		if err == nil && len(kept) == 0 {
			err = os.RemoveAll(filepath.Join(dir, "data")) // nothing in it that anyone wants
		}
		return err
	}
	here := state{PID: os.Getpid(), URL: database(s.URL(), "postgres")}
	text, err := json.Marshal(here)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "server.new"), text, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(dir, "server.new"), filepath.Join(dir, "server.json"))
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(here)
	}
	if err := errors.Join(err, os.Stdout.Close(), os.Chdir("/")); err != nil {
		return errors.Join(err, stop())
	}
	use, err := os.OpenFile(filepath.Join(dir, "use.lock"), os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, stop())
	}
	defer use.Close()
	tick := time.NewTicker(min(idle/4, time.Second))
	defer tick.Stop()
	used := time.Now()
	for {
		select {
		case <-ctx.Done():
			return stop()
		case <-s.Done():
			return errors.Join(s.Err(), stop())
		case <-tick.C:
		}
		// The lock for ourselves alone means that no test program lives. While we hold it, none begins.
		if syscall.Flock(int(use.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			used = time.Now()
			continue
		}
		if time.Since(used) >= idle {
			return stop()
		}
		if err := syscall.Flock(int(use.Fd()), syscall.LOCK_UN); err != nil {
			return errors.Join(err, stop())
		}
	}
}

// open starts the server on the data of the last time, which may hold kept databases, or afresh when that does not work: after a power cut, or with
// another version of PostgreSQL.
func open(ctx context.Context, dir string) (*embedded.Server, error) {
	data := filepath.Join(dir, "data")
	cfg := embedded.Config{
		DataDir: data,
		BinDir:  os.Getenv("BC_TEST_POSTGRES_BIN"),
		Log:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Settings: map[string]string{
			"max_connections":    "300",
			"fsync":              "off",
			"full_page_writes":   "off",
			"synchronous_commit": "off",
			"wal_level":          "minimal",
			"max_wal_senders":    "0",
			"autovacuum":         "off",
			"checkpoint_timeout": "30min",
			"max_wal_size":       "256MB",
			"min_wal_size":       "32MB",
		},
	}
	boot := filepath.Join(dir, "boot")
	now, errBoot := os.ReadFile("/proc/sys/kernel/random/boot_id")
	before, errBefore := os.ReadFile(boot)
	if errBoot != nil || errBefore != nil || !slices.Equal(now, before) {
		// Nothing is written through to the disk, so what an earlier boot left may be torn.
		if err := os.RemoveAll(data); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(boot, now, 0o600); err != nil {
		return nil, err
	}
	s, err := embedded.Start(ctx, cfg)
	held := false
	if err != nil {
		_, held = fault.From(err).Details["pid"] // by another keeper, whose data is not ours to remove
	}
	if err != nil && !held && ctx.Err() == nil {
		cfg.Log.WarnContext(ctx, "the old data is given up", "error", err)
		if err := os.RemoveAll(data); err != nil {
			return nil, err
		}
		s, err = embedded.Start(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	if err := tidy(ctx, s); err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	return s, nil
}

// tidy gives the product's role the right to make databases, and nothing more, and drops what killed test programs left.
func tidy(ctx context.Context, s *embedded.Server) error {
	if err := run(ctx, s.AdminURL(), "alter role "+embedded.Database+" createdb"); err != nil {
		return err
	}
	for _, prefix := range []string{freshPrefix, templatePrefix} {
		names, err := list(ctx, s.AdminURL(), prefix)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := run(ctx, s.AdminURL(), "drop database "+name+" with (force)"); err != nil {
				return err
			}
		}
	}
	return nil
}

// root is the context of what has no caller: the server that a whole test program shares, and the keeper, which is a program of its own.
func root() context.Context {
	return context.Background() //nolint:forbidigo // see above
}
