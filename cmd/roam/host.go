package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// unit is the daemon's name at systemd.
const unit = "roamd.service"

// host is the machine, as the commands see it.
type host interface {
	// Root reports whether this process may change the network.
	Root() bool
	// Systemd reports whether systemd runs and knows the daemon's unit.
	Systemd(ctx context.Context) bool
	// UnitPID returns the process of the daemon's unit; 0: it does not run.
	UnitPID(ctx context.Context) int
	// Systemctl runs a verb on the daemon's unit.
	Systemctl(ctx context.Context, verb string) error
	// Roamd runs the daemon's binary to its end.
	Roamd(ctx context.Context, args ...string) error
	// Program returns the path of another program of Roam: beside this one, or
	// in PATH.
	Program(name string) (string, error)
	// Exec replaces this process with a program.
	Exec(path string, args ...string) error
	// Detach starts the daemon in a new session, with its output appended to a file. The
	// channel receives the daemon's exit.
	Detach(log string, args ...string) (<-chan error, error)
	// Output returns the output of a program; "" if the program does not exist.
	Output(ctx context.Context, name string, args ...string) string
	// Alive reports whether a process exists.
	Alive(pid int) bool
	// Tail returns the last lines of a file; "" if it has none.
	Tail(file string) string
	// Read returns the text of a file; "" if it cannot be read.
	Read(path string) string
	// Free returns the bytes available to files of a directory; false: it does not exist.
	Free(dir string) (uint64, bool)
	// BPF reports whether a directory is one of a bpffs.
	BPF(dir string) bool
	// Lookup queries the system's resolver for the IPv6 addresses of a name.
	Lookup(ctx context.Context, name string) []netip.Addr
	// Until calls done until it returns true or ctx is done.
	Until(ctx context.Context, done func() bool) bool
}

type machine struct{}

func realHost() host { return machine{} }

func (machine) Root() bool { return os.Geteuid() == 0 }

func (machine) Systemd(ctx context.Context) bool {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return false
	}
	return exec.CommandContext(ctx, "systemctl", "cat", "--quiet", unit).Run() == nil
}

func (machine) UnitPID(ctx context.Context) int {
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=MainPID", "--value", unit).Output()
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return 0
	}
	return pid
}

func (machine) Systemctl(ctx context.Context, verb string) error {
	out, err := exec.CommandContext(ctx, "systemctl", verb, unit).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s %s: %w: %s", verb, unit, err, bytes.TrimSpace(out))
	}
	return nil
}

// roamd returns the daemon's binary: the one beside this program, so that all programs are of
// one build; else the one in sbin beside this program's bin, which PATH may not have; else the
// one in PATH.
func roamd() (string, error) {
	if self, err := os.Executable(); err == nil {
		dir := filepath.Dir(self)
		for _, path := range []string{filepath.Join(dir, "roamd"), filepath.Join(dir, "..", "sbin", "roamd")} {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath("roamd")
	if err != nil {
		return "", fmt.Errorf("find roamd beside roam, in its sbin, or in PATH: %w", err)
	}
	return path, nil
}

func (machine) Roamd(ctx context.Context, args ...string) error {
	path, err := roamd()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", path, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func (machine) Detach(log string, args ...string) (<-chan error, error) {
	path, err := roamd()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, fmt.Errorf("make the run directory: %w", err)
	}
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open the daemon's log: %w", err)
	}
	defer f.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = f, f
	// In a new session it receives no signal of the terminal, nor its hangup.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("exit status 0")
		}
		ended <- err
	}()
	return ended, nil
}

func (machine) Output(ctx context.Context, name string, args ...string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		// Firewall programs are not in every account's PATH.
		path = filepath.Join("/usr/sbin", name)
	}
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// Alive asks with signal 0. A process that may not be signalled exists. One that has ended
// and whose parent does not ask for its status, as in containers without init, does not.
func (machine) Alive(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	// The name, in brackets, may have any character.
	state := strings.TrimSpace(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func (machine) Tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

func (machine) Until(ctx context.Context, done func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if done() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
