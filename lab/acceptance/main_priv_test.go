package acceptance

import (
	"fmt"
	"os"
	"testing"

	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/topo"
	"roam/lab/workload"
)

// binaries are the programs under test, built once.
var binaries node.Binaries

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workload.AgentArg {
		os.Exit(agentMain(os.Args[2:]))
	}
	os.Exit(runAll(m))
}

// agents are the probes that only this package needs.
var agents = map[string]func(args []string) error{
	"inject": func([]string) error { return injectMain(os.Stdin) },
	"talk":   talkMain,
	"echo":   echoMain,
	"ledger": ledgerMain,
	"slow":   slowMain,
	"spray":  sprayMain,
	"ask":    askMain,
	"burst":  burstMain,
	"sink":   sinkMain, "advertise": advertiseMain, "veths": vethsMain,
}

// agentMain runs a probe inside a host.
func agentMain(args []string) int {
	if len(args) == 0 || agents[args[0]] == nil {
		return workload.AgentMain(args)
	}
	if err := agents[args[0]](args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		return 1
	}
	return 0
}

// binariesEnv names a directory with roam and roamd to test in place of what
// the sources give: where there is no Go, or for those of a package.
const binariesEnv = "ROAM_BINARIES"

// scratch is a directory of this run, which goes with it.
var scratch string

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
	scratch = dir
	defer os.RemoveAll(dir)
	if dir := os.Getenv(binariesEnv); dir != "" {
		binaries = node.In(dir)
		return m.Run()
	}
	// Other accounts run them too, in tests of the messages for other accounts.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if binaries, err = node.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// needs names what every test here needs.
func needs(t testing.TB, tools ...string) {
	t.Helper()
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "/dev/net/tun"} {
		testutil.Need(t, what)
	}
	for _, tool := range append([]string{"radvd", "ip"}, tools...) {
		testutil.Need(t, tool)
	}
}
