package topo

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
	"roam/lab/linkem"
)

// victimEnv makes the test program a process that has a lab and waits to be
// ended.
const victimEnv = "ROAM_TOPO_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		if err := victim(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// victim builds two labs, one with all that a lab can leave behind, says so and
// blocks.
func victim() error {
	l, err := New("victim")
	if err != nil {
		return err
	}
	defer CloseOnSignal()()
	more, err := New("victimtoo")
	if err != nil {
		return err
	}
	if _, err := more.Host("a"); err != nil {
		return err
	}
	a, err := l.Host("a")
	if err != nil {
		return err
	}
	b, err := l.Host("b")
	if err != nil {
		return err
	}
	if _, err := l.Link(a, "eth0", b, "eth0", linkem.Params{Delay: time.Millisecond}); err != nil {
		return err
	}
	mnt := filepath.Join(a.Dir(), "mnt")
	if err := os.Mkdir(mnt, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("roam-test", mnt, "tmpfs", 0, ""); err != nil {
		return err
	}
	// A daemon: it is no child of ours, so it survives us.
	c := a.Command(context.Background(), "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
	out, err := c.Output()
	if err != nil {
		return err
	}
	fmt.Println("ready", strings.TrimSpace(string(out)))
	select {}
}

// startVictim returns the running victim and the process id of its daemon.
func startVictim(t *testing.T) (c *exec.Cmd, daemon int) {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "cgroup2")
	testutil.Need(t, "/dev/net/tun")
	exe, err := os.Executable()
	must(t, err)
	c = exec.Command(exe)
	c.Env = append(os.Environ(), victimEnv+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	must(t, err, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	word, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
	if daemon, err = strconv.Atoi(pid); word != "ready" || err != nil {
		t.Fatalf("victim says %q", line)
	}
	return c, daemon
}

func nameOf(c *exec.Cmd) string { return fmt.Sprintf("%s%d-victim", prefix, c.Process.Pid) }

func TestSweepAfterKill(t *testing.T) {
	mine := newLab(t)
	host := newHostT(t, mine, "a")
	c, daemon := startVictim(t)
	name := nameOf(c)
	must(t, Sweep())
	// Per host a namespace and a cgroup, and a directory for each lab.
	if got := leftovers(t, name); len(got) != 8 {
		t.Fatalf("a living process has %v", got)
	}
	files := filepath.Join(os.TempDir(), fmt.Sprintf("%s%d-files-x", prefix, c.Process.Pid))
	must(t, os.Mkdir(files, 0o700))
	must(t, c.Process.Kill())
	_ = c.Wait()
	if _, err := startTime(daemon); err != nil {
		t.Fatal("the daemon went with its parent: the test shows nothing")
	}
	must(t, Sweep())
	if got := leftovers(t, name); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	if _, err := os.Stat(files); err == nil {
		t.Error("its files are still there")
		os.RemoveAll(files)
	}
	if _, err := startTime(daemon); err == nil && !zombie(daemon) {
		t.Error("the daemon is still there")
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), name) {
		t.Errorf("a mount is still there (%v)", err)
	}
	if _, err := os.Stat(statePath(c.Process.Pid)); err == nil {
		t.Error("the record is still there")
	}
	must(t, host.Command(t.Context(), "true").Run())
}

func TestCloseOnSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c, daemon := startVictim(t)
		must(t, c.Process.Signal(sig))
		_ = c.Wait()
		if got := c.ProcessState.ExitCode(); got != 128+int(sig) {
			t.Errorf("%v: exit status %d", sig, got)
		}
		if got := leftovers(t, nameOf(c)); len(got) != 0 {
			t.Errorf("%v: left behind: %v", sig, got)
		}
		if _, err := startTime(daemon); err == nil && !zombie(daemon) {
			t.Errorf("%v: the daemon is still there", sig)
		}
		if _, err := os.Stat(statePath(c.Process.Pid)); err == nil {
			t.Errorf("%v: the record is still there", sig)
		}
	}
}

// A record with another start time belongs to an earlier process with the same id.
func TestReusedPID(t *testing.T) {
	testutil.NeedRoot(t)
	l := &Lab{}
	must(t, register(l))
	defer func() { must(t, unregister(l)) }()
	pid := os.Getpid()
	if !owns(pid) {
		t.Error("this process does not own what is its own")
	}
	keep, err := os.ReadFile(statePath(pid))
	must(t, err)
	defer func() { must(t, os.WriteFile(statePath(pid), keep, 0o644)) }()
	must(t, os.WriteFile(statePath(pid), []byte(fmt.Sprintf(`{"pid":%d,"start":1}`, pid)), 0o644))
	if owns(pid) {
		t.Error("an earlier process of this id is taken for the present one")
	}
	must(t, os.WriteFile(statePath(pid), []byte("{"), 0o644))
	if !owns(pid) {
		t.Error("a broken record takes a living process its lab")
	}
}
