package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/topo"
)

const (
	streamsLeast = 24               // rounds
	streamsFor   = 10 * time.Minute // after which a ratio is as well known as it will be
	backlogCore  = 1                // takes what arrives, and receives; the other one sends
)

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

// BenchmarkTCPGoodput compares bulk TCP between two threads, each on a core of its own, over veth
// pairs and over emulated links. The contenders have connections of a fraction of a second by turns:
// a transfer of seconds differs from the next by more than is to be seen. Both have segments of one
// size and writes of 1 MiB: small ones leave a remainder that Nagle's algorithm holds, or not, as it
// happens. One core handles the backlogs of all devices. What the smaller MTU costs, and what plain
// IPv6 is to itself, are figures of their own.
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
	for _, tool := range []string{"unshare", "mount"} {
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
	toCN := roam.ILV{NID: nidCN, L64: roam.DefaultSessionPrefix}
	contenders := [arms]*stream{
		withRoam:   openStream(b, over, toCN, 5303),
		plainSame:  openStream(b, same, roam.ILVFromAddr(same.cnPlain), 5304),
		plainFull:  openStream(b, full, roam.ILVFromAddr(full.cnPlain), 5305),
		plainAgain: openStream(b, same, roam.ILVFromAddr(same.cnPlain), 5306),
	}
	var m transfers
	for began := time.Now(); time.Since(began) < settledIn; { // what takes the full path is over
		for _, s := range contenders {
			_, _, err := s.transfer(c.slice)
			must(b, err)
		}
	}
	for n, began := 0, time.Now(); n < streamsLeast || time.Since(began) < streamsFor; n++ {
		for i := range contenders {
			k := turn(i, n, len(contenders))
			mbps, cpu, err := contenders[k].transfer(c.slice)
			must(b, err)
			m.add(k, mbps, cpu)
		}
		if n+1 >= streamsLeast && m.settled() {
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
			Raw: map[string][]float64{"ms update": millis(times), "ms echo": millis(echoes)},
			Details: map[string]float64{"ms echo": milli(echo), "ms echo p99": milli(quantile(echoes, 0.99)),
				"ms worst": milli(quantile(times, 1))},
		})
	}
}
