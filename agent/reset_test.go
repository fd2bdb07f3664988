package agent

import (
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/agent/agenttest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// member is a machine that has been a node for a while: beside identity and credential it has a copy of the one before, and a renewal under way.
func member(t *testing.T, g *agenttest.Gateway, change ...func(*Config)) (*Agent, *logs, *Credential) {
	t.Helper()
	a, said := machine(t, g, change...)
	joined, err := a.Join(t.Context(), Join{Token: g.Token()})
	require.NoError(t, err)
	renew := func() {
		csr, ok := a.beginRenewal()
		require.True(t, ok)
		chain, err := g.Sign(joined.Credential.NodeID, csr)
		require.NoError(t, err)
		require.True(t, a.takeRenewal(joined.Credential, []byte(chain)))
	}
	renew()
	a.promote(t.Context())
	renew()
	_, ok := a.beginRenewal()
	require.True(t, ok)
	now, isNext, err := a.current()
	require.NoError(t, err)
	require.True(t, isNext)
	return a, said, now
}

// whole says which node a machine is, and checks that all of it is that node's: its identity, its certificate, and what it opens a session with.
func whole(t *testing.T, a *Agent, at string) string {
	t.Helper()
	identity, found, err := a.identity()
	require.NoError(t, err, at)
	require.True(t, found, at)
	credential, found, err := a.credential(credentialRecord)
	require.NoError(t, err, at)
	require.True(t, found, at)
	require.Equal(t, identity.Fingerprint(), credential.Key, "%s: identity and certificate are of one node", at)
	current, _, err := a.current()
	require.NoError(t, err, at)
	require.Equal(t, credential.NodeID, current.NodeID, at)
	status, err := a.Status()
	require.NoError(t, err, at)
	require.True(t, status.Joined, at)
	require.Equal(t, []string{credential.NodeID, credential.Key}, []string{status.NodeID, status.Key}, at)
	return credential.NodeID
}

// recordFiles gives the machine's own files by their names, and not those of a reset.
func recordFiles(t *testing.T, a *Agent) map[string]string {
	t.Helper()
	all := files(t, a.config.StateDir)
	maps.DeleteFunc(all, func(path, _ string) bool {
		return filepath.Dir(path) != a.config.StateDir || strings.HasSuffix(path, "lock")
	})
	return all
}

func TestRefusedReset(t *testing.T) {
	t.Parallel()
	g := agenttest.New(t, agenttest.Options{})
	used := g.Token()
	first, _ := machine(t, g)
	_, err := first.Join(t.Context(), Join{Token: used})
	require.NoError(t, err)
	nowhere := func(c *Config) { c.Servers = []string{"127.0.0.1:1"} }
	for name, c := range map[string]struct {
		change func(c *Config)
		answer string // of the gateway, 401; else it decides by itself
		code   fault.Code
	}{
		"D8 the token is used":                              {nil, "", fault.Unauthenticated},
		"D8 the identity is not wanted, whichever it is":    {nil, `{"code":"UNAUTHENTICATED","message":"no","details":{"reason":"deleted"}}`, fault.Unauthenticated},
		"D8 something between ends TLS":                     {nil, `{"code":"UNAUTHENTICATED","message":"no","details":{"reason":"proof"}}`, fault.Unauthenticated},
		"D8 the gateway is not the one of ca_fingerprint":   {func(c *Config) { c.CAFingerprint = strings.Repeat("ab", 32) }, "", fault.Unauthenticated},
		"D8 there is no gateway":                            {nowhere, "", fault.Unavailable},
		"D8 the gateway finds something wrong with the CSR": {nil, `{"code":"INVALID_INPUT","message":"no"}`, fault.InvalidInput},
	} {
		t.Run(name+": the machine is what it was, to the last file", func(t *testing.T) {
			t.Parallel()
			own := g
			if c.answer != "" {
				own = agenttest.New(t, agenttest.Options{})
			}
			a, _, was := member(t, own)
			before := files(t, a.config.StateDir)
			config := a.config
			if c.change != nil {
				c.change(&a.config)
			}
			token := used
			if c.answer != "" {
				own.FailJoin(http.StatusUnauthorized, c.answer)
				token = own.Token()
			}
			joined, err := a.Join(t.Context(), Join{Token: token, Reset: true})
			require.Equal(t, c.code, fault.CodeOf(err), "%v", err)
			require.NotContains(t, err.Error(), "\n")
			require.Empty(t, joined.MovedAside)
			require.Equal(t, before, files(t, a.config.StateDir))
			names, err := a.store.disk.list(a.config.StateDir)
			require.NoError(t, err)
			require.NotContains(t, names, resetDir)
			a.config = config
			require.Equal(t, was.NodeID, whole(t, a, name))
			status, err := a.Status()
			require.NoError(t, err)
			require.Nil(t, status.Reset)

			joined, err = a.Join(t.Context(), Join{Token: own.Token(), Reset: true})
			require.NoError(t, err)
			require.Equal(t, joined.Credential.NodeID, whole(t, a, name))
			require.NotEqual(t, was.NodeID, joined.Credential.NodeID)
		})
	}

	t.Run("D8 a session that is up goes on through a refused reset, and so does its renewal", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		used := g.Token()
		other, _ := machine(t, g)
		_, err := other.Join(t.Context(), Join{Token: used})
		require.NoError(t, err)
		r := join(t, g)
		s := receive(t, g.Sessions)
		r.inState(t, Connected)
		_, err = r.Join(t.Context(), Join{Token: used, Reset: true})
		require.Equal(t, fault.Unauthenticated, fault.CodeOf(err))
		goesOn(t, s)
		csr, ok := r.beginRenewal()
		require.True(t, ok)
		chain, err := g.Sign(r.joined.NodeID, csr)
		require.NoError(t, err)
		require.True(t, r.takeRenewal(r.joined, []byte(chain)))
	})
}

