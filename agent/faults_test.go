package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent/agenttest"
)

// faultyDisk does so many changes and fails the next one with an error: that one alone, or every one from then on as of a process that was killed. Of
// a write that fails, half is on the disk. A rename, a link or a removal that fails has not happened; a sync that fails may have.
type faultyDisk struct {
	disk
	left    int
	err     error
	forEver bool
	failed  string // what failed first
}

func (d *faultyDisk) fault(op, path string) error {
	d.left--
	if d.left > 0 || d.left < 0 && !d.forEver {
		return nil
	}
	if d.failed == "" {
		d.failed = op + " of " + filepath.Base(path)
	}
	return &fs.PathError{Op: op, Path: path, Err: d.err}
}

func (d *faultyDisk) write(path string, content []byte) error {
	if err := d.fault("write", path); err != nil {
		if d.left == 0 {
			_ = d.disk.write(path, content[:len(content)/2])
		}
		return err
	}
	return d.disk.write(path, content)
}

func (d *faultyDisk) link(from, to string) error {
	return errors.Join(d.fault("link", from), d.unlessFailed(func() error { return d.disk.link(from, to) }))
}

func (d *faultyDisk) rename(from, to string) error {
	return errors.Join(d.fault("rename", to), d.unlessFailed(func() error { return d.disk.rename(from, to) }))
}

func (d *faultyDisk) remove(path string) error {
	return errors.Join(d.fault("remove", path), d.unlessFailed(func() error { return d.disk.remove(path) }))
}

func (d *faultyDisk) mkdir(dir string) error {
	return errors.Join(d.fault("mkdir", dir), d.unlessFailed(func() error { return d.disk.mkdir(dir) }))
}

func (d *faultyDisk) sync(dir string) error {
	return errors.Join(d.fault("sync", dir), d.unlessFailed(func() error { return d.disk.sync(dir) }))
}

func (d *faultyDisk) unlessFailed(do func() error) error {
	if d.left == 0 || d.left < 0 && d.forEver {
		return nil
	}
	return do()
}

// eachFault runs a test once for every change that act makes on the disk, failing that one, in each way. act gets the disk and says afterwards what
// must hold; the walk is over when act made fewer changes than were let through.
func eachFault(t *testing.T, act func(d *faultyDisk)) {
	t.Helper()
	for _, forEver := range []bool{false, true} {
		var met []string
		for n := 1; ; n++ {
			d := &faultyDisk{disk: localDisk{}, left: n, err: syscall.ENOSPC, forEver: forEver}
			act(d)
			if d.failed == "" {
				break
			}
			met = append(met, d.failed)
		}
		require.Greater(t, len(met), 3, "the walk has met writes, renames and syncs: %v", met)
	}
}

// oneLine is what an operator gets to read of a fault.
func oneLine(t *testing.T, err error, d *faultyDisk) {
	t.Helper()
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n", d.failed)
}

func TestDiskFaultsAtJoin(t *testing.T) {
	t.Parallel()

	t.Run("D9 whatever fails of a first join, the same token makes the one node afterwards", func(t *testing.T) {
		t.Parallel()
		eachFault(t, func(d *faultyDisk) {
			g := agenttest.New(t, agenttest.Options{})
			defer g.Close()
			a, _ := machine(t, g)
			a.store.disk = d
			token := g.Token()
			first, err := a.Join(t.Context(), Join{Token: token})
			a.store.disk = localDisk{}
			if err != nil {
				oneLine(t, err, d)
			}
			second, again := a.Join(t.Context(), Join{Token: token})
			if again == nil {
				require.Error(t, err, "%s: what was joined joined twice", d.failed)
				require.NoError(t, a.mustBe(second.Credential), d.failed)
			} else { // the credential was written before the fault
				require.ErrorIs(t, again, ErrJoined, d.failed)
				if err == nil {
					require.NoError(t, a.mustBe(first.Credential), d.failed)
				}
			}
			require.Equal(t, 1, g.Nodes(), "%s: nothing is burnt", d.failed)
		})
	})

	t.Run("D13 whatever fails of a join anew, the identity stays and the same token gives the same node its certificate", func(t *testing.T) {
		t.Parallel()
		eachFault(t, func(d *faultyDisk) {
			g := agenttest.New(t, agenttest.Options{})
			defer g.Close()
			a, _ := machine(t, g)
			joined, err := a.Join(t.Context(), Join{Token: g.Token()})
			require.NoError(t, err)
			identity, err := os.ReadFile(a.store.path(identityRecord))
			require.NoError(t, err)
			require.NoError(t, os.Remove(a.store.path(credentialRecord)))
			a.store.disk = d
			token := g.Token()
			if _, err = a.Join(t.Context(), Join{Token: token}); err != nil {
				oneLine(t, err, d)
			}
			a.store.disk = localDisk{}
			if _, err = a.Join(t.Context(), Join{Token: token}); err != nil {
				require.ErrorIs(t, err, ErrJoined, d.failed)
			}
			now, err := os.ReadFile(a.store.path(identityRecord))
			require.NoError(t, err)
			require.Equal(t, identity, now, d.failed)
			credential, found, err := a.credential(credentialRecord)
			require.NoError(t, err)
			require.True(t, found, d.failed)
			require.Equal(t, joined.Credential.NodeID, credential.NodeID, d.failed)
			require.Equal(t, 1, g.Nodes(), d.failed)
		})
	})
}

