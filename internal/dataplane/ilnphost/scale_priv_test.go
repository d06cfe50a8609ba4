package ilnphost

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam/internal/testutil"
)

const (
	scaleRounds = 300
	scaleRun    = 50_000 // packets of a plane in a round
	scaleCore   = 0
)

// BenchmarkScale judges what the programs alone take longer with many sessions than with 100,
// keys in random order. A plane for each number stands beside the others, and they run by
// turns: the figure is the median over the rounds of the difference within a round.
func BenchmarkScale(b *testing.B) {
	for _, d := range []direction{benchedOut, benchedIn} {
		b.Run(d.name, func(b *testing.B) { scale(b, d) })
	}
}

func scale(b *testing.B, d direction) {
	type plane struct {
		alone, with *ebpf.Program
		first       []byte
	}
	planes, times, own := map[int]plane{}, map[int][]float64{}, []float64{}
	for _, n := range sessionCounts {
		alone, with, first := loaded(b, n, d)
		planes[n] = plane{alone, with, first}
	}
	runtime.LockOSThread() // never unlocked: the thread keeps its core
	var set unix.CPUSet
	set.Set(scaleCore)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		b.Fatal(err)
	}
	run := func(prog *ebpf.Program, first []byte, want int32) float64 {
		v, took, err := prog.Benchmark(first, scaleRun, nil)
		if err != nil {
			b.Fatal(err)
		}
		if int32(v) != want {
			b.Fatalf("verdict %d", int32(v))
		}
		return float64(took.Nanoseconds())
	}
	const endOfHarness = -2
	for round := range scaleRounds {
		for i := range sessionCounts {
			n := sessionCounts[(i+round)%len(sessionCounts)]
			times[n] = append(times[n], run(planes[n].with, planes[n].first, d.verdict))
		}
		own = append(own, run(planes[1].alone, planes[1].first, endOfHarness))
	}
	b.ReportMetric(0, "ns/op")
	for n, bound := range map[int]float64{1: 0, 16_000: 60, 100_000: 300} {
		e := testutil.Differences(times[n], times[100])
		f := testutil.Figure{
			Name: fmt.Sprintf("Programs/%s/sessions=%d", d.name, n), Unit: "ns",
			Value: e.Mid, Half: e.Half, Rounds: scaleRounds,
			Says: fmt.Sprintf("the program on the way %s with %d sessions over that with 100, random keys", d.name, n),
			Details: map[string]float64{
				"ns":              testutil.Differences(times[n], own).Mid,
				"ns 100 sessions": testutil.Differences(times[100], own).Mid,
			},
		}
		if bound > 0 {
			f.Op, f.Bound, f.Within = "<=", bound, max(bound/15, 10)
		}
		testutil.Report(b, f)
	}
}
