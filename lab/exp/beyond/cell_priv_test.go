package beyond

import (
	"context"
	"os"
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

// TestBothEndsMove runs one short cell with the real daemons: every connection must live.
// It does not judge times.
func TestBothEndsMove(t *testing.T) {
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
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	env := &exp.Env{
		Params: exptest.Params(t, Experiment.Params, "quick", "cells=both", "udp_rate=100"), Preset: "quick", Seed: 1,
		Dir: dir, Pcap: os.Getenv("ROAM_TEST_PCAP"),
		Roam: bin.Roam, Roamd: bin.Roamd, Result: result.New("beyond"), View: live.New(testWriter{t}),
	}
	if err := run(ctx, env); err != nil {
		t.Fatal(err)
	}
	m := env.Result.Metrics
	if m["both_alive"] != 1 || m["both_daemon_handoffs_done"] < 2 || m["both_daemon_failures"] != 0 {
		t.Errorf("%v", m)
	}
	t.Logf("lost %g of %g, gap of TCP %.0f ms", m["both_lost"], m["both_sent"], m["both_gap_tcp_ms"])
}

// testWriter makes the live view part of the test's output.
type testWriter struct{ t *testing.T }

// Write implements io.Writer.
func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}
