package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/topo"
	"roam/lab/workload"
)

const (
	pairsLeast, pairsMost = 8, 40
	tcpSeconds            = 2
	backlogCore           = 1 // takes what arrives; the other one sends
)

// goodput runs one bulk TCP transfer from MN and returns Mb/s at the receiver
// and the CPU seconds of both ends per gigabyte, as iperf3 accounts for them.
func (w *world) goodput(b *testing.B, target string, port int) (mbps, cpu float64) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	i, err := workload.StartIperf(ctx, w.cn, w.mn, workload.IperfOptions{
		Name: "goodput", Target: target, Port: port, Seconds: tcpSeconds, Interval: 1, Length: bulkWrite, CC: "cubic",
		Affinity: fmt.Sprintf("%d,%d", sendCore, backlogCore),
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

// oneBacklog has one core take packets from the backlogs of all devices (RPS): two cores that
// send into backlogs of their own reorder.
func (w *world) oneBacklog(b *testing.B) {
	b.Helper()
	const script = `mount -t sysfs sysfs /sys || exit 1
for f in /sys/class/net/*/queues/rx-*/rps_cpus; do echo %x >"$f" && [ "$(tr -d 0, <"$f")" = %[1]x ] || exit 1; done`
	for _, h := range []*topo.Host{w.mn, w.r, w.cn} {
		// The files are those of the namespace of whoever mounts them.
		out, err := h.Command(b.Context(), "unshare", "-m", "sh", "-c", fmt.Sprintf(script, 1<<backlogCore)).CombinedOutput()
		if err != nil {
			b.Fatalf("steer packets of %s: %v: %s", h.Name(), err, out)
		}
	}
}

// BenchmarkTCPGoodput compares bulk TCP by iperf3, in pairs A B, B A, A B ..., over veth pairs
// and over emulated links. Both have segments of one size and writes of 1 MiB: small ones leave
// a remainder that Nagle's algorithm holds, or not, as it happens. One core handles the
// backlogs of all devices. What the smaller MTU costs, and what plain IPv6 is to itself, are
// figures of their own.
func BenchmarkTCPGoodput(b *testing.B) {
	for _, c := range goodputs {
		b.Run(c.name, func(b *testing.B) { compareGoodput(b, c) })
	}
}

// compareGoodput has one pair of hosts with Roam and two without, one of them with the MTU of
// sessions.
func compareGoodput(b *testing.B, c goodput) {
	b.Helper()
	build(b)
	for _, tool := range []string{"iperf3", "unshare", "mount"} {
		testutil.Need(b, tool)
	}
	testutil.NeedKernel(b, "two cores", runtime.NumCPU() > backlogCore)
	_, err := os.Stat("/sys/class/net/lo/queues/rx-0/rps_cpus")
	testutil.NeedKernel(b, "receive packet steering (CONFIG_RPS)", err == nil)
	wire := linkem.Params{Rate: c.rate}
	over, same := newNamedWorld(b, "now", 1, wire), newNamedWorld(b, "plain", 1, wire)
	full := newNamedWorld(b, "full", 1, wire)
	over.options = c.options
	over.startRoam(b, "soft", "net1")
	same.shrink(b, over.sessionMTU(b))
	for _, w := range []*world{over, same, full} {
		w.oneBacklog(b)
	}
	arms := [arms]func() (float64, float64){
		withRoam:   func() (float64, float64) { return over.goodput(b, "cn", 5303) },
		plainSame:  func() (float64, float64) { return same.goodput(b, same.cnPlain.String(), 5304) },
		plainFull:  func() (float64, float64) { return full.goodput(b, full.cnPlain.String(), 5305) },
		plainAgain: func() (float64, float64) { return same.goodput(b, same.cnPlain.String(), 5306) },
	}
	var m transfers
	for _, arm := range arms {
		arm() // neighbours resolved, congestion metrics cached
	}
	for n := range pairsMost {
		for i := range arms {
			k := turn(i, n, len(arms))
			mbps, cpu := arms[k]()
			m.add(k, mbps, cpu)
		}
		if n+1 >= pairsLeast && m.settled() {
			break
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, f := range m.figures(c) {
		testutil.Report(b, f)
	}
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
