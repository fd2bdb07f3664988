package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/better-compute/better-compute/fault"
)

// gatewayLockFile in the data directory is locked by the process that is the gateway of that id. With a PostgreSQL of its own the whole directory is
// locked; with an external one processes share a directory by their roles, but two gateways of one id would end each other.
const gatewayLockFile = "gateway.lock"

// holdGateway makes this process the only gateway of the data directory, for as long as it lives: the kernel drops the lock with the file.
func (s *settings) holdGateway() (release func(), err error) {
	path := filepath.Join(s.dataDir, gatewayLockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fault.Because(fault.InvalidState, err, nil, "%s cannot be opened; run serve as the user that owns the data directory", path)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fault.New(fault.InvalidState, nil, "the data directory %s is in use by a running gateway: stop that one, or name another --data-dir", s.dataDir)
		}
		return nil, fault.Because(fault.InvalidState, err, nil, "%s cannot be locked; choose a --data-dir on a file system that can", path)
	}
	return func() { _ = f.Close() }, nil
}
