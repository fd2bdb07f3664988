package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/agent/agenttest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
)

func TestMain(m *testing.M) {
	if os.Getenv(asBcd) != "" {
		if err := resetAndDie(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// madeUp is a machine out of thin air.
type madeUp struct {
	running atomic.Pointer[[]string]
	memory  atomic.Uint64
}

func (m *madeUp) Print(context.Context) *wire.Print {
	return &wire.Print{MachineId: "machine-1", ProductUuid: "uuid-1", BootId: "boot-1"}
}
func (m *madeUp) Hostname(context.Context) string { return "host-1" }

func (m *madeUp) Inventory(context.Context) *wire.Inventory {
	return &wire.Inventory{
		CollectedUnixMs: time.Now().UnixNano(), System: &wire.System{Hostname: "host-1"}, Memory: &wire.Memory{TotalBytes: m.memory.Load()},
	}
}

func (m *madeUp) Running(context.Context) ([]string, bool) {
	if list := m.running.Load(); list != nil {
		return *list, true
	}
	return nil, true
}

// logs collects what is logged, for tests that look for what must not be there.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// machine makes an agent with a state directory of its own.
func machine(t *testing.T, g *agenttest.Gateway, change ...func(*Config)) (*Agent, *logs) {
	t.Helper()
	config := Config{Servers: []string{g.Address}, CAFingerprint: g.CAFingerprint, StateDir: filepath.Join(t.TempDir(), "state")}
	for _, c := range change {
		c(&config)
	}
	config, err := config.Check()
	require.NoError(t, err)
	written := &logs{}
	log := slog.New(slog.NewTextHandler(written, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a := New(Options{Config: config, Machine: &madeUp{}, Version: "v1", Log: log})
	a.rhythm = rhythm{
		first: 10 * time.Millisecond, most: 50 * time.Millisecond, steady: time.Second, refused: time.Hour, look: 10 * time.Millisecond,
		inventory: 10 * time.Millisecond, report: 10 * time.Millisecond, renewSoon: time.Millisecond, renewLater: time.Hour,
	}
	return a, written
}

// files gives every file below a directory with its content, mode and time of change.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found[path] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano(), string(content))
		return nil
	}))
	return found
}

func TestJoin(t *testing.T) {
	t.Parallel()
	g := agenttest.New(t, agenttest.Options{})

	t.Run("a machine joins, keeps what it got, and shows it", func(t *testing.T) {
		t.Parallel()
		a, _ := machine(t, g)
		status, err := a.Status()
		require.NoError(t, err)
		require.False(t, status.Joined)
		_, err = os.Stat(a.config.StateDir)
		require.ErrorIs(t, err, fs.ErrNotExist, "status makes nothing")

		joined, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		require.NoError(t, id.Check(id.Node, "node", joined.Credential.NodeID))
		status, err = a.Status()
		require.NoError(t, err)
		require.True(t, status.Joined)
		require.Equal(t, joined.Credential.NodeID, status.NodeID)
		require.Equal(t, joined.Credential.Key, status.Key)
		require.Equal(t, []string{g.Address}, status.Servers)
		require.Equal(t, joined.Credential.Serial(), status.Serial)
		require.False(t, status.Running)
		_, err = os.Stat(a.store.path(pendingRecord))
		require.ErrorIs(t, err, fs.ErrNotExist, "the join is done")
	})

	t.Run("D6 the token's secret and the keys are in no log and no file but their own", func(t *testing.T) {
		t.Parallel()
		a, written := machine(t, g)
		token := g.Token()
		joined, err := a.Join(t.Context(), Join{Token: token})
		require.NoError(t, err)
		_, err = a.Join(t.Context(), Join{Token: token})
		require.Error(t, err)
		secret := token.Text()[len("bcj_")+27:]
		require.NotContains(t, written.String()+err.Error(), secret)
		for path, content := range files(t, a.config.StateDir) {
			require.NotContains(t, content, secret, path)
		}
		require.Equal(t, joined.Credential.NodeID, fmt.Sprintf("%v", joined.Credential))
		identity, _, err := a.identity()
		require.NoError(t, err)
		for _, format := range []string{"%v", "%+v", "%#v"} {
			require.Equal(t, joined.Credential.Key, fmt.Sprintf(format, identity))
		}
	})

	t.Run("D8 a joined machine says so, changes no file and makes no call", func(t *testing.T) {
		t.Parallel()
		own := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, own)
		joined, err := a.Join(t.Context(), Join{Token: own.Token()})
		require.NoError(t, err)
		before, dials := files(t, a.config.StateDir), own.Dials()
		_, err = a.Join(t.Context(), Join{Token: own.Token()})
		require.ErrorIs(t, err, ErrJoined)
		require.ErrorContains(t, err, joined.Credential.NodeID)
		require.Equal(t, before, files(t, a.config.StateDir))
		require.Equal(t, dials, own.Dials())
	})

	t.Run("D8 a reset keeps the old identity aside and joins as a new node", func(t *testing.T) {
		t.Parallel()
		a, _ := machine(t, g)
		first, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		old, err := os.ReadFile(a.store.path(identityRecord))
		require.NoError(t, err)
		second, err := a.Join(t.Context(), Join{Token: g.Token(), Reset: true})
		require.NoError(t, err)
		require.NotEqual(t, first.Credential.NodeID, second.Credential.NodeID)
		require.NotEqual(t, first.Credential.Key, second.Credential.Key)
		kept, err := os.ReadFile(filepath.Join(second.MovedAside, identityRecord))
		require.NoError(t, err)
		require.Equal(t, old, kept)
	})

	t.Run("D13 a lost credential comes back to the same node with a fresh token", func(t *testing.T) {
		t.Parallel()
		a, _ := machine(t, g)
		first, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		require.NoError(t, os.Remove(a.store.path(credentialRecord)))
		second, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		require.Equal(t, first.Credential.NodeID, second.Credential.NodeID)
		require.Equal(t, first.Credential.Key, second.Credential.Key)
		require.NotEqual(t, first.Credential.Serial(), second.Credential.Serial())
		require.NotEqual(t, first.Credential.key, second.Credential.key, "the certificate's key is a new one")
	})

	t.Run("D14 a lost identity joins as a new node", func(t *testing.T) {
		t.Parallel()
		a, _ := machine(t, g)
		first, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(a.config.StateDir))
		second, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		require.NotEqual(t, first.Credential.NodeID, second.Credential.NodeID)
	})
}