func TestResetIsRepeated(t *testing.T) {
	t.Parallel()

	t.Run("D2 the answer to a reset is lost: the machine is what it was, status says what to do, and the same token makes the one new node", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _, was := member(t, g)
		g.LoseAnswers(joinTries)
		token, before := g.Token(), recordFiles(t, a)
		_, err := a.Join(t.Context(), Join{Token: token, Reset: true})
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		require.Equal(t, was.NodeID, whole(t, a, "lost"))
		require.Equal(t, before, recordFiles(t, a))
		status, err := a.Status()
		require.NoError(t, err)
		require.Equal(t, &Reset{Dir: a.store.path(resetDir)}, status.Reset)
		joined, err := a.Join(t.Context(), Join{Token: token, Reset: true})
		require.NoError(t, err)
		require.Equal(t, joined.Credential.NodeID, whole(t, a, "repeated"))
		require.Equal(t, 2, g.Nodes(), "no node that nobody is")
		status, err = a.Status()
		require.NoError(t, err)
		require.Nil(t, status.Reset)
	})
	t.Run("the answer is lost and too late to fetch: a refusal keeps what the control plane knows, and a fresh token makes the machine that node", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _, was := member(t, g)
		g.LoseAnswers(joinTries)
		token := g.Token()
		_, err := a.Join(t.Context(), Join{Token: token, Reset: true})
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		g.FailJoin(http.StatusUnauthorized, `{"code":"UNAUTHENTICATED","message":"join token refused"}`)
		_, err = a.Join(t.Context(), Join{Token: token, Reset: true})
		require.Equal(t, fault.Unauthenticated, fault.CodeOf(err))
		require.Equal(t, was.NodeID, whole(t, a, "refused"))
		joined, err := a.Join(t.Context(), Join{Token: g.Token(), Reset: true})
		require.NoError(t, err)
		require.Equal(t, joined.Credential.NodeID, whole(t, a, "repeated"))
		require.Equal(t, 2, g.Nodes())
	})
	t.Run("an identity that a reset began and the control plane won't have makes place for another, by the same token", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _, _ := member(t, g)
		g.LoseAnswers(joinTries)
		_, err := a.Join(t.Context(), Join{Token: g.Token(), Reset: true})
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
		g.FailJoin(http.StatusUnauthorized, `{"code":"UNAUTHENTICATED","message":"deleted","details":{"reason":"deleted"}}`)
		joined, err := a.Join(t.Context(), Join{Token: g.Token(), Reset: true})
		require.NoError(t, err)
		require.Equal(t, joined.Credential.NodeID, whole(t, a, "another"))
		require.Equal(t, 3, g.Nodes(), "the one that it was, the one that was deleted, and the new one")
	})
	t.Run("what a reset began and damage took is made anew", func(t *testing.T) {
		t.Parallel()
		for _, record := range []string{identityRecord, credentialRecord, pendingRecord} {
			g := agenttest.New(t, agenttest.Options{})
			a, _, _ := member(t, g)
			g.LoseAnswers(joinTries)
			_, err := a.Join(t.Context(), Join{Token: g.Token(), Reset: true})
			require.Error(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(a.store.path(resetDir), record), []byte("damaged"), fileMode))
			joined, err := a.Join(t.Context(), Join{Token: g.Token(), Reset: true})
			require.NoError(t, err, record)
			require.Equal(t, joined.Credential.NodeID, whole(t, a, record))
		}
	})
	t.Run("D10 what a reset began and can't be read may be a node: the reset stops and changes nothing", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _, was := member(t, g)
		g.LoseAnswers(joinTries)
		_, err := a.Join(t.Context(), Join{Token: g.Token(), Reset: true})
		require.Error(t, err)
		token := g.Token()
		for _, record := range []string{identityRecord, pendingRecord} {
			a.store.disk = &failingDisk{disk: localDisk{}, path: filepath.Join(a.store.path(resetDir), record), err: syscall.EIO}
			stops(t, a, g, syscall.EIO.Error(), func() error {
				_, err := a.Join(t.Context(), Join{Token: token, Reset: true})
				return err
			})
		}
		require.Equal(t, was.NodeID, whole(t, a, "unreadable"))
	})
	t.Run("a reset of a machine that is nobody is a join like any other: repeated without the flag it goes on", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _ := machine(t, g)
		g.LoseAnswers(joinTries)
		token := g.Token()
		_, err := a.Join(t.Context(), Join{Token: token, Reset: true})
		require.Error(t, err)
		joined, err := a.Join(t.Context(), Join{Token: token})
		require.NoError(t, err)
		require.Equal(t, joined.Credential.NodeID, whole(t, a, "repeated"))
		require.Equal(t, 1, g.Nodes())
	})
	t.Run("D10 a damaged identity, one that is a directory and one that is a link are moved aside unread", func(t *testing.T) {
		t.Parallel()
		for name, spoil := range map[string]func(path string) error{
			"damaged": func(path string) error { return os.WriteFile(path, []byte("damaged"), fileMode) },
			"a directory": func(path string) error {
				return errors.Join(os.Remove(path), os.Mkdir(path, dirMode), os.WriteFile(filepath.Join(path, "x"), nil, fileMode))
			},
			"a link":     func(path string) error { return errors.Join(os.Remove(path), os.Symlink("nowhere", path)) },
			"for others": func(path string) error { return os.Chmod(path, 0o644) },
			"no bytes":   func(path string) error { return os.Truncate(path, 0) },
		} {
			for _, record := range []string{identityRecord, credentialRecord} {
				g := agenttest.New(t, agenttest.Options{})
				a, _, _ := member(t, g)
				require.NoError(t, spoil(a.store.path(record)))
				joined, err := a.Join(t.Context(), Join{Token: g.Token(), Reset: true})
				require.NoError(t, err, "%s: %s", record, name)
				require.Equal(t, joined.Credential.NodeID, whole(t, a, name))
				_, err = os.Lstat(filepath.Join(joined.MovedAside, record))
				require.NoError(t, err, "%s: %s", record, name)
			}
		}
	})
}

