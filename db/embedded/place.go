package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/better-compute/better-compute/fault"
)

const (
	lockName     = "better-compute.lock"
	socketFile   = ".s.PGSQL.5432"
	socketPrefix = "bc-pg-" // of a socket directory that was made for one run
	maxSocket    = 100      // bytes of the socket's path; the kernel takes 107 on Linux, 103 on macOS
)

// place is a data directory that is ours to use.
type place struct {
	dir string // serve's data directory
	pg  string // PostgreSQL's, in it
	who account
}

func badDir(dir, format string, args ...any) error {
	return fault.New(fault.InvalidInput, fault.Details{"argument": "data-dir", "value": dir}, format, args...)
}

// openPlace checks that the directory is ours or empty and that PostgreSQL's user can get there, and makes it if it is missing. A refused
// directory is left as it was.
func openPlace(ctx context.Context, dataDir string, who account) (*place, error) {
	if dataDir == "" {
		return nil, fault.Invalid("data-dir", "must name a directory", 0)
	}
	dir, err := absolute(dataDir)
	if err != nil {
		return nil, badDir(dataDir, "the data directory %s cannot be used: %w", dataDir, err)
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, badDir(dir, "the data directory %s cannot be used: %w", dir, err)
	case !info.IsDir():
		return nil, badDir(dir, "%s is not a directory: name another --data-dir", dir)
	default:
		if uid, _ := owner(info); uid != os.Geteuid() {
			return nil, badDir(dir, "the data directory %s belongs to user id %d and not to %s: run as its owner, or name another --data-dir", dir, uid, who.self)
		}
		if err := refuseForeign(dir); err != nil {
			return nil, err
		}
	}
	if err := who.refuseUnreachable(ctx, dir, filepath.Dir(dir)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the folders on the way; dir gets its mode below
		return nil, badDir(dir, "the data directory %s cannot be made: %w", dir, err)
	}
	mode := os.FileMode(0o700)
	if who.drop {
		mode = 0o711 // PostgreSQL's user passes through to its own part, and sees nothing else
	}
	if err := os.Chmod(dir, mode); err != nil {
		return nil, badDir(dir, "the data directory %s cannot be used: %w", dir, err)
	}
	if err := who.refuseUnreachable(ctx, dir, dir); err != nil { // a strict umask closes the folders made on the way
		return nil, err
	}
	return &place{dir: dir, pg: filepath.Join(dir, "pg"), who: who}, nil
}

// refuseForeign refuses a directory that holds something and was not made by us. serve's own files count as ours, whoever comes first.
func refuseForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return badDir(dir, "the data directory %s cannot be read: %w", dir, err)
	}
	ours := func(e os.DirEntry) bool {
		// A process that is killed leaves what it was about to move to its place.
		name := strings.TrimSuffix(e.Name(), ".new")
		return slices.Contains([]string{"pki", "admin.token", "address", "gateway-id", "lost+found"}, name) ||
			strings.HasPrefix(name, ".gateway-id.") || strings.HasPrefix(name, binPrefix)
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == lockName }) {
		return nil
	}
	if i := slices.IndexFunc(entries, func(e os.DirEntry) bool { return !ours(e) }); i >= 0 {
		return badDir(dir, "the directory %s holds other things (%s) and was not made by better-compute: name an empty or a new --data-dir", dir, entries[i].Name())
	}
	return nil
}

