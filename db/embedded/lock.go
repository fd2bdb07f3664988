package embedded

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// lock is the hold on a data directory. It lasts as long as the process, since the kernel drops it with the file.
type lock struct{ file *os.File }

// holder is what the lock file says about who holds the directory.
type holder struct {
	PID       int       `json:"pid"`
	SocketDir string    `json:"socketDir,omitempty"`
	Since     time.Time `json:"since"`
}

func (p *place) lock() (*lock, error) {
	f, err := os.OpenFile(filepath.Join(p.dir, lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, badDir(p.dir, "the data directory %s cannot be used: %w", p.dir, err)
	}
	l := &lock{file: f}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		h := l.read()
		_ = f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, badDir(p.dir, "the data directory %s cannot be locked: %w", p.dir, err)
		}
		return nil, fault.New(fault.InvalidState, fault.Details{"argument": "data-dir", "value": p.dir, "pid": h.PID},
			"the data directory %s is in use by a running better-compute (process %d): stop that one, or name another --data-dir", p.dir, h.PID)
	}
	// The last run's socket directory stays named until it is removed, after what may still use it has ended.
	return l, l.write(l.read().SocketDir)
}

func (l *lock) read() holder {
	var h holder
	buf := make([]byte, 4096)
	n, _ := l.file.ReadAt(buf, 0)
	if json.Unmarshal(buf[:n], &h) != nil {
		return holder{} // cut off while it was written, or written by someone else
	}
	return h
}

func (l *lock) write(socketDir string) error {
	text, err := json.Marshal(holder{PID: os.Getpid(), SocketDir: socketDir, Since: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		return fault.New(fault.Unavailable, nil, "the lock file %s cannot be written: %w", l.file.Name(), err)
	}
	return nil
}

// dropSocketDir removes a socket directory that was made for one run; one in the data directory stays with it.
func (l *lock) dropSocketDir() {
	h := l.read()
	if !strings.HasPrefix(filepath.Base(h.SocketDir), socketPrefix) {
		return
	}
	for _, name := range []string{socketFile, socketFile + ".lock", ""} {
		_ = os.Remove(filepath.Join(h.SocketDir, name)) // no RemoveAll: what else lies there is not ours
	}
}

func (l *lock) release() error {
	if l.file == nil {
		return nil
	}
	l.dropSocketDir()
	err := errors.Join(l.file.Truncate(0), l.file.Close())
	l.file = nil
	if err != nil {
		return fault.New(fault.Unavailable, nil, "the lock on the data directory could not be given back: %w", err)
	}
	return nil
}
