package runner

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
	"roam/lab/exp"
	"roam/lab/result"
)

// TestExampleRuns runs the example of docs/lab.md twice, with captures that
// other programs can read, and leaves nothing but its output.
func TestExampleRuns(t *testing.T) {
	needLab(t, "tshark")
	p := launch(t, []string{JudgeVariable + "=" + result.Correctness}, "--preset", "quick", "--runs", "2", "--json",
		"r.json", "--report", "r.html", "--pcap", "caught")
	if err := p.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, p.out.String())
	}
	p.gone(t)
	p.says(t, "captures:", "(2 files)", "report:", "the flow ran  ", "published: 10", "example: pass")
	r, err := result.ReadJSON(filepath.Join(p.dir, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Claims[0]; c.Says != "the flow ran" || !c.Pass {
		t.Errorf("claim %+v", c)
	}
	if r.Runs != 2 || len(r.Each) != 2 || r.Each[0].Seed != 1 || r.Each[1].Seed != 2 || len(r.Each[0].Series) == 0 ||
		r.Stats["lost_ms"].N != 2 {
		t.Errorf("runs %d, each %+v, statistics %+v", r.Runs, r.Each, r.Stats)
	}
	if e := r.Emulator; e == nil || e.Sent == 0 || e.Received != e.Sent || e.MedianMs <= 0 {
		t.Errorf("emulator %+v", e)
	}
	if r.Machine.Kernel == "" || r.Machine.Versions["tcpdump"] == "" || r.Machine.Versions["roam"] == "" ||
		r.StallMonitor.Cores == 0 || r.Params["rate"] != 1000.0 {
		t.Errorf("conditions: %+v, %+v, %v", r.Machine, r.StallMonitor, r.Params)
	}
	out, err := exec.Command("tshark", "-r", filepath.Join(p.dir, "caught", "seed-2", "b-eth0.pcap"), "-Y",
		"udp.dstport == 7000").Output()
	if n := strings.Count(string(out), "\n"); err != nil || n < 800 {
		t.Errorf("tshark reads %d datagrams: %v", n, err)
	}
}

// TestInterruptedRunLeavesNothing ends a run by the signals that ask for it.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	needLab(t)
	for _, sig := range []os.Signal{os.Interrupt, unix.SIGTERM} {
		p := launch(t, nil, "--set", "seconds=600", "--json", "r.json")
		p.underWay(t)
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err == nil || p.ProcessState.ExitCode() != 130 {
			t.Errorf("%v: an interrupted run ended with %v", sig, p.ProcessState)
		}
		p.gone(t)
		p.says(t, "was interrupted; what it had built is removed")
		if _, err := os.Stat(filepath.Join(p.dir, "r.json")); err == nil {
			t.Errorf("%v: a run that did not end has a result", sig)
		}
	}
}

// TestKilledRunIsSwept kills a run; the next one removes its remains, and the probes that
// it had started.
func TestKilledRunIsSwept(t *testing.T) {
	needLab(t)
	p := launch(t, nil, "--set", "seconds=600")
	p.underWay(t)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // its error is that it was killed
	if len(p.traces()) == 0 {
		t.Fatal("the test is worth nothing: a killed run left nothing")
	}
	next := launch(t, []string{"TMPDIR=" + p.tmp, JudgeVariable + "=" + result.Correctness}, "--preset", "quick")
	if err := next.Wait(); err != nil {
		t.Errorf("the run after a killed one: %v\n%s", err, next.out.String())
	}
	p.gone(t)
	testutil.Eventually(t, 10*time.Second, func() bool { return len(processesOf(p.tmp)) == 0 },
		"probes of the killed run live on")
}

// processesOf lists the processes that have a path in their command line.
func processesOf(path string) (pids []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range lines {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), path) {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}

// small mounts a file system of some bytes on a directory.
func small(t *testing.T, dir, size string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mount small tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// TestFullDisk fills the disk while an experiment records, and where the result
// is to be written.
func TestFullDisk(t *testing.T) {
	needLab(t)
	t.Run("recording", func(t *testing.T) {
		tmp := t.TempDir()
		small(t, tmp, "64k")
		p := launch(t, []string{"TMPDIR=" + tmp}, "--set", "rate=20000", "--set", "seconds=3", "--json", "r.json")
		if err := p.Wait(); err == nil {
			t.Errorf("status 0:\n%s", p.out.String())
		}
		p.says(t, "no space left on device")
		p.tmp = tmp
		p.gone(t)
	})
	t.Run("capture", func(t *testing.T) {
		dir := t.TempDir()
		small(t, dir, "64k")
		p := launch(t, nil, "--set", "rate=20000", "--set", "seconds=3", "--pcap", dir)
		if err := p.Wait(); err == nil {
			t.Errorf("status 0:\n%s", p.out.String())
		}
		p.says(t, "no space left on device", "packets")
		p.gone(t)
	})
	t.Run("before", func(t *testing.T) {
		dir := t.TempDir()
		small(t, dir, "64k")
		if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 64<<10), 0o644); err != nil {
			t.Fatal(err)
		}
		p := launch(t, nil, "--preset", "quick", "--json", filepath.Join(dir, "r.json"))
		if err := p.Wait(); err == nil {
			t.Errorf("status 0:\n%s", p.out.String())
		}
		p.says(t, "no space left on device")
		p.gone(t)
		if left, _ := filepath.Glob(dir + "/*"); len(left) != 1 {
			t.Errorf("left on the full disk: %v", left)
		}
	})
}