// TestUmask is not parallel: the umask is the whole process's, and parallel tests only begin when this one is over.
func TestUmask(t *testing.T) {
	g := agenttest.New(t, agenttest.Options{})
	for _, mask := range []int{0, 0o777} {
		t.Run(fmt.Sprintf("D11 files are for the owner alone under the umask %04o", mask), func(t *testing.T) {
			a, _ := machine(t, g)
			old := syscall.Umask(mask)
			_, err := a.Join(t.Context(), Join{Token: g.Token()})
			syscall.Umask(old)
			require.NoError(t, err)
			info, err := os.Stat(a.config.StateDir)
			require.NoError(t, err)
			require.Equal(t, dirMode, info.Mode().Perm())
			for _, name := range []string{identityRecord, credentialRecord, lockFile} {
				info, err := os.Stat(a.store.path(name))
				require.NoError(t, err)
				require.Equal(t, fileMode, info.Mode().Perm(), name)
			}
		})
	}
}

func TestD7Race(t *testing.T) {
	t.Parallel()
	// D7 two loops of one agent race into enrol: one request leaves the machine, and the others find it joined.
	g := agenttest.New(t, agenttest.Options{})
	a, _ := machine(t, g)
	other, _ := machine(t, g, func(c *Config) { c.StateDir = a.config.StateDir })
	token := g.Token()
	var done sync.WaitGroup
	var joined, refused atomic.Int32
	for i := range 10 {
		done.Go(func() {
			one := a
			if i%2 == 1 {
				one = other
			}
			_, err := one.Join(t.Context(), Join{Token: token})
			switch {
			case err == nil:
				joined.Add(1)
			case errors.Is(err, ErrJoined):
				refused.Add(1)
			}
		})
	}
	done.Wait()
	require.EqualValues(t, 1, joined.Load())
	require.EqualValues(t, 9, refused.Load())
	require.Equal(t, 1, g.Joins())
}

