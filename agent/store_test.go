package agent

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
)

// errDead is what a disk answers after its process was killed.
var errDead = errors.New("the process is dead")

// dyingDisk lets so many bytes and operations through and then dies, as a process that is killed does: what was not synced of a file may be lost.
type dyingDisk struct {
	disk
	left int
	dead bool
}

// spend takes from what is left and says how much of n is still done.
func (d *dyingDisk) spend(n int) int {
	if d.dead {
		return 0
	}
	done := min(n, d.left)
	d.left -= done
	d.dead = d.left == 0
	return done
}

func (d *dyingDisk) step(do func() error) error {
	if d.spend(1) == 0 {
		return errDead
	}
	return do()
}

func (d *dyingDisk) write(path string, content []byte) error {
	if d.dead {
		return errDead
	}
	// One for each byte and one for the sync, after which the content can't be lost any more.
	done := d.spend(len(content) + 1)
	if done <= len(content) {
		// Cut off: on the medium are the bytes so far, in some cases none at all.
		kept := content[:done]
		if done%3 == 0 {
			kept = nil
		}
		_ = d.disk.write(path, kept)
		d.dead = true
		return errDead
	}
	return d.disk.write(path, content)
}

func (d *dyingDisk) link(from, to string) error {
	return d.step(func() error { return d.disk.link(from, to) })
}

func (d *dyingDisk) rename(from, to string) error {
	return d.step(func() error { return d.disk.rename(from, to) })
}

func (d *dyingDisk) remove(path string) error {
	return d.step(func() error { return d.disk.remove(path) })
}

func (d *dyingDisk) sync(dir string) error {
	return d.step(func() error { return d.disk.sync(dir) })
}

// failingDisk answers reads of one path with an error.
type failingDisk struct {
	disk
	path string
	err  error
}

func (d *failingDisk) read(path string) ([]byte, error) {
	if path == d.path {
		return nil, &fs.PathError{Op: "read", Path: path, Err: d.err}
	}
	return d.disk.read(path)
}

// fullDisk has no room for one record.
type fullDisk struct {
	disk
	record string
}

func (d *fullDisk) write(path string, content []byte) error {
	if isTemporary(d.record, filepath.Base(path)) {
		_ = d.disk.write(path, content[:len(content)/2])
		return &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
	}
	return d.disk.write(path, content)
}

func newStore(t *testing.T) *store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, makeStateDir(dir))
	return &store{dir: dir, disk: localDisk{}, log: slog.New(slog.DiscardHandler)}
}

type note struct {
	Text string `json:"text"`
}

func readNote(t *testing.T, s *store) (string, bool) {
	t.Helper()
	var n note
	found, err := s.read(identityRecord, &n)
	require.NoError(t, err)
	return n.Text, found
}

func TestD9KilledWrites(t *testing.T) {
	t.Parallel()
	// However far a write gets before the process dies, the record is the old or the new one afterwards, and the next write works.
	for _, old := range []string{"", "the old one"} {
		name := "D9 over an old record"
		if old == "" {
			name = "D9 the first write"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcomes := map[string]int{}
			for budget := 1; ; budget++ {
				s := newStore(t)
				if old != "" {
					require.NoError(t, s.write(identityRecord, note{"the one before"}))
					require.NoError(t, s.write(identityRecord, note{old}))
				}
				dying := &dyingDisk{disk: localDisk{}, left: budget}
				s.disk = dying
				err := s.write(identityRecord, note{"the new one"})
				s.disk = localDisk{}
				got, found := readNote(t, s)
				switch {
				case found:
					require.Contains(t, []string{old, "the new one"}, got, "killed after %d steps", budget)
				default:
					require.Empty(t, old, "the record is gone after %d steps", budget)
				}
				if err == nil {
					require.Equal(t, "the new one", got)
				}
				outcomes[got]++
				require.NoError(t, s.write(identityRecord, note{"after"}))
				after, _ := readNote(t, s)
				require.Equal(t, "after", after)
				names, err := s.disk.list(s.dir)
				require.NoError(t, err)
				for _, name := range names {
					require.False(t, isTemporary(identityRecord, name), "a temporary stays behind after the next write: %s", name)
				}
				if !dying.dead {
					break
				}
			}
			// The walk has met both outcomes, else it has shown nothing.
			require.Positive(t, outcomes[old])
			require.Positive(t, outcomes["the new one"])
		})
	}
}

