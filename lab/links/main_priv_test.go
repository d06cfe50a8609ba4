package links

import (
	"fmt"
	"os"
	"testing"

	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/topo"
	"roam/lab/workload"
)

// binaries are those under test, built once.
var binaries node.Binaries

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workload.AgentArg {
		os.Exit(workload.AgentMain(os.Args[2:]))
	}
	os.Exit(runAll(m))
}

// runAll builds the binaries where the tests can run at all. Left-overs of an
// earlier run that was killed go first.
func runAll(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run() // every test skips by name
	}
	defer topo.CloseOnSignal()()
	if err := topo.Sweep(); err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		return 1
	}
	dir, err := topo.TempDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binaries, err = node.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// needs names what every test here needs.
func needs(t testing.TB) {
	t.Helper()
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "/dev/net/tun", "ip"} {
		testutil.Need(t, what)
	}
}