func TestD2LostAnswer(t *testing.T) {
	t.Parallel()

	t.Run("D2 an answer that is lost is fetched again with the same key", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		g.LoseAnswers(1)
		a, _ := machine(t, g)
		_, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		require.Equal(t, 2, g.Joins())
	})

	t.Run("D2 a process that dies without its answer goes on with the same key", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		g.LoseAnswers(joinTries)
		a, _ := machine(t, g)
		token := g.Token()
		_, err := a.Join(t.Context(), Join{Token: token})
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		again, _ := machine(t, g, func(c *Config) { c.StateDir = a.config.StateDir })
		_, err = again.Join(t.Context(), Join{Token: token})
		require.NoError(t, err)
	})

	t.Run("D2 the key is on the disk before anything is sent", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		a.store.disk = &fullDisk{disk: localDisk{}, record: pendingRecord}
		_, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Zero(t, g.Dials())
	})

	t.Run("D2 a certificate that can't be kept can be fetched again", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		a.store.disk = &fullDisk{disk: localDisk{}, record: credentialRecord}
		token := g.Token()
		_, err := a.Join(t.Context(), Join{Token: token})
		require.ErrorIs(t, err, syscall.ENOSPC)
		a.store.disk = localDisk{}
		_, err = a.Join(t.Context(), Join{Token: token})
		require.NoError(t, err)
	})

	t.Run("D2 another machine with the used token is refused", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		token := g.Token()
		a, _ := machine(t, g)
		_, err := a.Join(t.Context(), Join{Token: token})
		require.NoError(t, err)
		thief, _ := machine(t, g)
		_, err = thief.Join(t.Context(), Join{Token: token})
		require.Equal(t, fault.Unauthenticated, fault.CodeOf(err))
	})

	t.Run("a gateway that asks for patience is asked again", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		g.FailJoin(http.StatusTooManyRequests, `{"code":"RESOURCE_EXHAUSTED","message":"too many joins","retryAfterMs":5}`)
		a, _ := machine(t, g)
		_, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		require.Equal(t, 2, g.Joins())
	})
}

func TestD10JoinStops(t *testing.T) {
	t.Parallel()
	// A machine whose identity or credential can't be read stops and enrols nothing.
	for _, record := range []string{identityRecord, credentialRecord} {
		for _, failure := range []error{syscall.EIO, syscall.EACCES} {
			t.Run("D10 "+record+" "+failure.Error(), func(t *testing.T) {
				t.Parallel()
				g := agenttest.New(t, agenttest.Options{})
				a, _ := machine(t, g)
				require.NoError(t, makeStateDir(a.config.StateDir))
				a.store.disk = &failingDisk{disk: localDisk{}, path: a.store.path(record), err: failure}
				_, err := a.Join(t.Context(), Join{Token: g.Token()})
				require.ErrorIs(t, err, failure)
				require.Zero(t, g.Dials())
				_, err = os.Stat(a.store.path(identityRecord))
				require.ErrorIs(t, err, fs.ErrNotExist)
			})
		}
	}
	t.Run("D10 run stops too", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		_, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		a.store.disk = &failingDisk{disk: localDisk{}, path: a.store.path(credentialRecord), err: syscall.EIO}
		require.ErrorIs(t, a.Run(t.Context()), syscall.EIO)
	})
}