func TestD9DamagedFiles(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (*store, string, []byte) {
		t.Helper()
		s := newStore(t)
		require.NoError(t, s.write(identityRecord, note{"first"}))
		require.NoError(t, s.write(identityRecord, note{"second"}))
		path := s.path(identityRecord)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return s, path, content
	}

	t.Run("D9 truncated at any byte, the copy from before answers", func(t *testing.T) {
		t.Parallel()
		s, path, content := setup(t)
		for n := range content {
			require.NoError(t, os.WriteFile(path, content[:n], fileMode))
			got, found := readNote(t, s)
			require.True(t, found)
			require.Equal(t, "first", got, "truncated to %d bytes", n)
		}
	})
	t.Run("D9 a changed byte anywhere is noticed", func(t *testing.T) {
		t.Parallel()
		s, path, content := setup(t)
		for n := range content {
			damaged := append([]byte{}, content...)
			damaged[n] ^= 1
			require.NoError(t, os.WriteFile(path, damaged, fileMode))
			got, _ := readNote(t, s)
			require.Equal(t, "first", got, "byte %d changed", n)
		}
	})
	t.Run("D9 a zero-length file with a good temporary beside it gives the temporary", func(t *testing.T) {
		t.Parallel()
		s, path, content := setup(t)
		require.NoError(t, os.WriteFile(s.path(temporaryName(identityRecord)), content, fileMode))
		require.NoError(t, os.WriteFile(path, nil, fileMode))
		got, _ := readNote(t, s)
		require.Equal(t, "second", got, "the newest whole copy counts, not the one from before")
	})
	t.Run("D9 damage without a whole copy is an error and not an absence", func(t *testing.T) {
		t.Parallel()
		s, path, _ := setup(t)
		require.NoError(t, os.Remove(path+previous))
		require.NoError(t, os.WriteFile(path, nil, fileMode))
		var n note
		_, err := s.read(identityRecord, &n)
		require.ErrorIs(t, err, errDamaged)
		require.ErrorIs(t, s.write(identityRecord, note{"third"}), errDamaged, "and nothing is put in its place")
	})
	t.Run("D13 a file that an operator removed stays removed, whatever copies are there", func(t *testing.T) {
		t.Parallel()
		s, path, _ := setup(t)
		require.NoError(t, os.Remove(path))
		_, found := readNote(t, s)
		require.False(t, found)
	})
	t.Run("a record under another record's name is refused", func(t *testing.T) {
		t.Parallel()
		s, path, _ := setup(t)
		require.NoError(t, os.Rename(path, s.path(credentialRecord)))
		var n note
		_, err := s.read(credentialRecord, &n)
		require.ErrorIs(t, err, errDamaged)
	})
}

func TestD10ReadErrors(t *testing.T) {
	t.Parallel()
	// A read that fails says nothing about what is there: neither a read nor a write may take it for absence.
	for _, failure := range []error{syscall.EIO, syscall.EACCES, syscall.ENOTDIR} {
		t.Run("D10 "+failure.Error(), func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			s.disk = &failingDisk{disk: localDisk{}, path: s.path(identityRecord), err: failure}
			var n note
			found, err := s.read(identityRecord, &n)
			require.ErrorIs(t, err, failure)
			require.False(t, found)
			require.ErrorIs(t, s.write(identityRecord, note{"x"}), failure)
			_, err = os.Stat(s.path(identityRecord))
			require.ErrorIs(t, err, fs.ErrNotExist, "nothing was written")
		})
	}
}

func TestD11Modes(t *testing.T) {
	t.Parallel()

	t.Run("D11 a key that others can read is refused with what to do", func(t *testing.T) {
		t.Parallel()
		for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o601} {
			s := newStore(t)
			require.NoError(t, s.write(identityRecord, note{"x"}))
			require.NoError(t, os.Chmod(s.path(identityRecord), mode))
			var n note
			_, err := s.read(identityRecord, &n)
			require.Equal(t, fault.InvalidState, fault.CodeOf(err))
			require.ErrorContains(t, err, "chmod 0600")
		}
	})
	t.Run("D11 a directory that others can enter is refused, an empty one is closed", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		require.NoError(t, os.Chmod(s.dir, 0o755))
		require.NoError(t, makeStateDir(s.dir))
		info, err := os.Stat(s.dir)
		require.NoError(t, err)
		require.Equal(t, dirMode, info.Mode().Perm())
		require.NoError(t, s.write(identityRecord, note{"x"}))
		require.NoError(t, os.Chmod(s.dir, 0o750))
		err = makeStateDir(s.dir)
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		require.ErrorContains(t, err, "chmod 0700")
	})
	t.Run("D11 a symbolic link is not followed", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		require.NoError(t, s.write(identityRecord, note{"x"}))
		elsewhere := filepath.Join(t.TempDir(), "identity")
		require.NoError(t, os.Rename(s.path(identityRecord), elsewhere))
		require.NoError(t, os.Symlink(elsewhere, s.path(identityRecord)))
		var n note
		_, err := s.read(identityRecord, &n)
		require.ErrorContains(t, err, "symbolic link")
	})
}

// A damaged credential costs a new certificate, not the identity: its sentence must not lead to a new node.
func TestD13DamagedRecordsSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for record, says := range map[string]string{identityRecord: "--reset --yes", credentialRecord: "keeps the node's id"} {
		require.NoError(t, os.WriteFile(s.path(record), []byte("damaged"), fileMode))
		var n note
		_, err := s.read(record, &n)
		require.ErrorIs(t, err, errDamaged)
		require.ErrorContains(t, err, says)
		if record == credentialRecord {
			require.NotContains(t, err.Error(), "--reset")
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(identityRecord, 7, []byte(`{"text":"x"}`)))
	f.Add([]byte("bcd1 identity 1 \n"))
	f.Add([]byte("bcd1 identity 18446744073709551616 x\n{}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		payload, revision, err := decode(identityRecord, content)
		if err != nil {
			require.ErrorIs(t, err, errDamaged)
			return
		}
		// Only what encode writes is accepted.
		require.Equal(t, content, encode(identityRecord, revision, payload))
	})
}
