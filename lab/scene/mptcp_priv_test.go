package scene

import (
	"context"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/live"
	"roam/lab/workload"
)

// TestMPTCPMoves: an unmodified program that was opted in uses what is attached,
// and lives through the loss of the link that it began on, and of the next.
func TestMPTCPMoves(t *testing.T) {
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "mptcpize"} {
		testutil.Need(t, what)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	link := Symmetric(linkem.Params{Rate: 50e6})
	env := &exp.Env{View: &live.View{}, Dir: t.TempDir()}
	s, err := Build(ctx, env, Config{
		Name:   "mptcp",
		Arm:    arm.MPTCP,
		Seed:   1,
		Mobile: []Access{link, link},
		Advert: RA{Min: 150 * time.Millisecond, Max: 300 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	test, err := workload.StartIperf(ctx, s.Peer(0).Host, s.Mobile().Host, workload.IperfOptions{
		Name: "iperf3", Target: "cn1", Port: 5201, Mbps: 5, Length: 1000, Seconds: 10, Wrap: arm.MPTCP.Wrap(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer test.Kill()
	plan := Schedule{Length: 8 * time.Second}
	last := plan.Soft(time.Second, 2, 3*time.Second, 2*time.Second, "net1", "net2")
	tr, err := s.Run(ctx, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := test.Wait(ctx)
	if err != nil {
		t.Fatalf("iperf3 did not live: %v (%+v)", err, r)
	}
	if out, _ := tr.Shares(tr.At(6500*time.Millisecond), tr.End); out[last] < 99 {
		t.Errorf("when only %s was left: %v", last, out)
	}
}
