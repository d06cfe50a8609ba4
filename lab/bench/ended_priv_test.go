package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/topo"
)

// victimEnv makes the test program one that has a network and waits to be ended.
const victimEnv = "ROAM_BENCH_VICTIM"

// victim builds a network as benchmarks do, names its process and blocks.
func victim() int {
	lab, err := topo.New("victim")
	if err == nil {
		_, err = lab.Host("mn")
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready", os.Getpid())
	select {}
}

// startVictim runs a victim, as a child of this program or of a shell, and returns the program
// that was started and the victim's process id.
func startVictim(t *testing.T, argv ...string) (c *exec.Cmd, pid int) {
	t.Helper()
	c = exec.Command(argv[0], argv[1:]...)
	c.Env = append(os.Environ(), victimEnv+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, wrong := fmt.Sscanf(line, "ready %d", &pid); err != nil || wrong != nil {
		t.Fatalf("victim says %q, %v", line, err)
	}
	return c, pid
}

// leftBy lists the namespaces, cgroups and files of a process.
func leftBy(pid int) (list []string) {
	for _, dir := range []string{"/run/netns", "/sys/fs/cgroup", "/sys/fs/cgroup/unified", topo.StateDir, os.TempDir()} {
		found, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("rm%d-*", pid))) // the pattern is sound
		list = append(list, found...)
	}
	return list
}

// TestEndedBenchmarksLeaveNothing: benchmarks that a signal ends remove their networks, those whose go
// command has ended as well, and the next ones remove what killed ones have left.
func TestEndedBenchmarksLeaveNothing(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "cgroup2")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c, pid := startVictim(t, exe)
		if len(leftBy(pid)) < 3 {
			t.Fatalf("a living victim has %v", leftBy(pid))
		}
		_ = c.Process.Signal(sig)
		_ = c.Wait()
		if got := networks(leftBy(pid)); len(got) > 0 || c.ProcessState.ExitCode() != 128+int(sig) {
			t.Errorf("%v: status %d, left behind: %v", sig, c.ProcessState.ExitCode(), got)
		}
	}
	c, pid := startVictim(t, "sh", "-c", `"$0" & wait`, exe)
	_ = c.Process.Signal(syscall.SIGTERM)
	_ = c.Wait()
	testutil.Eventually(t, 30*time.Second, func() bool { return len(networks(leftBy(pid))) == 0 },
		"the orphan removes its network")

	c, pid = startVictim(t, exe)
	_ = c.Process.Kill()
	_ = c.Wait()
	if len(leftBy(pid)) < 3 {
		t.Fatalf("a killed victim has left %v: the test shows nothing", leftBy(pid))
	}
	if out, err := exec.Command(exe, "-test.run", "^$").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := leftBy(pid); len(got) > 0 {
		t.Errorf("left behind by a killed victim after the next start: %v", got)
	}
}

// networks are those of the left-overs that are no files for programs, which the next start removes.
func networks(list []string) (some []string) {
	for _, path := range list {
		if !strings.HasPrefix(path, os.TempDir()+"/") {
			some = append(some, path)
		}
	}
	return some
}
