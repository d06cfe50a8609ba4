package exptest

import (
	"os"
	"testing"

	"roam/internal/testutil"
	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/topo"
)

// Real returns what an experiment measures with on this machine's kernel: the daemons of this tree, and the
// parameters of the preset quick with those of set. The live view goes to the test's output. The test is
// skipped where the kernel or the tools do not suffice.
func Real(t *testing.T, name string, e exp.Experiment, set ...string) *exp.Env {
	t.Helper()
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "/dev/net/tun", "go"} {
		testutil.Need(t, what)
	}
	for tool := range e.Tools {
		testutil.Need(t, tool)
	}
	if err := topo.Sweep(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin, err := node.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &exp.Env{
		Params: Params(t, e.Params, "quick", set...), Preset: "quick", Seed: 1,
		Dir: dir, Pcap: os.Getenv("ROAM_TEST_PCAP"),
		Roam: bin.Roam, Roamd: bin.Roamd, Result: result.New(name), View: live.New(testWriter{t}),
	}
}

// testWriter makes the live view part of the test's output.
type testWriter struct{ t *testing.T }

// Write implements io.Writer.
func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}
