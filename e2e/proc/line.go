package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Line is a command line that was typed: the program as a process of its own, with what it says in each stream.
type Line struct {
	t              testing.TB
	args           []string
	stdout, stderr words
	ended          chan struct{}
	exit           int
}

// Type starts the program with these arguments and this standard input. Its settings are those of env alone, and a home without a config file. What runs at
// the test's end is killed.
func Type(t testing.TB, env []string, stdin string, args ...string) *Line {
	t.Helper()
	binary, err := build()
	require.NoError(t, err)
	l := &Line{t: t, args: args, ended: make(chan struct{})}
	cmd := exec.Command(binary, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &l.stdout, &l.stderr
	require.NoError(t, cmd.Start())
	go func() {
		defer close(l.ended)
		if failed, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok {
			l.exit = failed.ExitCode()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-l.ended
	})
	return l
}

// Ends waits until it has ended, with that exit.
func (l *Line) Ends(exit int) *Line {
	l.t.Helper()
	select {
	case <-l.ended:
	case <-time.After(time.Minute):
		require.Fail(l.t, "it does not end", "%s\n%s\n%s", strings.Join(l.args, " "), l.Stdout(), l.Stderr())
	}
	require.Equal(l.t, exit, l.exit, "%s\n%s\n%s", strings.Join(l.args, " "), l.Stdout(), l.Stderr())
	return l
}

// Says waits until it has written the text on stderr.
func (l *Line) Says(text string) {
	l.t.Helper()
	l.until(func() bool { return l.stderr.count(text) > 0 }, text)
}

// Prints waits until so many lines stand on stdout.
func (l *Line) Prints(lines int) {
	l.t.Helper()
	l.until(func() bool { return l.stdout.count("\n") >= lines }, fmt.Sprintf("%d lines", lines))
}

// until waits for what it writes; once it has ended nothing more will come.
func (l *Line) until(holds func() bool, what string) {
	l.t.Helper()
	over := func() bool {
		select {
		case <-l.ended:
			return true
		default:
			return false
		}
	}
	for end := time.Now().Add(time.Minute); ; {
		ended := over()
		if holds() {
			return
		}
		if ended || time.Now().After(end) {
			require.Fail(l.t, "it does not write "+what, "ended: %t\n%s\n%s\n%s", ended, strings.Join(l.args, " "), l.Stdout(), l.Stderr())
		}
		select {
		case <-l.ended:
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Stdout is what it has written there so far.
func (l *Line) Stdout() string { return l.stdout.last(1 << 30) }

// Stderr is what it has written there so far.
func (l *Line) Stderr() string { return l.stderr.last(1 << 30) }

// Lines are those of its stdout.
func (l *Line) Lines() []string {
	text := strings.TrimSuffix(l.Stdout(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