// refuseUnreachable refuses a directory that PostgreSQL's user cannot get to, and names the folder that bars the way. The test is a real one: a
// process of that user steps into near, or the nearest folder above it that exists.
func (a account) refuseUnreachable(ctx context.Context, dir, near string) error {
	if !a.drop {
		return nil
	}
	for {
		if _, err := os.Stat(near); err == nil || near == filepath.Dir(near) {
			break
		}
		near = filepath.Dir(near)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", ":")
	cmd.Dir = near
	err := a.as(cmd).Run()
	if err == nil {
		return nil
	}
	for up := near; up != filepath.Dir(up); up = filepath.Dir(up) {
		if info, errStat := os.Stat(up); errStat == nil && !a.mayEnter(info) {
			near = up
		}
	}
	return badDir(dir, "PostgreSQL runs as the user %s, who cannot get to %s because %s is closed to others: name a --data-dir outside it, such as /var/lib/better-compute, or open the way with: chmod o+x %s", a.name, dir, near, near)
}

// major is the major version that made the directory, 0 when there is no database yet. Whatever else lies at its place is refused.
func (p *place) major() (int, error) {
	info, err := os.Lstat(p.pg)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, badDir(p.dir, "the database in %s cannot be read: %w", p.pg, err)
	}
	if uid, _ := owner(info); !info.IsDir() || uid != p.who.uid {
		return 0, badDir(p.dir, "%s belongs to user id %d and not to %s, who runs PostgreSQL: name another --data-dir", p.pg, uid, p.who.name)
	}
	text, err := os.ReadFile(filepath.Join(p.pg, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		if os.Remove(p.pg) == nil { // it was empty
			return 0, nil
		}
		return 0, badDir(p.dir, "%s holds other things and no database: name another --data-dir", p.pg)
	}
	if err != nil {
		return 0, badDir(p.dir, "the database in %s cannot be read: %w", p.pg, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n <= 0 {
		return 0, badDir(p.dir, "%s does not name a version of PostgreSQL: the database is damaged", filepath.Join(p.pg, "PG_VERSION"))
	}
	return n, nil
}

// initialise makes the database in a directory beside its place and moves it there when it is whole, so that a start that is cut off leaves
// nothing half done.
func (p *place) initialise(ctx context.Context, bin binaries, durable bool) error {
	fresh := p.pg + ".new"
	err := os.RemoveAll(fresh)
	if err == nil {
		err = os.Mkdir(fresh, 0o700)
	}
	if err == nil {
		err = p.who.give(fresh)
	}
	if err != nil {
		return badDir(p.dir, "no database can be made in %s: %w", p.dir, err)
	}
	args := []string{"-D", fresh, "-U", superuser, "-E", "UTF8", "--no-locale", "--auth=peer", "--data-checksums", "--no-instructions"}
	if !durable {
		args = append(args, "--no-sync")
	}
	out, err := p.who.as(exec.CommandContext(ctx, filepath.Join(bin.dir, "initdb"), args...)).CombinedOutput()
	if err != nil {
		return fault.Because(fault.Unavailable, fmt.Errorf("initdb: %w: %s", err, out), nil, "PostgreSQL could not make a database in %s: %s", fresh, tellingLine(out))
	}
	if err := os.Rename(fresh, p.pg); err != nil {
		return badDir(p.dir, "no database can be made in %s: %w", p.dir, err)
	}
	if durable {
		return syncDir(p.dir)
	}
	return nil
}

// socketDir is where the socket goes: beside the data, or, where that path is too long for a socket, a fresh directory in the temporary one.
func (p *place) socketDir() (string, error) {
	if len(filepath.Join(p.pg, socketFile)) <= maxSocket {
		return p.pg, nil
	}
	base := os.TempDir()
	if len(base) > maxSocket/2 {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, socketPrefix) // 0700
	if err == nil {
		err = p.who.give(dir)
	}
	if err != nil {
		return "", fault.New(fault.Unavailable, nil, "no directory for PostgreSQL's socket can be made in %s: %w", base, err)
	}
	return dir, nil
}

// postgres is the command that runs the server. What decides who gets in stands on its command line, since PostgreSQL lets ALTER SYSTEM, whose
// file its own user can write, win over the configuration.
func (p *place) postgres(bin binaries, socket string) *exec.Cmd {
	conf := filepath.Join(p.dir, "pg-conf")
	args := []string{"-D", p.pg, "-c", "config_file=" + filepath.Join(conf, "postgresql.conf")}
	for _, setting := range []string{
		"listen_addresses=",
		"port=5432", // names the socket, nothing else
		"unix_socket_directories=\"" + strings.ReplaceAll(socket, `"`, `""`) + "\"",
		"unix_socket_permissions=0700",
		"hba_file=" + filepath.Join(conf, "pg_hba.conf"),
		"ident_file=" + filepath.Join(conf, "pg_ident.conf"),
	} {
		args = append(args, "-c", setting)
	}
	return p.who.as(exec.Command(filepath.Join(bin.dir, "postgres"), args...))
}

var settingName = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)

// renderable checks a caller's settings: names that are names, and none of those that decide who gets in and where the data lies.
func renderable(settings map[string]string) (map[string]string, error) {
	for name, value := range settings {
		switch name {
		case "listen_addresses", "port", "unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "hba_file", "ident_file", "config_file", "data_directory", "external_pid_file":
			return nil, fault.Invalid(name, "is set by better-compute itself", 0)
		}
		if !settingName.MatchString(name) || strings.ContainsAny(value, "\n\r\x00") {
			return nil, fault.Invalid(name, "is no setting of PostgreSQL", 0)
		}
	}
	return settings, nil
}

// writeConfig writes the configuration. It lies outside PostgreSQL's own directory and belongs to us: its user reads it and cannot change it.
func (p *place) writeConfig(settings map[string]string) error {
	dir := filepath.Join(p.dir, "pg-conf")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return badDir(p.dir, "the configuration of PostgreSQL cannot be written: %w", err)
	}
	all := map[string]string{
		"max_connections":         "200",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"datestyle":               "iso, mdy",
		"jit":                     "off", // costs more than it saves on statements this short
		"cluster_name":            "better-compute",
		"logging_collector":       "off",
		"log_destination":         "stderr",
		"log_line_prefix":         "",
		"log_min_messages":        "log", // a refused statement is its caller's affair, and its text may hold what no log should
		"log_min_error_statement": "panic",
		"log_error_verbosity":     "terse",
	}
	maps.Copy(all, settings)
	var conf bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.NewReplacer(`'`, `''`, `\`, `\\`).Replace(all[name]))
	}
	self := `"` + strings.ReplaceAll(p.who.self, `"`, `""`) + `"`
	files := map[string]string{
		"postgresql.conf": conf.String(),
		"pg_hba.conf":     "local all all peer map=better_compute\n",
		"pg_ident.conf":   "better_compute " + self + " " + Database + "\nbetter_compute " + self + " " + superuser + "\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.WriteFile(path+".new", []byte(text), 0o600)
		if err == nil {
			err = p.who.letRead(path+".new", p.who.readMode(0o640))
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			return badDir(p.dir, "the configuration of PostgreSQL cannot be written: %w", err)
		}
	}
	if err := p.who.letRead(dir, p.who.readMode(0o750)); err != nil {
		return badDir(p.dir, "the configuration of PostgreSQL cannot be written: %w", err)
	}
	return nil
}

// readMode keeps the group's bits only where the group is how PostgreSQL's user reads.
func (a account) readMode(mode os.FileMode) os.FileMode {
	if a.drop {
		return mode
	}
	return mode &^ 0o077
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return badDir(dir, "the data directory %s cannot be written: %w", dir, err)
	}
	return nil
}

// tellingLine is the first that names a fault: what follows it in initdb's words is only the tidying up.
func tellingLine(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "error: ") || strings.Contains(line, "FATAL: ") || strings.Contains(line, "PANIC: ") {
			return strings.TrimSpace(line)
		}
	}
	return lastLine(out)
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
