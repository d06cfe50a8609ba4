package beyond

import (
	"context"
	"os"
	"testing"
	"time"

	"roam/lab/exp/exptest"
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
	env := exptest.Real(t, "beyond", Experiment, "cells=both", "udp_rate=100")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, env); err != nil {
		t.Fatal(err)
	}
	m := env.Result.Metrics
	if m["both_alive"] != 1 || m["both_daemon_handoffs_done"] < 2 || m["both_daemon_failures"] != 0 {
		t.Errorf("%v", m)
	}
	t.Logf("lost %g of %g, gap of TCP %.0f ms", m["both_lost"], m["both_sent"], m["both_gap_tcp_ms"])
}
