package agent_test

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/testenv"
)

// smallDisk mounts a file system of its own that has room for little, and gives what fills it to the last byte and what makes room again.
func smallDisk(t *testing.T) (dir string, fill func() error, free func()) {
	t.Helper()
	testenv.Need(t, "linux", "root")
	dir = filepath.Join(t.TempDir(), "small")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	ballast := filepath.Join(dir, "ballast")
	fill = func() error {
		f, err := os.Create(ballast)
		if err != nil {
			return err
		}
		defer f.Close()
		for _, size := range []int{4096, 1} {
			for err = nil; err == nil; {
				_, err = f.Write(make([]byte, size))
			}
			if !errors.Is(err, syscall.ENOSPC) {
				return err
			}
		}
		return nil
	}
	return dir, fill, func() { require.NoError(t, os.Remove(ballast)) }
}

// nearlyOver is a node on a small disk whose certificates run out so soon that the gateway asks for their renewal at once.
func nearlyOver(t *testing.T) (f *fullDisk) {
	t.Helper()
	f = &fullDisk{said: &words{}}
	var dir string
	dir, f.fill, f.free = smallDisk(t)
	f.bundle = setup(t)
	f.issuer.life.Store(int64(patience))
	f.stateDir = filepath.Join(dir, "state")
	joined, err := f.restarted(t).Join(t.Context(), agent.Join{Token: f.token(t)})
	require.NoError(t, err)
	f.nodeID, f.serial, f.files = joined.Credential.NodeID, joined.Credential.Serial(), identityFiles(t, f.stateDir)
	return f
}

type fullDisk struct {
	*bundle
	said           *words
	fill           func() error
	free           func()
	stateDir       string
	nodeID, serial string
	files          map[string]string // identity and credential as they were before
}

// restarted is bcd after a start of its own.
func (f *fullDisk) restarted(t *testing.T) *machine {
	t.Helper()
	return f.machine(t, f.stateDir, func(o *agent.Options) { o.Log = slog.New(slog.NewTextHandler(f.said, nil)) })
}

// states gives how many certificates of the node are in each state.
func (f *fullDisk) states(t *testing.T) map[string]int {
	t.Helper()
	return one[map[string]int](t, f.bundle, `select coalesce(jsonb_object_agg(state, n), '{}') from (
		select state, count(*) n from node_certs where node_id = $1 group by state) x`, f.nodeID)
}

// comesThrough gives the disk room again, and wants the renewal to come to its end, and the one after it too, by a certificate of a day.
func (f *fullDisk) comesThrough(t *testing.T) {
	t.Helper()
	f.free()
	m := f.restarted(t)
	m.run(t)
	f.until(t, "the new certificate is active and the old one superseded",
		`select (select state from node_certs where serial = $2) = 'SUPERSEDED'
		 and (select count(*) from node_certs where node_id = $1 and state = 'ACTIVE') = 1`, f.nodeID, f.serial)
	f.issuer.life.Store(0)
	f.until(t, "the one after it too", `select (select count(*) from node_certs where node_id = $1 and state = 'ACTIVE' and not_after > now() + interval '1 hour') = 1
		and (select count(*) from node_certs where node_id = $1) > 2 and not exists (select from node_certs where node_id = $1 and state = 'PENDING')`, f.nodeID)
	require.Eventually(t, func() bool {
		now, err := m.Status()
		return err == nil && time.Until(now.NotAfter) > time.Hour && now.NodeID == f.nodeID && now.Session != nil && now.Session.State == agent.Connected
	}, patience, 10*time.Millisecond, "the machine has it as its credential")
	now := identityFiles(t, f.stateDir)
	require.Equal(t, f.files["identity"], now["identity"])
	require.NotEqual(t, f.files["credential"], now["credential"])
	require.Equal(t, 1, one[int](t, f.bundle, `select count(*) from nodes`))
	require.Zero(t, one[int](t, f.bundle, `select count(*) from events where type like 'security.%'`), "nobody is accused")
}

