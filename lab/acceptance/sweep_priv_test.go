package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/topo"
)

// TestSweep breaks an experiment off: by Ctrl-C it leaves nothing, and what it
// leaves after kill -9 is gone with the next start.
func TestSweep(t *testing.T) {
	needs(t, "curl", "iperf3", "ssh", "sshd", "nft", "tcpdump")
	t.Parallel()
	t.Run("Ctrl-C", func(t *testing.T) {
		c, ended := labRun(t)
		pid := c.Process.Pid
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		testutil.Eventually(t, patience, func() bool { return isClosed(ended) }, "end of the experiment")
		if list := leftBy(pid); len(list) > 0 {
			t.Errorf("left after Ctrl-C: %v", list)
		}
		if c.ProcessState.Success() {
			t.Error("an experiment that was broken off reports success")
		}
	})
	t.Run("kill -9", func(t *testing.T) {
		c, ended := labRun(t)
		pid := c.Process.Pid
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		testutil.Eventually(t, patience, func() bool { return isClosed(ended) }, "end of the experiment")
		if list := leftBy(pid); len(list) == 0 {
			t.Log("nothing was left: somebody else's start has swept it already")
		}
		next, ended := labRun(t)
		if list := leftBy(pid); len(list) > 0 {
			t.Errorf("left after the next start: %v", list)
		}
		_ = next.Process.Signal(syscall.SIGINT)
		testutil.Eventually(t, patience, func() bool { return isClosed(ended) }, "end of the experiment")
	})
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// labRun starts an experiment and waits until daemons run in its hosts.
func labRun(t *testing.T) (*exec.Cmd, <-chan struct{}) {
	t.Helper()
	program := filepath.Join(filepath.Dir(binaries.Roam), "roam-lab")
	if _, err := os.Stat(program); err != nil {
		if program, err = node.BuildLab(filepath.Dir(program)); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(program, "run", "quickstart", "--preset", "quick")
	c.Dir = t.TempDir()
	// Its own group: what it leaves must not be taken by a signal to ours.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	t.Cleanup(func() { _ = c.Process.Kill(); <-ended; _ = topo.Sweep() })
	testutil.Eventually(t, time.Minute, func() bool {
		sockets, _ := filepath.Glob(fmt.Sprintf("%s/rm%d-*/*/run/control.sock", topo.StateDir, c.Process.Pid))
		return len(sockets) > 0 || isClosed(ended)
	}, "a daemon of the experiment")
	return c, ended
}

// leftBy lists what exists under the id of a process: namespaces, cgroups,
// processes in them, mounts and files.
func leftBy(pid int) (list []string) {
	prefix := fmt.Sprintf("rm%d-", pid)
	for _, pattern := range []string{"/run/netns/", "/sys/fs/cgroup/", "/sys/fs/cgroup/*/", topo.StateDir + "/"} {
		found, _ := filepath.Glob(pattern + prefix + "*")
		list = append(list, found...)
	}
	if _, err := os.Stat(fmt.Sprintf("%s/%d.json", topo.StateDir, pid)); err == nil {
		list = append(list, "its record")
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(mounts), prefix) {
		list = append(list, "mounts")
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, p := range procs {
		b, err := os.ReadFile(p)
		stat, gone := os.ReadFile(filepath.Join(filepath.Dir(p), "stat"))
		// A zombie holds nothing any more; its new parent reaps it.
		if err == nil && gone == nil && strings.Contains(string(b), prefix) && !strings.Contains(string(stat), ") Z ") {
			list = append(list, p)
		}
	}
	return list
}
