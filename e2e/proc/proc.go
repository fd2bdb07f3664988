// Package proc runs the built program as real processes for whole-system tests, kills and pauses them, and speaks to them by their public API.
package proc

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "better-compute-e2e-*")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "better-compute")
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/better-compute")
	cmd.Dir = strings.TrimSpace(string(root))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w: %s", err, out)
	}
	return binary, nil
})

// Main runs a package's tests and removes what was built for them.
func Main(m *testing.M) int {
	code := m.Run()
	if binary, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	return code
}

// Process is the program with its arguments, which can be started again and again.
type Process struct {
	// Name is for what is said about it.
	Name string
	// Args are the program's.
	Args []string

	t       testing.TB
	log     words
	mu      sync.Mutex
	running *exec.Cmd
	ended   chan struct{}
}

// New names a process; Start runs it. What runs at the test's end is killed.
func New(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	p := &Process{Name: name, Args: args, t: t}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the last of %s:\n%s", name, p.log.last(4000))
		}
	})
	return p
}

// Start runs it.
func (p *Process) Start() {
	p.t.Helper()
	binary, err := build()
	require.NoError(p.t, err)
	cmd := exec.Command(binary, p.Args...)
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.Env = append(os.Environ(), "GOTRACEBACK=all")
	require.NoError(p.t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.ended = cmd, ended
}

// Signal sends a signal to it.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		require.NoError(p.t, p.running.Process.Signal(s))
	}
}

// Kill ends it by SIGKILL, also a paused one, and waits until it is gone.
func (p *Process) Kill() {
	p.mu.Lock()
	running, ended := p.running, p.ended
	p.running = nil
	p.mu.Unlock()
	if running == nil {
		return
	}
	_ = running.Process.Kill()
	<-ended
}

// Stop ends it by SIGTERM and waits until it has; it must within 15 s and with exit code 0.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	p.mu.Lock()
	running, ended := p.running, p.ended
	p.running = nil
	p.mu.Unlock()
	select {
	case <-ended:
		require.Zero(p.t, running.ProcessState.ExitCode(), p.Name)
	case <-time.After(15 * time.Second):
		_ = running.Process.Kill()
		<-ended
		require.Fail(p.t, "SIGTERM did not end "+p.Name)
	}
}

// PID is the running process's.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running.Process.Pid
}

// Says waits until it has written the text as often as that since it was made.
func (p *Process) Says(text string, times int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.log.count(text) >= times }, time.Minute, 20*time.Millisecond, "%s must say %q: %s", p.Name, text, p.log.last(2000))
}

// Log is all that it has written.
func (p *Process) Log() string { return p.log.last(1 << 30) }

// RSS gives its resident memory in bytes.
func (p *Process) RSS() int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID()))
	require.NoError(p.t, err)
	var total, resident int64
	_, err = fmt.Sscan(string(text), &total, &resident)
	require.NoError(p.t, err)
	return resident * int64(os.Getpagesize())
}

// Free gives an address of the loopback that nobody listens on now.
func Free(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.WithoutCancel(t.Context()), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// words keeps what a process writes.
type words struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *words) count(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Count(w.b.Bytes(), []byte(text))
}

func (w *words) last(n int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.b.Bytes()
	return string(b[max(len(b)-n, 0):])
}