func TestFullDisk(t *testing.T) {
	t.Parallel()

	t.Run("D12 the disk is really full at a renewal: the old certificate goes on, and with room again it is renewed", func(t *testing.T) {
		t.Parallel()
		f := nearlyOver(t)
		require.NoError(t, f.fill())
		stop := f.restarted(t).run(t)
		f.isNow(t, f.nodeID, node.Connected)
		require.Eventually(t, f.said.has("the one in use goes on"), patience, time.Millisecond, "it says so")
		stop()
		require.Equal(t, 1, f.said.count("the one in use goes on"), "in one sentence")
		// Started anew on the full disk it is the same node by the same certificate.
		stop = f.restarted(t).run(t)
		f.isNow(t, f.nodeID, node.Connected)
		stop()
		require.Equal(t, map[string]int{"ACTIVE": 1}, f.states(t), "nothing was signed that could not be kept")
		require.Equal(t, f.serial, one[string](t, f.bundle, `select serial from node_certs where node_id = $1 and state = 'ACTIVE'`, f.nodeID))
		require.Equal(t, f.files, identityFiles(t, f.stateDir))
		f.comesThrough(t)
	})

	t.Run("D12 the disk is full when the new certificate comes: the old one goes on, the new one waits, and with room again it is taken", func(t *testing.T) {
		t.Parallel()
		f := nearlyOver(t)
		full := func() {
			if err := f.fill(); err != nil {
				t.Error(err)
			}
		}
		f.issuer.before.Store(&full)
		stop := f.restarted(t).run(t)
		f.isNow(t, f.nodeID, node.Connected)
		require.Eventually(t, f.said.has("can't be kept; the one in use goes on"), patience, time.Millisecond, "it says so")
		f.issuer.before.Store(nil)
		stop()
		require.Equal(t, 1, f.said.count("the one in use goes on"), "in one sentence")
		require.Equal(t, map[string]int{"ACTIVE": 1, "PENDING": 1}, f.states(t), "what was not used does not count")
		require.Equal(t, f.files, identityFiles(t, f.stateDir))
		stop = f.restarted(t).run(t)
		f.isNow(t, f.nodeID, node.Connected)
		stop()
		require.Equal(t, map[string]int{"ACTIVE": 1, "PENDING": 1}, f.states(t), "the same request has the same answer")
		require.Equal(t, f.serial, one[string](t, f.bundle, `select serial from node_certs where node_id = $1 and state = 'ACTIVE'`, f.nodeID))
		f.comesThrough(t)
	})

	t.Run("D12 the disk is full when the new certificate takes over: it is used from beside the old one, and with room again it is in its place", func(t *testing.T) {
		t.Parallel()
		f := nearlyOver(t)
		require.NoError(t, f.stop())
		fills := &fillsAtNext{Identities: f.config.Identities, first: f.serial, fill: f.fill}
		f.config.Identities = fills
		f.start(t, f.address)
		stop := f.restarted(t).run(t)
		require.Eventually(t, f.said.has("stays beside the one before"), patience, time.Millisecond, "it says so")
		f.isNow(t, f.nodeID, node.Connected)
		stop()
		require.NoError(t, fills.err)
		require.Equal(t, 1, f.said.count("stays beside the one before"), "in one sentence")
		require.Equal(t, map[string]int{"ACTIVE": 1, "SUPERSEDED": 1}, f.states(t))
		require.Equal(t, f.files, identityFiles(t, f.stateDir))
		// On the full disk it comes back by the new one: the old one would be refused.
		stop = f.restarted(t).run(t)
		f.isNow(t, f.nodeID, node.Connected)
		stop()
		f.comesThrough(t)
	})

	t.Run("the disk is full at the join: one sentence, the token is unused, and joins with room again", func(t *testing.T) {
		t.Parallel()
		dir, fill, free := smallDisk(t)
		b := setup(t)
		token := b.token(t)
		m := b.machine(t, filepath.Join(dir, "state"))
		require.NoError(t, os.Mkdir(m.stateDir, 0o700))
		require.NoError(t, fill())
		_, err := m.Join(t.Context(), agent.Join{Token: token})
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.NotContains(t, err.Error(), "\n")
		require.True(t, one[bool](t, b, `select used_at is null from join_tokens where id = $1`, token.ID()))
		free()
		joined, err := m.Join(t.Context(), agent.Join{Token: token})
		require.NoError(t, err)
		require.Equal(t, 1, one[int](t, b, `select count(*) from nodes`))
		require.NotEmpty(t, joined.Credential.NodeID)
		_, err = m.Join(t.Context(), agent.Join{Token: token})
		require.True(t, errors.Is(err, agent.ErrJoined))
	})
}

// fillsAtNext fills the disk at the first use of a certificate other than the first.
type fillsAtNext struct {
	gateway.Identities
	first string
	fill  func() error
	once  sync.Once
	err   error
}

// Admit judges the certificate.
func (f *fillsAtNext) Admit(ctx context.Context, leaf *x509.Certificate) (pki.Verdict, error) {
	if leaf.SerialNumber.Text(16) != f.first {
		f.once.Do(func() { f.err = f.fill() })
	}
	return f.Identities.Admit(ctx, leaf)
}
