package embedded

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// pidFile holds the process id of the server's first process.
const pidFile = "postmaster.pid"

// endOrphans ends what an earlier run left working on the data: a whole server whose parent was killed, or single processes of one whose first
// process was killed. We hold the lock, so nobody uses them. A process is ended only if it is a postgres of PostgreSQL's user at work in this very
// directory; the process id in postmaster.pid alone proves nothing, it may be another's by now.
func (p *place) endOrphans(ctx context.Context, log *slog.Logger) error {
	left := p.orphans()
	if len(left) > 0 {
		log.InfoContext(ctx, "ending a PostgreSQL that an earlier run left over", "pids", left, "data", p.pg)
	}
	for _, step := range []struct {
		sig   syscall.Signal
		bound time.Duration
	}{{syscall.SIGINT, stopBound}, {syscall.SIGQUIT, killBound}, {syscall.SIGKILL, killBound}} {
		if len(left) == 0 {
			break
		}
		targets := left
		if first := p.recorded(pidFile); step.sig == syscall.SIGINT {
			if !slices.Contains(left, first) {
				continue // its first process is gone, nobody is left to shut down in order
			}
			targets = []int{first}
		}
		for _, pid := range targets {
			_ = syscall.Kill(pid, step.sig) // gone already is what we want
		}
		var err error
		if left, err = p.waitGone(ctx, step.bound); err != nil {
			return fault.Because(fault.Unavailable, err, nil, "an earlier PostgreSQL still works on %s (processes %v)", p.pg, left)
		}
	}
	if len(left) > 0 {
		return fault.New(fault.Unavailable, nil, "an earlier PostgreSQL still works on %s and cannot be ended (processes %v)", p.pg, left)
	}
	// PostgreSQL refuses to start while the process id in either of its lock files is alive, whoever has it now (or is dead and not yet collected).
	// A file goes only when its bearer is for certain no server of ours; in doubt PostgreSQL's own checks decide.
	for _, name := range []string{pidFile, socketFile + ".lock"} {
		if pid := p.recorded(name); pid > 0 && alive(pid) && p.stranger(pid) {
			if err := os.Remove(filepath.Join(p.pg, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return badDir(p.dir, "the stale %s in %s cannot be removed: %w", name, p.pg, err)
			}
		}
	}
	return nil
}

// waitGone waits until no orphan is left, or the bound is over; it gives those that remain.
func (p *place) waitGone(ctx context.Context, bound time.Duration) ([]int, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	over := time.NewTimer(bound)
	defer over.Stop()
	for {
		left := p.orphans()
		if len(left) == 0 {
			return nil, nil
		}
		select {
		case <-tick.C:
		case <-over.C:
			return left, nil
		case <-ctx.Done():
			return left, ctx.Err()
		}
	}
}

// recorded is the process id in one of PostgreSQL's lock files, 0 if there is none.
func (p *place) recorded(name string) int {
	text, err := os.ReadFile(filepath.Join(p.pg, name))
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