// mustBe says whether the stored credential is this one, with its key.
func (a *Agent) mustBe(want *Credential) error {
	got, found, err := a.credential(credentialRecord)
	if err != nil || !found || got.Serial() != want.Serial() || !got.key.Equal(want.key) {
		return fmt.Errorf("found %v, %v, %w", found, got, err)
	}
	return nil
}

func TestDiskFaultsAtRenewal(t *testing.T) {
	t.Parallel()
	// D12 Whatever fails of a renewal, there is a certificate to go on with at every moment, the identity is as it was, and with a sound disk the
	// renewal comes to its end.
	renew := func(a *Agent, g *agenttest.Gateway, old *Credential) bool {
		csr, ok := a.beginRenewal()
		if !ok {
			return false
		}
		chain, err := g.Sign(old.NodeID, csr)
		return err == nil && a.takeRenewal(old, []byte(chain))
	}
	for name, step := range map[string]func(t *testing.T, a *Agent, g *agenttest.Gateway, d *faultyDisk){
		"the request and its answer": func(_ *testing.T, a *Agent, g *agenttest.Gateway, d *faultyDisk) {
			old, _, _ := a.current()
			a.store.disk = d
			renew(a, g, old)
		},
		"the promotion": func(t *testing.T, a *Agent, g *agenttest.Gateway, d *faultyDisk) {
			t.Helper()
			old, _, err := a.current()
			require.NoError(t, err)
			require.True(t, renew(a, g, old))
			a.store.disk = d
			a.promote(t.Context())
			// A gateway has taken the new one, so the old one is of no more use: the new one must be what the next session opens with.
			now, _, err := a.current()
			require.NoError(t, err, d.failed)
			require.NotEqual(t, old.Serial(), now.Serial(), d.failed)
		},
	} {
		t.Run("D12 "+name, func(t *testing.T) {
			t.Parallel()
			g := agenttest.New(t, agenttest.Options{})
			eachFault(t, func(d *faultyDisk) {
				a, written := machine(t, g)
				joined, err := a.Join(t.Context(), Join{Token: g.Token()})
				require.NoError(t, err)
				identity, err := os.ReadFile(a.store.path(identityRecord))
				require.NoError(t, err)
				before := len(strings.Split(written.String(), "\n"))
				step(t, a, g, d)
				if d.failed != "" {
					said := strings.Split(written.String(), "\n")
					said = slices.DeleteFunc(said[before-1:], func(line string) bool {
						return !strings.Contains(line, "the one in use goes on") && !strings.Contains(line, "stays beside")
					})
					require.LessOrEqual(t, len(said), 1, "one sentence: %s: %v", d.failed, said)
				}
				now, _, err := a.current()
				require.NoError(t, err, "%s: there is a certificate to go on with", d.failed)
				require.Equal(t, joined.Credential.NodeID, now.NodeID)

				a.store.disk = localDisk{}
				now, _, err = a.current()
				require.NoError(t, err, d.failed)
				require.True(t, renew(a, g, now), d.failed)
				a.promote(t.Context())
				last, isNext, err := a.current()
				require.NoError(t, err)
				require.False(t, isNext)
				require.NotEqual(t, now.Serial(), last.Serial(), d.failed)
				kept, err := os.ReadFile(a.store.path(identityRecord))
				require.NoError(t, err)
				require.Equal(t, identity, kept, d.failed)
				names, err := a.store.disk.list(a.config.StateDir)
				require.NoError(t, err)
				for _, name := range names {
					require.False(t, strings.HasSuffix(name, ".tmp"), "%s: %s stays behind", d.failed, name)
				}
			})
		})
	}
}
