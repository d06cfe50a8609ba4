package ilnphost

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// fetches returns how long transfers to the mobile host take, one after the other, in order of time. The
// session is warm: lengths and rates are known.
func (w *world) fetches(t *testing.T, n, bytes int) (took []time.Duration) {
	t.Helper()
	w.fetch(t, bytes)
	w.Run(3 * time.Second)
	for range n {
		took = append(took, w.fetch(t, bytes))
		w.Run(200 * time.Millisecond)
	}
	slices.Sort(took)
	return took
}

// fetch returns how long one takes.
func (w *world) fetch(t *testing.T, bytes int) time.Duration {
	t.Helper()
	from := w.Elapsed()
	b := w.mobile.Fetch(w.server, bytes)
	if !w.RunUntil(20*time.Second, b.IsDone) {
		t.Fatalf("a transfer of %d bytes has brought %d in 20 s", bytes, b.Delivered())
	}
	return w.Elapsed() - from
}

// TestFetches: a short transfer takes at most 1.1 times as long over several paths as over the better
// one alone, in the median, and 1.5 times in the worst case. Over 25 and 5 Mb/s the large one is left to
// the experiment paths-fetch: this sender takes packets that are 2.5 ms late for lost there, Linux does not.
func TestFetches(t *testing.T) {
	const rtt, long = 20 * time.Millisecond, 100 * time.Millisecond
	for _, wires := range [][]wire{
		{{100, rtt}, {100, rtt}}, {{100, rtt}, {50, rtt}}, {{100, rtt}, {20, rtt}}, {{25, rtt / 2}, {5, rtt / 2}},
		{{100, rtt / 2}, {20, long}}, {{100, rtt}, {20, rtt}, {20, 2 * long}},
	} {
		for _, bytes := range []int{100_000, 2_000_000} {
			if wires[0].mbps == 25 && bytes > 1_000_000 {
				continue
			}
			t.Run(fmt.Sprint(wires, bytes), func(t *testing.T) {
				alone := bulkWorld(t, true, wires[0]).fetches(t, 20, bytes)
				all := bulkWorld(t, true, wires...).fetches(t, 20, bytes)
				median, worst := all[10].Seconds()/alone[10].Seconds(), all[19].Seconds()/alone[10].Seconds()
				t.Logf("%v, %.2f; worst %.2f", alone[10], median, worst)
				if median > 1.1 || worst > 1.5 {
					t.Errorf("takes %v of %v alone", all, alone[10])
				}
			})
		}
	}
}
