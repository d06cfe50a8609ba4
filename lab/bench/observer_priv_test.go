package bench

import (
	"runtime"
	"syscall"
	"testing"

	"roam/internal/testutil"
	"roam/lab/linkem"
)

// BenchmarkObserver compares datagrams of 64 bytes a second of a host whose uplink is
// observed, too, with those of the host alone, in pairs A B, B A ... The observer is the
// same daemon's; its links are its uplink or none. The sender's core saturates first.
func BenchmarkObserver(b *testing.B) {
	testutil.NeedKernel(b, "two cores", runtime.NumCPU() > 1)
	w := newWorld(b, 1, linkem.Params{})
	w.startRoam(b, "soft", "net1")
	blast := func(links string) float64 {
		b.Helper()
		o := w.mnOptions
		o.More += "[role]\nrun = [\"host\", \"observer\"]\n[observer]\nlinks = [\"" + links + "\"]\n"
		must(b, w.mnNode.Write(o))
		must(b, w.mnNode.Signal(b.Context(), syscall.SIGTERM))
		must(b, w.mnNode.Start(b.Context()))
		must(b, w.mnNode.WaitActive(b.Context(), "net1"))
		w.blast(b, "cn", 5702) // the session and its neighbours
		r := w.blast(b, "cn", 5703)
		var counts []struct {
			Protocol, Direction string
			Packets             uint64
		}
		must(b, w.mnNode.AskFor(b.Context(), &counts, "observer", "show"))
		observed := uint64(0)
		for _, c := range counts {
			if c.Protocol == "udp" && c.Direction == "out" {
				observed += c.Packets
			}
		}
		if (observed >= uint64(r.Packets)) != (links == "net1") {
			b.Fatalf("observing %s: %d datagrams counted, %d arrived", links, observed, r.Packets)
		}
		return float64(r.Packets) / r.Seconds
	}
	var ratios []float64
	var both, alone float64
	for b.Loop() {
		for n := 0; n < pairsMost; n++ {
			var o, h float64
			if n%2 == 0 {
				o, h = blast("net1"), blast("none")
			} else {
				h, o = blast("none"), blast("net1")
			}
			both, alone = both+o, alone+h
			ratios = append(ratios, o/h)
			if _, half := interval(ratios); n+1 >= pairsLeast && half <= halfWidth {
				break
			}
		}
	}
	mean, half := interval(ratios)
	n := float64(len(ratios))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(mean, "ratio")
	b.ReportMetric(half, "ratio±")
	b.ReportMetric(n, "pairs")
	b.ReportMetric(both/n, "packets/s-observed")
	b.ReportMetric(alone/n, "packets/s-alone")
}