// resetFault checks what must hold after a reset that was cut off anywhere: the machine is wholly the old or wholly the new node; with a sound disk
// it comes to its end by the same token, with one new node, and with every old file aside as it was.
func resetFault(t *testing.T, a *Agent, g *agenttest.Gateway, old map[string]string, was, at string, token wire.Token) (isNew bool) {
	t.Helper()
	is := whole(t, a, at)
	isNew = is != was
	status, err := a.Status()
	require.NoError(t, err)
	if status.Reset != nil {
		require.Equal(t, isNew, status.Reset.Through, at)
		require.False(t, status.Reset.UnderWay, at)
	}
	if isNew {
		unlock, err := a.store.lock(t.Context()) // as the next join, or renewal of a run, does
		require.NoError(t, err, at)
		unlock()
		require.Equal(t, is, whole(t, a, at), "to put its files in place changes nothing else")
	} else {
		now := recordFiles(t, a)
		for path, content := range old {
			require.Equal(t, content, now[path], "%s: %s", at, path)
		}
		joined, err := a.Join(t.Context(), Join{Token: token, Reset: true})
		require.NoError(t, err, at)
		require.Equal(t, joined.Credential.NodeID, whole(t, a, at))
		require.NotEqual(t, was, joined.Credential.NodeID, at)
	}
	require.Equal(t, 2, g.Nodes(), "%s: nothing is burnt", at)
	names, err := a.store.disk.list(a.config.StateDir)
	require.NoError(t, err)
	require.NotContains(t, names, resetDir, at)
	require.NotContains(t, names, takenDir, at)
	aside, err := filepath.Glob(filepath.Join(a.config.StateDir, asidePrefix+"*"))
	require.NoError(t, err)
	require.Len(t, aside, 1, "%s: the old identity is in one place", at)
	kept := map[string]string{}
	for path, content := range files(t, aside[0]) {
		kept[filepath.Join(a.config.StateDir, filepath.Base(path))] = content
	}
	for path, content := range old {
		require.Equal(t, content, kept[path], "%s: %s is aside as it was", at, path)
	}
	for name := range recordFiles(t, a) {
		require.Contains(t, []string{identityRecord, credentialRecord}, filepath.Base(name), "%s: nothing of the old one is beside the new one", at)
	}
	return isNew
}

