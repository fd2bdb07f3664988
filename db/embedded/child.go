package embedded

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// child is the running server process.
type child struct {
	cmd   *exec.Cmd
	tail  *tail
	done  chan struct{}
	err   error // of Wait; read after done
	asked bool  // end was called; guarded by mu
	mu    sync.Mutex
}

// startChild starts the server. On Linux the kernel ends it with us; that promise is tied to the thread that forks, so one goroutine keeps its
// thread for as long as the server runs.
func startChild(cmd *exec.Cmd, log *slog.Logger) (*child, error) {
	c := &child{cmd: cmd, tail: &tail{log: log}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.tail, c.tail
	cmd.WaitDelay = 500 * time.Millisecond // a server process that outlives the first one must not hold up the news that this one is gone
	dieWithParent(cmd.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// patience is how long those who just hung up have to be gone. Without it the server takes them for connections that it must cut, and says so.
const patience = 500 * time.Millisecond

// end asks for a shutdown when all connections are gone, soon for a fast one, then for one without a checkpoint, then ends the first process,
// whose others follow it.
func (c *child) end(ctx context.Context) {
	c.mu.Lock()
	c.asked = true
	c.mu.Unlock()
	soon, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended already
	hungUp := time.NewTimer(patience)
	defer hungUp.Stop()
	select {
	case <-c.done:
		return
	case <-soon.Done():
	case <-hungUp.C:
	}
	_ = c.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-c.done:
		return
	case <-soon.Done():
	}
	for _, sig := range []os.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		_ = c.cmd.Process.Signal(sig)
		bound := time.NewTimer(killBound)
		select {
		case <-c.done:
			bound.Stop()
			return
		case <-bound.C:
		}
	}
}

// fault says how the server ended, nil if it was asked to. Only after done.
func (c *child) fault() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked {
		return nil
	}
	said := c.tail.last()
	if said == "" {
		said = "it said nothing"
	}
	return fault.Because(fault.Unavailable, c.err, nil, "PostgreSQL ended by itself (%s): %s", c.cmd.ProcessState, said)
}

// tail takes what the server says, passes it to the log line by line and remembers the last one.
type tail struct {
	log  *slog.Logger
	mu   sync.Mutex
	part []byte
	said string
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.part = append(t.part, b...)
	for {
		i := bytes.IndexByte(t.part, '\n')
		if i < 0 {
			break
		}
		t.line(strings.TrimSpace(string(t.part[:i])))
		t.part = t.part[i+1:]
	}
	if len(t.part) > 64<<10 { // no line is this long; do not hoard it
		t.part = nil
	}
	return len(b), nil
}

func (t *tail) line(s string) {
	level, text, ok := strings.Cut(s, ":  ")
	switch {
	case s == "":
		return
	case ok && (level == "FATAL" || level == "PANIC"):
		if strings.HasSuffix(text, " contains errors") && t.said != "" {
			text = t.said + "; " + text // the line before says which
		}
		// What a client hears that comes too early or too late; and one that hung up just when it was to be notified.
		if strings.HasPrefix(text, "the database system is ") || text == "connection to client lost" {
			t.log.Debug("PostgreSQL says", "level", level, "text", text)
			return
		}
		t.said = text
		if level == "PANIC" {
			t.log.Error("PostgreSQL says", "level", level, "text", text)
			return
		}
		t.log.Warn("PostgreSQL says", "level", level, "text", text) // fatal for one connection; if for all, the fault says so
	case ok && (level == "HINT" || level == "DETAIL"):
		t.log.Debug("PostgreSQL says", "level", level, "text", text)
	default:
		if level == "LOG" {
			t.said = text
		}
		t.log.Debug("PostgreSQL says", "level", level, "text", text)
	}
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said
}
