//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"github.com/better-compute/better-compute/fault"
)

// actAsOwner makes a bcd that root started the user who owns the state directory, for good. bcd runs as a user of its own where the machine has one
// for it, and an operator types its commands as root: what they write must be that user's, and needs no more than that user may. Without a state
// directory, or with root's own, nothing changes.
func actAsOwner(stateDir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the state directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 {
		return nil
	}
	uid, gid := int(stat.Uid), int(stat.Gid)
	groups := []int{gid}
	if owner, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		if own, err := strconv.Atoi(owner.Gid); err == nil {
			gid = own
		}
		groups = groupsOf(owner, gid)
	}
	// In this order: who is no longer root can't change groups.
	for _, err := range []error{syscall.Setgroups(groups), syscall.Setgid(gid), syscall.Setuid(uid)} {
		if err != nil {
			return fault.New(fault.InvalidState, nil, "%s belongs to user %d, and bcd can't become that user: %w", stateDir, uid, err)
		}
	}
	return nil
}

func groupsOf(owner *user.User, gid int) []int {
	groups := []int{gid}
	ids, err := owner.GroupIds()
	if err != nil {
		return groups
	}
	for _, text := range ids {
		if id, err := strconv.Atoi(text); err == nil && id != gid {
			groups = append(groups, id)
		}
	}
	return groups
}
