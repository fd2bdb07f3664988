package agent

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent/agenttest"
)

// cutAtEachByte runs a test with the record cut off at every byte, and puts the whole file back afterwards.
func cutAtEachByte(t *testing.T, a *Agent, record string, act func(n int)) {
	t.Helper()
	path := a.store.path(record)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for n := range whole {
		require.NoError(t, os.WriteFile(path, whole[:n], fileMode))
		act(n)
	}
	require.NoError(t, os.WriteFile(path, whole, fileMode))
}

// stops checks that a machine whose files can't be trusted says so in one sentence, changes none of them and calls nobody.
func stops(t *testing.T, a *Agent, g *agenttest.Gateway, says string, act func() error) {
	t.Helper()
	before, dials := files(t, a.config.StateDir), g.Dials()
	err := act()
	require.ErrorContains(t, err, says)
	require.NotContains(t, err.Error(), "\n")
	after := files(t, a.config.StateDir)
	maps.DeleteFunc(after, func(path, _ string) bool { return strings.HasSuffix(path, "lock") })
	maps.DeleteFunc(before, func(path, _ string) bool { return strings.HasSuffix(path, "lock") })
	require.Equal(t, before, after)
	require.Equal(t, dials, g.Dials())
}

func TestHalfWritten(t *testing.T) {
	t.Parallel()

	t.Run("D9 an identity cut off at any byte: no join, one sentence, nothing changes; the session goes on, and restored it is the same node", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		r := join(t, g)
		s := receive(t, g.Sessions)
		r.inState(t, Connected)
		require.NoError(t, os.Rename(r.store.path(credentialRecord), filepath.Join(t.TempDir(), "kept")))
		token := g.Token()
		cutAtEachByte(t, r.Agent, identityRecord, func(int) {
			stops(t, r.Agent, g, "damaged", func() error {
				_, err := r.Join(t.Context(), Join{Token: token})
				return err
			})
		})
		goesOn(t, s)
		again, err := r.Join(t.Context(), Join{Token: token})
		require.NoError(t, err)
		require.Equal(t, r.joined.NodeID, again.Credential.NodeID)
		require.Equal(t, 1, g.Nodes())
	})

	t.Run("D9 a credential cut off at any byte: neither join nor run, one sentence, and nothing changes", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		_, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		token := g.Token()
		cutAtEachByte(t, a, credentialRecord, func(int) {
			stops(t, a, g, "keeps the node's id", func() error {
				_, err := a.Join(t.Context(), Join{Token: token})
				return err
			})
			stops(t, a, g, "damaged", func() error { return a.Run(t.Context()) })
		})
	})

	t.Run("D9 a join's request cut off at any byte costs a new request, not the identity", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		joined, err := a.Join(t.Context(), Join{Token: g.Token()})
		require.NoError(t, err)
		require.NoError(t, a.store.drop(credentialRecord))
		_, _, err = a.ensurePending(a.store, g.Token())
		require.NoError(t, err)
		whole, err := os.ReadFile(a.store.path(pendingRecord))
		require.NoError(t, err)
		for n := 0; n < len(whole); n += 7 {
			require.NoError(t, os.WriteFile(a.store.path(pendingRecord), whole[:n], fileMode))
			again, err := a.Join(t.Context(), Join{Token: g.Token()})
			require.NoError(t, err, "cut to %d bytes", n)
			require.Equal(t, joined.Credential.NodeID, again.Credential.NodeID)
			require.NoError(t, a.store.drop(credentialRecord))
		}
		require.Equal(t, 1, g.Nodes())
	})

	for _, record := range []string{pendingRecord, nextRecord} {
		t.Run("D9 a renewal whose "+record+" is cut off at any byte: the certificate in use goes on, and is renewed", func(t *testing.T) {
			t.Parallel()
			g := agenttest.New(t, agenttest.Options{})
			a, _ := machine(t, g)
			joined, err := a.Join(t.Context(), Join{Token: g.Token()})
			require.NoError(t, err)
			renew := func() {
				csr, ok := a.beginRenewal()
				require.True(t, ok)
				chain, err := g.Sign(joined.Credential.NodeID, csr)
				require.NoError(t, err)
				require.True(t, a.takeRenewal(joined.Credential, []byte(chain)))
			}
			if record == nextRecord {
				renew()
			} else {
				_, ok := a.beginRenewal()
				require.True(t, ok)
			}
			cutAtEachByte(t, a, record, func(n int) {
				now, isNext, err := a.current()
				require.NoError(t, err)
				require.False(t, isNext)
				require.Equal(t, joined.Credential.Serial(), now.Serial())
				if n%40 != 0 {
					return // each renewal waits for the disk a dozen times
				}
				renew()
				now, isNext, err = a.current()
				require.NoError(t, err, "cut to %d bytes", n)
				require.True(t, isNext)
				require.NotEqual(t, joined.Credential.Serial(), now.Serial())
				require.NoError(t, a.store.drop(nextRecord))
			})
		})
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()

	for _, failure := range []error{syscall.EIO, syscall.EACCES} {
		// The next certificate is not among them: a join does not read it, because what it brings counts more.
		for _, record := range []string{identityRecord, credentialRecord, pendingRecord} {
			t.Run("D10 "+failure.Error()+" on the "+record+": the join stops, enrols nothing and changes nothing", func(t *testing.T) {
				t.Parallel()
				g := agenttest.New(t, agenttest.Options{})
				a, _ := machine(t, g)
				_, err := a.Join(t.Context(), Join{Token: g.Token()})
				require.NoError(t, err)
				if record != credentialRecord {
					require.NoError(t, os.Remove(a.store.path(credentialRecord)))
				}
				a.store.disk = &failingDisk{disk: localDisk{}, path: a.store.path(record), err: failure}
				stops(t, a, g, failure.Error(), func() error {
					_, err := a.Join(t.Context(), Join{Token: g.Token()})
					return err
				})
			})
		}
		t.Run("D10 "+failure.Error()+" on a copy beside a damaged identity: it may be the whole one", func(t *testing.T) {
			t.Parallel()
			g := agenttest.New(t, agenttest.Options{})
			a, _ := machine(t, g)
			_, err := a.Join(t.Context(), Join{Token: g.Token()})
			require.NoError(t, err)
			require.NoError(t, os.Remove(a.store.path(credentialRecord)))
			path := a.store.path(identityRecord)
			require.NoError(t, os.Rename(path, path+previous))
			require.NoError(t, os.WriteFile(path, nil, fileMode))
			a.store.disk = &failingDisk{disk: localDisk{}, path: path + previous, err: failure}
			stops(t, a, g, failure.Error(), func() error {
				_, err := a.Join(t.Context(), Join{Token: g.Token()})
				return err
			})
		})
		t.Run("D10 "+failure.Error()+" on the directory", func(t *testing.T) {
			t.Parallel()
			g := agenttest.New(t, agenttest.Options{})
			a, _ := machine(t, g)
			_, err := a.Join(t.Context(), Join{Token: g.Token()})
			require.NoError(t, err)
			require.NoError(t, os.Remove(a.store.path(credentialRecord)))
			a.store.disk = &unlistable{disk: localDisk{}, err: failure}
			stops(t, a, g, failure.Error(), func() error {
				_, err := a.Join(t.Context(), Join{Token: g.Token()})
				return err
			})
		})
		t.Run("D10 "+failure.Error()+" under a run: a renewal waits and the session goes on; at the next connect it stops", func(t *testing.T) {
			t.Parallel()
			g := agenttest.New(t, agenttest.Options{})
			d := &turningDisk{disk: localDisk{}}
			r := join(t, g, func(a *Agent) { a.store.disk = d })
			s := receive(t, g.Sessions)
			d.fail(failure)
			_, ok := r.beginRenewal()
			require.False(t, ok)
			require.Contains(t, r.logs.String(), "the one in use goes on")
			goesOn(t, s)
			s.Drop()
			err := receive(t, r.ended)
			r.ended <- nil
			require.ErrorIs(t, err, failure)
			require.NotContains(t, err.Error(), "\n")
			require.Empty(t, g.Sessions)
			require.Equal(t, 1, g.Nodes())
		})
	}
}

// goesOn checks that a session is up: it beats.
func goesOn(t *testing.T, s *agenttest.Session) {
	t.Helper()
	before := s.Beats()
	eventually(t, func() bool { return s.Beats() > before }, "the session goes on")
}

// turningDisk reads nothing any more from a moment on.
type turningDisk struct {
	disk
	err atomic.Pointer[error]
}

func (d *turningDisk) fail(err error) { d.err.Store(&err) }

func (d *turningDisk) read(path string) ([]byte, error) {
	if err := d.err.Load(); err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: *err}
	}
	return d.disk.read(path)
}

// unlistable says of no directory what is in it.
type unlistable struct {
	disk
	err error
}

func (d *unlistable) list(dir string) ([]string, error) {
	return nil, &fs.PathError{Op: "readdir", Path: dir, Err: d.err}
}
