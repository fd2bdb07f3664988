package embedded

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent makes the kernel ask the server for a fast shutdown when our thread, and so our process, ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }

// orphans lists the processes of a PostgreSQL at work in our data directory.
func (p *place) orphans() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && p.works(pid) == yes {
			found = append(found, pid)
		}
	}
	return found
}

// stranger says whether a process is for certain none of a PostgreSQL in our directory.
func (p *place) stranger(pid int) bool { return p.works(pid) == no }

type answer int

const (
	no answer = iota
	yes
	unknown
)

// works says whether a process is a postgres of PostgreSQL's user at work in our data directory: every one has it as its working directory, and
// the first one on its command line too, which is all that root sees in a container that took the right to look at others' processes away.
func (p *place) works(pid int) answer {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	info, err := os.Stat(dir)
	if err != nil {
		return no // gone
	}
	if uid, _ := owner(info); uid != p.who.uid {
		return no
	}
	comm, err := os.ReadFile(filepath.Join(dir, "comm"))
	if err != nil || strings.TrimSpace(string(comm)) != "postgres" {
		return no
	}
	if cwd, err := os.Readlink(filepath.Join(dir, "cwd")); err == nil {
		if cwd == p.pg {
			return yes
		}
		return no
	}
	args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err == nil && slices.Contains(strings.Split(string(args), "\x00"), p.pg) {
		return yes
	}
	if err == nil && len(args) == 0 {
		return no // a zombie: dead, only not yet collected
	}
	return unknown
}
