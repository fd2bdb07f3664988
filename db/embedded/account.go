package embedded

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/better-compute/better-compute/fault"
)

// account is the operating system user that PostgreSQL runs as.
type account struct {
	uid, gid int
	name     string
	self     string // the name of the user that this process runs as, who connects
	drop     bool   // this process is root, and PostgreSQL must not be
}

// findAccount says who PostgreSQL runs as: ourselves, or, for root, postgres, else nobody. A directory that exists already keeps its user, so that
// installing a user postgres later does not lock us out of what nobody wrote.
func findAccount(dataDir string) (account, error) {
	self, err := userName(os.Geteuid())
	if err != nil {
		return account{}, fault.Because(fault.InvalidState, err, nil, "the user id %d that this process runs as has no name on this machine, and PostgreSQL needs one: run as a named user", os.Geteuid())
	}
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid(), name: self, self: self}, nil
	}
	var found []account
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.Atoi(u.Uid)
		gid, errG := strconv.Atoi(u.Gid)
		if errU != nil || errG != nil || uid == 0 {
			continue
		}
		found = append(found, account{uid: uid, gid: gid, name: name, self: self, drop: true})
	}
	if len(found) == 0 {
		return account{}, fault.New(fault.InvalidState, nil, "PostgreSQL must not run as root, and this machine has neither a user postgres nor nobody: make one, or run as an ordinary user")
	}
	if info, err := os.Lstat(filepath.Join(dataDir, "pg")); err == nil {
		for _, a := range found {
			if uid, _ := owner(info); uid == a.uid {
				return a, nil
			}
		}
	}
	return found[0], nil
}

// userName is the name of a user id. The lookup of the C library, which knows directories beyond /etc/passwd, is asked through id when ours finds nothing.
func userName(uid int) (string, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err == nil {
		return u.Username, nil
	}
	out, errID := exec.Command("id", "-un", strconv.Itoa(uid)).Output()
	if name := strings.TrimSpace(string(out)); errID == nil && name != "" && name != strconv.Itoa(uid) {
		return name, nil
	}
	return "", err
}

// as makes the command run as the account, in a process group of its own, so that a Ctrl-C meant for us does not stop the database under us,
// and with nothing of our environment, which may hold secrets.
func (a account) as(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/"}
	if cmd.Dir == "" {
		cmd.Dir = "/" // ours may be one that the account cannot enter
	}
	return cmd
}

// give hands a file to the account; without a change of user it is ours already.
func (a account) give(path string) error {
	if !a.drop {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// letRead leaves a file ours and lets the account's group read it.
func (a account) letRead(path string, mode os.FileMode) error {
	if a.drop {
		if err := os.Lchown(path, 0, a.gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

// mayEnter says by the mode bits whether the account gets through a directory.
func (a account) mayEnter(info os.FileInfo) bool {
	uid, gid := owner(info)
	switch {
	case uid == a.uid:
		return info.Mode()&0o100 != 0
	case gid == a.gid:
		return info.Mode()&0o010 != 0
	default:
		return info.Mode()&0o001 != 0
	}
}

func owner(info os.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}
