package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent/agenttest"
	"github.com/better-compute/better-compute/fault"
)

// closedToOthers checks every file and directory below the state directory, the copies and what a reset put aside among them.
func closedToOthers(t *testing.T, a *Agent, want ...string) {
	t.Helper()
	seen := map[string]bool{}
	require.NoError(t, filepath.WalkDir(a.config.StateDir, func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		mode := fileMode
		if entry.IsDir() {
			mode = dirMode
		}
		require.Equal(t, mode, info.Mode().Perm(), path)
		seen[entry.Name()] = true
		if strings.HasPrefix(entry.Name(), "old-") {
			seen["old-"] = true
		}
		return nil
	}))
	for _, name := range want {
		require.True(t, seen[name], "%s must be there, else this shows nothing: %v", name, seen)
	}
}

func TestModesOfAll(t *testing.T) {
	t.Parallel()

	t.Run("D11 whatever a life of join, run, renewal and reset writes is for the owner alone", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		receive(t, g.Sessions)
		r.inState(t, Connected)
		closedToOthers(t, r.Agent, identityRecord, credentialRecord, lockFile, "run.lock", "session.json")
		require.NoError(t, r.end(t))
		csr, ok := r.beginRenewal()
		require.True(t, ok)
		closedToOthers(t, r.Agent, pendingRecord)
		chain, err := g.Sign(r.joined.NodeID, csr)
		require.NoError(t, err)
		require.True(t, r.takeRenewal(r.joined, []byte(chain)))
		closedToOthers(t, r.Agent, nextRecord)
		r.promote(t.Context())
		closedToOthers(t, r.Agent, credentialRecord+previous)
		_, err = r.Join(t.Context(), Join{Token: g.Token(), Reset: true})
		require.NoError(t, err)
		closedToOthers(t, r.Agent, "old-")
	})

	for _, mode := range []fs.FileMode{0o640, 0o620, 0o610, 0o604, 0o602, 0o601} {
		for _, record := range []string{identityRecord, credentialRecord, pendingRecord} {
			t.Run("D11 "+record+" with mode "+mode.String()+": a join says what to do, calls nobody and changes nothing", func(t *testing.T) {
				t.Parallel()
				g := agenttest.New(t, agenttest.Options{})
				a, _ := machine(t, g)
				_, err := a.Join(t.Context(), Join{Token: g.Token()})
				require.NoError(t, err)
				if record != credentialRecord {
					require.NoError(t, os.Remove(a.store.path(credentialRecord)))
				}
				if record == pendingRecord {
					_, _, err = a.ensurePending(a.store, g.Token())
					require.NoError(t, err)
				}
				require.NoError(t, os.Chmod(a.store.path(record), mode))
				stops(t, a, g, "chmod 0600", func() error {
					_, err := a.Join(t.Context(), Join{Token: g.Token()})
					require.Equal(t, fault.InvalidState, fault.CodeOf(err))
					return err
				})
			})
		}
	}
}

func TestResetKeepsAll(t *testing.T) {
	t.Parallel()
	// D8 Every file of the old identity is aside with the content that it had, copies too.
	g := agenttest.New(t, agenttest.Options{})
	a, _ := machine(t, g)
	joined, err := a.Join(t.Context(), Join{Token: g.Token()})
	require.NoError(t, err)
	csr, ok := a.beginRenewal()
	require.True(t, ok)
	chain, err := g.Sign(joined.Credential.NodeID, csr)
	require.NoError(t, err)
	require.True(t, a.takeRenewal(joined.Credential, []byte(chain)))
	a.promote(t.Context())
	old := map[string]string{}
	for path, content := range files(t, a.config.StateDir) {
		if name := filepath.Base(path); !strings.HasSuffix(name, "lock") {
			old[name] = content
		}
	}
	require.Len(t, old, 3, "identity, credential and its copy")
	again, err := a.Join(t.Context(), Join{Token: g.Token(), Reset: true})
	require.NoError(t, err)
	kept := map[string]string{}
	for path, content := range files(t, again.MovedAside) {
		kept[filepath.Base(path)] = content
	}
	require.Equal(t, old, kept, "D8")
}
