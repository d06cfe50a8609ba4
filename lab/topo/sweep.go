package topo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// StateDir holds a record of every process that has a lab, PID.json, and the
// files of its hosts.
const StateDir = "/run/roam-lab"

// prefix begins the names of all namespaces, cgroups and directories; the process id
// follows.
const prefix = "rm"

// ownedRE finds the owner in a name.
var ownedRE = regexp.MustCompile(`^` + prefix + `([0-9]+)-`)

// state is the record of a process. The start time distinguishes it from a later process
// with the same id.
type state struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, proc_pid_stat(5) field 22
}

// labs are the open labs of this process.
var labs struct {
	sync.Mutex
	open   []*Lab
	ending bool // no more of them
}

// register records this process when it creates its first lab, before the first namespace,
// so that every object has a known owner.
func register(l *Lab) error {
	labs.Lock()
	defer labs.Unlock()
	if labs.ending {
		return fmt.Errorf("start lab %s: %w", l.name, errClosed)
	}
	if len(labs.open) == 0 {
		if err := writeRecord(os.Getpid()); err != nil {
			return fmt.Errorf("record own process: %w", err)
		}
	}
	labs.open = append(labs.open, l)
	return nil
}

// unregister removes the record with the last lab.
func unregister(l *Lab) error {
	labs.Lock()
	defer labs.Unlock()
	labs.open = slices.DeleteFunc(labs.open, func(o *Lab) bool { return o == l })
	if len(labs.open) > 0 {
		return nil
	}
	return os.Remove(statePath(os.Getpid()))
}

// closeAll closes the open labs, for a process that ends. One that another goroutine is
// closing it waits for.
func closeAll() error {
	labs.Lock()
	labs.ending = true
	open := slices.Clone(labs.open)
	labs.Unlock()
	var errs []error
	for _, l := range open {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

func writeRecord(pid int) error {
	start, err := startTime(pid)
	if err != nil {
		return err
	}
	b, err := json.Marshal(state{PID: pid, Start: start})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(StateDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(statePath(pid), b, 0o644)
}

func statePath(pid int) string { return filepath.Join(StateDir, strconv.Itoa(pid)+".json") }

// TempDir makes a directory for large files of a lab. Its maker removes it; if
// that dies before, Sweep does.
func TempDir() (string, error) {
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-files-", prefix, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("make directory for files: %w", err)
	}
	return dir, nil
}

// Sweep removes the remains of labs of dead processes: their processes, namespaces,
// cgroups, mounts and files. Several processes may sweep at once.
func Sweep() error {
	root, err := cgroupRoot()
	if err != nil {
		return err
	}
	alive := map[int]bool{}
	dead := func(pid int) bool {
		if _, ok := alive[pid]; !ok {
			alive[pid] = owns(pid)
		}
		return !alive[pid]
	}
	var errs []error
	namespaces, groups := owned(netnsDir, dead), owned(root, dead)
	// As in Close: first all processes, then the objects that they use.
	for _, name := range groups {
		errs = append(errs, killCgroup(filepath.Join(root, name), killWithin))
	}
	for _, name := range namespaces {
		errs = append(errs, killInNetns(name))
	}
	for _, dir := range []string{StateDir, os.TempDir()} {
		for _, name := range owned(dir, dead) {
			errs = append(errs, removeFiles(filepath.Join(dir, name)))
		}
	}
	for _, name := range namespaces {
		errs = append(errs, removeNetns(name))
	}
	for _, name := range groups {
		errs = append(errs, removeCgroup(filepath.Join(root, name), killWithin))
	}
	return errors.Join(append(errs, sweepRecords(dead))...)
}

// sweepRecords removes the records last: while they exist, a new process with the same id
// is not mistaken for the owner.
func sweepRecords(dead func(int) bool) error {
	entries, _ := os.ReadDir(StateDir)
	var errs []error
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".json")
		pid, err := strconv.Atoi(base)
		if !ok || err != nil || !dead(pid) {
			continue
		}
		if err := os.Remove(statePath(pid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove record: %w", err))
		}
	}
	return errors.Join(errs...)
}

// owned lists the entries of a directory whose names contain the id of a dead process.
func owned(dir string, dead func(int) bool) (names []string) {
	entries, _ := os.ReadDir(dir) // a missing directory has none
	for _, e := range entries {
		m := ownedRE.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		if pid, err := strconv.Atoi(m[1]); err == nil && dead(pid) {
			names = append(names, e.Name())
		}
	}
	return names
}

// owns reports whether the owner of objects with this id still lives. Without a readable
// record any process with that id counts: leaving remains is better than removing the
// objects of a live process.
func owns(pid int) bool {
	now, err := startTime(pid)
	if err != nil {
		return false
	}
	var s state
	b, err := os.ReadFile(statePath(pid))
	if err != nil || json.Unmarshal(b, &s) != nil {
		return true
	}
	return s.Start == now
}

// startTime returns the start time of a process; it fails if there is none.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStart(string(b))
}

// parseStart finds field 22 of proc_pid_stat(5). It counts from the last parenthesis, since
// the second field, the program's name in parentheses, may contain any character.
func parseStart(stat string) (uint64, error) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const skip = 22 - 3 // field 3 follows the name
	if len(f) <= skip {
		return 0, errors.New("short stat line")
	}
	return strconv.ParseUint(f[skip], 10, 64)
}

// allPids lists the processes of the machine.
func allPids() (pids []int) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// removeFiles unmounts everything below a directory, the newest mounts first, and removes
// the directory. Daemons mount a bpffs there whose pins hold programs and maps.
func removeFiles(dir string) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	for _, m := range slices.Backward(mountsBelow(string(b), dir)) {
		if err := unix.Unmount(m, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", m, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove files: %w", err)
	}
	return nil
}

// mountsBelow lists the mount points below dir in the order of the table.
func mountsBelow(mountinfo, dir string) (points []string) {
	for line := range strings.Lines(mountinfo) {
		if f := strings.Fields(line); len(f) >= 5 && strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	return points
}
