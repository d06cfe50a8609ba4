package hostile

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/result"
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
	claims, err := result.ParseExpect(Experiment.Expect)
	if err != nil {
		t.Fatal(err)
	}
	env := exptest.Real(t, "hostile-paths", Experiment, "networks=firewall,oneway", "attacker=false")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
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
