package hostile

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/live"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/topo"
	"roam/lab/workload"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workload.AgentArg {
		os.Exit(workload.AgentMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestCells runs two cells with the real daemons and a kernel that tracks connections: behind a firewall that admits
// only answers, and where a path loses one direction. Their claims of correctness hold; times are not judged.
func TestCells(t *testing.T) {
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "/dev/net/tun", "go"} {
		testutil.Need(t, what)
	}
	for tool := range Experiment.Tools {
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
	claims, err := result.ParseExpect(Experiment.Expect)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	env := &exp.Env{
		Params: exptest.Params(t, Experiment.Params, "quick", "networks=firewall,oneway", "attacker=false"),
		Preset: "quick", Seed: 1, Dir: dir, Pcap: os.Getenv("ROAM_TEST_PCAP"),
		Roam: bin.Roam, Roamd: bin.Roamd, Result: result.New("hostile-paths"), View: live.New(testWriter{t}),
	}
	if err := measure(ctx, env); err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, c := range claims {
		name, _, _ := strings.Cut(c.Metric, "_")
		if name != "firewall" && name != "oneway" || c.Kind != result.Correctness {
			continue
		}
		judged++
		if got, ok := env.Result.Metrics[c.Metric]; !ok || got != c.Bound {
			t.Errorf("%s: %v, measured %t, want %v", c.Says, got, ok, c.Bound)
		}
	}
	if judged != 9 {
		t.Errorf("%d claims judged", judged)
	}
	for _, table := range env.Result.Tables {
		for _, row := range table.Rows {
			t.Logf("%q", row)
		}
	}
}

// testWriter makes the live view part of the test's output.
type testWriter struct{ t *testing.T }

// Write implements io.Writer.
func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}
