package stallmonitor

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
	"roam/lab/result"
)

// burnArg makes the test binary a process that takes a core from everybody else.
const burnArg = "burn-a-core"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == burnArg {
		core, _ := strconv.Atoi(os.Args[2])
		burn(core)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// burn occupies a core as a real-time thread, in bursts that are longer than the limit of the
// lab's stall monitor. It returns when it may not.
func burn(core int) {
	const burst, pause = 50 * time.Millisecond, 100 * time.Millisecond
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(core)
	if unix.SchedSetaffinity(0, &set) != nil || unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0) != nil {
		return
	}
	const some = 1 << 20
	least := spin(some) // as a real-time thread: others would lengthen it
	for range 4 {
		least = min(least, spin(some))
	}
	perBurst := int(float64(burst) / float64(least) * some)
	rest := unix.NsecToTimespec(pause.Nanoseconds())
	for {
		spin(perBurst)
		_ = unix.Nanosleep(&rest, nil)
	}
}

// spin counts without a call, at which the runtime could take the thread off its core, and
// returns how long that took.
func spin(n int) time.Duration {
	x, began := uint64(1), time.Now()
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	runtime.KeepAlive(x)
	return time.Since(began)
}

// A stall belongs to the daemon under test if its process made it, and only then.
func TestPlantedProcess(t *testing.T) {
	testutil.NeedRoot(t)
	for name, c := range map[string]struct {
		program string
		foreign bool // it was not started by the run
		want    result.Owner
	}{
		"the daemon":         {daemonName, false, result.OwnerRoam},
		"a workload":         {"iperf3", false, result.OwnerWorkload},
		"a foreign process":  {"compiler", true, result.OwnerOthers},
		"a daemon elsewhere": {daemonName, true, result.OwnerOthers},
	} {
		t.Run(name, func(t *testing.T) {
			cores := allowedCores()
			core := cores[len(cores)-1]
			plant(t, c.program, core, c.foreign)
			found := map[result.Owner]int{}
			in, hold := io.Pipe()
			limit := time.AfterFunc(20*time.Second, func() { hold.Close() })
			defer limit.Stop()
			watch(in, 20, newSampler(os.Getpid()), func(s result.Stall) {
				if s.Core != core {
					return
				}
				t.Logf("%.0f ms: %s, ran %v", s.Ms, s.Owner, s.RanMs)
				if found[s.Owner]++; found[c.want] == 5 {
					hold.Close()
				}
			})
			if found[c.want] < 5 {
				t.Errorf("owners of the stalls: %v, want 5 of %s", found, c.want)
			}
			if c.want != result.OwnerRoam && found[result.OwnerRoam] > 0 {
				t.Errorf("%d of the stalls are the daemon's", found[result.OwnerRoam])
			}
		})
	}
}

// plant starts a process under a name that takes a core.
func plant(t *testing.T, program string, core int, foreign bool) {
	t.Helper()
	self, err := os.Executable()
	path := filepath.Join(t.TempDir(), program)
	if err == nil {
		err = os.Symlink(self, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	argv := []string{path, burnArg, strconv.Itoa(core)}
	if foreign { // its parent ends, so that another process adopts it
		argv = append([]string{"/bin/sh", "-c", `"$@" >/dev/null 2>&1 & echo $!`, "sh"}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	var said bytes.Buffer
	cmd.Stdout = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !foreign {
		t.Cleanup(func() { cancel(); _ = cmd.Wait() })
		return
	}
	defer cancel()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(said.String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
}
