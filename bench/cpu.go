package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuOf gives the CPU clock of a process: what all its threads have used, to the nanosecond as the scheduler counts it. A thread that has ended takes
// its part with it; Go's runtime keeps its threads.
func cpuOf(pid int) func() time.Duration {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	return func() time.Duration {
		threads, err := os.ReadDir(dir)
		if err != nil {
			return 0
		}
		var sum time.Duration
		for _, t := range threads {
			b, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
			if err != nil {
				continue
			}
			first, _, _ := strings.Cut(string(b), " ")
			ns, err := strconv.ParseInt(first, 10, 64)
			if err == nil {
				sum += time.Duration(ns)
			}
		}
		return sum
	}
}

// ownCPU is the CPU clock of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memoryOf gives the resident memory of a process in bytes.
func memoryOf(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm has %d fields", pid, len(fields))
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()), err
}