func TestTrust(t *testing.T) {
	t.Parallel()

	for name, o := range map[string]agenttest.Options{
		"D21 this clock is years ahead":  {NotBefore: time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(1971, 1, 8, 0, 0, 0, 0, time.UTC)},
		"D21 this clock is years behind": {NotBefore: time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2150, 1, 8, 0, 0, 0, 0, time.UTC)},
		"D21 this clock is an hour off":  {NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := agenttest.New(t, o)
			a, _ := machine(t, g)
			_, err := a.Join(t.Context(), Join{Token: g.Token()})
			require.NoError(t, err)
		})
	}

	refused := func(t *testing.T, a *Agent, g *agenttest.Gateway, code fault.Code, says string) {
		t.Helper()
		_, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.Equal(t, code, fault.CodeOf(err), err)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "\n")
		require.Zero(t, g.Joins(), "the token was shown to nobody")
	}
	t.Run("a wrong fingerprint", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g, func(c *Config) { c.CAFingerprint = strings.Repeat("ab", 32) })
		refused(t, a, g, fault.Unauthenticated, "check server and ca_fingerprint")
	})
	t.Run("I3 a node that poses as the gateway", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{ClientLeaf: true})
		a, _ := machine(t, g)
		refused(t, a, g, fault.Unauthenticated, "not a gateway that this machine may trust")
	})
	t.Run("a port that speaks plain HTTP", func(t *testing.T) {
		t.Parallel()
		plain := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(plain.Close)
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g, func(c *Config) { c.Servers = []string{plain.Listener.Addr().String()} })
		refused(t, a, g, fault.Unavailable, "not with TLS")
	})
	t.Run("a port that nobody listens on", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := listener.Addr().String()
		require.NoError(t, listener.Close())
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g, func(c *Config) { c.Servers = []string{address} })
		refused(t, a, g, fault.Unavailable, "can't be reached")
	})
	t.Run("the next server is tried when one fails", func(t *testing.T) {
		t.Parallel()
		plain := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(plain.Close)
		other, g := agenttest.New(t, agenttest.Options{}), agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g, func(c *Config) { c.Servers = []string{plain.Listener.Addr().String(), other.Address, g.Address} })
		_, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		require.Zero(t, other.Joins(), "the token went only to the trusted one")
	})
	t.Run("an unknown token", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		token, err := wire.NewToken(id.New(id.JoinToken))
		require.NoError(t, err)
		_, err = a.Join(t.Context(), Join{Token: token})
		require.Equal(t, fault.Unauthenticated, fault.CodeOf(err))
		require.ErrorContains(t, err, "ask for a new one")
		require.Equal(t, 1, g.Joins(), "a refusal is not repeated")
	})
	t.Run("an answer without a reason", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		g.FailJoin(http.StatusBadGateway, "<html>")
		g.FailJoin(http.StatusBadGateway, "<html>")
		g.FailJoin(http.StatusBadGateway, "<html>")
		a, _ := machine(t, g)
		_, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		require.ErrorContains(t, err, "HTTP 502")
	})
	t.Run("an answer for another machine is not kept", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		g.FailJoin(http.StatusOK, `{"nodeId":"node_01k5wz6k3vf8g8x2x2j0m4q7ra","certificate":"x","root":"y"}`)
		a, _ := machine(t, g)
		_, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.Equal(t, fault.Internal, fault.CodeOf(err))
		status, err := a.Status()
		require.NoError(t, err)
		require.False(t, status.Joined)
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	pin := strings.Repeat("0A", 32)

	t.Run("a whole file", func(t *testing.T) {
		t.Parallel()
		config, err := ParseConfig([]byte(`
server = ["a.example", "[::1]:99"]
ca_fingerprint = "` + pin + `"
state_dir = "/x"
[join]
attestor = "token"
token_file = "-"
[commands]
allow = ["diagnostics"]
`))
		require.NoError(t, err)
		config, err = config.Check()
		require.NoError(t, err)
		require.Equal(t, Config{
			Servers: []string{"a.example:8443", "[::1]:99"}, CAFingerprint: strings.ToLower(pin), StateDir: "/x", Attestor: "token", TokenFile: "-",
			Allow: []string{"diagnostics"},
		}, config)
	})
	t.Run("one server as a text", func(t *testing.T) {
		t.Parallel()
		config, err := ParseConfig([]byte(`server = "a:1"`))
		require.NoError(t, err)
		require.Equal(t, []string{"a:1"}, config.Servers)
	})
	for text, says := range map[string]string{
		`sever = "a"`:            "line 1: bcd knows no setting sever",
		`[join]` + "\ntoken='x'": "line 2: bcd knows no setting join.token",
		`server = 1`:             "server must be",
		`server = [1]`:           "server must be",
		`server`:                 "not TOML",
	} {
		t.Run("refused: "+text, func(t *testing.T) {
			t.Parallel()
			_, err := ParseConfig([]byte(text))
			require.ErrorContains(t, err, says)
		})
	}
	for _, server := range []string{"", "https://a:1", "a:0", "a:70000", "a b", "a:b:c", "user@a:1", ":1", "a:1/x"} {
		t.Run("refused server: "+server, func(t *testing.T) {
			t.Parallel()
			_, err := Config{Servers: []string{server}}.Check()
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
		})
	}
	for _, fingerprint := range []string{"ab", strings.Repeat("zz", 32), strings.Repeat("ab", 33)} {
		_, err := Config{CAFingerprint: fingerprint}.Check()
		require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
	}
	_, err := Config{Attestor: "tpm"}.Check()
	require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
}

func FuzzParseConfig(f *testing.F) {
	f.Add("server = [\"a\"]\n[join]\nattestor = 'token'")
	f.Add("server = {a=1}")
	f.Fuzz(func(t *testing.T, text string) {
		// Whatever the file holds, bcd either refuses it or gets servers that pass, or fail, its check without a panic.
		if config, err := ParseConfig([]byte(text)); err == nil {
			_, _ = config.Check()
		}
	})
}
