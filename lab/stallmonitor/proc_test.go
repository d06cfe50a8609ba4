package stallmonitor

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/result"
)

// family starts a process with two children: one with the daemon's name, and another one.
// A line makes the former end.
func family(t *testing.T) (root *exec.Cmd, commands io.Writer) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	daemon := filepath.Join(t.TempDir(), daemonName)
	if err := os.WriteFile(daemon, in, 0o755); err != nil {
		t.Fatal(err)
	}
	root = exec.Command("sh", "-c",
		`"$0" 60 & one=$!; sleep 60 & two=$!; read _; kill $one; wait $one; read _; kill $two`, daemon)
	hold, err := root.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = hold.Close() // both reads end, and so do the children
		_ = root.Wait()
	})
	return root, hold
}

// owners counts the processes that a sampler follows.
func owners(s *sampler) map[result.Owner]int {
	n := map[result.Owner]int{}
	for _, p := range s.found {
		n[p.owner]++
		if (p.owner == "") != (len(p.tasks) == 0) {
			n["followed although foreign, or not followed"]++
		}
	}
	return n
}

// The sampler follows the root of a run and its descendants, by name, and nobody else; what ends it forgets.
func TestSamplerFollowsTheRun(t *testing.T) {
	root, commands := family(t)
	s := newSampler(root.Process.Pid)
	testutil.Eventually(t, 10*time.Second, func() bool {
		s.find()
		n := owners(s)
		return n[result.OwnerRoam] == 1 && n[result.OwnerWorkload] == 1
	}, "the daemon and the workload are found")
	n := owners(s)
	if n[result.OwnerEmulator] != 1 || n[""] < 1 || len(n) != 4 || s.found[os.Getpid()].owner != "" ||
		s.found[root.Process.Pid].owner != result.OwnerEmulator {
		t.Errorf("processes by owner: %v", n)
	}
	testutil.Eventually(t, 10*time.Second, func() bool { // the kernel counts once they sleep
		for _, x := range s.read(true).tasks {
			if x.run <= 0 {
				return false
			}
		}
		return true
	}, "each has run")
	for _, cores := range []bool{false, true} {
		now := s.read(cores)
		if len(now.tasks) != 3 || len(now.steal) < 1 || time.Since(now.at) > time.Second {
			t.Errorf("%d threads of 3, %d cores, at %v", len(now.tasks), len(now.steal), now.at)
		}
		for id, x := range now.tasks {
			if known := cores || x.owner == result.OwnerRoam; known == (x.core == unknownCore) || x.run <= 0 {
				t.Errorf("thread %d of %s ran %v on core %d", id, x.owner, x.run, x.core)
			}
		}
	}
	for pid, p := range s.found {
		if p.owner != result.OwnerWorkload {
			continue
		}
		p.owner = result.OwnerEmulator // as before it executed its program
		s.found[pid] = p
		if s.find(); s.found[pid].owner != result.OwnerWorkload {
			t.Errorf("a process of the run is looked at once only: it is of %s", s.found[pid].owner)
		}
		if fresh := (&sampler{root: root.Process.Pid}); !fresh.belongs(pid) || fresh.belongs(os.Getpid()) {
			t.Error("where no process is known, descendants do not belong to the run, or others do")
		}
	}
	if _, err := io.WriteString(commands, "\n"); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 10*time.Second, func() bool { return len(s.read(false).tasks) == 2 }, "its thread is gone")
	if s.find(); owners(s)[result.OwnerRoam] != 0 {
		t.Errorf("an ended process is followed: %v", owners(s))
	}
}

// Nobody is in a run whose root does not exist, and what is no number is no process.
func TestSamplerOfNobody(t *testing.T) {
	s := newSampler(1 << 30)
	if n := owners(s); n[""] < 1 || len(n) != 1 {
		t.Errorf("processes by owner: %v", n)
	}
	if s.belongs(1<<30) != true || s.belongs(1<<29) {
		t.Error("the root does not belong to its run, or somebody unknown does")
	}
	if x := s.read(true); len(x.tasks) > 0 || s.text(nil) != "" {
		t.Errorf("threads of nobody: %v", x.tasks)
	}
	dir := t.TempDir()
	for _, name := range []string{"10", "9", "x", "7x"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if list := numbers(dir); !slices.Equal(list, []int{9, 10}) || numbers(filepath.Join(dir, "none")) != nil {
		t.Errorf("numbers %v", list)
	}
}

// Lines of /proc that lack something are not read.
func TestParseProcBroken(t *testing.T) {
	for _, text := range []string{"", "1", "x 1", "1 x"} {
		if _, _, ok := parseSchedstat(text); ok {
			t.Errorf("%q is a schedstat", text)
		}
	}
	fields := func(parent, core string) string {
		f := "7 (a) S " + parent
		for range 34 {
			f += " 0"
		}
		return f + " " + core
	}
	if _, parent, core, ok := parseTask(fields("5", "3")); !ok || parent != 5 || core != 3 {
		t.Errorf("parent %d, core %d, %v", parent, core, ok)
	}
	for _, text := range []string{"(", ")(", fields("x", "3"), fields("5", "")} {
		if _, _, _, ok := parseTask(text); ok {
			t.Errorf("%q is a stat", text)
		}
	}
	const lines = "cpux 1 1 1 1 1 1 1 9\ncpu1 1 1 1 1 1 1 1 x\ncpu2 1 1 1 1 1 1 1\nabc3 1 1 1 1 1 1 1 9\n"
	if s := parseSteal(lines); len(s) > 0 {
		t.Errorf("stolen %v", s)
	}
}