// TestResume interrupts a series of runs and goes on with it.
func TestResume(t *testing.T) {
	needLab(t)
	args := []string{"--preset", "quick", "--runs", "3", "--json", "r.json"}
	p := launch(t, nil, args...)
	kept := func(p *process) int {
		n, _ := filepath.Glob(StateDir() + "/example-*")
		return len(n)
	}
	before := kept(p)
	testutil.Eventually(t, 60*time.Second, func() bool { return kept(p) > before }, "no finished run is kept")
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	p.says(t, "--resume goes on")
	again := launch(t, nil, append(args, "--resume")...)
	_ = again.Wait() // the claims do not matter here
	again.says(t, "run 1 of 3: kept from before", "result:")
	if kept(p) != before {
		t.Error("the kept runs of a series that has ended are still there")
	}
	// Another parameter is another experiment.
	other := launch(t, nil, append(args[:2], "--set", "rate=999", "--resume")...)
	_ = other.Wait()
	if strings.Contains(other.out.String(), "kept from before") {
		t.Error("runs with other parameters were taken for ours")
	}
}

// TestResumeDisturbedCell goes on after the last cell, which the machine had
// disturbed as often as it may: it is reported so, and not measured once more.
func TestResumeDisturbedCell(t *testing.T) {
	needLab(t)
	r := &runner{bin: bin, opt: Options{Engine: exp.Netns, Resume: true, State: t.TempDir()}}
	r.preset.Repeats = 2
	r.exp.Run = func(_ context.Context, env *exp.Env) error {
		_, err := exp.Cell(env, "a", func(*exp.Window) (int, error) { return 0, errors.New("it is measured again") })
		return err
	}
	if err := r.store(0).Save("a", map[string]any{"stall_ms": 30, "value": 1}); err != nil {
		t.Fatal(err)
	}
	res, err := r.run(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if s := res.StallMonitor; !s.Disturbed || !slices.Equal(s.Cells, []string{"a"}) ||
		s.Repeats != 0 || len(s.Stalls) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestRefusals makes mistakes that are reported before anything is built.
func TestRefusals(t *testing.T) {
	needLab(t)
	for _, tt := range []struct{ args, want string }{
		{"--preset fast", `no preset is called "fast"; there are quick, standard, paper`},
		{"--set speed=1", `no parameter is called "speed"; there are`},
		{"--set rate=5", `5 is not within 10 to 20000 1/s`},
		{"--set rate", `not of the form KEY=VALUE`},
		{"--set rate=many", `"many" is not a number`},
		{"--engine sim", `experiment example does not run on engine sim, only on netns`},
		{"--engine dream", `no engine is called "dream"; there are netns, sim, vm`},
		{"--report .", `. is a directory, not a file to write`},
		{"--json /proc/x/r.json", `make directory for output`},
	} {
		p, want := launch(t, nil, strings.Fields(tt.args)...), 2
		if strings.Contains(tt.args, "/proc/") { // the command line is right
			want = 1
		}
		if err := p.Wait(); err == nil || p.ProcessState.ExitCode() != want {
			t.Errorf("%s: %v, want status %d", tt.args, p.ProcessState, want)
		}
		p.says(t, tt.want)
		p.gone(t)
	}
}

// TestWithoutRoot is refused with what to do about it.
func TestWithoutRoot(t *testing.T) {
	needLab(t)
	cmd := exec.Command(filepath.Join(bin, "roam-lab"), "run", "example", "--preset", "quick")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "run it as root") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestMissingKernelFeature hides a device from a run, as a container may.
func TestMissingKernelFeature(t *testing.T) {
	needLab(t, "unshare", "mount")
	out, err := exec.Command("unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/net && exec "+
		filepath.Join(bin, "roam-lab")+" run example").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "takes a kernel with TAP devices") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestMissingProgram names the package that has it.
func TestMissingProgram(t *testing.T) {
	needLab(t)
	r := &runner{bin: bin,
		exp: exp.Experiment{Tools: map[string]string{"no-such-program": "no-such-package", "tcpdump": "tcpdump"}}}
	if err := r.equipped(); err == nil || !strings.Contains(err.Error(), "apt-get install no-such-package") {
		t.Error(err)
	}
	r = &runner{bin: t.TempDir()}
	if err := r.equipped(); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Error(err)
	}
}