func TestDiskFaultsAtReset(t *testing.T) {
	t.Parallel()

	t.Run("D8 whatever fails of a reset, the machine is the old node or the new one, and it comes to its end", func(t *testing.T) {
		t.Parallel()
		outcomes := map[bool]int{}
		eachFault(t, func(d *faultyDisk) {
			g := agenttest.New(t, agenttest.Options{})
			defer g.Close()
			a, _, was := member(t, g)
			old, token := recordFiles(t, a), g.Token()
			a.store.disk = d
			joined, err := a.Join(t.Context(), Join{Token: token, Reset: true})
			a.store.disk = localDisk{}
			if err != nil {
				oneLine(t, err, d)
			} else {
				require.Equal(t, joined.Credential.NodeID, whole(t, a, d.failed))
			}
			isNew := resetFault(t, a, g, old, was.NodeID, d.failed, token)
			require.Equal(t, err == nil, isNew, "%s: an error says that nothing is reset: %v", d.failed, err)
			outcomes[isNew]++
		})
		require.Positive(t, outcomes[false])
		require.Greater(t, outcomes[true], 2, "the walk has met faults after the new identity took over")
	})

	t.Run("D8 whatever fails of a reset that is refused, the machine is what it was", func(t *testing.T) {
		t.Parallel()
		eachFault(t, func(d *faultyDisk) {
			g := agenttest.New(t, agenttest.Options{})
			defer g.Close()
			a, _, was := member(t, g)
			used := g.Token()
			other, _ := machine(t, g)
			_, err := other.Join(t.Context(), Join{Token: used})
			require.NoError(t, err)
			old := recordFiles(t, a)
			a.store.disk = d
			_, err = a.Join(t.Context(), Join{Token: used, Reset: true})
			a.store.disk = localDisk{}
			oneLine(t, err, d)
			require.Equal(t, was.NodeID, whole(t, a, d.failed))
			require.Equal(t, old, recordFiles(t, a), d.failed)
			require.Equal(t, 2, g.Nodes(), d.failed)
		})
	})
}

