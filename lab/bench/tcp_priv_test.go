package bench

import (
	"context"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/workload"
)

const (
	pairsLeast, pairsMost = 8, 40
	halfWidth             = testutil.HalfWidth
	tcpSeconds            = 2
)

// goodput runs one bulk TCP transfer from MN and returns Mb/s at the receiver
// and the CPU seconds of both ends per gigabyte, as iperf3 accounts for them.
func (w *world) goodput(b *testing.B, target string, port int) (mbps, cpu float64) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	i, err := workload.StartIperf(ctx, w.cn, w.mn, workload.IperfOptions{
		Name: "goodput", Target: target, Port: port, Seconds: tcpSeconds, Interval: 1, Length: bulkWrite, CC: "cubic",
		Affinity: "0,1",
	})
	if err != nil {
		b.Fatal(err)
	}
	r, err := i.Wait(ctx)
	if err != nil {
		b.Fatal(err)
	}
	return r.Mbps, (r.HostCPU + r.RemoteCPU) / 100 * tcpSeconds / (r.Bytes / 1e9)
}

// BenchmarkTCPGoodput compares bulk TCP over emulated links, by iperf3, in pairs A B, B A,
// A B ... Both have segments of one size and writes of 1 MiB: small ones leave a remainder
// that Nagle's algorithm holds, or not, as it happens. What the smaller MTU costs, and what
// plain IPv6 is to itself, are figures of their own. Without an emulated link two sending
// cores reorder; TCPPackets/bulk measures that case on one.
func BenchmarkTCPGoodput(b *testing.B) {
	for _, c := range []struct {
		name  string
		rate  float64
		bound float64
		setting
	}{
		{"1Gbps", 1e9, 0.98, setting{}},
		{"10Gbps", 10e9, 0.98, setting{}},
		{"1Gbps-nonce-always", 1e9, 0.60, setting{options: "nonce=always"}},
	} {
		b.Run(c.name, func(b *testing.B) { goodputRatio(b, "TCPGoodput/"+c.name, c.rate, c.bound, c.setting) })
	}
}

// goodputRatio has one pair of hosts with Roam and two without, one of them with the MTU of
// sessions.
func goodputRatio(b *testing.B, figure string, rate, bound float64, s setting) {
	b.Helper()
	build(b)
	wire := linkem.Params{Rate: int64(rate)}
	over, same := newNamedWorld(b, "now", 1, wire), newNamedWorld(b, "plain", 1, wire)
	full := newNamedWorld(b, "full", 1, wire)
	over.options = s.options
	over.startRoam(b, "soft", "net1")
	same.shrink(b, over.sessionMTU(b))
	arms := []func() (float64, float64){
		func() (float64, float64) { return over.goodput(b, "cn", 5303) },
		func() (float64, float64) { return same.goodput(b, same.cnPlain.String(), 5304) },
		func() (float64, float64) { return full.goodput(b, full.cnPlain.String(), 5305) },
		func() (float64, float64) { return same.goodput(b, same.cnPlain.String(), 5306) },
	}
	rates, cpus := make([][]float64, len(arms)), make([][]float64, len(arms))
	for _, arm := range arms {
		arm() // neighbours resolved, congestion metrics cached
	}
	for n := range pairsMost {
		for i := range arms {
			k := turn(i, n, len(arms))
			mbps, cpu := arms[k]()
			rates[k], cpus[k] = append(rates[k], mbps), append(cpus[k], cpu)
		}
		_, half := meanRatio(rates[0], rates[1])
		_, cpuHalf := meanRatio(cpus[0], cpus[1])
		if n+1 >= pairsLeast && half <= halfWidth && cpuHalf <= halfWidth {
			break
		}
	}
	b.ReportMetric(0, "ns/op")
	mbps := func(i int) float64 { m, _ := testutil.Interval(rates[i]); return m }
	for _, f := range []struct {
		figure      testutil.Figure
		over, under []float64
	}{
		{testutil.Figure{Name: figure, Says: "bulk TCP at the same MTU, Roam / plain IPv6", Op: ">=", Bound: bound,
			Details: map[string]float64{"Mb/s Roam": mbps(0), "Mb/s plain": mbps(1)}}, rates[0], rates[1]},
		{testutil.Figure{Name: figure + "/cpu", Says: "its processor time per byte, Roam / plain IPv6"},
			cpus[0], cpus[1]},
		{testutil.Figure{Name: figure + "/itself", Says: "plain IPv6 / itself"}, rates[3], rates[1]},
		{testutil.Figure{Name: figure + "/mtu", Says: "plain IPv6 at the MTU of sessions / at the link's"},
			rates[1], rates[2]},
	} {
		f.figure.Value, f.figure.Half = meanRatio(f.over, f.under)
		f.figure.Rounds = len(f.over)
		testutil.Report(b, f.figure)
	}
}

// meanRatio is the mean of the quotients, pair by pair.
func meanRatio(over, under []float64) (mean, half float64) {
	ratios := make([]float64, len(over))
	for i := range over {
		ratios[i] = over[i] / under[i]
	}
	return testutil.Interval(ratios)
}

// exchanges is how many Locator Update exchanges are judged.
const exchanges = 200

// BenchmarkLocatorUpdate measures from the sending of a Locator Update to its
// acknowledgement, as the daemon tells it, against echoes between the hosts'
// own addresses on the same path: 10 ms each way. Every change of the set is
// one exchange.
func BenchmarkLocatorUpdate(b *testing.B) {
	w := newWorld(b, 2, linkem.Params{Delay: 10 * time.Millisecond})
	w.startRoam(b, "duality", "net1", "net2")
	w.ping(b, "cn", 1)
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	acked := make(chan time.Duration, 4096)
	if err := w.mnNode.Monitor(ctx, onAck(acked)); err != nil {
		b.Fatal(err)
	}
	var times, echoes []time.Duration
	for b.Loop() {
		for n := 0; len(times) < exchanges; n++ {
			if n%20 == 0 {
				echoes = append(echoes, w.ping(b, w.cnPlain.String(), exchanges/10+1)[1:]...)
			}
			verb := []string{"disable", "enable"}[n%2]
			if _, err := w.mnNode.Ask(ctx, "locator", verb, "net2"); err != nil {
				b.Fatal(err)
			}
			select {
			case d := <-acked:
				times = append(times, d)
			case <-ctx.Done():
				b.Fatalf("%d of %d Locator Updates were acknowledged", len(times), exchanges)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	echo := quantile(echoes, 0.5)
	for _, q := range []struct {
		name  string
		q     float64
		bound float64
	}{{"median", 0.5, 2}, {"p99", 0.99, 7}} {
		testutil.Report(b, testutil.Figure{
			Name: "LocatorUpdate/" + q.name, Says: "update to acknowledgement, " + q.name + ", beyond the median echo on its path",
			Unit: "ms", Op: "<=", Bound: q.bound, Value: milli(quantile(times, q.q) - echo), Rounds: len(times),
			Details: map[string]float64{"ms echo": milli(echo), "ms echo p99": milli(quantile(echoes, 0.99)),
				"ms worst": milli(quantile(times, 1))},
		})
	}
}
