//go:build unix && !linux

package embedded

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent can promise nothing here: the next start ends what was left over.
func dieWithParent(*syscall.SysProcAttr) {}

// orphans gives the first process of a PostgreSQL at work in our data directory: the one in postmaster.pid, if its command line names a postgres
// and this directory.
func (p *place) orphans() []int {
	pid := p.recorded(pidFile)
	if pid == 0 || !strings.Contains(args(pid), "postgres -D "+p.pg) {
		return nil
	}
	return []int{pid}
}

// stranger says whether a process is for certain none of a PostgreSQL in our directory.
func (p *place) stranger(pid int) bool {
	a := args(pid)
	return a != "" && !strings.Contains(a, "postgres")
}

func args(pid int) string {
	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