// cutAfterTaking is a machine whose reset was through and died before it moved a file.
func cutAfterTaking(t *testing.T, g *agenttest.Gateway) (a *Agent, said *logs, was, is *Credential) {
	t.Helper()
	a, said, was = member(t, g)
	_, err := a.joinStaged(t.Context(), g.Token())
	require.NoError(t, err)
	require.NoError(t, a.store.disk.rename(a.store.path(resetDir), a.store.path(takenDir)))
	is, _, err = a.current()
	require.NoError(t, err)
	require.NotEqual(t, was.NodeID, is.NodeID)
	return a, said, was, is
}

func TestResetIsSettled(t *testing.T) {
	t.Parallel()

	t.Run("D8 killed again at each further change, it is the new node at every moment and comes to its end", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _, _, is := cutAfterTaking(t, g)
		tries := 0
		for done := false; !done; tries++ {
			a.store.disk = &faultyDisk{disk: localDisk{}, left: tries/2 + 1, err: syscall.EIO, forEver: true}
			unlock, err := a.store.lock(t.Context())
			if err == nil {
				unlock()
			}
			a.store.disk = localDisk{}
			require.Equal(t, is.NodeID, whole(t, a, "settling"))
			status, err := a.Status()
			require.NoError(t, err)
			if done = status.Reset == nil; !done {
				require.True(t, status.Reset.Through)
			}
		}
		require.Greater(t, tries, 5)
		aside, err := filepath.Glob(filepath.Join(a.config.StateDir, asidePrefix+"*", "*"))
		require.NoError(t, err)
		require.Len(t, aside, 5, "all of the old one: identity, credential and its copy, next, pending: %v", aside)
	})
	t.Run("a run of the machine is the new node at once, and puts its files in their places", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, said, _, is := cutAfterTaking(t, g)
		start(t, a, said, is)
		require.Equal(t, is.NodeID, receive(t, g.Sessions).NodeID)
		status, err := a.Status()
		require.NoError(t, err)
		require.Nil(t, status.Reset)
		require.Equal(t, is.NodeID, whole(t, a, "running"))
	})
	t.Run("so it is where its disk takes no changes any more", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, said, _, is := cutAfterTaking(t, g)
		a.store.disk = readOnly{localDisk{}}
		start(t, a, said, is)
		require.Equal(t, is.NodeID, receive(t, g.Sessions).NodeID)
		require.Contains(t, said.String(), "used from where it is")
	})
	t.Run("status says of a reset that is under way that it is", func(t *testing.T) {
		t.Parallel()
		g := agenttest.New(t, agenttest.Options{})
		a, _, was := member(t, g)
		_, err := a.store.stage()
		require.NoError(t, err)
		unlock, err := a.store.lock(t.Context())
		require.NoError(t, err)
		defer unlock()
		status, err := a.Status()
		require.NoError(t, err)
		require.Equal(t, &Reset{UnderWay: true, Dir: a.store.path(resetDir)}, status.Reset)
		require.Equal(t, was.NodeID, status.NodeID)
	})
}

// readOnly is a disk that takes no changes.
type readOnly struct{ disk }

func (readOnly) write(path string, _ []byte) error {
	return &fs.PathError{Op: "write", Path: path, Err: syscall.EROFS}
}

func (readOnly) rename(from, _ string) error {
	return &fs.PathError{Op: "rename", Path: from, Err: syscall.EROFS}
}

func (readOnly) mkdir(dir string) error {
	return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.EROFS}
}

func (readOnly) remove(path string) error {
	return &fs.PathError{Op: "remove", Path: path, Err: syscall.EROFS}
}
