package bench

import (
	"context"
	"testing"
	"time"

	"roam/lab/linkem"
	"roam/lab/workload"
)

const (
	pairsLeast, pairsMost = 8, 40
	halfWidth             = 0.015
	tcpSeconds            = 2
)

// goodput runs one bulk TCP transfer from MN and returns Mb/s at the receiver
// and the CPU seconds of both ends per gigabyte, as iperf3 accounts for them.
func (w *world) goodput(b *testing.B, target string, port int) (mbps, cpu float64) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	i, err := workload.StartIperf(ctx, w.cn, w.mn, workload.IperfOptions{
		Name: "goodput", Target: target, Port: port, Seconds: tcpSeconds, Interval: 1, CC: "cubic", Affinity: "0,1",
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

// BenchmarkTCPGoodput compares bulk TCP between session addresses with bulk
// TCP between the hosts' own addresses, over veth and one kernel router,
// offloads on, in pairs A B, B A, A B ...
func BenchmarkTCPGoodput(b *testing.B) { goodputRatio(b, newWorld(b, 1, linkem.Params{})) }

// BenchmarkTCPGoodputNonceAlways does the same with a nonce in every segment.
// GSO packets are then cut in software, which over veth no segment of plain
// IPv6 ever is; over a link of 1 Gb/s both are.
func BenchmarkTCPGoodputNonceAlways(b *testing.B) {
	for name, wire := range map[string]linkem.Params{"veth": {}, "1Gbps": {Rate: 1e9}} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, 1, wire)
			w.options = "nonce=always"
			goodputRatio(b, w)
		})
	}
}

func goodputRatio(b *testing.B, w *world) {
	b.Helper()
	w.startRoam(b, "soft", "net1")
	plain := w.cnPlain.String()
	w.goodput(b, plain, 5301) // neighbours resolved, congestion metrics cached
	w.goodput(b, "cn", 5302)
	var ratios, cpus []float64
	var sumRoam, sumPlain float64
	for b.Loop() {
		for n := 0; n < pairsMost; n++ {
			var roam, ipv6, roamCPU, ipv6CPU float64
			if n%2 == 0 {
				roam, roamCPU = w.goodput(b, "cn", 5303)
				ipv6, ipv6CPU = w.goodput(b, plain, 5304)
			} else {
				ipv6, ipv6CPU = w.goodput(b, plain, 5304)
				roam, roamCPU = w.goodput(b, "cn", 5303)
			}
			ratios, cpus = append(ratios, roam/ipv6), append(cpus, roamCPU/ipv6CPU)
			sumRoam, sumPlain = sumRoam+roam, sumPlain+ipv6
			if _, half := interval(ratios); n+1 >= pairsLeast && half <= halfWidth {
				break
			}
		}
	}
	mean, half := interval(ratios)
	cpu, cpuHalf := interval(cpus)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(mean, "ratio")
	b.ReportMetric(half, "ratio±")
	b.ReportMetric(cpu, "cpu-ratio")
	b.ReportMetric(cpuHalf, "cpu-ratio±")
	b.ReportMetric(float64(len(ratios)), "pairs")
	b.ReportMetric(sumRoam/float64(len(ratios)), "Mb/s-roam")
	b.ReportMetric(sumPlain/float64(len(ratios)), "Mb/s-ipv6")
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
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(quantile(echoes, 0.5)), "echo-p50-ms")
	b.ReportMetric(ms(quantile(echoes, 0.99)), "echo-p99-ms")
	b.ReportMetric(ms(quantile(times, 0.5)), "lu-p50-ms")
	b.ReportMetric(ms(quantile(times, 0.99)), "lu-p99-ms")
	b.ReportMetric(ms(quantile(times, 1)), "lu-max-ms")
	b.ReportMetric(float64(len(times)), "exchanges")
}
