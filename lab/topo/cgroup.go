package topo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupRoot finds the mount point of cgroup2. On a hybrid system it is not /sys/fs/cgroup,
// so cgroupRoot reads the mount table.
func cgroupRoot() (string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find cgroup2: %w", err)
	}
	if p, ok := findCgroup2(string(b)); ok {
		return p, nil
	}
	return "", errors.New("find cgroup2: it is not mounted")
}

// findCgroup2 returns the mount point of the first cgroup2 file system in a
// mountinfo table (proc_pid_mountinfo(5): field 5 is the mount point, the
// type follows a lone dash).
func findCgroup2(mountinfo string) (string, bool) {
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		if !ok || !strings.HasPrefix(right, "cgroup2 ") {
			continue
		}
		if f := strings.Fields(left); len(f) >= 5 {
			return f[4], true
		}
	}
	return "", false
}

// killCgroup kills every process in the cgroup and below, and waits until none is left. A
// missing cgroup is no error.
func killCgroup(dir string, within time.Duration) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := wait(within, func() bool {
		// Again at each look: where cgroup.kill is missing, a process may
		// have forked between the reading of the list and the kill.
		if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) != nil {
			for _, pid := range cgroupProcs(dir) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		return len(cgroupProcs(dir)) == 0
	})
	if err != nil {
		return fmt.Errorf("kill processes of %s: %w", filepath.Base(dir), err)
	}
	return nil
}

// cgroupProcs lists the processes of a cgroup and of those below it.
func cgroupProcs(dir string) (pids []int) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // it may vanish while we look
		}
		b, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for _, f := range strings.Fields(string(b)) {
			// 0 is a process of an outer pid namespace, which this one cannot kill.
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// removeCgroup removes a cgroup and those below it, deepest first.
func removeCgroup(dir string, within time.Duration) error {
	var last error
	err := wait(within, func() bool {
		var dirs []string
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		last = nil
		for i := len(dirs) - 1; i >= 0; i-- {
			if err := unix.Rmdir(dirs[i]); err != nil && !errors.Is(err, unix.ENOENT) {
				last = err
			}
		}
		return last == nil
	})
	if err != nil {
		return fmt.Errorf("remove cgroup %s: %w", filepath.Base(dir), last)
	}
	return nil
}
