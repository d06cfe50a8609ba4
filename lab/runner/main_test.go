package runner

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/workload"
)

// bin is the directory of the binaries, built once.
var bin string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workload.AgentArg {
		os.Exit(workload.AgentMain(os.Args[2:]))
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "roam-runner")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if os.Geteuid() != 0 {
		return m.Run() // tests that need binaries skip by name
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := node.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := node.BuildLab(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	bin = dir
	return m.Run()
}

func needLab(t *testing.T, tools ...string) {
	t.Helper()
	testutil.NeedRoot(t)
	for _, what := range append([]string{"netns", "cgroup2", "ipv6", "/dev/net/tun", "tcpdump"}, tools...) {
		testutil.Need(t, what)
	}
}

// process is a `roam-lab run example` on its way.
type process struct {
	*exec.Cmd
	out bytes.Buffer
	tmp string // its TMPDIR
	dir string // for its output
}

// launch starts it with the given environment besides.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{tmp: t.TempDir(), dir: t.TempDir()}
	p.Cmd = exec.Command(filepath.Join(bin, "roam-lab"), append([]string{"run", "example"}, args...)...)
	p.Env = append(append(os.Environ(), "TMPDIR="+p.tmp), env...)
	p.Stdout, p.Stderr = &p.out, &p.out
	p.Dir = p.dir
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may have ended
		_ = p.Wait()
	})
	return p
}

// traces lists what of a process is on the machine: namespaces, cgroups, files,
// records.
func (p *process) traces() (found []string) {
	id := fmt.Sprintf("rm%d-", p.Process.Pid)
	for _, pattern := range []string{"/run/netns/" + id + "*", "/sys/fs/cgroup/" + id + "*", "/run/roam-lab/" + id + "*",
		fmt.Sprintf("/run/roam-lab/%d.json", p.Process.Pid), p.tmp + "/*"} {
		paths, _ := filepath.Glob(pattern)
		found = append(found, paths...)
	}
	return found
}

// underWay waits until the experiment has built its topology and its flow runs.
func (p *process) underWay(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, 30*time.Second, func() bool {
		logs, _ := filepath.Glob(p.tmp + "/*/udp-cn.rx")
		return len(logs) > 0 && len(p.traces()) > 3
	}, "the experiment does not begin")
}

// gone fails the test if anything of the process is left.
func (p *process) gone(t *testing.T) {
	t.Helper()
	if left := p.traces(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// says fails the test unless the output holds all words.
func (p *process) says(t *testing.T, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(p.out.String(), w) {
			t.Errorf("the output lacks %q:\n%s", w, p.out.String())
		}
	}
}
