package agent_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/testenv"
)

// smallDisk mounts a file system of its own that has room for little, and gives what fills it to the last byte and what makes room again.
func smallDisk(t *testing.T) (dir string, fill, free func()) {
	t.Helper()
	testenv.Need(t, "linux", "root")
	dir = filepath.Join(t.TempDir(), "small")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	ballast := filepath.Join(dir, "ballast")
	fill = func() {
		f, err := os.Create(ballast)
		require.NoError(t, err)
		defer f.Close()
		for _, size := range []int{4096, 1} {
			for err = nil; err == nil; {
				_, err = f.Write(make([]byte, size))
			}
			require.ErrorIs(t, err, syscall.ENOSPC)
		}
	}
	return dir, fill, func() { require.NoError(t, os.Remove(ballast)) }
}

func TestFullDisk(t *testing.T) {
	t.Parallel()

	t.Run("D12 the disk is really full at a renewal: the old certificate goes on, and with room again it is renewed", func(t *testing.T) {
		t.Parallel()
		dir, fill, free := smallDisk(t)
		b := setup(t)
		b.issuer.life.Store(int64(patience)) // so short that the gateway asks for the renewal at once
		said := &words{}
		logged := func(o *agent.Options) { o.Log = slog.New(slog.NewTextHandler(said, nil)) }
		m := b.machine(t, filepath.Join(dir, "state"), logged)
		joined, err := m.Join(t.Context(), agent.Join{Token: b.token(t)})
		require.NoError(t, err)
		nodeID, serial := joined.Credential.NodeID, joined.Credential.Serial()
		b.issuer.life.Store(0)
		fill()
		stop := m.run(t)
		b.isNow(t, nodeID, node.Connected)
		require.Eventually(t, said.has("the one in use goes on"), patience, time.Millisecond, "it says so")
		stop()
		// Started anew on the full disk it is the same node by the same certificate.
		stop = b.machine(t, m.stateDir, logged).run(t)
		b.isNow(t, nodeID, node.Connected)
		stop()
		require.Equal(t, 1, one[int](t, b, `select count(*) from node_certs where node_id = $1`, nodeID), "nothing was signed that could not be kept")
		require.Equal(t, serial, one[string](t, b, `select serial from node_certs where node_id = $1 and state = 'ACTIVE'`, nodeID))
		free()
		b.machine(t, m.stateDir, logged).run(t)
		b.until(t, "the new certificate is active and the old one superseded",
			`select (select state from node_certs where serial = $2) = 'SUPERSEDED'
			 and (select count(*) from node_certs where node_id = $1 and state = 'ACTIVE') = 1`, nodeID, serial)
	})

	t.Run("the disk is full at the join: one sentence, the token is unused, and joins with room again", func(t *testing.T) {
		t.Parallel()
		dir, fill, free := smallDisk(t)
		b := setup(t)
		token := b.token(t)
		m := b.machine(t, filepath.Join(dir, "state"))
		require.NoError(t, os.Mkdir(m.stateDir, 0o700))
		fill()
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
