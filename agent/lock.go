package agent

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errLocked says that someone else holds a lock file.
var errLocked = errors.New("locked")

// tryLock takes the lock on a file, which it makes when it is absent and never removes. The lock belongs to the open file: it also keeps out a
// second taker within this process, and it ends with the process.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	// The umask may have taken bits away that the next taker needs.
	if err := f.Chmod(fileMode); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return func() { _ = f.Close() }, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
