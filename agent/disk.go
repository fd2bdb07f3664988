package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/better-compute/better-compute/fault"
)

// disk is what the store needs of a file system. Tests put one in its place that dies in the middle.
type disk interface {
	// write makes a new file for the owner alone and has its content on the medium when it returns; it never opens an existing one.
	write(path string, content []byte) error
	// read gives the content of a regular file that belongs to this user alone. An error that is not fs.ErrNotExist never means absence.
	read(path string) ([]byte, error)
	// list gives the names in a directory.
	list(dir string) ([]string, error)
	link(from, to string) error
	rename(from, to string) error
	remove(path string) error
	mkdir(dir string) error
	// sync has the directory's entries on the medium when it returns.
	sync(dir string) error
}

const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
	// maxRecord bounds what is read of one file; an identity takes a few hundred bytes, a credential some thousand.
	maxRecord = 1 << 20
)

// localDisk is the machine's own file system.
type localDisk struct{}

func (localDisk) write(path string, content []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// The umask may have taken bits away from the owner; it can't add any.
	if err := f.Chmod(fileMode); err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

func (localDisk) read(path string) (_ []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fault.New(fault.InvalidState, nil, "%s is a symbolic link, which bcd does not follow; put the file itself there", path)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fault.New(fault.InvalidState, nil, "%s is not a regular file", path)
	}
	if err := ownedAlone(path, info, fileMode); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxRecord))
}

func (localDisk) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

func (localDisk) link(from, to string) error   { return os.Link(from, to) }
func (localDisk) rename(from, to string) error { return os.Rename(from, to) }
func (localDisk) remove(path string) error     { return os.Remove(path) }

func (localDisk) mkdir(dir string) error {
	if err := os.Mkdir(dir, dirMode); err != nil {
		return err
	}
	return os.Chmod(dir, dirMode)
}

func (localDisk) sync(dir string) (err error) {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}

// ownedAlone refuses a file or directory that anyone but its owner may read or write, or that belongs to someone else.
func ownedAlone(path string, info fs.FileInfo, want fs.FileMode) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fault.New(fault.InvalidState, fault.Details{"path": path, "mode": fmt.Sprintf("%04o", mode)},
			"%s has mode %04o, so others than its owner can get at the machine's keys; run: chmod %04o %s", path, mode, want, path)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fault.New(fault.InvalidState, fault.Details{"path": path, "uid": stat.Uid},
			"%s belongs to user %d and bcd runs as user %d; run bcd as that user or change the owner", path, stat.Uid, os.Geteuid())
	}
	return nil
}

// makeStateDir makes the state directory and its parents, or checks the one that is there and closes it to others when it is still empty.
func makeStateDir(dir string) error {
	local := localDisk{}
	err := checkStateDir(dir)
	switch {
	case err == nil:
		// Only an empty directory passes the check with bits for others.
		if err := os.Chmod(dir, dirMode); err != nil {
			return fmt.Errorf("close the state directory to others: %w", err)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return fmt.Errorf("make %s: %w", parent, err)
	}
	// Another process may have made it in between: that is as good.
	if err := local.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	if err := local.sync(parent); err != nil {
		return fmt.Errorf("sync %s: %w", parent, err)
	}
	return checkStateDir(dir)
}

// checkStateDir refuses a state directory that others can get at, unless it is empty: then nothing in it can have been read. The error of an
// absent one is fs.ErrNotExist.
func checkStateDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the state directory: %w", err)
	}
	if !info.IsDir() {
		return fault.New(fault.InvalidState, fault.Details{"path": dir}, "%s is not a directory", dir)
	}
	err = ownedAlone(dir, info, dirMode)
	if err != nil {
		if names, listErr := (localDisk{}).list(dir); listErr == nil && len(names) == 0 {
			return nil
		}
	}
	return err
}
